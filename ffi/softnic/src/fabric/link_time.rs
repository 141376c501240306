//! Times on links, in nanoseconds.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Bytes of a packet on the link in addition to its payload (libcxi.md 2.2: MTU 2112 for 2048).
pub const HEADER: u64 = 64;

/// Returns the time that bytes occupy a link with this many bytes per second.
pub fn time_on_link(bytes: u64, bandwidth: Option<f64>) -> u64 {
    let takes = bandwidth.map_or(0.0, |rate| bytes as f64 / rate * 1e9);
    takes.round() as u64
}

pub fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Returns the time in nanoseconds, on a clock that all processes share.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
