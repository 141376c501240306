//! The timetable of a survey: who does what when, and what the processes of a survey send each
//! other about it.
//!
//! A block consists of slots of equal length, and each NIC does one thing in a slot. All processes
//! follow the same clock, so no pair has to wait at a barrier.
//!
//! In a slot under load, aggressors run from before the first operation of a victim until after its
//! last one, so that each counted moment is loaded (load.md 3.4).
//!
//! Latencies under load are counted in bins of 1 %, so that the samples of many processes can be
//! added up without being sent (load.md 3.6). Only the coordinator adds them up: it leaves out the
//! victims whose processes waited for a CPU, and the bins of 10,000 nodes are 2 MB/s there
//! (`cargo bench --bench load_scale`).
//!
//! * This file: the slots of a block -> orders of processes; their reports -> results of slots;
//!   counters that are watched under load.
//! * `acceptance`: which orders and reports are accepted.

mod acceptance;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::quiet::answer::{Figures, Untested};
use super::quiet::busy::{HostLoad, most_waited_percent};
use super::quiet::findings::Test;
use super::quiet::roster::{NicId, Roster, TestId};
use facts::device::FabricAddress;
use facts::robust::quantile_bin;

/// The work of a survey: tests between NICs, in the slots of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SurveyWork;

/// Parts of the counted time of a slot under load, so that a late start is seen.
pub const PARTS: usize = 10;

/// Most NICs to which one NIC sends in a slot.
pub const MOST_PEERS: usize = 64;

/// What a NIC does in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotTask {
    /// It issues operations of a test, and measures. Under load, it issues one after the other.
    Measure {
        test: TestId,
        /// The NIC that the operations address; in loopback, the NIC itself.
        target: NicId,
        /// Whether all counters that may explain the answer are read, or only the counters of lost
        /// and damaged packets.
        reads_all_counters: bool,
    },
    /// It is addressed by this NIC, and answers where the tool demands it.
    Answer { test: TestId, initiator: NicId },
    /// It puts to these NICs in turn, at most [`MOST_PEERS`], with this test's size and class.
    Send { test: TestId, targets: Vec<NicId> },
    /// Others send to it: it does nothing, and its counters are read.
    Watch,
}

impl SlotTask {
    /// The NICs of other parts whose addresses it needs.
    pub fn peers(&self) -> &[NicId] {
        match self {
            Self::Measure { target: peer, .. } | Self::Answer { initiator: peer, .. } => {
                std::slice::from_ref(peer)
            }
            Self::Send { targets, .. } => targets,
            Self::Watch => &[],
        }
    }

    /// The test that it is a part of, if any.
    pub fn test(&self) -> Option<TestId> {
        match self {
            Self::Measure { test, .. } | Self::Answer { test, .. } | Self::Send { test, .. } => {
                Some(*test)
            }
            Self::Watch => None,
        }
    }
}

/// What all NICs do in one slot.
pub type Slot = BTreeMap<NicId, SlotTask>;

/// What a NIC of a process does in a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Number of the slot in the block, from 0.
    pub slot: u32,
    /// The NIC, as an index in the roster.
    pub nic: NicId,
    pub part: SlotTask,
}

/// The slots of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Number of the block in the survey, from 0.
    pub number: u32,
    /// When the first slot begins, on the clock of the coordinator, in nanoseconds.
    pub begins_ns: u64,
    /// Length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// Number of slots.
    pub slots: u32,
    /// Bytes that a NIC that sends has under way at most. None if nobody sends: then pairs are
    /// measured by themselves.
    pub window_bytes: Option<u64>,
    /// What the NICs of this process do, by slot.
    pub tasks: Vec<Task>,
    /// Addresses of the peers in `tasks`.
    pub addresses: BTreeMap<NicId, FabricAddress>,
}

impl Block {
    /// Returns for how many of its tasks the results of this process show that it was too busy.
    pub fn busy(&self, results: &[TaskResult], tests: &[Test]) -> u32 {
        let parts = self.tasks.iter().map(|task| ((task.slot, task.nic), &task.part));
        let parts: BTreeMap<(u32, NicId), &SlotTask> = parts.collect();
        let is_bandwidth = |result: &TaskResult| {
            let test = parts.get(&(result.slot, result.nic)).and_then(|part| part.test());
            test.and_then(|test| tests.get(test.index())).is_some_and(|test| test.of_bandwidth)
        };
        let busy = results.iter().filter(|result| result.is_busy(is_bandwidth(result)));
        busy.count() as u32
    }
}

/// What a process has done in a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Number of the block.
    pub block: u32,
    /// Rank of the process.
    pub rank: u32,
    /// The results of its tasks. A NIC that was addressed by one other NIC, without load, has a
    /// result only if it could not do its part.
    pub results: Vec<TaskResult>,
    /// Addresses of its NICs. An address changes if a NIC had to be opened again. An error is the
    /// reason why a NIC cannot measure any longer.
    pub addresses: Vec<Result<FabricAddress, String>>,
    /// Longest time that one of its NICs needed for the set-up and release of a pair, in
    /// nanoseconds; 0 under load.
    pub beyond_ns: u64,
    /// How far the coordinator's clock may be off in the process, in nanoseconds: half of the round
    /// trip to the coordinator, and the drift since then. None before the report is sent.
    pub clock_uncertainty_ns: Option<u64>,
    /// What used the CPUs of its host, if it waited for one without load.
    pub load: Option<HostLoad>,
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Number of the slot.
    pub slot: u32,
    /// The NIC.
    pub nic: NicId,
    pub answer: TaskAnswer,
    /// How long the process waited for its CPU, in percent of the time in which the pair was
    /// measured. Under load, for which part of the counted time it may have been slower than the
    /// fabric because of that.
    pub waited_percent: u8,
    /// Changes of counters that may explain the answer, by their names; none under load.
    pub counters: Vec<(String, u64)>,
    /// Changes of the counters that are watched under load; see [`COUNTERS`].
    pub watched: Vec<(Watched, u64)>,
}

/// The answer to a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TaskAnswer {
    /// A pair was measured by itself.
    Figures(Figures),
    /// The latencies of a pair under load.
    Latencies(Histogram),
    /// The NIC has sent to others.
    Sent {
        /// Bytes that were acknowledged, in each of [`PARTS`] equal parts of the counted time.
        bytes: [u64; PARTS],
        /// Places, in the list of its targets, of those to which an operation failed.
        unreached: Vec<u32>,
    },
    /// It has answered, or was watched.
    Present,
    /// An operation failed, or was not answered; or a NIC could not send at all.
    Failed(String),
    /// An operation without load had no answer in its slot.
    NoAnswer(String),
    /// It did not take part. The reason says nothing about the fabric.
    Untested(Untested),
}

impl TaskResult {
    /// The result of a process that did not wait for a CPU, without counters.
    pub fn new(slot: u32, nic: NicId, answer: TaskAnswer) -> Self {
        let (counters, watched) = (Vec::new(), Vec::new());
        Self { slot, nic, answer, waited_percent: 0, counters, watched }
    }

    /// Whether the NIC did not take part. Then operations that it should have answered may fail.
    pub fn is_untested(&self) -> bool {
        matches!(self.answer, TaskAnswer::Untested(_))
    }

    /// Whether the process was too busy for its part in a test.
    pub fn is_busy(&self, is_bandwidth: bool) -> bool {
        match &self.answer {
            TaskAnswer::Untested(reason) => reason.is_from_busy_cpus(),
            _ => self.waited_percent > most_waited_percent(is_bandwidth),
        }
    }
}

/// What all processes need before the first block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestSetup {
    pub tests: Vec<Test>,
    /// Arguments of the tool of each test, as on a command line.
    pub arguments: Vec<Vec<String>>,
    /// Time for measuring one pair, in nanoseconds.
    pub pair_ns: u64,
    /// Index in the roster of the first NIC of the process. Its others follow.
    pub first_nic: NicId,
}

/// The parts of a slot, in nanoseconds since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTimes {
    /// Aggressors begin to send.
    pub start_ns: u64,
    /// Bytes count from here on; victims measure.
    pub count_ns: u64,
    /// Bytes count up to here; victims end.
    pub counted_ns: u64,
    /// Aggressors stop, and wait for answers.
    pub stop_ns: u64,
    /// All that is left has been released.
    pub end_ns: u64,
}

impl SlotTimes {
    /// The parts of a slot of this length: 30, 40, 130, 20 and 30 of 250 ms, or in these
    /// proportions.
    pub fn from_slot(slot_ns: u64) -> Self {
        let scaled = |ms: u64| slot_ns * ms / 250;
        Self {
            start_ns: scaled(30),
            count_ns: scaled(70),
            counted_ns: scaled(200),
            stop_ns: scaled(220),
            end_ns: slot_ns,
        }
    }

    /// Returns how long bytes are counted.
    pub fn counted(self) -> u64 {
        self.counted_ns - self.count_ns
    }
}

/// What counters of a NIC say about load (load.md 2.4). Several counters may count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// Time in which the switch paused the NIC, in nanoseconds.
    TxPaused,
    /// Time in which the NIC paused the switch, in nanoseconds.
    RxPaused,
    /// Packets whose answers were lost.
    Timeouts,
    /// Packets sent again.
    Retries,
    /// Requests refused for lack of resources at the target.
    Refused,
    /// Bytes that the NIC has sent or received.
    Octets,
    /// Data packets that arrived with a mark of congestion.
    Marked,
    /// Data packets that arrived without one.
    Unmarked,
}

/// The counters of a NIC that are watched under load, by their names; those whose names end with an
/// underscore are summed up over the numbers that follow.
pub const COUNTERS: [(&str, Watched); 12] = [
    ("hni_sts_tx_ok_octets", Watched::Octets),
    ("hni_sts_rx_ok_octets", Watched::Octets),
    ("hni_tx_paused_", Watched::TxPaused),
    ("hni_rx_paused_", Watched::RxPaused),
    ("pct_spt_timeouts", Watched::Timeouts),
    ("pct_retry_srb_requests", Watched::Retries),
    ("pct_no_tct_nacks", Watched::Refused),
    ("pct_no_trs_nacks", Watched::Refused),
    ("pct_no_mst_nacks", Watched::Refused),
    ("pct_resource_busy", Watched::Refused),
    ("ixe_tc_req_ecn_pkts_", Watched::Marked),
    ("ixe_tc_req_no_ecn_pkts_", Watched::Unmarked),
];

/// How long the slots of a block are, and how much is under way in them.
#[derive(Clone, Copy, Debug)]
pub struct BlockTimes {
    /// Number of the block in the survey.
    pub number: u32,
    /// Length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// Bytes that a NIC that sends has under way at most; none if nobody sends.
    pub window_bytes: Option<u64>,
}

/// The block of each process whose NICs take part, by its rank. When it begins is not known yet.
/// `addresses` has the address of each NIC; those in `slots` have one.
pub fn blocks(
    slots: &[Slot],
    times: BlockTimes,
    roster: &Roster,
    addresses: &[Option<FabricAddress>],
) -> BTreeMap<u32, Block> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    for (number, slot) in (0..).zip(slots) {
        for (nic, part) in slot {
            let block = blocks.entry(roster.node_of(*nic).rank);
            let block = block.or_insert_with(|| Block {
                number: times.number,
                begins_ns: 0,
                slot_ns: times.slot_ns,
                slots: slots.len() as u32,
                window_bytes: times.window_bytes,
                tasks: Vec::new(),
                addresses: BTreeMap::new(),
            });
            let known =
                part.peers().iter().filter_map(|peer| Some((*peer, addresses[peer.index()]?)));
            block.addresses.extend(known);
            block.tasks.push(Task { slot: number, nic: *nic, part: part.clone() });
        }
    }
    blocks
}

/// The results of each of this number of slots.
pub fn by_slot(reports: Vec<Report>, slots: usize) -> Vec<Vec<TaskResult>> {
    let mut results: Vec<Vec<TaskResult>> = vec![Vec::new(); slots];
    for result in reports.into_iter().flat_map(|report| report.results) {
        // A report has results of its own tasks only, which are in these slots.
        results[result.slot as usize].push(result);
    }
    results
}

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

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.bins.values().fold(0, |sum, bin| sum.saturating_add(*bin))
    }

    /// The latency that this part of the samples does not exceed, in nanoseconds: the middle of its
    /// bin. `None` without samples.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let place = quantile_bin(self.bins.values().copied(), part)?;
        let bin = self.bins.keys().nth(place)?;
        Some(SMALLEST_NS * RATIO.powf(f64::from(*bin) + 0.5))
    }

    /// The lower edges of the bins with samples, in nanoseconds, and their numbers of samples.
    pub fn bins(&self) -> Vec<(f64, u64)> {
        self.bins.iter().map(|(bin, value)| (edge(*bin), *value)).collect()
    }

    /// The least time in nanoseconds that the samples took one after the other, without the longest
    /// one: an operation may be answered after the slot.
    pub fn time_of_others_ns(&self) -> f64 {
        let all: f64 = self.bins().into_iter().map(|(ns, count)| ns * count as f64).sum();
        let longest = self.bins.keys().last().map(|bin| edge(*bin));
        all - longest.unwrap_or(0.0)
    }

    /// Whether all bins exist: bytes from another process may name others.
    pub fn is_valid(&self) -> bool {
        self.bins.keys().all(|number| *number <= bin(LARGEST_NS))
    }
}

/// The lower edge of a bin, in nanoseconds.
fn edge(bin: u16) -> f64 {
    SMALLEST_NS * RATIO.powi(bin.into())
}

/// The number of the bin of a latency in nanoseconds.
fn bin(ns: f64) -> u16 {
    let ns = ns.clamp(SMALLEST_NS, LARGEST_NS);
    ((ns / SMALLEST_NS).ln() / RATIO.ln()) as u16
}

#[cfg(test)]
mod tests {
    use super::super::quiet::roster::{NicId, TestId};
    use super::super::quiet::testing::Cluster;
    use super::*;

    #[test]
    fn parts_of_slot_are_those_of_the_table() {
        let times = SlotTimes::from_slot(250_000_000);
        assert_eq!(
            [times.start_ns, times.count_ns, times.counted_ns, times.stop_ns, times.end_ns],
            [30, 70, 200, 220, 250].map(|ms| ms * 1_000_000)
        );
        assert_eq!(times.counted(), 130_000_000);
    }

    /// Three nodes with a NIC each. The ranks of the nodes differ from their indices.
    fn roster() -> Roster {
        let mut roster = Cluster::new([0, 0, 3, 1], &[], 0).roster;
        roster.nodes.iter_mut().zip([7, 5, 6]).for_each(|(node, rank)| node.rank = rank);
        roster
    }

    #[test]
    fn each_process_gets_its_tasks_and_the_addresses_of_their_peers() {
        let test = TestId(4);
        let send = SlotTask::Send { test, targets: vec![NicId(1), NicId(2)] };
        let answer = SlotTask::Answer { test, initiator: NicId(0) };
        let slots = [
            Slot::from([(NicId(0), send.clone()), (NicId(1), SlotTask::Watch)]),
            Slot::from([(NicId(2), answer.clone())]),
        ];
        let address = |nic| FabricAddress { nic, pid: 3 };
        let times = BlockTimes { number: 3, slot_ns: 100, window_bytes: Some(7) };
        let addresses = [10, 11, 12].map(|nic| Some(address(nic)));
        let blocks = blocks(&slots, times, &roster(), &addresses);
        let task = |slot, nic, part| vec![Task { slot, nic: NicId(nic), part }];
        let tasks: Vec<_> = blocks.iter().map(|(rank, block)| (*rank, &block.tasks)).collect();
        let expected =
            [(5, task(0, 1, SlotTask::Watch)), (6, task(1, 2, answer)), (7, task(0, 0, send))];
        assert_eq!(tasks, expected.each_ref().map(|(rank, tasks)| (*rank, tasks)));
        let sender = &blocks[&7];
        let peers = [(NicId(1), address(11)), (NicId(2), address(12))];
        assert_eq!(sender.addresses, BTreeMap::from(peers));
        assert_eq!((sender.number, sender.begins_ns, sender.slots), (3, 0, 2));
        assert_eq!((sender.slot_ns, sender.window_bytes), (100, Some(7)));
    }

    #[test]
    fn results_belong_to_their_slots() {
        let result = |slot, nic| TaskResult::new(slot, NicId(nic), TaskAnswer::Present);
        let report = |rank, results| Report {
            block: 0,
            rank,
            results,
            addresses: Vec::new(),
            beyond_ns: 0,
            clock_uncertainty_ns: None,
            load: None,
        };
        let reports =
            vec![report(0, vec![result(1, 0), result(0, 0)]), report(1, vec![result(1, 1)])];
        let found = by_slot(reports, 3);
        let nics: Vec<Vec<u32>> = found
            .iter()
            .map(|results| results.iter().map(|result| result.nic.0).collect())
            .collect();
        assert_eq!(nics, [vec![0], vec![0, 1], vec![]]);
    }

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
