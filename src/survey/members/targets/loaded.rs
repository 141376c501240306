//! What a NIC does in a slot under load: it loads the fabric, measures, or is watched.

use std::time::{Duration, Instant};

use super::aggressor::{Aggressor, AggressorLoad, Sent};
use super::by_tool::portal;
use super::load_times::LoadTimes;
use super::model::ModelWatch;
use super::nic::{OpenTest, TargetNic};
use super::test::{Done, PairTime};
use super::window::Attempt;
use campaign::quiet::answer::Untested;
use campaign::timetable::histogram::Histogram;
use diag::endpoint::Endpoint;
use facts::device::FabricAddress;
use facts::error::Failure;
use measure::{CpuShare, Supervisor};
use node::explain;
use plan::buffers::Buffer;

/// An aggressor says nothing about the fabric if its process did not run for one of this many parts
/// of the counted time, unless its window was deep enough.
const STALLED: u32 = 4;

/// A figure that the model of the fabric does not explain is about CPUs alone: as if the process
/// had waited for all of the time, in percent (load.md 4.6).
const UNEXPLAINED: f64 = 100.0;

/// A NIC is watched for at least one of this many parts of the counted time.
const SHORTEST: u32 = 4;

impl TargetNic {
    /// Measures operations as [`Self::measure`] does, in the counted time of a slot under load.
    /// Returns all latencies.
    pub fn measure_loaded(
        &mut self,
        number: usize,
        peer: FabricAddress,
        times: LoadTimes,
        attempt: &Attempt,
    ) -> Done<Histogram> {
        let own = self.endpoint().ok().map(Endpoint::address);
        let model = own.and_then(|own| ModelWatch::begin(own, peer));
        let time = PairTime { pair: times.counted_time(), warms_up: false, attempt };
        let done = self.measure_in(number, peer, time);
        let result = done.result.and_then(|_| self.latencies());
        let delays = model.and_then(|model| model.end());
        let (is_two_sided, mean) =
            (self.tests[number].test.is_two_sided(), self.instruments.mean());
        if let (Ok(_), Some(delays)) = (&result, delays) {
            let is_explained = delays.explain_latency(mean, is_two_sided);
            attempt.note_waited(if is_explained { 0.0 } else { UNEXPLAINED });
        }
        Done { result, is_released: done.is_released }
    }

    fn latencies(&self) -> Result<Histogram, Failure> {
        let latencies = self.instruments.histogram();
        if latencies.count() == 0 {
            return Err(Failure::environment("the test measures no latencies"));
        }
        Ok(latencies)
    }

    /// Puts to `peers` in turn in a slot under load, with size and class of a test, at most
    /// `window_bytes` at a time.
    ///
    /// The result is an error if nothing could be sent. An error of
    /// [`Kind::Nic`](facts::error::Kind::Nic) is about the fabric, others are about this process.
    pub fn load(
        &self,
        number: usize,
        (peers, window_bytes): (&[FabricAddress], u64),
        times: LoadTimes,
        attempt: &Attempt,
    ) -> Done<Sent> {
        let OpenTest { run, class, .. } = &self.tests[number];
        let load = AggressorLoad {
            peers,
            portal: portal(number),
            size: run.min_size,
            buffer: Buffer::full(run),
            window_bytes,
            shares_cpus: self.device().platform().runs_on_cpus,
        };
        match self.endpoint() {
            Ok(endpoint) => {
                endpoint.set_class(*class);
                let done = send(endpoint, &load, times, attempt);
                endpoint.set_class(None);
                done
            }
            Err(why) => Done::nothing(Failure::environment(why)),
        }
    }

    /// Waits while others send to this NIC, and notes for which part of the counted time the
    /// threads that do its work waited for their CPUs.
    ///
    /// # Errors
    ///
    /// A slot whose counted time is nearly over, and an interruption.
    pub fn watch(&self, times: LoadTimes, attempt: &Attempt) -> Result<(), Failure> {
        attempt.begin(times.counted_time() / SHORTEST)?;
        let threads = CpuWait::from_nic(self.endpoint().ok());
        attempt.wait_for_last()?;
        attempt.note_waited(threads.percent());
        attempt.pause(times.stop.saturating_duration_since(Instant::now()))
    }
}

fn send(
    endpoint: &Endpoint,
    load: &AggressorLoad<'_>,
    times: LoadTimes,
    attempt: &Attempt,
) -> Done<Sent> {
    if load.peers.is_empty() {
        return Done::nothing(Failure::environment("the task names no NIC to send to"));
    }
    let set_up = || Aggressor::set_up(endpoint, load, times, attempt);
    let mut aggressor = match attempt.beyond(Duration::ZERO, set_up) {
        Ok(aggressor) => aggressor,
        Err(failure) => return Done::nothing(failure),
    };
    let own = endpoint.address();
    let model = ModelWatch::begin(own, own.address);
    let begun = attempt.begin(Duration::ZERO);
    let threads = [CpuWait::from_this_thread(), CpuWait::from_nic(Some(endpoint))];
    let sent = begun.and_then(|()| aggressor.run(times));
    let waited = threads.map(|threads| threads.percent());
    let delays = model.and_then(|model| model.end());
    let is_released = attempt.beyond(Duration::ZERO, || aggressor.close());
    let judged = sent.and_then(|sent| {
        let rate = sent.bytes_per_second(times.counted_time());
        let is_explained =
            delays.is_some_and(|delays| delays.explain_bandwidth(rate, load.window()));
        attempt.note_waited(match delays {
            Some(_) if is_explained => 0.0,
            Some(_) => UNEXPLAINED,
            None => waited[0].max(waited[1]),
        });
        judge(sent, is_explained, times, attempt)
    });
    let observer = endpoint.lni().observer();
    Done { result: judged.map_err(|failure| explain::explain(failure, observer)), is_released }
}

/// Returns what was sent; an error if that says nothing about the fabric, or if nothing was sent.
fn judge(
    sent: Sent,
    is_explained: bool,
    times: LoadTimes,
    attempt: &Attempt,
) -> Result<Sent, Failure> {
    if !is_explained && sent.longest_gap >= times.counted_time() / STALLED {
        return Err(Untested::Paused.into());
    }
    if sent.has_sent {
        return Ok(sent);
    }
    match sent.failure {
        Some(failure) => Err(failure),
        None if attempt.waited_percent() > MOST_WAITED => Err(Untested::NoCpu.into()),
        None => Err(attempt.no_answer("put", times.end - times.start)),
    }
}

/// Without an answer, a process that waited longer for its CPU, in percent, does not blame the NIC.
const MOST_WAITED: u8 = 50;

/// How long threads of this process wait for their CPUs, from a moment on.
struct CpuWait {
    began: Instant,
    before: Option<CpuShare>,
    read: Box<dyn Fn() -> Option<CpuShare>>,
}

impl CpuWait {
    fn of(read: impl Fn() -> Option<CpuShare> + 'static) -> Self {
        Self { began: Instant::now(), before: read(), read: Box::new(read) }
    }

    fn from_this_thread() -> Self {
        Self::of(CpuShare::from_this_thread)
    }

    /// Begins to watch the threads that do the work of the NIC, if it does not work by itself.
    fn from_nic(endpoint: Option<&Endpoint>) -> Self {
        let thread = endpoint.and_then(|endpoint| endpoint.address().thread());
        Self::of(move || CpuShare::from_threads(thread?))
    }

    /// Returns for which part of the time since then the threads have waited, in percent.
    fn percent(&self) -> f64 {
        let elapsed = self.began.elapsed().as_secs_f64();
        let shares = self.before.zip((self.read)());
        let waited = shares.map(|(before, after)| after.waited_since(before).as_secs_f64());
        100.0 * waited.unwrap_or_default() / elapsed
    }
}
