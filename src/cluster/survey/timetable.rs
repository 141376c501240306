//! The timetable of a survey. A block consists of slots of equal length, and each NIC does one
//! thing in a slot. All processes follow the same clock, so no pair has to wait at a barrier.

use serde::{Deserialize, Serialize};

use super::answer::{Answer, Pair, PairResult, Stage};
use super::busy::HostLoad;
use super::ids::{NicId, TestId};
use crate::location::Location;
use crate::survey::findings::Test;
use facts::device::FabricAddress;

/// Disjoint pairs that are measured at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Index of the test.
    pub test: TestId,
    /// Why they are measured.
    pub stage: Stage,
    /// The pairs. No NIC occurs twice.
    pub pairs: Vec<Pair>,
}

/// The part of a NIC in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// It issues operations, and measures.
    Initiator,
    /// It is addressed, and answers where the tool demands it.
    Target,
    /// Both, in loopback.
    Alone,
}

/// What a NIC does in one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Number of the slot in the block, from 0.
    pub slot: u32,
    /// Index of the test.
    pub test: TestId,
    /// Why the pair is measured.
    pub stage: Stage,
    /// Number of the round in the survey.
    pub round: u32,
    /// Pairs that are measured in this slot.
    pub active: u32,
    /// The pair, as indices in the roster.
    pub pair: Pair,
    /// The part of the NIC of this process.
    pub part: Part,
    /// Address of the other NIC.
    pub peer: FabricAddress,
}

impl Task {
    /// Returns which NIC of a process does the task: its index among `nics` NICs, of which `first`
    /// is the first. `None` if the NIC belongs to another process.
    pub fn own_nic(&self, first: NicId, nics: usize) -> Option<usize> {
        let nic = match self.part {
            Part::Initiator | Part::Alone => self.pair.initiator,
            Part::Target => self.pair.target,
        };
        let index = nic.0.checked_sub(first.0)? as usize;
        (index < nics).then_some(index)
    }
}

impl PairResult {
    /// Returns the result of a task whose NICs did not wait for a CPU, without counters.
    pub fn of(task: &Task, answer: Answer) -> Self {
        Self {
            test: task.test,
            pair: task.pair,
            stage: task.stage,
            round: task.round,
            active: task.active,
            answer,
            waited_percent: 0,
            counters: Vec::new(),
        }
    }
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
    /// What the NICs of this process do, by slot.
    pub tasks: Vec<Task>,
}

/// What a process has measured in a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockReport {
    /// Number of the block.
    pub block: u32,
    /// Rank of the process.
    pub rank: u32,
    /// Results of the pairs in which its NICs were initiators, and of the pairs in which it was too
    /// late to be the target.
    pub results: Vec<PairResult>,
    /// Addresses of its NICs. An address changes if a NIC had to be opened again. An error is the
    /// reason why a NIC cannot measure any longer.
    pub addresses: Vec<Result<FabricAddress, String>>,
    /// Longest time that one of its NICs needed for the set-up and release of a pair, in
    /// nanoseconds.
    pub beyond_ns: u64,
    /// How far the coordinator's clock may be off in the process, in nanoseconds: half of the round
    /// trips up to the coordinator, and the drift since then. None before it is sent.
    pub clock_uncertainty_ns: Option<u64>,
    /// What used the CPUs of its host, if it waited for one.
    pub load: Option<HostLoad>,
}

/// A NIC as its process introduces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicFacts {
    /// Name of the device.
    pub device: String,
    /// Its address; none if it could not be opened.
    pub address: Option<FabricAddress>,
    /// VNI of its domain; 0 without an address.
    pub vni: u32,
    /// Traffic class of its operations.
    pub class: String,
    /// Location in its address; none if software has not set it.
    pub location: Option<Location>,
    /// Whether it is a software NIC.
    pub simulated: bool,
    /// Why it could not be opened.
    pub failure: Option<String>,
}

/// A process as it introduces itself to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    pub rank: u32,
    /// Number of processes, as its launcher says.
    pub size: u32,
    /// Name of its host.
    pub host: String,
    /// Location of the host by the launcher: SLURM_TOPOLOGY_ADDR.
    pub topology: Option<String>,
    /// Its NICs, in the order in which blocks number them.
    pub nics: Vec<NicFacts>,
}

/// What all processes need before the first block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Course {
    pub tests: Vec<Test>,
    /// Arguments of the tool of each test, as on a command line.
    pub arguments: Vec<Vec<String>>,
    /// Time for measuring one pair, in nanoseconds.
    pub pair_ns: u64,
    /// Index in the roster of the first NIC of the process. Its others follow.
    pub first_nic: NicId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_own_nics_from_first_nic_of_process() {
        let task = |part| Task {
            slot: 0,
            test: TestId(0),
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            pair: Pair { initiator: NicId(7), target: NicId(10) },
            part,
            peer: FabricAddress { nic: 1, pid: 2 },
        };
        for (part, first, nics, expected) in [
            (Part::Initiator, 5, 4, Some(2)),
            (Part::Alone, 5, 3, Some(2)),
            (Part::Target, 5, 6, Some(5)),
            (Part::Target, 5, 5, None),
            (Part::Initiator, 8, 4, None),
        ] {
            let found = task(part).own_nic(NicId(first), nics);
            assert_eq!(found, expected, "{part:?} of {nics} NICs from {first}");
        }
    }
}
