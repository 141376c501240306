//! The course of a survey: which rounds come next, and what the results so far say. It is driven by the
//! coordinator of a survey, and by a model of a cluster.

use std::collections::BTreeMap;

use super::answer::{Answer, Pair, PairResult, Stage};
use super::pairs::Selection;
use super::roster::Roster;
use super::rounds::{NicOrder, Sweep};
use super::timetable::Round;
use super::verdict::{Test, Unit, Untested, Verdict};
use crate::plan::expect::Expectation;

/// What the user has asked for.
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
    /// Whether to keep the figures of all pairs; `None` to keep those of small surveys.
    pub keep_figures: Option<bool>,
}

/// What the survey does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It measures the pairs that the user has asked for.
    Sweep,
    /// It measures pairs again that have no answer.
    Repeat,
    /// It measures suspects again.
    Retest,
    /// It measures the NICs of suspects with other partners.
    Swap,
    /// It has ended.
    Over,
}

/// How far the survey is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What it does.
    pub phase: Phase,
    /// Pairs that the user has asked for.
    pub planned: u64,
    /// Pairs of them that were measured or failed.
    pub answered: u64,
    /// Pairs of them that will not be measured.
    pub untested: u64,
    /// Pairs outside the limits of the figures so far.
    pub suspects: u64,
    /// Pairs that were measured again, for suspects.
    pub retested: u64,
    /// The worst result so far.
    pub worst: Option<PairResult>,
}

/// A survey in progress.
#[derive(Debug)]
pub struct Conductor {
    roster: Roster,
    tests: Vec<Test>,
    sweep: Sweep,
    planned: u64,
    answered: u64,
    /// Pairs of rounds without an answer yet.
    outstanding: BTreeMap<(u16, Pair), Stage>,
    untested: BTreeMap<(Unit, String), u64>,
    is_over: bool,
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
        Ok(Self {
            planned: sweep.pairs(),
            roster,
            tests,
            sweep,
            answered: 0,
            outstanding: BTreeMap::new(),
            untested: BTreeMap::new(),
            is_over: false,
        })
    }

    /// Returns the nodes and NICs, with the nodes that were lost since the beginning.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Returns the tests.
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Returns the next rounds, `most` of them or fewer. Without any, the survey is over, or it needs the
    /// results of earlier rounds first: see [`Conductor::is_over`].
    pub fn next_rounds(&mut self, most: usize) -> Vec<Round> {
        let mut rounds = Vec::new();
        while rounds.len() < most {
            let roster = &self.roster;
            let Some(round) = self.sweep.next(|_, pair| is_usable(roster, pair)) else {
                break;
            };
            self.outstanding.extend(
                round
                    .pairs
                    .iter()
                    .map(|pair| ((round.test, *pair), round.stage)),
            );
            rounds.push(round);
        }
        self.is_over = rounds.is_empty() && self.outstanding.is_empty();
        rounds
    }

    /// Adds the result of a pair of a round.
    pub fn add(&mut self, result: PairResult) {
        self.outstanding.remove(&(result.test, result.pair));
        match result.answer {
            Answer::Measured(_) | Answer::Failed(_) => self.answered += 1,
            Answer::Untested(reason) => {
                *self
                    .untested
                    .entry((Unit::Path(result.pair), reason))
                    .or_default() += 1;
            }
        }
    }

    /// Adds a result of an earlier survey of the same roster, before the first round. The pair is not
    /// measured again, unless it was untested.
    pub fn already(&mut self, result: PairResult) {
        self.add(result);
    }

    /// Gives up waiting for the results of the rounds so far: `reason` is why they are missing.
    pub fn give_up(&mut self, reason: &str) {
        for ((_, pair), _) in std::mem::take(&mut self.outstanding) {
            *self
                .untested
                .entry((Unit::Path(pair), reason.to_owned()))
                .or_default() += 1;
        }
    }

    /// Leaves a node out of all further rounds, and gives up waiting for its results.
    pub fn lose(&mut self, node: u32, reason: &str) {
        self.roster.nodes[node as usize]
            .absent
            .get_or_insert_with(|| reason.to_owned());
        let roster = &self.roster;
        self.outstanding
            .retain(|(_, pair), _| is_usable(roster, *pair));
    }

    /// Ends the sweep early, so that the time that is left is used for the suspects.
    pub fn end_sweep(&mut self) {
        while self.sweep.next(|_, _| true).is_some() {}
    }

    /// Returns whether the survey needs no further measurement.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns how far the survey is.
    pub fn progress(&self) -> Progress {
        Progress {
            phase: if self.is_over {
                Phase::Over
            } else {
                Phase::Sweep
            },
            planned: self.planned,
            answered: self.answered,
            untested: self.untested.values().sum(),
            suspects: 0,
            retested: 0,
            worst: None,
        }
    }

    /// Returns what the results so far say.
    pub fn verdict(&self) -> Verdict {
        let untested = self
            .untested
            .iter()
            .map(|((unit, reason), pairs)| Untested {
                unit: *unit,
                reason: reason.clone(),
                pairs: *pairs,
            });
        Verdict {
            untested: untested.collect(),
            planned: self.planned,
            answered: self.answered,
            ..Verdict::default()
        }
    }
}

fn is_usable(roster: &Roster, pair: Pair) -> bool {
    [pair.initiator, pair.target].iter().all(|nic| {
        let nic = &roster.nics[*nic as usize];
        nic.nid.is_some()
            && nic.failure.is_none()
            && roster.nodes[nic.node as usize].absent.is_none()
    })
}
