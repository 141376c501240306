//! The slots of a block under load.

use std::time::Instant;

use crossbeam_channel::unbounded;

use super::nic::NicOrder;
use super::{Member, Nics, next};
use crate::targets::LoadTimes;
use cluster::load::timetable::{LoadAnswer, LoadBlock, LoadReport, LoadResult, LoadTask, Times};
use cluster::survey::untested::Untested;

impl Nics {
    /// Does the tasks of `block`, whose times `local_clock` converts to the clock of this process.
    /// Returns when all tasks are done: at the latest two seconds after the last slot, or after an
    /// interruption.
    ///
    /// The report has a result for each task.
    pub fn run_load(
        &mut self,
        block: &LoadBlock,
        local_clock: impl Fn(u64) -> Instant,
    ) -> LoadReport {
        let slot_begins =
            |slot: u32| local_clock(block.begins_ns + u64::from(slot) * block.slot_ns);
        let times = Times::from_slot(block.slot_ns);
        let (sender, reports) = unbounded();
        let mut left: Vec<LoadTask> = Vec::new();
        let mut results = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            let is_of_member = |task: &&LoadTask| self.member_of_load(task) == Some(index);
            let tasks: Vec<LoadTask> = block.tasks.iter().filter(is_of_member).cloned().collect();
            let in_slot = |task: &LoadTask| LoadTimes::new(slot_begins(task.slot), times);
            member.order(NicOrder::RunLoad {
                tasks: tasks.iter().map(|task| (task.clone(), in_slot(task))).collect(),
                window_bytes: block.window_bytes,
                reports: sender.clone(),
            });
            left.extend(tasks);
        }
        drop(sender);
        let until = slot_begins(block.slots);
        while let Some(report) = next(&reports, until) {
            let is_of_result =
                |task: &LoadTask| (task.slot, task.nic) == (report.result.slot, report.result.nic);
            let place = left.iter().position(is_of_result);
            let task = place.map(|place| left.remove(place));
            let nic = task.and_then(|task| self.member_of_load(&task));
            self.end_in_time(nic);
            self.note_address(nic, report.address);
            results.push(report.result);
        }
        let late = left.iter().map(|task| self.member_of_load(task)).collect();
        self.note_late(late);
        for task in left {
            let why = self.why_late(self.member_of_load(&task));
            results.push(LoadResult {
                slot: task.slot,
                nic: task.nic,
                answer: LoadAnswer::Untested(Untested::Other(why)),
                waited_percent: 0,
                counters: Vec::new(),
            });
        }
        LoadReport {
            block: block.number,
            rank: self.rank,
            results,
            addresses: self.members.iter().map(Member::address).collect(),
            clock_uncertainty_ns: None,
        }
    }

    /// Returns the index of the NIC that does `task`, if it is one of these.
    fn member_of_load(&self, task: &LoadTask) -> Option<usize> {
        let index = task.nic.0.checked_sub(self.first_nic.0)? as usize;
        (index < self.members.len()).then_some(index)
    }
}
