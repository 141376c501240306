//! How much of a survey is done: the pairs with an answer, the pairs that a round measures now, and
//! the pairs that were not measured.

use std::collections::HashMap;

use super::answer::{Pair, Stage, TestPair, Untested};
use super::ids::{NicId, TestId};
use super::roster::Roster;
use super::rounds::{PairSet, Round, Sweep};
use super::unmeasured::{Missing, Unmeasured, UnmeasuredPairs};

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

    /// Returns the number of pairs of the sweep that this survey has measured itself, and the
    /// number that it has still to measure, as far as is known.
    pub fn measured_and_left(&self) -> (u64, u64) {
        let pending: u64 = self.earlier.iter().map(PairSet::len).sum();
        let left = self.planned.saturating_sub(self.answered + pending);
        (self.answered.saturating_sub(self.taken_over), left)
    }

    /// Returns whether all rounds so far have their answers.
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

    /// Returns the pairs of the sweep without an answer.
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

    /// Returns the coverage if the survey ends at this moment. `queued` are the pairs of the sweep
    /// in the queue.
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
