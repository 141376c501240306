//! Whether a thread or a process had its CPUs to itself, as the scheduler of Linux counts it.

use std::fs;
use std::time::Duration;

/// Times of a thread since it started, or of all threads of a process, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuShare {
    /// On a CPU.
    ran: u64,
    /// Ready to run, but waiting for a CPU.
    waited: u64,
}

impl CpuShare {
    /// Returns the times of the calling thread. `None` if the kernel does not count them.
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// Returns the sums over all threads of this process. `None` if the kernel does not count them.
    pub fn of_this_process() -> Option<Self> {
        let threads = fs::read_dir("/proc/self/task").ok()?;
        // A thread may end meanwhile.
        let texts = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("schedstat")).ok());
        texts
            .filter_map(|text| Self::parse(&text))
            .reduce(|sum, of| Self {
                ran: sum.ran + of.ran,
                waited: sum.waited + of.waited,
            })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        Some(Self {
            ran: numbers.next()?.ok()?,
            waited: numbers.next()?.ok()?,
        })
    }

    /// Returns how long the threads have waited for a CPU since `earlier`, together.
    pub fn waited_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.waited.saturating_sub(earlier.waited))
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
        assert_eq!(before.waited_percent_since(before), None);
        assert_eq!(before.waited_percent_since(after), None);
        assert_eq!(CpuShare::parse("1000\n"), None);
        assert_eq!(CpuShare::parse(""), None);
    }

    #[test]
    fn reads_times_of_this_thread() {
        let Some(before) = CpuShare::of_this_thread() else {
            return;
        };
        let mut sum = 0_u64;
        let spent = loop {
            sum = std::hint::black_box(sum + 1);
            let now = CpuShare::of_this_thread().unwrap();
            if let Some(percent) = now.waited_percent_since(before) {
                break percent;
            }
        };
        assert!((0.0..=100.0).contains(&spent), "{spent}");
    }
}
