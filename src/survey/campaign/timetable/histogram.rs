//! Latencies in bins of 1 %, so that the samples of many processes can be added up without being
//! sent (load.md 3.6).
//!
//! Only the coordinator adds them up: it leaves out the
//! victims whose processes waited for a CPU, and the bins of 10,000 nodes are 2 MB/s there
//! (`cargo bench --bench load_scale`).

use std::collections::BTreeMap;

use facts::robust::quantile_bin;
use serde::{Deserialize, Serialize};

/// Ratio of the upper edge of a bin to its lower edge.
const RATIO: f64 = 1.01;

/// The smallest and the largest latency with a bin of its own, in nanoseconds. Others count in the
/// first and the last bin.
const SMALLEST_NS: f64 = 100.0;
const LARGEST_NS: f64 = 1e10;

/// Latencies in bins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Number of samples by number of bin.
    bins: BTreeMap<u16, u64>,
}

impl Histogram {
    /// Adds samples of this latency in nanoseconds.
    pub fn add(&mut self, ns: u64, count: u64) {
        let bin_count = self.bins.entry(bin(ns as f64)).or_default();
        *bin_count = bin_count.saturating_add(count);
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bin, count) in &other.bins {
            let bin_count = self.bins.entry(*bin).or_default();
            *bin_count = bin_count.saturating_add(*count);
        }
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.bins.values().fold(0, |sum, bin| sum.saturating_add(*bin))
    }

    /// Returns the latency that this part of the samples does not exceed, in nanoseconds: the
    /// middle of its bin. `None` without samples.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let place = quantile_bin(self.bins.values().copied(), part)?;
        let bin = self.bins.keys().nth(place)?;
        Some(SMALLEST_NS * RATIO.powf(f64::from(*bin) + 0.5))
    }

    /// Returns the lower edges of the bins with samples, in nanoseconds, and their numbers of
    /// samples.
    pub fn bins(&self) -> Vec<(f64, u64)> {
        self.bins.iter().map(|(bin, value)| (edge(*bin), *value)).collect()
    }

    /// Returns the least time in nanoseconds that the samples took one after the other, without the
    /// longest one: an operation may be answered after the slot.
    pub fn time_of_others_ns(&self) -> f64 {
        let all: f64 = self.bins().into_iter().map(|(ns, count)| ns * count as f64).sum();
        let longest = self.bins.keys().last().map(|bin| edge(*bin));
        all - longest.unwrap_or(0.0)
    }

    /// Returns whether all bins exist: bytes from another process may name others.
    pub fn is_valid(&self) -> bool {
        self.bins.keys().all(|number| *number <= bin(LARGEST_NS))
    }
}

/// Returns the lower edge of a bin, in nanoseconds.
fn edge(bin: u16) -> f64 {
    SMALLEST_NS * RATIO.powi(bin.into())
}

/// Returns the number of the bin of a latency in nanoseconds.
fn bin(ns: f64) -> u16 {
    let ns = ns.clamp(SMALLEST_NS, LARGEST_NS);
    ((ns / SMALLEST_NS).ln() / RATIO.ln()) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=1000).for_each(|us| histogram.add(us * 1000, 1));
        assert_eq!(histogram.count(), 1000);
        for (part, expected) in [(0.5, 500e3), (0.99, 990e3), (0.001, 1e3), (1.0, 1e6)] {
            let found = histogram.quantile(part).unwrap();
            assert!((found / expected - 1.0).abs() < 0.011, "{part}: {found}");
        }
    }

    #[test]
    fn samples_of_two_histograms_add_up() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.add(2000, 3);
        other.add(2000, 4);
        other.add(9_000_000, 1);
        one.merge(&other);
        assert_eq!(one.count(), 8);
        assert_eq!(one.bins().len(), 2);
    }

    #[test]
    fn samples_take_time_one_after_the_other() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.time_of_others_ns(), 0.0);
        histogram.add(1_000_000_000, 1);
        assert_eq!(histogram.time_of_others_ns(), 0.0);
        histogram.add(1000, 2000);
        let us = histogram.time_of_others_ns() / 1e3;
        assert!((1980.0..=2000.0).contains(&us), "{us}");
    }

    #[test]
    fn extreme_latencies_are_in_the_outermost_bins() {
        let mut histogram = Histogram::default();
        histogram.add(0, 1);
        histogram.add(u64::MAX, 1);
        assert!(histogram.is_valid());
        assert_eq!(histogram.bins()[0].0, SMALLEST_NS);
        let foreign = Histogram { bins: [(60_000, 1)].into() };
        assert!(!foreign.is_valid());
    }
}
