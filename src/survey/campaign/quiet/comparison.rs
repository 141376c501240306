//! The choice of pairs that are measured again for comparison: the pairs of a class that judges
//! nothing because they differ too much, and good pairs beside retests.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::answer::TestPair;
use super::explanation::{FEW_NICS, FEW_SUSPECTS};
use super::ids::{NicId, PopulationKey, TestId};
use super::result_store::ResultStore;
use super::roster::Roster;
use super::slow_parts::Judgement;
use super::unmeasured::why_unusable;

/// Returns the pairs of classes that judge nothing because their pairs differ too much, if there
/// are few pairs and NICs. Where CPUs are not busy, pairs whose processes slept differ by chance:
/// the better one of two results is the true one. All pairs are measured equally often, so that
/// better results of some do not make the others look slow.
pub fn pairs_of_unclear_classes(
    results: &ResultStore,
    judgement: &Judgement,
    roster: &Roster,
) -> Vec<TestPair> {
    if results.nics >= FEW_NICS {
        return Vec::new();
    }
    let is_unclear = |key: &PopulationKey| judgement.differs_too_much(results, *key);
    let keys = judgement.limits.keys().copied();
    let unclear: BTreeSet<PopulationKey> = keys.filter(is_unclear).collect();
    let tests = TestId::first(results.tests().len());
    let all = tests.flat_map(|test| {
        let own = results.observations(test).iter().filter(move |one| one.is_of_sweep);
        own.map(move |one| ((test, one.class), (test, one.pair)))
    });
    let again: Vec<TestPair> = all
        .filter(|(key, (_, pair))| unclear.contains(key) && why_unusable(roster, *pair).is_none())
        .map(|(_, test_pair)| test_pair)
        .collect();
    if again.len() <= FEW_SUSPECTS { again } else { Vec::new() }
}

/// The good pairs that may be measured beside the retests of suspects, by class. The last ones
/// share the fewest NICs with the suspects.
pub struct GoodPairs {
    class_lists: BTreeMap<PopulationKey, Vec<TestPair>>,
}

impl GoodPairs {
    /// Returns the good pairs of the classes of `suspects`.
    pub fn beside(
        suspects: &[TestPair],
        results: &ResultStore,
        judgement: &Judgement,
        roster: &Roster,
    ) -> Self {
        let nics: HashSet<NicId> = suspects.iter().flat_map(|(_, pair)| pair.nics()).collect();
        let keys = suspects.iter().map(|(test, pair)| (*test, roster.class(*pair)));
        let keys: BTreeSet<PopulationKey> = keys.collect();
        let suspects: HashSet<&TestPair> = suspects.iter().collect();
        let good = |key: PopulationKey| {
            let limit = judgement.limits.get(&key).filter(|limit| limit.has_costs());
            let own = results.observations(key.0).iter();
            let own = own.filter(|one| {
                one.is_of_sweep && one.class == key.1 && why_unusable(roster, one.pair).is_none()
            });
            let mut good: Vec<(usize, f64, TestPair)> = own
                .filter_map(|one| {
                    let shared = one.pair.nics().iter().filter(|nic| nics.contains(nic)).count();
                    let distance = limit?.residual(one)?.abs();
                    Some((shared, distance, (key.0, one.pair)))
                })
                .filter(|(_, distance, test_pair)| {
                    *distance < results.ratio(key.0) && !suspects.contains(test_pair)
                })
                .collect();
            good.sort_by(|one, other| (other.0.cmp(&one.0)).then(other.1.total_cmp(&one.1)));
            good.into_iter().map(|(_, _, test_pair)| test_pair).collect()
        };
        Self { class_lists: keys.into_iter().map(|key| (key, good(key))).collect() }
    }

    /// Takes a pair of each class of a test that has one left.
    pub fn take(&mut self, test: TestId) -> Vec<TestPair> {
        let classes = self.class_lists.iter_mut().filter(|(key, _)| key.0 == test);
        classes.filter_map(|(_, pairs)| pairs.pop()).collect()
    }
}
