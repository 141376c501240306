//! CPU time: spare CPUs for spinning, scheduling after a sleep, and whether other threads need the
//! CPU of this one.

use std::fs::File;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::getpriority_process;
use rustix::thread::{sched_getcpu, sched_yield, set_current_timer_slack};

/// Time slice of the thread in nanoseconds, the shortest that the kernel grants. A thread that
/// wakes preempts a thread with a longer slice more often, instead of waiting some milliseconds for
/// its end.
const SLICE: u64 = 100_000;

/// Interval at which the load of the machine is read.
const INTERVAL: Duration = Duration::from_millis(10);

/// Time after which a change is confirmed: other threads may have run for a moment only.
const CONFIRMATION: Duration = Duration::from_millis(1);

/// Interval at which a thread moves to another CPU: to follow those that wake it, or to leave them.
pub const MOVE: Duration = Duration::from_millis(10);

/// Time for which the engine thread polls after the last traffic, unless the process rests. Longer
/// than the default gap of 1 ms between iterations of the latency tools, so that a benchmark does
/// not measure the wake-up of its target in every iteration.
const HOT: Duration = Duration::from_millis(20);

/// The time for which the engine thread polls in a process that rests, in nanoseconds; 0 in others.
static REST_NS: AtomicU64 = AtomicU64::new(0);

/// Lets the engine thread of this process sleep this time after the last traffic, longer than 0,
/// until a peer sends. A peer wakes it also while the program polls, with a system call at the
/// first packet: this is for programs that wait most of the time.
pub fn rest_after(time: Duration) {
    REST_NS.store(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Whether this process rests ([`rest_after`]).
pub fn rests() -> bool {
    REST_NS.load(Ordering::Relaxed) != 0
}

/// How long the engine thread polls after the last traffic.
pub fn hot() -> Duration {
    match REST_NS.load(Ordering::Relaxed) {
        0 => HOT,
        time => Duration::from_nanos(time),
    }
}

/// Number of CPUs in a set, as many as any kernel supports. The sets of rustix and of libc end at
/// 1,024, and the kernel of a larger machine refuses to fill them.
const MAX_CPUS: usize = 8192;

/// CPUs that a thread may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuSet([u64; MAX_CPUS / 64]);

impl CpuSet {
    /// The CPUs that the calling thread may use; `None` if the kernel does not say.
    fn usable() -> Option<Self> {
        let mut set = Self([0; MAX_CPUS / 64]);
        let place = set.0.as_mut_ptr().cast();
        // SAFETY: `place` points to a set of the given size, which the kernel does not exceed.
        let result = unsafe { libc::sched_getaffinity(0, size_of::<Self>(), place) };
        (result == 0).then_some(set)
    }

    /// A set of one CPU; `None` beyond the largest number.
    fn of(cpu: usize) -> Option<Self> {
        let mut set = Self([0; MAX_CPUS / 64]);
        *set.0.get_mut(cpu / 64)? |= 1 << (cpu % 64);
        Some(set)
    }

    fn has(&self, cpu: usize) -> bool {
        let word = self.0.get(cpu / 64);
        word.is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    fn remove(&mut self, cpu: usize) {
        if let Some(word) = self.0.get_mut(cpu / 64) {
            *word &= !(1 << (cpu % 64));
        }
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Lets the calling thread use these CPUs only. Returns whether the kernel permits it.
    fn confine(&self) -> bool {
        let place = self.0.as_ptr().cast();
        // SAFETY: `place` points to a set of the given size, which the kernel does not exceed.
        let result = unsafe { libc::sched_setaffinity(0, size_of::<Self>(), place) };
        result == 0
    }
}

/// Chooses whether the calling thread may spin, and its CPU while it does not.
pub struct CpuChooser {
    /// The CPUs that the thread could use at first; `None` if they are unknown.
    usable: Option<CpuSet>,
    /// Number of CPUs of the machine.
    online: usize,
    /// The CPU to which the thread is bound, and since when.
    bound: Option<(usize, Instant)>,
    /// `/proc/loadavg`, with the number of runnable threads.
    load: Option<File>,
    checked: Option<Instant>,
    interval: Duration,
    spare: Option<usize>,
}

impl CpuChooser {
    /// Opens the load of the machine.
    pub fn new() -> Self {
        Self {
            usable: CpuSet::usable(),
            online: online(),
            bound: None,
            load: File::open("/proc/loadavg").ok(),
            checked: None,
            interval: INTERVAL,
            spare: Some(1),
        }
    }

    /// The number of idle CPUs that the caller may use, if it may spin: there is a CPU for each
    /// runnable thread of the machine, the caller included. Otherwise `None`.
    ///
    /// Threads are counted for the whole machine. A caller that is restricted to some of its CPUs
    /// spins if nobody else needs the CPU that it runs on.
    pub fn spare(&mut self, now: Instant) -> Option<usize> {
        if self.checked.is_none_or(|checked| now - checked >= self.interval) {
            self.checked = Some(now);
            // If the load is unknown, a CPU is assumed to be spare.
            let spare = match (self.wanted(), &self.usable) {
                (Some(wanted), Some(usable)) => {
                    idle(usable.count(), self.online, wanted, || !yielded_to_another())
                }
                _ => Some(1),
            };
            let is_change = spare.is_some() != self.spare.is_some();
            self.interval = if is_change { CONFIRMATION } else { INTERVAL };
            self.spare = spare;
        }
        self.spare
    }

    /// Binds the thread to the CPU of the threads that wake it. There a wake-up takes a
    /// microsecond; on another CPU, which must be interrupted, it takes many times as long. A
    /// program that is bound to one CPU, as MPI binds ranks, usually spins on it: the thread leaves
    /// that CPU to the program, as a NIC does, where the machine allows it.
    pub fn follow(&mut self, cpu: usize, now: Instant) {
        let is_early = |&(bound, since): &(usize, Instant)| bound == cpu || now - since < MOVE;
        if self.bound.as_ref().is_some_and(is_early) {
            return;
        }
        let Some(usable) = &self.usable else {
            return;
        };
        let only = CpuSet::of(cpu).filter(|_| usable.has(cpu) || usable.count() == 1);
        if only.is_some_and(|only| only.confine()) {
            self.bound = Some((cpu, now));
        }
    }

    /// Lets the thread use all its CPUs again.
    pub fn unbind(&mut self) {
        if self.bound.take().is_some()
            && let Some(usable) = &self.usable
        {
            usable.confine();
        }
    }

    /// The number of runnable threads.
    fn wanted(&self) -> Option<usize> {
        let mut bytes = [0; 64];
        let len = self.load.as_ref()?.read_at(&mut bytes, 0).ok()?;
        running(std::str::from_utf8(&bytes[..len]).ok()?)
    }
}

/// The number of runnable threads from a line like `0.05 0.37 0.94 3/91 1171`.
fn running(line: &str) -> Option<usize> {
    let (running, _) = line.split_ascii_whitespace().nth(3)?.split_once('/')?;
    running.parse().ok()
}

/// The number of idle CPUs of `usable` ones, of `online` CPUs of the machine, on which `wanted`
/// threads can run. If some of these run elsewhere, `is_alone` says whether the caller shares its
/// CPU with nobody.
fn idle(
    usable: usize,
    online: usize,
    wanted: usize,
    is_alone: impl FnOnce() -> bool,
) -> Option<usize> {
    let certainly = usable.checked_sub(wanted);
    certainly.or_else(|| (wanted <= online && is_alone()).then_some(0))
}

/// The number of CPUs of the machine; zero if it is unknown.
fn online() -> usize {
    // SAFETY: sysconf has no preconditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    online.try_into().unwrap_or(0)
}

/// Yields the CPU. Returns whether another thread needed it and ran.
pub fn yielded_to_another() -> bool {
    let before = involuntary_switches();
    sched_yield();
    involuntary_switches() != before
}

/// How often the calling thread lost its CPU while it could run.
fn involuntary_switches() -> libc::c_long {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable. Without success it stays zero.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all fields are integers, for which zero is a value.
    unsafe { usage.assume_init() }.ru_nivcsw
}

/// Moves the calling thread to another CPU of those that it may use, if there is one.
pub fn leave() {
    let Some(usable) = CpuSet::usable() else {
        return;
    };
    let mut others = usable;
    others.remove(sched_getcpu());
    if others.count() > 0 && others.confine() {
        usable.confine();
    }
}

/// How a thread competes for CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// As other threads. For a thread that spins on a spare CPU, or sleeps long.
    Ordinary,
    /// Before other threads, where that is allowed. For a thread that sleeps often and runs
    /// briefly.
    Preempting,
}

/// Makes the calling thread wake on time, without timer slack.
pub fn wake_on_time() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Sets the scheduling of the calling thread. What the kernel refuses remains unchanged, and
/// affects only speed.
///
/// A preempting thread gets the lowest real-time priority, which root and users with a limit for it
/// (`ulimit -r`) may have; otherwise a short time slice, with which it rarely waits for the end of
/// a longer slice.
pub fn adopt(scheduling: Scheduling) {
    let may_preempt = scheduling == Scheduling::Preempting
        && set_scheduling(&libc::sched_attr {
            sched_policy: libc::SCHED_FIFO as u32,
            sched_priority: 1,
            ..ordinary()
        });
    if !may_preempt {
        set_scheduling(&libc::sched_attr { sched_runtime: SLICE, ..ordinary() });
    }
}

fn ordinary() -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: getpriority_process(None).unwrap_or(0),
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

fn set_scheduling(attributes: &libc::sched_attr) -> bool {
    let (this_thread, no_flags) = (0, 0);
    // SAFETY: the kernel reads `attributes`, which states its size, and changes only the scheduling
    // of this thread.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setattr, this_thread, attributes, no_flags) };
    result == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_number_of_runnable_threads() {
        assert_eq!(running("0.05 0.37 0.94 3/91 1171\n"), Some(3));
        assert_eq!(running("0.05 0.37 0.94 391 1171\n"), None);
        assert_eq!(running(""), None);
        // At least this thread is runnable.
        assert!(CpuChooser::new().wanted().is_none_or(|wanted| wanted >= 1));
    }

    #[test]
    fn counts_idle_cpus_for_restricted_thread() {
        assert_eq!(idle(8, 8, 3, || unreachable!()), Some(5));
        assert_eq!(idle(1, 8, 3, || true), Some(0));
        assert_eq!(idle(1, 8, 3, || false), None);
        // A busy machine: yielding would cost a time slice.
        assert_eq!(idle(1, 8, 9, || unreachable!()), None);
    }

    #[test]
    fn sets_have_more_cpus_than_1024() {
        for cpu in [0, 63, 64, 1023, 1024, 1500, MAX_CPUS - 1] {
            let mut set = CpuSet::of(cpu).unwrap();
            assert!(set.has(cpu) && set.count() == 1, "{cpu}");
            set.remove(cpu);
            assert!(!set.has(cpu) && set.count() == 0, "{cpu}");
        }
        assert_eq!(CpuSet::of(MAX_CPUS), None);
        let mut set = CpuSet::of(0).unwrap();
        set.remove(MAX_CPUS);
        assert!(set.count() == 1 && !set.has(MAX_CPUS));
    }

    #[test]
    fn detects_that_yield_ran_another_thread() {
        // The main thread of the test and the other thread compete for one CPU.
        let cpus = CpuSet::usable().unwrap();
        let first = (0..MAX_CPUS).find(|&cpu| cpus.has(cpu)).unwrap();
        let one = CpuSet::of(first).unwrap();
        let ended = std::sync::atomic::AtomicBool::new(false);
        let ended = &ended;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(one.confine());
                while !yielded_to_another() {}
                ended.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            scope.spawn(|| {
                assert!(one.confine());
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {}
            });
        });
    }

    #[test]
    fn leaves_cpu_for_another_usable_one() {
        std::thread::spawn(|| {
            let all = CpuSet::usable().unwrap();
            let before = sched_getcpu();
            // The scheduler may take the thread back at once.
            let has_moved = (0..1000).any(|_| {
                leave();
                sched_getcpu() != before
            });
            assert!(has_moved || all.count() == 1);
            assert_eq!(CpuSet::usable().unwrap(), all);
            let before = sched_getcpu();
            // Without another CPU the thread stays, and keeps what it may use.
            let one = CpuSet::of(before).unwrap();
            assert!(one.confine());
            leave();
            assert_eq!(CpuSet::usable().unwrap(), one);
            assert_eq!(sched_getcpu(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn follows_to_usable_cpu_until_unbound() {
        std::thread::spawn(|| {
            let mut cpus = CpuChooser::new();
            let all = CpuSet::usable().unwrap();
            let cpu = (0..MAX_CPUS).rfind(|&cpu| all.has(cpu)).unwrap();
            let now = Instant::now();
            cpus.follow(MAX_CPUS, now);
            assert_eq!(CpuSet::usable().unwrap(), all);
            cpus.follow(cpu, now);
            let bound = CpuSet::usable().unwrap();
            assert!(bound.count() == 1 && bound.has(cpu));
            cpus.unbind();
            assert_eq!(CpuSet::usable().unwrap(), all);
        })
        .join()
        .unwrap();
    }

    /// A program that is bound to one CPU spins on it.
    #[test]
    fn leaves_only_cpu_of_bound_program() {
        std::thread::spawn(|| {
            let all = CpuSet::usable().unwrap();
            let mut usable = (0..MAX_CPUS).filter(|&cpu| all.has(cpu));
            let (Some(first), Some(second)) = (usable.next(), usable.next()) else {
                return;
            };
            let [one, other] = [first, second].map(|cpu| CpuSet::of(cpu).unwrap());
            assert!(one.confine());
            let mut cpus = CpuChooser::new();
            cpus.follow(second, Instant::now());
            assert_eq!(CpuSet::usable().unwrap(), other);
            cpus.unbind();
            assert_eq!(CpuSet::usable().unwrap(), one);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn reads_load_at_intervals() {
        let now = Instant::now();
        let mut cpus = CpuChooser {
            usable: None,
            online: 0,
            bound: None,
            load: None,
            checked: Some(now),
            interval: INTERVAL,
            spare: None,
        };
        assert_eq!(cpus.spare(now), None);
        assert_eq!(cpus.spare(now + INTERVAL), Some(1));
        // A change is confirmed soon.
        assert_eq!(cpus.interval, CONFIRMATION);
        assert_eq!(cpus.spare(now + INTERVAL + CONFIRMATION), Some(1));
        assert_eq!(cpus.interval, INTERVAL);
    }
}
