//! A short run of a tool whose result a command reads. It is a process of its own, so that a NIC
//! that does not answer cannot hold up the command.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};

use facts::error::{Context, Failure, Kind, Step};
use facts::number::time_text;
use facts::{child, interrupt};
use measure::CpuShare;
use report::outcome::Outcome;

/// A run whose processes waited for CPUs for more than this part of its time limit says nothing
/// about a NIC, unless one of them ran for this time at least and then named what it waits for: a
/// process polls while its peer waits for a CPU. Runs on idle CPUs need some ten milliseconds.
const MOST_WAITED: u32 = 5;
const ENOUGH: Duration = Duration::from_millis(300);

/// If they waited this many times as long as the busiest of them ran, what a run names may have no
/// CPU either.
const MOSTLY_WAITED: u32 = 20;

/// How the note begins in which a run names an operation that it waits for.
const NO_ANSWER: &str = "no answer to ";

/// The cause of a run that did not end in time because its processes waited for CPUs.
#[derive(Debug)]
pub struct Starved {
    /// How long they waited.
    pub waited: Duration,
}

impl std::error::Error for Starved {}

impl fmt::Display for Starved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waited = self.waited.as_secs_f64();
        write!(f, "its processes waited {waited:.1} s for CPUs")
    }
}

/// A run of a tool.
#[derive(Debug)]
pub struct Probe {
    /// Name of the tool, such as `write-lat`.
    pub tool: &'static str,
    /// Its arguments; `--json` and `--quiet` are added.
    pub arguments: Vec<OsString>,
    /// Variables of the environment to set, or to remove.
    pub variables: Vec<(&'static str, Option<String>)>,
    /// Time limit of the process from `since` on, if there is one.
    pub limit: Option<Duration>,
    /// The limit to which the time for which its processes wait for CPUs is added, if it is.
    pub longest: Option<Duration>,
    /// When the time began to count.
    pub since: Instant,
}

impl Probe {
    /// Runs the tool and returns its outcome, also if the run failed ([`Outcome::error`]).
    ///
    /// # Errors
    ///
    /// A process that cannot be started, that exceeds the time limit (with the step on the way to
    /// the server at which it was, or else [`Step::Answer`]; because of [`Starved`] if it waited
    /// for its CPU), or that writes no result; an interruption.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let mut command = child::command();
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let started = child::start(
            command
                .args([self.tool, "--json", "--quiet"])
                .args(&self.arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let child =
            started.map_err(|failure| failure.context(format!("cannot run {}", self.tool)))?;
        let mut running = RunningProcess::new(child);
        let left = |limit: Duration| limit.saturating_sub(self.since.elapsed());
        let mut is_in_time = running.read(self.limit.map(left))?;
        let mut shares = CpuShares::default();
        while let Some(limit) = self.limit.filter(|_| !is_in_time) {
            let longest = self.longest.unwrap_or(limit);
            shares = running.shares();
            let more = left((limit + shares.waited).min(longest));
            if more.is_zero() {
                running.ask_to_end()?;
                break;
            }
            is_in_time = running.read(Some(more))?;
        }
        let outcome = running.outcome();
        if let Some(limit) = self.limit.filter(|_| !is_in_time) {
            let note = running.last_note();
            let has_cause = note.as_ref().is_some_and(|note| note.starts_with(NO_ANSWER));
            if self.longest.is_some() && shares.are_too_small(limit, has_cause) {
                let waited = shares.waited;
                let took = self.since.elapsed().as_secs();
                let what = format!("{} did not end within {took} s", self.tool);
                return Err(Failure::new(Kind::Environment, Starved { waited }).context(what));
            }
            let what = format!("{} did not end within {}", self.tool, time_text(limit));
            let failure = Failure::environment(match note {
                Some(note) => format!("{what}: {note}"),
                None => what,
            });
            let step = outcome.and_then(|outcome| Step::named(&outcome.error?.step?));
            return Err(failure.in_step(step.unwrap_or(Step::Answer)));
        }
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        let failure = match running.last_note() {
            Some(note) => Failure::environment(note),
            None => running.silent_end()?,
        };
        Err(failure.context(format!("{} wrote no result", self.tool)))
    }
}

/// How long a run that exceeds its time limit may take to release its NIC.
const END_LIMIT: Duration = Duration::from_secs(1);

/// The CPU times of a process and of those that it has started.
#[derive(Clone, Copy, Debug, Default)]
struct CpuShares {
    /// How long they have waited for CPUs, together: they wait for each other.
    waited: Duration,
    /// How long the longest of them has run.
    ran: Duration,
}

impl CpuShares {
    /// Whether they explain that a run has not ended within its limit. `has_cause` states that it
    /// has named what it waits for.
    fn are_too_small(self, limit: Duration, has_cause: bool) -> bool {
        let has_hardly_run = self.ran < ENOUGH || self.waited > self.ran * MOSTLY_WAITED;
        self.waited > limit / MOST_WAITED && (has_hardly_run || !has_cause)
    }
}

/// A process, and what it has written. It is killed when this value is dropped, if it has not
/// ended.
struct RunningProcess {
    child: Child,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
    /// How many bytes were on standard error when the process was asked to end.
    asked_at: Option<usize>,
}

/// The output of a process to a pipe.
struct Output<P> {
    /// The pipe until its end.
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read> Output<P> {
    fn of(pipe: Option<P>) -> Self {
        let bytes = Vec::new();
        Self { pipe, bytes }
    }

    /// Reads what has arrived.
    fn read(&mut self) -> Result<(), Failure> {
        let mut part = [0; 4096];
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        match pipe.read(&mut part).environment("cannot read the result")? {
            0 => self.pipe = None,
            length => self.bytes.extend(&part[..length]),
        }
        Ok(())
    }
}

impl RunningProcess {
    fn new(mut child: Child) -> Self {
        let stdout = Output::of(child.stdout.take());
        let stderr = Output::of(child.stderr.take());
        Self { child, stdout, stderr, asked_at: None }
    }

    /// Reads both outputs until their ends. Returns false if the time is up before.
    fn read(&mut self, limit: Option<Duration>) -> Result<bool, Failure> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            let (stdout, stderr) = (&self.stdout.pipe, &self.stderr.pipe);
            let mut polled: Vec<PollFd> =
                (stdout.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)))
                    .chain(stderr.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)))
                    .collect();
            if polled.is_empty() {
                return Ok(true);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if !interrupt::wait_for_any(&mut polled, left)? {
                return Ok(false);
            }
            let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
            let stdout_is_ready = stdout.is_some() && ready.next() == Some(true);
            let stderr_is_ready = stderr.is_some() && ready.next() == Some(true);
            if stdout_is_ready {
                self.stdout.read()?;
            }
            if stderr_is_ready {
                self.stderr.read()?;
            }
        }
    }

    /// The shares of the main threads of the process and of those that it has started.
    fn shares(&self) -> CpuShares {
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|id| id.parse().ok());
        let all = std::iter::once(own).chain(children);
        let all: Vec<CpuShare> = all.filter_map(CpuShare::from_process).collect();
        CpuShares {
            waited: all.iter().map(|share| share.waited()).sum(),
            ran: all.iter().map(|share| share.ran()).max().unwrap_or_default(),
        }
    }

    /// Sends SIGTERM, after which the process writes its document, and reads on for a moment.
    fn ask_to_end(&mut self) -> Result<(), Failure> {
        self.asked_at = Some(self.stderr.bytes.len());
        if let Some(process) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(process, Signal::TERM);
        }
        self.read(Some(END_LIMIT))?;
        Ok(())
    }

    /// The document, if it is complete.
    fn outcome(&self) -> Option<Outcome> {
        Outcome::read(&self.stdout.bytes).ok()
    }

    /// Waits for the end of the process, which has closed its outputs. Returns the failure that
    /// states how it ended.
    fn silent_end(&mut self) -> Result<Failure, Failure> {
        let status = self.child.wait();
        Ok(child::silent_end(status.environment("cannot wait for the end of the run")?))
    }

    /// The last line on standard error, without the name of the program, that is no hint: what the
    /// process waited for when it was asked to end, or why it failed.
    fn last_note(&self) -> Option<String> {
        let notes = &self.stderr.bytes[..self.asked_at.unwrap_or(self.stderr.bytes.len())];
        let notes = String::from_utf8_lossy(notes);
        let (_, note) =
            notes.lines().rfind(|line| !line.starts_with("hint: "))?.split_once(": ")?;
        Some(note.to_owned())
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in milliseconds, of runs with a limit of 3 s.
    #[test]
    fn busy_cpus_excuse_runs_that_waited_for_them() {
        let excuse = |waited, ran, has_cause| {
            let [waited, ran] = [waited, ran].map(Duration::from_millis);
            CpuShares { waited, ran }.are_too_small(Duration::from_secs(3), has_cause)
        };
        assert!(excuse(8000, 42, true));
        // Beside ten busy loops and the test programs.
        assert!(excuse(6480, 961, false));
        assert!(excuse(1156, 544, false));
        assert!(excuse(18_000, 600, true));
        // A NIC that does not answer, beside two busy loops and on an idle host.
        assert!(!excuse(8300, 554, true));
        assert!(!excuse(20, 2900, true));
        assert!(!excuse(20, 42, false));
    }
}
