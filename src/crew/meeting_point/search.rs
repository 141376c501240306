//! How a task looks for the file of its coordinator.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Coordinator, MeetingPoint, SIGHT_LIMIT, absolute, port, read};
use crate::launcher::LauncherTask;
use crate::star::{KnockAnswer, knock};
use facts::error::Failure;
use facts::net::resolver;
use facts::number::time_text;
use facts::{interrupt, limit};

/// Shortest and longest time between two attempts to read the file.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Interval at which a process that does not see the file asks the coordinator.
const KNOCK_INTERVAL: Duration = Duration::from_millis(500);

impl MeetingPoint {
    /// Waits for the coordinator of `task` until `end`. A process that cannot connect to it calls
    /// this function again: a coordinator that was killed may have left its file, which the next
    /// one of the same job replaces.
    ///
    /// # Errors
    ///
    /// No file at `end`, a file that other users can write or read, a host without an address, and
    /// an interruption.
    pub fn find(&self, task: &LauncherTask, end: Instant) -> Result<Coordinator, Failure> {
        match self {
            Self::Agreed { host, port, token } => {
                let addresses = resolver::addresses(host, *port)?.map_err(|error| {
                    let reason = resolver::resolution(&error);
                    Failure::environment(format!("cannot resolve {host}: {reason}"))
                })?;
                Ok(Coordinator { host: host.clone(), addresses, token: token.clone() })
            }
            Self::File(path) => wait_for(path, task, end),
        }
    }
}

/// Waits until the coordinator of `task` has written its file. Without a file, asks the coordinator
/// on the first host of the launcher's list. The failure is printed by the coordinator, or else by
/// the first other task: all of them would print the same line.
///
/// # Errors
///
/// No file at `end`, one that other users can write or read, and an interruption.
fn wait_for(path: &Path, task: &LauncherTask, mut end: Instant) -> Result<Coordinator, Failure> {
    let since = Instant::now();
    let mut interval = INTERVALS.0;
    let mut next_knock = since + KNOCK_INTERVAL;
    let mut is_known = false;
    let other = loop {
        let other = match read(path)? {
            Some(contents) if contents.is_of(task) => return Coordinator::of(contents, path),
            other => other,
        };
        if !is_known && Instant::now() >= next_knock {
            match knock_at_first_host(task)? {
                Some(KnockAnswer::Failed(reason)) => {
                    return Err(Failure::environment(reason).printed());
                }
                Some(KnockAnswer::Waits) => {
                    is_known = true;
                    end = end.min(Instant::now() + limit::in_effect(SIGHT_LIMIT));
                }
                None => {}
            }
            next_knock = Instant::now() + KNOCK_INTERVAL;
        }
        let now = Instant::now();
        if now >= end {
            break other;
        }
        interrupt::wait_for_any(&mut Vec::new(), Some(interval.min(end - now)))?;
        interval = (interval * 2).min(INTERVALS.1);
    };
    let waited = time_text(Duration::from_secs(since.elapsed().as_secs()));
    let found = other.map(|contents| {
        let ids = [("job", contents.job), ("step", contents.step)];
        let ids = ids.map(|(what, id)| format!("{what} {}", id.unwrap_or("unknown".into())));
        format!("; the file is that of {}", ids.join(", "))
    });
    let failure = Failure::environment(format!(
        "the coordinator of the survey has not written {} in {waited}: the directory must be \
         shared by all nodes; --meeting-point names another file{}",
        absolute(path).display(),
        found.unwrap_or_default()
    ));
    let is_first = task.rank == 1;
    Err(if is_known || !is_first { failure.printed() } else { failure })
}

/// Asks the coordinator on the first host of the launcher's list, if it has one.
fn knock_at_first_host(task: &LauncherTask) -> Result<Option<KnockAnswer>, Failure> {
    let Some(host) = task.hosts.first() else {
        return Ok(None);
    };
    let addresses = resolver::addresses(host, port(task))?;
    Ok(addresses.ok().and_then(|found| knock(&found, task.rank)))
}
