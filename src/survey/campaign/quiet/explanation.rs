//! The parts that explain the pairs outside the limits (jobs.md 3.3). A separate search explains
//! transient pairs. The costs of a mixed population have no limit.

use std::collections::{BTreeSet, HashSet};

use super::findings::{LimitSource, Unit};
use super::ids::{NicId, PopulationKey};
use super::limits::Limits;
use super::outside::{Outside, RetestOutcome, keep_failures};
use super::result_store::ResultStore;
use super::roster::{Roster, members};
use super::search::{PartExplanation, search};
use super::slow_parts::Judgement;

/// Most pairs outside the limits that are all retested.
pub const FEW_SUSPECTS: usize = 64;

/// A population is mixed if no part explains this part of its pairs,
const MOST_UNEXPLAINED: f64 = 0.05;
/// and at least as many of them; any pair, if another class of the test is mixed.
const FEW_UNEXPLAINED: usize = 3;

/// Bad NICs may determine the centre of a population of few NICs, if this part of its pairs is
/// better than the centre by more than the limit, and no part explains some slow pairs.
const MOST_BETTER: f64 = 0.07;
const LEAST_BETTER: usize = 2;

/// A cluster with fewer NICs has few: one of them takes part in many of the pairs.
pub const FEW_NICS: usize = 32;

/// The explanations of all pairs outside the limits.
#[derive(Debug)]
pub struct Explained {
    /// The limits and the slow parts. Mixed populations have no limit for their costs.
    pub judgement: Judgement,
    /// The parts with the pairs that they explain.
    pub explanations: Vec<PartExplanation>,
    /// The pairs outside the limits.
    pub outside: Vec<Outside>,
}

/// Returns the parts that explain the pairs outside the limits. A second search explains the
/// transient pairs.
pub fn explain(results: &ResultStore, limits: &Limits, roster: &Roster) -> Explained {
    let mut excluded: BTreeSet<PopulationKey> = BTreeSet::new();
    loop {
        let limits = if excluded.is_empty() {
            limits.clone()
        } else {
            without(&excluded, limits, results, roster)
        };
        let judgement = Judgement::of(results, limits, roster);
        if !judgement.mixed.is_empty() {
            excluded.extend(&judgement.mixed);
            continue;
        }
        let explained = explain_by(judgement, results, roster);
        let mixed = unexplained_populations(&explained, &excluded, results);
        if mixed.is_empty() {
            return explained;
        }
        excluded.extend(mixed);
    }
}

/// Returns the limits, with none for mixed populations. The fit of the other populations of a test
/// changes.
fn without(
    excluded: &BTreeSet<PopulationKey>,
    limits: &Limits,
    results: &ResultStore,
    roster: &Roster,
) -> Limits {
    let mut kept = results.limits(roster, &[], excluded);
    // Retests and swaps may have pairs of a class that the sweep has not measured.
    kept.retain(|key, _| limits.contains_key(key));
    for (key, limit) in &mut kept {
        let sweep_limit = &limits[key];
        limit.is_biased = sweep_limit.is_biased;
        if excluded.contains(key) {
            limit.statistic = sweep_limit.statistic;
        }
        if !sweep_limit.has_costs() {
            *limit = limit.without_costs();
        }
    }
    kept
}

/// Explains the pairs outside these limits.
fn explain_by(judgement: Judgement, results: &ResultStore, roster: &Roster) -> Explained {
    let mut outside = results.outside(&judgement, roster);
    keep_failures(&mut outside, |nic| results.answers(nic));
    let is_slow = |one: &Outside| {
        one.value.is_some() && !judgement.covering(one.test, one.pair, roster).is_empty()
    };
    let (transient, lasting): (Vec<Outside>, Vec<Outside>) = outside
        .iter()
        .copied()
        .partition(|one| one.outcome == RetestOutcome::Transient && !is_slow(one));
    let mut explanations = search(results, &judgement, roster, lasting);
    let nics_of_causes: HashSet<NicId> =
        explanations.iter().flat_map(|explanation| members(explanation.unit, roster)).collect();
    let unexplained = transient.into_iter().filter(|one| {
        !nics_of_causes.contains(&one.pair.initiator) && !nics_of_causes.contains(&one.pair.target)
    });
    explanations.extend(search(results, &judgement, roster, unexplained.collect()));
    Explained { judgement, explanations, outside }
}

/// Returns the populations with too many slow pairs that no part explains.
fn unexplained_populations(
    explained: &Explained,
    excluded: &BTreeSet<PopulationKey>,
    results: &ResultStore,
) -> BTreeSet<PopulationKey> {
    let mut mixed = BTreeSet::new();
    for (key, limit) in &explained.judgement.limits {
        let is_slow = |one: &&&Outside| {
            (one.test, one.class) == *key && one.source == LimitSource::Population
        };
        let path_explanations = explained.explanations.iter();
        let path_explanations = path_explanations.filter(|one| matches!(one.unit, Unit::Path(_)));
        let pairs: Vec<&Outside> = path_explanations.flat_map(|one| &one.pairs).collect();
        let count = |outcome| {
            let slow = pairs.iter().filter(is_slow);
            slow.filter(|one| one.outcome == outcome).count()
        };
        // Retests decide about few pairs; many are too many to retest.
        let open = count(RetestOutcome::Open);
        let open = if open > FEW_SUSPECTS { open } else { 0 };
        let lasting = count(RetestOutcome::Confirmed) + open;
        // Beside a lasting pair, many transient pairs show that the limit is among the pairs.
        let transient = count(RetestOutcome::Transient);
        let unexplained = if lasting > 0 { lasting + transient } else { 0 };
        let measured = results.figures(*key) as f64;
        let (better, judged) = explained.judgement.better(*key);
        let has_better_nics = results.nics < FEW_NICS
            && better >= LEAST_BETTER
            && better as f64 > MOST_BETTER * judged as f64;
        let is_beside_mixed = excluded.iter().any(|(test, _)| *test == key.0);
        let is_much =
            unexplained >= FEW_UNEXPLAINED && unexplained as f64 > MOST_UNEXPLAINED * measured;
        if limit.has_costs() && unexplained > 0 && (is_much || has_better_nics || is_beside_mixed) {
            mixed.insert(*key);
        }
    }
    mixed
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Pair, Stage};
    use super::super::ids::TestId;
    use super::super::rounds::Round;
    use super::super::testing::{Cluster, pair};
    use super::*;
    use crew::location::Class;

    /// A swap may have the first pair between two groups.
    #[test]
    fn class_that_only_retests_have_has_no_limits() {
        let mut cluster = Cluster::new([2, 1, 8, 1], &["write-lat"], 1);
        let (roster, tests) = (cluster.roster.clone(), cluster.tests.clone());
        let mut results = ResultStore::new(&roster, tests, Vec::new(), None, true);
        let mut measure = |stage, pairs: Vec<Pair>, results: &mut ResultStore| {
            let round = Round { test: TestId(0), stage, pairs };
            cluster.measure(&round).iter().for_each(|result| results.add(result, &roster));
        };
        let within = |first: u32| (0..4).map(move |nic| pair(first + nic, first + nic + 4));
        for _ in 0..4 {
            measure(Stage::Sweep, within(0).chain(within(8)).collect(), &mut results);
        }
        let limits = results.limits(&roster, &[], &BTreeSet::new());
        let own = (TestId(0), Class::Switch);
        assert_eq!(limits.keys().collect::<Vec<_>>(), [&own]);
        for _ in 0..4 {
            measure(Stage::Swap, (0..8).map(|nic| pair(nic, nic + 8)).collect(), &mut results);
        }
        let kept = without(&[own].into(), &limits, &results, &roster);
        assert_eq!(kept.keys().collect::<Vec<_>>(), [&own]);
        explain(&results, &limits, &roster);
    }
}
