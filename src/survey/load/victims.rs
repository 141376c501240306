//! The latencies of victims: what they measured, with bounded memory for samples, and their high
//! percentiles, quiet and under load, with an interval of their ratio.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::findings::Compared;
use super::slot::{LoadFlow, LoadSlot};
use campaign::quiet::busy::most_waited_percent;
use campaign::quiet::roster::{NicId, Pair, Roster};
use campaign::timetable::{Histogram, TaskAnswer, TaskResult};
use crew::location::Class;
use facts::robust::{quantile, quantile_bin, sorted};

/// The medians of one pair in one repetition, in nanoseconds.
#[derive(Clone, Debug)]
pub struct PairMedians {
    pub pair: Pair,
    pub class: Class,
    pub repetition: u32,
    /// Without load: places of the load slots, and medians.
    pub quiet: BTreeMap<u32, f64>,
    /// Under load.
    pub loaded: BTreeMap<u32, f64>,
    /// Its block of samples.
    block: usize,
}

/// A pair in one repetition, with its median latencies without and with load, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredPair {
    pub pair: Pair,
    /// Without load.
    pub quiet: f64,
    /// Under load.
    pub loaded: f64,
}

impl MeasuredPair {
    /// The impact factor.
    pub fn impact(&self) -> f64 {
        self.loaded / self.quiet
    }
}

/// All victims under one pattern.
#[derive(Clone, Debug, Default)]
pub struct Victims {
    pairs: BTreeMap<(u32, Pair), PairMedians>,
    blocks: BTreeMap<Class, Vec<SampleBlock>>,
    /// Number of pairs of each class, over all repetitions.
    counts: BTreeMap<Class, usize>,
    /// Number of victims under load that failed, and of all that were judged.
    unanswered: (u32, u32),
}

impl Victims {
    /// Adds the results of a load slot. `is_bandwidth` says whether victims measure a bandwidth.
    pub fn add(
        &mut self,
        roster: &Roster,
        load_slot: &LoadSlot,
        results: &[TaskResult],
        is_bandwidth: bool,
    ) {
        let nic_results: BTreeMap<NicId, &TaskResult> =
            results.iter().map(|result| (result.nic, result)).collect();
        let is_idle = !load_slot.is_quiet() && !has_load(load_slot, &nic_results);
        for pair in &load_slot.victims {
            let class = roster.class(*pair);
            let key = (load_slot.repetition, *pair);
            let known = self.pairs.entry(key).or_insert_with(|| {
                let number = self.counts.entry(class).or_default();
                *number += 1;
                PairMedians {
                    pair: *pair,
                    class,
                    repetition: load_slot.repetition,
                    quiet: BTreeMap::new(),
                    loaded: BTreeMap::new(),
                    block: (*number - 1) % MOST_BLOCKS,
                }
            });
            let [initiator, target] = pair.nics().map(|nic| nic_results.get(&nic).copied());
            let Some(result) = initiator.filter(|own| counts(own, target, is_bandwidth)) else {
                continue;
            };
            let is_loaded = !load_slot.is_quiet();
            let samples = match &result.answer {
                TaskAnswer::Latencies(samples) if !is_idle => samples,
                // A target that came late does not answer.
                TaskAnswer::Failed(_)
                    if is_loaded && !target.is_some_and(TaskResult::is_untested) =>
                {
                    self.unanswered.0 += 1;
                    self.unanswered.1 += 1;
                    continue;
                }
                _ => continue,
            };
            let Some(median) = samples.quantile(0.5) else {
                continue;
            };
            let blocks = self.blocks.entry(class).or_default();
            if blocks.len() <= known.block {
                blocks.resize_with(known.block + 1, SampleBlock::default);
            }
            let block = &mut blocks[known.block];
            if is_loaded {
                self.unanswered.1 += 1;
                known.loaded.insert(load_slot.place, median);
                block.loaded.merge(samples);
            } else {
                known.quiet.insert(load_slot.place, median);
                block.quiet.merge(samples);
            }
        }
    }

    /// The classes of the pairs.
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        self.counts.keys().copied()
    }

    pub fn pairs(&self, class: Option<Class>) -> impl Iterator<Item = &PairMedians> {
        let pairs = self.pairs.values();
        pairs.filter(move |medians| class.is_none_or(|class| medians.class == class))
    }

    /// The blocks of samples of a class; of all classes block by block.
    pub fn blocks(&self, class: Option<Class>) -> Vec<SampleBlock> {
        let mut all: Vec<SampleBlock> = Vec::new();
        let class_blocks = self
            .blocks
            .iter()
            .filter(|(own_class, _)| class.is_none_or(|class| **own_class == class));
        for (_, blocks) in class_blocks {
            if all.len() < blocks.len() {
                all.resize_with(blocks.len(), SampleBlock::default);
            }
            for (sum, block) in all.iter_mut().zip(blocks) {
                sum.merge(block);
            }
        }
        all
    }

    /// The part of the victims under load whose operations failed.
    pub fn unanswered(&self) -> f64 {
        let (failed, all) = self.unanswered;
        f64::from(failed) / f64::from(all.max(1))
    }
}

/// Whether a victim's result counts: neither side has waited long for a CPU. If the initiator has
/// not waited, or a model explains its latencies, the target counts in them.
fn counts(own: &TaskResult, target: Option<&TaskResult>, is_bandwidth: bool) -> bool {
    let waited = match own.waited_percent {
        0 => 0,
        own => own.max(target.map_or(0, |target| target.waited_percent)),
    };
    waited <= most_waited_percent(is_bandwidth)
}

impl PairMedians {
    /// The pair with its medians; `None` if one of them was not measured.
    pub fn measured(&self) -> Option<MeasuredPair> {
        let middle = |values: &BTreeMap<u32, f64>| {
            let medians: Vec<f64> = values.values().copied().collect();
            facts::robust::median(&medians)
        };
        Some(MeasuredPair {
            pair: self.pair,
            quiet: middle(&self.quiet)?,
            loaded: middle(&self.loaded)?,
        })
    }

    /// The impact factor.
    pub fn impact(&self) -> Option<f64> {
        self.measured().map(|pair| pair.impact())
    }

    /// The last quiet median as a ratio to the first one.
    pub fn drift(&self) -> Option<f64> {
        let (first, last) = (self.quiet.first_key_value()?, self.quiet.last_key_value()?);
        (first.0 < last.0).then(|| last.1 / first.1)
    }
}

/// Most blocks of samples: the memory does not depend on the number of victims.
const MOST_BLOCKS: usize = 64;

/// Fewest blocks of which the ratio has an interval.
const LEAST_BLOCKS: usize = 8;

/// Number of bootstrap samples.
const RESAMPLES: usize = 200;

/// A percentile and the fewest samples that it needs, quiet and under load.
pub const P99: (f64, u64) = (0.99, 1_000);
/// A percentile and the fewest samples that it needs, quiet and under load.
pub const P999: (f64, u64) = (0.999, 10_000);

/// Whether most of the sources have sent: latencies beside fewer say nothing about the pattern.
fn has_load(load_slot: &LoadSlot, nic_results: &BTreeMap<NicId, &TaskResult>) -> bool {
    let has_sent = |flow: &&LoadFlow| {
        let answer = nic_results.get(&flow.source).map(|result| &result.answer);
        matches!(answer, Some(TaskAnswer::Sent { bytes, .. }) if bytes.iter().any(|byte| *byte > 0))
    };
    let sent = load_slot.flows.iter().filter(has_sent).count();
    2 * sent > load_slot.flows.len()
}

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

/// The sum of these blocks.
pub fn merged(blocks: &[SampleBlock]) -> SampleBlock {
    let mut all = SampleBlock::default();
    blocks.iter().for_each(|block| all.merge(block));
    all
}

/// A percentile of all samples; `None` with too few of them. The 95 % interval of the ratio is from
/// 200 samples of the blocks with replacement.
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

    /// The lower edge of the bin of a percentile, if block i counts `weights[i]` times; `None`
    /// without samples.
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

    /// A block with 1,000 samples each; this part of the loaded ones takes 20 µs.
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
