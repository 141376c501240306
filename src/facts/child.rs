//! Processes of this program that another process of it starts: how they start, how they end with
//! the process that started them, and what their end says.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{env, io};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::error::{Context, Failure, not_started};
use crate::token::{TOKEN_VARIABLE, Token};

/// Name of the program: argument 0 of a child, whose other arguments name the tool or command,
/// independent of the name of the executable file.
pub const PROGRAM: &str = "cxidiag";

/// The executable of this process, also after another one has replaced its file.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// The name that the kernel gives to a process of [`OWN_EXECUTABLE`].
const NAME_OF_CHILDREN: &[u8] = b"exe";

/// Standard input of each child.
const NULL_DEVICE: &str = "/dev/null";

/// Exit status of a child process that could not execute its program. The C library uses it where
/// the child cannot report the error: under qemu-user, which has a process for each `vfork`.
const NOT_EXECUTED: i32 = 127;

crate::named_enum! {
    /// What a child does for the process that started it. An environment variable tells the child.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Duty {
        /// Is the server of a loopback run.
        LoopbackServer = "CXIDIAG_LOOPBACK_PARENT",
        /// Measures with one client of `cxidiag serve`.
        ServedClient = "CXIDIAG_SERVE_CLIENT",
        /// Is a process of a survey.
        SurveyMember = "CXIDIAG_SURVEY_MEMBER",
        /// Probes other nodes for `cxidiag serve`.
        Prober = "CXIDIAG_SERVE_PROBER",
        /// Loads a libfabric and prints what it says.
        LibfabricReader = "CXIDIAG_LIBFABRIC",
    }
    pub fn variable(self);
}

impl Duty {
    /// Returns what the process that started this one has told it about the duty, if this process
    /// has the duty.
    pub fn environment_text(self) -> Option<String> {
        let told = env::var_os(self.variable())?;
        Some(told.to_string_lossy().into_owned())
    }
}

/// The command that starts this program again, with an empty standard input. The child does not
/// inherit the duty of this process.
pub fn command() -> Command {
    command_of(OWN_EXECUTABLE)
}

fn command_of(executable: &str) -> Command {
    let mut command = Command::new(executable);
    command.arg0(PROGRAM).stdin(Stdio::null());
    for duty in Duty::ALL {
        command.env_remove(duty.variable());
    }
    command
}

/// The command that starts this program again with a duty, which `told` describes. Signals of a
/// terminal go to this process alone: it notifies or ends the child.
pub fn command_with(duty: Duty, told: &str, token: Option<&Token>) -> Command {
    let mut command = command();
    command.env(duty.variable(), told).process_group(0);
    if let Some(token) = token {
        // Arguments are visible to other users.
        command.env(TOKEN_VARIABLE, token.text());
    }
    command
}

/// Gives this process the name of the program, for `ps` and `top`, if it is a child.
pub fn take_name() {
    if rustix::thread::name().is_ok_and(|name| name.to_bytes() == NAME_OF_CHILDREN) {
        // Nothing depends on it.
        let _ = rustix::thread::set_name(c"cxidiag");
    }
}

/// Starts the child.
///
/// # Errors
///
/// A program that the system cannot execute.
pub fn start(command: &mut Command) -> Result<Child, Failure> {
    let started = command.spawn().map_err(not_started);
    started.environment(cannot_start(&command.get_program().to_string_lossy()))
}

fn cannot_start(executable: &str) -> String {
    if !Path::new("/proc/self").exists() {
        return format!("cannot start a second process of {PROGRAM}: /proc is not mounted");
    }
    if !Path::new(NULL_DEVICE).exists() {
        return format!(
            "cannot start a second process of {PROGRAM}: {NULL_DEVICE} is missing (mount /dev)"
        );
    }
    format!("cannot start {executable} (a second process of {PROGRAM})")
}

/// The failure of a child that has ended with `status` and without a message.
pub fn silent_end(status: ExitStatus) -> Failure {
    Failure::environment(match status.code() {
        Some(NOT_EXECUTED) => {
            format!("{}: exit status {NOT_EXECUTED}", cannot_start(OWN_EXECUTABLE))
        }
        Some(code) => format!("its process ended without a message (exit status {code})"),
        None => end_text(status),
    })
}

/// Returns how a child has ended.
pub fn end_text(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal} ended its process"),
        (_, code) => {
            let code = code.unwrap_or_default();
            format!("its process ended (exit status {code})")
        }
    }
}

/// Makes this process receive SIGTERM, which leaves time to release NICs, when the process
/// `parent`, which has started it, ends. Returns false if `parent` has already ended.
///
/// # Errors
///
/// A system call that fails.
pub fn end_with(parent: i32) -> io::Result<bool> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have ended before the call above.
    Ok(getppid().map(Pid::as_raw_nonzero).map(i32::from) == Some(parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn names_program_and_cause_if_it_cannot_start() {
        for (program, cause) in [
            ("/proc/self/none", "No such file or directory"),
            // A directory, and a file without permission to execute it: not even for root.
            ("/proc/self", "Permission denied"),
            ("/proc/self/status", "Permission denied"),
        ] {
            let failure = start(&mut command_of(program)).unwrap_err();
            assert_eq!(
                failure.message(),
                format!("cannot start {program} (a second process of cxidiag): {cause}")
            );
            assert_eq!(failure.kind, Kind::Environment);
            assert!(failure.error.root_cause().is::<io::Error>());
        }
    }

    #[test]
    fn says_how_a_silent_child_ended() {
        let said = |script: &str| {
            let status = Command::new("sh").args(["-c", script]).status();
            silent_end(status.unwrap()).message()
        };
        assert_eq!(said("kill -KILL $$"), "signal 9 ended its process");
        assert_eq!(said("exit 3"), "its process ended without a message (exit status 3)");
        assert_eq!(
            said("exit 127"),
            "cannot start /proc/self/exe (a second process of cxidiag): exit status 127"
        );
    }

    #[test]
    fn child_has_its_own_duty_only() {
        let command = command_with(Duty::ServedClient, "1", None);
        let changes: Vec<_> = command.get_envs().collect();
        let value = |duty: Duty| {
            let change = changes.iter().find(|(name, _)| *name == duty.variable());
            change.unwrap().1.map(|value| value.to_str().unwrap())
        };
        assert_eq!(value(Duty::ServedClient), Some("1"));
        assert_eq!(value(Duty::LoopbackServer), None);
        assert_eq!(value(Duty::SurveyMember), None);
    }
}
