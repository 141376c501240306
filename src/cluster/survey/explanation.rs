//! The parts that explain the pairs outside the limits (jobs.md 3.3). A separate search explains
//! transient pairs. The costs of a mixed population have no limit.

use std::collections::{BTreeSet, HashSet};

use super::failures::keep_failures;
use super::findings::{LimitSource, Unit};
use super::ids::{NicId, PopulationKey, Role};
use super::limits::Limits;
use super::outside::{Outside, RetestOutcome};
use super::result_store::ResultStore;
use super::roster::Roster;
use super::search::{Explanation, search};
use super::units::members;

/// A population is mixed if more than this part of its NICs belong to causes,
const MOST_CAUSES: f64 = 1.0 / 3.0;
/// or if no part explains this part of its pairs, and at least three of them,
const MOST_UNEXPLAINED: f64 = 0.05;
/// or if the links between two groups are a cause, and have more than this part of its pairs,
const MOST_CROSSINGS: f64 = 0.5;
/// or if the robust deviation of its costs is more than this part of their median.
const MOST_DEVIATION: f64 = 0.7;

/// The explanations of all pairs outside the limits.
#[derive(Debug)]
pub struct Explained {
    /// The parts with the pairs that they explain.
    pub explanations: Vec<Explanation>,
    /// The mixed populations. Their costs have no limits.
    pub mixed: BTreeSet<PopulationKey>,
}

/// Returns the parts that explain the pairs outside the limits. A second search explains the
/// transient pairs.
pub fn explain(results: &ResultStore, limits: &Limits, roster: &Roster) -> Explained {
    let mut outside = results.outside(limits, roster);
    keep_failures(&mut outside, |nic| results.answers(nic));
    let (transient, lasting): (Vec<Outside>, Vec<Outside>) = outside
        .into_iter()
        .partition(|one| one.outcome == RetestOutcome::Transient);
    let mut mixed = BTreeSet::new();
    let lasting_causes = loop {
        let kept = lasting.iter().filter(|one| {
            one.source != LimitSource::Population || !mixed.contains(&(one.test, one.class))
        });
        let kept = kept.copied().collect();
        let kept_limits = without(limits, &mixed);
        let explanations = search(results, &kept_limits, roster, kept);
        let found = mixed_populations(&mixed, &explanations, results, &kept_limits, roster);
        if found.is_empty() {
            break explanations;
        }
        mixed.extend(found);
    };
    let nics_of_causes: HashSet<NicId> = lasting_causes
        .iter()
        .flat_map(|explanation| members(explanation.unit, roster))
        .collect();
    let unexplained = transient.into_iter().filter(|one| {
        !nics_of_causes.contains(&one.pair.initiator)
            && !nics_of_causes.contains(&one.pair.target)
            && !mixed.contains(&(one.test, one.class))
    });
    let mut explanations = lasting_causes;
    explanations.extend(search(results, limits, roster, unexplained.collect()));
    Explained {
        explanations,
        mixed,
    }
}

/// Returns the limits, with no limit for the costs of mixed populations.
fn without(limits: &Limits, mixed: &BTreeSet<PopulationKey>) -> Limits {
    let mut limits = limits.clone();
    for key in mixed {
        if let Some(limit) = limits.get_mut(key) {
            limit.cost = f64::INFINITY;
        }
    }
    limits
}

/// Returns the populations that are mixed (jobs.md 3.4), without the populations in `mixed`. If a
/// class of a test is mixed, the other classes of this test are also examined together, because
/// some have few pairs.
fn mixed_populations(
    mixed: &BTreeSet<PopulationKey>,
    explanations: &[Explanation],
    results: &ResultStore,
    limits: &Limits,
    roster: &Roster,
) -> BTreeSet<PopulationKey> {
    let is_mixed = |keys: &[PopulationKey]| is_mixed(keys, explanations, results, limits, roster);
    let with_limits = limits.iter().filter(|(_, limit)| limit.cost.is_finite());
    let keys: Vec<PopulationKey> = with_limits.map(|(key, _)| *key).collect();
    let alone: BTreeSet<PopulationKey> = keys
        .iter()
        .copied()
        .filter(|key| is_mixed(&[*key]))
        .collect();
    if !alone.is_empty() {
        return alone;
    }
    let of_tests = keys.chunk_by(|one, other| one.0 == other.0);
    let is_rest = |keys: &&[PopulationKey]| mixed.iter().any(|(test, _)| *test == keys[0].0);
    let mixed_rest = of_tests.filter(|keys| is_rest(keys) && is_mixed(keys));
    mixed_rest.flatten().copied().collect()
}

/// Returns whether these populations of a test are mixed.
fn is_mixed(
    keys: &[PopulationKey],
    explanations: &[Explanation],
    results: &ResultStore,
    limits: &Limits,
    roster: &Roster,
) -> bool {
    let (mut nics, mut measured) = (0, 0);
    for nic in roster.nic_ids() {
        let of_role = |role: Role| {
            let count = |(test, class): &PopulationKey| results.counts(*test, nic)[(role, *class)];
            keys.iter().map(count).sum::<u32>()
        };
        let as_initiator = of_role(Role::Initiator);
        nics += u32::from(as_initiator + of_role(Role::Target) > 0);
        measured += as_initiator;
    }
    let part_of_pairs = |count: usize| count as f64 / f64::from(measured);
    let is_of_them = |one: &&Outside| {
        keys.contains(&(one.test, one.class)) && one.source == LimitSource::Population
    };
    let (mut nics_of_causes, mut unexplained, mut has_cause) = (HashSet::new(), 0, false);
    for explanation in explanations {
        let pairs = explanation.pairs.iter().filter(is_of_them).count();
        if pairs == 0 {
            continue;
        }
        has_cause = true;
        match explanation.unit {
            Unit::Path(_) => unexplained += pairs,
            unit @ Unit::GroupPair(..)
                if part_of_pairs(results.crossings(keys[0].0, unit) as usize) > MOST_CROSSINGS =>
            {
                return true;
            }
            unit => nics_of_causes.extend(members(unit, roster)),
        }
    }
    let is_wide = |key| limits[key].is_wide(MOST_DEVIATION);
    has_cause
        && (keys.iter().any(is_wide)
            || results.has_better_nics(keys, limits)
            || nics_of_causes.len() as f64 > MOST_CAUSES * f64::from(nics)
            || (unexplained >= 3 && part_of_pairs(unexplained) > MOST_UNEXPLAINED))
}
