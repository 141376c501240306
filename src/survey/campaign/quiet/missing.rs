//! The planned pairs of each NIC without an answer, and whether the others suffice for a verdict.

use super::answer::TestPair;
use super::ids::{NicId, Role, TestId};
use super::result_store::ResultStore;

/// A NIC is good if at least one of this many of its planned pairs has an answer,
const LEAST_PART: u32 = 2;
/// and at least this number of pairs, if as many were planned.
const LEAST_PAIRS: u32 = 3;

/// Numbers of planned pairs without an answer, by test, NIC and role. A pair with a NIC that cannot
/// be measured at all says nothing about its partner, so it is not counted.
#[derive(Clone, Debug)]
pub struct Missing {
    nics: usize,
    counts: Vec<[u32; 2]>,
}

impl Missing {
    /// Creates the numbers of a survey in which no pair is missing.
    pub fn new(tests: usize, nics: usize) -> Self {
        let counts = vec![[0; 2]; tests * nics];
        Self { nics, counts }
    }

    /// Returns the numbers of a survey of the same size in which no pair is missing.
    pub fn none(&self) -> Self {
        let counts = vec![[0; 2]; self.counts.len()];
        Self { counts, ..*self }
    }

    /// Counts a pair.
    pub fn add(&mut self, key: TestPair) {
        self.change(key, 1);
    }

    /// Counts the pairs of `other`.
    pub fn extend(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            count[0] += other[0];
            count[1] += other[1];
        }
    }

    /// Counts a pair no longer.
    pub fn remove(&mut self, key: TestPair) {
        self.change(key, -1);
    }

    fn change(&mut self, (test, pair): TestPair, by: i32) {
        for (role, nic) in pair.roles() {
            let count = &mut self.counts[test.index() * self.nics + nic.index()][role.index()];
            *count = count.saturating_add_signed(by);
        }
    }

    /// Returns why the results of a test do not suffice to call a NIC good, if they do not.
    pub fn why_too_few(&self, test: TestId, nic: NicId, results: &ResultStore) -> Option<String> {
        let missing = self.counts[test.index() * self.nics + nic.index()];
        let answered = results.counts(test, nic);
        let all = answered.total();
        let planned = all + missing.iter().sum::<u32>();
        if all * LEAST_PART < planned || all < planned.min(LEAST_PAIRS) {
            return Some(format!("{all} of {planned} pairs measured"));
        }
        let mut roles = Role::BOTH.into_iter();
        let role =
            roles.find(|role| missing[role.index()] > 0 && answered.pairs_in_role(*role) == 0)?;
        Some(format!("not measured as {}", role.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{PairResult, Stage};
    use super::super::rounds::Round;
    use super::super::testing::{Cluster, pair};
    use super::*;

    /// Returns what is wrong with NIC 0, if these pairs have an answer and those are missing.
    fn why(answered: &[(u32, u32)], missing: &[(u32, u32)]) -> Option<String> {
        let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
        let (roster, tests) = (cluster.roster.clone(), cluster.tests.clone());
        let mut results = ResultStore::new(&roster, tests, Vec::new(), None, true);
        let round = Round {
            test: TestId(0),
            stage: Stage::Sweep,
            pairs: answered.iter().map(|(one, other)| pair(*one, *other)).collect(),
        };
        let measured: Vec<PairResult> = cluster.measure(&round);
        measured.iter().for_each(|result| results.add(result, &roster));
        let mut none = Missing::new(1, 8);
        for (one, other) in missing {
            none.add((TestId(0), pair(*one, *other)));
        }
        none.why_too_few(TestId(0), NicId(0), &results)
    }

    #[test]
    fn nic_needs_half_of_its_pairs_in_both_roles() {
        let four = [(0, 1), (2, 0), (0, 3), (4, 0)];
        assert_eq!(why(&four, &[]), None);
        assert_eq!(why(&four, &[(0, 5), (6, 0), (0, 7), (7, 0)]), None);
        let five_missing = [(0, 5), (6, 0), (0, 7), (7, 0), (0, 6)];
        let too_few = Some("4 of 9 pairs measured".into());
        assert_eq!(why(&four, &five_missing), too_few);
        assert_eq!(why(&four[..2], &[]), None);
        let two = Some("2 of 4 pairs measured".into());
        assert_eq!(why(&four[..2], &four[2..]), two);
        let no_target = Some("not measured as target".into());
        assert_eq!(why(&[(0, 1), (0, 2), (0, 3)], &[(4, 0)]), no_target);
        // Nothing was planned in the other role.
        assert_eq!(why(&[(0, 1), (0, 2), (0, 3)], &[(0, 4)]), None);
    }
}
