//! A test of a survey on one NIC: set-up, measurement and release of a pair by the code of the tool.

use std::slice;
use std::time::Duration;

use super::super::driver::Context;
use super::super::results::BandwidthResults;
use super::super::verify::Unwatched;
use super::super::watchdog::Notices;
use super::super::{bandwidth, one_sided, round_trip};
use super::instruments::{Instruments, latency, rates};
use super::rules::TestPlan;
use super::slot::{LATE, Slot};
use crate::backend;
use crate::bench::api::{
    Bandwidth, Benchmark, Issued, OneSidedLatency, Peer, RoundTripLatency, Visitor,
};
use crate::device::FabricAddress;
use crate::endpoint::Endpoint;
use crate::error::{Failure, Kind};
use crate::measure::{CpuShare, Supervisor};
use crate::run_options::{RunOptions, Side};
use crate::survey::answer::Figures;
use crate::tools;

/// The first portal index of targets that stay open: above those of two-sided tools.
const FIRST_PORTAL: u32 = 16;

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
    /// initiator reports the operations. It is a failure if operations may have begun before.
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
            max_waited_percent: plan.max_waited_percent,
            pair,
            portal: FIRST_PORTAL + index as u32,
        },
    )
}

struct Make {
    run: RunOptions,
    max_waited_percent: f64,
    pair: Duration,
    portal: u32,
}

impl Make {
    fn test<B: Benchmark>(self, measure: Measure<B>, serve: Option<Serve<B>>) -> Box<dyn Test> {
        let portal = if serve.is_some() { 0 } else { self.portal };
        Box::new(TestOf::<B> {
            run: self.run,
            max_waited_percent: self.max_waited_percent,
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
            latency(context.run, instruments, |samples| {
                one_sided::measure::<B>(context, resources, context.run.min_size, samples)
            })
        };
        self.test::<B>(measure, None)
    }

    fn round_trip<B: RoundTripLatency>(self) -> Self::Output {
        let measure: Measure<B> = |context, resources, instruments| {
            latency(context.run, instruments, |samples| {
                round_trip::measure::<B>(context, resources, context.run.min_size, samples)
            })
        };
        let serve: Serve<B> = |context, resources| {
            round_trip::serve::<B>(context, resources, context.run.min_size)?;
            Ok(1)
        };
        self.test::<B>(measure, Some(serve))
    }

    fn bandwidth<B: Bandwidth>(self) -> Self::Output {
        let measure: Measure<B> = |context, resources, _| {
            let results = lists::<B>(context, resources)?;
            let list_size = u64::from(context.run.lists()?.list_size);
            let figures = rates(context.run, &results.own);
            Ok((figures, results.issued / list_size))
        };
        let serve: Serve<B> = |context, resources| {
            let results = lists::<B>(context, resources)?;
            Ok(results.gauge.get().0)
        };
        self.test::<B>(measure, B::ANSWERS.then_some(serve))
    }
}

/// Measures a pair with the resources of its initiator. Returns its iterations as well, those of the
/// warm-up included.
type Measure<B> = fn(
    &Context<'_>,
    &mut <B as Benchmark>::Resources,
    &mut Instruments,
) -> Result<(Figures, u64), Failure>;

/// Answers the operations of a pair with the resources of its target. Returns 0 if there were none.
type Serve<B> = fn(&Context<'_>, &mut <B as Benchmark>::Resources) -> Result<u64, Failure>;

/// A test with benchmark `B`.
struct TestOf<B: Benchmark> {
    run: RunOptions,
    /// See [`TestPlan`].
    max_waited_percent: f64,
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

    /// Watches, while the peer measures, the thread that is the target of a software NIC.
    fn watch_software_nic(&self, slot: &Slot) -> Result<(), Failure> {
        slot.begin(self.pair)?;
        let share = || CpuShare::of_threads(backend::SOFTWARE_NIC_THREAD);
        let before = share();
        slot.pause(self.pair)?;
        let Some((before, after)) = before.zip(share()) else {
            return Ok(());
        };
        let waited = after.waited_since(before).as_secs_f64();
        self.check_cpu(100.0 * waited / self.pair.as_secs_f64())
    }

    /// Measures with `resources`. The figures of a process that waited for its CPU are discarded.
    fn measure_with(
        &self,
        resources: &mut B::Resources,
        slot: &Slot,
        instruments: &mut Instruments,
    ) -> Result<Figures, Failure> {
        slot.begin(self.pair)?;
        let before = CpuShare::of_this_thread();
        let context = self.context(slot, Side::Client);
        let (figures, iterations) = (self.measure)(&context, resources, instruments)?;
        self.check_thread(before)?;
        let issued = Issued {
            own: iterations,
            peer: None,
        };
        self.check(resources, issued)?;
        Ok(figures)
    }

    /// Answers the operations of the peer with `resources`. Returns whether nothing is under way
    /// afterwards, and what this side found.
    fn serve_with(
        &self,
        resources: &mut B::Resources,
        slot: &Slot,
        serve: Serve<B>,
    ) -> (bool, Result<(), Failure>) {
        let before = CpuShare::of_this_thread();
        let served = serve(&self.context(slot, Side::Server), resources);
        let found = self.check_thread(before);
        let Ok(iterations) = served else {
            return (false, found);
        };
        let issued = Issued {
            own: 0,
            peer: Some(iterations),
        };
        let found = found.and_then(|()| self.check(resources, issued));
        (true, found.and_then(|()| slot.wait_for_end()))
    }

    /// Checks the data of this side, in debug builds.
    fn check(&self, resources: &B::Resources, issued: Issued) -> Result<(), Failure> {
        if cfg!(debug_assertions) {
            B::check(resources, &self.run, self.run.min_size, issued, &Unwatched)?;
        }
        Ok(())
    }

    /// Checks that this thread did not wait for its CPU during most of the time since `before`.
    fn check_thread(&self, before: Option<CpuShare>) -> Result<(), Failure> {
        let shares = before.zip(CpuShare::of_this_thread());
        let waited = shares.and_then(|(before, after)| after.waited_percent_since(before));
        self.check_cpu(waited.unwrap_or_default())
    }

    fn check_cpu(&self, waited_percent: f64) -> Result<(), Failure> {
        if waited_percent <= self.max_waited_percent {
            return Ok(());
        }
        // Without the percentage: verdicts count equal reasons.
        Err(Failure::environment("the process waited for its CPU"))
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
        // The operations may have failed before this target could answer them.
        if slot.is_late() {
            return Done::nothing(Failure::environment(LATE));
        }
        let Some(serve) = self.serve else {
            let result = if endpoint.address().simulated {
                self.watch_software_nic(slot)
            } else {
                Ok(())
            };
            let is_released = true;
            return Done {
                result,
                is_released,
            };
        };
        let mut resources = match self.set_up(endpoint, peer, slot, Side::Server) {
            Ok(resources) => resources,
            Err(failure) => return Done::nothing(failure),
        };
        if slot.is_late() {
            return Done {
                result: Err(Failure::environment(LATE)),
                is_released: B::close(resources).is_ok(),
            };
        }
        let (is_over, result) = self.serve_with(&mut resources, slot, serve);
        Done {
            result,
            is_released: B::close(resources).is_ok() && is_over,
        }
    }
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::slot::Times;
    use super::*;
    use crate::bench::testing::{endpoint, plan};
    use crate::bench::write_lat;

    /// A test with `write-lat` and its target, as [`test`] makes it.
    fn writes() -> TestOf<write_lat::Bench> {
        let pair = Duration::from_millis(5);
        let plan = plan("write-lat", &["-s", "1000", "--latency-gap=0"]);
        let plan = TestPlan::new(plan.tool, plan.run).unwrap();
        let mut run = plan.run;
        run.set_duration(pair);
        TestOf {
            run,
            max_waited_percent: plan.max_waited_percent,
            pair,
            portal: FIRST_PORTAL + 3,
            measure: |context, resources, instruments| {
                latency(context.run, instruments, |samples| {
                    let size = context.run.min_size;
                    one_sided::measure::<write_lat::Bench>(context, resources, size, samples)
                })
            },
            serve: None,
            target: None,
        }
    }

    #[test]
    fn target_stays_open_for_several_initiators() {
        let endpoint = endpoint(&plan("write-lat", &[]));
        let own = endpoint.address().address;
        let mut instruments = Instruments::new().unwrap();
        let mut writes = TestOf {
            max_waited_percent: f64::INFINITY,
            ..writes()
        };
        writes.open_target(&endpoint).unwrap();
        for _ in 0..2 {
            let times = Times {
                ready: Instant::now(),
                ends: Instant::now() + Duration::from_secs(10),
            };
            let slot = Slot::new(times, Side::Client);
            let done = writes.measure(&endpoint, own, &slot, &mut instruments);
            assert!(done.result.is_ok() && done.is_released);
        }
        let issued = Issued { own: 0, peer: None };
        let target = writes.target.as_ref().unwrap();
        let size = writes.run.min_size;
        let checked = write_lat::Bench::check(target, &writes.run, size, issued, &Unwatched);
        assert_eq!(checked.unwrap(), 1000);
        writes.close_target().unwrap();
        endpoint.close().unwrap();
    }

    /// The NIC may have been closed when operations began.
    #[test]
    fn target_that_begins_late_says_so() {
        let endpoint = endpoint(&plan("write-lat", &[]));
        let own = endpoint.address().address;
        let writes = TestOf {
            max_waited_percent: f64::INFINITY,
            ..writes()
        };
        let serve = |ahead: Duration| {
            let times = Times {
                ready: Instant::now() + ahead,
                ends: Instant::now() + ahead + Duration::from_secs(10),
            };
            let slot = Slot::new(times, Side::Server);
            writes.serve(&endpoint, own, &slot).result
        };
        let failure = serve(Duration::ZERO).unwrap_err();
        assert_eq!(failure.message(), LATE);
        assert_eq!(failure.kind, Kind::Environment);
        assert!(serve(Duration::from_secs(1)).is_ok());
        endpoint.close().unwrap();
    }

    #[test]
    fn figures_of_process_without_cpu_are_discarded() {
        let writes = writes();
        assert!(writes.check_cpu(25.0).is_ok());
        let failure = writes.check_cpu(26.0).unwrap_err();
        assert_eq!(failure.message(), "the process waited for its CPU");
        assert_eq!(failure.kind, Kind::Environment);
    }
}
