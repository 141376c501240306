//! The timetable of a survey: who does what when, and what the processes of a survey send each
//! other about it.
//!
//! A block consists of slots of equal length, and each NIC does one thing in a slot. All processes
//! follow the same clock, so no pair has to wait at a barrier.
//!
//! * This file: orders and reports.
//! * `times`: the parts of a slot under load.
//! * `watched`: counters that are watched under load.
//! * `histogram`: latencies under load.
//! * `blocks`: the slots of a block -> the order of each process.
//! * `acceptance`: which orders and reports are accepted.

mod acceptance;
pub mod blocks;
pub mod histogram;
mod times;
mod watched;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quiet::answer::Figures;
use crate::quiet::busy::{HostLoad, most_waited_percent};
use crate::quiet::findings::Test;
use crate::quiet::ids::{NicId, TestId};
use crate::quiet::untested::Untested;
use facts::device::FabricAddress;
use histogram::Histogram;
pub use times::SlotTimes;
pub use watched::{COUNTERS, Watched};

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
    /// Returns the NICs of other parts whose addresses it needs.
    pub fn peers(&self) -> &[NicId] {
        match self {
            Self::Measure { target: peer, .. } | Self::Answer { initiator: peer, .. } => {
                std::slice::from_ref(peer)
            }
            Self::Send { targets, .. } => targets,
            Self::Watch => &[],
        }
    }

    /// Returns the test that it is a part of, if any.
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
    /// Returns the result of a process that did not wait for a CPU, without counters.
    pub fn new(slot: u32, nic: NicId, answer: TaskAnswer) -> Self {
        let (counters, watched) = (Vec::new(), Vec::new());
        Self { slot, nic, answer, waited_percent: 0, counters, watched }
    }

    /// Returns whether the NIC did not take part. Then operations that it should have answered may
    /// fail.
    pub fn is_untested(&self) -> bool {
        matches!(self.answer, TaskAnswer::Untested(_))
    }

    /// Returns whether the process was too busy for its part in a test.
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
