//! Drives the pairs of one side from one or more threads.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use cxi::placement::Confined;

use super::pairs::{End, Pair, PairProgress, PairsLoop};
use super::watchdog::{Notices, Watchdog};
use crate::bench::api::Lists;
use facts::error::Failure;
use facts::rate::{Pacer, Period};
use facts::{interrupt, threads};
use measure::wait_policy::WaitTimes;
use measure::{Clock, Gauge, WaitPolicy};
use node::explain::Explain;

/// Interval at which the first thread checks the peer while only others measure.
const LOOK: Duration = Duration::from_millis(1);

/// Longest sleep of a thread that waits for the start, before it checks whether another has failed.
const PARKED: Duration = Duration::from_millis(100);

/// The state that the threads of a measurement share.
#[derive(Clone, Copy)]
pub struct Measurement<'a, C> {
    pub clock: &'a C,
    /// When the loop ends.
    pub end: End,
    /// Counts the operations of complete iterations.
    pub gauge: &'a Gauge,
    /// Operations of a list.
    pub list_size: u64,
    /// Time between the intended starts of two lists of a pair, if there is a rate.
    pub period: Option<Period>,
    /// A CPU for each thread. If it is empty, the calling thread measures alone, where it is.
    pub cpus: &'a [u32],
    /// Reports long waits.
    pub notices: Notices<'a>,
}

/// The measurements of the threads.
pub struct ThreadResults {
    /// When the loop started; 0 if it did not.
    pub start: u64,
    pub progress: Vec<PairProgress>,
    /// The failure that ended the loop early, if one did.
    pub result: Result<(), Failure>,
}

impl<C: Clock + Sync> Measurement<'_, C> {
    /// Drives `lists`, each the lists of one pair. The calling thread drives the first share of
    /// them, with `policy`, which checks the peer for all. `begin` waits for the peer when all
    /// threads are there; `is_asked_to_end` returns whether they are to end before.
    pub fn run<L: Lists>(
        &self,
        lists: &mut [L],
        policy: WaitPolicy<'_>,
        begin: impl FnOnce() -> Result<(), Failure>,
        is_asked_to_end: &dyn Fn() -> bool,
    ) -> ThreadResults {
        let gate = Gate::default();
        let count = lists.len();
        let mut shares = shares(lists, self.cpus.len().max(1)).into_iter();
        let mut own = pairs(shares.next().unwrap_or_default(), policy);
        let mut first = own.len();
        let is_asked_to_end = || {
            let is_asked = is_asked_to_end();
            gate.is_asked_to_end.fetch_or(is_asked, Relaxed);
            is_asked
        };
        let mut progress = Vec::new();
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for (share, cpu) in shares.zip(self.cpus.iter().skip(1)) {
                let (gate, limits) = (&gate, policy.limits());
                let places = PairRange { first, count };
                first += share.len();
                let work = move || self.work(share, places, *cpu, limits, gate);
                match threads::start_in(scope, work) {
                    Ok(worker) => workers.push(worker),
                    Err(failure) => gate.stop(failure),
                }
            }
            let _stop = StopOnPanic(&gate);
            let led = gate
                .check()
                .and_then(|()| begin())
                .and_then(|()| confine(self.cpus.first()))
                .and_then(|_here| {
                    let start = gate.open(&workers, self.clock)?;
                    self.gauge.begin(start);
                    self.pace(&mut own, PairRange { first: 0, count }, start);
                    self.drive(&mut own, start, &is_asked_to_end, &gate)
                });
            led.unwrap_or_else(|failure| gate.stop(failure));
            unpark(&workers);
            await_end(&workers, policy, &gate);
            progress.extend(own.iter().map(Pair::progress));
            for worker in workers {
                match worker.join() {
                    Ok(theirs) => progress.extend(theirs),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        let failure = gate.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        ThreadResults {
            start: gate.start.into_inner(),
            progress,
            result: failure.map_or(Ok(()), Err),
        }
    }

    /// The work of a thread on `cpu`: drives its share of the pairs.
    fn work<L: Lists>(
        &self,
        share: &mut [L],
        places: PairRange,
        cpu: u32,
        limits: WaitTimes,
        gate: &Gate,
    ) -> Vec<PairProgress> {
        let _stop = StopOnPanic(gate);
        let watchdog = Watchdog { check: || gate.check(), notices: self.notices };
        let policy = WaitPolicy::new(&watchdog).with_limits(limits);
        let mut pairs = pairs(share, policy);
        let driven = confine(Some(&cpu)).and_then(|_here| {
            let start = gate.pass()?;
            self.pace(&mut pairs, places, start);
            let is_asked_to_end = || gate.is_asked_to_end.load(Relaxed);
            self.drive(&mut pairs, start, &is_asked_to_end, gate)
        });
        driven.unwrap_or_else(|failure| gate.stop(failure));
        pairs.iter().map(Pair::progress).collect()
    }

    fn drive<L: Lists>(
        &self,
        pairs: &mut [Pair<'_, L>],
        start: u64,
        is_asked_to_end: &dyn Fn() -> bool,
        gate: &Gate,
    ) -> Result<(), Failure> {
        let run = PairsLoop {
            clock: self.clock,
            start,
            end: self.end,
            is_asked_to_end,
            check: &|| gate.check(),
            gauge: self.gauge,
            list_size: self.list_size,
        };
        run.drive(pairs)
    }

    /// Distributes the intended start times of the lists evenly over all pairs, if there is a rate.
    fn pace<L: Lists>(&self, pairs: &mut [Pair<'_, L>], places: PairRange, start: u64) {
        let Some(period) = self.period else {
            return;
        };
        for (place, pair) in (places.first..).zip(pairs) {
            let offset = period.nanoseconds() / places.count as u64 * place as u64;
            pair.pace(Pacer::new(period, start + offset));
        }
    }
}

/// The places of a thread's pairs among all pairs.
#[derive(Clone, Copy)]
struct PairRange {
    first: usize,
    /// The number of all pairs.
    count: usize,
}

fn pairs<'a, L: Lists>(lists: &'a mut [L], policy: WaitPolicy<'a>) -> Vec<Pair<'a, L>> {
    lists.iter_mut().map(|lists| Pair::new(lists, PairProgress::default(), policy)).collect()
}

/// Divides `lists` into `count` shares, which differ by one at most.
fn shares<L>(mut lists: &mut [L], count: usize) -> Vec<&mut [L]> {
    let mut shares = Vec::with_capacity(count);
    for left in (1..=count).rev() {
        let (share, rest) = lists.split_at_mut(lists.len().div_ceil(left));
        shares.push(share);
        lists = rest;
    }
    shares
}

fn confine(cpu: Option<&u32>) -> Result<Option<Confined>, Failure> {
    cpu.map(|cpu| {
        let cpus = [*cpu];
        Confined::to(&cpus).explain(format_args!("cannot run a thread on CPU {cpu}"))
    })
    .transpose()
}

fn unpark<T>(workers: &[ScopedJoinHandle<'_, T>]) {
    workers.iter().for_each(|worker| worker.thread().unpark());
}

/// Looks after the peer until the workers have ended.
fn await_end<T>(workers: &[ScopedJoinHandle<'_, T>], policy: WaitPolicy<'_>, gate: &Gate) {
    while workers.iter().any(|worker| !worker.is_finished()) {
        thread::sleep(LOOK);
        if let Err(failure) = policy.look_after_peer() {
            gate.stop(failure);
        }
    }
}

/// Lets the threads start together, and ends all if one fails.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    /// Threads that have passed.
    passed: AtomicUsize,
    /// When the loop starts; 0 before.
    start: AtomicU64,
    is_asked_to_end: AtomicBool,
    is_stopped: AtomicBool,
    /// The first failure.
    failure: Mutex<Option<Failure>>,
}

impl Gate {
    /// Lets `workers` pass. Returns the time at which all threads start.
    fn open<T>(
        &self,
        workers: &[ScopedJoinHandle<'_, T>],
        clock: &impl Clock,
    ) -> Result<u64, Failure> {
        self.is_open.store(true, Release);
        unpark(workers);
        // A sleeping thread takes some 50 us to wake up, which is not measured.
        while self.passed.load(Acquire) < workers.len() {
            self.check()?;
            spin_loop();
        }
        let start = clock.now();
        self.start.store(start, Release);
        Ok(start)
    }

    /// Waits until the first thread opens the gate. Returns the time at which all threads start.
    fn pass(&self) -> Result<u64, Failure> {
        while !self.is_open.load(Acquire) {
            self.check()?;
            thread::park_timeout(PARKED);
        }
        self.passed.fetch_add(1, Release);
        loop {
            match self.start.load(Acquire) {
                0 => self.check()?,
                start => return Ok(start),
            }
            // On a CPU that several threads share, the first one has to run.
            thread::yield_now();
        }
    }

    /// Ends all threads because of `failure`.
    fn stop(&self, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(failure);
        self.is_stopped.store(true, Release);
    }

    /// Fails in all threads after one has failed, and after an interruption.
    #[inline]
    fn check(&self) -> Result<(), Failure> {
        if self.is_stopped.load(Relaxed) {
            return Err(Failure::environment("another thread has failed"));
        }
        interrupt::check()
    }
}

/// Ends all threads if the thread that holds this value panics.
struct StopOnPanic<'a>(&'a Gate);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop(Failure::environment("a thread has panicked"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::api::Step;
    use crate::bench::testing::Alone;
    use measure::MonotonicRaw;

    /// Completes lists until the one with this number, which fails.
    struct FailsAt(u64);

    impl Lists for FailsAt {
        fn step(&mut self) -> Result<Step, Failure> {
            self.0 -= 1;
            match self.0 {
                0 => Err(Failure::nic("the list failed")),
                _ => Ok(Step::Complete),
            }
        }

        fn issued(&self) -> u64 {
            0
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            Ok(false)
        }
    }

    fn measurement<'a>(
        gauge: &'a Gauge,
        cpus: &'a [u32],
        end: End,
    ) -> Measurement<'a, MonotonicRaw> {
        Measurement {
            clock: &MonotonicRaw,
            end,
            gauge,
            list_size: 4,
            period: None,
            cpus,
            notices: Notices::default(),
        }
    }

    /// A CPU that the thread may use, several times.
    fn shared_cpu(threads: usize) -> Vec<u32> {
        vec![cxi::placement::cpus().unwrap()[0]; threads]
    }

    #[test]
    fn divides_pairs_into_shares() {
        let mut pairs = [0, 1, 2, 3, 4];
        let shares = shares(&mut pairs, 3);
        assert_eq!(shares, [&[0, 1][..], &[2, 3], &[4]]);
    }

    #[test]
    fn drives_all_pairs_from_several_threads() {
        let (gauge, cpus) = (Gauge::default(), shared_cpu(3));
        let mut lists: Vec<_> = (0..5).map(|_| FailsAt(u64::MAX)).collect();
        let run = measurement(&gauge, &cpus, End::Iterations(7));
        let measured = run.run(&mut lists, WaitPolicy::new(&Alone), || Ok(()), &|| false);
        measured.result.unwrap();
        let completed: Vec<_> =
            measured.progress.iter().map(|progress| progress.completed).collect();
        assert_eq!((completed, gauge.get().0), (vec![7; 5], 5 * 7 * 4));
    }

    #[test]
    fn failure_of_one_thread_ends_all() {
        for failing in 0..3 {
            let (gauge, cpus) = (Gauge::default(), shared_cpu(3));
            let mut lists: Vec<_> = (0..3).map(|_| FailsAt(20_000_000)).collect();
            lists[failing] = FailsAt(10);
            let run = measurement(&gauge, &cpus, End::Duration(u64::MAX));
            let measured = run.run(&mut lists, WaitPolicy::new(&Alone), || Ok(()), &|| false);
            assert_eq!(measured.result.unwrap_err().message(), "the list failed");
            let failed = lists.iter().filter(|lists| lists.0 == 0);
            assert_eq!(failed.count(), 1, "the others go on until they fail as well");
        }
    }

    #[test]
    fn failure_before_the_start_ends_all() {
        let (gauge, cpus) = (Gauge::default(), shared_cpu(3));
        let mut lists: Vec<_> = (0..3).map(|_| FailsAt(u64::MAX)).collect();
        let run = measurement(&gauge, &cpus, End::Duration(u64::MAX));
        let begin = || Err(Failure::peer("the peer has gone"));
        let measured = run.run(&mut lists, WaitPolicy::new(&Alone), begin, &|| false);
        assert_eq!(measured.result.unwrap_err().message(), "the peer has gone");
        assert_eq!(measured.start, 0);
    }

    #[test]
    fn panic_of_one_thread_ends_all() {
        struct Panics;
        impl Lists for Panics {
            fn step(&mut self) -> Result<Step, Failure> {
                panic!("a bug")
            }
            fn issued(&self) -> u64 {
                0
            }
            fn are_under_way(&mut self) -> Result<bool, Failure> {
                Ok(false)
            }
        }
        let cpus = shared_cpu(2);
        let panicked = std::panic::catch_unwind(|| {
            let gauge = Gauge::default();
            let run = measurement(&gauge, &cpus, End::Iterations(1));
            let mut lists = [Panics, Panics];
            let policy = WaitPolicy::new(&Alone);
            run.run(&mut lists, policy, || Ok(()), &|| false);
        });
        assert!(panicked.is_err());
    }
}
