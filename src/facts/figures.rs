//! The figures of one measurement between two NICs.

use serde::{Deserialize, Serialize};

use crate::expect::Metric;
use crate::percentile::Percentile;

/// Latency as a ratio to the median of good ones, above which it is outside the limits
/// (jobs.md 3.4).
pub const MOST_LATENCY: f64 = 1.3;

/// Bandwidth as a ratio to the median of good ones, below which it is outside the limits
/// (jobs.md 3.4).
pub const LEAST_BANDWIDTH: f64 = 0.93;

/// Longest time in any message, in nanoseconds: a day.
pub const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Largest rate in any message, in bytes or operations per second.
pub const LARGEST_RATE: f64 = 1e15;

/// The figures of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Figures {
    /// The figures of a latency tool, with its definition of a latency.
    Latency {
        /// Number of samples.
        count: u64,
        /// Smallest latency, in nanoseconds.
        min_ns: u64,
        /// 5th percentile, in nanoseconds; null in documents without it.
        #[serde(default)]
        p5_ns: Option<u64>,
        /// Median, in nanoseconds.
        median_ns: u64,
        /// 90th percentile, in nanoseconds; null with fewer than 30 samples.
        #[serde(default)]
        p90_ns: Option<u64>,
        /// 99th percentile, in nanoseconds; null with fewer than 1000 samples.
        p99_ns: Option<u64>,
        /// Largest latency, in nanoseconds.
        max_ns: u64,
    },
    /// The figures of a bandwidth tool, with its definition of a bandwidth.
    Bandwidth {
        /// Bytes per second.
        bytes_per_second: f64,
        /// Operations per second.
        operations_per_second: f64,
    },
}

impl Figures {
    /// The figure that is compared: the median in nanoseconds, or bytes per second.
    pub fn value(&self) -> f64 {
        match *self {
            Self::Latency { median_ns, .. } => median_ns as f64,
            Self::Bandwidth { bytes_per_second, .. } => bytes_per_second,
        }
    }

    /// Whether a NIC can have these figures. Another process, or a file, may have others.
    pub fn are_possible(&self) -> bool {
        match *self {
            Self::Latency { count, min_ns, p5_ns, median_ns, p90_ns, p99_ns, max_ns } => {
                let known = [Some(min_ns), p5_ns, Some(median_ns), p90_ns, p99_ns, Some(max_ns)];
                count > 0 && known.iter().flatten().is_sorted() && max_ns <= LONGEST_NS
            }
            Self::Bandwidth { bytes_per_second, operations_per_second } => {
                let rates = [bytes_per_second, operations_per_second];
                rates.iter().all(|rate| (0.0..=LARGEST_RATE).contains(rate))
            }
        }
    }

    /// The better of two bandwidths, which are lower bounds; of latencies the later figures, which
    /// include the earlier ones.
    pub fn or_better(self, later: Self) -> Self {
        match (self, later) {
            (
                Self::Bandwidth { bytes_per_second: one, .. },
                Self::Bandwidth { bytes_per_second: other, .. },
            ) if one > other => self,
            _ => later,
        }
    }

    /// Whether the figures of a pair have this metric, so that --expect can have bounds on it.
    pub fn have(metric: Metric) -> bool {
        match metric {
            Metric::Mean | Metric::Deviation => false,
            Metric::Percentile(percentile) => {
                [Percentile::MEDIAN, Percentile::P90, Percentile::P99].contains(&percentile)
            }
            Metric::Min | Metric::Max | Metric::Bandwidth | Metric::PacketRate => true,
        }
    }

    /// A metric; `None` if the figures of a pair lack it.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        match (*self, metric) {
            (Self::Latency { min_ns, p5_ns, median_ns, p90_ns, p99_ns, max_ns, .. }, metric) => {
                let ns = match metric {
                    Metric::Min => Some(min_ns),
                    Metric::Percentile(Percentile::P5) => p5_ns,
                    Metric::Percentile(Percentile::MEDIAN) => Some(median_ns),
                    Metric::Percentile(Percentile::P90) => p90_ns,
                    Metric::Percentile(Percentile::P99) => p99_ns,
                    Metric::Max => Some(max_ns),
                    _ => None,
                };
                ns.map(|ns| ns as f64)
            }
            (Self::Bandwidth { bytes_per_second, .. }, Metric::Bandwidth) => Some(bytes_per_second),
            (Self::Bandwidth { operations_per_second, .. }, Metric::PacketRate) => {
                Some(operations_per_second)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_metrics_of_its_figures() {
        let latency = Figures::Latency {
            count: 1000,
            min_ns: 1,
            p5_ns: Some(1),
            median_ns: 2,
            p90_ns: Some(3),
            p99_ns: Some(4),
            max_ns: 5,
        };
        let bandwidth = Figures::Bandwidth { bytes_per_second: 5.0, operations_per_second: 6.0 };
        for (name, figures, expected) in [
            ("min", latency, Some(1.0)),
            ("p50", latency, Some(2.0)),
            ("p90", latency, Some(3.0)),
            ("p99", latency, Some(4.0)),
            ("max", latency, Some(5.0)),
            ("bw", bandwidth, Some(5.0)),
            ("rate", bandwidth, Some(6.0)),
            ("mean", latency, None),
            ("stddev", latency, None),
            ("p99.9", latency, None),
        ] {
            let metric: Metric = name.parse().unwrap();
            assert_eq!(figures.metric(metric), expected, "{name}");
            assert_eq!(Figures::have(metric), expected.is_some(), "{name}");
        }
    }
}
