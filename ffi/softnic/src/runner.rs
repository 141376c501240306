//! The threads that run engines: threads that poll, and one engine thread per process.
//!
//! A thread that waits for events calls `progress` and runs the engine of its device itself, so
//! that nothing is between the wire and the waiting program. The engine thread takes a device over
//! when no thread has called `progress` for a while, for example while a target is in a system call
//! and its peer writes. A device is in one of these states:
//!
//! | state | what the engine thread does | until |
//! |---|---|---|
//! | attended | checks every [`TICK`] whether `progress` is still called | a tick without a call |
//! | hot | polls without sleeping | [`hot`] without traffic, a call of `progress`, no spare CPU |
//! | parked | sleeps in the kernel | a sender wakes it, or its nap ends |
//!
//! So it spins only while traffic arrives for a device that no other thread polls, and only on a
//! spare CPU. Two busy programs on two cores do not compete with a third spinning thread.
//!
//! Programs that do not call `progress` are served by this thread only. Nothing wakes it when they
//! write doorbells that do not trap, so it polls after naps that grow with the time without
//! commands ([`nap`]). The last idle CPU is for a thread that looks for commands; while it naps,
//! the thread stays on the CPU of the peers that wake it ([`CpuChooser::follow`]).

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex::{self, Timespec};
use rustix::thread::sched_yield;
use rustix::time::{ClockId, clock_gettime};

use crate::cpu::{self, CpuChooser, Scheduling, hot, wake_on_time};
use crate::fabric::Port;
use crate::nic::SoftwareNic;
use crate::summary;
use crate::trap;

/// Time without `progress` after which the engine thread takes a device over. Longer than the
/// default gap of 1 ms between iterations of the latency tools.
const TICK: Duration = Duration::from_micros(1500);

/// Interval at which a thread that polls without work yields its CPU.
const YIELD: Duration = Duration::from_micros(100);

/// Longest nap for programs that call `progress`. The call marks a device as polled without waking
/// the engine thread, which would be a system call; if the program stops polling then, the thread
/// notices after this time.
const NAP: Duration = Duration::from_millis(10);

/// Longest nap for programs that never called `progress`, whose doorbells do not wake the thread.
const SHORT_NAP: Duration = Duration::from_millis(1);

/// Longest nap in a process that rests ([`cpu::rest_after`]): its peers wake the thread also while
/// the program polls. The end of a peer that holds an operation is noticed after this time.
const LONG_NAP: Duration = Duration::from_millis(250);

/// Shortest nap, directly after a command. Putting a thread to sleep takes the kernel some ten
/// microseconds, and with real-time priority shorter naps leave the program too little of its CPU.
const SHORTEST_NAP: Duration = Duration::from_micros(20);

/// Interval of the search for dead peers.
const PROBE: Duration = Duration::from_millis(100);

/// Polls between two readings of the clock.
const POLLS_PER_READING: u32 = 64;

/// The open devices of this process, and the thread that serves them.
///
/// Only functions that open and close devices lock it. The engine thread gets messages instead,
/// because a lock that it held during a fork would stay locked in the child.
struct Registry {
    nics: Vec<Arc<SoftwareNic>>,
    thread: Option<EngineThread>,
}

struct EngineThread {
    handle: JoinHandle<()>,
    /// Sends the devices to serve. The thread ends when the sender is dropped.
    devices: Sender<Vec<Arc<SoftwareNic>>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { nics: Vec::new(), thread: None });

/// Changes with each message to the thread, which sleeps on it in the state attended.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// False once futex_waitv(2) has failed: before Linux 5.16, with more devices than it accepts, or
/// in a sandbox. Not tried again, because valgrind prints a warning for each call.
static WAITS_FOR_SEVERAL: AtomicBool = AtomicBool::new(true);

/// Adds the packets of devices that the program leaves open to the summary.
extern "C" fn summarize_at_exit() {
    // The thread that exits may hold the lock.
    if let Ok(registry) = REGISTRY.try_lock() {
        registry.nics.iter().for_each(|nic| nic.summarize_at_exit());
    }
}

/// Has the engine thread serve a device.
///
/// # Errors
/// A thread that cannot be started.
pub fn add(nic: Arc<SoftwareNic>) -> Result<(), Errno> {
    static AT_EXIT: Once = Once::new();
    if summary::file().is_some() {
        AT_EXIT.call_once(|| {
            // SAFETY: the function may run at any time, and the library is never unloaded (`-z
            // nodelete`).
            unsafe { libc::atexit(summarize_at_exit) };
        });
    }
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if registry.nics.iter().any(|nic| !nic.is_ours()) {
        // These are the devices and the thread of a parent process, which this process does not
        // have.
        std::mem::forget(std::mem::take(&mut registry.nics));
        std::mem::forget(registry.thread.take());
    }
    if registry.thread.is_none() {
        let (sender, receiver) = channel();
        let thread = without_signals(|| {
            let thread = thread::Builder::new().name("softnic".into());
            thread.spawn(move || serve(&receiver))
        });
        // Without the thread, a device would answer only while the program polls.
        let handle =
            thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        registry.thread = Some(EngineThread { handle, devices: sender });
    }
    registry.nics.push(nic);
    registry.announce();
    summary::open();
    Ok(())
}

/// Calls `spawn` with all signals blocked except faults, so that a thread that it makes gets none
/// of the program's: the thread may hold what their handlers need, and a program that waits for
/// signals blocks them in its own threads only.
fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut blocked = before;
    // SAFETY: the set is writable.
    unsafe { libc::sigfillset(blocked.as_mut_ptr()) };
    for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
        // SAFETY: the set is initialized.
        unsafe { libc::sigdelset(blocked.as_mut_ptr(), fault) };
    }
    // SAFETY: `blocked` is initialized, and `before` writable.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr()) };
    let result = spawn();
    // SAFETY: the first call initialized `before`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    result
}

/// Ends the service of a device. The thread ends with the last one.
pub fn remove(nic: &Arc<SoftwareNic>) {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    registry.nics.retain(|other| !Arc::ptr_eq(other, nic));
    let mut ended = None;
    if registry.nics.is_empty() {
        ended = registry.thread.take().map(|thread| thread.handle);
    }
    registry.announce();
    nic.port().wake();
    drop(registry);
    if let Some(thread) = ended {
        let _ = thread.join();
    }
}

/// Publishes the counts of the devices of this process that are of the NIC with this address.
pub fn publish_counts(nid: u32) {
    let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let nics = registry.nics.clone();
    drop(registry);
    nics.iter().filter(|nic| nic.nid == nid).for_each(|nic| nic.publish_counts());
}

impl Registry {
    /// Sends the devices to the thread, if there is one, and wakes it.
    fn announce(&self) {
        if let Some(thread) = &self.thread {
            let _ = thread.devices.send(self.nics.clone());
        }
        CHANGES.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(&CHANGES, futex::Flags::PRIVATE, u32::MAX);
        self.nics.iter().for_each(|nic| nic.port().wake());
    }
}

/// A device that the engine thread serves.
struct ServedNic {
    nic: Arc<SoftwareNic>,
    /// Number of calls of `progress` at the last check.
    calls: u64,
    /// When `calls` last changed, or the service began.
    attended: Instant,
    /// When the thread last handled traffic.
    busy: Option<Instant>,
    /// When the thread last found commands of the program.
    commanded: Option<Instant>,
    /// No other thread polls the device.
    alone: bool,
}

/// The main function of the engine thread.
fn serve(devices: &Receiver<Vec<Arc<SoftwareNic>>>) {
    wake_on_time();
    let mut cpus = CpuChooser::new();
    let mut scheduling = None;
    let mut served: Vec<ServedNic> = Vec::new();
    let mut probed = Instant::now();
    let mut yielded = probed;
    loop {
        // Read before the messages, so that a later message is noticed.
        let seen = CHANGES.load(Ordering::SeqCst);
        if !receive_devices(devices, &mut served) {
            return;
        }
        trap::check_handler();
        let now = Instant::now();
        if now - probed >= PROBE {
            probed = now;
            served.iter().for_each(|device| device.nic.probe());
        }
        served.iter_mut().for_each(|device| device.serve(now));
        let hot = served.iter().any(|device| device.is_hot(now));
        let spins = hot
            && match cpus.spare(now) {
                None => false,
                Some(0) => served.iter().any(|device| device.needs_cpu(now)),
                Some(_) => true,
            };
        // Programs that call `progress` do not depend on how soon the thread polls their queues.
        let wanted = if !spins && served.iter().all(|device| device.calls == 0) {
            Scheduling::Preempting
        } else {
            Scheduling::Ordinary
        };
        if scheduling != Some(wanted) {
            scheduling = Some(wanted);
            cpu::adopt(wanted);
        }
        if wanted == Scheduling::Ordinary {
            cpus.unbind();
        }
        if spins {
            if poll_often(&mut served, now) {
                yielded = now;
            } else if now - yielded >= YIELD {
                yielded = now;
                sched_yield();
            }
        } else if !are_alone(&served) {
            attend(seen);
        } else {
            park(seen, &mut served, now);
            if wanted == Scheduling::Preempting
                && let Some(cpu) = served.iter().find_map(ServedNic::take_waker)
            {
                cpus.follow(cpu, now);
            }
        }
    }
}

/// Takes the lists of open devices that have arrived. False if none can arrive any more.
fn receive_devices(devices: &Receiver<Vec<Arc<SoftwareNic>>>, served: &mut Vec<ServedNic>) -> bool {
    loop {
        match devices.try_recv() {
            Ok(nics) => update_served(served, &nics),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// Polls the devices until the clock is read again. True if there was traffic.
fn poll_often(served: &mut [ServedNic], now: Instant) -> bool {
    let mut traffic = false;
    for _ in 0..POLLS_PER_READING {
        for device in &mut *served {
            traffic |= device.poll(now);
        }
    }
    traffic
}

/// Whether no other thread polls the devices. Without any, as before the first message, there is
/// no port to sleep on, and the kernel would refuse to.
fn are_alone(served: &[ServedNic]) -> bool {
    !served.is_empty() && served.iter().all(|device| device.alone)
}

/// Replaces the served devices by the open ones.
fn update_served(served: &mut Vec<ServedNic>, nics: &[Arc<SoftwareNic>]) {
    let now = Instant::now();
    served.retain(|device| nics.iter().any(|nic| Arc::ptr_eq(nic, &device.nic)));
    for nic in nics {
        if !served.iter().any(|device| Arc::ptr_eq(nic, &device.nic)) {
            let (nic, calls) = (nic.clone(), nic.calls());
            served.push(ServedNic {
                nic,
                calls,
                attended: now,
                busy: None,
                commanded: None,
                alone: false,
            });
        }
    }
}

impl ServedNic {
    /// Does once what the device needs: counts that a reader asked for, and work.
    fn serve(&mut self, now: Instant) {
        if self.nic.port().are_counts_requested() {
            self.nic.publish_counts();
        }
        self.check_calls(now);
        self.poll(now);
    }

    /// Checks whether another thread polls the device.
    fn check_calls(&mut self, now: Instant) {
        let calls = self.nic.calls();
        if calls != self.calls {
            self.calls = calls;
            self.attended = now;
            self.alone = false;
            self.busy = None;
        } else if now - self.attended >= TICK {
            self.alone = true;
        }
    }

    /// Whether the thread polls the device without sleeping.
    fn is_hot(&self, now: Instant) -> bool {
        self.alone && self.busy.is_some_and(|busy| now - busy < hot())
    }

    /// Whether the thread may spin for a hot device on the last idle CPU. Where a program without
    /// `progress` only receives, it leaves that CPU to the engine thread of its peer: packets wake
    /// this thread, but the doorbells of the peer's program wake none.
    fn needs_cpu(&self, now: Instant) -> bool {
        let is_recent = |commanded| now - commanded < hot();
        self.is_hot(now) && (self.calls != 0 || self.commanded.is_some_and(is_recent))
    }

    /// How long to sleep. No longer than until the next received packet is due, because nothing
    /// wakes the thread then.
    fn nap(&self, now: Instant) -> Duration {
        let nap = match self.calls {
            0 if self.nic.needs_polls() => nap(now - self.commanded.unwrap_or(self.attended)),
            _ if cpu::rests() => LONG_NAP,
            _ => NAP,
        };
        let next_packet = self.nic.time_to_next_packet();
        next_packet.map_or(nap, |time| nap.min(time))
    }

    /// The CPU of a peer that woke the thread for this device since the last call.
    fn take_waker(&self) -> Option<usize> {
        let waker = self.nic.port().waker().swap(0, Ordering::Relaxed);
        waker.checked_sub(1).map(|cpu| cpu as usize)
    }

    /// Runs the engine if no other thread does. True if there was traffic.
    fn poll(&mut self, now: Instant) -> bool {
        let attended = !self.alone || self.nic.calls() != self.calls || self.nic.is_ringing();
        let traffic = !attended && self.nic.poll();
        if traffic {
            self.busy = Some(now);
            if self.calls == 0 && self.nic.take_commanded() {
                self.commanded = Some(now);
            }
        }
        traffic
    }
}

/// How long to sleep after a time without commands: an eighth of it. So a command after a pause
/// waits at most an eighth of the pause, and an idle program costs a thousand polls a second.
fn nap(idle: Duration) -> Duration {
    (idle / 8).clamp(SHORTEST_NAP, SHORT_NAP)
}

/// Sleeps for a tick, or until there is a message.
fn attend(seen: u32) {
    let tick = timespec(TICK);
    let _ = futex::wait(&CHANGES, futex::Flags::PRIVATE, seen, Some(&tick));
}

/// Sleeps until a peer sends to one of the devices, none of which another thread polls, or the nap
/// ends.
fn park(seen: u32, served: &mut [ServedNic], now: Instant) {
    for device in &mut *served {
        device.nic.port().parked().store(1, Ordering::Relaxed);
    }
    // A sender that does not see `parked` has sent before this fence, and is polled here.
    fence(Ordering::SeqCst);
    let mut traffic = CHANGES.load(Ordering::SeqCst) != seen;
    for device in &mut *served {
        traffic |= device.poll(now);
    }
    if !traffic {
        let naps = served.iter().map(|device| device.nap(now));
        sleep(served, naps.min().unwrap_or(NAP));
    }
    for device in served {
        device.nic.port().parked().store(0, Ordering::Relaxed);
    }
}

/// Sleeps on all ports at once.
fn sleep(served: &[ServedNic], nap: Duration) {
    if let [device] = served {
        let parked = device.nic.port().parked();
        let _ = futex::wait(parked, futex::Flags::empty(), 1, Some(&timespec(nap)));
        return;
    }
    if !WAITS_FOR_SEVERAL.load(Ordering::Relaxed) {
        return thread::sleep(nap.min(SHORT_NAP));
    }
    let ports: Vec<&Port> = served.iter().map(|device| device.nic.port()).collect();
    let waits: Vec<futex::Wait> = ports.iter().map(|port| wait_for(port.parked())).collect();
    let end = clock_gettime(ClockId::Monotonic) + timespec(nap);
    let woken = futex::waitv(&waits, futex::WaitvFlags::empty(), Some(&end), ClockId::Monotonic);
    if matches!(woken, Err(Errno::NOSYS | Errno::INVAL | Errno::PERM)) {
        WAITS_FOR_SEVERAL.store(false, Ordering::Relaxed);
    }
}

fn wait_for(parked: &AtomicU32) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = 1;
    wait.uaddr = futex::WaitPtr::new(parked.as_ptr().cast());
    wait.flags = futex::WaitFlags::SIZE_U32;
    wait
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_sleep_on_ports_before_there_is_one() {
        assert!(!are_alone(&[]));
    }
}
