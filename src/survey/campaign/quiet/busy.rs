//! Nodes whose CPUs other programs used while the survey measured, and the note that tells its user
//! early that they disturb the survey.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answer::{Answer, PairResult};
use super::roster::{NodeId, Roster};

/// Fewest slots with a busy CPU after which a node is named, if they are half of its slots.
const LEAST_SLOTS: u32 = 3;

/// The largest part of a measurement, in percent, in which a side may wait for its CPU without a
/// doubt about its median latency, or about its bandwidth. Few latencies have an interruption: the
/// median is right with a third of the time and wrong with half of it (measured on two CPUs): then
/// waits begin to sleep. A bandwidth is lower by as much as its side waited.
pub fn most_waited_percent(is_bandwidth: bool) -> u8 {
    if is_bandwidth { 5 } else { 25 }
}

/// What used the CPUs of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct HostLoad {
    /// Mean number of threads that ran or waited for a CPU, over a minute.
    pub mean: f64,
    /// Number of CPUs that the process may use.
    pub cpus: u32,
    /// The names of the processes that used the CPUs most, with the number of CPUs that each used.
    pub most: Vec<(String, f64)>,
}

/// A node whose process waited for its CPUs, or was late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct BusyNode {
    /// The node.
    pub node: NodeId,
    /// Slots in which its process had a part.
    pub slots: u32,
    /// Slots of these in which the process waited too long, or was late.
    pub busy_slots: u32,
    /// What used its CPUs; null if unknown.
    pub load: Option<HostLoad>,
}

/// The slots of all processes so far.
#[derive(Clone, Debug, Default)]
pub struct BusySlots {
    slots_by_rank: BTreeMap<u32, (u32, u32, Option<HostLoad>)>,
}

/// Whether a process was too busy for a pair: its own result says so.
pub fn is_busy(result: &PairResult, is_bandwidth: bool) -> bool {
    match &result.answer {
        Answer::Untested(reason) => reason.is_from_busy_cpus(),
        _ => result.waited_percent > most_waited_percent(is_bandwidth),
    }
}

impl BusySlots {
    /// Adds that a process had a part in `slots` slots of a block and was busy in `busy` of them,
    /// and what used its CPUs.
    pub fn add(&mut self, rank: u32, slots: u32, busy: u32, load: Option<&HostLoad>) {
        let (all, late, known) = self.slots_by_rank.entry(rank).or_default();
        *all += slots;
        *late += busy;
        *known = load.cloned().or_else(|| known.take());
    }

    /// The nodes that were busy in half of their slots or more, the busiest first.
    pub fn nodes(&self, roster: &Roster) -> Vec<BusyNode> {
        let busy_node = |node: NodeId| {
            let (slots, busy_slots, load) = self.slots_by_rank.get(&roster.node(node).rank)?;
            Some(BusyNode { node, slots: *slots, busy_slots: *busy_slots, load: load.clone() })
        };
        let is_named =
            |node: &BusyNode| node.busy_slots >= LEAST_SLOTS && 2 * node.busy_slots >= node.slots;
        let mut nodes: Vec<BusyNode> = roster.node_ids().filter_map(busy_node).collect();
        nodes.retain(is_named);
        nodes.sort_by_key(|node| std::cmp::Reverse(node.busy_slots));
        nodes
    }
}

/// Fewest disturbed pairs for a note.
const FEWEST: usize = 5;

/// The note appears if at least one of this many pairs was disturbed.
const LEAST_PART: usize = 5;

/// The number of pairs that busy CPUs disturbed.
#[derive(Debug, Default)]
pub struct BusyCpus {
    disturbed: usize,
    pairs: usize,
    is_noted: bool,
}

impl BusyCpus {
    /// Counts the pairs of a block. Returns a note if many pairs so far were disturbed, once.
    pub fn add(&mut self, pairs: &[PairResult], is_bandwidth: bool) -> Option<String> {
        let disturbed = pairs.iter().filter(|pair| is_busy(pair, is_bandwidth));
        self.disturbed += disturbed.count();
        self.pairs += pairs.len();
        let Self { disturbed, pairs, .. } = *self;
        if self.is_noted || disturbed < FEWEST || disturbed * LEAST_PART < pairs {
            return None;
        }
        self.is_noted = true;
        Some(format!(
            "the CPUs are busy: processes waited for them in {disturbed} of {pairs} pairs so far; \
             with free CPUs the survey finds more in less time"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Stage, Untested};
    use super::super::roster::{NicId, Pair, TestId};
    use super::super::testing::{Cluster, pair};
    use super::*;

    #[test]
    fn names_nodes_that_are_busy_in_half_of_their_slots() {
        let cluster = Cluster::new([0, 0, 3, 1], &["write-lat"], 1);
        let mut slots = BusySlots::default();
        let busy = PairResult {
            test: TestId(0),
            pair: pair(0, 1),
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            answer: Answer::Untested(Untested::Late),
            waited_percent: 0,
            counters: Vec::new(),
        };
        let load = HostLoad { mean: 4.0, cpus: 2, most: vec![("stress".into(), 1.5)] };
        for (rank, busy_slots, all) in [(0, 3, 7), (1, 2, 2), (2, 3, 6)] {
            slots.add(rank, all, busy_slots, Some(&load));
        }
        let expected = BusyNode { node: NodeId(2), slots: 6, busy_slots: 3, load: Some(load) };
        assert_eq!(slots.nodes(&cluster.roster), [expected]);
        let waited = |waited_percent| PairResult {
            answer: Answer::Failed("x".into()),
            waited_percent,
            ..busy.clone()
        };
        assert!(!is_busy(&waited(25), false) && is_busy(&waited(26), false));
        assert!(!is_busy(&waited(5), true) && is_busy(&waited(6), true));
    }

    /// Pairs that were not measured, all for this reason.
    fn block(reason: Untested, pairs: usize) -> Vec<PairResult> {
        let result = PairResult {
            test: TestId(0),
            pair: Pair { initiator: NicId(0), target: NicId(1) },
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            answer: Answer::Untested(reason),
            waited_percent: 0,
            counters: Vec::new(),
        };
        vec![result; pairs]
    }

    #[test]
    fn notes_many_disturbed_pairs_once() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&block(Untested::NoReport, 16), false), None);
        assert_eq!(busy.add(&block(Untested::Late, 4), false), None);
        let note = busy.add(&block(Untested::NoCpu, 1), false).unwrap();
        assert!(note.contains("5 of 21 pairs"), "{note}");
        assert_eq!(busy.add(&block(Untested::Paused, 20), false), None);
    }

    #[test]
    fn notes_no_small_part_of_disturbed_pairs() {
        let mut busy = BusyCpus::default();
        assert_eq!(busy.add(&block(Untested::NoReport, 26), false), None);
        assert_eq!(busy.add(&block(Untested::Late, 6), false), None);
    }
}
