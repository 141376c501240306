//! The connection of a coordinator to the members: it sends them orders, and waits for what they
//! report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::command::survey::blocks::{Slots, blocks};
use crate::command::survey::late::LateMembers;
use crate::command::survey::members::Members;
use crate::command::survey::results::BlockResults;
use crate::command::survey::written::Notes;
use cluster::load::blocks::{LoadSlots, SlotParts, by_slot, load_blocks};
use cluster::load::timetable::{LoadPart, LoadResult};
use cluster::star::{Event, GRACE, MemoryCopy, Root, now_ns};
use cluster::survey::answer::Pair;
use cluster::survey::ids::NicId;
use cluster::survey::roster::Roster;
use cluster::survey::timetable::{BlockReport, Course, Round};
use facts::device::FabricAddress;
use facts::error::Failure;
use facts::limit;
use facts::number::time_text;
use report::check_fleet::NodeCheck;

/// How long the coordinator waits until the members are prepared for the course. A NIC may take 20
/// seconds to open its targets.
const PREPARATION_LIMIT: Duration = Duration::from_secs(25);

/// How long the coordinator waits for reports after the end of a block, and longer for each
/// thousand members. A NIC may take two seconds to release the resources of its last pair.
const REPORT_LIMIT: Duration = Duration::from_secs(10);
const REPORT_LIMIT_OF_THOUSAND: Duration = Duration::from_secs(1);

/// Time in which a block reaches the members before it begins, and longer for each thousand of
/// them.
const NOTICE: Duration = Duration::from_millis(20);
const NOTICE_OF_THOUSAND: Duration = Duration::from_millis(50);

/// Members that were lost, by rank, with the reasons.
pub type LostMembers = BTreeMap<u32, String>;

/// The members that have joined, and what they are told.
pub struct MemberControl {
    pub root: Root,
    pub members: Members,
    pub late: LateMembers,
    pub notes: Notes,
    /// Number of the next round.
    pub round: u32,
    /// Number of the next block.
    block: u32,
}

/// Returns the line of progress, which fits into this number of columns.
pub trait Line: Fn(&Roster, usize) -> String {}

impl<F: Fn(&Roster, usize) -> String> Line for F {}

/// The addresses of the NICs of a process, or why they cannot measure.
type Addresses = Vec<Result<FabricAddress, String>>;

/// The reports about a block.
struct Reports<R> {
    reports: Vec<R>,
    lost: LostMembers,
    failed: Vec<(NicId, String)>,
}

/// What the members have answered to a block.
pub struct MeasuredBlock {
    slots: Slots,
    /// Number of slots of each member, by rank.
    pub slots_of: BTreeMap<u32, usize>,
    pub reports: Vec<BlockReport>,
    /// Pairs that were in no block, with their slots.
    left_out: Vec<(u32, Pair)>,
    /// Members that were lost, with the reasons.
    lost: LostMembers,
    /// NICs that cannot measure any longer, with the reasons.
    pub failed: Vec<(NicId, String)>,
}

/// What the members have answered to a block under load.
pub struct LoadedBlock {
    /// The results of each scene.
    pub results: Vec<Vec<LoadResult>>,
    /// Members that were lost, with the reasons.
    pub lost: LostMembers,
    /// NICs that cannot measure any longer, with the reasons.
    pub failed: Vec<(NicId, String)>,
}

impl MeasuredBlock {
    pub fn results(self, rounds: &[Round], roster: &Roster) -> (BlockResults, LostMembers) {
        let (left_out, lost) = (&self.left_out, &self.lost);
        let results = BlockResults::new(rounds, self.slots, self.reports, left_out, lost, roster);
        (results, self.lost)
    }
}

impl MemberControl {
    /// Returns the control of these members, which `root` connects.
    pub fn new(root: Root, members: Members, late: LateMembers, notes: Notes) -> Self {
        Self { root, members, late, notes, round: 0, block: 0 }
    }

    /// Sends the processes with these ranks the courses that `course` returns for their first NICs,
    /// and waits until they are prepared. Returns the lost members, with the reasons.
    pub fn prepare(
        &mut self,
        ranks: BTreeSet<u32>,
        line: impl Line,
        course: impl Fn(NicId) -> Course,
    ) -> Result<LostMembers, Failure> {
        let firsts = self.members.first_nics.iter().filter(|(rank, _)| ranks.contains(rank));
        let courses = firsts.map(|(rank, first)| (*rank, course(*first)));
        self.root.send_courses(courses.collect());
        let size = ranks.len() as u32;
        let limit = by_size(PREPARATION_LIMIT, REPORT_LIMIT_OF_THOUSAND, size);
        let reason = format!("it did not open its targets within {}", time_text(limit));
        let until = Instant::now() + limit::in_effect(limit);
        self.wait_for(ranks, until, &reason, line, |event| match event {
            Event::Begun { rank } => Some(rank),
            _ => None,
        })
    }

    /// Asks these processes for checks of their NICs. A process without an answer has none. Returns
    /// the lost members as well, with the reasons.
    pub fn checks(
        &mut self,
        ranks: BTreeSet<u32>,
        line: impl Line,
    ) -> Result<(BTreeMap<u32, NodeCheck>, LostMembers), Failure> {
        self.root.send_checks(ranks.iter().copied());
        let size = ranks.len() as u32;
        let limit = by_size(REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, size);
        let reason = format!("it did not check its NICs within {}", time_text(limit));
        let until = Instant::now() + limit::in_effect(limit);
        let mut checks = BTreeMap::new();
        let lost = self.wait_for(ranks, until, &reason, line, |event| match event {
            Event::Checked { rank, document } => {
                checks.extend(NodeCheck::read(&document).ok().map(|check| (rank, check)));
                Some(rank)
            }
            _ => None,
        })?;
        Ok((checks, lost))
    }

    /// Asks a process how fast it copies memory; `None` if it does not answer, or if that says
    /// nothing about the memory of its node. Returns the lost members as well, with the reasons.
    pub fn memory_copy(
        &mut self,
        rank: u32,
        line: impl Line,
    ) -> Result<(Option<MemoryCopy>, LostMembers), Failure> {
        self.root.send_copy_memory(rank);
        let reason = format!("it did not copy memory within {}", time_text(REPORT_LIMIT));
        let until = Instant::now() + limit::in_effect(REPORT_LIMIT);
        let mut found = None;
        let lost = self.wait_for([rank].into(), until, &reason, line, |event| match event {
            Event::CopiedMemory { rank: number, copy } if number == rank => {
                found = copy;
                Some(number)
            }
            _ => None,
        })?;
        Ok((found, lost))
    }

    /// Has the members measure a block of rounds, in slots of this length.
    pub fn run_block(
        &mut self,
        rounds: &[Round],
        slot: Duration,
        line: impl Line,
    ) -> Result<MeasuredBlock, Failure> {
        let size = self.members.roster.nodes.len() as u32;
        let notice = by_size(NOTICE, NOTICE_OF_THOUSAND, size);
        let slots = Slots {
            block: self.block,
            first_round: self.round,
            begins_ns: now_ns() + notice.as_nanos() as u64,
            slot_ns: slot.as_nanos() as u64,
        };
        let (blocks, left_out) =
            blocks(rounds, slots, &self.members.roster, &self.members.addresses);
        let slots_of: BTreeMap<u32, usize> =
            blocks.iter().map(|(rank, block)| (*rank, block.tasks.len())).collect();
        let waiting: BTreeSet<u32> = blocks.keys().copied().collect();
        self.root.send_blocks(blocks.into_iter().collect());
        let length = notice + slot * rounds.len() as u32;
        let number = self.block;
        let Reports { reports, lost, failed } =
            self.wait_for_reports(waiting, length, line, |event| match event {
                Event::Report(report) if report.block == number => {
                    Some((report.rank, report.addresses.clone(), report))
                }
                _ => None,
            })?;
        self.round += rounds.len() as u32;
        Ok(MeasuredBlock { slots, slots_of, reports, left_out, lost, failed })
    }

    /// Has the members load the fabric, or measure under load, in slots of this length. The fabric
    /// is `idle` before that for this time at least.
    pub fn run_load_block(
        &mut self,
        parts: &[SlotParts],
        slot: Duration,
        window_bytes: u64,
        idle: Duration,
        line: impl Line,
    ) -> Result<LoadedBlock, Failure> {
        let size = self.members.roster.nodes.len() as u32;
        let notice = by_size(NOTICE, NOTICE_OF_THOUSAND, size).max(idle);
        let slots = LoadSlots {
            block: self.block,
            begins_ns: now_ns() + notice.as_nanos() as u64,
            slot_ns: slot.as_nanos() as u64,
            window_bytes,
        };
        let blocks = load_blocks(parts, slots, &self.members.roster);
        let waiting: BTreeSet<u32> = blocks.keys().copied().collect();
        self.root.send_load_blocks(blocks.into_iter().collect());
        let length = notice + slot * parts.len() as u32;
        let number = self.block;
        let Reports { reports, lost, failed } =
            self.wait_for_reports(waiting, length, line, |event| match event {
                Event::LoadReport(report) if report.block == number => {
                    Some((report.rank, report.addresses.clone(), report))
                }
                _ => None,
            })?;
        Ok(LoadedBlock { results: by_slot(reports, parts.len()), lost, failed })
    }

    /// Has all NICs count for this time what others send and receive.
    pub fn watch(&mut self, time: Duration, line: impl Line) -> Result<LoadedBlock, Failure> {
        let addresses = &self.members.addresses;
        let open = self.members.roster.nic_ids();
        let open = open.filter(|nic| addresses[nic.index()].is_some());
        let parts = open.map(|nic| (nic, LoadPart::Watch)).collect();
        self.run_load_block(&[parts], time, 0, Duration::ZERO, line)
    }

    /// Waits for the reports of the members of `waiting` about a block that ends after this time,
    /// and takes the addresses of their NICs from them. `answer` returns the rank, the addresses
    /// and the report in an event.
    fn wait_for_reports<R>(
        &mut self,
        waiting: BTreeSet<u32>,
        length: Duration,
        line: impl Line,
        mut answer: impl FnMut(Event) -> Option<(u32, Addresses, R)>,
    ) -> Result<Reports<R>, Failure> {
        let size = self.members.roster.nodes.len() as u32;
        let limit = by_size(REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, size);
        let until = Instant::now() + length + limit::in_effect(limit);
        let reason =
            format!("it did not report within {} after the end of its slots", time_text(limit));
        let (mut reports, mut addresses) = (Vec::new(), Vec::new());
        let lost = self.wait_for(waiting, until, &reason, line, |event| {
            let (rank, nic_addresses, report) = answer(event)?;
            reports.push(report);
            addresses.push((rank, nic_addresses));
            Some(rank)
        })?;
        let mut failed = Vec::new();
        for (rank, nic_addresses) in &addresses {
            failed.extend(self.members.set_addresses(*rank, nic_addresses));
        }
        self.block += 1;
        Ok(Reports { reports, lost, failed })
    }

    /// Waits until all members of `waiting` have answered. `answer` returns the rank of the member
    /// that an event answers for. A member that is silent at `until` is given up, for this
    /// `reason`; a member that has lost its connection gets the time to return. Returns the lost
    /// members, with the reasons.
    fn wait_for(
        &mut self,
        mut waiting: BTreeSet<u32>,
        mut until: Instant,
        reason: &str,
        line: impl Line,
        mut answer: impl FnMut(Event) -> Option<u32>,
    ) -> Result<LostMembers, Failure> {
        let mut lost = BTreeMap::new();
        while !waiting.is_empty() {
            let roster = &self.members.roster;
            self.notes.progress.show(|width| line(roster, width));
            let next = until.min(Instant::now() + Duration::from_millis(500));
            for event in self.root.poll(next)? {
                match event {
                    Event::Lost { rank, reason } => {
                        self.late.lose(rank);
                        waiting.remove(&rank);
                        if let Some(node) = self.members.node(rank) {
                            let host = &self.members.roster.node(node).host;
                            self.notes.add(&format!("{host}: {reason}"));
                        }
                        lost.insert(rank, reason);
                    }
                    Event::Joined(introduction) => self.late.arrive(introduction),
                    event => {
                        if let Some(rank) = answer(event) {
                            waiting.remove(&rank);
                        }
                    }
                }
            }
            if Instant::now() >= until {
                for rank in self.root.give_up_silent(&waiting, reason) {
                    waiting.remove(&rank);
                    lost.insert(rank, reason.to_owned());
                }
                until = Instant::now() + limit::in_effect(GRACE);
            }
        }
        Ok(lost)
    }
}

/// Returns a limit that is longer for many members.
pub fn by_size(limit: Duration, thousand_time: Duration, size: u32) -> Duration {
    limit + thousand_time * (size / 1000)
}
