//! The tables of a survey under load: bandwidths by pattern, and impact factors.

use super::{load_words, words};
use campaign::quiet::roster::Roster;
use crew::location::Class;
use load::findings::{
    BandwidthFigures, Compared, FarVictim, Grade, ImpactFigures, LoadFindings, StarFigures,
};
use page::page::{Page, Words};

/// Most rows of impact factors in the text.
const MOST_IMPACTS: usize = 40;

/// The unit of the bandwidths of a table: its factor and its name.
type BandwidthScale = (f64, &'static str);

/// Adds the table of bandwidths, and what stands out in each pattern. Nothing without bandwidths.
pub fn bandwidths(page: &mut Page, roster: &Roster, load: &LoadFindings) {
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

/// Returns the slowest part and the worst target of a pattern, and the measurements that do not
/// count.
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

/// Returns the figures of a target with many sources in words.
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

/// Returns the largest unit in which each mean is at least 1.
pub fn scale(all: &[BandwidthFigures]) -> BandwidthScale {
    let means = all.iter().filter_map(|bandwidth| bandwidth.measured(bandwidth.mean));
    let least = means.fold(f64::INFINITY, f64::min);
    let units = [(1e9, "GB/s"), (1e6, "MB/s")];
    let fitting = units.into_iter().find(|(factor, _)| least >= *factor);
    fitting.unwrap_or((1e6, "MB/s"))
}

/// Adds a table of impact factors for each pattern, test and traffic class of victims.
pub fn impacts(page: &mut Page, roster: &Roster, load: &LoadFindings) {
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

/// Returns the victims far above their class that no judgement names.
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
