//! The coordinator of a survey: the crew of its campaigns. It sends the members orders, waits for
//! what they report, and gives up those that are silent.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::{Duration, Instant};

use super::slots::Members;
use super::timetable::{BlockTimes, blocks};
use crate::quiet::findings::Test;
use crate::slots::{
    AnsweredBlock, BlockLoad, CheckedNodes, Crew, LostMembers, MemberWork, ProgressText,
};
use crate::timetable::{Block, Report, Slot, SurveyWork, TestSetup};
use crew::host_list::compress;
use crew::introduction::Introduction;
use crew::star::{Event, GRACE, MemoryCopy, Root, now_ns};
use facts::error::Failure;
use facts::limit;
use facts::number::time_text;
use health::item::Readings;

/// How long the coordinator waits until the members are prepared for the test setup. A NIC may take
/// 20 seconds to open its targets.
const PREPARATION_LIMIT: Duration = Duration::from_secs(25);

/// How long the coordinator waits for reports after the end of a block, and longer for each
/// thousand members. A NIC may take two seconds to release the resources of its last pair.
const REPORT_LIMIT: Duration = Duration::from_secs(10);
const REPORT_LIMIT_OF_THOUSAND: Duration = Duration::from_secs(1);

/// Time in which a block reaches the members before it begins, and longer for each of them.
const NOTICE: Duration = Duration::from_millis(20);
const NOTICE_PER_MEMBER: Duration = Duration::from_micros(50);

/// How long the coordinator waits for answers after the end of the survey's time.
const OVERTIME: Duration = Duration::from_secs(3);

/// Longest time between two drawings of the line of progress.
const DRAWING: Duration = Duration::from_millis(500);

/// What the coordinator needs of the program: an output, the locations of NICs, and a reader of
/// checks.
pub trait Program {
    /// Prints a line that is not part of the result.
    fn note(&mut self, line: &str);

    /// Draws the line of progress, which fits into the number of columns that it is given.
    fn show(&mut self, line: &dyn Fn(usize) -> String);

    /// Sets the locations of all NICs, when processes have joined.
    fn locate(&mut self, joined: &BTreeMap<u32, Introduction>, members: &mut Members);

    /// Reads the document of the check of a node: what it says about these devices. `None` if it is
    /// no such document.
    fn readings(&self, document: &[u8], devices: &[&str]) -> Option<BTreeMap<String, Readings>>;
}

/// The coordinator, with the members that have joined.
pub struct SurveyCoordinator<P> {
    root: Root<SurveyWork>,
    members: Members,
    pub program: P,
    /// When the survey ends at the latest, if ever.
    pub ends: Option<Instant>,
    /// What the members have introduced, by rank.
    pub joined: BTreeMap<u32, Introduction>,
    /// Processes that have joined since the last block began.
    arrived: BTreeMap<u32, Introduction>,
    /// Whether the launcher knows the hosts of ranks that are missing.
    knows_hosts: bool,
    /// Number of the next block.
    block: u32,
    /// The tests of the last test setup.
    tests: Vec<Test>,
}

impl<P: Program> SurveyCoordinator<P> {
    /// The coordinator of these members, which have `joined` and which `root` connects. A process
    /// that joins late tells its host if `knows_hosts` is false.
    pub fn new(
        root: Root<SurveyWork>,
        members: Members,
        joined: BTreeMap<u32, Introduction>,
        knows_hosts: bool,
        program: P,
    ) -> Self {
        let (arrived, tests) = (BTreeMap::new(), Vec::new());
        let mut coordinator = Self {
            root,
            members,
            program,
            ends: None,
            joined,
            arrived,
            knows_hosts,
            block: 0,
            tests,
        };
        coordinator.program.locate(&coordinator.joined, &mut coordinator.members);
        coordinator
    }

    /// Ends the members, within this time at most. Returns the program, and a sentence about each
    /// member that has not ended.
    pub fn end(mut self, limit: Duration) -> (P, Vec<String>) {
        let ended = self.root.end(limit).into_iter();
        let sentence = |(rank, reason)| {
            let node = self.members.node(rank)?;
            Some(format!("{}: {reason}", self.members.roster.node(node).host))
        };
        let sentences = ended.filter_map(sentence).collect();
        // Members that have not ended yet find no coordinator, and end.
        (self.program, sentences)
    }

    fn size(&self) -> u32 {
        self.members.roster.nodes.len() as u32
    }

    /// The time until which members, which work for this time first, may send `what`, and the
    /// reason why a member that has not is given up.
    fn answer_deadline(&self, what: &str, work: Duration, limit: Duration) -> (Instant, String) {
        let works_until = Instant::now() + work;
        let until = works_until + limit::in_effect(limit);
        let last = self.ends.map(|ends| ends.max(works_until) + limit::in_effect(OVERTIME));
        match last.filter(|last| *last < until) {
            Some(last) => (last, "it did not answer before the time of the survey was up".into()),
            None => (until, silence(what, limit)),
        }
    }

    /// Waits until all members of `waiting` have sent `what`, which `work` for this time first.
    /// `answer` returns the rank of the member that an event answers for. A member that is silent
    /// for `limit` after its work is given up; a member that has lost its connection gets the time
    /// to return. Returns the lost members, with the reasons.
    fn wait_for(
        &mut self,
        mut waiting: BTreeSet<u32>,
        what: &str,
        (work, limit): (Duration, Duration),
        line: ProgressText,
        mut answer: impl FnMut(Event<SurveyWork>) -> Option<u32>,
    ) -> Result<LostMembers, Failure> {
        let (mut until, reason) = self.answer_deadline(what, work, limit);
        let mut lost = BTreeMap::new();
        // The events of members that were given up come at once, and have notes.
        let mut has_given_up = false;
        while !waiting.is_empty() || mem::take(&mut has_given_up) {
            let roster = &self.members.roster;
            self.program.show(&|width| line(roster, width));
            let wait = if waiting.is_empty() { Duration::ZERO } else { DRAWING };
            let next = until.min(Instant::now() + wait);
            let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for event in self.root.poll(next)? {
                match event {
                    Event::Lost { rank, reason } => {
                        self.arrived.remove(&rank);
                        waiting.remove(&rank);
                        if let Some(node) = self.members.lose(rank, &reason) {
                            let host = self.members.roster.node(node).host.clone();
                            hosts.entry(reason.clone()).or_default().push(host);
                        }
                        lost.insert(rank, reason);
                    }
                    Event::Joined(introduction) => {
                        self.arrived.insert(introduction.rank, introduction);
                    }
                    event => {
                        if let Some(rank) = answer(event) {
                            waiting.remove(&rank);
                        }
                    }
                }
            }
            for (reason, hosts) in hosts {
                let hosts = compress(hosts.iter().map(String::as_str));
                self.program.note(&format!("{hosts}: {reason}"));
            }
            if !waiting.is_empty() && Instant::now() >= until {
                for rank in self.root.give_up_silent(&waiting, &reason) {
                    waiting.remove(&rank);
                    lost.insert(rank, reason.clone());
                    has_given_up = true;
                }
                until = Instant::now() + limit::in_effect(GRACE);
            }
        }
        Ok(lost)
    }
}

impl<P: Program> Crew for SurveyCoordinator<P> {
    fn members(&self) -> &Members {
        &self.members
    }

    fn admit(&mut self) -> Vec<Introduction> {
        let arrived: Vec<Introduction> = mem::take(&mut self.arrived).into_values().collect();
        for introduction in &arrived {
            let host = (!self.knows_hosts).then_some(introduction.host.as_str());
            self.members.add_late(introduction, host);
            self.joined.insert(introduction.rank, introduction.clone());
        }
        if !arrived.is_empty() {
            self.program.locate(&self.joined, &mut self.members);
        }
        arrived
    }

    fn prepare(
        &mut self,
        ranks: &BTreeSet<u32>,
        setup: &TestSetup,
        line: ProgressText,
    ) -> Result<LostMembers, Failure> {
        self.tests.clone_from(&setup.tests);
        let firsts = self.members.first_nics.iter().filter(|(rank, _)| ranks.contains(rank));
        let own =
            |(rank, first): (&u32, &_)| (*rank, TestSetup { first_nic: *first, ..setup.clone() });
        self.root.send_setups(firsts.map(own).collect());
        let limit = by_size(PREPARATION_LIMIT, REPORT_LIMIT_OF_THOUSAND, ranks.len() as u32);
        let times = (Duration::ZERO, limit);
        self.wait_for(ranks.clone(), "targets", times, line, |event| match event {
            Event::Begun { rank } => Some(rank),
            _ => None,
        })
    }

    fn check(
        &mut self,
        ranks: &BTreeSet<u32>,
        line: ProgressText,
    ) -> Result<CheckedNodes, Failure> {
        self.root.send_checks(ranks.iter().copied());
        let limit = by_size(REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, ranks.len() as u32);
        let times = (Duration::ZERO, limit);
        let mut documents = Vec::new();
        self.wait_for(ranks.clone(), "files", times, line, |event| match event {
            Event::Checked { rank, document } => {
                documents.push((rank, document));
                Some(rank)
            }
            _ => None,
        })?;
        let roster = &self.members.roster;
        let read = |(rank, document): (u32, Vec<u8>)| {
            let own = roster.nics.iter().filter(|nic| roster.node(nic.node).rank == rank);
            let devices: Vec<&str> = own.map(|nic| nic.device.as_str()).collect();
            self.program.readings(&document, &devices).map(|readings| (rank, readings))
        };
        Ok(documents.into_iter().filter_map(read).collect())
    }

    fn copy_memory(
        &mut self,
        rank: u32,
        line: ProgressText,
    ) -> Result<Option<MemoryCopy>, Failure> {
        self.root.send_copy_memory(rank);
        let times = (Duration::ZERO, REPORT_LIMIT);
        let mut found = None;
        self.wait_for([rank].into(), "copy of memory", times, line, |event| match event {
            Event::CopiedMemory { rank: number, copy } if number == rank => {
                found = copy;
                Some(number)
            }
            _ => None,
        })?;
        Ok(found)
    }

    fn run(
        &mut self,
        slots: &[Slot],
        length: Duration,
        load: Option<BlockLoad>,
        line: ProgressText,
    ) -> Result<AnsweredBlock, Failure> {
        let idle = load.map_or(Duration::ZERO, |load| load.idle);
        let notice = notice(self.size()).max(idle);
        let number = self.block;
        self.block += 1;
        let times = BlockTimes {
            number,
            slot_ns: length.as_nanos() as u64,
            window_bytes: load.map(|load| load.window_bytes),
        };
        let blocks = blocks(slots, times, &self.members.roster, &self.members.addresses);
        let mut orders: Vec<(u32, Block)> =
            blocks.iter().map(|(rank, block)| (*rank, block.clone())).collect();
        // The notice does not include the time in which the blocks were built.
        let begins_ns = now_ns() + notice.as_nanos() as u64;
        orders.iter_mut().for_each(|(_, block)| block.begins_ns = begins_ns);
        self.root.send_blocks(orders);
        let limit = by_size(REPORT_LIMIT, REPORT_LIMIT_OF_THOUSAND, self.size());
        let work = notice + length * slots.len() as u32;
        let mut reports = Vec::new();
        let waiting = blocks.keys().copied().collect();
        let lost = self.wait_for(waiting, "report", (work, limit), line, |event| match event {
            Event::Report { rank, report } if report.block == number => {
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
        Ok(AnsweredBlock { reports, work, lost, failed })
    }

    fn note(&mut self, line: &str) {
        self.program.note(line);
    }
}

/// Returns why a member is given up that has not sent `what` within `limit`.
fn silence(what: &str, limit: Duration) -> String {
    format!("no {what} within {} (no CPU for the process, or it hangs)", time_text(limit))
}

/// Returns how long before its beginning a block is sent to this number of members.
fn notice(size: u32) -> Duration {
    NOTICE + NOTICE_PER_MEMBER * size
}

/// A limit that is longer for many members.
pub fn by_size(limit: Duration, thousand_time: Duration, size: u32) -> Duration {
    limit + thousand_time * (size / 1000)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::quiet::roster::Roster;
    use crate::quiet::testing::Cluster;
    use crate::slots::testing;
    use crew::star::Order;
    use crew::star::testing::*;

    /// A program without a terminal and without locations, and its notes.
    #[derive(Default)]
    struct SilentProgram(Vec<String>);

    impl Program for SilentProgram {
        fn note(&mut self, line: &str) {
            self.0.push(line.to_owned());
        }

        fn show(&mut self, line: &dyn Fn(usize) -> String) {
            line(80);
        }

        fn locate(&mut self, _: &BTreeMap<u32, Introduction>, _: &mut Members) {}

        fn readings(&self, _: &[u8], _: &[&str]) -> Option<BTreeMap<String, Readings>> {
            None
        }
    }

    /// The coordinator of two processes that have joined.
    fn coordinator(root: Observed<SurveyWork>) -> SurveyCoordinator<SilentProgram> {
        let cluster = Cluster::new([0, 0, 2, 1], &[], 0);
        let joined = [0, 1].map(|rank| (rank, testing::introduction(&cluster, rank))).into();
        let hosts = vec!["node0".into(), "node1".into()];
        let members = Members::new(hosts, &joined, |_| unreachable!("both have joined"));
        let program = SilentProgram::default();
        SurveyCoordinator::new(root.into_inner(), members, joined, true, program)
    }

    #[test]
    fn names_processes_without_cpus_in_one_line() {
        let (mut root, meeting) = root_of(2);
        let _silent = [0, 1].map(|rank| stopped(&mut root, &meeting, rank, 2));
        let mut crew = coordinator(root);
        let ranks = BTreeSet::from([0, 1]);
        let times = (Duration::ZERO, Duration::ZERO);
        let lost = crew.wait_for(ranks, "files", times, &|_, _| String::new(), |_| None).unwrap();
        assert_eq!(lost.len(), 2);
        let expected = "node[0-1]: no files within 0s (no CPU for the process, or it hangs)";
        assert_eq!(crew.program.0, [expected]);
    }

    /// The line of progress says so while others are still waited for.
    #[test]
    fn member_that_is_lost_is_absent_at_once() {
        let (mut root, meeting) = root_of(2);
        let other_meeting = meeting.clone();
        let failing = thread::spawn(move || {
            let mut member = join::<SurveyWork>(&meeting, 0, 2).unwrap();
            assert_eq!(member.next_order().unwrap(), Order::Check);
            member.fail("no NIC is left");
        });
        let (sender, receiver) = mpsc::channel();
        let waiting = thread::spawn(move || {
            let mut member = join::<SurveyWork>(&other_meeting, 1, 2).unwrap();
            assert_eq!(member.next_order().unwrap(), Order::Check);
            receiver.recv().unwrap();
            member.send_check(Vec::new());
            assert_eq!(member.next_order().unwrap(), Order::End);
            member.end();
        });
        events(&mut root, 2, joined);
        let mut crew = coordinator(root);
        let line = |roster: &Roster, _| {
            if roster.nodes[0].absent.is_some() {
                // It may have answered already.
                let _ = sender.send(());
            }
            String::new()
        };
        crew.check(&[0, 1].into(), &line).unwrap();
        let absent = crew.members().roster.nodes.iter().map(|node| node.absent.as_deref());
        assert_eq!(absent.collect::<Vec<_>>(), [Some("no NIC is left"), None]);
        assert_eq!(crew.end(LIMIT).1, [""; 0]);
        for member in [failing, waiting] {
            member.join().unwrap();
        }
    }

    #[test]
    fn notice_grows_with_each_member() {
        let notices = [0, 500, 999, 1000, 10_000].map(|size| notice(size).as_micros());
        assert_eq!(notices, [20_000, 45_000, 69_950, 70_000, 520_000]);
    }
}
