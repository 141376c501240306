//! Drives the pairs of one side from one or more threads.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use cxi::placement::Confined;

use super::pairs::{End, Pair, Progress, drive};
use crate::advice::Explain;
use crate::bench::api::Lists;
use crate::error::Failure;
use crate::interrupt;
use crate::measure::{Clock, Gauge, Supervisor, WaitPolicy};
use crate::rate::{Pacer, Period};

/// Interval at which the first thread checks the peer while only others measure.
const LOOK: Duration = Duration::from_millis(1);

/// What the threads of a measurement share.
#[derive(Clone, Copy)]
pub struct Measurement<'a, C> {
    /// Their clock.
    pub clock: &'a C,
    /// When the loop ends.
    pub end: End,
    /// Counts the operations of complete iterations.
    pub gauge: &'a Gauge,
    /// Operations of a list.
    pub list_size: u64,
    /// Time from the intended start of a list of a pair to that of its next one, if there is a rate.
    pub period: Option<Period>,
    /// A CPU for each thread. If it is empty, the calling thread measures alone, where it is.
    pub cpus: &'a [u32],
}

/// What the threads have measured.
pub struct Measured {
    /// When the loop started; 0 if it did not.
    pub start: u64,
    /// The progress of each pair.
    pub progress: Vec<Progress>,
    /// The failure that ended the loop early, if one did.
    pub result: Result<(), Failure>,
}

impl<C: Clock + Sync> Measurement<'_, C> {
    /// Drives `lists`, those of one pair each. The calling thread drives the first share of them,
    /// with `policy`, which checks the peer for all. `begin` waits for the peer when all threads are
    /// there; `peer_waits` returns whether the peer waits at the next barrier.
    pub fn run<L: Lists>(
        &self,
        lists: &mut [L],
        policy: WaitPolicy<'_>,
        begin: impl FnOnce() -> Result<(), Failure>,
        peer_waits: &dyn Fn() -> bool,
    ) -> Measured {
        let gate = Gate::default();
        let count = lists.len();
        let mut shares = shares(lists, self.cpus.len().max(1)).into_iter();
        let mut own = pairs(shares.next().unwrap_or_default(), policy);
        let mut first = own.len();
        let peer_waits = || {
            let waits = peer_waits();
            gate.peer_waits.fetch_or(waits, Relaxed);
            waits
        };
        let mut progress = Vec::new();
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for (share, cpu) in shares.zip(self.cpus.iter().skip(1)) {
                let (gate, allowance) = (&gate, policy.allowance());
                let places = Places { first, count };
                first += share.len();
                let work = move || self.work(share, places, *cpu, allowance, gate);
                match thread::Builder::new().spawn_scoped(scope, work) {
                    Ok(worker) => workers.push(worker),
                    Err(error) => gate.stop(Failure::environment(format!(
                        "cannot start a thread: {error}"
                    ))),
                }
            }
            let led = gate
                .check()
                .and_then(|()| begin())
                .and_then(|()| confine(self.cpus.first()))
                .and_then(|_here| {
                    let start = gate.open(&workers, self.clock)?;
                    self.gauge.begin(start);
                    self.pace(&mut own, Places { first: 0, count }, start);
                    let counted = (self.gauge, self.list_size);
                    drive(&mut own, self.clock, start, self.end, &peer_waits, counted)
                });
            led.unwrap_or_else(|failure| gate.stop(failure));
            unpark(&workers);
            while workers.iter().any(|worker| !worker.is_finished()) {
                thread::sleep(LOOK);
                if let Err(failure) = policy.look_after_peer() {
                    gate.stop(failure);
                }
            }
            progress.extend(own.iter().map(Pair::progress));
            for worker in workers {
                match worker.join() {
                    Ok(theirs) => progress.extend(theirs),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        let failure = gate
            .failure
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Measured {
            start: gate.start.into_inner(),
            progress,
            result: failure.map_or(Ok(()), Err),
        }
    }

    /// The work of a thread on `cpu`: drives its share of the pairs.
    fn work<L: Lists>(
        &self,
        share: &mut [L],
        places: Places,
        cpu: u32,
        allowance: u64,
        gate: &Gate,
    ) -> Vec<Progress> {
        let policy = WaitPolicy::new(gate).allow(allowance);
        let mut pairs = pairs(share, policy);
        let driven = confine(Some(&cpu)).and_then(|_here| {
            let start = gate.pass()?;
            self.pace(&mut pairs, places, start);
            let peer_waits = || gate.peer_waits.load(Relaxed);
            let counted = (self.gauge, self.list_size);
            drive(
                &mut pairs,
                self.clock,
                start,
                self.end,
                &peer_waits,
                counted,
            )
        });
        driven.unwrap_or_else(|failure| gate.stop(failure));
        pairs.iter().map(Pair::progress).collect()
    }

    /// Distributes the intended start times of the lists evenly over all pairs, if there is a rate.
    fn pace<L: Lists>(&self, pairs: &mut [Pair<'_, L>], places: Places, start: u64) {
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
struct Places {
    /// The place of the first one.
    first: usize,
    /// The number of all pairs.
    count: usize,
}

fn pairs<'a, L: Lists>(lists: &'a mut [L], policy: WaitPolicy<'a>) -> Vec<Pair<'a, L>> {
    let pair = |lists| Pair::new(lists, Progress::default(), policy);
    lists.iter_mut().map(pair).collect()
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

/// Lets the threads start together, and ends all if one fails. In the threads without a control
/// connection it is also the supervisor of their waits.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    /// Threads that have passed.
    passed: AtomicUsize,
    /// When the loop starts; 0 before.
    start: AtomicU64,
    peer_waits: AtomicBool,
    stopped: AtomicBool,
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
            thread::park();
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
        self.stopped.store(true, Release);
    }

    fn check(&self) -> Result<(), Failure> {
        if self.stopped.load(Acquire) {
            return Err(Failure::environment("another thread has failed"));
        }
        interrupt::check()
    }
}

impl Supervisor for Gate {
    fn peer_is_there(&self) -> Result<(), Failure> {
        self.check()
    }

    /// The first thread waits for the same peer, and reports it.
    fn slow(&self, _: &str, _: u64, _: u64) {}

    fn no_answer(&self, operation: &str, waited: u64) -> Failure {
        Failure::nic(format!("no answer to a {operation} within {waited} s"))
    }
}
