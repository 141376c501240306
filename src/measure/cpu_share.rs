//! Whether a thread had its CPU to itself, as the scheduler of Linux counts it.

use std::fs;

/// Times of the calling thread since it started, in nanoseconds.
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

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        Some(Self {
            ran: numbers.next()?.ok()?,
            waited: numbers.next()?.ok()?,
        })
    }

    /// Returns the part of its time since `earlier`, in percent, in which the thread was ready to run
    /// but waited for a CPU. `None` if it has not run since.
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
