//! Bandwidth and packet rate of one size, and what one side has seen of it, for `--both-ends`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Clock, MonotonicRaw};

/// Maximum payload of a packet in bytes: the Portals MTU.
const MTU: u64 = 2048;

/// The result of one side of a bandwidth run for one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideResult {
    /// Elapsed time in microseconds.
    pub elapsed_us: u64,
    /// Number of operations that this side issued.
    pub count: u64,
}

impl SideResult {
    /// The result of all pairs of a side together: the slowest one determines the time.
    pub fn from_pairs(pairs: &[Self]) -> Self {
        let elapsed_us = pairs.iter().map(|pair| pair.elapsed_us).max();
        Self {
            elapsed_us: elapsed_us.unwrap_or(0),
            count: pairs.iter().fold(0, |sum, pair| sum.saturating_add(pair.count)),
        }
    }
}

/// The rates of a bandwidth run for one size, both sides together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Megabytes (10^6 bytes) per second.
    pub megabytes: f64,
    /// Millions of packets per second.
    pub megapackets: f64,
}

impl Rates {
    /// The sum of both sides' rates with operations of `size` bytes. The rates of one NIC that
    /// sends to itself in both directions are doubled, because it moves all data twice. The legacy
    /// tools do the same (defect T19 of tools.md).
    pub fn of(size: u64, sides: [SideResult; 2], doubled: bool) -> Self {
        let operations_per_us: f64 = sides
            .iter()
            .filter(|side| side.elapsed_us > 0)
            .map(|side| side.count as f64 / side.elapsed_us as f64)
            // Not `sum`, which is -0.0 without sides.
            .fold(0.0, |sum, rate| sum + rate);
        let factor = if doubled { 2.0 } else { 1.0 };
        Self::from_operations(size, factor * operations_per_us)
    }

    /// The rates of this many operations of `size` bytes in a microsecond.
    pub fn from_operations(size: u64, per_us: f64) -> Self {
        Self { megabytes: per_us * size as f64, megapackets: per_us * size.div_ceil(MTU) as f64 }
    }
}

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

    /// A view with the times since the start, in the same thread.
    pub fn view(&self) -> SideView {
        SideView {
            elapsed_us: (MonotonicRaw.now() - self.start + 500) / 1000,
            cpu_us: (thread_time() - self.cpu).as_micros() as u64,
            ..SideView::default()
        }
    }
}

/// The CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(elapsed_us: u64, count: u64) -> SideResult {
        SideResult { elapsed_us, count }
    }

    #[test]
    fn rates_without_operations_are_positive_zero() {
        let rates = Rates::of(8, [side(0, 0); 2], false);
        assert!(rates.megabytes.is_sign_positive() && rates.megapackets.is_sign_positive());
    }

    #[test]
    fn adds_both_sides() {
        let rates = Rates::of(4096, [side(1_000_000, 1_000_000), side(2_000_000, 500_000)], false);
        assert_eq!(rates.megabytes, 1.25 * 4096.0);
        assert_eq!(rates.megapackets, 2.5);
    }

    #[test]
    fn counts_packets_of_2048_bytes() {
        for (size, packets) in [(1, 1.0), (2048, 1.0), (2049, 2.0), (4294967295, 2097152.0)] {
            let rates = Rates::of(size, [side(1, 1), side(0, 0)], false);
            assert_eq!(rates.megapackets, packets, "{size}");
        }
    }

    #[test]
    fn is_zero_without_elapsed_time() {
        let rates = Rates::of(8, [side(0, 5), side(0, 0)], true);
        assert_eq!((rates.megabytes, rates.megapackets), (0.0, 0.0));
    }

    #[test]
    fn doubles_bidirectional_rate_of_one_nic() {
        let sides = [side(100, 10), side(100, 10)];
        assert_eq!(Rates::of(8, sides, true).megabytes, 2.0 * Rates::of(8, sides, false).megabytes);
    }
}
