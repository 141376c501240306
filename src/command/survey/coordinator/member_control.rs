//! The connection of a coordinator to the members: it sends them orders, and waits for what they
//! report.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::{Duration, Instant};

use crate::command::survey::late::LateMembers;
use crate::command::survey::members::Members;
use crate::command::survey::written::Notes;
use cluster::campaign::pairs::{self, LostMembers};
use cluster::survey::answer::PairResult;
use cluster::survey::busy::HostLoad;
use cluster::survey::findings::Test;
use cluster::survey::ids::{NicId, TestId};
use cluster::survey::roster::Roster;
use cluster::survey::rounds::Round;
use cluster::timetable::blocks::{BlockTimes, blocks, by_slot};
use cluster::timetable::{Course, Part, Report, Slot};
use cluster::tree::{DETOUR_LIMIT, Event, MemoryCopy, Root, now_ns};
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
    /// The tests of the last course.
    tests: Vec<Test>,
}

/// Returns the line of progress, which fits into this number of columns.
pub trait Line: Fn(&Roster, usize) -> String {}

impl<F: Fn(&Roster, usize) -> String> Line for F {}

/// The load of a block.
#[derive(Clone, Copy)]
pub struct BlockLoad {
    /// Bytes that a NIC that sends has under way at most.
    pub window_bytes: u64,
    /// How long the fabric is idle before the block, at least.
    pub idle: Duration,
}

/// What a member had to do in a block.
pub struct MemberWork {
    pub rank: u32,
    /// Number of its tasks, and of those for which it was too busy.
    pub tasks: u32,
    pub busy_tasks: u32,
    /// What used its CPUs, if it waited for one.
    pub load: Option<HostLoad>,
}

/// What the members have answered to a block.
pub struct AnsweredBlock {
    pub reports: Vec<Report>,
    pub work: Vec<MemberWork>,
    /// Members that were lost, with the reasons.
    pub lost: LostMembers,
    /// NICs that cannot measure any longer, with the reasons.
    pub failed: Vec<(NicId, String)>,
}

/// What the members have answered to a block of rounds.
pub struct MeasuredBlock {
    pub test: TestId,
    pub pairs: Vec<PairResult>,
    /// Longest time that a process needed for a pair, without the time in which pairs are measured;
    /// `None` without a report.
    pub beyond: Option<Duration>,
    /// Largest difference between the clocks of the processes, in nanoseconds; `None` if unknown.
    pub clock_uncertainty_ns: Option<u64>,
    pub answered: AnsweredBlock,
}

impl MemberControl {
    /// Returns the control of these members, which `root` connects.
    pub fn new(root: Root, members: Members, late: LateMembers, notes: Notes) -> Self {
        Self { root, members, late, notes, round: 0, block: 0, tests: Vec::new() }
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
        let courses: Vec<(u32, Course)> = courses.collect();
        self.tests = courses.first().map_or(Vec::new(), |(_, course)| course.tests.clone());
        self.root.send_courses(courses);
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
    pub fn run_rounds(
        &mut self,
        rounds: &[Round],
        length: Duration,
        line: impl Line,
    ) -> Result<MeasuredBlock, Failure> {
        let addresses = &self.members.addresses;
        let slot = |round| pairs::slot(round, |nic: NicId| addresses[nic.index()].is_some());
        let slots: Vec<Slot> = rounds.iter().map(slot).collect();
        let mut answered = self.run_slots(&slots, length, None, line)?;
        let first_round = self.round;
        self.round += rounds.len() as u32;
        let reports = mem::take(&mut answered.reports);
        let uncertainties = reports.iter().map(|report| report.clock_uncertainty_ns);
        let clock_uncertainty_ns = uncertainties.max().flatten();
        let beyond = reports.iter().map(|report| report.beyond_ns).max();
        Ok(MeasuredBlock {
            test: rounds[0].test,
            pairs: pairs::results(
                (rounds, first_round),
                &slots,
                by_slot(reports, slots.len()),
                &answered.lost,
                &self.members.roster,
            ),
            beyond: beyond.map(Duration::from_nanos),
            clock_uncertainty_ns,
            answered,
        })
    }

    /// Has the members do what `slots` of this length say, under this load if there is one.
    pub fn run_slots(
        &mut self,
        slots: &[Slot],
        length: Duration,
        load: Option<BlockLoad>,
        line: impl Line,
    ) -> Result<AnsweredBlock, Failure> {
        let size = self.members.roster.nodes.len() as u32;
        let idle = load.map_or(Duration::ZERO, |load| load.idle);
        let notice = by_size(NOTICE, NOTICE_OF_THOUSAND, size).max(idle);
        let number = self.block;
        let times = BlockTimes {
            number,
            begins_ns: now_ns() + notice.as_nanos() as u64,
            slot_ns: length.as_nanos() as u64,
            window_bytes: load.map(|load| load.window_bytes),
        };
        let blocks = blocks(slots, times, &self.members.roster, &self.members.addresses);
        self.root.send_blocks(blocks.iter().map(|(rank, block)| (*rank, block.clone())).collect());
        let limit = by_size(REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, size);
        let until = Instant::now() + notice + length * slots.len() as u32 + limit::in_effect(limit);
        let reason =
            format!("it did not report within {} after the end of its slots", time_text(limit));
        let mut reports = Vec::new();
        let waiting = blocks.keys().copied().collect();
        let lost = self.wait_for(waiting, until, &reason, line, |event| match event {
            Event::Report(report) if report.block == number => {
                let rank = report.rank;
                reports.push(report);
                Some(rank)
            }
            _ => None,
        })?;
        let mut failed = Vec::new();
        for report in &reports {
            failed.extend(self.members.set_addresses(report.rank, &report.addresses));
        }
        let member_work = |report: &Report| {
            let block = blocks.get(&report.rank)?;
            Some(MemberWork {
                rank: report.rank,
                tasks: block.tasks.len() as u32,
                busy_tasks: block.busy(&report.results, &self.tests),
                load: report.load.clone(),
            })
        };
        let work = reports.iter().filter_map(member_work).collect();
        self.block += 1;
        Ok(AnsweredBlock { reports, work, lost, failed })
    }

    /// Has all NICs count for this time what others send and receive.
    pub fn watch(&mut self, time: Duration, line: impl Line) -> Result<AnsweredBlock, Failure> {
        let addresses = &self.members.addresses;
        let open = self.members.roster.nic_ids();
        let open = open.filter(|nic| addresses[nic.index()].is_some());
        let slot = open.map(|nic| (nic, Part::Watch)).collect();
        let load = BlockLoad { window_bytes: 0, idle: Duration::ZERO };
        self.run_slots(&[slot], time, Some(load), line)
    }

    /// Waits until all members of `waiting` have answered. `answer` returns the rank of the member
    /// that an event answers for. A member that is silent at `until` is given up, for this
    /// `reason`; the members below it in the tree get the time to find another parent. Returns the
    /// lost members, with the reasons.
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
                until = Instant::now() + limit::in_effect(DETOUR_LIMIT);
            }
        }
        Ok(lost)
    }
}

/// Returns a limit that is longer for many members.
pub fn by_size(limit: Duration, thousand_time: Duration, size: u32) -> Duration {
    limit + thousand_time * (size / 1000)
}
