//! The ranks of all nodes of a job at one place: by the tasks of a launcher, or through
//! `cxidiag serve` on each host, which starts a process of this command for that.

use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;

use crate::document::HangReport;
use crate::merging::merged;
use crate::reading::{self, INTERVAL, NodeReading, ReadingTimes, SHORTEST_INTERVAL, STACK_TIME};
use crew::gathering::Gathering;
use crew::launcher::LauncherTask;
use diag::run::serve::{Taken, take_client};
use facts::error::{Failure, Kind};
use facts::job::Job;
use page::json;
use session::requests::{Question, RanksOrder};

/// Reads the ranks of this node as a task of a launcher, one task a node. The coordinator alone
/// reports.
///
/// # Errors
///
/// In the coordinator the failures of `report`. The others end without a failure, unless they are
/// interrupted.
pub fn run_task(
    task: &LauncherTask,
    meeting_point: Option<&Path>,
    times: ReadingTimes,
    report: impl FnOnce(&dyn Fn() -> Result<NodeReading, Failure>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let gathering = Gathering { command: "why", meeting_point, window: times.total(), last: None };
    // A node without ranks is no failure of its task.
    let document = || {
        if !task.is_first_of_node() {
            return Ok(Vec::new());
        }
        match reading::read(&[], None, times) {
            Err(failure) if failure.kind == Kind::Interrupted => Err(failure),
            read => json::line(&read.map_err(|failure| failure.message())),
        }
    };
    let read = |document: &[u8]| json::read::<Result<NodeReading, String>>(document)?;
    gathering
        .run(task, &document, &read, |gather| report(&|| merged(gather()?, task.job.as_deref())))
}

/// Asks the server on each host for the ranks of this user.
///
/// # Errors
///
/// The failures of [`merged`], and an interruption.
pub fn ask_hosts(
    hosts: &[String],
    port: Option<u16>,
    times: ReadingTimes,
) -> Result<NodeReading, Failure> {
    let order = RanksOrder {
        user: geteuid().as_raw(),
        job: Job::from_environment().map(|job| job.id),
        interval_ms: times.interval.as_millis() as u64,
        stack_ms: times.stacks.unwrap_or_default().as_millis() as u64,
    };
    let read = |document: &[u8]| {
        let report = HangReport::parse(document);
        let report = report.map_err(|why| format!("it sent no document of why --job: {why}"));
        Ok(report.map_err(Failure::environment)?.node)
    };
    let answers = Question::ranks(&order, times.total()).ask_all(hosts, port, read)?;
    merged(answers, order.job.as_deref())
}

/// Reads the ranks of this node for the client of this process.
///
/// # Errors
///
/// A client that ends or sends no order, ranks that may not or cannot be read, and an interruption.
pub fn serve_client() -> Result<(), Failure> {
    let Taken { caller, .. } = take_client()?;
    let order: RanksOrder = caller.order()?;
    let read = times(&order, geteuid().as_raw()).and_then(|times| {
        json::line(&HangReport::new(reading::read(&[], order.job.clone(), times)?))
    });
    match read {
        Ok(document) => caller.send_document(&document),
        Err(mut failure) => {
            // The server logs the last line, which is to be the failure.
            failure.hint = None;
            Err(caller.refuse(failure))
        }
    }
}

/// The times of the readings, if this server, which runs as the user `own`, may read the ranks.
fn times(order: &RanksOrder, own: u32) -> Result<ReadingTimes, Failure> {
    let refused = |why: String| {
        Err(Failure::environment(format!("{why}: run 'cxidiag serve' as the user of the job")))
    };
    if own == 0 {
        // It sees the processes of all users.
        return refused("this server runs as root, and reads no ranks".into());
    }
    if order.user != own {
        let user = order.user;
        return refused(format!("this server runs as user {own}, and its client as user {user}"));
    }
    let interval = Duration::from_millis(order.interval_ms);
    if !(SHORTEST_INTERVAL..=INTERVAL).contains(&interval) {
        let message = format!("the client wants readings each {} ms", order.interval_ms);
        return Err(Failure::environment(message));
    }
    let stacks = Duration::from_millis(order.stack_ms);
    if stacks > STACK_TIME {
        let message = format!("the client wants {} ms for stacks", order.stack_ms);
        return Err(Failure::environment(message));
    }
    Ok(ReadingTimes { interval, stacks: Some(stacks).filter(|time| !time.is_zero()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_the_ranks_of_its_own_user() {
        let ordered = |user, interval_ms, stack_ms, own| {
            let order = RanksOrder { user, job: None, interval_ms, stack_ms };
            times(&order, own).map_err(|failure| failure.message())
        };
        let asked = |user, interval_ms, own| ordered(user, interval_ms, 0, own);
        let expected = ReadingTimes { interval: INTERVAL, stacks: None };
        assert_eq!(asked(1001, 4000, 1001), Ok(expected));
        let expected = ReadingTimes { interval: INTERVAL, stacks: Some(STACK_TIME) };
        assert_eq!(ordered(1001, 4000, 2000, 1001), Ok(expected));
        let refusal = ordered(1001, 4000, 2001, 1001).unwrap_err();
        assert_eq!(refusal, "the client wants 2001 ms for stacks");
        for (user, interval_ms, own, words) in [
            (0, 4000, 0, "this server runs as root, and reads no ranks: run 'cxidiag serve' as"),
            (1001, 4000, 0, "this server runs as root"),
            (1002, 4000, 1001, "this server runs as user 1001, and its client as user 1002"),
            (0, 4000, 1001, "its client as user 0"),
            (1001, 4001, 1001, "each 4001 ms"),
            (1001, 9, 1001, "each 9 ms"),
        ] {
            let refusal = asked(user, interval_ms, own).unwrap_err();
            assert!(refusal.contains(words), "{refusal}");
        }
    }
}
