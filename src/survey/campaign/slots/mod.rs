//! Campaigns: what the NICs of a survey do together, until something is known about them.
//!
//! A campaign asks its [`Crew`] for work, reads what has come of it, and asks again; its findings
//! are a function of what it has read. Deadlines, lost members, the line of progress and
//! interruptions are the crew's. The crew is the coordinator with its members
//! (`crate::coordinator`), or a model of a cluster in tests.
//!
//! * This file: the crew.
//! * `members`: the processes that have joined -> nodes, NICs and their addresses.
//! * `pairs`: rounds of pairs -> slots, and results of tasks -> results of pairs.
//! * `quiet`: the campaign of a survey without load. `pace`: how long its slots are, and how many a
//!   block has. `answer_times`: how long the fabric takes to answer. `busy_note`: whether busy CPUs
//!   disturb it.
//!
//! The packages `load` and `why` have further campaigns.

mod answer_times;
mod busy_note;
pub mod members;
pub mod pace;
pub mod pairs;
pub mod quiet;
#[cfg(test)]
mod quiet_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::quiet::busy::HostLoad;
use crate::quiet::ids::NicId;
use crate::quiet::roster::Roster;
use crate::timetable::{Report, Slot, TestSetup};
use crew::introduction::Introduction;
use crew::star::MemoryCopy;
use facts::error::Failure;
use health::item::Readings;
use members::Members;

/// Members that were lost, by rank, with the reasons.
pub type LostMembers = BTreeMap<u32, String>;

/// Returns the line of progress, which fits into this number of columns.
pub type ProgressText<'a> = &'a dyn Fn(&Roster, usize) -> String;

/// The members of a survey, as a campaign sees them. A member that is lost is absent in the roster
/// from then on.
///
/// Each function that waits for members fails if the user interrupts it.
pub trait Crew {
    /// Returns the nodes and NICs, and how to reach them.
    fn members(&self) -> &Members;

    /// Takes the processes in that have joined since the last call. Returns what they have
    /// introduced.
    fn admit(&mut self) -> Vec<Introduction>;

    /// Prepares these processes for a test setup. Its first NIC does not matter: each process gets
    /// its own. Returns the members that were lost meanwhile.
    fn prepare(
        &mut self,
        ranks: &BTreeSet<u32>,
        setup: &TestSetup,
        line: ProgressText,
    ) -> Result<LostMembers, Failure>;

    /// Has these processes check their NICs by their files.
    fn check(&mut self, ranks: &BTreeSet<u32>, line: ProgressText)
    -> Result<CheckedNodes, Failure>;

    /// Asks a process how fast it copies memory; `None` if it does not answer, or if that says
    /// nothing about the memory of its node.
    fn copy_memory(&mut self, rank: u32, line: ProgressText)
    -> Result<Option<MemoryCopy>, Failure>;

    /// Has the members do what `slots` of this length say, under this load if there is one.
    fn run(
        &mut self,
        slots: &[Slot],
        length: Duration,
        load: Option<BlockLoad>,
        line: ProgressText,
    ) -> Result<AnsweredBlock, Failure>;

    /// Prints a line that is not part of the result.
    fn note(&mut self, line: &str);
}

/// The checks of nodes: what their files say about each NIC, by the ranks of their processes and by
/// device. A process without an answer has none.
pub type CheckedNodes = BTreeMap<u32, BTreeMap<String, Readings>>;

/// The load of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockLoad {
    /// Bytes that a NIC that sends has under way at most.
    pub window_bytes: u64,
    /// How long the fabric is idle before the block, at least.
    pub idle: Duration,
}

/// What a member had to do in a block.
#[derive(Clone, Debug)]
pub struct MemberWork {
    pub rank: u32,
    /// Number of its tasks, and of those for which it was too busy.
    pub tasks: u32,
    pub busy_tasks: u32,
    /// What used its CPUs, if it waited for one.
    pub load: Option<HostLoad>,
}

/// What the members have answered to a block.
#[derive(Debug)]
pub struct AnsweredBlock {
    pub reports: Vec<Report>,
    pub work: Vec<MemberWork>,
    pub lost: LostMembers,
    /// NICs that cannot measure any longer, with the reasons.
    pub failed: Vec<(NicId, String)>,
}
