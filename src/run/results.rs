//! The results of one size, and how they are reported.

use std::sync::Arc;

use crate::bench::api::Part;
use crate::error::Failure;
use crate::machine::Machine;
use crate::measure::{
    ChosenClock, Gauge, OwnError, Rates, Recorder, RunClock, SideResult, StabilityCheck, Until,
};
use crate::plan::Plan;
use crate::report::{MeasuredBandwidth, Reporter};
use crate::run_options::RunOptions;

/// The results of a run on one side, size by size.
pub trait Results {
    /// Reports that the first size is about to be measured.
    fn begin(&mut self, reporter: &mut Reporter, run: &RunOptions) -> Result<(), Failure>;

    /// Clears the results and reports that `size` is about to be measured.
    fn begin_size(&mut self, reporter: &mut Reporter, size: u64);

    /// Reports the results of `size`.
    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure>;

    /// Reports the incomplete results of `size`, during which `failure` has ended the run.
    fn report_cut_short(&mut self, reporter: &mut Reporter, size: u64, failure: &Failure);

    /// Reports that all sizes are done.
    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure>;
}

/// The latencies that a client measures.
pub struct Latencies {
    /// Keeps the samples of one size.
    recorder: Recorder,
    clock: RunClock,
    until: Option<Until>,
}

/// Where a loop puts the latencies of one size, and how it measures them.
pub struct Samples<'a> {
    /// The clock to read.
    pub clock: ChosenClock,
    recorder: &'a mut Recorder,
    stability: StabilityCheck,
}

impl<'a> Samples<'a> {
    /// Creates the samples of one size. They are enough when the median is known to the limit
    /// `until`, if there is one.
    pub fn new(clock: ChosenClock, recorder: &'a mut Recorder, until: Option<Until>) -> Self {
        Self {
            clock,
            recorder,
            stability: StabilityCheck::new(until),
        }
    }

    /// Records a latency (ns). Returns whether the samples are enough.
    #[inline]
    pub fn record(&mut self, latency: u64) -> bool {
        self.recorder.record(latency);
        self.stability.ends(self.recorder)
    }
}

impl Latencies {
    /// Chooses the clock, and allocates the memory for the samples of `plan`.
    ///
    /// # Errors
    ///
    /// A requested clock that cannot be used, and not enough memory for the samples that
    /// `--report-all` prints.
    pub fn new(plan: &Plan) -> Result<Self, Failure> {
        let clock = RunClock::choose(plan.clock, &Machine::this())?;
        let recorder = Recorder::new(plan.run.report_all.then_some(plan.run.iters))?;
        Ok(Self {
            recorder,
            clock,
            until: plan.until,
        })
    }

    /// Returns the samples of the next size.
    pub fn samples(&mut self) -> Samples<'_> {
        Samples::new(self.clock.clock(), &mut self.recorder, self.until)
    }
}

impl Results for Latencies {
    fn begin(&mut self, reporter: &mut Reporter, run: &RunOptions) -> Result<(), Failure> {
        if reporter.shows_own_error() {
            let error = match self.clock.clock() {
                ChosenClock::MonotonicRaw(clock) => OwnError::measure(&clock),
                ChosenClock::Counter(clock) => OwnError::measure(&clock),
            };
            reporter.set_own_error(error?);
        }
        reporter.set_clock(self.clock.facts());
        reporter.begin_latencies(run.report_all)
    }

    fn begin_size(&mut self, reporter: &mut Reporter, size: u64) {
        self.recorder.clear();
        reporter.begin_size(size, self.recorder.gauge());
    }

    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure> {
        reporter.set_clock(self.clock.facts());
        reporter.latencies(size, &self.recorder)
    }

    fn report_cut_short(&mut self, reporter: &mut Reporter, size: u64, failure: &Failure) {
        reporter.set_clock(self.clock.facts());
        reporter.latencies_cut_short(size, &self.recorder, failure);
    }

    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure> {
        reporter.end()?;
        if let Some(warning) = self.clock.facts().warning() {
            reporter.warn(&warning);
        }
        Ok(())
    }
}

/// The results of a latency server, which prints only that a size is done.
pub struct ServerResults;

impl Results for ServerResults {
    fn begin(&mut self, _: &mut Reporter, _: &RunOptions) -> Result<(), Failure> {
        Ok(())
    }

    fn begin_size(&mut self, _: &mut Reporter, _: u64) {}

    fn report(&mut self, reporter: &mut Reporter, _: u64) -> Result<(), Failure> {
        reporter.server_result()
    }

    fn report_cut_short(&mut self, _: &mut Reporter, _: u64, _: &Failure) {}

    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure> {
        reporter.server_end()
    }
}

/// The results of both sides of a bandwidth run for one size. Both sides report them.
pub struct BandwidthResults {
    /// This side's result with each pair; empty before the size is measured.
    pub own: Vec<SideResult>,
    /// The peer's result with each pair; empty before the exchange of results.
    pub peer: Vec<SideResult>,
    /// Operations of complete iterations, for the progress line.
    pub gauge: Arc<Gauge>,
    part: Part,
    bidirectional: bool,
    /// Both sides use the same NIC.
    one_nic: bool,
}

impl BandwidthResults {
    /// Creates empty results of a side that plays `part`.
    pub fn new(part: Part, bidirectional: bool, one_nic: bool) -> Self {
        Self {
            own: Vec::new(),
            peer: Vec::new(),
            gauge: Arc::default(),
            part,
            bidirectional,
            one_nic,
        }
    }

    fn measured(&self, size: u64) -> MeasuredBandwidth {
        let sides = [
            SideResult::of_pairs(&self.own),
            SideResult::of_pairs(&self.peer),
        ];
        MeasuredBandwidth {
            size,
            sides,
            rates: Rates::of(size, sides, self.one_nic && self.bidirectional),
            sends: self.part.issues(),
            one_sided: self.bidirectional && self.peer.is_empty(),
        }
    }
}

impl Results for BandwidthResults {
    fn begin(&mut self, reporter: &mut Reporter, _: &RunOptions) -> Result<(), Failure> {
        reporter.begin_bandwidth()
    }

    fn begin_size(&mut self, reporter: &mut Reporter, size: u64) {
        self.own.clear();
        self.peer.clear();
        self.gauge.set(0, 0);
        reporter.begin_size(size, &self.gauge);
    }

    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure> {
        reporter.bandwidth(self.measured(size))
    }

    fn report_cut_short(&mut self, reporter: &mut Reporter, size: u64, failure: &Failure) {
        reporter.bandwidth_cut_short(self.measured(size), failure);
    }

    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure> {
        reporter.end()
    }
}
