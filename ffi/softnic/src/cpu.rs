//! CPUs: whether there is one to spare for spinning, and how soon a sleeper gets one.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::process::getpriority_process;
use rustix::thread::{sched_getaffinity, set_current_timer_slack};

/// Time slice of the thread in nanoseconds, the least that the kernel grants. A thread that wakes preempts one
/// with a longer slice more readily, and does not wait some milliseconds for the end of it.
const SLICE: u64 = 100_000;

/// How often the machine is asked what else runs.
const LOOK: Duration = Duration::from_millis(10);

/// Knows whether a thread that spins takes a CPU from somebody.
pub struct Cpus {
    /// `/proc/loadavg`, where the kernel counts the threads that run or want to.
    load: Option<File>,
    looked: Option<Instant>,
    to_spare: bool,
}

impl Cpus {
    pub fn new() -> Self {
        Self {
            load: File::open("/proc/loadavg").ok(),
            looked: None,
            to_spare: true,
        }
    }

    /// Whether all threads of the machine that want a CPU now have one, the caller among them.
    ///
    /// Threads are counted for the whole machine, CPUs as far as this thread may use them: a process that is
    /// kept to few CPUs of a busy machine rather sleeps than spins.
    pub fn one_to_spare(&mut self, now: Instant) -> bool {
        if self.looked.is_none_or(|looked| now - looked >= LOOK) {
            self.looked = Some(now);
            // Where the kernel does not tell, nobody is known to be in need.
            self.to_spare = match (self.wanted(), usable()) {
                (Some(wanted), Some(usable)) => wanted <= usable,
                _ => true,
            };
        }
        self.to_spare
    }

    fn wanted(&self) -> Option<usize> {
        let mut bytes = [0; 64];
        let len = self.load.as_ref()?.read_at(&mut bytes, 0).ok()?;
        running(std::str::from_utf8(&bytes[..len]).ok()?)
    }
}

/// Threads that run or want to, from a line like `0.05 0.37 0.94 3/91 1171`.
fn running(line: &str) -> Option<usize> {
    let (running, _) = line.split_ascii_whitespace().nth(3)?.split_once('/')?;
    running.parse().ok()
}

fn usable() -> Option<usize> {
    sched_getaffinity(None)
        .ok()
        .map(|cpus| cpus.count() as usize)
}

/// How a thread competes for CPUs with others that want them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Like anybody. For one that spins where a CPU is to spare, or sleeps for long.
    Equal,
    /// Before them all, where that is allowed. For one that sleeps often and runs for moments.
    Preempting,
}

/// Has the calling thread sleep no longer than it asks for.
pub fn wake_on_time() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Goes over to `manner`. Only ever a matter of speed: what the kernel refuses stays as it is.
///
/// A thread that preempts asks for the lowest real-time priority, which root and users with a limit for it (`ulimit -r`)
/// may have; else for a short slice, which spares it most waits for the end of somebody's long one. True if it has
/// real-time priority then.
pub fn adopt(manner: Manner) -> bool {
    let may_preempt = manner == Manner::Preempting
        && set_scheduling(&libc::sched_attr {
            sched_policy: libc::SCHED_FIFO as u32,
            sched_priority: 1,
            ..ordinary()
        });
    if !may_preempt {
        set_scheduling(&libc::sched_attr {
            sched_runtime: SLICE,
            ..ordinary()
        });
    }
    may_preempt
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
    // SAFETY: the kernel reads `attributes`, whose size it is told, and changes this thread's scheduling only.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setattr, this_thread, attributes, no_flags) };
    result == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_threads() {
        assert_eq!(running("0.05 0.37 0.94 3/91 1171\n"), Some(3));
        assert_eq!(running("0.05 0.37 0.94 391 1171\n"), None);
        assert_eq!(running(""), None);
        // At least this thread runs.
        assert!(Cpus::new().wanted().is_none_or(|wanted| wanted >= 1));
    }

    #[test]
    fn a_look_is_good_for_a_while() {
        let now = Instant::now();
        let mut cpus = Cpus {
            load: None,
            looked: Some(now),
            to_spare: false,
        };
        assert!(!cpus.one_to_spare(now));
        assert!(cpus.one_to_spare(now + LOOK));
    }
}
