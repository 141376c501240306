//! The section of the text about load: what is outside the limits first, then all figures. The
//! tables of bandwidths by pattern and of impact factors.

use std::time::Duration;

use super::load_words::{self, certainty};
use super::{Survey, words};
use campaign::quiet::findings::Certainty;
use campaign::quiet::roster::Roster;
use campaign::timetable::Watched;
use crew::location::Class;
use facts::severity::Severity;
use load::findings::{
    BandwidthFigures, Compared, CounterFigures, FarVictim, Grade, ImpactFigures, IsolationFigures,
    LoadFindings, LoadJudgement, LoadSettings, StarFigures,
};
use page::page::{Page, Words};

/// Most judgements of each kind.
const MOST: usize = 20;

/// Most sentences of evidence for a judgement.
const MOST_EVIDENCE: usize = 3;

/// Most patterns that were left out.
const MOST_LEFT_OUT: usize = 20;

/// Adds the section of a survey under load; nothing without load.
pub fn add(page: &mut Page, survey: &Survey) {
    let Some(load) = &survey.load else {
        return;
    };
    page.line("\nUnder load");
    for text in remarks(load) {
        page.paragraph(text, "  ");
    }
    for kind in kinds() {
        judgements(page, survey, load, kind);
    }
    bandwidths(page, &survey.roster, load);
    impacts(page, &survey.roster, load);
    for lines in [isolations(load), counters(load), left_out(load)] {
        if !lines.is_empty() {
            page.empty_line();
        }
        for line in lines {
            page.paragraph(line, "    ");
        }
    }
}

/// Returns what the load was, and what limits its figures.
pub fn remarks(load: &LoadFindings) -> Vec<String> {
    let mut remarks = vec![settings(&load.settings)];
    remarks.extend(
        load.aborted
            .as_ref()
            .map(|why| format!("The load ended early: {why}. The figures are partial.")),
    );
    remarks.extend(load.unjudged.as_ref().map(|why| format!("No verdict under load: {why}.")));
    if !load.unmeasured.is_empty() {
        remarks.push(format!(
            "Most measurements do not count, because processes waited for CPUs or did not measure: \
             {}.",
            load.unmeasured.join("; ")
        ));
    }
    if load.settings.is_partial {
        remarks.push(
            "Partial load: a cap kept it below what the NICs can do, so no figure is compared \
             with the topology."
                .into(),
        );
    }
    remarks.push(load_words::CLOSED_LOOP.into());
    let crossed = load.crossed.iter();
    remarks.extend(crossed.map(|links| load_words::crossed(links, scale(&load.bandwidths))));
    let is_of_system = |pattern: &str| pattern.starts_with("bisect:system");
    if load.bandwidths.iter().any(|bandwidth| is_of_system(&bandwidth.pattern)) {
        remarks.push(load_words::UNSEEN.into());
    }
    remarks
}

fn settings(load_settings: &LoadSettings) -> String {
    format!(
        "{}: at most {} of {} sent at once, operations of {}, window {}; {} of {} s, seed {}",
        load_settings.patterns,
        words::grouped(load_settings.most_aggressors.into()),
        words::counted(load_settings.nics.into(), "NIC"),
        words::size(load_settings.size_bytes),
        words::size(load_settings.window_bytes),
        words::counted(load_settings.slots.into(), "slot"),
        load_settings.slot_s,
        load_settings.seed,
    )
}

type JudgementKind = (&'static str, Severity, fn(&LoadJudgement) -> bool);

/// The titles of the kinds of judgements, and what belongs to them.
fn kinds() -> [JudgementKind; 4] {
    [
        ("Bad under load", Severity::Bad, |judgement| certainty(judgement) == Some(Certainty::Bad)),
        (
            "Suspect under load: not confirmed by retests with other roles",
            Severity::Suspect,
            |judgement| certainty(judgement) == Some(Certainty::Suspect),
        ),
        ("Transient under load: inside the limits in retests", Severity::Good, |judgement| {
            certainty(judgement) == Some(Certainty::Transient)
        }),
        ("Slow under load, no fault", Severity::Good, |judgement| judgement.grade == Grade::Slow),
    ]
}

fn judgements(
    page: &mut Page,
    survey: &Survey,
    load: &LoadFindings,
    (title, severity, is_shown): JudgementKind,
) {
    let all: Vec<&LoadJudgement> =
        load.judgements.iter().filter(|judgement| is_shown(judgement)).collect();
    if all.is_empty() {
        return;
    }
    page.empty_line();
    page.line(Words::first(severity, title));
    for finding in all.iter().take(MOST) {
        let name = load_words::unit(&survey.roster, &finding.unit);
        page.paragraph(format!("{name}: {}", load_words::sentence(finding)), "    ");
        for further in further(survey, finding) {
            page.indented(&further, "  ");
        }
    }
    page.and_more(all.len(), MOST);
}

/// The evidence of a judgement, and for a bad figure what to do next.
pub fn further(survey: &Survey, judgement: &LoadJudgement) -> Vec<String> {
    let mut sentences: Vec<String> =
        judgement.evidence.iter().take(MOST_EVIDENCE).cloned().collect();
    if matches!(certainty(judgement), Some(Certainty::Bad | Certainty::Suspect)) {
        let next = load_words::next_step(&survey.roster, judgement);
        sentences.push(format!("do: {next}"));
    }
    sentences
}

/// Returns how far other traffic classes keep load away.
fn isolations(load: &LoadFindings) -> Vec<String> {
    let line = |isolation: &IsolationFigures| {
        let (same, other) = (load_words::ratio(isolation.same), load_words::ratio(isolation.other));
        let found = match isolation.isolation {
            Some(part) => format!(
                "keeps {} of the load away ({})",
                load_words::ratio(part),
                isolation.grade.name()
            ),
            None => "nothing to isolate from".into(),
        };
        format!(
            "{} under {}: latency x{other}, in the class of the load x{same}: {found}",
            isolation.traffic_class, isolation.under
        )
    };
    load.isolations.iter().map(line).collect()
}

/// Returns what counters explain, by pattern. Marks of congestion are usual under load: they count
/// only beside a judgement.
pub fn counters(load: &LoadFindings) -> Vec<String> {
    let shows_marks = !load.judgements.is_empty();
    let line = |counter: &CounterFigures| {
        let role_pairs =
            [("senders and targets", &counter.aggressors), ("victims", &counter.victims)];
        let texts = role_pairs.into_iter().filter_map(|(role, counts)| {
            let texts = counts_in_words(counts, shows_marks);
            (!texts.is_empty()).then(|| format!("{role} {}", texts.join(", ")))
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| format!("{}: {}", counter.pattern, texts.join("; ")))
    };
    let mut lines: Vec<String> = load.counters.iter().filter_map(line).collect();
    if !lines.is_empty() {
        lines.insert(0, "Counters, summed over NICs and slots".into());
    }
    lines
}

/// The counts above 0 in words.
fn counts_in_words(counts: &[(Watched, u64)], shows_marks: bool) -> Vec<String> {
    let unmarked = counts.iter().find(|(watched, _)| *watched == Watched::Unmarked);
    let unmarked = unmarked.map_or(0, |(_, count)| *count);
    let text = |&(watched, count): &(Watched, u64)| {
        let number = || words::grouped(count);
        Some(match watched {
            _ if count == 0 => return None,
            Watched::Octets | Watched::Unmarked => return None,
            Watched::TxPaused => format!("paused by the switch for {}", time(count)),
            Watched::RxPaused => format!("paused the switch for {}", time(count)),
            Watched::Timeouts => format!("lost {} answers", number()),
            Watched::Retries => format!("sent {} packets again", number()),
            Watched::Refused => format!("{} requests refused: tables full", number()),
            Watched::Marked if !shows_marks => return None,
            Watched::Marked => {
                let part = count as f64 / count.saturating_add(unmarked) as f64;
                format!("{} of the packets marked as congested", load_words::percent(part))
            }
        })
    };
    counts.iter().filter_map(text).collect()
}

/// A time in nanoseconds in its unit.
fn time(ns: u64) -> String {
    let time = Duration::from_nanos(ns).as_secs_f64();
    if time < 0.1 {
        format!("{} ms", load_words::ratio(time * 1e3))
    } else {
        format!("{} s", load_words::ratio(time))
    }
}

fn left_out(load: &LoadFindings) -> Vec<String> {
    let all = &load.left_out;
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines.push("Left out".to_owned());
    }
    let shown = all.iter().take(MOST_LEFT_OUT);
    lines.extend(shown.map(|left_out| format!("{}: {}", left_out.what, left_out.reason)));
    if let more @ 1.. = all.len().saturating_sub(MOST_LEFT_OUT) {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Most rows of impact factors in the text.
const MOST_IMPACTS: usize = 40;

/// The unit of the bandwidths of a table: its factor and its name.
type BandwidthScale = (f64, &'static str);

/// Adds the table of bandwidths, and what stands out in each pattern. Nothing without bandwidths.
fn bandwidths(page: &mut Page, roster: &Roster, load: &LoadFindings) {
    let all = &load.bandwidths;
    if all.is_empty() {
        return;
    }
    let scale = scale(all);
    let text = |value: f64| load_words::ratio(value / scale.0);
    let measured = |figures: &BandwidthFigures, value: f64| {
        Words::from(figures.measured(value).map_or("-".into(), text))
    };
    let pattern = format!("Pattern ({})", scale.1);
    let columns = [pattern.as_str(), ">NICs", ">Mean", ">Min", ">Sum", ">Share of", "Grade"];
    let row = |figures: &BandwidthFigures| -> Vec<Words> {
        vec![
            figures.pattern.as_str().into(),
            words::grouped(figures.nics.into()).into(),
            measured(figures, figures.mean),
            measured(figures, figures.min),
            measured(figures, figures.sum),
            share(figures).into(),
            grade(figures.grade),
        ]
    };
    page.empty_line();
    page.table(&columns, all.iter().map(row));
    if let Some(quiet) = load.quiet_bandwidth {
        let (quiet, unit) = (text(quiet), scale.1);
        let note = format!(
            "Mean and Min: of a NIC that sends. Without load a NIC reaches {quiet} {unit}."
        );
        page.paragraph(note, "    ");
    }
    for note in all.iter().flat_map(|bandwidth| notes(roster, bandwidth, scale)) {
        page.paragraph(note, "    ");
    }
}

/// The word of a grade, with its severity.
fn grade(grade: Grade) -> Words {
    Words::verdict(grade.severity(), grade.name())
}

/// Returns what the mean is compared with.
fn share(figures: &BandwidthFigures) -> String {
    match (figures.share_of_theory, figures.ratio_to_quiet) {
        (Some(share), _) => format!("theory {}", load_words::ratio(share)),
        (None, Some(share)) => format!("quiet {}", load_words::ratio(share)),
        (None, None) => "-".into(),
    }
}

/// The slowest part and the worst target of a pattern, and the measurements that do not count.
fn notes(roster: &Roster, bandwidth: &BandwidthFigures, scale: BandwidthScale) -> Vec<String> {
    let pattern = &bandwidth.pattern;
    let mut notes = Vec::new();
    let slowest = bandwidth.sets.first().filter(|set| set.grade.is_worse());
    // A set may be slow by chance: the grade of the pattern says whether it counts.
    if let Some(set) = slowest.filter(|_| bandwidth.grade.is_worse()) {
        notes.push(format!(
            "{pattern}: slowest {}: {} {} a flow, {} times the median of equal parts",
            load_words::unit(roster, &set.unit),
            load_words::ratio(set.per_flow / scale.0),
            scale.1,
            load_words::ratio(set.ratio),
        ));
    }
    notes.extend(bandwidth.stars.first().map(|star| {
        let target = roster.name(star.target);
        format!("{pattern}: worst target {target}: {}", star_text(star))
    }));
    if bandwidth.unjudged > 0 {
        let count = words::counted(bandwidth.unjudged.into(), "measurement");
        notes.push(format!("{pattern}: {count} left out: processes waited for CPUs"));
    }
    notes
}

/// The figures of a target with many sources in words.
fn star_text(star: &StarFigures) -> String {
    let sum = star
        .ratio_to_quiet
        .map_or(String::new(), |ratio| format!("sum {} times quiet, ", load_words::ratio(ratio)));
    format!(
        "{} sources, {sum}fairness {}, smallest share {} of an equal one",
        star.sources,
        load_words::ratio(star.fairness),
        load_words::ratio(star.smallest_share),
    )
}

/// The largest unit in which each mean is at least 1.
fn scale(all: &[BandwidthFigures]) -> BandwidthScale {
    let means = all.iter().filter_map(|bandwidth| bandwidth.measured(bandwidth.mean));
    let least = means.fold(f64::INFINITY, f64::min);
    let units = [(1e9, "GB/s"), (1e6, "MB/s")];
    let fitting = units.into_iter().find(|(factor, _)| least >= *factor);
    fitting.unwrap_or((1e6, "MB/s"))
}

/// Adds a table of impact factors for each pattern, test and traffic class of victims.
fn impacts(page: &mut Page, roster: &Roster, load: &LoadFindings) {
    let mut rest = load.impacts.as_slice();
    let mut left = MOST_IMPACTS;
    while let Some(first) = rest.first().filter(|_| left > 0) {
        let is_same = |figures: &ImpactFigures| {
            figures.under == first.under
                && figures.test == first.test
                && figures.traffic_class == first.traffic_class
        };
        let count = rest.iter().take_while(|impact| is_same(impact)).count();
        let (group, others) = rest.split_at(count);
        page.empty_line();
        let shown = &group[..count.min(left)];
        page.paragraph(title(first), "    ");
        group_table(page, shown);
        for victim in shown.iter().flat_map(unnamed_far_victims) {
            page.paragraph(victim.sentence(roster), "    ");
        }
        left -= shown.len();
        rest = others;
    }
    page.and_more(load.impacts.len(), MOST_IMPACTS);
    let resolutions = load.impacts.iter().map(|impact| impact.resolution);
    if let Some(resolution) = resolutions.max_by(f64::total_cmp) {
        let note = format!(
            "Ratios of latencies, load / quiet: median with its 95 % interval, p99, p99.9. Quiet \
             medians repeat within a ratio of {}.",
            load_words::ratio(resolution)
        );
        page.paragraph(note, "    ");
    }
}

/// The victims far above their class that no judgement names.
pub fn unnamed_far_victims(figures: &ImpactFigures) -> &[FarVictim] {
    if figures.grade.is_worse() { &[] } else { &figures.far_above }
}

/// Returns what the victims of a table measured, and what loaded the fabric.
fn title(impact: &ImpactFigures) -> String {
    let class = impact
        .traffic_class
        .as_ref()
        .map_or(String::new(), |traffic_class| format!("; victims in {traffic_class}"));
    format!("{} (us) under {}{class}", words::test(&impact.test), impact.under)
}

fn group_table(page: &mut Page, group: &[ImpactFigures]) {
    let columns = [
        "Spread", "Class", ">Pairs", ">Quiet", ">Load", ">Ratio", ">95 %", ">p99", ">p99.9",
        "Grade",
    ];
    let factor = |compared: Option<Compared>| {
        compared.map_or("-".into(), |compared| load_words::ratio(compared.impact))
    };
    let row = |figures: &ImpactFigures| -> Vec<Words> {
        let interval = figures.median.interval.map_or("-".into(), |(low, high)| {
            format!("{}-{}", load_words::ratio(low), load_words::ratio(high))
        });
        vec![
            figures.spread.name().into(),
            figures.class.map_or("all", Class::name).into(),
            figures.victims.to_string().into(),
            load_words::ratio(figures.median.quiet / 1e3).into(),
            load_words::ratio(figures.median.loaded / 1e3).into(),
            factor(Some(figures.median)).into(),
            interval.into(),
            factor(figures.p99).into(),
            factor(figures.p999).into(),
            grade(figures.grade),
        ]
    };
    page.table(&columns, group.iter().map(row));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        SWITCH, good, good_load, judgement, links, loaded, mixed_load, survey,
    };
    use super::*;
    use campaign::quiet::roster::NicId;
    use load::findings::{LinkCoverage, LinkKind, LoadFigure, LoadUnit};
    use page::table::TextStyle;

    /// The lines of the section.
    fn section(survey: &Survey) -> String {
        let mut page = Page::default();
        add(&mut page, survey);
        page.text(TextStyle::Plain).trim().to_owned()
    }

    #[test]
    fn is_empty_without_load() {
        assert_eq!(section(&survey(good(), Ok(()))), "");
    }

    #[test]
    fn shows_good_load_in_one_screen() {
        let expected = "\
Under load
standard: at most 8 of 8 NICs sent at once, operations of 64K, window 1M; 408
  slots of 0.25 s, seed 7
Closed loop: a NIC sends on when answers arrive; a slow fabric gets less load.

Pattern (GB/s)  NICs  Mean   Min  Sum     Share of  Grade
bisect:switch      8  21.5  20.9  172  theory 0.94  good
Mean and Min: of a NIC that sends. Without load a NIC reaches 21.9 GB/s.

write-lat 8 (us) under all2all
Spread  Class  Pairs  Quiet  Load  Ratio       95 %   p99  p99.9  Grade
mixed   all       24   1.90  2.09   1.10  1.06-1.15  1.30   1.80  good
Ratios of latencies, load / quiet: median with its 95 % interval, p99, p99.9.
    Quiet medians repeat within a ratio of 1.04.";
        assert_eq!(section(&loaded(good_load())), expected);
    }

    #[test]
    fn colors_figures_without_a_verdict_as_suspect() {
        let mut page = Page::default();
        add(&mut page, &loaded(mixed_load()));
        let text = page.text(TextStyle::Colored);
        assert!(text.contains("\x1b[33mnot judged\x1b[0m"), "{text}");
    }

    #[test]
    fn says_how_much_of_the_links_was_seen() {
        let links = LinkCoverage {
            kind: LinkKind::Switches,
            links: 56,
            crossed: 54,
            least: 20.1e9,
            median: 49.8e9,
        };
        let text = section(&loaded(LoadFindings { crossed: vec![links], ..good_load() }));
        let expected = "
Links between switches of a group: flows crossed 54 of 56, with up to 49.8 GB/s
  in the median and 20.1 GB/s at least. A slow link that carries as much looks
  good.
";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn shows_judgements_first() {
        let expected = "\
Under load
standard: at most 8 of 8 NICs sent at once, operations of 64K, window 1M; 408
  slots of 0.25 s, seed 7
Closed loop: a NIC sends on when answers arrive; a slow fabric gets less load.
NICs cannot see one bad cable of a bundle while adaptive routing has room on the
  others: the counters of the switches show it.

Bad under load
switch 003.12 (4 NICs): bandwidth 0.44 times the median of equal parts under
    bisect:switch (good: at least 0.90)
  8 of 8 flows at this switch are slow, 0 of 24 at others
  no pauses, no timeouts
  do: have the fabric manager list rate, width and errors of all links of switch
    003.12

Suspect under load: not confirmed by retests with other roles
links from group 000 to group 002: bandwidth 0.25 times the median of equal
    parts under bisect:system (good: at least 0.90)
  do: have the fabric manager list the links from group 000 to group 002: which
    are down, slow, or have errors

Transient under load: inside the limits in retests
nid000417 cxi0: bandwidth 0.44 times the median of equal parts under
    bisect:switch (good: at least 0.90)

Slow under load, no fault
nid000418 cxi1: targets paused the switch 12 % of the time under incast:8 (good:
    at most 1.0 %)

Pattern (GB/s)            NICs  Mean   Min   Sum     Share of  Grade
bisect:switch                8  21.5  20.9   172  theory 0.94  good
bisect:system, both ways     8  21.5  5.40   172  theory 0.94  good
incast:8                     8  2.65  2.60  21.2   quiet 0.98  slow
shift                        8  21.5  20.9   172            -  not judged
Mean and Min: of a NIC that sends. Without load a NIC reaches 21.9 GB/s.
bisect:system, both ways: 1 measurement left out: processes waited for CPUs
incast:8: worst target nid000418 cxi1: 8 sources, sum 0.96 times quiet, fairness
    0.99, smallest share 0.62 of an equal one

write-lat 8 (us) under all2all
Spread    Class        Pairs  Quiet  Load  Ratio       95 %   p99  p99.9  Grade
mixed     same switch     24   1.90  2.09   1.10  1.06-1.15  1.30   1.80  good
switches  all             24   1.90  2.09   1.10  1.06-1.15  1.30   1.80  good
Far above its class: nid000416 cxi0 (003.12) to nid000416 cxi1 (003.12): impact
    factor 3.00, quiet latency 1.02 times the median of the class.

write-lat 8 (us) under incast-same:8; victims in LOW_LATENCY
Spread  Class  Pairs  Quiet  Load  Ratio  95 %  p99  p99.9  Grade
groups  all        4   1.90   249    131     -    -      -  not judged
Ratios of latencies, load / quiet: median with its 95 % interval, p99, p99.9.
    Quiet medians repeat within a ratio of 1.04.

LOW_LATENCY under incast:32: latency x1.10, in the class of the load x3.00:
    keeps 0.95 of the load away (good)
LOW_LATENCY under incast:32: latency x1.10, in the class of the load x1.10:
    nothing to isolate from

Counters, summed over NICs and slots
incast:8: senders and targets paused by the switch for 1.20 s, 1,204 requests
    refused: tables full, 3.0 % of the packets marked as congested; victims
    paused by the switch for 2.10 ms, lost 3 answers, sent 3 packets again

Left out
incast:32: only 8 NICs";
        let text = section(&loaded(mixed_load()));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.join("\n"), expected);
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
    }

    #[test]
    fn says_what_limits_the_figures() {
        let mut load = good_load();
        load.settings.is_partial = true;
        load.unjudged = Some("traffic of others at 3 of 8 NICs".into());
        load.aborted = Some("cxi0 of nid000417 is down".into());
        let remarks = remarks(&load).join("\n");
        for text in [
            "The load ended early: cxi0 of nid000417 is down.",
            "No verdict under load: traffic of others at 3 of 8 NICs.",
            "Partial load: ",
            "Closed loop: ",
        ] {
            assert!(remarks.contains(text), "{remarks}");
        }
        // Without a bisection of the system nothing is said about bundles.
        assert!(!remarks.contains("bundle"), "{remarks}");
    }

    #[test]
    fn limits_the_number_of_judgements() {
        let bad = Some(Certainty::Bad);
        let judgement_for =
            |nic| judgement(LoadUnit::Nic(NicId(nic)), LoadFigure::Bandwidth, Grade::Bad, bad);
        let mut load = good_load();
        load.judgements = (0..8).cycle().take(23).map(judgement_for).collect();
        load.judgements.push(judgement(SWITCH, LoadFigure::Impact, Grade::Slow, None));
        let text = section(&loaded(load));
        assert_eq!(text.matches("times the median of equal parts").count(), MOST);
        assert!(text.contains("\nand 3 more\n\nSlow under load"), "{text}");
    }

    #[test]
    fn ends_the_text_of_a_survey() {
        let survey = loaded(mixed_load());
        let text = crate::result::text::page(&survey).text(TextStyle::Plain);
        assert!(text.ends_with(&format!("\n\n{}\n", section(&survey))), "{text}");
    }

    #[test]
    fn shows_figures_of_slow_fabrics_in_their_unit() {
        let mut load = good_load();
        for bandwidth in &mut load.bandwidths {
            (bandwidth.mean, bandwidth.min, bandwidth.sum) = (24.24e6, 6.06e6, 193.9e6);
        }
        load.quiet_bandwidth = Some(48.48e6);
        let text = section(&loaded(load));
        let row = "bisect:switch      8  24.2  6.06  194  theory 0.94  good";
        assert!(text.contains("Pattern (MB/s)") && text.contains(row), "{text}");
        assert!(text.contains("reaches 48.5 MB/s."), "{text}");
    }

    #[test]
    fn shows_no_figures_where_nothing_counts() {
        let mut load = good_load();
        let counted = load.bandwidths[0].clone();
        let none = BandwidthFigures { pattern: "quiet".into(), nics: 0, mean: 0.0, ..counted };
        load.bandwidths.push(none);
        let text = section(&loaded(load));
        let row = "quiet              0     -     -    -";
        assert!(text.contains("Pattern (GB/s)") && text.contains(row), "{text}");
    }

    #[test]
    fn names_slowest_part_only_if_it_is_not_good() {
        let mut load = good_load();
        let has_part = |load| section(&loaded(load)).contains(": slowest links");
        load.bandwidths[0].sets = vec![links(0, 1, 0.95)];
        assert!(!has_part(load.clone()));
        load.bandwidths[0].sets = vec![links(0, 1, 0.85)];
        assert!(!has_part(load.clone()));
        load.bandwidths[0].grade = Grade::Slow;
        assert!(has_part(load));
    }
}
