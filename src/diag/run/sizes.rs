//! The sizes of a run, one after the other.

use super::nic_counters::CounterBaseline;
use super::results::Results;
use facts::error::Failure;
use facts::interrupt;
use facts::phase::{Phase, enter};
use plan::depths::Row;
use plan::run_options::{RunOptions, Side};
use report::Reporter;

/// The options of a run, and the place of its results.
pub struct Sizes<'a, R> {
    pub run: &'a RunOptions,
    pub reporter: &'a mut Reporter,
    pub results: R,
    pub counters: CounterBaseline,
}

impl<'a, R: Results> Sizes<'a, R> {
    /// Reports that the run of `side` begins.
    pub fn begin(
        run: &'a RunOptions,
        side: Side,
        reporter: &'a mut Reporter,
        mut results: R,
        counters: CounterBaseline,
    ) -> Result<Self, Failure> {
        results.begin(reporter, run)?;
        if side == Side::Client && run.extensions.until_stopped {
            interrupt::end_when_stopped();
        }
        Ok(Self { run, reporter, results, counters })
    }

    /// Calls `measure` for each row. It returns the number of checked bytes.
    ///
    /// # Errors
    ///
    /// The first failure, with its row.
    pub fn measure(
        &mut self,
        mut measure: impl FnMut(Row, &mut R, &mut CounterBaseline) -> Result<Option<u64>, Failure>,
    ) -> Result<(), (Row, Failure)> {
        let Self { run, reporter, results, counters } = self;
        let mut measure_row = |row: Row| {
            results.begin_size(reporter, row);
            reporter.set_verified(measure(row, results, counters)?);
            enter(Phase::Reporting);
            results.report(reporter, row.size)
        };
        run.rows().try_for_each(|row| measure_row(row).map_err(|failure| (row, failure)))
    }

    /// How far the run is, for messages.
    pub fn place(&self, row: Row) -> String {
        match self.results.progress() {
            Some(progress) => format!("at {row}, {progress}"),
            None => format!("at {row}"),
        }
    }

    /// Reports the results of a run that `failure` has ended at this `row`, and returns it.
    pub fn cut_short(mut self, row: Row, failure: Failure) -> Failure {
        self.reporter.set_counters(self.counters.end_alone());
        self.results.report_cut_short(self.reporter, row.size, &failure);
        failure
    }
}
