//! What one size yields, and how it is reported.

use std::sync::Arc;

use crate::bench::api::Part;
use crate::error::Failure;
use crate::measure::{Gauge, Rates, Recorder, SideResult};
use crate::report::{MeasuredBandwidth, Reporter};
use crate::run_options::RunOptions;

/// The results of a run on one side, size by size.
pub trait Results {
    /// Reports that the first size is about to be measured.
    fn begin(&mut self, reporter: &mut Reporter, run: &RunOptions) -> Result<(), Failure>;

    /// Clears the results, for the next size.
    fn begin_size(&mut self, reporter: &mut Reporter, size: u64);

    /// Reports the results of a size.
    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure>;

    /// Reports what there is of a size in whose middle `failure` has ended the run.
    fn report_cut_short(&mut self, reporter: &mut Reporter, size: u64, failure: &Failure);

    /// Reports that there are no more sizes.
    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure>;
}

/// The latencies that a client measures.
pub struct Latencies {
    /// Takes each sample of a size.
    pub recorder: Recorder,
}

impl Latencies {
    /// Allocates what the samples of `run` need.
    ///
    /// # Errors
    ///
    /// Too little memory for samples that are to be reported one by one.
    pub fn new(run: &RunOptions) -> Result<Self, Failure> {
        let recorder = Recorder::new(run.report_all.then_some(run.iters))?;
        Ok(Self { recorder })
    }
}

impl Results for Latencies {
    fn begin(&mut self, reporter: &mut Reporter, run: &RunOptions) -> Result<(), Failure> {
        reporter.begin_latencies(run.report_all)
    }

    fn begin_size(&mut self, reporter: &mut Reporter, size: u64) {
        self.recorder.clear();
        reporter.begin_size(size, self.recorder.gauge());
    }

    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure> {
        reporter.latencies(size, &self.recorder)
    }

    fn report_cut_short(&mut self, reporter: &mut Reporter, size: u64, failure: &Failure) {
        reporter.latencies_cut_short(size, &self.recorder, failure);
    }

    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure> {
        reporter.end()
    }
}

/// A latency server's results, of which it prints only that a size is done.
pub struct ServerResults {
    /// Takes the samples of round trips, which nothing reads. It keeps none of them, even if the client
    /// reports each.
    pub unread: Recorder,
}

impl ServerResults {
    /// No results.
    ///
    /// # Errors
    ///
    /// Too little memory for a histogram.
    pub fn new() -> Result<Self, Failure> {
        let unread = Recorder::new(None)?;
        Ok(Self { unread })
    }
}

impl Results for ServerResults {
    fn begin(&mut self, _: &mut Reporter, _: &RunOptions) -> Result<(), Failure> {
        Ok(())
    }

    fn begin_size(&mut self, _: &mut Reporter, _: u64) {
        self.unread.clear();
    }

    fn report(&mut self, reporter: &mut Reporter, _: u64) -> Result<(), Failure> {
        reporter.server_result()
    }

    fn report_cut_short(&mut self, _: &mut Reporter, _: u64, _: &Failure) {}

    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure> {
        reporter.server_end()
    }
}

/// What both sides of a bandwidth run did in one size. Both sides report it.
pub struct BandwidthResults {
    /// This side's result.
    pub own: SideResult,
    /// The peer's, once the results are exchanged.
    pub peer: Option<SideResult>,
    /// Operations of complete iterations, for the progress line.
    pub gauge: Arc<Gauge>,
    part: Part,
    bidirectional: bool,
    /// Both sides use the same NIC.
    one_nic: bool,
}

impl BandwidthResults {
    /// No results yet of a side that plays `part`.
    pub fn new(part: Part, bidirectional: bool, one_nic: bool) -> Self {
        Self {
            own: SideResult::default(),
            peer: None,
            gauge: Arc::default(),
            part,
            bidirectional,
            one_nic,
        }
    }

    fn measured(&self, size: u64) -> MeasuredBandwidth {
        let sides = [self.own, self.peer.unwrap_or_default()];
        MeasuredBandwidth {
            size,
            sides,
            rates: Rates::of(size, sides, self.one_nic && self.bidirectional),
            sends: self.part.issues(),
            one_sided: self.bidirectional && self.peer.is_none(),
        }
    }
}

impl Results for BandwidthResults {
    fn begin(&mut self, reporter: &mut Reporter, _: &RunOptions) -> Result<(), Failure> {
        reporter.begin_bandwidth()
    }

    fn begin_size(&mut self, reporter: &mut Reporter, size: u64) {
        (self.own, self.peer) = Default::default();
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
