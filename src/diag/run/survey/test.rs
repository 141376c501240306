//! A test of a survey on one NIC: set-up, measurement and release of a pair by the code of the tool.

use std::time::Duration;

use super::super::driver::Context;
use super::super::verify::Unwatched;
use super::super::watchdog::Notices;
use super::instruments::Instruments;
use super::slot::{Slot, untested};
use crate::bench::api::{Benchmark, Issued, Peer};
use crate::endpoint::Endpoint;
use cluster::survey::answer::Figures;
use cluster::survey::untested::Untested;
use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use measure::{CpuShare, Supervisor};
use node::backend;
use plan::run_options::{RunOptions, Side};

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

/// Measures a pair with the resources of its initiator. Returns its iterations as well, those of the
/// warm-up included.
pub(super) type Measure<B> = fn(
    &Context<'_>,
    &mut <B as Benchmark>::Resources,
    &mut Instruments,
) -> Result<(Figures, u64), Failure>;

/// Answers the operations of a pair with the resources of its target. Returns 0 if there were none.
pub(super) type Serve<B> =
    fn(&Context<'_>, &mut <B as Benchmark>::Resources) -> Result<u64, Failure>;

/// A test with benchmark `B`.
pub(super) struct TestOf<B: Benchmark> {
    pub(super) run: RunOptions,
    /// See [`TestPlan`](super::TestPlan).
    pub(super) max_waited_percent: f64,
    /// Time for a pair.
    pub(super) pair: Duration,
    pub(super) portal: u32,
    pub(super) measure: Measure<B>,
    /// None if the tool is one-sided.
    pub(super) serve: Option<Serve<B>>,
    pub(super) target: Option<B::Resources>,
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

    /// Measures with `resources`. Figures and failures of a process that waited for its CPU are
    /// discarded: its operations may have come after those of the target. Returns whether nothing is
    /// under way afterwards, and the figures.
    fn measure_with(
        &self,
        resources: &mut B::Resources,
        slot: &Slot,
        instruments: &mut Instruments,
    ) -> (bool, Result<Figures, Failure>) {
        if let Err(failure) = slot.begin(self.pair) {
            return (true, Err(failure));
        }
        slot.beyond(self.pair, || {
            let before = CpuShare::of_this_thread();
            let context = self.context(slot, Side::Client);
            let measured = (self.measure)(&context, resources, instruments);
            let found = self.check_thread(before);
            let (figures, iterations) = match measured {
                Ok(measured) => measured,
                Err(failure) => return (false, found.and(Err(failure))),
            };
            let issued = Issued {
                own: iterations,
                peer: None,
            };
            let found = found.and_then(|()| self.check(resources, issued));
            (true, found.map(|()| figures))
        })
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
        Err(untested(Untested::NoCpu))
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
        let set_up = || self.set_up(endpoint, peer, slot, Side::Client);
        let mut resources = match slot.beyond(Duration::ZERO, set_up) {
            Ok(resources) => resources,
            Err(failure) => return Done::nothing(failure),
        };
        let (is_over, result) = self.measure_with(&mut resources, slot, instruments);
        Done {
            result,
            is_released: close::<B>(resources, slot) && is_over,
        }
    }

    fn serve(&self, endpoint: &Endpoint, peer: FabricAddress, slot: &Slot) -> Done<()> {
        // The operations may have failed before this target could answer them.
        if slot.is_late() {
            return Done::nothing(untested(Untested::Late));
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
        let set_up = || self.set_up(endpoint, peer, slot, Side::Server);
        let mut resources = match slot.beyond(Duration::ZERO, set_up) {
            Ok(resources) => resources,
            Err(failure) => return Done::nothing(failure),
        };
        if slot.is_late() {
            return Done {
                result: Err(untested(Untested::Late)),
                is_released: close::<B>(resources, slot),
            };
        }
        let (is_over, result) = self.serve_with(&mut resources, slot, serve);
        Done {
            result,
            is_released: close::<B>(resources, slot) && is_over,
        }
    }
}

/// Releases the resources of a side. Returns whether nothing is left of them.
fn close<B: Benchmark>(resources: B::Resources, slot: &Slot) -> bool {
    slot.beyond(Duration::ZERO, || B::close(resources).is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::super::one_sided;
    use super::super::by_tool::FIRST_PORTAL;
    use super::super::instruments::latency;
    use super::super::rules::TestPlan;
    use super::super::slot::Times;
    use super::*;
    use crate::bench::testing::endpoint;
    use crate::bench::write_lat;
    use plan::testing::plan;

    /// A test with `write-lat` and its target, as [`test`](super::super::by_tool::test) makes it.
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
        assert_eq!(Untested::from(&failure), Untested::Late);
        assert_eq!(failure.kind, Kind::Environment);
        assert!(serve(Duration::from_secs(1)).is_ok());
        endpoint.close().unwrap();
    }

    #[test]
    fn failure_of_process_without_cpu_is_discarded() {
        let endpoint = endpoint(&plan("write-lat", &[]));
        let own = endpoint.address().address;
        let mut instruments = Instruments::new().unwrap();
        let mut measure = |max_waited_percent| {
            let writes = TestOf {
                max_waited_percent,
                ..writes()
            };
            let times = Times {
                ready: Instant::now(),
                ends: Instant::now() + Duration::from_secs(60),
            };
            let slot = Slot::new(times, Side::Client);
            // There is no target.
            let done = writes.measure(&endpoint, own, &slot, &mut instruments);
            assert!(!done.is_released);
            done.result.unwrap_err()
        };
        assert_eq!(measure(f64::INFINITY).kind, Kind::Nic);
        let failure = measure(-1.0);
        assert_eq!(failure.message(), "the process waited for its CPU");
        assert_eq!(failure.kind, Kind::Environment);
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
