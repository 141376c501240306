//! How far another traffic class keeps load away from victims.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{Grade, IsolationFigures, LoadFigure, LoadJudgement, LoadUnit, Spread};
use super::limits::ISOLATION;
use super::names::under_name;
use super::pattern::Pattern;
use super::statistics::{median, median_interval};
use super::victims::{PairMedians, VictimKey, Victims};

/// Impact factor of victims in the class of the aggressors from which on there is something to
/// isolate from, and which its interval excludes.
const LEAST_IMPACT: f64 = 1.2;
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
    let of_pattern = |(under, at_target): (Pattern, bool)| {
        let key = |spread, in_other_class| VictimKey {
            under,
            at_target,
            spread,
            in_other_class,
        };
        let spreads = [Spread::Mixed, Spread::Switches, Spread::Groups];
        let (mut same, mut other): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        for spread in spreads {
            let both = [false, true].map(|is_other| victims.get(&key(spread, is_other)));
            if let [Some(of_same), Some(of_other)] = both {
                same.extend(of_same.pairs(None).filter_map(PairMedians::impact));
                other.extend(of_other.pairs(None).filter_map(PairMedians::impact));
            }
        }
        let (of_same, of_other) = (median(&same)?, median(&other)?);
        let interval = median_interval(&same);
        let is_hit = of_same >= LEAST_IMPACT && interval.is_some_and(|of| of.0 > EXCLUDED);
        let isolation = is_hit.then(|| isolation(of_same, of_other));
        Some(IsolationFigures {
            under: under_name(under, at_target),
            traffic_class: other_class?.to_owned(),
            same: of_same,
            other: of_other,
            isolation,
            grade: isolation.map_or(Grade::Unjudged, |of| ISOLATION.grade(of)),
        })
    };
    patterns.into_iter().filter_map(of_pattern).collect()
}

/// Returns 1 if the other class keeps all load away, and 0 if it keeps nothing away.
fn isolation(same: f64, other: f64) -> f64 {
    1.0 - (other - 1.0) / (same - 1.0)
}

/// Returns the judgement on figures that are not good.
pub fn judgement(of: &IsolationFigures) -> Option<LoadJudgement> {
    let is_judged = matches!(of.grade, Grade::Slow | Grade::Bad);
    let value = of.isolation.filter(|_| is_judged)?;
    Some(LoadJudgement {
        unit: LoadUnit::TrafficClass,
        grade: of.grade,
        certainty: None,
        pattern: of.under.clone(),
        figure: LoadFigure::Isolation,
        value,
        limit: ISOLATION.good,
        evidence: vec![format!(
            "Traffic class {}: impact factor {:.2}, and {:.2} in the class of the load.",
            of.traffic_class, of.other, of.same
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_is_that_of_vector_24() {
        assert!((isolation(11.0, 1.5) - 0.95).abs() < 1e-9);
        assert_eq!(ISOLATION.grade(isolation(11.0, 1.5)), Grade::Good);
    }
}
