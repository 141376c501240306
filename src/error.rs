//! Why a run ends without a result: failing call, cause, advice, exit status.
//!
//! Whatever goes wrong reaches the user as one line that says what failed and, where the cause
//! is known, a second line that says what to check and do:
//!
//! ```text
//! cxidiag write-lat: nobody listens at 10.1.1.8 port 49194
//! hint: start the server first; --port must be the same on both sides
//! ```

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitCode;

use crate::interrupt;

/// The hint where the cause is on the other side.
pub const SEE_PEER: &str = "see what the other side printed";

/// Exit status of a run that a signal ended, whichever it was: what a shell makes of SIGINT.
pub const INTERRUPTED: u8 = 130;

/// What kind of thing failed. Each kind has its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What the user asked for cannot be. Exit status 2.
    Usage,
    /// The environment refused: a system call, a library call, the peer. Exit status 1.
    Environment,
    /// The NIC reported an error, or nothing at all. Exit status 1.
    Nic,
    /// The peer went away: the cause is on the other side. Exit status 1.
    Peer,
    /// A signal ended the run. Exit status 130.
    Interrupted,
    /// The reader of our output went away before its end (`cxidiag ... | head -n 1`). It needs no
    /// telling, but the run was not carried out: exit status 1.
    OutputClosed,
    /// Everything was measured, but not as expected. Exit status 3.
    Unmet,
}

impl Kind {
    /// Its name in documents for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Environment => "environment",
            Self::Nic => "nic",
            Self::Peer => "peer",
            Self::Interrupted => "interrupted",
            Self::OutputClosed => "output_closed",
            Self::Unmet => "unmet",
        }
    }
}

/// A failure: what the user is told, and what the exit status follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of thing failed.
    pub kind: Kind,
    /// What failed, with the cause; one line.
    pub message: String,
    /// What to check and do, where the cause is known; one line.
    pub hint: Option<String>,
}

impl Failure {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// What the user asked for cannot be.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// The environment refused.
    pub fn environment(message: impl Into<String>) -> Self {
        Self::new(Kind::Environment, message)
    }

    /// The NIC reported an error.
    pub fn nic(message: impl Into<String>) -> Self {
        Self::new(Kind::Nic, message)
    }

    /// Standard output could not be written.
    pub fn output(error: io::Error) -> Self {
        // A run that is to end does not wait for its reader.
        if error.kind() == io::ErrorKind::TimedOut
            && let Err(interrupted) = interrupt::check()
        {
            return interrupted;
        }
        let kind = match error.kind() {
            io::ErrorKind::BrokenPipe => Kind::OutputClosed,
            // A terminal that has gone away answers so, and does not call itself one any more.
            _ if error.raw_os_error() == Some(libc::EIO) && stdout_is_a_device() => {
                Kind::OutputClosed
            }
            _ => Kind::Environment,
        };
        Self::new(
            kind,
            format!("cannot write to standard output: {}", cause(&error)),
        )
    }

    /// The peer went away; `message` says so in the words of the place.
    pub fn peer(message: impl Into<String>) -> Self {
        Self::new(Kind::Peer, message).with_hint(SEE_PEER)
    }

    /// A signal of this name ended the run.
    pub fn interrupted(signal: &str) -> Self {
        Self::new(Kind::Interrupted, format!("interrupted by {signal}"))
    }

    /// Whether the cause is on the other side.
    pub fn is_of_peer(&self) -> bool {
        self.kind == Kind::Peer
    }

    /// Everything was measured, but not as expected.
    pub fn unmet(message: impl Into<String>) -> Self {
        Self::new(Kind::Unmet, message)
    }

    /// Adds advice.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Tells the user, on `err`; `program` is what the user started, as typed.
    ///
    /// An error in writing is left alone: there is nobody else to tell.
    pub fn report(&self, program: &str, err: &mut impl Write) {
        if self.kind == Kind::OutputClosed {
            return;
        }
        let mut text = format!("{program}: {}\n", self.message);
        if let Some(hint) = &self.hint {
            text += &format!("hint: {hint}\n");
        }
        let _ = err.write_all(text.as_bytes());
    }

    /// The exit status of the program.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status())
    }

    /// The same as a number.
    pub fn status(&self) -> u8 {
        match self.kind {
            Kind::Environment | Kind::Nic | Kind::Peer | Kind::OutputClosed => 1,
            Kind::Usage => 2,
            Kind::Unmet => 3,
            Kind::Interrupted => INTERRUPTED,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The system's words for `error`, without the number that the standard library appends.
pub fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Whether standard output is, or was, a terminal or another character device.
fn stdout_is_a_device() -> bool {
    let metadata = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|stdout| File::from(stdout).metadata());
    metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(failure: &Failure) -> String {
        let mut out = Vec::new();
        failure.report("cxidiag write-lat", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_line_and_perhaps_a_hint() {
        let failure = Failure::environment("no answer");
        assert_eq!(told(&failure), "cxidiag write-lat: no answer\n");
        let failure = failure.with_hint("ask again");
        assert_eq!(
            told(&failure),
            "cxidiag write-lat: no answer\nhint: ask again\n"
        );
    }

    #[test]
    fn each_kind_has_its_exit_status() {
        assert_eq!(Failure::usage("").status(), 2);
        assert_eq!(Failure::environment("").status(), 1);
        assert_eq!(Failure::nic("").status(), 1);
        assert_eq!(Failure::peer("").status(), 1);
        assert_eq!(Failure::unmet("").status(), 3);
        assert_eq!(Failure::interrupted("SIGINT").status(), 130);
    }

    #[test]
    fn a_closed_output_needs_no_telling() {
        let closed = Failure::output(io::ErrorKind::BrokenPipe.into());
        assert_eq!((told(&closed).as_str(), closed.status()), ("", 1));
        let full = Failure::output(io::Error::from_raw_os_error(28));
        assert_eq!(full.status(), 1);
        assert_eq!(
            full.message,
            "cannot write to standard output: No space left on device"
        );
    }
}
