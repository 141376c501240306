//! How a run has ended: status, exit status, failure.

use std::time::Duration;

use super::outcome::{ExpectationResult, Outcome, SizeResult, Status};
use facts::error::{Failure, Kind};
use facts::number::and_more;
use facts::time_of_day::milliseconds;
use page::problem::Problem;
use plan::depths::Row;

impl Outcome {
    /// Returns the result of the run, whose loops ended with `result`: the failure, an unmet
    /// expectation, or an unstable median.
    ///
    /// # Errors
    ///
    /// The first of them.
    pub fn result(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        result.and_then(|()| all_met(&self.expectations)).and_then(|()| all_stable(&self.results))
    }

    /// Records how the run has ended.
    pub fn close(&mut self, result: Result<(), &Failure>, elapsed: Duration) {
        self.elapsed_ms = milliseconds(elapsed);
        let Err(failure) = result else {
            self.status = Status::Complete;
            self.exit_status = 0;
            self.error = None;
            return;
        };
        self.status = match failure.kind {
            Kind::Unmet => Status::Unmet,
            Kind::Interrupted => Status::Interrupted,
            _ => Status::Failed,
        };
        self.exit_status = failure.status();
        self.error = Some(Problem::from(failure));
    }
}

fn all_met(verdicts: &[ExpectationResult]) -> Result<(), Failure> {
    let unmet: Vec<&ExpectationResult> = verdicts.iter().filter(|verdict| !verdict.met).collect();
    let Some(first) = unmet.first() else {
        return Ok(());
    };
    let others = and_more(unmet.len() - 1).replacen(" and", ", and", 1);
    let (expectation, row) = (&first.expectation, first.row());
    Err(Failure::unmet(format!("expectation not met: {expectation} at {row}{others}")))
}

/// Returns whether no median is unstable.
fn all_stable(results: &[SizeResult]) -> Result<(), Failure> {
    let is_unstable = |result: &&SizeResult| {
        let latency = result.latency.as_ref();
        latency.is_some_and(|latency| latency.median_is_stable == Some(false))
    };
    let unstable: Vec<Row> = results.iter().filter(is_unstable).map(SizeResult::row).collect();
    if unstable.is_empty() {
        return Ok(());
    }
    Err(Failure::unmet(format!(
        "unstable: the median did not reach the limit of --until in time at {}",
        Row::names(&unstable)
    ))
    .with_hint("measure for longer (--duration), allow more (--until), or stop other programs on these CPUs"))
}
