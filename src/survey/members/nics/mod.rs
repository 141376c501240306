//! What a process of a survey measures: its NICs, slot by slot.
//!
//! * This file: the NICs of the process, each in a thread of its own.
//! * `nic`: one NIC, what it does in each slot, with load and without, and when operations run
//!   there.
//! * `counter_watch`: the counters of a NIC that may explain an answer.
//! * `rules`: which options of a tool a survey can measure with.

mod counter_watch;
#[cfg(test)]
mod load_process_tests;
#[cfg(test)]
mod load_tests;
mod nic;
#[cfg(test)]
mod process_tests;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

pub use crate::targets::{NicPlan, TestPlan};
use nic::{CurrentStep, MemberNic, ThreadOrder};
pub use rules::{buffer_bytes, is_two_sided};

use campaign::quiet::answer::Untested;
use campaign::quiet::roster::NicId;
use campaign::timetable::{Block, Report, Task, TaskAnswer, TaskResult, TestSetup};
use crew::introduction::IntroducedNic;
use facts::device::FabricAddress;
use facts::error::Failure;
use facts::{interrupt, threads};

/// How long a NIC may take to be opened, and to open its targets.
const OPENING_LIMIT: Duration = Duration::from_secs(20);

/// How long after the end of a block a NIC may take to release the resources of its last pair.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// Blocks one after the other whose tasks do not end in time, after which a NIC is given up.
const MOST_LATE_BLOCKS: u32 = 3;

/// Interval at which the process checks for an interruption while its NICs work.
const SLICE: Duration = Duration::from_millis(50);

/// The NICs of a process. Each NIC has a thread, so that a call of the library that does not return
/// delays one NIC only.
pub struct Nics {
    members: Vec<Member>,
    rank: u32,
    first_nic: NicId,
}

/// A NIC, seen from outside of its thread.
struct Member {
    facts: IntroducedNic,
    /// None if the NIC could not be opened, or was given up.
    thread: Option<Worker>,
    /// Blocks one after the other whose tasks had not ended in time.
    late_blocks: u32,
}

struct Worker {
    orders: Sender<ThreadOrder>,
    thread: JoinHandle<()>,
    /// What the thread does.
    step: CurrentStep,
}

impl Nics {
    /// Opens the NICs side by side. The facts about a NIC that cannot be opened say why.
    ///
    /// # Errors
    ///
    /// A thread that cannot be started.
    pub fn open(plans: Vec<NicPlan>) -> Result<Self, Failure> {
        let opening = plans.into_iter().enumerate().map(|(place, plan)| open(plan, place));
        let opening = opening.collect::<Result<Vec<_>, _>>()?;
        let until = Instant::now() + OPENING_LIMIT;
        let members = opening.into_iter().map(|opening| opening.wait(until));
        Ok(Self { members: members.collect(), rank: 0, first_nic: NicId(0) })
    }

    /// The facts about the NICs, in the order of their plans.
    pub fn facts(&self) -> Vec<IntroducedNic> {
        self.members.iter().map(|member| member.facts.clone()).collect()
    }

    /// Prepares the process of this `rank` for `course`, whose tests have these `plans`: opens the
    /// targets of one-sided tools, which stay open.
    ///
    /// A target that cannot be opened is reported as the failure of each of its pairs.
    pub fn begin(&mut self, rank: u32, course: &TestSetup, plans: &[TestPlan]) {
        (self.rank, self.first_nic) = (rank, course.first_nic);
        let (done, begun) = bounded(0);
        for member in &self.members {
            member.order(ThreadOrder::Begin {
                tests: plans.to_vec(),
                pair: Duration::from_nanos(course.pair_ns),
                done: done.clone(),
            });
        }
        drop(done);
        // It ends when all NICs have dropped their sender.
        let _ = begun.recv_timeout(OPENING_LIMIT);
    }

    /// Does the tasks of `block`, whose times `local_clock` converts to the clock of this process.
    /// Returns when all tasks are done: at the latest two seconds after the last slot, or after an
    /// interruption.
    pub fn run(&mut self, block: &Arc<Block>, local_clock: impl Fn(u64) -> Instant) -> Report {
        let slot_begins =
            |slot: u32| local_clock(block.begins_ns + u64::from(slot) * block.slot_ns);
        let (sender, reports) = unbounded();
        for (index, member) in self.members.iter().enumerate() {
            let own = block.tasks.iter().filter(|task| self.member_of(task.nic) == Some(index));
            member.order(ThreadOrder::Run {
                block: block.clone(),
                tasks: own.map(|task| (task.clone(), slot_begins(task.slot))).collect(),
                reports: sender.clone(),
            });
        }
        drop(sender);
        let until = slot_begins(block.slots);
        let place = |task: &Task| (task.slot, task.nic);
        let mut left: BTreeSet<(u32, NicId)> = block.tasks.iter().map(place).collect();
        let mut results = Vec::new();
        let mut beyond = Duration::ZERO;
        while let Some(report) = next(&reports, until) {
            let (slot, nic) = report.place;
            left.remove(&(slot, nic));
            beyond = beyond.max(report.beyond);
            self.end_in_time(self.member_of(nic));
            self.note_address(self.member_of(nic), report.address);
            results.extend(report.result);
        }
        let late = left.iter().map(|(_, nic)| self.member_of(*nic)).collect();
        self.note_late(late);
        for (slot, nic) in left {
            let why = self.why_late(self.member_of(nic));
            let answer = TaskAnswer::Untested(Untested::Other(why));
            results.push(TaskResult::new(slot, nic, answer));
        }
        Report {
            block: block.number,
            rank: self.rank,
            results,
            addresses: self.members.iter().map(Member::address).collect(),
            beyond_ns: beyond.as_nanos() as u64,
            clock_uncertainty_ns: None,
            load: None,
        }
    }

    /// The index of a NIC in this process, if it is one of its NICs.
    fn member_of(&self, nic: NicId) -> Option<usize> {
        let index = nic.0.checked_sub(self.first_nic.0)? as usize;
        (index < self.members.len()).then_some(index)
    }

    /// Notes that a NIC has ended a task in time.
    fn end_in_time(&mut self, nic: Option<usize>) {
        if let Some(member) = nic.and_then(|index| self.members.get_mut(index)) {
            member.late_blocks = 0;
        }
    }

    /// Notes the address of a NIC after a task, or why it has none.
    fn note_address(&mut self, nic: Option<usize>, address: Result<FabricAddress, String>) {
        let Some(member) = nic.and_then(|index| self.members.get_mut(index)) else {
            return;
        };
        match address {
            Ok(address) => member.facts.address = Some(address),
            Err(why) => member.fail(why),
        }
    }

    /// Notes the NICs with these indices, whose tasks of a block have not ended, unless the process
    /// was interrupted. A NIC goes on in its thread, and its pairs are measured later; it is given
    /// up after the last of [`MOST_LATE_BLOCKS`] blocks one after the other.
    fn note_late(&mut self, nics: BTreeSet<Option<usize>>) {
        if interrupt::check().is_err() {
            return;
        }
        for index in nics.into_iter().flatten() {
            let member = &mut self.members[index];
            member.late_blocks += 1;
            if member.late_blocks < MOST_LATE_BLOCKS {
                continue;
            }
            // The thread is left behind: nothing can end a call of the library that does not
            // return.
            if let Some(worker) = member.thread.take() {
                let late = member.late();
                let step = worker.step.name();
                member.fail(format!("{late} {MOST_LATE_BLOCKS} times: {step} did not return"));
            }
        }
    }

    /// Returns why a task was not done. `nic` is the index of its NIC.
    fn why_late(&self, nic: Option<usize>) -> String {
        if let Err(interrupted) = interrupt::check() {
            return interrupted.message();
        }
        match nic.map(|index| &self.members[index]) {
            None => "the NIC is not one of this process".into(),
            Some(member) if member.thread.is_some() => member.late(),
            Some(member) => member.failure(),
        }
    }
}

impl Drop for Nics {
    /// Releases the NICs, but does not wait for one that does not answer.
    fn drop(&mut self) {
        let until = Instant::now() + RELEASE_LIMIT;
        let workers = self.members.drain(..).filter_map(|member| member.thread);
        let threads: Vec<_> = workers.map(|Worker { thread, .. }| thread).collect();
        while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Member {
    /// Notes why the NIC cannot be measured with any longer.
    fn fail(&mut self, why: String) {
        (self.facts.address, self.facts.failure) = (None, Some(why));
    }

    /// Returns why the tasks of a block were not done.
    fn late(&self) -> String {
        format!(
            "the tasks of {} did not end in time (no CPU for its thread, or it hangs)",
            self.facts.device
        )
    }

    /// Returns why the NIC cannot be measured with.
    fn failure(&self) -> String {
        let failure = self.facts.failure.clone();
        failure.unwrap_or_else(|| "the NIC is not open".into())
    }

    /// The address of the NIC, or why it cannot be measured with.
    fn address(&self) -> Result<FabricAddress, String> {
        self.facts.address.ok_or_else(|| self.failure())
    }

    /// Sends an order, which a NIC that is not open does not receive.
    fn order(&self, order: ThreadOrder) {
        if let Some(worker) = &self.thread {
            // A thread that has panicked has reported it, and its tasks stay undone.
            let _ = worker.orders.send(order);
        }
    }
}

/// A NIC that is being opened.
struct Opening {
    device: String,
    facts: Receiver<IntroducedNic>,
    worker: Worker,
}

/// Begins to open a NIC, in a thread of its own. `place` is its number in the process.
fn open(plan: NicPlan, place: usize) -> Result<Opening, Failure> {
    let device = plan.device.to_string();
    let name = device.clone();
    let (orders, received) = unbounded();
    let (sender, facts) = bounded(1);
    let step = CurrentStep::default();
    let thread_step = step.clone();
    let run = move || match MemberNic::open(plan, place, thread_step) {
        Ok(nic) => {
            // The receiver is gone if this NIC was given up.
            let _ = sender.send(nic.facts());
            nic.follow(&received);
        }
        Err(failure) => {
            let _ = sender.send(unopened(name, failure.message()));
        }
    };
    let thread = threads::start(&device, run)?;
    Ok(Opening { device, facts, worker: Worker { orders, thread, step } })
}

impl Opening {
    /// Waits until the NIC is open.
    fn wait(self, until: Instant) -> Member {
        let facts = self.facts.recv_deadline(until).unwrap_or_else(|_| {
            let limit = OPENING_LIMIT.as_secs();
            let why = format!("{} was not opened within {limit} s", self.device);
            unopened(self.device.clone(), why)
        });
        let is_open = facts.failure.is_none();
        Member { facts, thread: is_open.then_some(self.worker), late_blocks: 0 }
    }
}

/// The facts about a NIC that could not be opened.
fn unopened(device: String, why: String) -> IntroducedNic {
    IntroducedNic {
        device,
        address: None,
        vni: 0,
        class: String::new(),
        location: None,
        simulated: false,
        link_gbps: None,
        failure: Some(why),
    }
}

/// The next report; `None` if all orders are done, and if no report comes within [`RELEASE_LIMIT`]
/// after `until`.
fn next<T>(reports: &Receiver<T>, until: Instant) -> Option<T> {
    // A process that was stopped in the meantime gets this time as well.
    let mut left = RELEASE_LIMIT;
    loop {
        match reports.recv_timeout(SLICE) {
            Ok(report) => return Some(report),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupt::requested() || Instant::now() > until {
            left = left.checked_sub(SLICE)?;
        }
    }
}
