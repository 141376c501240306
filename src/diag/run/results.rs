//! The sizes of a run, one after the other, the results of each, and how they are reported.

use std::sync::Arc;

use super::nic_counters::CounterBaseline;
use super::size_loop::Record;
use crate::bench::api::{FanMedians, Issued, Part};
use facts::error::Failure;
use facts::interrupt;
use facts::phase::{Phase, enter};
use facts::rate::KeptSchedule;
use measure::{
    ChosenClock, Clock, Gauge, MeasurementError, MonotonicRaw, Rates, Recorder, RunClock,
    SideResult, SideView, StabilityCheck, Until,
};
use node::machine::Machine;
use plan::Plan;
use plan::depths::Row;
use plan::run_options::{RunOptions, Side};
use report::{MeasuredBandwidth, Reporter};

/// The results of a run on one side, size by size.
pub trait Results {
    /// Reports that the first size is about to be measured.
    fn begin(&mut self, reporter: &mut Reporter, run: &RunOptions) -> Result<(), Failure>;

    /// Clears the results and reports that `row` is about to be measured.
    fn begin_size(&mut self, reporter: &mut Reporter, row: Row);

    /// How far this side has measured the current size, for messages; `None` on a side that
    /// measures nothing.
    fn progress(&self) -> Option<String>;

    /// The iterations of each pair.
    fn issued(&self, run: &RunOptions) -> Result<Vec<Issued>, Failure>;

    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure>;

    /// Reports the incomplete results of `size`, during which `failure` has ended the run.
    fn report_cut_short(&mut self, reporter: &mut Reporter, size: u64, failure: &Failure);

    /// Reports that all sizes are done.
    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure>;
}

/// The latencies that a client measures.
pub struct ClientLatencies {
    /// Keeps the samples of one size.
    recorder: Recorder,
    clock: RunClock,
    until: Option<Until>,
    /// How the intended start times of one size were kept.
    kept: Option<KeptSchedule>,
    /// The measurements beside the latencies of one size.
    pub besides: ExtraMedians,
}

/// The measurements of the client beside the latencies of round trips.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtraMedians {
    /// Median of the writes that the benchmark compares with, in nanoseconds, if it does.
    pub write_ns: Option<u64>,
    /// Medians of fans, if there are any.
    pub fan: Option<FanMedians>,
}

/// Where a loop puts the latencies of one size, and how it measures them.
pub struct Samples<'a> {
    /// The clock to read.
    pub clock: ChosenClock,
    /// How the intended start times were kept, if there are any.
    pub kept: &'a mut Option<KeptSchedule>,
    recorder: &'a mut Recorder,
    stability: StabilityCheck,
}

impl<'a> Samples<'a> {
    /// Creates the samples of one size. They are enough when the median is known to the limit
    /// `until`, if there is one.
    pub fn new(
        clock: ChosenClock,
        recorder: &'a mut Recorder,
        until: Option<Until>,
        kept: &'a mut Option<KeptSchedule>,
    ) -> Self {
        Self { clock, kept, recorder, stability: StabilityCheck::new(until) }
    }

    /// Sets the end of the measured part.
    pub fn end(&self) {
        self.recorder.gauge().end(MonotonicRaw.now());
    }
}

impl Record for Samples<'_> {
    fn begin(&mut self) {
        self.recorder.gauge().begin(MonotonicRaw.now());
    }

    #[inline]
    fn record(&mut self, latency: u64) -> bool {
        self.recorder.record(latency);
        self.stability.ends(self.recorder)
    }
}

impl ClientLatencies {
    /// Chooses the clock, and allocates the memory for the samples of `plan`.
    ///
    /// # Errors
    ///
    /// A requested clock that cannot be used, and not enough memory for all samples, if they are
    /// wanted.
    pub fn new(plan: &Plan) -> Result<Self, Failure> {
        let clock = RunClock::choose(plan.clock, &Machine::this())?;
        let keeps = plan.run.report_all || plan.outputs.samples.is_some();
        let recorder = Recorder::new(keeps.then_some(plan.run.iters))?;
        Ok(Self {
            recorder: match plan.outputs.interval {
                Some(_) => recorder.with_live_latencies(),
                None => recorder,
            },
            clock,
            until: plan.until,
            kept: None,
            besides: ExtraMedians::default(),
        })
    }

    /// The samples of the next size.
    pub fn samples(&mut self) -> Samples<'_> {
        let (clock, kept) = (self.clock.clock(), &mut self.kept);
        Samples::new(clock, &mut self.recorder, self.until, kept)
    }
}

impl Results for ClientLatencies {
    fn begin(&mut self, reporter: &mut Reporter, run: &RunOptions) -> Result<(), Failure> {
        if reporter.shows_own_error() {
            let error = match self.clock.clock() {
                ChosenClock::MonotonicRaw(clock) => MeasurementError::measure(&clock),
                ChosenClock::Counter(clock) => MeasurementError::measure(&clock),
            };
            reporter.set_own_error(error?);
        }
        reporter.set_clock(self.clock.facts());
        reporter.begin_latencies(run.report_all)
    }

    fn begin_size(&mut self, reporter: &mut Reporter, row: Row) {
        (self.kept, self.besides) = (None, ExtraMedians::default());
        self.recorder.clear();
        reporter.begin_size(row, self.recorder.gauge());
    }

    fn progress(&self) -> Option<String> {
        Some(match self.recorder.gauge().begun() {
            None => "warm-up".into(),
            // Numbered from 0, as --report-all numbers the samples.
            Some(_) => format!("iteration {}", self.recorder.statistics().count()),
        })
    }

    fn issued(&self, run: &RunOptions) -> Result<Vec<Issued>, Failure> {
        Ok(vec![Issued { own: self.recorder.statistics().count() + run.warmup, peer: None }])
    }

    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure> {
        reporter.set_clock(self.clock.facts());
        reporter.set_kept(self.kept);
        reporter.set_write(self.besides.write_ns);
        reporter.set_fan(self.besides.fan.map(|fan| [fan.first_ns, fan.span_ns]));
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

/// The results of a latency server, which reports only that a size is done.
pub struct ServerResults;

impl Results for ServerResults {
    fn begin(&mut self, _: &mut Reporter, _: &RunOptions) -> Result<(), Failure> {
        Ok(())
    }

    fn begin_size(&mut self, reporter: &mut Reporter, row: Row) {
        reporter.set_row(row);
    }

    fn progress(&self) -> Option<String> {
        None
    }

    fn issued(&self, _: &RunOptions) -> Result<Vec<Issued>, Failure> {
        Ok(vec![Issued { own: 0, peer: None }])
    }

    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure> {
        reporter.server_result(size)
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
    /// Operations of complete iterations, for the progress line and the intervals.
    pub gauge: Arc<Gauge>,
    /// How the intended start times of the lists were kept, if there are any.
    pub kept: Option<KeptSchedule>,
    /// Operations that this side has issued, with the unmeasured lists that complete the last
    /// iteration.
    pub issued: u64,
    /// This side's times of the size, after its part.
    pub timed: SideView,
    /// This side's view and the peer's, with `--both-ends`.
    pub views: Option<[SideView; 2]>,
    /// Operations that had arrived before this size.
    pub arrived_before: u64,
    part: Part,
    side: Side,
    bidirectional: bool,
    /// Both sides use the same NIC.
    one_nic: bool,
}

impl BandwidthResults {
    /// Creates empty results of `side`, which plays `part`.
    pub fn new(part: Part, side: Side, bidirectional: bool, one_nic: bool) -> Self {
        Self {
            own: Vec::new(),
            peer: Vec::new(),
            gauge: Arc::default(),
            kept: None,
            issued: 0,
            timed: SideView::default(),
            views: None,
            arrived_before: 0,
            part,
            side,
            bidirectional,
            one_nic,
        }
    }

    fn measured(&self, size: u64) -> MeasuredBandwidth {
        let sides = [SideResult::from_pairs(&self.own), SideResult::from_pairs(&self.peer)];
        let doubled = self.one_nic && self.bidirectional;
        let pairs = self.own.iter().enumerate().map(|(pair, own)| {
            let peer = self.peer.get(pair).copied().unwrap_or_default();
            let sides = [*own, peer];
            (sides, Rates::of(size, sides, doubled))
        });
        MeasuredBandwidth {
            size,
            sides,
            rates: Rates::of(size, sides, doubled),
            pairs: pairs.collect(),
            views: self.views,
            is_measured_by_peer: !self.part.issues() && self.side == Side::Client,
            // A client whose server issues the operations shows the server's.
            count: match self.side {
                _ if self.part.issues() => Some(sides[0].count),
                Side::Client => Some(sides[1].count),
                Side::Server => None,
            },
            one_sided: self.bidirectional && self.peer.is_empty(),
        }
    }
}

impl Results for BandwidthResults {
    fn begin(&mut self, reporter: &mut Reporter, _: &RunOptions) -> Result<(), Failure> {
        reporter.begin_bandwidth()
    }

    fn begin_size(&mut self, reporter: &mut Reporter, row: Row) {
        self.own.clear();
        self.peer.clear();
        self.kept = None;
        self.views = None;
        self.issued = 0;
        self.gauge.clear();
        reporter.begin_size(row, &self.gauge);
    }

    fn progress(&self) -> Option<String> {
        self.part.issues().then(|| {
            let issued = SideResult::from_pairs(&self.own).count;
            format!("after {issued} operations")
        })
    }

    fn issued(&self, run: &RunOptions) -> Result<Vec<Issued>, Failure> {
        let list_size = u64::from(run.lists()?.list_size);
        let pairs = self.own.iter().zip(&self.peer).map(|(own, peer)| Issued {
            own: own.count / list_size,
            peer: Some(peer.count / list_size),
        });
        Ok(pairs.collect())
    }

    fn report(&mut self, reporter: &mut Reporter, size: u64) -> Result<(), Failure> {
        reporter.set_kept(self.kept);
        reporter.bandwidth(&self.measured(size))
    }

    fn report_cut_short(&mut self, reporter: &mut Reporter, size: u64, failure: &Failure) {
        reporter.bandwidth_cut_short(&self.measured(size), failure);
    }

    fn end(&mut self, reporter: &mut Reporter) -> Result<(), Failure> {
        reporter.end()
    }
}

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
