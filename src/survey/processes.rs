//! Processes of a survey that the coordinator starts on its own machine.

use std::ffi::OsString;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};

use facts::child::{self, Duty};
use facts::error::{Context, Failure};
use facts::token::Token;
use page::destination::Place;

/// How long a process may take to release its NICs after the end of the survey.
const END_LIMIT: Duration = Duration::from_secs(2);

/// How long the coordinator waits for the end of a process after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_millis(500);

/// Interval at which the coordinator checks whether processes have ended.
const REAP_INTERVAL: Duration = Duration::from_millis(2);

/// The place of a process that the coordinator has started. Its text: process id of the
/// coordinator, rank, number of processes, TCP port of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    parent: i32,
    pub rank: u32,
    /// Number of processes of the survey.
    pub size: u32,
    /// TCP port of the coordinator on this machine.
    pub port: u16,
}

impl Started {
    /// The place of this process, if a coordinator has started it.
    pub fn from_environment() -> Option<Self> {
        Self::read(&Duty::SurveyMember.environment_text()?)
    }

    fn read(text: &str) -> Option<Self> {
        let mut fields = text.split(' ');
        let started = Self {
            parent: fields.next()?.parse().ok()?,
            rank: fields.next()?.parse().ok()?,
            size: fields.next()?.parse().ok()?,
            port: fields.next()?.parse().ok()?,
        };
        fields.next().is_none().then_some(started)
    }

    /// Makes this process end with the coordinator.
    ///
    /// # Errors
    ///
    /// A coordinator that has ended already, and a system call that fails.
    pub fn end_with_parent(&self) -> Result<(), Failure> {
        let is_there = child::end_with(self.parent);
        if is_there.environment("cannot bind this process to its coordinator")? {
            Ok(())
        } else {
            Err(Failure::environment("the coordinator of the survey has ended"))
        }
    }
}

/// Processes that end when this value is dropped.
#[derive(Default)]
pub struct LocalProcesses(Vec<(u32, Child)>);

impl LocalProcesses {
    /// Starts a process with the `command` and the arguments of this one. `place` is its rank and
    /// the number of processes. It connects to `port` with `token`.
    ///
    /// # Errors
    ///
    /// A process that cannot be started.
    pub fn start(
        &mut self,
        command: &str,
        arguments: &[OsString],
        place: (u32, u32),
        port: u16,
        token: &Token,
    ) -> Result<(), Failure> {
        let (rank, size) = place;
        let own = getpid().as_raw_nonzero();
        let place = format!("{own} {rank} {size} {port}");
        let child = child::start(
            child::command_with(Duty::SurveyMember, &place, Some(token))
                .arg(command)
                .args(arguments)
                .stdout(Stdio::null()),
        )?;
        self.0.push((rank, child));
        Ok(())
    }

    /// The ranks of processes that have ended, and how they ended.
    pub fn ended(&mut self) -> Vec<(u32, String)> {
        let ended = self.0.iter_mut().filter_map(|(rank, child)| {
            let status = child.try_wait().ok()??;
            Some((*rank, child::end_text(status)))
        });
        ended.collect()
    }

    /// Waits for the end of all processes, which know that the survey is over.
    pub fn finish(mut self) {
        self.end_within(END_LIMIT);
    }

    /// Waits until all processes have ended. Returns false if some go on after `limit`.
    fn end_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            self.0.retain_mut(|(_, child)| matches!(child.try_wait(), Ok(None)));
            if self.0.is_empty() || Instant::now() >= end {
                return self.0.is_empty();
            }
            thread::sleep(REAP_INTERVAL);
        }
    }
}

impl Drop for LocalProcesses {
    fn drop(&mut self) {
        for (_, child) in &self.0 {
            // This call fails only if the process has ended.
            if let Some(process) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process(process, Signal::TERM);
            }
        }
        self.end_within(END_LIMIT);
        for (_, child) in &mut self.0 {
            let _ = child.kill();
        }
        // A process that hangs in the driver does not end even then.
        self.end_within(KILL_LIMIT);
    }
}

/// The place of the document of this process. A process that a coordinator has started has the
/// coordinator's arguments, but no documents.
pub fn own_place(json: Option<&Place>) -> Option<&Place> {
    json.filter(|_| Started::from_environment().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_place_of_started_process() {
        let started = Started::read("4711 3 8 40123");
        assert_eq!(started, Some(Started { parent: 4711, rank: 3, size: 8, port: 40123 }));
        for wrong in ["", "4711 3 8", "4711 3 8 40123 1", "4711 3 8 70000", "a 3 8 1"] {
            assert_eq!(Started::read(wrong), None, "{wrong}");
        }
    }
}
