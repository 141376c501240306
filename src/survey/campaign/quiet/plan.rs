//! The settings of a survey, its progress, and what it measures next: the rounds of the sweep; then
//! retests of suspect pairs, and their NICs with other partners.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::answer::{PairResult, Stage, Untested};
use super::coverage::{Coverage, ExcludedNics, why_unusable};
use super::explanation::{Explained, FEW_SUSPECTS, explain};
use super::findings::Certainty;
use super::limits::Limits;
use super::outside::{DECISIVE, MOST_RETESTS};
use super::pairs::Selection;
use super::result_store::ResultStore;
use super::retest::{GoodPairs, Queue, pairs_of_unclear_classes, suspects, swaps};
use super::roster::{NicId, Pair, Roster, TestId, TestPair, Unit};
use super::rounds::{NicOrder, Round, Sweep};
use super::search::PartExplanation;
use super::slow_parts::Judgement;
use crate::blame::LEAST_PARTNERS;
use facts::expect::Expectation;

/// The settings that the user has chosen.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pairs, in the order in which they are measured.
    pub selections: Vec<Selection>,
    /// Whether the NICs of a node are measured one after the other.
    pub nics: NicOrder,
    /// Most pairs that are measured at the same time; all that are disjoint if `None`.
    pub most_active: Option<u32>,
    /// Seed of the random pairs.
    pub seed: u64,
    /// The bounds of --expect for each test. A test without an entry has none.
    pub expectations: Vec<Vec<Expectation>>,
    /// Ratio to good pairs from which a part is bad; the ratios of jobs.md 3.4 if `None`.
    pub sensitivity: Option<f64>,
    /// Whether to keep the figures of all pairs, about 100 bytes each; `None` to keep them for up
    /// to 1024 NICs.
    pub keep_figures: Option<bool>,
}

/// What the survey does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyPhase {
    /// It measures the pairs that the user has asked for.
    Sweep,
    /// It measures pairs without an answer again.
    Repeat,
    /// It measures the pairs of classes again whose pairs differ too much.
    Again,
    /// It measures suspect pairs again.
    Retest,
    /// It measures the NICs of suspects with other partners.
    Swap,
    /// It has ended.
    Over,
}

/// The progress of a survey.
#[derive(Clone, Debug, PartialEq)]
pub struct SurveyProgress {
    /// What it does.
    pub phase: SurveyPhase,
    /// Pairs that the user has asked for.
    pub planned: u64,
    /// Planned pairs that were measured or failed.
    pub answered: u64,
    /// Pairs outside the limits that followed from earlier results.
    pub suspects: u64,
    /// Results of retests and of other partners.
    pub retested: u64,
    /// The worst result so far.
    pub worst: Option<PairResult>,
}

/// How often the survey chooses suspects.
const MOST_WAVES: u8 = 8;

/// How often the pairs of a class that differ too much are measured again.
const MOST_AGAIN: u8 = 3;

/// Number of pairs far outside their limits that decide about a part.
const ENOUGH_FAR: usize = 4;

/// How often NICs get other partners.
const MOST_SWAPS: u8 = 3;

/// The results of the sweep, which decide about retests.
#[derive(Clone, Copy, Debug)]
pub struct SweepResults<'a> {
    /// The nodes and NICs.
    pub roster: &'a Roster,
    /// The results so far.
    pub results: &'a ResultStore,
    pub limits: &'a Limits,
    /// NICs that the sweep left out.
    pub parked: &'a ExcludedNics,
}

/// The retests and swaps of a survey.
#[derive(Debug)]
pub struct RetestPlan {
    rng: Rng,
    most_active: usize,
    /// Suspect pairs that are retested.
    wave: Vec<TestPair>,
    /// Number of the retest of the wave, from 1.
    retest: u8,
    /// Largest number of pairs in a round of the first retest of the wave.
    widest: usize,
    /// How often the survey has measured pairs again that differ too much.
    again: u8,
    waves: u8,
    swaps: u8,
}

impl RetestPlan {
    /// Creates the plan of a survey that measures at most `most_active` pairs at the same time.
    pub fn new(seed: u64, most_active: usize) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            most_active,
            wave: Vec::new(),
            retest: 0,
            widest: 0,
            again: 0,
            waves: 0,
            swaps: 0,
        }
    }

    /// Notes how many pairs a round has.
    pub fn note(&mut self, round: &Round) {
        if round.stage == Stage::Retest(1) {
            self.widest = self.widest.max(round.pairs.len());
        }
    }

    /// Pairs that a phase measures, at most `most` at the same time.
    pub fn queue(&self, pairs: Vec<TestPair>, stage: Stage, most: usize) -> Queue {
        Queue::new(pairs, stage, most.min(self.most_active))
    }

    /// The next phase and its pairs; `None` if nothing is left to measure.
    pub fn next(&mut self, sweep: SweepResults<'_>) -> Option<(SurveyPhase, Queue)> {
        loop {
            let explained = explain(sweep.results, sweep.limits, sweep.roster);
            if let Some(queue) = self.next_again(&explained, sweep) {
                return Some((SurveyPhase::Again, queue));
            }
            if let Some(queue) = self.next_retest(&explained, sweep) {
                return Some((SurveyPhase::Retest, queue));
            }
            let wave = self.next_wave(&explained, sweep);
            if wave.is_empty() {
                return self.next_swap(&explained, sweep);
            }
            (self.waves, self.retest, self.widest) = (self.waves + 1, 0, 0);
            self.wave = wave;
        }
    }

    /// Pairs that differ too much to find suspects among them.
    fn next_again(&mut self, explained: &Explained, sweep: SweepResults<'_>) -> Option<Queue> {
        if self.waves > 0 || self.again >= MOST_AGAIN {
            return None;
        }
        self.again += 1;
        let pairs = pairs_of_unclear_classes(sweep.results, &explained.judgement, sweep.roster);
        if pairs.is_empty() {
            return None;
        }
        Some(self.queue(pairs, Stage::Again, self.most_active))
    }

    /// The next retest of the wave. Later retests have fewer pairs at the same time.
    fn next_retest(&mut self, explained: &Explained, sweep: SweepResults<'_>) -> Option<Queue> {
        if self.retest >= MOST_RETESTS {
            return None;
        }
        let wave = self.wave.iter().copied();
        let decided = decided_pairs(explained, sweep);
        let is_undecided = |key: &TestPair| {
            let results = sweep.results;
            !decided.contains(key) && results.needs_retest(*key, &explained.judgement, sweep.roster)
        };
        let undecided: Vec<TestPair> = wave.filter(is_undecided).collect();
        if undecided.is_empty() {
            return None;
        }
        self.retest += 1;
        let most =
            if self.retest == 1 { self.most_active } else { self.widest >> (self.retest - 1) };
        let mut good = good_pairs(&undecided, explained, sweep);
        let queue = self.queue(undecided, Stage::Retest(self.retest), most);
        Some(queue.compare(&mut good))
    }

    /// The suspects that are retested next.
    fn next_wave(&self, explained: &Explained, sweep: SweepResults<'_>) -> Vec<TestPair> {
        let SweepResults { roster, results, parked, .. } = sweep;
        let judgement = &explained.judgement;
        if self.waves >= MOST_WAVES {
            return Vec::new();
        }
        let mut wave = if self.waves == 0 { few_suspects(sweep) } else { Vec::new() };
        if wave.is_empty() {
            wave = suspects(&explained.explanations, results, judgement, roster);
        }
        wave.retain(|(_, pair)| why_unusable(roster, *pair).is_none());
        // Pairs of NICs that failed are last: they may take long, and disturb others.
        wave.sort_by_key(|(test, pair)| (parked.find(*pair).is_some(), *test));
        wave
    }

    /// Pairs of suspect NICs with other partners.
    fn next_swap(
        &mut self,
        explained: &Explained,
        sweep: SweepResults<'_>,
    ) -> Option<(SurveyPhase, Queue)> {
        if self.swaps >= MOST_SWAPS {
            return None;
        }
        let SweepResults { roster, results, .. } = sweep;
        let is_usable = |nic: NicId| why_unusable(roster, Pair::loopback(nic)).is_none();
        let pairs = swaps(&explained.explanations, results, roster, is_usable, &mut self.rng);
        if pairs.is_empty() {
            return None;
        }
        self.swaps += 1;
        let mut good = good_pairs(&pairs, explained, sweep);
        let queue = self.queue(pairs, Stage::Swap, self.most_active);
        Some((SurveyPhase::Swap, queue.compare(&mut good)))
    }
}

/// The pairs whose further retests would not change the verdict. Their part is bad by several pairs
/// that are far outside their limits, and so in their test; no pair of the part has passed a retest
/// of the test. Some of its pairs are retested more than once.
fn decided_pairs(explained: &Explained, sweep: SweepResults<'_>) -> BTreeSet<TestPair> {
    let SweepResults { roster, results, .. } = sweep;
    let judgement = &explained.judgement;
    let is_far = |part: &&PartExplanation| {
        let far = part.pairs.iter().filter(|one| one.is_far).count();
        part.certainty == Certainty::Bad && far >= ENOUGH_FAR
    };
    let mut decided = BTreeSet::new();
    for part in explained.explanations.iter().filter(is_far) {
        let bad_in = judgement
            .parts
            .iter()
            .filter(|slow| slow.unit == part.unit && slow.certainty == Certainty::Bad);
        for test in bad_in.map(|slow| slow.test).collect::<BTreeSet<TestId>>() {
            let own = part.pairs.iter().filter(|one| one.test == test);
            let own: Vec<TestPair> = own.map(|one| (test, one.pair)).collect();
            let has_passed = |key: &TestPair| results.retested(*key, judgement, roster).1 > 0;
            if !own.iter().any(has_passed) {
                let again = pairs_for_second_retest(&own, results);
                decided.extend(own.into_iter().filter(|key| !again.contains(key)));
            }
        }
    }
    decided
}

/// The pairs of a part in a test that need a second retest, with different NICs if there are such
/// pairs: so many that with the pairs that have it they are decisive.
fn pairs_for_second_retest(own: &[TestPair], results: &ResultStore) -> Vec<TestPair> {
    let (again, mut once): (Vec<TestPair>, Vec<TestPair>) =
        own.iter().partition(|key| results.retest_count(**key) >= DECISIVE);
    let missing = DECISIVE.saturating_sub(again.len());
    let Some(first) = again.first().or(once.first()).copied() else {
        return Vec::new();
    };
    let is_alike =
        |(_, pair): &TestPair| pair.initiator == first.1.initiator || pair.target == first.1.target;
    once.sort_by_key(|key| *key != first && is_alike(key));
    once.truncate(missing);
    once
}

/// The good pairs that may be measured beside these.
fn good_pairs(pairs: &[TestPair], explained: &Explained, sweep: SweepResults<'_>) -> GoodPairs {
    GoodPairs::beside(pairs, sweep.results, &explained.judgement, sweep.roster)
}

/// All pairs outside the limits, and those whose figures say nothing, if there are few. Their
/// retests find the noise among them before the survey looks for causes.
fn few_suspects(sweep: SweepResults<'_>) -> Vec<TestPair> {
    let SweepResults { roster, results, limits, .. } = sweep;
    // A class may be mixed only because of the noise.
    let judgement = Judgement::of(results, limits.clone(), roster);
    let outside = results.outside(&judgement, roster);
    let keys = outside.iter().map(|one| (one.test, one.pair));
    let keys = keys.chain(judgement.silent_pairs(results));
    let open = keys.filter(|key| results.needs_retest(*key, &judgement, roster));
    let open: Vec<TestPair> = open.collect();
    if open.len() <= FEW_SUSPECTS { open } else { Vec::new() }
}

/// The rounds that come next.
#[derive(Debug)]
pub struct RoundPlan {
    pub(super) phase: SurveyPhase,
    /// The rounds of the sweep that are left.
    pub(super) sweep: Sweep,
    /// The pairs of the phases after the sweep.
    pub(super) queue: Queue,
    order: NicOrder,
}

impl RoundPlan {
    /// Creates the plan of a survey that begins with `sweep`.
    pub fn new(sweep: Sweep, order: NicOrder) -> Self {
        Self { phase: SurveyPhase::Sweep, sweep, queue: Queue::default(), order }
    }

    /// Begins a phase that measures the pairs of a queue.
    pub fn begin(&mut self, phase: SurveyPhase, queue: Queue) {
        (self.phase, self.queue) = (phase, queue);
    }

    /// Ends the survey.
    pub fn finish(&mut self) {
        self.phase = SurveyPhase::Over;
    }

    /// The next round of the phase. Notes pairs that cannot be measured in `coverage`.
    pub fn next(
        &mut self,
        roster: &Roster,
        parked: &ExcludedNics,
        coverage: &mut Coverage,
    ) -> Option<Round> {
        if self.phase == SurveyPhase::Sweep {
            return self.next_of_sweep(roster, parked, coverage);
        }
        let refused = self.queue.refuse(|pair| why_unusable(roster, pair).is_none());
        if self.phase == SurveyPhase::Repeat {
            for key in refused {
                coverage.miss(key, Stage::Sweep, &Untested::NoAddress, roster);
            }
        }
        self.queue.next(roster, self.order)
    }

    fn next_of_sweep(
        &mut self,
        roster: &Roster,
        parked: &ExcludedNics,
        coverage: &mut Coverage,
    ) -> Option<Round> {
        self.sweep.next(|test, pair| {
            if coverage.take_earlier(test, pair) {
                return false;
            }
            if let Some((part, reason)) = why_unusable(roster, pair) {
                coverage.unmeasured.leave_out(part, reason);
                return false;
            }
            if let Some(nic) = parked.find(pair) {
                let reason =
                    format!("left out after operations with {LEAST_PARTNERS} partners had failed");
                coverage.unmeasured.leave_out(Unit::Nic(nic), reason.into());
                return false;
            }
            true
        })
    }
}
