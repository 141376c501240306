//! A survey in progress: which rounds come next, and what the results so far say. The coordinator
//! of a survey drives it, and so does a model of a cluster.

use std::collections::BTreeSet;

use super::answer::{Answer, PairResult, Stage, Untested};
use super::conclusion::EndedSurvey;
use super::coverage::{Coverage, ExcludedNics, why_unusable};
use super::explanation::{FEW_NICS, explain};
use super::findings::{Certainty, Findings, Test};
use super::limits::Limits;
use super::pairs::Selection;
use super::plan::{RetestPlan, RoundPlan, SweepResults};
pub use super::plan::{Settings, SurveyPhase, SurveyProgress};
use super::population::MOST_EXACT;
use super::result_store::ResultStore;
use super::roster::{NicId, NodeId, Pair, Roster, TestId};
use super::rounds::{Round, Sweep};

/// Most NICs whose figures are kept for pictures without a request.
const NICS_OF_MATRIX: usize = 1024;

/// A survey in progress.
#[derive(Debug)]
pub struct Conductor {
    roster: Roster,
    results: ResultStore,
    /// The limits that follow from the sweep, after its end.
    limits: Option<Limits>,
    rounds: RoundPlan,
    retests: RetestPlan,
    coverage: Coverage,
    parked: ExcludedNics,
    keeps_figures: bool,
    /// Whether the selections have each NIC in a pair.
    is_of_all_nics: bool,
    most_active: usize,
    settings: Settings,
    /// Whether all pairs are measured because the selected ones differed too much.
    is_wide: bool,
    /// Whether the time for the sweep is up.
    has_ended: bool,
}

impl Conductor {
    /// Creates the survey of a cluster.
    ///
    /// # Errors
    ///
    /// A selection that needs the locations of NICs without any, or a node in a file of pairs that
    /// the roster lacks.
    pub fn new(roster: Roster, tests: Vec<Test>, settings: Settings) -> Result<Self, String> {
        let sweep = Sweep::new(
            &roster,
            &settings.selections,
            tests.len(),
            settings.nics,
            settings.most_active,
            settings.seed,
        )?;
        let planned = sweep.pairs();
        let keeps_figures = settings.keep_figures.unwrap_or(roster.nics.len() <= NICS_OF_MATRIX);
        let keeps_all = keeps_figures || planned <= MOST_EXACT as u64;
        let most_active = settings.most_active.map_or(usize::MAX, |most| most as usize);
        Ok(Self {
            coverage: Coverage::new(planned, tests.len(), roster.nics.len()),
            results: ResultStore::new(
                &roster,
                tests,
                settings.expectations.clone(),
                settings.sensitivity,
                keeps_all,
            ),
            roster,
            limits: None,
            rounds: RoundPlan::new(sweep, settings.nics),
            retests: RetestPlan::new(settings.seed, most_active),
            parked: ExcludedNics::default(),
            keeps_figures,
            is_of_all_nics: settings.selections.iter().any(Selection::is_of_all_nics),
            most_active,
            is_wide: false,
            has_ended: false,
            settings,
        })
    }

    /// The nodes and NICs, with the nodes that were lost since the beginning.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    pub fn tests(&self) -> &[Test] {
        self.results.tests()
    }

    /// The next rounds, `most` of them or fewer. Without any, the survey is over, or it needs the
    /// results of earlier rounds first: see [`Conductor::is_over`].
    pub fn next_rounds(&mut self, most: usize) -> Vec<Round> {
        let mut rounds = Vec::new();
        while rounds.len() < most {
            let next = self.rounds.next(&self.roster, &self.parked, &mut self.coverage);
            match next {
                Some(round) => {
                    self.retests.note(&round);
                    self.coverage.begin(&round);
                    rounds.push(round);
                }
                // The next phase depends on the results of this one.
                None if rounds.is_empty() && self.coverage.is_settled() && !self.is_over() => {
                    self.begin_next_phase()
                }
                None => break,
            }
        }
        rounds
    }

    /// Whether the short slots of the sweep suffice for these rounds. Pairs that are repeated, or
    /// whose NICs failed, need longer ones.
    pub fn has_short_slots(&self, rounds: &[Round]) -> bool {
        match self.rounds.phase {
            SurveyPhase::Sweep | SurveyPhase::Again => true,
            SurveyPhase::Repeat | SurveyPhase::Over => false,
            SurveyPhase::Retest | SurveyPhase::Swap => {
                let failed: BTreeSet<NicId> =
                    self.results.failed_pairs().flat_map(|pair| pair.nics()).collect();
                let mut pairs = rounds.iter().flat_map(|round| &round.pairs);
                !pairs.any(|pair| pair.nics().iter().any(|nic| failed.contains(nic)))
            }
        }
    }

    /// Begins the phase after a phase without open pairs.
    fn begin_next_phase(&mut self) {
        if matches!(
            self.rounds.phase,
            SurveyPhase::Sweep | SurveyPhase::Repeat | SurveyPhase::Again
        ) {
            let pairs = self.coverage.repeat();
            if !pairs.is_empty() {
                let queue = self.retests.queue(pairs, Stage::Sweep, self.most_active);
                self.rounds.begin(SurveyPhase::Repeat, queue);
                return;
            }
            self.limits = Some(self.limits_so_far());
        }
        let next = self.retests.next(SweepResults {
            roster: &self.roster,
            results: &self.results,
            limits: self.limits.get_or_insert_default(),
            parked: &self.parked,
        });
        match next {
            Some((phase, queue)) => self.rounds.begin(phase, queue),
            None if self.needs_all_pairs() => self.widen(),
            None => self.rounds.finish(),
        }
    }

    /// Whether the pairs of a class differ too much for a verdict, although CPUs are not busy, and
    /// all pairs of the NICs are few: with them, links may be told apart. A part that is bad is a
    /// verdict: figures of another time may hide it.
    fn needs_all_pairs(&self) -> bool {
        let has_all = self.settings.selections.contains(&Selection::All);
        if self.has_ended || has_all || !self.results.keeps_all {
            return false;
        }
        let limits = self.limits.as_ref();
        let explained = limits.map(|limits| explain(&self.results, limits, &self.roster));
        self.roster.nics.len() < FEW_NICS
            && explained.is_some_and(|explained| {
                let judgement = &explained.judgement;
                let mut parts = explained.explanations.iter();
                let mut keys = judgement.limits.keys();
                !parts.any(|part| part.certainty == Certainty::Bad)
                    && keys.any(|key| judgement.differs_too_much(&self.results, *key))
            })
    }

    /// Begins a survey of all pairs, which has the results so far.
    fn widen(&mut self) {
        let settings = Settings { selections: vec![Selection::All], ..self.settings.clone() };
        let (roster, tests) = (self.roster.clone(), self.results.tests().to_vec());
        // All pairs need no location and no file.
        let Ok(mut wide) = Self::new(roster, tests, settings) else {
            return self.rounds.finish();
        };
        for result in self.results.all() {
            wide.add_earlier(result);
        }
        *self = Self { is_wide: true, ..wide };
    }

    /// The limits that follow from the sweep so far.
    fn limits_so_far(&self) -> Limits {
        let missing = self.coverage.unanswered();
        self.results.limits(&self.roster, &missing, &BTreeSet::new())
    }

    /// Adds the result of a pair of a round. A second result of the same pair is ignored, with one
    /// exception: if the target was too late, an operation that failed says nothing.
    pub fn add(&mut self, result: &PairResult) {
        let key = (result.test, result.pair);
        if self.coverage.end(key, result.stage) {
            self.settle(result);
        } else if let Answer::Untested(reason) = &result.answer {
            let is_explained = |failed: &PairResult| {
                (failed.test, failed.pair) == key
                    && (failed.stage, failed.round) == (result.stage, result.round)
            };
            self.withdraw_failures(is_explained, reason);
        }
    }

    /// Adds a result of an earlier survey of the same roster, before the first round. The pair is
    /// not measured again, unless it was untested. It counts as answered if the sweep has it.
    pub fn add_earlier(&mut self, result: &PairResult) {
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
        } else if self.coverage.add_earlier((result.test, result.pair)) {
            self.store(result);
        }
    }

    /// Takes the only result of a pair.
    fn settle(&mut self, result: &PairResult) {
        let is_lost = why_unusable(&self.roster, result.pair).is_some();
        let missing = match &result.answer {
            Answer::Untested(reason) => Some(reason.clone()),
            Answer::Failed(reason) if is_lost => Some(reason.as_str().into()),
            _ => None,
        };
        match missing {
            Some(reason) => {
                let key = (result.test, result.pair);
                self.coverage.miss(key, result.stage, &reason, &self.roster);
            }
            None => {
                self.coverage.count(result.stage);
                self.store(result);
            }
        }
    }

    /// Stores a result that says something about its NICs.
    fn store(&mut self, result: &PairResult) {
        if let Answer::Failed(_) = result.answer {
            self.parked.add_failure(result.pair);
        }
        self.results.add(result, &self.roster);
    }

    /// Removes failures that `reason` has explained: their pairs have no answer. A NIC that only
    /// these failures have taken out of the sweep returns.
    fn withdraw_failures(&mut self, is_explained: impl Fn(&PairResult) -> bool, reason: &Untested) {
        let explained = self.results.remove_failures(&self.roster, is_explained);
        if explained.is_empty() {
            return;
        }
        self.parked = ExcludedNics::new(self.results.failed_pairs());
        for (key, stage) in explained {
            self.coverage.withdraw(key, stage, reason, &self.roster);
        }
    }

    /// Takes back the failures of these pairs in a test: its slots were too short for answers.
    pub fn withdraw_unanswered(&mut self, test: TestId, pairs: &BTreeSet<Pair>) {
        let is_one = |result: &PairResult| result.test == test && pairs.contains(&result.pair);
        self.withdraw_failures(is_one, &Untested::ShortSlot);
    }

    /// Gives up waiting for the results of the rounds so far. `reason` says why they are missing.
    pub fn give_up(&mut self, reason: &str) {
        self.coverage.give_up(|_| true, &reason.into(), &self.roster);
    }

    /// Leaves a node out of all further rounds, and gives up waiting for its results. Failures of
    /// operations with the node say nothing about its partners: their pairs are untested.
    pub fn lose(&mut self, node: NodeId, reason: &str) {
        self.roster.set_absent(node, reason);
        let nodes: Vec<NodeId> = self.roster.nics.iter().map(|nic| nic.node).collect();
        let is_lost = |nic: &NicId| nodes[nic.index()] == node;
        let reason = reason.into();
        self.coverage.give_up(|pair| pair.nics().iter().any(is_lost), &reason, &self.roster);
        self.withdraw_failures(|result| result.pair.nics().iter().any(is_lost), &reason);
    }

    /// Leaves a NIC out of all further rounds, for this reason. Operations with it that fail in the
    /// rounds so far say nothing about its partners.
    pub fn fail_nic(&mut self, nic: NicId, reason: &str) {
        self.roster.set_failed(nic, reason);
    }

    /// Ends the sweep early, so that the time that is left is used for the suspects.
    pub fn end_sweep(&mut self) {
        self.has_ended = true;
        let results = &self.results;
        let is_measured = |nic| results.answers(nic) > 0;
        let (sweep, none) = (&mut self.rounds.sweep, std::iter::empty());
        self.coverage.end_sweep(sweep, none, "the time was up", &self.roster, is_measured);
    }

    /// Whether the survey needs no further measurement.
    pub fn is_over(&self) -> bool {
        self.rounds.phase == SurveyPhase::Over
    }

    /// The number of pairs of the sweep that this survey has measured itself, not an earlier one,
    /// and the number that it has still to measure.
    pub fn measured_and_left(&self) -> (u64, u64) {
        self.coverage.measured_and_left()
    }

    /// Returns how far the survey is.
    pub fn progress(&self) -> SurveyProgress {
        SurveyProgress {
            phase: self.rounds.phase,
            planned: self.coverage.planned,
            answered: self.coverage.answered,
            suspects: self.results.suspects,
            retested: self.coverage.retested,
            worst: self.results.worst().cloned(),
        }
    }

    /// Returns what the results so far say.
    pub fn findings(&self) -> Findings {
        let so_far = self.limits_so_far();
        EndedSurvey {
            roster: &self.roster,
            results: &self.results,
            limits: self.limits.as_ref().unwrap_or(&so_far),
            coverage: self.coverage.if_it_ends(
                &self.rounds.sweep,
                self.rounds.queue.sweep_pairs(),
                &self.roster,
                |nic| self.results.answers(nic) > 0,
            ),
            keeps_figures: self.keeps_figures,
            is_of_all_nics: self.is_of_all_nics,
            is_wide: self.is_wide,
        }
        .findings()
    }
}
