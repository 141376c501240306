//! The sizes of a run, one after the other.

use super::nic_counters::NicCounters;
use super::results::Results;
use facts::error::Failure;
use facts::interrupt;
use facts::phase::{Phase, enter};
use plan::run_options::{RunOptions, Side};
use report::Reporter;

/// What a run measures, and where its results go.
pub struct Sizes<'a, R> {
    pub run: &'a RunOptions,
    pub reporter: &'a mut Reporter,
    pub results: R,
    pub counters: NicCounters,
}

impl<'a, R: Results> Sizes<'a, R> {
    /// Reports that the run of `side` begins.
    pub fn begin(
        run: &'a RunOptions,
        side: Side,
        reporter: &'a mut Reporter,
        mut results: R,
        counters: NicCounters,
    ) -> Result<Self, Failure> {
        results.begin(reporter, run)?;
        if side == Side::Client && run.extensions.until_stopped {
            interrupt::end_when_stopped();
        }
        Ok(Self { run, reporter, results, counters })
    }

    /// Calls `measure` for each size. It returns the number of checked bytes.
    ///
    /// # Errors
    ///
    /// The first failure, with its size.
    pub fn measure(
        &mut self,
        mut measure: impl FnMut(u64, &mut R, &mut NicCounters) -> Result<Option<u64>, Failure>,
    ) -> Result<(), (u64, Failure)> {
        let Self { run, reporter, results, counters } = self;
        let mut measure_size = |size| {
            results.begin_size(reporter, size);
            reporter.set_verified(measure(size, results, counters)?);
            enter(Phase::Reporting);
            results.report(reporter, size)
        };
        run.sizes().try_for_each(|size| measure_size(size).map_err(|failure| (size, failure)))
    }

    /// Returns how far the run is, for messages.
    pub fn place(&self, size: u64) -> String {
        match self.results.progress() {
            Some(progress) => format!("at {size} bytes, {progress}"),
            None => format!("at {size} bytes"),
        }
    }

    /// Reports the results of a run that `failure` has ended at this `size`, and returns it.
    pub fn cut_short(mut self, size: u64, failure: Failure) -> Failure {
        self.reporter.set_counters(self.counters.end_alone());
        self.results.report_cut_short(self.reporter, size, &failure);
        failure
    }
}
