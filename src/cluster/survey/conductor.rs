//! The course of a survey: which rounds come next, and what the results so far say. It is driven by the
//! coordinator of a survey, and by a model of a cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;

use super::answer::{Pair, Stage};
use super::explanation::{Explained, explain};
use super::failures::FAILING_PARTNERS;
use super::findings::{Test, Unit};
use super::limits::Limits;
use super::outside::MOST_RETESTS;
use super::pair_set::PairSet;
use super::pairs::Selection;
use super::population::MOST_EXACT;
use super::result_store::{Key, ResultStore};
use super::retest::{Queue, suspects, swaps};
use super::roster::Roster;
use super::rounds::{NicOrder, Sweep};
pub use super::settings::{Phase, Progress, Settings};
use super::timetable::Round;
use super::unmeasured::{Rest, Unmeasured, why_unusable};

/// Most NICs whose figures are kept for pictures without a request.
const NICS_OF_MATRIX: usize = 1024;

/// How often pairs without an answer are tried again.
pub(super) const MOST_REPEATS: u8 = 5;

/// How often suspects are chosen, and how often NICs get other partners.
const MOST_WAVES: u8 = 8;
const MOST_SWAPS: u8 = 3;

/// Most pairs outside the limits that are all retested.
const FEW_SUSPECTS: usize = 64;

/// A survey in progress.
#[derive(Debug)]
pub struct Conductor {
    pub(super) roster: Roster,
    nics: NicOrder,
    most_active: usize,
    pub(super) keeps_figures: bool,
    rng: Rng,
    pub(super) sweep: Sweep,
    pub(super) evidence: ResultStore,
    phase: Phase,
    /// Rounds of the phases after the sweep.
    pub(super) queue: Queue,
    /// The limits, which the sweep decides.
    pub(super) limits: Option<Limits>,
    /// Suspects that are retested, and the number of the retest.
    wave: Vec<Key>,
    retest: u8,
    waves: u8,
    swaps: u8,
    repeats: u8,
    /// Largest number of pairs in the first retest of a wave.
    widest: usize,
    pub(super) planned: u64,
    /// Each NIC is to be in a pair.
    pub(super) is_of_all_nics: bool,
    pub(super) answered: u64,
    pub(super) retested: u64,
    /// Pairs of rounds without an answer yet.
    pub(super) outstanding: HashMap<Key, Stage>,
    pub(super) unmeasured: Unmeasured,
    /// Pairs of each test with an answer of an earlier survey, until the sweep comes to them.
    pub(super) already: Vec<PairSet>,
    /// With which partners the operations of a NIC failed.
    pub(super) failing: BTreeMap<u32, BTreeSet<u32>>,
    /// NICs that have left the sweep.
    pub(super) parked: BTreeSet<u32>,
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
            evidence: ResultStore::new(&roster, tests, settings.expectations, keeps_all),
            roster,
            nics: settings.nics,
            most_active: settings
                .most_active
                .map_or(usize::MAX, |most| most as usize),
            keeps_figures,
            rng: Rng::with_seed(settings.seed),
            is_of_all_nics: settings.selections.iter().any(Selection::is_of_all_nics),
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
            unmeasured: Unmeasured::default(),
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
        let (roster, parked, unmeasured) = (&self.roster, &self.parked, &mut self.unmeasured);
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
                unmeasured.leave_out(part, reason);
            }
            is_wanted
        })
    }

    fn next_of_queue(&mut self) -> Option<Round> {
        let is_usable = |pair| why_unusable(&self.roster, pair).is_none();
        if self.phase == Phase::Repeat {
            for key in self.queue.refuse(is_usable) {
                self.unmeasured.add(key, "", &self.roster);
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
                let pairs = self.unmeasured.take_unanswered();
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
        let Explained { explanations, .. } = explain(&self.evidence, limits, &self.roster);
        if self.waves < MOST_WAVES {
            let mut wave = self.few_suspects(limits);
            if wave.is_empty() {
                wave = suspects(&explanations, &self.evidence, limits, &self.roster);
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
                &explanations,
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
        self.unmeasured.leave_out_rest(rest, "the time was up");
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
            untested: self.unmeasured.pairs(),
            suspects: self.evidence.suspects(),
            retested: self.retested,
            worst: self.evidence.worst().cloned(),
        }
    }
}
