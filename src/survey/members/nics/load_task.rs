//! One task of a NIC in a slot under load.

use std::collections::BTreeMap;

use crate::targets::{Attempt, LoadTimes, TargetNic};
use campaign::quiet::answer::Untested;
use campaign::quiet::ids::{NicId, TestId};
use campaign::timetable::{SlotTask, TaskAnswer};
use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use plan::run_options::Side;

/// What has come of a task.
pub struct TaskOutcome {
    pub answer: TaskAnswer,
    /// For which part of the counted time the process waited for a CPU, in percent; 0 if the model
    /// of the fabric explains the figures all the same.
    pub waited_percent: u8,
    /// Whether all resources were released, without an operation under way.
    pub is_released: bool,
}

/// The result of a task, and whether everything was released.
type Performed = (Result<TaskAnswer, Failure>, bool);

/// Does a part of `nic`, for which it knows the addresses of its peers. `has_moved` is whether
/// peers know another address of the NIC.
pub fn perform(
    nic: &mut TargetNic,
    (part, addresses): (&SlotTask, &BTreeMap<NicId, FabricAddress>),
    (times, window_bytes): (LoadTimes, u64),
    has_moved: bool,
) -> TaskOutcome {
    let attempt = attempt(part, times);
    let checked = attempt.check().and_then(|()| check(nic, part, has_moved));
    let (result, is_released) = match checked {
        Err(failure) => (Err(failure), true),
        Ok(()) => match part {
            SlotTask::Send { test, targets } => {
                let peers: Vec<FabricAddress> = targets.iter().map(|nic| addresses[nic]).collect();
                let load = (&peers[..], window_bytes);
                let done = nic.load(test.index(), load, times, &attempt);
                let sent = done
                    .result
                    .map(|sent| TaskAnswer::Sent { bytes: sent.bytes, unreached: sent.unreached });
                (sent, done.is_released)
            }
            SlotTask::Measure { test, target, .. } => {
                measure(nic, *test, addresses[target], times, &attempt)
            }
            SlotTask::Answer { test, initiator } => {
                let confined = nic.confine(Side::Server);
                let done = nic.serve(test.index(), addresses[initiator], &attempt);
                drop(confined);
                (done.result.map(|()| TaskAnswer::Present), done.is_released)
            }
            SlotTask::Watch => {
                let watched = nic.watch(times, &attempt);
                (watched.map(|()| TaskAnswer::Present), true)
            }
        },
    };
    TaskOutcome {
        answer: result.unwrap_or_else(|failure| answer_of(&failure, &attempt)),
        waited_percent: attempt.waited_percent(),
        is_released,
    }
}

fn measure(
    nic: &mut TargetNic,
    test: TestId,
    peer: FabricAddress,
    times: LoadTimes,
    attempt: &Attempt,
) -> Performed {
    let confined = nic.confine(Side::Client);
    let done = nic.measure_loaded(test.index(), peer, times, attempt);
    drop(confined);
    (done.result.map(TaskAnswer::Latencies), done.is_released)
}

/// Returns the attempt of a NIC in its slot.
fn attempt(part: &SlotTask, times: LoadTimes) -> Attempt {
    match part {
        // Bytes show a late start, and say nothing if half of the time is over.
        SlotTask::Send { .. } => {
            let latest = times.count + times.counted_time() / 2;
            Attempt::until(latest, times.aggressor_window(), Side::Client)
        }
        SlotTask::Measure { .. } => {
            Attempt::until(times.counted, times.other_window(), Side::Client)
        }
        SlotTask::Answer { .. } | SlotTask::Watch => {
            Attempt::until(times.counted, times.other_window(), Side::Server)
        }
    }
}

/// Checks that the NIC can take its part.
///
/// # Errors
///
/// The reason why it cannot: of [`Kind::Nic`] if it is about the NIC.
fn check(nic: &TargetNic, part: &SlotTask, has_moved: bool) -> Result<(), Failure> {
    nic.address().map_err(Failure::environment)?;
    if !matches!(part, SlotTask::Answer { .. } | SlotTask::Watch) {
        return Ok(());
    }
    if has_moved {
        let why = format!("the address of {} has changed", nic.device());
        return Err(Failure::environment(why));
    }
    let failed = nic.failed_target();
    failed.map_or(Ok(()), |why| Err(Failure::nic(why.to_owned())))
}

/// Returns what a failure says: a failure of this process, or while this process did not run, says
/// nothing about the fabric.
fn answer_of(failure: &Failure, attempt: &Attempt) -> TaskAnswer {
    if failure.kind != Kind::Nic {
        return TaskAnswer::Untested(failure.into());
    }
    match attempt.stalled() {
        Some(_) => TaskAnswer::Untested(Untested::Paused),
        None => TaskAnswer::Failed(failure.message()),
    }
}
