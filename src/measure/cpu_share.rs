//! Whether threads had their CPUs to themselves, as the scheduler of Linux counts it.

use std::time::Duration;
use std::{fs, io};

/// Times of one or more threads since they started, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuShare {
    ran: u64,
    /// Ready to run, but waiting for a CPU.
    waited: u64,
    /// Number of times that they got a CPU.
    turns: u64,
}

impl CpuShare {
    /// Returns the times of the calling thread. `None` if the kernel does not count them.
    pub fn from_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// Returns the times of the main thread of a process. `None` if there is no such process, or if
    /// the kernel does not count them.
    pub fn from_process(id: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{id}/schedstat")).ok()?)
    }

    /// Returns the sums over the threads of this process with this name. `None` if there is none,
    /// or if the kernel does not count the times.
    pub fn from_threads(name: &str) -> Option<Self> {
        let threads = fs::read_dir("/proc/self/task").ok()?;
        // A thread may end meanwhile.
        let share = |thread: io::Result<fs::DirEntry>| {
            let files = thread.ok()?.path();
            let is_named = fs::read_to_string(files.join("comm")).ok()?.trim_end() == name;
            let times = fs::read_to_string(files.join("schedstat")).ok()?;
            Self::parse(&times).filter(|_| is_named)
        };
        threads.filter_map(share).reduce(|sum, share| Self {
            ran: sum.ran + share.ran,
            waited: sum.waited + share.waited,
            turns: sum.turns + share.turns,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut number = || numbers.next()?.ok();
        Some(Self { ran: number()?, waited: number()?, turns: number().unwrap_or_default() })
    }

    /// Returns how long the threads have run, together.
    pub fn ran(self) -> Duration {
        Duration::from_nanos(self.ran)
    }

    /// Returns how long the threads have waited for a CPU, together.
    pub fn waited(self) -> Duration {
        Duration::from_nanos(self.waited)
    }

    /// Returns how long the threads have waited for a CPU since `earlier`, together.
    pub fn waited_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.waited.saturating_sub(earlier.waited))
    }

    /// Returns how often the threads have got a CPU back since `earlier`, together.
    pub fn turns_since(self, earlier: Self) -> u64 {
        self.turns.saturating_sub(earlier.turns)
    }

    /// Returns the part of its time since `earlier`, in percent, in which the thread was ready to
    /// run but waited for a CPU. `None` if it has not run since.
    pub fn waited_percent_since(self, earlier: Self) -> Option<f64> {
        let ran = self.ran.checked_sub(earlier.ran)?;
        let waited = self.waited.checked_sub(earlier.waited)?;
        (ran > 0).then(|| waited as f64 / (ran + waited) as f64 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_part_of_time_without_cpu() {
        let before = CpuShare::parse("1000 500 3\n").unwrap();
        let after = CpuShare::parse("4000 1500 9\n").unwrap();
        assert_eq!(after.waited_percent_since(before), Some(25.0));
        assert_eq!(after.turns_since(before), 6);
        assert_eq!(before.waited_percent_since(before), None);
        assert_eq!(before.waited_percent_since(after), None);
        assert_eq!(CpuShare::parse("1000\n"), None);
        assert_eq!(CpuShare::parse(""), None);
    }

    #[test]
    fn sums_times_of_threads_by_name() {
        if CpuShare::from_this_thread().is_none() {
            return;
        }
        let busy = || {
            while CpuShare::from_this_thread().unwrap().ran < 2_000_000 {}
            let sum = CpuShare::from_threads("two alike").unwrap();
            assert!(sum.ran >= 2_000_000 && sum.waited_since(sum).is_zero());
        };
        let named = || std::thread::Builder::new().name("two alike".into());
        let threads = [named().spawn(busy).unwrap(), named().spawn(busy).unwrap()];
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(CpuShare::from_threads("none has this name"), None);
    }

    #[test]
    fn reads_times_of_this_thread() {
        let Some(before) = CpuShare::from_this_thread() else {
            return;
        };
        let mut sum = 0_u64;
        let spent = loop {
            sum = std::hint::black_box(sum + 1);
            let now = CpuShare::from_this_thread().unwrap();
            if let Some(percent) = now.waited_percent_since(before) {
                break percent;
            }
        };
        assert!((0.0..=100.0).contains(&spent), "{spent}");
    }
}
