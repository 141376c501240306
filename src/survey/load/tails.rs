//! High percentiles of latencies, quiet and under load, with an interval of their ratio.

use fastrand::Rng;

use super::findings::Compared;
use campaign::timetable::histogram::Histogram;
use facts::robust::{quantile, quantile_bin, sorted};

/// Most blocks of samples: the memory does not depend on the number of victims.
pub const MOST_BLOCKS: usize = 64;

/// Fewest blocks of which the ratio has an interval.
const LEAST_BLOCKS: usize = 8;

/// Number of bootstrap samples.
const RESAMPLES: usize = 200;

/// A percentile and the fewest samples that it needs, quiet and under load.
pub const P99: (f64, u64) = (0.99, 1_000);
/// A percentile and the fewest samples that it needs, quiet and under load.
pub const P999: (f64, u64) = (0.999, 10_000);

/// Samples of some victims, in one repetition or several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleBlock {
    /// Without load.
    pub quiet: Histogram,
    /// Under load.
    pub loaded: Histogram,
}

impl SampleBlock {
    /// Adds the samples of another block.
    pub fn merge(&mut self, other: &Self) {
        self.quiet.merge(&other.quiet);
        self.loaded.merge(&other.loaded);
    }
}

/// Returns the sum of these blocks.
pub fn merged(blocks: &[SampleBlock]) -> SampleBlock {
    let mut all = SampleBlock::default();
    blocks.iter().for_each(|block| all.merge(block));
    all
}

/// Returns a percentile of all samples; `None` with too few of them. The 95 % interval of the ratio
/// is from 200 samples of the blocks with replacement.
pub fn compare(blocks: &[SampleBlock], (part, least): (f64, u64), seed: u64) -> Option<Compared> {
    let all = merged(blocks);
    if all.quiet.count() < least || all.loaded.count() < least {
        return None;
    }
    let (quiet, loaded) = (all.quiet.quantile(part)?, all.loaded.quantile(part)?);
    let interval = (blocks.len() >= LEAST_BLOCKS).then(|| {
        let quiet_table = BlockTable::new(blocks.iter().map(|block| &block.quiet), &all.quiet);
        let loaded_table = BlockTable::new(blocks.iter().map(|block| &block.loaded), &all.loaded);
        let mut rng = Rng::with_seed(seed);
        let ratios = (0..RESAMPLES).filter_map(|_| {
            let mut weights = vec![0; blocks.len()];
            blocks.iter().for_each(|_| weights[rng.usize(..blocks.len())] += 1);
            Some(loaded_table.quantile(&weights, part)? / quiet_table.quantile(&weights, part)?)
        });
        let ratios = sorted(&ratios.collect::<Vec<f64>>());
        (quantile(&ratios, 0.025), quantile(&ratios, 0.975))
    });
    Some(Compared { quiet, loaded, impact: loaded / quiet, interval })
}

/// The numbers of samples of all blocks, by bin.
struct BlockTable {
    /// Lower edges of the bins, ascending.
    edges: Vec<f64>,
    /// For each block, the numbers of samples of the bins.
    counts: Vec<Vec<u64>>,
}

impl BlockTable {
    fn new<'a>(blocks: impl Iterator<Item = &'a Histogram>, all: &Histogram) -> Self {
        let edges: Vec<f64> = all.bins().into_iter().map(|(edge, _)| edge).collect();
        let counts = blocks.map(|block| {
            let mut counts = vec![0; edges.len()];
            for (edge, count) in block.bins() {
                counts[edges.partition_point(|value| *value < edge)] = count;
            }
            counts
        });
        let counts = counts.collect();
        Self { edges, counts }
    }

    /// Returns the lower edge of the bin of a percentile, if block i counts `weights[i]` times;
    /// `None` without samples.
    fn quantile(&self, weights: &[u64], part: f64) -> Option<f64> {
        let mut sums = vec![0_u64; self.edges.len()];
        for (weight, counts) in weights.iter().zip(&self.counts).filter(|(weight, _)| **weight > 0)
        {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += weight * count;
            }
        }
        quantile_bin(sums.into_iter(), part).map(|bin| self.edges[bin])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block with 1,000 samples each; this part of the loaded ones takes 20 µs.
    fn block(slow: u64) -> SampleBlock {
        let mut block = SampleBlock::default();
        block.quiet.add(2_000, 1_000);
        block.loaded.add(2_000, 1_000 - slow);
        block.loaded.add(20_000, slow);
        block
    }

    #[test]
    fn percentiles_need_their_numbers_of_samples() {
        // load.md 5, vector 25
        let mut few = SampleBlock::default();
        few.quiet.add(2_000, 10_000);
        few.loaded.add(2_000, 9_999);
        assert!(compare(&[few.clone()], P99, 1).is_some());
        assert_eq!(compare(&[few.clone()], P999, 1), None);
        few.loaded.add(2_000, 1);
        assert!(compare(&[few.clone()], P999, 1).is_some());
        few.quiet = Histogram::default();
        assert_eq!(compare(&[few], P99, 1), None);
    }

    #[test]
    fn interval_needs_eight_blocks_and_shows_how_many_share_the_delay() {
        let all = vec![block(20); 8];
        let found = compare(&all, P99, 1).unwrap();
        assert!((found.impact / 10.0 - 1.0).abs() < 0.02, "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(low > 9.8 && high < 10.2, "{low} {high}");
        assert_eq!(compare(&all[1..], P99, 1).unwrap().interval, None);
        let mut one = vec![block(0); 7];
        one.push(block(160));
        let found = compare(&one, P99, 1).unwrap();
        assert!(found.impact > 9.8);
        assert!(found.interval.unwrap().0 < 1.02, "{found:?}");
    }

    #[test]
    fn same_seed_gives_same_interval() {
        let blocks: Vec<SampleBlock> = (0..12).map(|slow| block(2 * slow)).collect();
        assert_eq!(compare(&blocks, P99, 7), compare(&blocks, P99, 7));
    }
}
