//! The tables of a survey under load: bandwidths by pattern, and impact factors.

use super::{load_words, words};
use crate::table::{self, Align};
use cluster::load::findings::{
    BandwidthFigures, Compared, FarVictim, Grade, ImpactFigures, LoadFindings, StarFigures,
};
use cluster::location::Class;
use cluster::survey::roster::Roster;

/// Most rows of impact factors in the text.
const MOST_IMPACTS: usize = 40;

/// The unit of the bandwidths of a table: its factor and its name.
type BandwidthScale = (f64, &'static str);

/// Returns the table of bandwidths, and what stands out in each pattern. Empty without bandwidths.
pub fn bandwidths(roster: &Roster, load: &LoadFindings) -> Vec<String> {
    let all = &load.bandwidths;
    if all.is_empty() {
        return Vec::new();
    }
    let scale = scale(all);
    let text = |value: f64| load_words::ratio(value / scale.0);
    let pattern = format!("Pattern ({})", scale.1);
    let titles = [&pattern, "NICs", "Mean", "Min", "Sum", "Share of", "Grade"];
    let row = |figures: &BandwidthFigures| {
        vec![
            figures.pattern.clone(),
            words::grouped(figures.nics.into()),
            text(figures.mean),
            text(figures.min),
            text(figures.sum),
            share(figures),
            load_words::grade(figures.grade).into(),
        ]
    };
    let mut align = [Align::Right; 7];
    align[0] = Align::Left;
    align[6] = Align::Left;
    let mut lines = table::lines(&titles, all.iter().map(row).collect(), &align);
    if let Some(quiet) = load.quiet_bandwidth {
        let quiet = text(quiet);
        lines.push(format!(
            "Mean and Min: of a NIC that sends. Without load a NIC reaches {quiet} {}.",
            scale.1
        ));
    }
    for bandwidth in all {
        lines.extend(notes(roster, bandwidth, scale));
    }
    lines
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
    let slowest = bandwidth.sets.first().filter(|set| is_worse(set.grade));
    // A set may be slow by chance: the grade of the pattern says whether it counts.
    if let Some(set) = slowest.filter(|_| is_worse(bandwidth.grade)) {
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

fn is_worse(grade: Grade) -> bool {
    matches!(grade, Grade::Slow | Grade::Bad)
}

/// Returns the largest unit in which each mean is at least 1.
pub fn scale(all: &[BandwidthFigures]) -> BandwidthScale {
    let least = all.iter().map(|bandwidth| bandwidth.mean).fold(f64::INFINITY, f64::min);
    let units = [(1e9, "GB/s"), (1e6, "MB/s")];
    let fitting = units.into_iter().find(|(factor, _)| least >= *factor);
    fitting.unwrap_or((1e6, "MB/s"))
}

/// Returns a table of impact factors for each pattern, test and traffic class of victims. Lines of
/// different tables are separated by an empty one.
pub fn impacts(roster: &Roster, load: &LoadFindings) -> Vec<String> {
    let mut lines = Vec::new();
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
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let shown = &group[..count.min(left)];
        lines.push(title(first));
        lines.extend(group_texts(shown));
        let far = shown.iter().flat_map(unnamed_far_victims);
        lines.extend(far.map(|victim| victim.sentence(roster)));
        left -= shown.len();
        rest = others;
    }
    if let more @ 1.. = load.impacts.len().saturating_sub(MOST_IMPACTS) {
        lines.push(format!("and {more} more"));
    }
    let resolutions = load.impacts.iter().map(|impact| impact.resolution);
    if let Some(resolution) = resolutions.max_by(f64::total_cmp) {
        lines.push(format!(
            "Ratios of latencies, load / quiet: median with its 95 % interval, p99, p99.9. Quiet \
             medians repeat within a ratio of {}.",
            load_words::ratio(resolution)
        ));
    }
    lines
}

/// Returns the victims far above their class that no judgement names.
pub fn unnamed_far_victims(figures: &ImpactFigures) -> &[FarVictim] {
    if is_worse(figures.grade) { &[] } else { &figures.far_above }
}

/// Returns what the victims of a table measured, and what loaded the fabric.
fn title(impact: &ImpactFigures) -> String {
    let class = impact
        .traffic_class
        .as_ref()
        .map_or(String::new(), |traffic_class| format!("; victims in {traffic_class}"));
    format!("{} (us) under {}{class}", words::test(&impact.test), impact.under)
}

fn group_texts(group: &[ImpactFigures]) -> Vec<String> {
    let titles =
        ["Spread", "Class", "Pairs", "Quiet", "Load", "Ratio", "95 %", "p99", "p99.9", "Grade"];
    let factor = |compared: Option<Compared>| {
        compared.map_or("-".into(), |compared| load_words::ratio(compared.impact))
    };
    let row = |figures: &ImpactFigures| {
        let interval = figures.median.interval.map_or("-".into(), |(low, high)| {
            format!("{}-{}", load_words::ratio(low), load_words::ratio(high))
        });
        vec![
            load_words::spread(figures.spread).into(),
            figures.class.map_or("all", Class::name).into(),
            figures.victims.to_string(),
            load_words::ratio(figures.median.quiet / 1e3),
            load_words::ratio(figures.median.loaded / 1e3),
            factor(Some(figures.median)),
            interval,
            factor(figures.p99),
            factor(figures.p999),
            load_words::grade(figures.grade).into(),
        ]
    };
    let mut align = [Align::Right; 10];
    align[..2].fill(Align::Left);
    align[9] = Align::Left;
    table::lines(&titles, group.iter().map(row).collect(), &align)
}
