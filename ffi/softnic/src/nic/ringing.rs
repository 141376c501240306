//! Threads that ring doorbells that trap: they run the engine.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::sched_yield;

use super::{CALLING, SoftwareNic};
use crate::cpu;
use crate::doorbell::Doorbell;
use crate::engine::Engine;
use crate::fabric::{self, Fabric};

/// The longest time for which a thread that rang a doorbell runs the engine while answers are
/// missing.
const LINGER: Duration = Duration::from_micros(50);

/// Time after which it lets other threads run, once: the one that answers may need its CPU. Answers
/// from another CPU come sooner, and beside busy threads it gets its CPU back only after their time
/// slices.
const PATIENCE: Duration = Duration::from_micros(10);

impl SoftwareNic {
    /// Handles a store of the calling thread at byte `offset` of the page of a doorbell. Runs the
    /// engine until it has nothing to do, and for up to [`LINGER`] until the first operation of a
    /// transmit queue is answered.
    ///
    /// # Errors
    /// EIO where the engine cannot run: in a child process, in a signal handler that interrupted a
    /// call of the library, or after a panic; EINVAL if the stored value is needed and not known.
    pub fn ring(&self, doorbell: Doorbell, offset: usize, value: Option<u64>) -> Result<(), Errno> {
        if !self.is_ours() || CALLING.get() {
            return Err(Errno::IO);
        }
        // While this thread runs the engine, senders need not wake the engine thread.
        let parked = self.port.parked();
        let was_parked = parked.swap(0, Ordering::Relaxed) != 0;
        self.ringing.fetch_add(1, Ordering::Relaxed);
        self.port.set_ringer();
        let rung = self.ring_engine(doorbell, offset, value);
        self.ringing.fetch_sub(1, Ordering::Relaxed);
        if was_parked {
            parked.store(1, Ordering::Relaxed);
        }
        // A sender that does not see `parked` has sent before this fence, and is polled here. So is
        // what the engine thread left to this one. Its nap is too long for what remains.
        fence(Ordering::SeqCst);
        if self.poll() || self.is_blocked() || self.time_to_next_packet().is_some() {
            self.port.wake();
        }
        self.leave_shared_cpu();
        rung
    }

    /// Moves this thread, which has rung a doorbell, to another CPU if the program that it sends to
    /// rings on the same one. Two programs that spin on one CPU wait for the ends of their time
    /// slices in each round trip, and the scheduler does not know that they wait for each other.
    fn leave_shared_cpu(&self) {
        let shares = |engine: &Engine<Fabric>| engine.wire.shares_cpu;
        let shares_cpu = self.lock().is_ok_and(|engine| engine.as_ref().is_some_and(shares));
        if shares_cpu && self.is_time_to_move() {
            cpu::leave();
        }
    }

    fn is_time_to_move(&self) -> bool {
        let now = fabric::now();
        let last = self.moved.load(Ordering::Relaxed);
        let is_time = now.saturating_sub(last) >= cpu::MOVE.as_nanos() as u64;
        is_time
            && self.moved.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn ring_engine(
        &self,
        doorbell: Doorbell,
        offset: usize,
        value: Option<u64>,
    ) -> Result<(), Errno> {
        let mut engine = self.lock()?;
        let ringing = engine.as_mut().ok_or(Errno::IO)?;
        // With other operations in progress the program does not wait for this one alone.
        let lingers = matches!(doorbell, Doorbell::Transmit(_)) && !ringing.depends_on_others();
        let rung = match doorbell {
            Doorbell::Counter(number) => ringing.store_to_counter(number, offset, value),
            Doorbell::Transmit(number) => ringing.store_to_transmit_queue(number, offset, value),
            Doorbell::Target(number) => ringing.store_to_target_queue(number, offset, value),
        };
        drop(engine);
        if !rung {
            return Err(Errno::INVAL);
        }
        let start = Instant::now();
        let mut has_yielded = false;
        loop {
            // Locked for one poll at a time, so that other threads can ring.
            let mut engine = self.lock()?;
            let polled = engine.as_mut().ok_or(Errno::IO)?;
            let worked = polled.poll();
            let waits = lingers && polled.depends_on_others();
            drop(engine);
            if !worked && !waits || start.elapsed() >= LINGER {
                return Ok(());
            }
            if !worked && !has_yielded && start.elapsed() >= PATIENCE {
                has_yielded = true;
                sched_yield();
            }
        }
    }
}
