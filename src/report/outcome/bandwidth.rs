//! The bandwidth of a size.

use serde::{Deserialize, Serialize};

use measure::{Rates, SideResult, SideView};

/// Bandwidth of one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct BandwidthResult {
    /// Bytes per second, both directions added.
    pub bandwidth_bytes_per_s: f64,
    /// Packets per second, both directions added.
    pub packet_rate_packets_per_s: f64,
    /// Time that this side took, in microseconds.
    pub elapsed_us: u64,
    /// Number of operations of the peer that count.
    pub peer_count: u64,
    /// Time that the peer took, in microseconds.
    pub peer_elapsed_us: u64,
    /// The results of each pair of queues; null without --pairs.
    #[serde(default)]
    pub pairs: Option<Vec<QueuePairResult>>,
    /// This side's own view; null without --both-ends.
    #[serde(default)]
    pub own_view: Option<SideView>,
    /// The peer's own view; null without --both-ends.
    #[serde(default)]
    pub peer_view: Option<SideView>,
}

/// The result of one pair of queues.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "PairResult"))]
pub struct QueuePairResult {
    /// Number of the pair, from 0.
    pub pair: u16,
    /// Bytes per second, both directions added.
    pub bandwidth_bytes_per_s: f64,
    /// Number of operations that this side issued.
    pub count: u64,
    /// Time that this side took, in microseconds.
    pub elapsed_us: u64,
    /// Number of operations that the peer issued.
    pub peer_count: u64,
    /// Time that the peer took, in microseconds.
    pub peer_elapsed_us: u64,
}

impl QueuePairResult {
    /// Returns the results of pairs from the counts of both sides, this side first, and their
    /// rates.
    pub fn of(pairs: &[([SideResult; 2], Rates)]) -> Vec<Self> {
        let result = |(pair, (sides, rates)): (usize, &([SideResult; 2], Rates))| Self {
            pair: pair as u16,
            bandwidth_bytes_per_s: rates.megabytes * 1e6,
            count: sides[0].count,
            elapsed_us: sides[0].elapsed_us,
            peer_count: sides[1].count,
            peer_elapsed_us: sides[1].elapsed_us,
        };
        pairs.iter().enumerate().map(result).collect()
    }
}

impl BandwidthResult {
    /// Returns the bandwidth of a size from the counts of both sides, this side first.
    pub fn of([own, peer]: [SideResult; 2], rates: Rates) -> Self {
        Self {
            bandwidth_bytes_per_s: rates.megabytes * 1e6,
            packet_rate_packets_per_s: rates.megapackets * 1e6,
            elapsed_us: own.elapsed_us,
            peer_count: peer.count,
            peer_elapsed_us: peer.elapsed_us,
            pairs: None,
            own_view: None,
            peer_view: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Extent, SizeResult};
    use facts::expect::Metric;

    #[test]
    fn returns_bandwidth_metrics() {
        let side = SideResult { elapsed_us: 1_000_000, count: 10 };
        let rates = Rates { megabytes: 23.5, megapackets: 11.0 };
        let result = SizeResult::from_lists(8, [side; 2], rates, Extent::Complete);
        assert_eq!(result.figure(Metric::Bandwidth), Some(23.5e6));
        assert_eq!(result.figure(Metric::PacketRate), Some(11e6));
        assert_eq!(result.figure(Metric::Mean), None);
    }
}
