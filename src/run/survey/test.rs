//! A test of a survey on one NIC: set-up, measurement and release of a pair by the code of the tool.

use std::slice;
use std::time::Duration;

use super::super::driver::Context;
use super::super::results::{BandwidthResults, Samples};
use super::super::verify::Unwatched;
use super::super::watchdog::Notices;
use super::super::{bandwidth, one_sided, round_trip};
use super::rules::TestPlan;
use super::slot::{Slot, late};
use crate::bench::api::{Bandwidth, Benchmark, OneSidedLatency, Peer, RoundTripLatency, Visitor};
use crate::device::FabricAddress;
use crate::endpoint::Endpoint;
use crate::error::{Failure, Kind};
use crate::machine::Machine;
use crate::measure::{
    ClockChoice, CpuShare, Percentile, Rates, Recorder, RunClock, SideResult, Supervisor,
};
use crate::run_options::{RunOptions, Side};
use crate::survey::answer::Figures;
use crate::tools;

/// Fewest samples with a 99th percentile: ten lie above it.
const ENOUGH_FOR_P99: u64 = 1000;

/// The part of a measurement without a CPU, in percent, above which it says nothing about the pair.
const MAX_WAITED_PERCENT: f64 = 20.0;

/// The first portal index of targets that stay open: above those of two-sided tools.
const FIRST_PORTAL: u32 = 16;

/// What measures latencies on one NIC, for all tests.
pub struct Instruments {
    clock: RunClock,
    recorder: Recorder,
}

impl Instruments {
    /// Chooses the clock, and allocates the memory for samples.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self {
            clock: RunClock::choose(ClockChoice::Auto, &Machine::this())?,
            recorder: Recorder::new(None)?,
        })
    }

    /// Returns the figures of the recorded latencies.
    fn figures(&self) -> Figures {
        let statistics = self.recorder.statistics();
        let at = |percentile| self.recorder.percentile(percentile);
        Figures::Latency {
            count: statistics.count(),
            min_ns: statistics.min(),
            median_ns: at(Percentile::MEDIAN).unwrap_or_default(),
            p99_ns: at(Percentile::P99).filter(|_| statistics.count() >= ENOUGH_FOR_P99),
            max_ns: statistics.max(),
        }
    }
}

/// A test on one NIC.
pub trait Test {
    /// Opens the target, which stays open until it is released. That of a two-sided tool is set up in
    /// each slot instead.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    fn open_target(&mut self, endpoint: &Endpoint) -> Result<(), Failure>;

    /// Releases the target.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    fn close_target(&mut self) -> Result<(), Failure>;

    /// Measures operations that this NIC issues to `peer`. A failure of [`Kind::Nic`] is about the
    /// pair, others are about this process.
    fn measure(
        &self,
        endpoint: &Endpoint,
        peer: FabricAddress,
        slot: &Slot,
        instruments: &mut Instruments,
    ) -> Done<Figures>;

    /// Answers the operations of `peer`, with a two-sided tool. The result is that of the set-up: the
    /// initiator reports the operations.
    fn serve(&self, endpoint: &Endpoint, peer: FabricAddress, slot: &Slot) -> Done<()>;
}

/// What has come of one side of a pair.
pub struct Done<T> {
    /// The result.
    pub result: Result<T, Failure>,
    /// Whether all resources were released, without an operation under way.
    pub is_released: bool,
}

impl<T> Done<T> {
    /// Nothing was begun, because of `failure`.
    fn nothing(failure: Failure) -> Self {
        Self {
            is_released: failure.kind != Kind::Nic,
            result: Err(failure),
        }
    }
}

/// Returns test number `index`, which measures a pair for the time `pair`.
pub fn test(index: usize, plan: TestPlan, pair: Duration) -> Box<dyn Test> {
    let mut run = plan.run;
    run.set_duration(pair);
    tools::visit(
        plan.tool,
        Make {
            run,
            pair,
            portal: FIRST_PORTAL + index as u32,
        },
    )
}

struct Make {
    run: RunOptions,
    pair: Duration,
    portal: u32,
}

impl Make {
    fn test<B: Benchmark>(self, measure: Measure<B>, serve: Option<Serve<B>>) -> Box<dyn Test> {
        let portal = if serve.is_some() { 0 } else { self.portal };
        Box::new(TestOf::<B> {
            run: self.run,
            pair: self.pair,
            portal,
            measure,
            serve,
            target: None,
        })
    }
}

impl Visitor for Make {
    type Output = Box<dyn Test>;

    fn one_sided<B: OneSidedLatency>(self) -> Self::Output {
        let measure: Measure<B> = |context, resources, instruments| {
            latency(instruments, |samples| {
                one_sided::measure::<B>(context, resources, context.run.min_size, samples)
            })
        };
        self.test::<B>(measure, None)
    }

    fn round_trip<B: RoundTripLatency>(self) -> Self::Output {
        let measure: Measure<B> = |context, resources, instruments| {
            latency(instruments, |samples| {
                round_trip::measure::<B>(context, resources, context.run.min_size, samples)
            })
        };
        let serve: Serve<B> =
            |context, resources| round_trip::serve::<B>(context, resources, context.run.min_size);
        self.test::<B>(measure, Some(serve))
    }

    fn bandwidth<B: Bandwidth>(self) -> Self::Output {
        let measure: Measure<B> = |context, resources, _| {
            let results = lists::<B>(context, resources)?;
            Ok(rates(context.run, &results.own))
        };
        let serve: Serve<B> = |context, resources| lists::<B>(context, resources).map(drop);
        self.test::<B>(measure, B::ANSWERS.then_some(serve))
    }
}

/// Measures a pair with the resources of its initiator.
type Measure<B> = fn(
    &Context<'_>,
    &mut <B as Benchmark>::Resources,
    &mut Instruments,
) -> Result<Figures, Failure>;

/// Answers the operations of a pair with the resources of its target.
type Serve<B> = fn(&Context<'_>, &mut <B as Benchmark>::Resources) -> Result<(), Failure>;

/// A test with benchmark `B`.
struct TestOf<B: Benchmark> {
    run: RunOptions,
    /// Time for a pair.
    pair: Duration,
    portal: u32,
    measure: Measure<B>,
    /// None if the tool is one-sided.
    serve: Option<Serve<B>>,
    target: Option<B::Resources>,
}

impl<B: Benchmark> TestOf<B> {
    fn set_up(
        &self,
        endpoint: &Endpoint,
        peer: FabricAddress,
        supervisor: &dyn Supervisor,
        side: Side,
    ) -> Result<B::Resources, Failure> {
        let peer = Peer {
            address: peer,
            portal: self.portal,
            supervisor,
        };
        B::set_up(endpoint, peer, &self.run, side)
    }

    fn context<'a>(&'a self, slot: &'a Slot, side: Side) -> Context<'a> {
        Context {
            side,
            barriers: slot,
            run: &self.run,
            peer_is_cxidiag: true,
            supervisor: slot,
            notices: Notices::default(),
            cpus: &[],
        }
    }

    /// Measures with `resources`, and discards figures of a process that had no CPU.
    fn measure_with(
        &self,
        resources: &mut B::Resources,
        slot: &Slot,
        instruments: &mut Instruments,
    ) -> Result<Figures, Failure> {
        slot.begin(self.pair)?;
        let before = CpuShare::of_this_thread();
        let context = self.context(slot, Side::Client);
        let figures = (self.measure)(&context, resources, instruments)?;
        let shares = before.zip(CpuShare::of_this_thread());
        match shares.and_then(|(before, after)| after.waited_percent_since(before)) {
            Some(percent) if percent > MAX_WAITED_PERCENT => Err(Failure::environment(format!(
                "the process waited for its CPU for {percent:.0} % of the measurement"
            ))),
            _ => Ok(figures),
        }
    }
}

impl<B: Benchmark> Test for TestOf<B> {
    fn open_target(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        if self.serve.is_some() {
            return Ok(());
        }
        // The entry accepts the operations of all initiators.
        let any = endpoint.address().address;
        self.target = Some(self.set_up(endpoint, any, &Unwatched, Side::Server)?);
        Ok(())
    }

    fn close_target(&mut self) -> Result<(), Failure> {
        self.target.take().map_or(Ok(()), B::close)
    }

    fn measure(
        &self,
        endpoint: &Endpoint,
        peer: FabricAddress,
        slot: &Slot,
        instruments: &mut Instruments,
    ) -> Done<Figures> {
        let mut resources = match self.set_up(endpoint, peer, slot, Side::Client) {
            Ok(resources) => resources,
            Err(failure) => return Done::nothing(failure),
        };
        let result = self.measure_with(&mut resources, slot, instruments);
        let has_failed = matches!(&result, Err(failure) if failure.kind == Kind::Nic);
        Done {
            result,
            is_released: B::close(resources).is_ok() && !has_failed,
        }
    }

    fn serve(&self, endpoint: &Endpoint, peer: FabricAddress, slot: &Slot) -> Done<()> {
        let Some(serve) = self.serve else {
            return Done {
                result: Ok(()),
                is_released: true,
            };
        };
        let mut resources = match self.set_up(endpoint, peer, slot, Side::Server) {
            Ok(resources) => resources,
            Err(failure) => return Done::nothing(failure),
        };
        let result = match slot.lateness() {
            Some(lateness) => Err(Failure::environment(late(lateness))),
            None => Ok(()),
        };
        let served = result.is_err() || {
            let served = serve(&self.context(slot, Side::Server), &mut resources);
            served.and_then(|()| slot.wait_for_end()).is_ok()
        };
        Done {
            result,
            is_released: B::close(resources).is_ok() && served,
        }
    }
}

/// Measures latencies by `measure`.
fn latency(
    instruments: &mut Instruments,
    measure: impl FnOnce(Samples<'_>) -> Result<(), Failure>,
) -> Result<Figures, Failure> {
    instruments.recorder.clear();
    // The timetable has no intended start times of operations.
    let mut kept = None;
    let clock = instruments.clock.clock();
    measure(Samples::new(
        clock,
        &mut instruments.recorder,
        None,
        &mut kept,
    ))?;
    Ok(instruments.figures())
}

/// Runs the part of this side in lists of operations.
fn lists<B: Bandwidth>(
    context: &Context<'_>,
    resources: &mut B::Resources,
) -> Result<BandwidthResults, Failure> {
    let part = B::part(context.run, context.side);
    let mut results = BandwidthResults::new(part, context.side, false, false);
    let pairs = slice::from_mut(resources);
    bandwidth::measure::<B>(context, pairs, context.run.min_size, &mut results)?;
    Ok(results)
}

/// Returns the figures of a side that has issued lists.
fn rates(run: &RunOptions, own: &[SideResult]) -> Figures {
    let own = SideResult::of_pairs(own);
    let rates = Rates::of(run.min_size, [own, SideResult::default()], false);
    let bytes_per_second = rates.megabytes * 1e6;
    Figures::Bandwidth {
        bytes_per_second,
        operations_per_second: bytes_per_second / run.min_size as f64,
    }
}
