//! A short run of a tool whose result a command reads. It is a process of its own, so that a NIC
//! that does not answer cannot hold up the command.

use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::error::{Context, Failure};
use crate::interrupt;
use crate::number::time_text;
use crate::report::outcome::Outcome;
use crate::tool::PROGRAM;

/// A run of a tool.
#[derive(Debug)]
pub struct Probe {
    /// Name of the tool, such as `write-lat`.
    pub tool: &'static str,
    /// Its arguments; `--json` and `--quiet` are added.
    pub arguments: Vec<OsString>,
    /// Variables of the environment to set, or to remove.
    pub variables: Vec<(&'static str, Option<String>)>,
    /// Time limit of the process, if there is one.
    pub limit: Option<Duration>,
}

impl Probe {
    /// Runs the tool and returns its outcome, also that of a run that failed
    /// ([`Outcome::error`]).
    ///
    /// # Errors
    ///
    /// A process that cannot be started, that exceeds the time limit, or that writes no result; an
    /// interruption.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let what = || format!("cannot run {}", self.tool);
        let mut command = Command::new(env::current_exe().environment(what())?);
        for (name, value) in &self.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command
            // The arguments name the tool, independent of the name of the executable file.
            .arg0(PROGRAM)
            .args([self.tool, "--json", "--quiet"])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .environment(what())?;
        let document = Ended(child).output(self.tool, self.limit)?;
        // As `compare` reads it: a second way to read all fields would make the program much larger.
        let value: Option<serde_json::Value> = serde_json::from_slice(&document).ok();
        value
            .and_then(|value| serde_json::from_value(value).ok())
            .ok_or_else(|| Failure::environment(format!("{} wrote no result", self.tool)))
    }
}

/// A process that is killed when this value is dropped, if it has not ended.
struct Ended(Child);

impl Ended {
    /// Returns what the process writes to its standard output.
    fn output(&mut self, tool: &str, limit: Option<Duration>) -> Result<Vec<u8>, Failure> {
        let until = limit.map(|limit| Instant::now() + limit);
        let mut output = Vec::new();
        let Some(mut pipe) = self.0.stdout.take() else {
            return Ok(output);
        };
        let mut part = [0; 4096];
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if !interrupt::wait(&pipe, PollFlags::IN, left)? {
                let limit = time_text(limit.unwrap_or_default());
                let what = format!("{tool} did not end within {limit}");
                return Err(Failure::environment(match self.last_note() {
                    Some(note) => format!("{what}: {note}"),
                    None => what,
                }));
            }
            match pipe.read(&mut part).environment("cannot read the result")? {
                0 => return Ok(output),
                length => output.extend(&part[..length]),
            }
        }
    }
}

impl Ended {
    /// Kills the process, and returns the last line on its standard error without the name of the
    /// program: what it waits for.
    fn last_note(&mut self) -> Option<String> {
        self.0.kill().ok()?;
        let mut notes = String::new();
        self.0.stderr.take()?.read_to_string(&mut notes).ok()?;
        let (_, note) = notes.lines().last()?.split_once(": ")?;
        Some(note.to_owned())
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
