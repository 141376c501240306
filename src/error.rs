//! Why a run ends without a result: failing call, cause, advice, exit status.
//!
//! Whatever goes wrong reaches the user as one line that says what failed and, where the cause
//! is known, a second line that says what to check and do:
//!
//! ```text
//! cxidiag write-lat: error: nobody listens at 10.1.1.8 port 49194
//! hint: start the server first; --port must be the same on both sides
//! ```

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

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

    /// The reader of standard output went away.
    pub fn output_closed(message: impl Into<String>) -> Self {
        Self::new(Kind::OutputClosed, message)
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
        let what = match self.kind {
            Kind::Usage | Kind::Environment | Kind::Nic | Kind::Peer => "error: ",
            // Somebody wanted it so, or it is the answer to what was asked.
            Kind::Interrupted | Kind::OutputClosed | Kind::Unmet => "",
        };
        let mut text = format!("{program}: {what}{}\n", self.message);
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

/// A value that an option does not take, wherever it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    option: &'static str,
    value: String,
    allowed: String,
}

impl Invalid {
    /// The same of a value that nobody typed here: the other side has sent it.
    pub fn as_heard(&self) -> String {
        let Self {
            option,
            value,
            allowed,
        } = self;
        format!("{option} {value}: {allowed}")
    }
}

/// What the user is told who has typed it.
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            option,
            value,
            allowed,
        } = self;
        write!(f, "invalid value '{value}' for --{option}: {allowed}")
    }
}

impl From<Invalid> for String {
    fn from(invalid: Invalid) -> Self {
        invalid.to_string()
    }
}

/// `value` is none for the option with this long name.
pub fn invalid(
    option: &'static str,
    value: impl fmt::Display,
    allowed: impl fmt::Display,
) -> Invalid {
    Invalid {
        option,
        value: value.to_string(),
        allowed: allowed.to_string(),
    }
}

/// The system's words for `error`, without the number that the standard library appends.
pub fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
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
        assert_eq!(told(&failure), "cxidiag write-lat: error: no answer\n");
        let failure = failure.with_hint("ask again");
        assert_eq!(
            told(&failure),
            "cxidiag write-lat: error: no answer\nhint: ask again\n"
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
}
