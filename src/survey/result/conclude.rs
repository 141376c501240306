//! The findings of a survey -> its document, with the conclusion and the first line.

use std::time::{Duration, SystemTime};

use super::document::{COMMAND, Conclusion, SCHEMA_VERSION, Scope, Setup, Survey};
use super::load_words::certainties;
use super::mixed::{is_incomparable, is_mixed};
use super::next::next;
use super::shortfall::shortfall;
use super::summary::summary;
use campaign::quiet::busy::BusyNode;
use campaign::quiet::findings::{Certainty, Findings, Unit, UntestedPart};
use campaign::quiet::roster::{Nic, Roster};
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::time_of_day::{milliseconds, unix_ms};
use load::findings::LoadFindings;
use page::problem::Problem;

impl Survey {
    /// Returns a survey that began at `started`, took `elapsed`, and ended with `end`. `load` is
    /// what it found under load, if there was any.
    pub fn new(
        setup: Setup,
        started: SystemTime,
        elapsed: Duration,
        roster: Roster,
        verdict: Findings,
        load: Option<LoadFindings>,
        end: Result<(), &Failure>,
    ) -> Self {
        let aborted = load.as_ref().and_then(|findings| findings.aborted.as_deref());
        let aborted =
            aborted.map(|why| Failure::environment(format!("the load ended early: {why}")));
        // What ends the survey ends its load as well.
        let end = end.and_then(|()| aborted.as_ref().map_or(Ok(()), Err));
        let conclusion = conclusion(&verdict, load.as_ref(), end);
        let is_software =
            |nic: &Nic| DeviceName::names(&nic.device, |platform| platform.is_simulated);
        let mut survey = Self {
            schema_version: SCHEMA_VERSION,
            command: COMMAND.into(),
            cxidiag_version: env!("CARGO_PKG_VERSION").into(),
            conclusion,
            scope: Scope::from_tests(&setup.tests),
            next: None,
            exit_status: conclusion.exit_status(),
            summary: String::new(),
            error: end.err().map(Problem::from),
            started_unix_ms: unix_ms(started),
            elapsed_ms: milliseconds(elapsed),
            is_software: roster.nics.iter().any(is_software),
            clock_uncertainty_ns: None,
            busy_nodes: Vec::new(),
            setup,
            roster,
            verdict,
            shortfall: None,
            load,
            why: Vec::new(),
            why_shared: Vec::new(),
        };
        survey.shortfall = shortfall(&survey);
        survey.summary = summary(&survey);
        survey.next = next(&survey);
        survey
    }

    /// Returns the survey with the nodes whose CPUs were busy, which no command cures.
    pub fn beside(mut self, busy_nodes: Vec<BusyNode>) -> Self {
        self.busy_nodes = busy_nodes;
        self.next = next(&self);
        self
    }
}

/// A good survey has an answer of all planned pairs but one of this many.
const MOST_UNANSWERED: u64 = 10;

/// Returns the conclusion of a survey with these findings and this end.
fn conclusion(
    verdict: &Findings,
    load: Option<&LoadFindings>,
    end: Result<(), &Failure>,
) -> Conclusion {
    let has = |word| {
        verdict.causes.iter().any(|cause| cause.certainty == word)
            || certainties(load).any(|(_, certainty)| certainty == word)
    };
    let is_load_complete = load.is_none_or(LoadFindings::is_complete);
    // The NICs of a path are tested with other partners.
    let is_path = |part: &UntestedPart| matches!(part.unit, Unit::Path(_));
    let missing = verdict.planned.saturating_sub(verdict.answered);
    let is_complete = verdict.untested.iter().all(is_path)
        && verdict.planned > 0
        && missing * MOST_UNANSWERED <= verdict.planned;
    match end {
        Err(failure) if failure.kind == Kind::Interrupted => Conclusion::Interrupted,
        Err(_) => Conclusion::Failed,
        Ok(()) if has(Certainty::Bad) => Conclusion::Bad,
        Ok(())
            if has(Certainty::Suspect)
                || !is_complete
                || verdict.populations.iter().any(|one| is_mixed(one) || is_incomparable(one))
                || !is_load_complete =>
        {
            Conclusion::Undecided
        }
        Ok(()) => Conclusion::Good,
    }
}
