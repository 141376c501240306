//! What a NIC does in a slot under load: it loads the fabric, measures, or is watched. Whether the
//! model of a fabric explains a figure, if the fabric has one, so that the CPUs for which processes
//! waited did not change it (load.md 4.6).

use std::time::{Duration, Instant};

use super::aggressor::{Aggressor, AggressorLoad, Sent};
use super::by_tool::portal;
use super::nic::{OpenTest, TargetNic};
use super::test::{Done, PairTime};
use super::window::{Attempt, LoadTimes};
use campaign::quiet::answer::Untested;
use campaign::timetable::Histogram;
use diag::endpoint::Endpoint;
use facts::device::FabricAddress;
use facts::error::Failure;
use measure::{CpuShare, Supervisor};
use node::backend::LinksDelay;
use node::explain;
use node::local_address::LocalAddress;
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

/// A latency is explained by delays that are shorter by at most this part of them, and by the time
/// that the software of two NICs takes.
const UNEXPLAINED_PART: f64 = 0.1;
const SOFTWARE_NS: f64 = 20_000.0;

/// The fabric limited a flow if at least this part of its window was under way.
const LEAST_UNDER_WAY: f64 = 0.5;

/// The delays of two NICs since a moment.
struct ModelWatch {
    own: LocalAddress,
    /// Each NIC, with its delays before.
    nics: [(u32, LinksDelay); 2],
}

/// Mean delays in the model, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanDelays {
    /// Of the messages of both NICs.
    both_ns: f64,
    /// Of the messages of the first NIC.
    first_ns: f64,
    /// Of the answers to the first NIC; 0 without answers.
    answer_ns: f64,
}

impl ModelWatch {
    /// Begins to watch the messages of a NIC and of its peer, which may be itself. `None` if no
    /// model delays them.
    pub fn begin(own: LocalAddress, peer: FabricAddress) -> Option<Self> {
        let nics = [own.address.nic, peer.nic];
        let [first, other] = nics.map(|nic| own.modelled_delay(nic));
        Some(Self { own, nics: [(nics[0], first?), (nics[1], other?)] })
    }

    /// The mean delays since the begin; `None` if the first NIC sent nothing.
    pub fn end(&self) -> Option<MeanDelays> {
        let since = |(nic, before): (u32, LinksDelay)| {
            let after = self.own.modelled_delay(nic)?;
            Some(difference(after, before))
        };
        let [first, other] = self.nics.map(since);
        MeanDelays::of(first?, other?)
    }
}

/// Returns what was counted between two readings.
fn difference(after: LinksDelay, before: LinksDelay) -> LinksDelay {
    LinksDelay {
        messages: after.messages.saturating_sub(before.messages),
        total: after.total.saturating_sub(before.total),
        answers: after.answers.saturating_sub(before.answers),
        answers_total: after.answers_total.saturating_sub(before.answers_total),
    }
}

impl MeanDelays {
    fn of(first: LinksDelay, other: LinksDelay) -> Option<Self> {
        let mean = |total: Duration, count: u64| total.as_nanos() as f64 / count.max(1) as f64;
        (first.messages > 0).then(|| Self {
            both_ns: mean(first.total + other.total, first.messages + other.messages),
            first_ns: mean(first.total, first.messages),
            answer_ns: mean(first.answers_total, first.answers),
        })
    }

    /// The delay of an operation until its answer.
    fn operation_ns(self) -> f64 {
        self.first_ns + self.answer_ns
    }

    /// Whether the delays explain a mean latency in nanoseconds: of operations of the first NIC
    /// until their answers, or of messages in both directions in turn (`is_two_sided`).
    fn explain_latency(self, mean_ns: f64, is_two_sided: bool) -> bool {
        let modelled = if is_two_sided { self.both_ns } else { self.operation_ns() };
        mean_ns - modelled <= UNEXPLAINED_PART * modelled + SOFTWARE_NS
    }

    /// Whether the fabric limited the first NIC, which had at most `window` bytes under way: the
    /// number of bytes under way is their rate multiplied by their delay.
    fn explain_bandwidth(self, bytes_per_second: f64, window: u64) -> bool {
        let under_way = bytes_per_second * self.operation_ns() * 1e-9;
        under_way >= LEAST_UNDER_WAY * window as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(messages: u64, mean_us: u64, answers: u64, answers_us: u64) -> LinksDelay {
        LinksDelay {
            messages,
            total: Duration::from_micros(messages * mean_us),
            answers,
            answers_total: Duration::from_micros(answers * answers_us),
        }
    }

    #[test]
    fn latency_is_explained_by_message_and_answer() {
        let delays = MeanDelays::of(delay(10, 700, 10, 300), delay(0, 0, 0, 0)).unwrap();
        // 1 ms, a tenth of it, and 20 us.
        assert!(delays.explain_latency(1_120_000.0, false));
        assert!(!delays.explain_latency(1_121_000.0, false));
        assert!(delays.explain_latency(1000.0, false), "faster than its mean");
    }

    #[test]
    fn round_trip_is_explained_by_messages_of_both_nics() {
        let delays = MeanDelays::of(delay(30, 100, 30, 900), delay(10, 500, 0, 0)).unwrap();
        // (30 * 100 + 10 * 500) / 40 = 200 us.
        assert!(delays.explain_latency(239_000.0, true));
        assert!(!delays.explain_latency(241_000.0, true));
    }

    #[test]
    fn bandwidth_is_explained_by_bytes_under_way() {
        let delays = MeanDelays::of(delay(100, 9_900, 100, 100), delay(0, 0, 0, 0)).unwrap();
        // 10 ms: at 10 MB/s, 100,000 bytes.
        assert!(delays.explain_bandwidth(10e6, 200_000));
        assert!(!delays.explain_bandwidth(9.9e6, 200_000));
    }

    #[test]
    fn nic_without_messages_has_no_delays() {
        assert_eq!(MeanDelays::of(delay(0, 0, 5, 1), delay(3, 1, 0, 0)), None);
        let unanswered = MeanDelays::of(delay(2, 50, 0, 0), delay(0, 0, 0, 0)).unwrap();
        assert_eq!(unanswered.operation_ns(), 50_000.0);
        let [before, after] = [delay(3, 10, 2, 5), delay(5, 10, 3, 5)];
        assert_eq!(difference(after, before), delay(2, 10, 1, 5));
    }
}
