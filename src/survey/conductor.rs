//! The course of a survey: which rounds come next, and what the results so far say. It is driven by the
//! coordinator of a survey, and by a model of a cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;

use super::answer::{Answer, Pair, PairResult, Stage};
use super::blame::{Causes, causes};
use super::culprit::culprit;
use super::evidence::{Evidence, Key, Limits, MOST_RETESTS};
use super::failures::FAILING_PARTNERS;
use super::gaps::{Gaps, Rest, why_unusable};
use super::pair_set::PairSet;
use super::population::MOST_EXACT;
use super::retest::{Queue, suspects, swaps};
use super::roster::Roster;
use super::rounds::{NicOrder, Sweep};
pub use super::settings::{Phase, Progress, Settings};
use super::timetable::Round;
use super::verdict::{Culprit, LimitSource, Test, Unit, Verdict};

/// Most NICs whose figures are kept for pictures without a request.
const NICS_OF_MATRIX: usize = 1024;

/// How often pairs without an answer are tried again.
pub(super) const MOST_REPEATS: u8 = 5;

/// How often suspects are chosen, and how often NICs get other partners.
const MOST_WAVES: u8 = 8;
const MOST_SWAPS: u8 = 3;

/// Most pairs outside the limits that are all retested.
const FEW_SUSPECTS: usize = 64;

/// Most results outside the limits in a verdict.
const MOST_OUTSIDE: usize = 10_000;

/// A survey in progress.
#[derive(Debug)]
pub struct Conductor {
    roster: Roster,
    nics: NicOrder,
    most_active: usize,
    keeps_figures: bool,
    rng: Rng,
    sweep: Sweep,
    evidence: Evidence,
    phase: Phase,
    /// Rounds of the phases after the sweep.
    queue: Queue,
    /// The limits, which the sweep decides.
    limits: Option<Limits>,
    /// Suspects that are retested, and the number of the retest.
    wave: Vec<Key>,
    retest: u8,
    waves: u8,
    swaps: u8,
    repeats: u8,
    /// Largest number of pairs in the first retest of a wave.
    widest: usize,
    planned: u64,
    answered: u64,
    retested: u64,
    /// Pairs of rounds without an answer yet.
    outstanding: HashMap<Key, Stage>,
    gaps: Gaps,
    /// Pairs of each test with an answer of an earlier survey, until the sweep comes to them.
    already: Vec<PairSet>,
    /// With which partners the operations of a NIC failed.
    failing: BTreeMap<u32, BTreeSet<u32>>,
    /// NICs that have left the sweep.
    parked: BTreeSet<u32>,
}

impl Conductor {
    /// Creates the survey of a cluster.
    ///
    /// # Errors
    ///
    /// A selection that needs the locations of NICs without any, or a node in a file of pairs that the
    /// roster lacks.
    pub fn new(roster: Roster, tests: Vec<Test>, settings: Settings) -> Result<Self, String> {
        let sweep = Sweep::new(
            &roster,
            &settings.selections,
            tests.len() as u16,
            settings.nics,
            settings.most_active,
            settings.seed,
        )?;
        let planned = sweep.pairs();
        let keeps_figures = settings
            .keep_figures
            .unwrap_or(roster.nics.len() <= NICS_OF_MATRIX);
        let keeps_all = keeps_figures || planned <= MOST_EXACT as u64;
        Ok(Self {
            already: vec![PairSet::default(); tests.len()],
            evidence: Evidence::new(&roster, tests, settings.expectations, keeps_all),
            roster,
            nics: settings.nics,
            most_active: settings
                .most_active
                .map_or(usize::MAX, |most| most as usize),
            keeps_figures,
            rng: Rng::with_seed(settings.seed),
            sweep,
            phase: Phase::Sweep,
            queue: Queue::default(),
            limits: None,
            wave: Vec::new(),
            retest: 0,
            waves: 0,
            swaps: 0,
            repeats: 0,
            widest: 0,
            planned,
            answered: 0,
            retested: 0,
            outstanding: HashMap::new(),
            gaps: Gaps::default(),
            failing: BTreeMap::new(),
            parked: BTreeSet::new(),
        })
    }

    /// Returns the nodes and NICs, with the nodes that were lost since the beginning.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Returns the tests.
    pub fn tests(&self) -> &[Test] {
        self.evidence.tests()
    }

    /// Returns the next rounds, `most` of them or fewer. Without any, the survey is over, or it needs the
    /// results of earlier rounds first: see [`Conductor::is_over`].
    pub fn next_rounds(&mut self, most: usize) -> Vec<Round> {
        let mut rounds = Vec::new();
        while rounds.len() < most {
            let next = if self.phase == Phase::Sweep {
                self.next_of_sweep()
            } else {
                self.next_of_queue()
            };
            match next {
                Some(round) => {
                    let keys = round
                        .pairs
                        .iter()
                        .map(|pair| ((round.test, *pair), round.stage));
                    self.outstanding.extend(keys);
                    rounds.push(round);
                }
                // The next phase depends on the results of this one.
                None if rounds.is_empty()
                    && self.outstanding.is_empty()
                    && self.phase != Phase::Over =>
                {
                    self.advance()
                }
                None => break,
            }
        }
        rounds
    }

    fn next_of_sweep(&mut self) -> Option<Round> {
        let (roster, parked, gaps) = (&self.roster, &self.parked, &mut self.gaps);
        let (already, answered) = (&mut self.already, &mut self.answered);
        self.sweep.next(|test, pair| {
            if already[test as usize].remove(pair) {
                *answered += 1;
                return false;
            }
            let reason = why_unusable(roster, pair).or_else(|| {
                let nic = [pair.initiator, pair.target]
                    .into_iter()
                    .find(|nic| parked.contains(nic))?;
                let reason = format!(
                    "left out after operations with {FAILING_PARTNERS} partners had failed"
                );
                Some((Unit::Nic(nic), reason))
            });
            let is_wanted = reason.is_none();
            if let Some((part, reason)) = reason {
                gaps.leave_out(part, reason);
            }
            is_wanted
        })
    }

    fn next_of_queue(&mut self) -> Option<Round> {
        let is_usable = |pair| why_unusable(&self.roster, pair).is_none();
        if self.phase == Phase::Repeat {
            for key in self.queue.refuse(is_usable) {
                self.gaps.add(key, "", &self.roster);
            }
        } else {
            self.queue.refuse(is_usable);
        }
        let round = self.queue.next(&self.roster, self.nics)?;
        if round.stage == Stage::Retest(1) {
            self.widest = self.widest.max(round.pairs.len());
        }
        Some(round)
    }

    /// Chooses what comes after a phase without open pairs.
    fn advance(&mut self) {
        if matches!(self.phase, Phase::Sweep | Phase::Repeat) {
            if self.repeats < MOST_REPEATS {
                self.repeats += 1;
                let pairs = self.gaps.take_unanswered();
                if !pairs.is_empty() {
                    self.enter(Phase::Repeat, pairs, Stage::Sweep, self.most_active);
                    return;
                }
            }
            self.limits = Some(self.evidence.limits(&self.roster));
        }
        let limits = self.limits.take().unwrap_or_default();
        self.choose(&limits);
        self.limits = Some(limits);
    }

    /// Chooses the next retest or swap.
    fn choose(&mut self, limits: &Limits) {
        if self.retest < MOST_RETESTS {
            let undecided = |key: &Key| self.evidence.needs_retest(*key, limits, &self.roster);
            let wave: Vec<Key> = self.wave.iter().copied().filter(undecided).collect();
            if !wave.is_empty() {
                self.retest += 1;
                let most = if self.retest == 1 {
                    self.most_active
                } else {
                    self.widest >> (self.retest - 1)
                };
                self.enter(Phase::Retest, wave, Stage::Retest(self.retest), most);
                return;
            }
        }
        let Causes { causes, .. } = causes(&self.evidence, limits, &self.roster);
        if self.waves < MOST_WAVES {
            let mut wave = self.few_suspects(limits);
            if wave.is_empty() {
                wave = suspects(&causes, &self.evidence, limits, &self.roster);
            }
            wave.retain(|(_, pair)| why_unusable(&self.roster, *pair).is_none());
            // Pairs of NICs that failed are last: they may take long, and disturb others.
            wave.sort_by_key(|(_, pair)| {
                self.parked.contains(&pair.initiator) || self.parked.contains(&pair.target)
            });
            if !wave.is_empty() {
                (self.waves, self.retest, self.widest) = (self.waves + 1, 0, 0);
                self.wave = wave;
                self.choose(limits);
                return;
            }
        }
        if self.swaps < MOST_SWAPS {
            let is_usable = |nic| {
                why_unusable(
                    &self.roster,
                    Pair {
                        initiator: nic,
                        target: nic,
                    },
                )
                .is_none()
            };
            let pairs = swaps(
                &causes,
                &self.evidence,
                &self.roster,
                is_usable,
                &mut self.rng,
            );
            if !pairs.is_empty() {
                self.swaps += 1;
                self.enter(Phase::Swap, pairs, Stage::Swap, self.most_active);
                return;
            }
        }
        self.phase = Phase::Over;
    }

    /// Returns all pairs outside the limits for the first retests, if there are few: noise is sorted out
    /// before anything is blamed.
    fn few_suspects(&self, limits: &Limits) -> Vec<Key> {
        if self.waves > 0 {
            return Vec::new();
        }
        let outside = self.evidence.outside(limits, &self.roster);
        let keys = outside.iter().map(|one| (one.test, one.pair));
        let open = |key: &Key| self.evidence.needs_retest(*key, limits, &self.roster);
        let keys: Vec<Key> = keys.filter(open).collect();
        if keys.len() <= FEW_SUSPECTS {
            keys
        } else {
            Vec::new()
        }
    }

    fn enter(&mut self, phase: Phase, pairs: Vec<Key>, stage: Stage, most: usize) {
        self.phase = phase;
        self.queue = Queue::new(pairs, stage, most.min(self.most_active));
    }

    /// Adds the result of a pair of a round. A second result of the same pair is ignored, with one
    /// exception: if the target was too late, an operation that failed says nothing.
    pub fn add(&mut self, result: PairResult) {
        let key = (result.test, result.pair);
        if self.outstanding.get(&key) == Some(&result.stage) {
            self.outstanding.remove(&key);
            self.settle(result);
        } else if let Answer::Untested(reason) = &result.answer {
            let is_explained = |failed: &PairResult| {
                (failed.test, failed.pair) == key
                    && (failed.stage, failed.round) == (result.stage, result.round)
            };
            self.withdraw(is_explained, reason);
        }
    }

    /// Removes failures that `reason` has explained: their pairs have no answer, and NICs that only these
    /// have taken out of the sweep return.
    fn withdraw(&mut self, is_explained: impl Fn(&PairResult) -> bool, reason: &str) {
        let explained = self.evidence.remove_failures(&self.roster, is_explained);
        if explained.is_empty() {
            return;
        }
        self.failing.clear();
        self.parked.clear();
        let failed: Vec<Pair> = self.evidence.failed_pairs().collect();
        failed.into_iter().for_each(|pair| self.park(pair));
        for (key, stage) in explained {
            // The sweep has not come to the pair of an earlier survey.
            let is_pending = stage == Stage::Sweep && self.already[key.0 as usize].remove(key.1);
            if !is_pending {
                self.answered -= u64::from(stage == Stage::Sweep);
                self.miss(key, stage, reason);
            }
        }
    }

    /// Notes that a pair has no answer.
    fn miss(&mut self, key: Key, stage: Stage, reason: &str) {
        if stage == Stage::Sweep {
            self.gaps.add(key, reason, &self.roster);
        }
    }

    /// Takes the only result of a pair.
    fn settle(&mut self, result: PairResult) {
        let is_lost = why_unusable(&self.roster, result.pair).is_some();
        match &result.answer {
            Answer::Untested(reason) => self.miss((result.test, result.pair), result.stage, reason),
            Answer::Failed(reason) if is_lost => {
                self.miss((result.test, result.pair), result.stage, reason)
            }
            _ => {
                if result.stage == Stage::Sweep {
                    self.answered += 1;
                } else {
                    self.retested += 1;
                }
                self.take(result);
            }
        }
    }

    /// Takes what a result says about its NICs.
    fn take(&mut self, result: PairResult) {
        if let Answer::Failed(_) = result.answer {
            self.park(result.pair);
        }
        self.evidence.add(result, &self.roster);
    }

    /// Takes a NIC out of the sweep if its operations fail with several partners, and with more than
    /// those of its partner do.
    fn park(&mut self, pair: Pair) {
        let Pair { initiator, target } = pair;
        if initiator == target || self.parked.contains(&initiator) || self.parked.contains(&target)
        {
            return;
        }
        self.failing.entry(initiator).or_default().insert(target);
        self.failing.entry(target).or_default().insert(initiator);
        let (one, other) = (self.failing[&initiator].len(), self.failing[&target].len());
        if one.max(other) >= FAILING_PARTNERS && one != other {
            let nic = if one > other { initiator } else { target };
            self.parked.insert(nic);
            for partner in self.failing.remove(&nic).unwrap_or_default() {
                if let Some(partners) = self.failing.get_mut(&partner) {
                    partners.remove(&nic);
                }
            }
        }
    }

    /// Adds a result of an earlier survey of the same roster, before the first round. The pair is not
    /// measured again, unless it was untested. It counts as answered if the sweep has it.
    pub fn already(&mut self, result: PairResult) {
        let says_nothing = match result.answer {
            Answer::Measured(_) => false,
            Answer::Failed(_) => why_unusable(&self.roster, result.pair).is_some(),
            Answer::Untested(_) => true,
        };
        if says_nothing {
            return;
        }
        if result.stage != Stage::Sweep {
            self.settle(result);
        } else if self.already[result.test as usize].insert(result.pair) {
            self.take(result);
        }
    }

    /// Gives up waiting for the results of the rounds so far: `reason` is why they are missing.
    pub fn give_up(&mut self, reason: &str) {
        for (key, stage) in std::mem::take(&mut self.outstanding) {
            self.miss(key, stage, reason);
        }
    }

    /// Leaves a node out of all further rounds, and gives up waiting for its results. Operations with it
    /// that failed say nothing about its partners: they are untested.
    pub fn lose(&mut self, node: u32, reason: &str) {
        self.roster.nodes[node as usize]
            .absent
            .get_or_insert_with(|| reason.to_owned());
        let own: BTreeSet<u32> = (0..self.roster.nics.len() as u32)
            .filter(|nic| self.roster.nics[*nic as usize].node == node)
            .collect();
        let is_of_node = |pair: Pair| own.contains(&pair.initiator) || own.contains(&pair.target);
        let lost: Vec<(Key, Stage)> = self
            .outstanding
            .extract_if(|(_, pair), _| is_of_node(*pair))
            .collect();
        for (key, stage) in lost {
            self.miss(key, stage, reason);
        }
        self.withdraw(|result| is_of_node(result.pair), reason);
    }

    /// Ends the sweep early, so that the time that is left is used for the suspects.
    pub fn end_sweep(&mut self) {
        let (already, answered) = (&mut self.already, &mut self.answered);
        let mut rest = Rest::new(&self.roster, |nic| self.evidence.answers(nic) > 0);
        self.sweep.drain(|test, pair| {
            if already[test as usize].remove(pair) {
                *answered += 1;
            } else {
                rest.add(pair);
            }
        });
        self.gaps.leave_out_rest(rest, "the time was up");
    }

    /// Returns whether the survey needs no further measurement.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Returns how far the survey is.
    pub fn progress(&self) -> Progress {
        Progress {
            phase: self.phase,
            planned: self.planned,
            answered: self.answered,
            untested: self.gaps.pairs(),
            suspects: self.evidence.suspects(),
            retested: self.retested,
            worst: self.evidence.worst().cloned(),
        }
    }

    /// Leaves a NIC out of all further rounds, for this reason. Operations with it that fail in the
    /// rounds so far say nothing about its partners.
    pub fn fail_nic(&mut self, nic: u32, reason: &str) {
        let failure = &mut self.roster.nics[nic as usize].failure;
        failure.get_or_insert_with(|| reason.to_owned());
    }

    /// Returns what the results so far say.
    pub fn verdict(&self) -> Verdict {
        let so_far = self.evidence.limits(&self.roster);
        let limits = self.limits.as_ref().unwrap_or(&so_far);
        let Causes { causes, mixed } = causes(&self.evidence, limits, &self.roster);
        let outside = self.evidence.outside(limits, &self.roster);
        let mut culprits: Vec<Culprit> = causes
            .iter()
            .map(|cause| culprit(cause, &self.evidence, limits, &self.roster))
            .collect();
        culprits.sort_by_key(|culprit| {
            let pairs: u32 = culprit.evidence.iter().map(|one| one.outside).sum();
            let failed = culprit
                .evidence
                .iter()
                .any(|one| one.source == LimitSource::Failure);
            std::cmp::Reverse((culprit.word, failed, pairs))
        });
        let mut populations = self.evidence.populations(limits, &outside);
        for population in &mut populations {
            population.limit = population
                .limit
                .filter(|_| !mixed.contains(&population.test));
        }
        let (gaps, answered) = self.gaps_so_far();
        Verdict {
            culprits,
            untested: gaps.untested(&self.roster),
            populations,
            aggregates: self.evidence.aggregates(&outside, &self.roster),
            outside: self.evidence.results(&outside, MOST_OUTSIDE),
            matrices: if self.keeps_figures {
                self.evidence.matrices()
            } else {
                Vec::new()
            },
            planned: self.planned,
            answered,
        }
    }

    /// Returns the gaps and the number of answers if the survey ends at this moment.
    fn gaps_so_far(&self) -> (Gaps, u64) {
        let (mut gaps, mut answered) = (self.gaps.clone(), self.answered);
        let mut rest = Rest::new(&self.roster, |nic| self.evidence.answers(nic) > 0);
        self.sweep.clone().drain(|test, pair| {
            if self.already[test as usize].contains(pair) {
                answered += 1;
            } else {
                rest.add(pair);
            }
        });
        let outstanding = self.outstanding.iter();
        let of_sweep = outstanding.filter(|(_, stage)| **stage == Stage::Sweep);
        of_sweep.for_each(|((_, pair), _)| rest.add(*pair));
        self.queue.of_sweep().for_each(|pair| rest.add(pair));
        gaps.leave_out_rest(rest, "the survey ended before");
        (gaps, answered)
    }
}
