//! A short run of a tool whose result a command reads. It is a process of its own, so that a NIC
//! that does not answer cannot hold up the command.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};

use facts::child;
use facts::error::{Context, Failure, Step};
use facts::interrupt;
use facts::number::time_text;
use report::outcome::Outcome;

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
    /// When the time began to count.
    pub since: Instant,
}

impl Probe {
    /// Runs the tool and returns its outcome, also if the run failed ([`Outcome::error`]).
    ///
    /// # Errors
    ///
    /// A process that cannot be started, that exceeds the time limit (with the step on the way to
    /// the server at which it was, or else [`Step::Answer`]), or that writes no result; an
    /// interruption.
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
        let mut running = Running::new(child);
        let left = |limit: Duration| limit.saturating_sub(self.since.elapsed());
        let is_in_time = running.read(self.limit.map(left))?;
        if !is_in_time {
            running.ask_to_end()?;
        }
        let outcome = running.outcome();
        if let Some(limit) = self.limit.filter(|_| !is_in_time) {
            let what = format!("{} did not end within {}", self.tool, time_text(limit));
            let failure = Failure::environment(match running.last_note() {
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

/// A process, and what it has written. It is killed when this value is dropped, if it has not
/// ended.
struct Running {
    child: Child,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
}

/// What a process has written to a pipe.
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

impl Running {
    fn new(mut child: Child) -> Self {
        let stdout = Output::of(child.stdout.take());
        let stderr = Output::of(child.stderr.take());
        Self {
            child,
            stdout,
            stderr,
        }
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

    /// Sends SIGTERM, after which the process writes its document, and reads on for a moment.
    fn ask_to_end(&mut self) -> Result<(), Failure> {
        if let Some(process) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(process, Signal::TERM);
        }
        self.read(Some(END_LIMIT))?;
        Ok(())
    }

    /// Returns the document, if it is complete.
    fn outcome(&self) -> Option<Outcome> {
        // As `compare` reads it: a second way to read all fields would make the program much
        // larger.
        let value: serde_json::Value = serde_json::from_slice(&self.stdout.bytes).ok()?;
        serde_json::from_value(value).ok()
    }

    /// Waits for the end of the process, which has closed its outputs. Returns the failure that
    /// states how it ended.
    fn silent_end(&mut self) -> Result<Failure, Failure> {
        let status = self.child.wait();
        Ok(child::silent_end(
            status.environment("cannot wait for the end of the run")?,
        ))
    }

    /// Returns the last line on standard error, without the name of the program, that is neither a
    /// hint nor about the end that was asked for: what the process waits for.
    fn last_note(&self) -> Option<String> {
        let notes = String::from_utf8_lossy(&self.stderr.bytes);
        let is_note = |line: &&str| !line.starts_with("hint: ") && !line.contains("interrupted by");
        let (_, note) = notes.lines().rfind(is_note)?.split_once(": ")?;
        Some(note.to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
