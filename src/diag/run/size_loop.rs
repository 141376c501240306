//! The loop for one size: warm-up, gap, iterations or duration, and the time limits of the peer.

use std::time::Duration;

use crate::bench::api::{Timed, Transaction};
use facts::error::Failure;
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::phase::{Phase, enter};
use facts::rate::{KeptSchedule, Pacer, Period};
use measure::{ChosenClock, Clock, WaitPolicy};
use plan::run_options::RunOptions;

/// When the loop for one size ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After this many measured iterations.
    Iterations(u64),
    /// When the next iteration would start more than this many nanoseconds after the first measured
    /// one.
    Duration(u64),
    /// When a signal stops the run.
    Stopped,
}

/// Warm-up, pause and end of the loop for one size.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// When the loop ends.
    pub limit: Limit,
    /// Unmeasured iterations before the measured ones.
    pub warmup: u64,
    /// Pause between the end of one iteration and the start of the next, in nanoseconds.
    pub gap: u64,
    /// Time between the intended starts of two measured iterations; `None` if each
    /// follows the one before it.
    pub period: Option<Period>,
}

impl Schedule {
    /// The schedule for operations of `size` bytes with the options of `run`.
    pub fn of(run: &RunOptions, size: u64) -> Self {
        Self {
            limit: match run.duration() {
                Some(_) if run.extensions.until_stopped => Limit::Stopped,
                Some(time) => Limit::Duration(time.as_nanos() as u64),
                None => Limit::Iterations(run.iters),
            },
            warmup: run.warmup,
            gap: run.gap_us * 1000,
            period: run.period(size),
        }
    }

    /// The longest pause before an iteration, in nanoseconds.
    pub fn pause(&self) -> u64 {
        let period = self.period.map_or(0, Period::nanoseconds);
        self.gap.saturating_add(period)
    }
}

/// Interval at which a long pause checks the peer, in nanoseconds.
pub const GAP_SLICE: u64 = 100_000_000;

impl Limit {
    /// Whether the loop ends after `count` measured iterations. `elapsed` returns the time of the
    /// next one, from the start of the first, in nanoseconds.
    #[inline(always)]
    fn is_reached(self, count: u64, elapsed: impl FnOnce() -> u64) -> bool {
        match self {
            Self::Iterations(iterations) => count >= iterations,
            Self::Duration(duration) => elapsed() >= duration,
            Self::Stopped => interrupt::is_stopped(),
        }
    }
}

/// Takes the latencies of one size, outside the timed part.
pub trait Record {
    /// Called once, before the first measured iteration.
    fn begin(&mut self);

    /// Takes a latency (ns). Returns whether the loop is to end.
    fn record(&mut self, latency: u64) -> bool;
}

#[cfg(test)]
impl<F: FnMut(u64) -> bool> Record for F {
    fn begin(&mut self) {}

    fn record(&mut self, latency: u64) -> bool {
        self(latency)
    }
}

/// As [`repeat`], with the clock of the run: the loop is compiled for each clock and does not
/// branch on it.
pub fn repeat_with(
    clock: ChosenClock,
    transaction: &mut impl Transaction,
    schedule: Schedule,
    policy: &mut WaitPolicy<'_>,
    recorder: &mut impl Record,
) -> Result<Option<KeptSchedule>, Failure> {
    match clock {
        ChosenClock::MonotonicRaw(clock) => repeat(transaction, &clock, schedule, policy, recorder),
        ChosenClock::Counter(clock) => repeat(transaction, &clock, schedule, policy, recorder),
    }
}

/// Repeats `transaction` as scheduled and passes each measured latency (ns) to `recorder`.
/// Returns how the intended start times were kept, if there are any.
///
/// One transaction is outstanding at a time. Without a period this is a closed loop: a transaction
/// that takes long delays those after it unnoticed. With a period the latency counts from the
/// intended start, so that it contains this delay. The warm-up has no intended start times. No
/// sample is dropped.
///
/// # Errors
///
/// The failure of an iteration, a peer that has gone, and an interruption.
pub fn repeat<C: Clock>(
    transaction: &mut impl Transaction,
    clock: &C,
    schedule: Schedule,
    policy: &mut WaitPolicy<'_>,
    recorder: &mut impl Record,
) -> Result<Option<KeptSchedule>, Failure> {
    let Schedule { limit, warmup, gap, period } = schedule;
    enter(Phase::WarmUp);
    let mut iterations = 0;
    let mut started = 0;
    let mut pacer = None;
    transaction.prepare(clock, policy)?;
    loop {
        if iterations == warmup {
            enter(Phase::Measuring);
            recorder.begin();
            started = clock.now();
            pacer = period.map(|period| Pacer::new(period, started));
        }
        // The only call: the warm-up runs the instructions that are measured after it.
        let Timed { start, latency } = transaction.iterate(clock, policy)?;
        iterations += 1;
        let Some(pacer) = &mut pacer else {
            let elapsed = || (clock.now() - started).saturating_add(gap);
            if iterations > warmup
                && (recorder.record(latency) || limit.is_reached(iterations - warmup, elapsed))
            {
                return Ok(None);
            }
            transaction.prepare(clock, policy)?;
            pause(clock, gap, policy)?;
            continue;
        };
        let delay = pacer.start(start);
        let now = clock.now();
        let elapsed = || now.max(pacer.due()) - started;
        if recorder.record(delay + latency) || limit.is_reached(iterations - warmup, elapsed) {
            return Ok(Some(pacer.kept()));
        }
        pacer.ready(now);
        transaction.prepare(clock, policy)?;
        wait_until(clock, pacer.due(), policy)?;
    }
}

/// Waits for `gap` nanoseconds without sleeping: a core takes longer to wake up than a NIC to
/// answer. The legacy tools end the pause far too early (defect T1 of tools.md).
///
/// # Errors
///
/// A peer that has gone, and an interruption.
pub fn pause<C: Clock>(clock: &C, gap: u64, policy: &mut WaitPolicy<'_>) -> Result<(), Failure> {
    if gap == 0 {
        enter(Phase::Gap);
        return interrupt::check();
    }
    wait_until(clock, clock.now().saturating_add(gap), policy)
}

/// Waits until `due`, as [`pause`] does.
///
/// # Errors
///
/// A peer that has gone, and an interruption.
pub fn wait_until<C: Clock>(
    clock: &C,
    due: u64,
    policy: &mut WaitPolicy<'_>,
) -> Result<(), Failure> {
    enter(Phase::Gap);
    interrupt::check()?;
    let mut checked = clock.now();
    loop {
        let now = clock.now();
        if now >= due || interrupt::is_stopped() {
            return Ok(());
        }
        interrupt::check()?;
        if now - checked >= GAP_SLICE {
            policy.look_after_peer()?;
            checked = now;
        }
    }
}

/// The time limit of a peer for one iteration with operations of `size` bytes: two waits for all
/// its bytes each, the pause, and the answer on the control connection.
pub fn longest_iteration(run: &RunOptions, size: u64) -> Duration {
    (WaitPolicy::longest(run.bytes(size)) * 2)
        .saturating_add(Duration::from_nanos(Schedule::of(run, size).pause()))
        .saturating_add(ANSWER_LIMIT)
}

/// The time limit of a peer for one size. It limits the barrier at which one side waits for the
/// whole measurement of the other: a slower peer has failed or is stopped.
pub fn longest_size(run: &RunOptions, size: u64) -> Duration {
    let one = longest_iteration(run, size);
    let count = match run.duration_s {
        Some(_) => run.warmup.saturating_add(1),
        None => run.warmup.saturating_add(run.iters),
    };
    one.saturating_mul(count.try_into().unwrap_or(u32::MAX))
        .saturating_add(run.duration().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use facts::rate::Rate;
    use measure::wait_policy::double::Watching;

    /// Each reading takes 10 ns.
    struct Ticking(Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }
    }

    /// Records when each iteration starts; an iteration takes 2,000 ns.
    #[derive(Default)]
    struct RecordingTransaction {
        starts: Vec<u64>,
    }

    impl Transaction for RecordingTransaction {
        fn iterate<C: Clock>(
            &mut self,
            clock: &C,
            _: &mut WaitPolicy<'_>,
        ) -> Result<Timed, Failure> {
            let start = clock.now();
            self.starts.push(start);
            while clock.now() - start < 2_000 {}
            Ok(Timed { start, latency: 2_000 })
        }
    }

    fn run(schedule: Schedule) -> (Vec<u64>, Vec<u64>) {
        let mut transaction = RecordingTransaction::default();
        let mut samples = Vec::new();
        let clock = Ticking(Cell::new(0));
        let supervisor = Watching::peer(true);
        let mut policy = WaitPolicy::new(&supervisor);
        let mut recorder = |sample| {
            samples.push(sample);
            false
        };
        repeat(&mut transaction, &clock, schedule, &mut policy, &mut recorder).unwrap();
        (transaction.starts, samples)
    }

    #[test]
    fn counts_iterations_without_warm_up() {
        let (starts, samples) =
            run(Schedule { limit: Limit::Iterations(5), warmup: 3, gap: 0, period: None });
        assert_eq!((starts.len(), samples.len()), (8, 5));
    }

    #[test]
    fn recorder_begins_after_warm_up() {
        /// Keeps the number of latencies when it was begun, and their number.
        #[derive(Default)]
        struct Begun(Vec<u64>, u64);

        impl Record for Begun {
            fn begin(&mut self) {
                self.0.push(self.1);
            }

            fn record(&mut self, _: u64) -> bool {
                self.1 += 1;
                false
            }
        }

        let mut begun = Begun::default();
        let mut transaction = RecordingTransaction::default();
        let supervisor = Watching::peer(true);
        let mut policy = WaitPolicy::new(&supervisor);
        let schedule = Schedule { limit: Limit::Iterations(5), warmup: 3, gap: 0, period: None };
        let clock = Ticking(Cell::new(0));
        repeat(&mut transaction, &clock, schedule, &mut policy, &mut begun).unwrap();
        assert_eq!((begun.0, begun.1), (vec![0], 5));
    }

    #[test]
    fn t1_waits_for_whole_gap() {
        let gap = 1_000_000;
        let (starts, _) =
            run(Schedule { limit: Limit::Iterations(4), warmup: 2, gap, period: None });
        for pair in starts.windows(2) {
            let between = pair[1] - pair[0] - 2_000;
            assert!((gap..gap + 200).contains(&between), "{between} ns for a gap of {gap} ns");
        }
    }

    fn with_period(limit: Limit, operations_per_s: u64) -> Schedule {
        Schedule {
            limit,
            warmup: 3,
            gap: 0,
            period: Some(Rate::Operations(operations_per_s).period(8, 1)),
        }
    }

    #[test]
    fn measured_iterations_start_at_intended_times_after_warm_up() {
        let (starts, samples) = run(with_period(Limit::Iterations(20), 100_000));
        assert_eq!((starts.len(), samples.len()), (23, 20));
        let (warmup, measured) = starts.split_at(3);
        assert!(warmup.windows(2).all(|pair| pair[1] - pair[0] < 2_100));
        // The transaction first reads the clock after the reading that begins the schedule.
        let first = measured[0] - 10;
        for (number, start) in (0..).zip(measured) {
            let delay = start - first - number * 10_000;
            assert!(delay <= 20, "{number}: {delay} ns");
            assert_eq!(samples[number as usize], delay + 2_000);
        }
    }

    /// Each iteration takes longer than the period: it waits for all those before it.
    #[test]
    fn latency_counts_from_intended_start() {
        let schedule = with_period(Limit::Iterations(100), 1_000_000);
        let mut transaction = RecordingTransaction::default();
        let mut samples = Vec::new();
        let clock = Ticking(Cell::new(0));
        let supervisor = Watching::peer(true);
        let mut policy = WaitPolicy::new(&supervisor);
        let mut recorder = |sample| {
            samples.push(sample);
            false
        };
        let kept = repeat(&mut transaction, &clock, schedule, &mut policy, &mut recorder);
        let first = transaction.starts[3] - 10;
        for (number, start) in (0..).zip(&transaction.starts[3..]) {
            assert_eq!(samples[number as usize], start - first - number * 1_000 + 2_000);
        }
        assert!(samples[99] > 100_000);
        let kept = kept.unwrap().unwrap();
        assert_eq!((kept.starts, kept.late), (100, 99));
        assert!(kept.per_second.unwrap() < 500_000.0);
    }

    #[test]
    fn duration_ends_before_intended_start_beyond_it() {
        let (_, samples) = run(with_period(Limit::Duration(100_000), 100_000));
        assert_eq!(samples.len(), 10);
        // Too fast for the transaction: the time alone ends the loop.
        let (_, samples) = run(with_period(Limit::Duration(100_000), 100_000_000));
        assert!((40..51).contains(&samples.len()), "{}", samples.len());
    }

    #[test]
    fn peer_waits_for_slowest_schedule() {
        let plan = |options: &[&str]| plan::testing::plan("write-lat", options).run;
        let slow = plan(&["--rate=1B/s", "-s", "1000", "-n", "7", "--warmup", "0"]);
        let same = plan(&["--latency-gap=0", "-s", "1000", "-n", "7", "--warmup", "0"]);
        let more = longest_size(&slow, 1000) - longest_size(&same, 1000);
        assert_eq!(more, Duration::from_secs(7 * 1000));
    }

    #[test]
    fn duration_starts_with_first_measured_iteration() {
        let (starts, samples) =
            run(Schedule { limit: Limit::Duration(100_000), warmup: 10, gap: 8_000, period: None });
        // One iteration and its gap take a little more than 10,000 ns.
        assert_eq!(samples.len(), 10);
        assert_eq!(starts.len(), 20);
    }

    #[test]
    fn ends_when_recorder_has_enough() {
        let mut transaction = RecordingTransaction::default();
        let clock = Ticking(Cell::new(0));
        let supervisor = Watching::peer(true);
        let schedule =
            Schedule { limit: Limit::Duration(u64::MAX), warmup: 2, gap: 0, period: None };
        let mut count = 0;
        let mut policy = WaitPolicy::new(&supervisor);
        let mut recorder = |_| {
            count += 1;
            count == 7
        };
        repeat(&mut transaction, &clock, schedule, &mut policy, &mut recorder).unwrap();
        assert_eq!((count, transaction.starts.len()), (7, 9));
    }

    #[test]
    fn long_gap_ends_when_peer_is_lost() {
        let mut transaction = RecordingTransaction::default();
        let clock = Ticking(Cell::new(0));
        let supervisor = Watching::peer(false);
        let mut policy = WaitPolicy::new(&supervisor);
        let schedule =
            Schedule { limit: Limit::Iterations(2), warmup: 0, gap: 10 * GAP_SLICE, period: None };
        let recorder = &mut |_| false;
        assert!(repeat(&mut transaction, &clock, schedule, &mut policy, recorder).is_err());
        assert_eq!(transaction.starts.len(), 1);
    }
}
