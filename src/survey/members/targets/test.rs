//! A test on one NIC: set-up, measurement and release of a pair by the code of the tool, and its
//! figures with the definitions of the tools.

use std::time::{Duration, Instant};

use super::window::Attempt;
use campaign::quiet::answer::Untested;
use campaign::timetable::Histogram;
use diag::bench::api::{Benchmark, Issued, Peer, SizeOfRun};
use diag::bench::common::service_limits;
use diag::endpoint::Endpoint;
use diag::run::context::LoopContext;
use diag::run::results::Samples;
use diag::run::verify::Unwatched;
use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use facts::figures::Figures;
use facts::percentile::Percentile;
use measure::{ClockChoice, CpuShare, Rates, Recorder, RunClock, SideResult, Supervisor};
use node::explain;
use node::local_address::LocalAddress;
use node::machine::Machine;
use node::traffic_class::TrafficClass;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;

/// A pair is measured for at least one of this many parts of its time, if a process was late.
const SHORTEST: u32 = 4;

/// What is measured between two NICs: a tool with its options and one size.
#[derive(Clone, Copy, Debug)]
pub struct TestPlan {
    pub tool: &'static Tool,
    pub run: RunOptions,
    /// The traffic class of its operations; `None` for the class of the NIC's other tests.
    pub class: Option<TrafficClass>,
    /// A missing answer says nothing about a pair if the process waited for its CPU during a larger
    /// part of the measurement, in percent. A target that waited longer reports this itself.
    pub max_waited_percent: f64,
}

/// When an initiator measures a pair.
#[derive(Clone, Copy)]
pub struct PairTime<'a> {
    /// For how long, at most.
    pub pair: Duration,
    /// Whether unmeasured operations come first, as many as the options say. Where operations take
    /// long, no time would be left after them.
    pub warms_up: bool,
    /// Its window.
    pub attempt: &'a Attempt,
}

/// A test on one NIC.
pub trait NicTest {
    /// Opens the target, which stays open until it is released. The target of a two-sided tool is
    /// set up for each measurement instead.
    fn open_target(&mut self, endpoint: &Endpoint) -> Result<(), Failure>;

    /// Releases the target.
    fn close_target(&mut self) -> Result<(), Failure>;

    /// Measures operations that this NIC issues to `peer`. A failure of [`Kind::Nic`] is about the
    /// pair, others are about this process.
    fn measure(
        &self,
        endpoint: &Endpoint,
        peer: FabricAddress,
        time: PairTime<'_>,
        instruments: &mut Instruments,
    ) -> Done<Figures>;

    /// Answers the operations of `peer`, with a two-sided tool. The result says whether the set-up
    /// succeeded, before operations may have begun: the initiator reports the operations.
    fn serve(&self, endpoint: &Endpoint, peer: FabricAddress, attempt: &Attempt) -> Done<()>;

    /// Whether software of the target takes part in the operations.
    fn is_two_sided(&self) -> bool;
}

/// What has come of one side of a pair.
pub struct Done<T> {
    pub result: Result<T, Failure>,
    /// Whether all resources were released, without an operation under way.
    pub is_released: bool,
}

impl<T> Done<T> {
    /// Nothing was begun, because of `failure`.
    pub(super) fn nothing(failure: Failure) -> Self {
        Self { is_released: failure.kind != Kind::Nic, result: Err(failure) }
    }
}

/// Measures a pair with the resources of its initiator. Returns its iterations as well, with the
/// warm-up.
pub(super) type MeasurePair<B> = fn(
    &LoopContext<'_>,
    &mut <B as Benchmark>::Resources,
    &mut Instruments,
) -> Result<(Figures, u64), Failure>;

/// Answers the operations of a pair with the resources of its target. Returns 0 if there were none.
pub(super) type ServePair<B> =
    fn(&LoopContext<'_>, &mut <B as Benchmark>::Resources) -> Result<u64, Failure>;

pub(super) struct TestOf<B: Benchmark> {
    pub(super) run: RunOptions,
    /// See [`TestPlan`].
    pub(super) max_waited_percent: f64,
    /// Whether links should be full while a pair is measured.
    pub(super) fills_links: bool,
    /// Time for a pair.
    pub(super) pair: Duration,
    pub(super) portal: u32,
    pub(super) measure: MeasurePair<B>,
    /// None if the tool is one-sided.
    pub(super) serve: Option<ServePair<B>>,
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
        service_limits::check(endpoint, peer, B::TOOL, &self.run, side)?;
        let peer = Peer { own: endpoint, address: peer, portal: self.portal, supervisor };
        B::set_up(peer, &self.run, side)
    }

    /// Begins to watch links, if they should be full.
    fn watch_links(&self, endpoint: &Endpoint, peer: FabricAddress) -> Option<FullLinks> {
        self.fills_links.then(|| FullLinks::watch(endpoint.address(), peer))?
    }

    /// Watches, while the peer measures, the threads of this process that are the target.
    fn watch_target(
        &self,
        endpoint: &Endpoint,
        (peer, thread): (FabricAddress, &str),
        attempt: &Attempt,
    ) -> Result<(), Failure> {
        attempt.begin(self.pair)?;
        let links = self.watch_links(endpoint, peer);
        let share = || CpuShare::from_threads(thread);
        let before = share();
        attempt.pause(self.pair)?;
        let Some((before, after)) = before.zip(share()) else {
            return Ok(());
        };
        let waited = after.waited_since(before).as_secs_f64();
        let waited = 100.0 * waited / self.pair.as_secs_f64();
        self.check_cpu(attempt, waited, links.as_ref())
    }

    /// Measures with `resources`. Beside busy CPUs, the initiator of a one-sided tool measures
    /// again until the window ends: more samples say more. A missing answer is discarded if the
    /// process waited for its CPU, and its figures are bounds. Returns whether nothing is under way
    /// afterwards, and the figures.
    fn measure_with(
        &self,
        resources: &mut B::Resources,
        time: PairTime<'_>,
        watch_links: impl Fn() -> Option<FullLinks>,
        instruments: &mut Instruments,
    ) -> (bool, Result<Figures, Failure>) {
        let PairTime { pair, attempt, .. } = time;
        if let Err(failure) = attempt.begin(pair / SHORTEST) {
            return (true, Err(failure));
        }
        instruments.clear();
        let links = watch_links();
        let before = CpuShare::from_this_thread();
        let mut found: Option<Figures> = None;
        let mut iterations = 0;
        loop {
            let mut run = self.run;
            let time_of_pass = pair.min(attempt.left());
            run.set_duration(time_of_pass);
            if !time.warms_up {
                run.warmup = 0;
            }
            let context = attempt.context(&run);
            let mut measure = || (self.measure)(&context, resources, instruments);
            // Only the first pass must fit into the slot.
            let measured =
                if found.is_none() { attempt.beyond(time_of_pass, measure) } else { measure() };
            let had_cpu = self.check_thread(attempt, before, links.as_ref());
            match (measured, found) {
                (Ok((figures, pass_count)), earlier) => {
                    iterations += pass_count;
                    found = Some(earlier.map_or(figures, |earlier| earlier.or_better(figures)));
                }
                (Err(_), Some(figures)) => return (false, Ok(figures)),
                (Err(failure), None) => {
                    // An answer may only be late. An error of the NIC says nothing after the
                    // window, when the target may have closed.
                    let counts = if attempt.lacks_answer() { had_cpu } else { attempt.check() };
                    return (false, counts.and(Err(failure)));
                }
            }
            let is_over = had_cpu.is_ok() || attempt.left() < pair / SHORTEST;
            if is_over || self.serve.is_some() {
                break;
            }
        }
        let issued = Issued { own: iterations, peer: None };
        let checked = self.check(resources, issued);
        let figures = found.ok_or_else(|| Untested::Late.into());
        (true, checked.and(figures))
    }

    /// Answers the operations of the peer with `resources`. Returns whether nothing is under way
    /// afterwards, and what this side found.
    fn serve_with(
        &self,
        resources: &mut B::Resources,
        attempt: &Attempt,
        links: Option<FullLinks>,
        serve: ServePair<B>,
    ) -> (bool, Result<(), Failure>) {
        let before = CpuShare::from_this_thread();
        let served = serve(&attempt.context(&self.run), resources);
        let found = self.check_thread(attempt, before, links.as_ref());
        let Ok(iterations) = served else {
            return (false, found);
        };
        let issued = Issued { own: 0, peer: Some(iterations) };
        let found = found.and_then(|()| self.check(resources, issued));
        (true, found.and_then(|()| attempt.wait_for_end()))
    }

    /// Checks the data of this side, in debug builds.
    fn check(&self, resources: &B::Resources, issued: Issued) -> Result<(), Failure> {
        if cfg!(debug_assertions) {
            let (run, size) = (&self.run, self.run.min_size);
            B::check(resources, SizeOfRun { run, size, supervisor: &Unwatched }, issued)?;
        }
        Ok(())
    }

    /// Notes how long this thread has waited for its CPU since `before`. Returns a failure if it
    /// was too long.
    fn check_thread(
        &self,
        attempt: &Attempt,
        before: Option<CpuShare>,
        links: Option<&FullLinks>,
    ) -> Result<(), Failure> {
        let shares = before.zip(CpuShare::from_this_thread());
        let waited = shares.and_then(|(before, after)| after.waited_percent_since(before));
        self.check_cpu(attempt, waited.unwrap_or_default(), links)
    }

    /// Notes for which part of its time this side waited for its CPU, without the time in which
    /// its data filled a link: then the CPU did not lower the bandwidth (load.md 4.6). Returns a
    /// failure if it was too long.
    fn check_cpu(
        &self,
        attempt: &Attempt,
        waited_percent: f64,
        links: Option<&FullLinks>,
    ) -> Result<(), Failure> {
        let idle = links.map(FullLinks::idle_percent);
        let waited_percent = idle.map_or(waited_percent, |idle| waited_percent.min(idle));
        attempt.note_waited(waited_percent);
        if waited_percent <= self.max_waited_percent {
            return Ok(());
        }
        Err(Untested::NoCpu.into())
    }
}

impl<B: Benchmark> NicTest for TestOf<B> {
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
        time: PairTime<'_>,
        instruments: &mut Instruments,
    ) -> Done<Figures> {
        let attempt = time.attempt;
        let set_up = || self.set_up(endpoint, peer, attempt, Side::Client);
        let mut resources = match attempt.beyond(Duration::ZERO, set_up) {
            Ok(resources) => resources,
            Err(failure) => return Done::nothing(failure),
        };
        let watch_links = || self.watch_links(endpoint, peer);
        let (is_over, result) = self.measure_with(&mut resources, time, watch_links, instruments);
        let observer = endpoint.lni().observer();
        Done {
            result: result.map_err(|failure| explain::explain(failure, observer)),
            is_released: close::<B>(resources, attempt) && is_over,
        }
    }

    fn serve(&self, endpoint: &Endpoint, peer: FabricAddress, attempt: &Attempt) -> Done<()> {
        // The operations may have failed before this target could answer them.
        if attempt.is_late() {
            return Done::nothing(Untested::Late.into());
        }
        let Some(serve) = self.serve else {
            let result = match endpoint.address().thread() {
                Some(thread) => self.watch_target(endpoint, (peer, thread), attempt),
                None => Ok(()),
            };
            let is_released = true;
            return Done { result, is_released };
        };
        let set_up = || self.set_up(endpoint, peer, attempt, Side::Server);
        let mut resources = match attempt.beyond(Duration::ZERO, set_up) {
            Ok(resources) => resources,
            Err(failure) => return Done::nothing(failure),
        };
        if attempt.is_late() {
            return Done {
                result: Err(Untested::Late.into()),
                is_released: close::<B>(resources, attempt),
            };
        }
        let links = self.watch_links(endpoint, peer);
        let (is_over, result) = self.serve_with(&mut resources, attempt, links, serve);
        Done { result, is_released: close::<B>(resources, attempt) && is_over }
    }

    fn is_two_sided(&self) -> bool {
        self.serve.is_some()
    }
}

/// Releases the resources of a side. Returns whether nothing is left of them.
fn close<B: Benchmark>(resources: B::Resources, attempt: &Attempt) -> bool {
    attempt.beyond(Duration::ZERO, || B::close(resources).is_ok())
}

/// Fewest samples with a 90th percentile, of which surveys compare several pairs.
const ENOUGH_FOR_P90: u64 = 30;

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

    /// Forgets what was recorded before a pair.
    pub fn clear(&mut self) {
        self.recorder.clear();
    }

    /// All recorded latencies, in bins.
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        for place in self.recorder.histogram().iter_recorded() {
            histogram.add(place.value_iterated_to(), place.count_at_value());
        }
        histogram
    }

    /// The mean of the recorded latencies, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.recorder.statistics().mean()
    }

    /// The figures of the recorded latencies.
    fn figures(&self) -> Figures {
        let statistics = self.recorder.statistics();
        let count = statistics.count();
        let at = |percentile| self.recorder.percentile(percentile);
        Figures::Latency {
            count,
            min_ns: statistics.min(),
            p5_ns: at(Percentile::P5),
            median_ns: at(Percentile::MEDIAN).unwrap_or_default(),
            p90_ns: at(Percentile::P90).filter(|_| count >= ENOUGH_FOR_P90),
            p99_ns: at(Percentile::P99).filter(|_| Percentile::P99.is_supported_by(count)),
            max_ns: statistics.max(),
        }
    }
}

/// Measures latencies by `measure`, in addition to those that were recorded. Returns the figures of
/// all, and the iterations of this call, with the warm-up.
///
/// # Errors
///
/// The errors of `measure`.
pub fn latency(
    run: &RunOptions,
    instruments: &mut Instruments,
    measure: impl FnOnce(Samples<'_>) -> Result<(), Failure>,
) -> Result<(Figures, u64), Failure> {
    let before = instruments.recorder.statistics().count();
    // Figures do not say how the start times of a rate were kept.
    let mut kept = None;
    let clock = instruments.clock.clock();
    measure(Samples::new(clock, &mut instruments.recorder, None, &mut kept))?;
    let iterations = instruments.recorder.statistics().count() - before + run.warmup;
    Ok((instruments.figures(), iterations))
}

/// The figures of a side that has issued lists.
pub fn rates(run: &RunOptions, own: &[SideResult]) -> Figures {
    let own = SideResult::from_pairs(own);
    let rates = Rates::of(run.min_size, [own, SideResult::default()], false);
    let bytes_per_second = rates.megabytes * 1e6;
    Figures::Bandwidth {
        bytes_per_second,
        operations_per_second: bytes_per_second / run.min_size as f64,
    }
}

/// For how long the data of a pair filled a link while its bandwidth was measured, if a model of
/// the fabric knows that: then busy CPUs did not lower it.
struct FullLinks {
    own: LocalAddress,
    /// Each NIC, and for how long its data had filled links before.
    nics: [(u32, Duration); 2],
    began: Instant,
}

impl FullLinks {
    /// Begins to watch the links on the way of the data between a NIC and its peer. `None` without
    /// a model of these links.
    pub fn watch(own: LocalAddress, peer: FabricAddress) -> Option<Self> {
        let nics = [own.address.nic, peer.nic];
        let [one, other] = nics.map(|nic| own.modelled_filling(nic));
        Some(Self { own, nics: [(nics[0], one?), (nics[1], other?)], began: Instant::now() })
    }

    /// Returns for which part of the time the data filled no link, in percent.
    fn idle_percent(&self) -> f64 {
        let elapsed = self.began.elapsed();
        let filled = self.nics.map(|(nic, before)| {
            let after = self.own.modelled_filling(nic).unwrap_or(before);
            after.saturating_sub(before)
        });
        // One of the two sends the data.
        let filled = filled[0].max(filled[1]);
        100.0 * (1.0 - filled.as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_tool::FIRST_PORTAL;
    use super::super::window::Window;
    use super::*;
    use diag::bench::testing::endpoint;
    use diag::bench::write_lat;
    use diag::run::latency;
    use plan::testing::plan;

    fn time<'a>(writes: &TestOf<write_lat::WriteLatency>, attempt: &'a Attempt) -> PairTime<'a> {
        PairTime { pair: writes.pair, warms_up: true, attempt }
    }

    /// A test with `write-lat` and its target, as [`test`](super::super::by_tool::test) makes it.
    fn writes() -> TestOf<write_lat::WriteLatency> {
        let pair = Duration::from_millis(5);
        let plan = plan("write-lat", &["-s", "1000", "--latency-gap=0"]);
        let mut run = plan.run;
        run.set_duration(pair);
        TestOf {
            run,
            max_waited_percent: 25.0,
            fills_links: false,
            pair,
            portal: FIRST_PORTAL + 3,
            measure: |context, resources, instruments| {
                latency(context.run, instruments, |samples| {
                    let size = context.run.min_size;
                    latency::measure_one_sided::<write_lat::WriteLatency>(
                        context, resources, size, samples,
                    )
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
        let mut writes = TestOf { max_waited_percent: f64::INFINITY, ..writes() };
        writes.open_target(&endpoint).unwrap();
        for _ in 0..2 {
            let window =
                Window { ready: Instant::now(), ends: Instant::now() + Duration::from_secs(10) };
            let attempt = Attempt::new(window, Side::Client);
            let done = writes.measure(&endpoint, own, time(&writes, &attempt), &mut instruments);
            assert!(done.result.is_ok() && done.is_released);
        }
        let issued = Issued { own: 0, peer: None };
        let target = writes.target.as_ref().unwrap();
        let size = writes.run.min_size;
        let checked = write_lat::WriteLatency::check(
            target,
            SizeOfRun { run: &writes.run, size, supervisor: &Unwatched },
            issued,
        );
        assert_eq!(checked.unwrap(), 1000);
        writes.close_target().unwrap();
        endpoint.close().unwrap();
    }

    /// The NIC may have been closed when operations began.
    #[test]
    fn target_that_begins_late_says_so() {
        let endpoint = endpoint(&plan("write-lat", &[]));
        let own = endpoint.address().address;
        let writes = TestOf { max_waited_percent: f64::INFINITY, ..writes() };
        let serve = |ahead: Duration| {
            let window = Window {
                ready: Instant::now() + ahead,
                ends: Instant::now() + ahead + Duration::from_secs(10),
            };
            let attempt = Attempt::new(window, Side::Server);
            writes.serve(&endpoint, own, &attempt).result
        };
        let failure = serve(Duration::ZERO).unwrap_err();
        assert_eq!(failure.error.downcast_ref(), Some(&Untested::Late));
        assert_eq!(failure.kind, Kind::Environment);
        assert!(serve(Duration::from_secs(1)).is_ok());
        endpoint.close().unwrap();
    }

    #[test]
    fn failure_after_the_window_is_discarded() {
        let endpoint = endpoint(&plan("write-lat", &[]));
        let own = endpoint.address().address;
        let mut instruments = Instruments::new().unwrap();
        let writes = TestOf {
            max_waited_percent: f64::INFINITY,
            // There is no target.
            measure: |context, resources, instruments| {
                while !context.supervisor.is_over() {
                    std::thread::yield_now();
                }
                (writes().measure)(context, resources, instruments)
            },
            ..writes()
        };
        let window =
            Window { ready: Instant::now(), ends: Instant::now() + Duration::from_secs(1) };
        let attempt = Attempt::new(window, Side::Client);
        let done = writes.measure(&endpoint, own, time(&writes, &attempt), &mut instruments);
        let failure = done.result.unwrap_err();
        assert_eq!(failure.error.downcast_ref(), Some(&Untested::Late));
        endpoint.close().unwrap();
    }

    #[test]
    fn missing_answer_at_process_without_cpu_is_discarded() {
        let endpoint = endpoint(&plan("write-lat", &[]));
        let own = endpoint.address().address;
        let mut instruments = Instruments::new().unwrap();
        let mut measure = |max_waited_percent, measure: MeasurePair<write_lat::WriteLatency>| {
            let writes = TestOf { max_waited_percent, measure, ..writes() };
            let window =
                Window { ready: Instant::now(), ends: Instant::now() + Duration::from_secs(60) };
            let attempt = Attempt::new(window, Side::Client);
            let done = writes.measure(&endpoint, own, time(&writes, &attempt), &mut instruments);
            assert!(!done.is_released);
            done.result.unwrap_err()
        };
        let silent: MeasurePair<write_lat::WriteLatency> = |context, _, _| {
            let failure = context.supervisor.no_answer("write", Duration::from_millis(5));
            Err(failure)
        };
        assert_eq!(measure(f64::INFINITY, silent).kind, Kind::Nic);
        // There is no target: an error of the NIC within the window.
        assert_eq!(measure(-1.0, writes().measure).kind, Kind::Nic);
        let failure = measure(-1.0, silent);
        assert_eq!(failure.message(), "the process waited for its CPU");
        assert_eq!(failure.kind, Kind::Environment);
        endpoint.close().unwrap();
    }

    #[test]
    fn figures_of_process_without_cpu_are_kept() {
        let endpoint = endpoint(&plan("write-lat", &[]));
        let own = endpoint.address().address;
        let mut instruments = Instruments::new().unwrap();
        let mut writes = TestOf { max_waited_percent: -1.0, ..writes() };
        writes.open_target(&endpoint).unwrap();
        let window =
            Window { ready: Instant::now(), ends: Instant::now() + Duration::from_secs(10) };
        let attempt = Attempt::new(window, Side::Client);
        assert!(writes.check_cpu(&attempt, 26.4, None).is_err());
        assert_eq!(attempt.waited_percent(), 26);
        let done = writes.measure(&endpoint, own, time(&writes, &attempt), &mut instruments);
        assert!(done.result.is_ok());
        writes.close_target().unwrap();
        endpoint.close().unwrap();
    }
}
