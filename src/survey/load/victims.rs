//! The latencies of victims: what they measured, with bounded memory for samples.

use std::collections::BTreeMap;

use super::tails::{MOST_BLOCKS, SampleBlock};
use crate::slot::{LoadFlow, LoadSlot};
use campaign::quiet::answer::Pair;
use campaign::quiet::busy::most_waited_percent;
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use campaign::timetable::{TaskAnswer, TaskResult};
use crew::location::Class;

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
    /// Returns the impact factor.
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
        let has_sent = |flow: &&LoadFlow| {
            let answer = nic_results.get(&flow.source).map(|result| &result.answer);
            matches!(answer, Some(TaskAnswer::Sent { bytes, .. }) if bytes.iter().any(|byte| *byte > 0))
        };
        // Latencies beside fewer senders say nothing about the pattern.
        let sent = load_slot.flows.iter().filter(has_sent).count();
        let is_idle = !load_slot.is_quiet() && 2 * sent <= load_slot.flows.len();
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

    /// Returns the classes of the pairs.
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        self.counts.keys().copied()
    }

    pub fn pairs(&self, class: Option<Class>) -> impl Iterator<Item = &PairMedians> {
        let pairs = self.pairs.values();
        pairs.filter(move |medians| class.is_none_or(|class| medians.class == class))
    }

    /// Returns the blocks of samples of a class; of all classes block by block.
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

    /// Returns the part of the victims under load whose operations failed.
    pub fn unanswered(&self) -> f64 {
        let (failed, all) = self.unanswered;
        f64::from(failed) / f64::from(all.max(1))
    }
}

/// Returns whether a victim's result counts: neither side has waited long for a CPU. If the
/// initiator has not waited, or a model explains its latencies, the target counts in them.
fn counts(own: &TaskResult, target: Option<&TaskResult>, is_bandwidth: bool) -> bool {
    let waited = match own.waited_percent {
        0 => 0,
        own => own.max(target.map_or(0, |target| target.waited_percent)),
    };
    waited <= most_waited_percent(is_bandwidth)
}

impl PairMedians {
    /// Returns the pair with its medians; `None` if one of them was not measured.
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

    /// Returns the impact factor.
    pub fn impact(&self) -> Option<f64> {
        self.measured().map(|pair| pair.impact())
    }

    /// Returns the last quiet median as a ratio to the first one.
    pub fn drift(&self) -> Option<f64> {
        let (first, last) = (self.quiet.first_key_value()?, self.quiet.last_key_value()?);
        (first.0 < last.0).then(|| last.1 / first.1)
    }
}
