//! What load does to the latencies of victims, and how far another traffic class keeps load away
//! from them (load.md 3.6, 3.7).

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{
    Compared, FarVictim, Grade, ImpactFigures, IsolationFigures, LoadFigure, LoadJudgement,
    LoadUnit, Spread,
};
use super::limits::{GradeLimits, IMPACT, IMPACT_P99, ISOLATION, ResultFacts, worst};
use super::slot::{VictimKey, under_name};
use super::spec::Pattern;
use super::victims::{self, MeasuredPair, P99, P999, PairMedians, Victims};
use campaign::quiet::roster::{Pair, Roster};
use crew::location::Class;
use facts::robust::{LEAST_FOR_INTERVAL, mean, median, median_interval, sigma};

/// Smaller impact factors than this are called 1.
const LEAST_IMPACT: f64 = 1.05;

/// Victims with an impact factor of this many robust deviations above the median are named.
const OUTLYING: f64 = 3.0;

/// Most victims that are named for a class.
pub const MOST_FAR: usize = 5;

/// The figures of all victims under a pattern, then of each class.
pub fn figures(key: VictimKey, victims: &Victims, facts: &ResultFacts) -> Vec<ImpactFigures> {
    let classes = victims.classes().map(Some);
    let scopes = [None].into_iter().chain(classes);
    let mut figures: Vec<ImpactFigures> =
        scopes.filter_map(|class| class_impact(key, victims, class, facts)).collect();
    if let Some((all, classes)) = figures.split_first_mut() {
        let graded = classes.iter().map(|class| (class.grade, class.median.impact));
        all.grade = grade_of_all(all.grade, &graded.collect::<Vec<_>>());
    }
    figures
}

/// The grade of all victims, from their own grade and from grade and impact factor of each class:
/// in the median, many good pairs of one class hide bad ones of another class.
fn grade_of_all(all: Grade, classes: &[(Grade, f64)]) -> Grade {
    let is_open = |class: &(Grade, f64)| class.0 == Grade::Unjudged && class.1 > IMPACT.good;
    match worst(classes.iter().map(|class| class.0).chain([all])) {
        Grade::Good if classes.iter().any(is_open) => Grade::Unjudged,
        grade => grade,
    }
}

/// The figures of a class; `None` if no pair of it has both medians.
///
/// One verdict deviates from the table of load.md 3.7 on purpose. A pattern that is no incast fills
/// links that victims share, at the latest in a tapered system: latencies may grow without a fault,
/// so the grade is slow at most. Incasts are judged fully, because congestion management keeps the
/// latency of victims elsewhere.
fn class_impact(
    key: VictimKey,
    victims: &Victims,
    class: Option<Class>,
    facts: &ResultFacts,
) -> Option<ImpactFigures> {
    let pair_medians = victims.pairs(class);
    let measured: Vec<MeasuredPair> = pair_medians.filter_map(PairMedians::measured).collect();
    let impacts: Vec<f64> = measured.iter().map(MeasuredPair::impact).collect();
    let quiet_values: Vec<f64> = measured.iter().map(|pair| pair.quiet).collect();
    let loaded_values: Vec<f64> = measured.iter().map(|pair| pair.loaded).collect();
    let median = Compared {
        quiet: median(&quiet_values)?,
        loaded: median(&loaded_values)?,
        impact: median(&impacts)?,
        interval: median_interval(&impacts),
    };
    let blocks = victims.blocks(class);
    let p99 = victims::compare(&blocks, P99, facts.seed);
    let all = victims::merged(&blocks);
    let resolution = resolution(victims.pairs(class));
    let is_incast = matches!(key.under, Pattern::Incast(_));
    let p99_compared = p99.filter(|_| !facts.is_software && key.spread == Spread::Mixed);
    let tail_grade =
        p99_compared.map_or(Grade::Good, |compared| grade(compared, IMPACT_P99, resolution));
    let grade = match grade(median, IMPACT, resolution).max(tail_grade) {
        _ if measured.len() < LEAST_FOR_INTERVAL || key.at_target => Grade::Unjudged,
        Grade::Bad if !is_incast => Grade::Slow,
        grade => grade,
    };
    Some(ImpactFigures {
        under: under_name(key.under, key.at_target),
        spread: key.spread,
        test: facts.victim_test.clone(),
        traffic_class: facts.other_class.clone().filter(|_| key.in_other_class),
        class,
        victims: measured.len() as u32,
        unjudged: (victims.pairs(class).count() - measured.len()) as u32,
        resolution,
        median,
        p99,
        p999: victims::compare(&blocks, P999, facts.seed),
        far_above: class.map_or(Vec::new(), |_| far_above(&measured)),
        quiet_histogram: all.quiet.bins(),
        loaded_histogram: all.loaded.bins(),
        grade,
    })
}

/// The impact factor that the interval of a larger one is above: smaller ones are chance or drift.
fn least_impact(resolution: f64) -> f64 {
    LEAST_IMPACT.max(resolution)
}

/// The largest ratio of two quiet medians of a repetition, in either direction: of each repetition
/// the median over the pairs.
pub fn resolution<'a>(pairs: impl Iterator<Item = &'a PairMedians>) -> f64 {
    let mut repetition_lists: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        let drifts = repetition_lists.entry(pair.repetition).or_default();
        drifts.extend(pair.drift());
    }
    let drifts = repetition_lists.values().filter_map(|drifts| median(drifts));
    drifts.fold(1.0, |most, drift| most.max(drift).max(1.0 / drift))
}

/// The grade of an impact factor. It is above 1 only if its interval is above what chance and drift
/// explain, and bad only if the interval is beyond the limit too.
fn grade(compared: Compared, limits: GradeLimits, resolution: f64) -> Grade {
    let Some((low, _)) = compared.interval else {
        return Grade::Good;
    };
    if compared.impact <= limits.good || low <= least_impact(resolution) {
        Grade::Good
    } else if compared.impact > limits.slow && low > limits.slow {
        Grade::Bad
    } else {
        Grade::Slow
    }
}

/// The indices of the impact factors that are more than 3 robust deviations above the median.
fn outlying(impacts: &[f64]) -> Vec<usize> {
    let middle = median(impacts).unwrap_or(f64::NAN);
    let most = middle + OUTLYING * sigma(impacts, middle);
    let all = impacts.iter().enumerate();
    all.filter(|(_, impact)| **impact > most).map(|(index, _)| index).collect()
}

/// The victims of a class whose impact factor is far above it, the worst first. Good ones are not
/// worth a name, and a class that is too small for a verdict has none.
fn far_above(class_pairs: &[MeasuredPair]) -> Vec<FarVictim> {
    let impacts: Vec<f64> = class_pairs.iter().map(MeasuredPair::impact).collect();
    let quiet: Vec<f64> = class_pairs.iter().map(|pair| pair.quiet).collect();
    let Some(usual) = median(&quiet).filter(|_| quiet.len() >= LEAST_FOR_INTERVAL) else {
        return Vec::new();
    };
    let mut found: BTreeMap<Pair, Vec<MeasuredPair>> = BTreeMap::new();
    let outlying = outlying(&impacts).into_iter().map(|index| class_pairs[index]);
    for victim in outlying.filter(|pair| pair.impact() > IMPACT.good) {
        found.entry(victim.pair).or_default().push(victim);
    }
    let mean_of = |all: &[MeasuredPair], figure: fn(&MeasuredPair) -> f64| {
        mean(&all.iter().map(figure).collect::<Vec<f64>>())
    };
    let victim = |(pair, all): (Pair, Vec<MeasuredPair>)| {
        Some(FarVictim {
            pair,
            impact: mean_of(&all, MeasuredPair::impact)?,
            quiet_ratio: mean_of(&all, |pair| pair.quiet)? / usual,
        })
    };
    let mut far: Vec<FarVictim> = found.into_iter().filter_map(victim).collect();
    far.sort_by(|one, other| other.impact.total_cmp(&one.impact));
    far.truncate(MOST_FAR);
    far
}

impl FarVictim {
    /// A sentence that names the pair, its impact factor, and its latency without load: a pair that
    /// is slow there too is no matter of the load alone.
    pub fn sentence(&self, roster: &Roster) -> String {
        let [initiator, target] = self.pair.nics().map(|nic| {
            let place = roster.location(nic).map(|place| format!(" ({place})"));
            roster.name(nic) + &place.unwrap_or_default()
        });
        format!(
            "Far above its class: {initiator} to {target}: impact factor {:.2}, quiet latency {:.2} \
             times the median of the class.",
            self.impact, self.quiet_ratio
        )
    }
}

/// Impact factor of victims in the class of the aggressors from which on there is something to
/// isolate from, and which its interval excludes.
const WORTH_ISOLATING: f64 = 1.2;
const EXCLUDED: f64 = 1.1;

/// The figures of each pattern under which victims measured in both classes, over the spreads that
/// both have.
pub fn isolation_figures(
    victims: &BTreeMap<VictimKey, Victims>,
    other_class: Option<&str>,
) -> Vec<IsolationFigures> {
    let patterns: BTreeSet<(Pattern, bool)> = victims
        .keys()
        .filter(|key| key.in_other_class)
        .map(|key| (key.under, key.at_target))
        .collect();
    let pattern_isolation = |(under, at_target): (Pattern, bool)| {
        let key = |spread, in_other_class| VictimKey { under, at_target, spread, in_other_class };
        let spreads = [Spread::Mixed, Spread::Switches, Spread::Groups];
        let mut pairs: [Vec<&PairMedians>; 2] = Default::default();
        for spread in spreads {
            let both = [false, true].map(|is_other| victims.get(&key(spread, is_other)));
            if let [Some(same_victims), Some(other_victims)] = both {
                pairs[0].extend(same_victims.pairs(None));
                pairs[1].extend(other_victims.pairs(None));
            }
        }
        let [same, other] = pairs.each_ref().map(|medianses| -> Vec<f64> {
            let impacts = medianses.iter().copied().filter_map(PairMedians::impact);
            impacts.collect()
        });
        let (same_value, other_value) = (median(&same)?, median(&other)?);
        let least = least_impact(resolution(pairs.concat().into_iter()));
        let low = median_interval(&same).map_or(0.0, |median_interval| median_interval.0);
        let (isolation, grade) = judged((same_value, low), other_value, least);
        Some(IsolationFigures {
            under: under_name(under, at_target),
            traffic_class: other_class?.to_owned(),
            same: same_value,
            other: other_value,
            isolation,
            grade,
        })
    };
    patterns.into_iter().filter_map(pattern_isolation).collect()
}

/// Returns isolation and grade of the impact factors of both classes: of the aggressors, with the
/// lower end of its interval, and the other one. Drift and chance explain factors up to `least`.
fn judged((same, low): (f64, f64), other: f64, least: f64) -> (Option<f64>, Grade) {
    if same < WORTH_ISOLATING || low <= EXCLUDED.max(least) {
        return (None, Grade::Unjudged);
    }
    let isolation = isolation(same, other);
    let grade = if other <= least { Grade::Good } else { ISOLATION.grade(isolation) };
    (Some(isolation), grade)
}

/// Returns 1 if the other class keeps all load away, and 0 if it keeps nothing away.
fn isolation(same: f64, other: f64) -> f64 {
    1.0 - (other - 1.0) / (same - 1.0)
}

/// The judgement on figures that are not good.
pub fn judgement(isolation: &IsolationFigures) -> Option<LoadJudgement> {
    let value = isolation.isolation.filter(|_| isolation.grade.is_worse())?;
    Some(LoadJudgement::new(
        LoadFigure::Isolation,
        LoadUnit::TrafficClass,
        isolation.under.clone(),
        (isolation.grade, value, ISOLATION.good),
        vec![format!(
            "Traffic class {}: impact factor {:.2}, and {:.2} in the class of the load.",
            isolation.traffic_class, isolation.other, isolation.same
        )],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::quiet::roster::NicId;

    #[test]
    fn grade_of_all_victims_is_the_worst_of_their_classes() {
        use Grade::{Bad, Good, Unjudged};
        for (classes, expected) in [
            (&[(Good, 1.0), (Bad, 7.75)][..], Bad),
            (&[(Good, 1.0), (Unjudged, 7.75)], Unjudged),
            (&[(Good, 1.0), (Unjudged, 1.1)], Good),
            (&[(Bad, 3.0), (Unjudged, 7.75)], Bad),
        ] {
            assert_eq!(grade_of_all(Good, classes), expected, "{classes:?}");
        }
        assert_eq!(grade_of_all(Unjudged, &[(Unjudged, 7.75)]), Unjudged);
    }

    #[test]
    fn class_of_vector_23_is_good_and_its_last_two_are_named() {
        let impacts = [0.98, 1.00, 1.01, 1.02, 1.03, 1.05, 1.40, 3.00];
        let compared = Compared {
            quiet: 1.0,
            loaded: 1.025,
            impact: median(&impacts).unwrap(),
            interval: median_interval(&impacts),
        };
        assert_eq!(grade(compared, IMPACT, 1.0), Grade::Good);
        assert_eq!(outlying(&impacts), [6, 7]);
    }

    /// The pairs of NIC 0 with NICs from 1 on, whose quiet latency is 2 µs but for the last one.
    fn measured(impacts: &[f64], last_quiet: f64) -> Vec<MeasuredPair> {
        let last = impacts.len() - 1;
        let pair = |(at, impact): (usize, &f64)| {
            let quiet = if at == last { last_quiet } else { 2000.0 };
            MeasuredPair {
                pair: Pair { initiator: NicId(0), target: NicId(at as u32 + 1) },
                quiet,
                loaded: quiet * impact,
            }
        };
        impacts.iter().enumerate().map(pair).collect()
    }

    #[test]
    fn names_the_worst_victims_of_a_class_that_is_large_enough() {
        let mut impacts = vec![0.98, 1.0, 1.01, 1.02, 1.03, 1.15, 3.0];
        assert_eq!(far_above(&measured(&impacts, 3000.0)), []);
        impacts.insert(0, 1.0);
        let far = far_above(&measured(&impacts, 3000.0));
        let target = NicId(8);
        assert_eq!(far.len(), 1, "{far:?}");
        assert_eq!((far[0].pair.target, far[0].quiet_ratio), (target, 1.5));
        assert!((far[0].impact - 3.0).abs() < 1e-9);

        let many = [&[1.0, 1.02].repeat(10)[..], &[3.0, 4.0, 5.0, 6.0, 7.0, 8.0]].concat();
        let far = far_above(&measured(&many, 2000.0));
        let impacts: Vec<f64> = far.iter().map(|victim| victim.impact.round()).collect();
        assert_eq!(impacts, [8.0, 7.0, 6.0, 5.0, 4.0]);
    }

    #[test]
    fn impact_within_the_resolution_is_none() {
        let compared = |impact, low| Compared {
            quiet: 1.0,
            loaded: impact,
            impact,
            interval: Some((low, 2.0 * impact)),
        };
        assert_eq!(grade(compared(1.5, 1.3), IMPACT, 1.0), Grade::Slow);
        assert_eq!(grade(compared(1.5, 1.3), IMPACT, 1.3), Grade::Good);
        assert_eq!(grade(compared(1.5, 1.05), IMPACT, 1.0), Grade::Good);
        assert_eq!(grade(compared(2.5, 1.9), IMPACT, 1.0), Grade::Slow);
        assert_eq!(grade(compared(2.5, 2.1), IMPACT, 1.0), Grade::Bad);
    }

    #[test]
    fn isolation_is_that_of_vector_24() {
        assert!((isolation(11.0, 1.5) - 0.95).abs() < 1e-9);
        assert_eq!(judged((11.0, 9.0), 1.5, 1.05).1, Grade::Good);
    }

    #[test]
    fn drift_is_no_lack_of_isolation() {
        assert_eq!(judged((1.6, 1.5), 1.4, 1.05).1, Grade::Bad);
        assert_eq!(judged((1.6, 1.5), 1.4, 1.45).1, Grade::Good);
        assert_eq!(judged((1.6, 1.5), 1.4, 1.55), (None, Grade::Unjudged));
        assert_eq!(judged((1.6, 1.1), 1.4, 1.05), (None, Grade::Unjudged));
        assert_eq!(judged((1.1, 1.1), 1.0, 1.05), (None, Grade::Unjudged));
    }
}
