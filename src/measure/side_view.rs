//! What one side has seen of a size, for `--both-ends`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Clock, MonotonicRaw};

/// One side's own view of a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "testing", schemars(rename = "ViewResult"))]
pub struct SideView {
    /// Number of operations that the side issued.
    pub issued: u64,
    /// Number of operations that arrived at the side, as its NIC (send-bw: its software) counted
    /// them; null on a side that is no target.
    pub arrived: Option<u64>,
    /// Time from the first barrier to the end of the side's part, in microseconds. A side without a
    /// part of its own waits for the peer's.
    pub elapsed_us: u64,
    /// CPU time of the first measuring thread in this time, in microseconds.
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
