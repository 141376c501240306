//! How far another traffic class keeps load away from victims.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Grade, IsolationFigures, LoadFigure, LoadJudgement, LoadUnit, Spread};
use super::impacts::{self, least_impact};
use super::limits::ISOLATION;
use super::names::under_name;
use super::pattern::Pattern;
use super::victims::{PairMedians, Victims};
use crate::slot::VictimKey;
use facts::robust::{median, median_interval};

/// Impact factor of victims in the class of the aggressors from which on there is something to
/// isolate from, and which its interval excludes.
const WORTH_ISOLATING: f64 = 1.2;
const EXCLUDED: f64 = 1.1;

/// Returns the figures of each pattern under which victims measured in both classes, over the
/// spreads that both have.
pub fn figures(
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
        let least = least_impact(impacts::resolution(pairs.concat().into_iter()));
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

/// Returns the judgement on figures that are not good.
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
