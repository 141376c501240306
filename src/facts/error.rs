//! Why a run ends without a result: what failed, the cause, advice, exit status.
//!
//! A failure reaches the user as one line that says what failed and, where the cause is known, a
//! second line that says what to check and do:
//!
//! ```text
//! cxidiag write-lat: error: cannot connect to 10.1.1.8 port 49194: connection refused
//! hint: start the server first, with the same --port
//! ```

mod situation;

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Error;
use rustix::io::Errno;

use crate::text::shown_lines;
pub use situation::Situation;

/// The hint where the peer has failed.
pub const SEE_PEER: &str = "see what the peer printed";

/// Exit status of a run that a signal ended: 128 + SIGINT, for each signal.
pub const INTERRUPTED: u8 = 130;

/// Exit status of a verdict that names nothing bad, but leaves something unjudged.
pub const UNDECIDED: u8 = 4;

crate::named_enum! {
    /// What kind of thing failed. Each kind has its exit status.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// The command line or the environment variables are invalid. Exit status 2.
        Usage = "usage",
        /// A system call, a library call or the peer refused something. Exit status 1.
        Environment = "environment",
        /// The NIC reported an error, or no event at all. Exit status 1.
        Nic = "nic",
        /// The connection ended, or the peer reported a failure. Exit status 1.
        Peer = "peer",
        /// A signal ended the run. Exit status 130.
        Interrupted = "interrupted",
        /// The reader of standard output closed it early (`cxidiag ... | head -n 1`). Nothing is
        /// printed. Exit status 1.
        OutputClosed = "output_closed",
        /// The measurement is complete, but an expectation is not met. Exit status 3.
        Unmet = "unmet",
        /// Nothing bad was found, but not everything could be judged. Exit status 4.
        Undecided = "undecided",
    }
    /// The name used in JSON and CSV.
    pub fn name(self);
}

crate::named_enum! {
    /// The step on the way to an answer of the peer's NIC at which a run failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Step {
        /// Opening the NIC of this side.
        Device = "device",
        Link = "link",
        /// Its CXI service.
        Service = "service",
        /// The VNI of the service, which both sides must have in common.
        Vni = "vni",
        /// Resolving the name of the peer's host.
        Name = "name",
        /// The TCP connection to the peer.
        Tcp = "tcp",
        /// The handshake with the program that has accepted the connection.
        Handshake = "handshake",
        /// The addresses of both NICs on the fabric.
        Address = "address",
        /// The turn at a NIC of the server that measures with another client.
        Turn = "turn",
        /// The answer of the peer's NIC.
        Answer = "answer",
        /// The operation, which a NIC refuses or cannot complete.
        Operation = "operation",
    }
    /// The name used in JSON.
    pub fn name(self);
}

impl Step {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == name)
    }
}

/// A failure: its kind, the chain of what failed and why, and advice.
#[derive(Debug)]
pub struct Failure {
    /// What kind of thing failed.
    pub kind: Kind,
    /// The step at which the run failed, if it is one of those.
    step: Option<Step>,
    /// The situation in which the run failed, if the program knows it.
    pub situation: Option<Situation>,
    /// What failed, with its causes.
    pub error: Error,
    /// What to check and do, where the cause is known; one line.
    pub hint: Option<String>,
    /// Why and where it happened, at the end of the message.
    place: Option<String>,
    /// What the NIC says about each of its queues and portals.
    nic_states: Vec<String>,
    /// Whether the user has read it elsewhere.
    is_printed: bool,
    /// The exit status in place of the one of its kind.
    status: Option<u8>,
}

impl Failure {
    /// A failure of this kind without advice; `error` is its cause.
    pub fn new(kind: Kind, error: impl Into<Error>) -> Self {
        Self {
            kind,
            step: None,
            situation: None,
            error: error.into(),
            hint: None,
            place: None,
            nic_states: Vec::new(),
            is_printed: false,
            status: None,
        }
    }

    fn from_message(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, Error::msg(message.into()))
    }

    /// An invalid command line or environment variable.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::from_message(Kind::Usage, message)
    }

    /// A refusal by the system, a library or the peer.
    pub fn environment(message: impl Into<String>) -> Self {
        Self::from_message(Kind::Environment, message)
    }

    /// An error that the NIC reported.
    pub fn nic(message: impl Into<String>) -> Self {
        Self::from_message(Kind::Nic, message)
    }

    /// Standard output that its reader closed.
    pub fn output_closed(message: impl Into<String>) -> Self {
        Self::from_message(Kind::OutputClosed, message)
    }

    /// A peer that closed the connection or reported a failure. The hint is [`SEE_PEER`].
    pub fn peer(message: impl Into<String>) -> Self {
        Self::from_message(Kind::Peer, message).with_hint(SEE_PEER)
    }

    /// A run that the signal of this name ended.
    pub fn interrupted(signal: &str) -> Self {
        Self::from_message(Kind::Interrupted, format!("interrupted by {signal}"))
    }

    /// A measurement that does not meet an expectation.
    pub fn unmet(message: impl Into<String>) -> Self {
        Self::from_message(Kind::Unmet, message)
    }

    /// A verdict that names nothing bad, but leaves something unjudged.
    pub fn undecided(message: impl Into<String>) -> Self {
        Self::from_message(Kind::Undecided, message)
    }

    /// The failure of a verdict whose document has this exit status and first line.
    ///
    /// # Errors
    ///
    /// Any verdict but a good one.
    pub fn concluded(exit_status: u8, summary: &str) -> Result<(), Self> {
        match exit_status {
            0 => Ok(()),
            UNDECIDED => Err(Self::undecided(summary)),
            _ => Err(Self::unmet(summary)),
        }
    }

    /// Whether the peer has failed.
    pub fn is_of_peer(&self) -> bool {
        self.kind == Kind::Peer
    }

    /// Sets the step at which the run failed, unless a cause has set it.
    pub fn in_step(mut self, step: Step) -> Self {
        self.step = self.step.or(Some(step));
        self
    }

    /// Sets the situation in which the run failed.
    pub fn in_situation(mut self, situation: Situation) -> Self {
        self.situation = Some(situation);
        self
    }

    /// The step at which the run failed, if it is known.
    pub fn step(&self) -> Option<Step> {
        self.step.or_else(|| (self.kind == Kind::Nic).then_some(Step::Answer))
    }

    /// Names what failed because of this failure; the message begins with it.
    pub fn context(mut self, what: impl Display) -> Self {
        self.error = self.error.context(what.to_string());
        self
    }

    /// Adds why or where it happened.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(match self.place {
            Some(first) => format!("{first}; {}", place.into()),
            None => place.into(),
        });
        self
    }

    /// Adds what the NIC says about each of its queues and portals.
    pub fn with_nic_states(mut self, states: Vec<String>) -> Self {
        self.nic_states = states;
        self
    }

    /// Returns what the NIC says about each of its queues and portals, if it was asked.
    pub fn nic_states(&self) -> &[String] {
        &self.nic_states
    }

    /// Marks a failure that standard output or another process has shown: only its exit status
    /// remains.
    pub fn printed(mut self) -> Self {
        self.is_printed = true;
        self
    }

    /// Whether the user has read it elsewhere.
    pub fn is_printed(&self) -> bool {
        self.is_printed
    }

    /// Ends the program with this exit status: the one of the program that it replaces.
    pub fn with_status(mut self, status: u8) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds advice.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds advice after the advice that the failure has.
    pub fn with_further_hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(match self.hint {
            Some(first) => format!("{first}; {hint}"),
            None => hint.to_string(),
        });
        self
    }

    /// Adds advice, if there is any.
    pub fn with_hint_if(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Returns what failed and its causes as one line, `what: cause: cause; place`.
    pub fn message(&self) -> String {
        let links: Vec<String> = self.error.chain().map(text).collect();
        let place = self.place.as_ref();
        let place = place.map_or(String::new(), |place| format!("; {place}"));
        links.join(": ") + &place
    }

    /// Writes the failure to `err` for the user; `program` is the program's name as typed.
    ///
    /// Errors of this write are ignored.
    pub fn report(&self, program: &str, err: &mut impl Write) {
        if self.kind == Kind::OutputClosed || self.is_printed {
            return;
        }
        let label = match self.kind {
            Kind::Usage | Kind::Environment | Kind::Nic | Kind::Peer => "error: ",
            // The user ended the run, or asked for the check.
            Kind::Interrupted | Kind::OutputClosed | Kind::Unmet | Kind::Undecided => "",
        };
        let mut text = format!("{program}: {label}{self}\n");
        if let Some(hint) = &self.hint {
            text += &format!("hint: {hint}\n");
        }
        let _ = err.write_all(shown_lines(&text).as_bytes());
    }

    /// Whether a limit of this process is the reason, on threads, processes or files: the same may
    /// work later.
    pub fn is_at_limit(&self) -> bool {
        let cause = self.error.root_cause().downcast_ref::<io::Error>();
        cause.is_some_and(|error| {
            let has_no_file = Errno::from_io_error(error) == Some(Errno::MFILE);
            has_no_file || error.kind() == io::ErrorKind::WouldBlock
        })
    }

    /// The exit status of the program for [`std::process`].
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status())
    }

    /// The exit status of the program as a number.
    pub fn status(&self) -> u8 {
        self.status.unwrap_or(match self.kind {
            Kind::Environment | Kind::Nic | Kind::Peer | Kind::OutputClosed => 1,
            Kind::Usage => 2,
            Kind::Unmet => 3,
            Kind::Undecided => UNDECIDED,
            Kind::Interrupted => INTERRUPTED,
        })
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

/// Names what failed where a call returns an error, and keeps that error as the cause.
///
/// `what` is formatted only in the case of an error: `format_args!` suits it.
pub trait Context<T> {
    /// Turns an error into a failure of [`Kind::Environment`].
    ///
    /// # Errors
    ///
    /// The error of `self`, with `what` before it.
    fn environment(self, what: impl Display) -> Result<T, Failure>;

    /// Turns an error into a failure of [`Kind::Nic`].
    ///
    /// # Errors
    ///
    /// The error of `self`, with `what` before it.
    fn nic(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    #[inline(always)]
    fn environment(self, what: impl Display) -> Result<T, Failure> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(failed(Kind::Environment, error, what)),
        }
    }

    #[inline(always)]
    fn nic(self, what: impl Display) -> Result<T, Failure> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => Err(failed(Kind::Nic, error, what)),
        }
    }
}

#[cold]
fn failed(kind: Kind, error: impl Into<Error>, what: impl Display) -> Failure {
    Failure::new(kind, error).context(what)
}

/// A value that an option does not accept, typed here or sent by the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    option: &'static str,
    value: String,
    allowed: String,
}

impl Invalid {
    /// The text for a value that the peer has sent.
    pub fn from_peer(&self) -> String {
        let Self { option, value, allowed } = self;
        format!("{option} {value}: {allowed}")
    }
}

/// Writes the text for a value that the user has typed.
impl Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, value, allowed } = self;
        write!(f, "invalid value '{value}' for --{option}: {allowed}")
    }
}

impl From<Invalid> for String {
    fn from(invalid: Invalid) -> Self {
        invalid.to_string()
    }
}

/// An error: `value` is not valid for `--option`; `allowed` says what is.
pub fn invalid(option: &'static str, value: impl Display, allowed: impl Display) -> Invalid {
    Invalid { option, value: value.to_string(), allowed: allowed.to_string() }
}

/// The system's text for `error`, without the ` (os error N)` that the standard library appends.
pub fn cause(error: &io::Error) -> String {
    text(error)
}

/// Names the limits if `error` is EAGAIN from the start of a process or thread: one of them is
/// reached.
pub fn not_started(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::AGAIN) => io::Error::new(
            // As of EAGAIN: it may work later.
            io::ErrorKind::WouldBlock,
            "limit of processes and threads (ulimit -u, or pids.max of the cgroup)",
        ),
        _ => error,
    }
}

/// The text of one error in a chain. An error that a limit of this process causes names the limit.
fn text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let errno = error.downcast_ref::<Errno>().copied();
    let system_errno = error.downcast_ref().and_then(Errno::from_io_error);
    match errno.or(system_errno) {
        Some(Errno::FBIG) => return "file size limit (ulimit -f)".into(),
        Some(Errno::MFILE) => return "limit of open files (ulimit -n)".into(),
        _ => {}
    }
    if (error.is::<io::Error>() || error.is::<Errno>())
        && let Some(end) = text.find(" (os error ")
    {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(failure: &Failure) -> String {
        let mut out = Vec::new();
        failure.report("cxidiag write-lat", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reports_one_line_and_the_hint_if_there_is_one() {
        let failure = Failure::environment("no answer");
        assert_eq!(reported(&failure), "cxidiag write-lat: error: no answer\n");
        let failure = failure.with_hint("ask again");
        assert_eq!(reported(&failure), "cxidiag write-lat: error: no answer\nhint: ask again\n");
        assert_eq!(reported(&failure.printed()), "");
    }

    #[test]
    fn message_lists_causes_without_numbers_of_system_errors() {
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        let failure = Err::<(), _>(full()).environment("cannot write x").unwrap_err();
        let text = "cannot write x: No space left on device";
        assert_eq!((failure.kind, failure.message().as_str()), (Kind::Environment, text));
        let failure = failure.context("no result");
        assert_eq!(failure.message(), format!("no result: {text}"));
        let failure = Err::<(), _>(Errno::NOSPC).nic("cannot write x").unwrap_err();
        assert_eq!((failure.kind, failure.message().as_str()), (Kind::Nic, text));
        assert_eq!(cause(&full()), "No space left on device");
        for (errno, text) in [
            (libc::EFBIG, "file size limit (ulimit -f)"),
            (libc::EMFILE, "limit of open files (ulimit -n)"),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(cause(&error), text);
            let failure = Err::<(), _>(error).environment("x").unwrap_err();
            assert_eq!(failure.message(), format!("x: {text}"));
        }
    }

    #[test]
    fn each_kind_has_its_exit_status() {
        assert_eq!(Failure::usage("").status(), 2);
        assert_eq!(Failure::environment("").status(), 1);
        assert_eq!(Failure::nic("").status(), 1);
        assert_eq!(Failure::peer("").status(), 1);
        assert_eq!(Failure::unmet("").status(), 3);
        assert_eq!(Failure::undecided("").status(), 4);
        assert_eq!(Failure::interrupted("SIGINT").status(), 130);
    }
}
