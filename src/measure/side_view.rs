//! What one side has seen of a size, for `--both-ends`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{Clock, MonotonicRaw};

/// One side's own view of a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideView {
    /// Operations that this side has issued.
    pub issued: u64,
    /// Operations that have arrived at this side, if it is a target.
    pub arrived: Option<u64>,
    /// Time from the first barrier to the end of the side's part, in microseconds.
    pub elapsed_us: u64,
    /// CPU time of the side's first measuring thread in this time, in microseconds.
    pub cpu_us: u64,
}

/// Measures the times of a side.
#[derive(Clone, Copy)]
pub struct ViewTimer {
    start: u64,
    cpu: Duration,
}

impl ViewTimer {
    /// Starts to measure the calling thread.
    pub fn start() -> Self {
        Self { start: MonotonicRaw.now(), cpu: thread_time() }
    }

    /// Returns a view with the times since the start, in the same thread.
    pub fn view(&self) -> SideView {
        SideView {
            elapsed_us: (MonotonicRaw.now() - self.start + 500) / 1000,
            cpu_us: (thread_time() - self.cpu).as_micros() as u64,
            ..SideView::default()
        }
    }
}

/// Returns the CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
