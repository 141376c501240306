//! How much of a survey is done: the pairs with an answer, the pairs that a round measures now, and
//! the pairs that were not measured, with the reasons: NICs that the sweep leaves out because their
//! operations fail with several partners, and pairs without an answer. Whether the others suffice
//! for a verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::answer::{Stage, Untested};
use super::findings::UntestedPart;
use super::result_store::ResultStore;
use super::roster::{NicId, Pair, Role, Roster, TestId, TestPair, Unit};
use super::rounds::{PairSet, Round, Sweep};
use crate::blame::LEAST_PARTNERS;

/// How often the survey measures pairs without an answer again. A node that is busy all the time
/// does not hold up the others for long.
pub const MOST_REPEATS: u8 = 3;

/// How much of a survey is done.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Pairs that the user has asked for.
    pub(super) planned: u64,
    /// Pairs of the sweep that were measured or failed.
    pub(super) answered: u64,
    /// Results of retests and swaps.
    pub(super) retested: u64,
    /// How often the survey has measured pairs without an answer again.
    repeats: u8,
    /// Pairs of rounds without an answer yet.
    outstanding: HashMap<TestPair, Stage>,
    pub(super) unmeasured: Unmeasured,
    /// The pairs of each test with an answer of an earlier survey, which the sweep has not reached
    /// yet.
    earlier: Vec<PairSet>,
    /// Number of pairs of the sweep that were answered by an earlier survey.
    taken_over: u64,
}

impl Coverage {
    /// Creates the coverage of a survey with `planned` pairs of `nics` NICs and `tests` tests,
    /// before the first round.
    pub fn new(planned: u64, tests: usize, nics: usize) -> Self {
        Self {
            planned,
            answered: 0,
            retested: 0,
            repeats: 0,
            outstanding: HashMap::new(),
            unmeasured: Unmeasured::new(Missing::new(tests, nics)),
            earlier: vec![PairSet::default(); tests],
            taken_over: 0,
        }
    }

    /// The number of pairs of the sweep that this survey has measured itself, and the number that
    /// it has still to measure, as far as is known.
    pub fn measured_and_left(&self) -> (u64, u64) {
        let pending: u64 = self.earlier.iter().map(PairSet::len).sum();
        let left = self.planned.saturating_sub(self.answered + pending);
        (self.answered.saturating_sub(self.taken_over), left)
    }

    /// Whether all rounds so far have their answers.
    pub fn is_settled(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Notes that the pairs of a round are being measured.
    pub fn begin(&mut self, round: &Round) {
        let keys = round.pairs.iter().map(|pair| (round.test, *pair));
        self.outstanding.extend(keys.map(|key| (key, round.stage)));
    }

    /// Notes that a pair has a result. Returns whether the survey expects one at this stage.
    pub fn end(&mut self, key: TestPair, stage: Stage) -> bool {
        let is_expected = self.outstanding.get(&key) == Some(&stage);
        if is_expected {
            self.outstanding.remove(&key);
        }
        is_expected
    }

    /// Counts a pair that was measured or failed.
    pub fn count(&mut self, stage: Stage) {
        match stage {
            Stage::Sweep => self.answered += 1,
            Stage::Retest(_) | Stage::Swap => self.retested += 1,
            Stage::Again | Stage::Comparison => {}
        }
    }

    /// Notes that a pair has no answer.
    pub fn miss(&mut self, key: TestPair, stage: Stage, reason: &Untested, roster: &Roster) {
        if stage == Stage::Sweep {
            self.unmeasured.add(key, reason, roster);
        }
    }

    /// Notes that a pair has an answer of an earlier survey. Returns whether this is the first one.
    pub fn add_earlier(&mut self, (test, pair): TestPair) -> bool {
        self.earlier[test.index()].insert(pair)
    }

    /// Counts a pair of the sweep if it has an answer of an earlier survey. Returns whether it has
    /// one.
    pub fn take_earlier(&mut self, test: TestId, pair: Pair) -> bool {
        let had = self.earlier[test.index()].remove(pair);
        self.answered += u64::from(had);
        self.taken_over += u64::from(had);
        had
    }

    /// Takes back the answer of a pair, for this reason.
    pub fn withdraw(&mut self, key: TestPair, stage: Stage, reason: &Untested, roster: &Roster) {
        // The answer of an earlier survey was not counted, if the sweep has not reached the pair.
        let is_pending = stage == Stage::Sweep && self.earlier[key.0.index()].remove(key.1);
        if !is_pending {
            self.answered -= u64::from(stage == Stage::Sweep);
            self.miss(key, stage, reason, roster);
        }
    }

    /// Gives up waiting for the results of the pairs that `is_lost` accepts, for this reason.
    pub fn give_up(&mut self, is_lost: impl Fn(Pair) -> bool, reason: &Untested, roster: &Roster) {
        let outstanding = &mut self.outstanding;
        let lost: Vec<(TestPair, Stage)> =
            outstanding.extract_if(|(_, pair), _| is_lost(*pair)).collect();
        for (key, stage) in lost {
            self.miss(key, stage, reason, roster);
        }
    }

    /// The pairs of the sweep without an answer.
    pub fn unanswered(&self) -> Vec<TestPair> {
        self.unmeasured.unanswered().collect()
    }

    /// Takes the pairs without an answer, to measure them again. Returns none after the last
    /// repeat.
    pub fn repeat(&mut self) -> Vec<TestPair> {
        if self.repeats == MOST_REPEATS {
            return Vec::new();
        }
        self.repeats += 1;
        self.unmeasured.take_unanswered()
    }

    /// Ends the sweep: its remaining pairs and the `open` ones are not measured, for this reason.
    /// `is_measured` says whether a NIC has been measured in any pair.
    pub fn end_sweep(
        &mut self,
        sweep: &mut Sweep,
        open: impl Iterator<Item = TestPair>,
        reason: &str,
        roster: &Roster,
        is_measured: impl Fn(NicId) -> bool,
    ) {
        let mut rest = UnmeasuredPairs::new(roster, self.unmeasured.missing.none(), is_measured);
        sweep.drain(|test, pair| {
            if !self.take_earlier(test, pair) {
                rest.add((test, pair));
            }
        });
        open.for_each(|key| rest.add(key));
        self.unmeasured.leave_out_rest(rest, reason);
    }

    /// The coverage if the survey ends at this moment. `queued` are the pairs of the sweep in the
    /// queue.
    pub fn if_it_ends(
        &self,
        sweep: &Sweep,
        queued: impl Iterator<Item = TestPair>,
        roster: &Roster,
        is_measured: impl Fn(NicId) -> bool,
    ) -> Self {
        let mut ended = self.clone();
        let sweep_pairs = self.outstanding.iter().filter(|(_, stage)| **stage == Stage::Sweep);
        let open = sweep_pairs.map(|(key, _)| *key).chain(queued);
        let reason = "the survey ended before";
        ended.end_sweep(&mut sweep.clone(), open, reason, roster, is_measured);
        // The pairs of an earlier survey that this one does not ask for are evidence too.
        let others: u64 = ended.earlier.iter().map(PairSet::len).sum();
        ended.planned += others;
        ended.answered += others;
        ended
    }
}

/// Most pairs without an answer that the survey measures again, or names one by one.
const MOST_UNANSWERED: usize = 4096;

/// Pairs of the sweep that were not measured.
#[derive(Clone, Debug)]
pub struct Unmeasured {
    /// Pairs without an answer, which the survey may measure again.
    unanswered: BTreeMap<TestPair, Untested>,
    /// Numbers of pairs that will not be measured.
    left_out: BTreeMap<(Unit, Untested), u64>,
    /// The numbers of pairs by NIC.
    pub(super) missing: Missing,
}

impl Unmeasured {
    /// Creates an empty collection.
    pub fn new(missing: Missing) -> Self {
        Self { unanswered: BTreeMap::new(), left_out: BTreeMap::new(), missing }
    }

    /// Notes that a pair is not measured because of a part.
    pub fn leave_out(&mut self, part: Unit, reason: Untested) {
        *self.left_out.entry((part, reason)).or_default() += 1;
    }

    /// Notes that a pair has no answer.
    pub fn add(&mut self, key: TestPair, reason: &Untested, roster: &Roster) {
        if let Some((part, reason)) = why_unusable(roster, key.1) {
            self.leave_out(part, reason);
            return;
        }
        self.missing.add(key);
        if self.unanswered.len() < MOST_UNANSWERED {
            self.unanswered.insert(key, reason.clone());
        } else {
            self.leave_out(Unit::Nic(key.1.initiator), reason.clone());
        }
    }

    /// The pairs that may be tried again.
    pub fn unanswered(&self) -> impl Iterator<Item = TestPair> {
        self.unanswered.keys().copied()
    }

    /// Removes the pairs that may be tried again.
    fn take_unanswered(&mut self) -> Vec<TestPair> {
        let keys = std::mem::take(&mut self.unanswered).into_keys();
        keys.inspect(|key| self.missing.remove(*key)).collect()
    }

    /// Notes that pairs are not measured because the survey ends.
    fn leave_out_rest(&mut self, rest: UnmeasuredPairs, reason: &str) {
        self.missing.extend(&rest.missing);
        for (nic, count) in rest.nic_counts.into_iter().enumerate() {
            if count > 0 {
                let part = rest.unusable[nic].clone();
                let part = part.unwrap_or_else(|| (Unit::Nic(NicId(nic as u32)), reason.into()));
                *self.left_out.entry(part).or_default() += count;
            }
        }
        for (pair, count) in rest.paths {
            let part = (Unit::Path(pair), reason.into());
            *self.left_out.entry(part).or_default() += count;
        }
    }

    /// The parts that were not measured, with nodes and NICs that are absent in any case.
    pub fn untested(&self, roster: &Roster) -> Vec<UntestedPart> {
        let mut pairs = self.left_out.clone();
        for ((_, pair), reason) in &self.unanswered {
            *pairs.entry((Unit::Path(*pair), reason.clone())).or_default() += 1;
        }
        for (id, node) in roster.node_ids().zip(&roster.nodes) {
            if let Some(reason) = &node.absent {
                pairs.entry((Unit::Node(id), reason.as_str().into())).or_default();
            }
        }
        for (id, nic) in roster.nic_ids().zip(&roster.nics) {
            if let Some(reason) = &nic.failure {
                pairs.entry((Unit::Nic(id), reason.as_str().into())).or_default();
            }
        }
        let pairs = pairs.into_iter();
        pairs
            .map(|((unit, reason), pairs)| UntestedPart {
                pairs,
                ..UntestedPart::new(unit, reason)
            })
            .collect()
    }
}

/// Numbers of pairs that the end of a survey leaves out. There may be many millions, so the pairs
/// are counted by NIC, unless both NICs were measured with other partners and such pairs are few.
#[derive(Debug)]
pub struct UnmeasuredPairs {
    /// The reason why each NIC cannot be measured, if there is one.
    unusable: Vec<Option<(Unit, Untested)>>,
    is_measured: Vec<bool>,
    nic_counts: Vec<u64>,
    paths: BTreeMap<Pair, u64>,
    missing: Missing,
}

impl UnmeasuredPairs {
    /// Creates an empty count; `is_measured` says whether a NIC has been measured in any pair.
    pub fn new(roster: &Roster, missing: Missing, is_measured: impl Fn(NicId) -> bool) -> Self {
        let nics = roster.nic_ids();
        let unusable = |nic| why_unusable(roster, Pair::loopback(nic));
        Self {
            unusable: nics.clone().map(unusable).collect(),
            is_measured: nics.map(is_measured).collect(),
            nic_counts: vec![0; roster.nics.len()],
            paths: BTreeMap::new(),
            missing,
        }
    }

    /// Counts a pair of a test.
    pub fn add(&mut self, (test, pair): TestPair) {
        let nics = pair.nics().map(|nic| nic.index());
        let unusable = nics.into_iter().find(|nic| self.unusable[*nic].is_some());
        if unusable.is_none() {
            self.missing.add((test, pair));
        }
        let unmeasured = || nics.into_iter().find(|nic| !self.is_measured[*nic]);
        match unusable.or_else(unmeasured) {
            Some(nic) => self.nic_counts[nic] += 1,
            None if self.paths.len() < MOST_UNANSWERED || self.paths.contains_key(&pair) => {
                *self.paths.entry(pair).or_default() += 1;
            }
            None => self.nic_counts[nics[0]] += 1,
        }
    }
}

/// The part that prevents the measurement of a pair, and why.
pub fn why_unusable(roster: &Roster, pair: Pair) -> Option<(Unit, Untested)> {
    pair.nics().into_iter().find_map(|id| {
        let nic = roster.nic(id);
        if let Some(reason) = &roster.node(nic.node).absent {
            return Some((Unit::Node(nic.node), reason.as_str().into()));
        }
        let no_address = nic.nid.is_none().then_some("it has no address");
        Some((Unit::Nic(id), nic.failure.as_deref().or(no_address)?.into()))
    })
}

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

    /// The numbers of a survey of the same size in which no pair is missing.
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

/// NICs that the sweep leaves out.
#[derive(Debug, Default)]
pub struct ExcludedNics {
    /// The partners with which the operations of a NIC failed.
    partners: BTreeMap<NicId, BTreeSet<NicId>>,
    parked: BTreeSet<NicId>,
}

impl ExcludedNics {
    /// Creates the set after these pairs have failed.
    pub fn new(failed: impl Iterator<Item = Pair>) -> Self {
        let mut parked = Self::default();
        failed.for_each(|pair| parked.add_failure(pair));
        parked
    }

    /// The first NIC of a pair that the sweep leaves out.
    pub fn find(&self, pair: Pair) -> Option<NicId> {
        let mut nics = pair.nics().into_iter();
        nics.find(|nic| self.parked.contains(nic))
    }

    /// Notes a pair that failed. Leaves a NIC of the pair out if its operations fail with several
    /// partners, and with more partners than the operations of the other NIC.
    pub fn add_failure(&mut self, pair: Pair) {
        if pair.is_loopback() || self.find(pair).is_some() {
            return;
        }
        let Pair { initiator, target } = pair;
        self.partners.entry(initiator).or_default().insert(target);
        self.partners.entry(target).or_default().insert(initiator);
        let [one, other] = pair.nics().map(|nic| self.partners[&nic].len());
        if one.max(other) >= LEAST_PARTNERS && one != other {
            let nic = if one > other { initiator } else { target };
            self.parked.insert(nic);
            for partner in self.partners.remove(&nic).unwrap_or_default() {
                if let Some(partners) = self.partners.get_mut(&partner) {
                    partners.remove(&nic);
                }
            }
        }
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
