//! The next round of a survey: of the sweep, or of the pairs that a later phase measures.

use super::answer::Stage;
use super::coverage::Coverage;
use super::findings::Unit;
use super::retest::Queue;
use super::roster::Roster;
use super::rounds::{NicOrder, Round, Sweep};
use super::settings::SurveyPhase;
use super::unmeasured::{ExcludedNics, why_unusable};
use super::untested::Untested;
use crate::blame::limits::LEAST_PARTNERS;

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

    /// Returns the next round of the phase. Notes pairs that cannot be measured in `coverage`.
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
