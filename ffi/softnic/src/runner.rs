//! Who runs the engines: threads that poll, and one engine thread per process for when none does.
//!
//! A thread that waits for events calls `progress` and runs the engine of its device itself: no
//! hand-over, nothing between the wire and the waiting program. The engine thread takes a device
//! over when nobody has called `progress` for a while, as in a target that sits in a system call
//! while its peer writes. To the thread, a device is in one of these states:
//!
//! | state | what the thread does | until |
//! |---|---|---|
//! | attended | looks every [`TICK`] whether `progress` is still called | a tick without a call |
//! | hot | polls without sleeping | [`HOT`] without traffic, or a call of `progress`, or no CPU to spare |
//! | parked | sleeps in the kernel | a sender wakes it, or its nap is over |
//!
//! So it spins only where traffic arrives that nobody polls for, and where that takes the CPU from nobody.
//! Two busy programs on two cores see no third spinner, but a thread that looks at a counter for a few
//! microseconds.
//!
//! Programs that know nothing of `progress` are served by this thread alone. Nothing wakes it when they
//! write their queues: it looks after naps that grow with the silence ([`nap`]).

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex::{self, Timespec};
use rustix::thread::sched_yield;
use rustix::time::{ClockId, clock_gettime};

use crate::cpu::{self, Cpus, Manner, wake_on_time};
use crate::fabric::{self, Port};
use crate::nic::Nic;

/// How long a device must go without `progress` before the thread takes it over. Longer than the
/// gap of 1 ms that the latency tools leave between iterations by default.
const TICK: Duration = Duration::from_micros(1500);

/// Polling goes on for this long after the last traffic. Well above that gap too, so that a
/// benchmark does not measure the wake-up of its target in every iteration.
const HOT: Duration = Duration::from_millis(20);

/// While it polls and finds nothing, the thread offers its CPU to others this often.
const YIELD: Duration = Duration::from_micros(100);

/// Longest nap where programs call `progress`. It marks a device as awake without waking the thread,
/// which would cost the polling program a system call; if it stops polling soon after, this is
/// how long the thread may take to notice.
const NAP: Duration = Duration::from_millis(10);

/// The same where nothing wakes the thread: a program that never called `progress` rings its
/// doorbells in silence.
const SHORT_NAP: Duration = Duration::from_millis(1);

/// Shortest nap, after traffic of a moment ago. Below some ten microseconds the kernel is slower to put a
/// thread to sleep than the nap is long, and the thread spins after all.
const BLINK: Duration = Duration::from_micros(20);

/// The same without real-time priority. Shorter ones do not find commands sooner on the whole: a thread
/// that wakes more often has less of a claim to preempt the program that it serves.
const LONG_BLINK: Duration = Duration::from_micros(50);

/// Dead partners are looked for this often.
const PROBE: Duration = Duration::from_millis(100);

/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// The open devices of this process, and the thread that serves them.
///
/// Only those who open and close devices lock it. The engine thread is told by message: a lock that
/// it held while the program forks would stay locked in the child.
struct Registry {
    nics: Vec<Arc<Nic>>,
    thread: Option<EngineThread>,
}

struct EngineThread {
    handle: JoinHandle<()>,
    /// The devices to serve from now on. The thread ends when the sender is dropped.
    devices: Sender<Vec<Arc<Nic>>>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    nics: Vec::new(),
    thread: None,
});

/// Changes with every message to the thread, which also sleeps on it while it attends.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Puts a device under the care of the engine thread.
pub fn add(nic: Arc<Nic>) {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    if registry.nics.iter().any(|nic| !nic.is_ours()) {
        // The devices and the thread of a parent process: here is neither.
        std::mem::forget(std::mem::take(&mut registry.nics));
        std::mem::forget(registry.thread.take());
    }
    registry.nics.push(nic);
    if registry.thread.is_none() {
        let (sender, receiver) = channel();
        let thread = thread::Builder::new()
            .name("softnic".into())
            .spawn(move || serve(&receiver));
        // Without a thread, devices still work while somebody polls.
        registry.thread = thread.ok().map(|handle| EngineThread {
            handle,
            devices: sender,
        });
    }
    registry.announce();
}

/// Takes a device out. The thread ends with the last one.
pub fn remove(nic: &Arc<Nic>) {
    let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    registry.nics.retain(|other| !Arc::ptr_eq(other, nic));
    let mut ended = None;
    if registry.nics.is_empty() {
        ended = registry.thread.take().map(|thread| thread.handle);
    }
    registry.announce();
    fabric::wake(nic.port());
    drop(registry);
    if let Some(thread) = ended {
        let _ = thread.join();
    }
}

impl Registry {
    /// Tells the thread, if there still is one, which devices it has, and that something changed.
    fn announce(&self) {
        if let Some(thread) = &self.thread {
            let _ = thread.devices.send(self.nics.clone());
        }
        CHANGES.fetch_add(1, Ordering::SeqCst);
        let _ = futex::wake(&CHANGES, futex::Flags::PRIVATE, u32::MAX);
        self.nics.iter().for_each(|nic| fabric::wake(nic.port()));
    }
}

/// A device as the thread sees it.
struct Charge {
    nic: Arc<Nic>,
    calls: u64,
    /// When `calls` was last seen to change, or the device was new.
    attended: Instant,
    /// Last traffic that the thread handled.
    busy: Option<Instant>,
    /// Nobody else polls.
    ours: bool,
}

/// The engine thread.
fn serve(devices: &Receiver<Vec<Arc<Nic>>>) {
    wake_on_time();
    let mut cpus = Cpus::new();
    let mut manner = None;
    let mut blink = LONG_BLINK;
    let mut charges: Vec<Charge> = Vec::new();
    let mut probed = Instant::now();
    let mut yielded = probed;
    loop {
        // Read before the messages, so that none comes unnoticed after them.
        let seen = CHANGES.load(Ordering::SeqCst);
        loop {
            match devices.try_recv() {
                Ok(nics) => take_charge(&mut charges, &nics),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let now = Instant::now();
        if now - probed >= PROBE {
            probed = now;
            charges.iter().for_each(|charge| charge.nic.probe());
        }
        for charge in &mut charges {
            charge.look(now);
            charge.poll(now);
        }
        let hot = charges.iter().any(|charge| charge.is_hot(now));
        let spins = hot && cpus.one_to_spare(now);
        // Programs that call `progress` do not depend on how soon the thread looks at their queues.
        let wanted = match !spins && charges.iter().all(|charge| charge.calls == 0) {
            true => Manner::Preempting,
            false => Manner::Equal,
        };
        if manner != Some(wanted) {
            manner = Some(wanted);
            blink = if cpu::adopt(wanted) {
                BLINK
            } else {
                LONG_BLINK
            };
        }
        if spins {
            let mut traffic = false;
            for _ in 0..POLLS_PER_LOOK {
                for charge in &mut charges {
                    traffic |= charge.poll(now);
                }
            }
            if traffic {
                yielded = now;
            } else if now - yielded >= YIELD {
                yielded = now;
                sched_yield();
            }
        } else if charges.iter().any(|charge| !charge.ours) {
            attend(seen);
        } else {
            park(seen, &mut charges, now, blink);
        }
    }
}

/// Goes over to the devices that are open now.
fn take_charge(charges: &mut Vec<Charge>, nics: &[Arc<Nic>]) {
    let now = Instant::now();
    charges.retain(|charge| nics.iter().any(|nic| Arc::ptr_eq(nic, &charge.nic)));
    for nic in nics {
        if !charges.iter().any(|charge| Arc::ptr_eq(nic, &charge.nic)) {
            let (nic, calls) = (nic.clone(), nic.calls());
            charges.push(Charge {
                nic,
                calls,
                attended: now,
                busy: None,
                ours: false,
            });
        }
    }
}

impl Charge {
    /// Sees whether somebody else polls the device.
    fn look(&mut self, now: Instant) {
        let calls = self.nic.calls();
        if calls != self.calls {
            self.calls = calls;
            self.attended = now;
            self.ours = false;
            self.busy = None;
        } else if now - self.attended >= TICK {
            self.ours = true;
        }
    }

    fn is_hot(&self, now: Instant) -> bool {
        self.ours && self.busy.is_some_and(|busy| now - busy < HOT)
    }

    /// How long to sleep with nothing to do. A packet that has come in before its time wakes nobody later.
    fn nap(&self, now: Instant, blink: Duration) -> Duration {
        let nap = match self.calls {
            0 => nap(now - self.busy.unwrap_or(self.attended), blink),
            _ => NAP,
        };
        self.nic.rest().map_or(nap, |rest| nap.min(rest))
    }

    /// Runs the engine if nobody else does. True if there was traffic.
    fn poll(&mut self, now: Instant) -> bool {
        let traffic = self.ours && self.nic.calls() == self.calls && self.nic.poll();
        if traffic {
            self.busy = Some(now);
        }
        traffic
    }
}

/// How long to sleep after a silence: an eighth of it. What a program writes after a pause waits no longer than
/// an eighth of that pause, and a program that is at rest costs a thousand looks a second.
fn nap(silence: Duration, blink: Duration) -> Duration {
    (silence / 8).clamp(blink, SHORT_NAP)
}

/// Sleeps a tick, or until there is a message.
fn attend(seen: u32) {
    let tick = timespec(TICK);
    let _ = futex::wait(&CHANGES, futex::Flags::PRIVATE, seen, Some(&tick));
}

/// Sleeps until somebody sends to one of the devices, all of which are ours, or the nap is over.
fn park(seen: u32, charges: &mut [Charge], now: Instant, blink: Duration) {
    for charge in &mut *charges {
        charge.nic.port().parked().store(1, Ordering::Relaxed);
    }
    // A sender that does not see `parked` has sent before this fence, and is seen here.
    fence(Ordering::SeqCst);
    let mut traffic = CHANGES.load(Ordering::SeqCst) != seen;
    for charge in &mut *charges {
        traffic |= charge.poll(now);
    }
    if !traffic {
        let naps = charges.iter().map(|charge| charge.nap(now, blink));
        sleep(charges, naps.min().unwrap_or(NAP));
    }
    for charge in charges {
        charge.nic.port().parked().store(0, Ordering::Relaxed);
    }
}

/// Sleeps on all ports at once.
fn sleep(charges: &[Charge], nap: Duration) {
    if let [charge] = charges {
        let parked = charge.nic.port().parked();
        let _ = futex::wait(parked, futex::Flags::empty(), 1, Some(&timespec(nap)));
        return;
    }
    let ports: Vec<&Port> = charges.iter().map(|charge| charge.nic.port()).collect();
    let waits: Vec<futex::Wait> = ports.iter().map(|port| wait_for(port.parked())).collect();
    let end = clock_gettime(ClockId::Monotonic) + timespec(nap);
    let woken = futex::waitv(
        &waits,
        futex::WaitvFlags::empty(),
        Some(&end),
        ClockId::Monotonic,
    );
    // Kernels before 5.16, and more devices than the call takes.
    if matches!(woken, Err(Errno::NOSYS | Errno::INVAL | Errno::PERM)) {
        thread::sleep(nap.min(SHORT_NAP));
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
    Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
