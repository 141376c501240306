//! One open device: the engine, and the state shared by the threads that run it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex::{self, Timespec};
use rustix::thread::sched_yield;

use crate::doorbell::{Doorbell, Trapped};
use crate::engine::Engine;
use crate::fabric::{self, Fabric, Port};
use crate::{cpu, fork, summary};

/// The environment variable that leaves the gets of rendezvous puts to software if it is "0", as a
/// parameter of the driver does for hardware (nic.md 14.2).
const RENDEZVOUS_GETS: &str = "CXIDIAG_RDZV_GET";

/// Polls in a row without work, some tens of microseconds, after which a thread yields its CPU,
/// perhaps to the peer that it waits for. Alone on its CPU it loses little.
const POLLS_BEFORE_YIELD: u32 = 1024;

/// The longest sleep of a thread whose CPU other threads need. Not every change that it waits for
/// wakes it: a command of another thread of the program does not.
const NAP: Duration = Duration::from_micros(250);

thread_local! {
    /// Whether the thread is in a call that uses an engine.
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as being in a call while it exists.
struct Calling;

impl Calling {
    fn begin() -> Self {
        CALLING.set(true);
        Self
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLING.set(false);
    }
}

/// An open device, shared by its handles and the engine thread.
pub struct SoftwareNic {
    /// The address of the NIC.
    pub nid: u32,
    /// None once the device is closed.
    engine: Mutex<Option<Engine<Fabric>>>,
    port: Arc<Port>,
    /// Calls of `progress` in a row without work.
    misses: AtomicU32,
    /// Number of calls of `progress`, by which the engine thread detects whether the program polls.
    calls: AtomicU64,
    /// Generation of the process that opened the device.
    generation: u32,
    /// Which doorbells trap.
    pub trapped: Trapped,
    /// Number of threads that run the engine because they rang a doorbell.
    ringing: AtomicU32,
    /// When a thread that rang last moved to another CPU, in nanoseconds of the monotonic clock.
    moved: AtomicU64,
    /// Whether there are doorbells that do not trap.
    polls_doorbells: AtomicBool,
    /// Its packets were added to the summary.
    is_summarized: AtomicBool,
}

impl SoftwareNic {
    /// Opens the NIC with this number and the address `nid`.
    ///
    /// # Errors
    /// The errno of the fabric.
    pub fn open(number: u32, nid: u32) -> Result<Self, Errno> {
        let trapped = Trapped::from_environment().map_err(|_| Errno::INVAL)?;
        let fabric = Fabric::join(number, nid)?;
        let port = fabric.port();
        let mut engine = Engine::new(fabric);
        engine.counters.pools = engine.wire.triggered.clone().map(|pools| pools as _);
        engine.rendezvous_gets = std::env::var_os(RENDEZVOUS_GETS).is_none_or(|value| value != "0");
        Ok(Self {
            nid,
            port,
            engine: Mutex::new(Some(engine)),
            misses: AtomicU32::new(0),
            calls: AtomicU64::new(0),
            generation: fork::generation(),
            trapped,
            ringing: AtomicU32::new(0),
            moved: AtomicU64::new(0),
            polls_doorbells: AtomicBool::new(false),
            is_summarized: AtomicBool::new(false),
        })
    }

    /// Whether this is the process that opened the device.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Calls `work` with the engine.
    ///
    /// # Errors
    /// EIO if the device is closed, was opened by a parent process, or failed with a panic; the
    /// error of `work`.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Engine<Fabric>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if !self.is_ours() {
            return Err(Errno::IO);
        }
        let _calling = Calling::begin();
        let mut engine = self.lock()?;
        let engine = engine.as_mut().ok_or(Errno::IO)?;
        engine.forget_landing();
        let result = work(engine);
        engine.write_held_events();
        engine.wire.show_groups();
        result
    }

    /// Runs the engine once, in a thread that waits for events.
    #[inline]
    pub fn progress(&self) {
        if !self.is_ours() {
            return;
        }
        // Before the lock, so that an engine thread that holds it stops polling. It does not matter
        // if two threads count once: the number changes.
        self.calls.store(self.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.attend(cpu::rests);
        if self.poll() {
            self.misses.store(0, Ordering::Relaxed);
            return;
        }
        let misses = self.misses.load(Ordering::Relaxed).wrapping_add(1);
        self.misses.store(misses, Ordering::Relaxed);
        if misses.is_multiple_of(POLLS_BEFORE_YIELD) {
            self.make_way();
        }
    }

    /// Leaves the CPU to threads that need it.
    ///
    /// A yield is not enough if more threads are busy than there are CPUs: the thread that polls
    /// returns at once, uses up its share of the CPU, and then waits for several time slices when
    /// its packet is there. A thread that sleeps keeps its share, and preempts busy threads when a
    /// packet wakes it.
    #[cold]
    fn make_way(&self) {
        if cpu::yielded_to_another() {
            self.sleep(NAP);
        }
    }

    /// Sleeps until a peer sends to the device, a received packet is nearly due, or the time is
    /// over.
    fn sleep(&self, longest: Duration) {
        let parked = self.port.parked();
        parked.store(1, Ordering::Relaxed);
        // A sender that does not see `parked` has sent before this fence, and is polled here.
        fence(Ordering::SeqCst);
        if !self.poll() {
            // After the poll, which may have received a packet that is not due.
            let next_packet = self.time_to_next_packet();
            let longest = next_packet.map_or(longest, |time| time.min(longest));
            let time = Timespec {
                tv_sec: longest.as_secs() as i64,
                tv_nsec: i64::from(longest.subsec_nanos()),
            };
            let _ = futex::wait(parked, futex::Flags::empty(), 1, Some(&time));
        }
        self.attend(cpu::rests);
    }

    /// Tells senders that a thread polls the device, so that they need not wake the engine thread.
    /// In a process that rests they wake it in any case: it naps too long to notice soon that this
    /// thread polls no more.
    fn attend(&self, rests: fn() -> bool) {
        let parked = self.port.parked();
        if parked.load(Ordering::Relaxed) != 0 && !rests() {
            parked.store(0, Ordering::Relaxed);
        }
    }

    /// Runs the engine once. True if there was anything to do.
    #[inline]
    pub fn poll(&self) -> bool {
        let Ok(mut engine) = self.lock() else {
            return false;
        };
        engine.as_mut().is_some_and(Engine::poll)
    }

    /// Publishes the counts of the device, for the counters of its NIC.
    pub fn publish_counts(&self) {
        // Of a parent process, the device is not counted here.
        let _ = self.with(|engine| {
            publish_counts(engine);
            Ok(())
        });
    }

    /// Finds peers that are gone, if any operation depends on a peer, and writes the TIMESTAMP
    /// events that are due while nothing else happens.
    pub fn probe(&self) {
        if let Ok(mut engine) = self.lock()
            && let Some(engine) = engine.as_mut()
        {
            if engine.depends_on_others() {
                engine.probe();
            }
            engine.stamp();
        }
    }

    /// The time until the next received packet is nearly due; `None` without such a packet.
    pub fn time_to_next_packet(&self) -> Option<Duration> {
        let engine = self.lock().ok()?;
        engine.as_ref()?.wire.time_to_next_packet()
    }

    /// Whether the program gave the NIC anything to do since the last call.
    pub fn take_commanded(&self) -> bool {
        let Ok(mut engine) = self.lock() else {
            return false;
        };
        let engine = engine.as_mut();
        engine.is_some_and(|engine| std::mem::take(&mut engine.commanded))
    }

    /// Whether a thread that rang a doorbell runs the engine.
    pub fn is_ringing(&self) -> bool {
        self.ringing.load(Ordering::Relaxed) != 0
    }

    /// Has the engine thread look for stores to doorbells.
    pub fn poll_doorbells(&self) {
        if !self.polls_doorbells.swap(true, Ordering::Relaxed) {
            // Its nap may be a long one.
            self.port.wake();
        }
    }

    /// Whether the engine may have work that nothing wakes the engine thread for: doorbells that do
    /// not trap, and packets that waited behind those for another NIC without room.
    pub fn needs_polls(&self) -> bool {
        self.polls_doorbells.load(Ordering::Relaxed) || self.is_blocked()
    }

    /// Whether the engine has work that waits for room.
    fn is_blocked(&self) -> bool {
        let engine = self.lock();
        engine.is_ok_and(|engine| engine.as_ref().is_some_and(Engine::is_blocked))
    }

    /// The number of calls of `progress`.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The port of the device, whose `parked` word the engine thread sleeps on.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Drops the engine with all its objects.
    pub fn close(&self) {
        let _calling = Calling::begin();
        let engine = self.lock().ok().and_then(|mut engine| engine.take());
        if let Some(mut engine) = engine {
            publish_counts(&mut engine);
            self.summarize(&engine);
        }
    }

    /// Adds the packets of a device that is open when the process exits.
    pub fn summarize_at_exit(&self) {
        // The thread that exits may hold the lock.
        if self.is_ours()
            && let Ok(engine) = self.engine.try_lock()
            && let Some(engine) = engine.as_ref()
        {
            self.summarize(engine);
        }
    }

    /// Adds the packets that the device sent, at the first call.
    fn summarize(&self, engine: &Engine<Fabric>) {
        if !self.is_summarized.swap(true, Ordering::Relaxed) {
            summary::add(engine.wire.packets_sent());
        }
    }

    /// Locks the engine; EIO if a panic left it in an unknown state.
    #[inline]
    fn lock(&self) -> Result<MutexGuard<'_, Option<Engine<Fabric>>>, Errno> {
        self.engine.lock().map_err(|_| Errno::IO)
    }
}

fn publish_counts(engine: &mut Engine<Fabric>) {
    let telemetry = engine.telemetry();
    engine.wire.publish_counts(telemetry);
}

/// The longest time for which a thread that rang a doorbell runs the engine while answers are
/// missing.
const LINGER: Duration = Duration::from_micros(50);

/// Time after which it lets other threads run, once, if the program that answers rings on the same
/// CPU. It gets its CPU back only after their time slices, and may hold locks of its program
/// meanwhile, for which other threads of the program spin.
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
            let shares_cpu = polled.wire.shares_cpu;
            drop(engine);
            if !worked && !waits || start.elapsed() >= LINGER {
                return Ok(());
            }
            if !worked && shares_cpu && !has_yielded && start.elapsed() >= PATIENCE {
                has_yielded = true;
                sched_yield();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::engine::VniRange;
    use crate::engine::wire::{Packet, PacketKind, PeerId, Wire};

    /// Gives both NICs an address, and returns the second as a peer of the first and the reverse.
    fn connect(nics: [&SoftwareNic; 2]) -> [PeerId; 2] {
        let claim =
            |nic: &SoftwareNic| nic.with(|engine| engine.wire.claim(VniRange::single(1), None, 1));
        let pids = nics.map(|nic| claim(nic).unwrap());
        [(0, 1), (1, 0)].map(|(from, to)| {
            let resolve = |engine: &mut Engine<Fabric>| {
                let peer = engine.wire.resolve(nics[to].nid, 1, pids[to]);
                peer.map_err(|_| Errno::IO)
            };
            nics[from].with(resolve).unwrap()
        })
    }

    /// As a target that sends the data of gets, while nothing else wakes it.
    #[test]
    fn sender_sleeps_until_receiver_has_made_room() {
        const PACKETS: u32 = 20_000;
        let (sender, receiver) = (SoftwareNic::open(0, 0xf_ffee), SoftwareNic::open(0, 0xf_ffef));
        let (sender, receiver) = (sender.unwrap(), receiver.unwrap());
        let [peer, _] = connect([&sender, &receiver]);
        let sent = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for tag in 0..PACKETS {
                    let packet = Packet { kind: PacketKind::Reply, tag, ..Packet::default() };
                    let answer = |engine: &mut Engine<Fabric>| {
                        engine.answer(peer, &packet);
                        Ok(())
                    };
                    sender.with(answer).unwrap();
                }
                while sender.with(|engine| Ok(engine.depends_on_others())).unwrap() {
                    sender.sleep(Duration::from_secs(3600));
                }
                sent.store(true, Ordering::Relaxed);
            });
            while !sent.load(Ordering::Relaxed) {
                receiver.poll();
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn notices_peer_that_rings_on_the_same_cpu() {
        let (nic, other) = (SoftwareNic::open(0, 0xf_ffec), SoftwareNic::open(0, 0xf_ffed));
        let (nic, other) = (nic.unwrap(), other.unwrap());
        let [peer, _] = connect([&nic, &other]);
        let shares_cpu = |own: u64, other_ringer: u64| {
            nic.port().ringer().store(own, Ordering::Relaxed);
            other.port().ringer().store(other_ringer, Ordering::Relaxed);
            let send = |engine: &mut Engine<Fabric>| {
                engine.answer(peer, &Packet::default());
                engine.wire.flush();
                Ok(engine.wire.shares_cpu)
            };
            nic.with(send).unwrap()
        };
        let ringer = |thread: u64, cpu: u64| thread << 32 | (cpu + 1);
        assert!(shares_cpu(ringer(7, 1), ringer(8, 1)));
        assert!(!shares_cpu(ringer(7, 1), ringer(8, 0)));
        // One thread that uses both.
        assert!(!shares_cpu(ringer(7, 1), ringer(7, 1)));
        assert!(!shares_cpu(ringer(7, 0), 0));
        nic.port().set_ringer();
        assert_ne!(nic.port().ringer().load(Ordering::Relaxed), ringer(7, 0));
    }

    #[test]
    fn polling_thread_clears_the_mark_for_senders_unless_it_rests() {
        let nic = SoftwareNic::open(0, 0xf_ffeb).unwrap();
        let cases: [(fn() -> bool, u32); 2] = [(|| false, 0), (|| true, 1)];
        for (rests, left) in cases {
            nic.port().parked().store(1, Ordering::Relaxed);
            nic.attend(rests);
            assert_eq!(nic.port().parked().load(Ordering::Relaxed), left, "{}", rests());
        }
    }

    #[test]
    fn sender_wakes_thread_that_sleeps() {
        // An address that no other test uses.
        let nic = SoftwareNic::open(0, 0xf_fff0).unwrap();
        let awake = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !awake.load(Ordering::Relaxed) {
                    nic.port().wake();
                    std::thread::yield_now();
                }
            });
            nic.sleep(Duration::from_secs(3600));
            awake.store(true, Ordering::Relaxed);
        });
        assert_eq!(nic.port().parked().load(Ordering::Relaxed), 0);
        // The sender left its CPU.
        assert_ne!(nic.port().waker().load(Ordering::Relaxed), 0);
    }
}
