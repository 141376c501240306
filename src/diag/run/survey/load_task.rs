//! One task of a NIC in a slot under load.

use super::slot::reason;
use crate::targets::{Attempt, LoadTimes, TargetNic};
use cluster::load::timetable::{LoadAnswer, LoadPart};
use cluster::survey::ids::TestId;
use cluster::survey::untested::Untested;
use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use plan::run_options::Side;

/// What has come of a task.
pub struct Outcome {
    pub answer: LoadAnswer,
    /// For which part of the counted time the process waited for a CPU, in percent; 0 if the model
    /// of the fabric explains the figures all the same.
    pub waited_percent: u8,
    /// Whether all resources were released, without an operation under way.
    pub is_released: bool,
}

/// The result of a task, and whether everything was released.
type Performed = (Result<LoadAnswer, Failure>, bool);

/// Does a task of `nic`. `has_moved` is whether peers know another address of the NIC.
pub fn perform(
    nic: &mut TargetNic,
    part: &LoadPart,
    (times, window_bytes): (LoadTimes, u64),
    has_moved: bool,
) -> Outcome {
    let attempt = attempt(part, times);
    let checked = attempt.check().and_then(|()| check(nic, part, has_moved));
    let (result, is_released) = match checked {
        Err(failure) => (Err(failure), true),
        Ok(()) => match part {
            LoadPart::Send { test, peers } => {
                let load = (&peers[..], window_bytes);
                let done = nic.load(test.index(), load, times, &attempt);
                let sent = done
                    .result
                    .map(|sent| LoadAnswer::Sent { bytes: sent.bytes, unreached: sent.unreached });
                (sent, done.is_released)
            }
            LoadPart::Measure { test, peer } => measure(nic, *test, *peer, times, &attempt),
            LoadPart::Answer { test, peer } => {
                let confined = nic.confine(Side::Server);
                let done = nic.serve(test.index(), *peer, &attempt);
                drop(confined);
                (done.result.map(|()| LoadAnswer::Present), done.is_released)
            }
            LoadPart::Watch => {
                let watched = nic.watch(times, &attempt);
                (watched.map(|()| LoadAnswer::Present), true)
            }
        },
    };
    Outcome {
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
    (done.result.map(LoadAnswer::Measured), done.is_released)
}

/// Returns the attempt of a NIC in its slot.
fn attempt(part: &LoadPart, times: LoadTimes) -> Attempt {
    match part {
        // Bytes show a late start, and say nothing if half of the time is over.
        LoadPart::Send { .. } => {
            let latest = times.count + times.counted_time() / 2;
            Attempt::until(latest, times.aggressor_window(), Side::Client)
        }
        LoadPart::Measure { .. } => {
            Attempt::until(times.counted, times.other_window(), Side::Client)
        }
        LoadPart::Answer { .. } | LoadPart::Watch => {
            Attempt::until(times.counted, times.other_window(), Side::Server)
        }
    }
}

/// Checks that the NIC can take its part.
///
/// # Errors
///
/// The reason why it cannot: of [`Kind::Nic`] if it is about the NIC.
fn check(nic: &TargetNic, part: &LoadPart, has_moved: bool) -> Result<(), Failure> {
    nic.address().map_err(Failure::environment)?;
    if !matches!(part, LoadPart::Answer { .. } | LoadPart::Watch) {
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
fn answer_of(failure: &Failure, attempt: &Attempt) -> LoadAnswer {
    if failure.kind != Kind::Nic {
        return LoadAnswer::Untested(reason(failure));
    }
    match attempt.stalled() {
        Some(_) => LoadAnswer::Untested(Untested::Paused),
        None => LoadAnswer::Failed(failure.message()),
    }
}
