//! Times on links, in nanoseconds.

use std::time::Duration;

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
