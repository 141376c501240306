//! The result of one pair of NICs.

use serde::{Deserialize, Serialize};

use super::ids::{NicId, Role, TestId};
use super::untested::Untested;
use facts::expect::Metric;
use facts::percentile::Percentile;

/// Two NICs, as indices in the roster. The initiator issues the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Pair {
    /// The NIC that issues operations.
    pub initiator: NicId,
    /// The NIC that the operations address; the initiator itself in loopback.
    pub target: NicId,
}

impl Pair {
    /// Returns the pair of a NIC with itself.
    pub fn loopback(nic: NicId) -> Self {
        Self {
            initiator: nic,
            target: nic,
        }
    }

    /// Returns the pair in which `nic` has this role.
    pub fn with_role(role: Role, nic: NicId, partner: NicId) -> Self {
        let (initiator, target) = match role {
            Role::Initiator => (nic, partner),
            Role::Target => (partner, nic),
        };
        Self { initiator, target }
    }

    /// Returns the initiator and the target.
    pub fn nics(self) -> [NicId; 2] {
        [self.initiator, self.target]
    }

    /// Returns both NICs with their roles, the initiator first.
    pub fn roles(self) -> [(Role, NicId); 2] {
        [
            (Role::Initiator, self.initiator),
            (Role::Target, self.target),
        ]
    }

    /// Returns the pair in the other direction.
    pub fn reversed(self) -> Self {
        Self {
            initiator: self.target,
            target: self.initiator,
        }
    }

    /// Returns whether a NIC is in the pair.
    pub fn has(self, nic: NicId) -> bool {
        self.nics().contains(&nic)
    }

    /// Returns whether the pair is a NIC with itself.
    pub fn is_loopback(self) -> bool {
        self.initiator == self.target
    }
}

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
        /// Median, in nanoseconds.
        median_ns: u64,
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
    /// Returns the figure that is compared: the median in nanoseconds, or bytes per second.
    pub fn value(&self) -> f64 {
        match *self {
            Self::Latency { median_ns, .. } => median_ns as f64,
            Self::Bandwidth {
                bytes_per_second, ..
            } => bytes_per_second,
        }
    }

    /// Returns whether the figures of a pair have this metric, so that --expect can have bounds on
    /// it.
    pub fn have(metric: Metric) -> bool {
        match metric {
            Metric::Mean | Metric::Deviation => false,
            Metric::Percentile(percentile) => {
                [Percentile::MEDIAN, Percentile::P99].contains(&percentile)
            }
            Metric::Min | Metric::Max | Metric::Bandwidth | Metric::PacketRate => true,
        }
    }

    /// Returns a metric; `None` for those that the figures of a pair lack.
    pub fn metric(&self, metric: Metric) -> Option<f64> {
        match (*self, metric) {
            (Self::Latency { min_ns, .. }, Metric::Min) => Some(min_ns as f64),
            (Self::Latency { max_ns, .. }, Metric::Max) => Some(max_ns as f64),
            (Self::Latency { median_ns, .. }, Metric::Percentile(Percentile::MEDIAN)) => {
                Some(median_ns as f64)
            }
            (Self::Latency { p99_ns, .. }, Metric::Percentile(Percentile::P99)) => {
                p99_ns.map(|ns| ns as f64)
            }
            (
                Self::Bandwidth {
                    bytes_per_second, ..
                },
                Metric::Bandwidth,
            ) => Some(bytes_per_second),
            (
                Self::Bandwidth {
                    operations_per_second,
                    ..
                },
                Metric::PacketRate,
            ) => Some(operations_per_second),
            _ => None,
        }
    }
}

/// The answer of a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was measured.
    Measured(Figures),
    /// An operation failed, or was not answered: a result about this pair.
    Failed(String),
    /// It was not measured. The reason says nothing about the pair.
    Untested(#[cfg_attr(feature = "testing", schemars(with = "String"))] Untested),
}

/// Why a pair was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The pairs that the user has asked for.
    Sweep,
    /// A retest of a suspect pair; the number of the retest, from 1.
    Retest(u8),
    /// A NIC of a suspect pair with another partner, or the suspect pair in the other direction.
    Swap,
}

/// A change of a counter of a NIC during a pair, which may explain its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct CounterEvidence {
    /// The NIC, as an index in the roster.
    pub nic: NicId,
    /// Name of the counter.
    pub counter: String,
    /// By how much it has changed.
    pub change: u64,
}

/// The counter of packets that a NIC sent again (health.md 1.5).
pub const RETRIES: &str = "pct_retry_srb_requests";

/// The result of one pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct PairResult {
    /// Index of the test: a tool with a size.
    pub test: TestId,
    /// The NICs.
    pub pair: Pair,
    /// Why it was measured.
    pub stage: Stage,
    /// Number of the round, from 0.
    pub round: u32,
    /// Pairs that were measured at the same time, this one included.
    pub active: u32,
    /// The answer of the pair.
    pub answer: Answer,
    /// Counters of the initiator whose changes may explain the answer. In the sweep, only the
    /// counter of packets sent again.
    #[serde(rename = "witnesses")]
    pub counters: Vec<CounterEvidence>,
}

impl PairResult {
    /// Returns how many packets the initiator sent again.
    pub fn retries(&self) -> u64 {
        let of_retries = |of: &&CounterEvidence| of.counter == RETRIES;
        self.counters
            .iter()
            .find(of_retries)
            .map_or(0, |of| of.change)
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
            median_ns: 2,
            p99_ns: Some(3),
            max_ns: 4,
        };
        let bandwidth = Figures::Bandwidth {
            bytes_per_second: 5.0,
            operations_per_second: 6.0,
        };
        for (name, figures, expected) in [
            ("min", latency, Some(1.0)),
            ("p50", latency, Some(2.0)),
            ("p99", latency, Some(3.0)),
            ("max", latency, Some(4.0)),
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
