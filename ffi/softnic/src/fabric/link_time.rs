//! Times on links, in nanoseconds.

use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Bytes of a packet on the link in addition to its payload (libcxi.md 2.2: MTU 2112 for 2048).
pub const HEADER: u64 = 64;

/// The time that bytes occupy a link with this many bytes per second.
pub fn time_on_link(bytes: u64, bandwidth: Option<f64>) -> u64 {
    let takes = bandwidth.map_or(0.0, |rate| bytes as f64 / rate * 1e9);
    takes.round() as u64
}

pub fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// The time in nanoseconds, on a clock that all processes share: the monotonic clock of the
/// machine, also in a time namespace.
pub fn now() -> u64 {
    static OFFSET: LazyLock<i64> = LazyLock::new(|| {
        let offsets = fs::read_to_string("/proc/self/timens_offsets");
        offset(&offsets.unwrap_or_default()).unwrap_or(0)
    });
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec * NS_PER_SECOND + now.tv_nsec;
    (now - *OFFSET) as u64
}

/// Nanoseconds of a second.
const NS_PER_SECOND: i64 = 1_000_000_000;

/// The offset of the monotonic clock in the time namespace of a process, in nanoseconds.
fn offset(offsets: &str) -> Option<i64> {
    let clock = offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut fields = clock.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanoseconds) = (fields.next()?.ok()?, fields.next()?.ok()?);
    seconds.checked_mul(NS_PER_SECOND)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_offset_of_time_namespace() {
        let text = "monotonic      100000         5\nboottime            0         0\n";
        assert_eq!(offset(text), Some(100_000_000_000_005));
        assert_eq!(offset("monotonic -2 999999999"), Some(-1_000_000_001));
        for other in ["", "monotonic x 0", "monotonic 1", "boottime 1 0"] {
            assert_eq!(offset(other), None, "{other}");
        }
    }
}
