//! Why an exchange of messages with a peer failed, and the messages for the user about it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Error;

use facts::advice::{Advise, Situation};
use facts::error::{Failure, Kind};

/// The words between a peer and the reason why it cannot run, in messages.
const CANNOT_RUN: &str = " cannot run: ";

/// The words between a peer and the place where it was interrupted, in messages.
const INTERRUPTED: &str = " was interrupted ";

/// The words between a peer and the reason why it has ended the run, in messages.
const ENDED_RUN: &str = " ended the run: ";

/// Why an exchange failed.
#[derive(Debug)]
pub enum LinkError {
    /// The peer closed or reset the connection.
    Closed,
    /// The peer sent an interrupt notice.
    InterruptNotice,
    /// The peer cannot run, for this reason.
    Refusal(String),
    /// This side was interrupted or has failed.
    Interrupted(Failure),
    /// The peer's host or the network no longer answers.
    Silent,
    /// No message arrived within this time.
    Late(Duration),
    /// A peer that sends ticks has sent nothing for this time.
    Stopped(Duration),
    /// The peer announced a message that is too long.
    TooLong {
        /// Bytes announced.
        length: u32,
        /// Bytes allowed.
        most: usize,
    },
    /// Any other error of the socket.
    Io(io::Error),
}

impl LinkError {
    /// The failure for the user; `doing` names the purpose of the exchange.
    pub fn into_failure(self, peer: SocketAddr, doing: &str) -> Failure {
        match self {
            Self::Closed => Failure::peer(format!(
                "the peer ({peer}) closed the connection {doing}: it failed or was killed"
            )),
            Self::Refusal(reason) => Failure::new(
                Kind::Peer,
                Error::msg(format!("the peer ({peer}){CANNOT_RUN}{reason}")),
            ),
            Self::InterruptNotice => {
                Failure::peer(format!("the peer ({peer}){INTERRUPTED}{doing}"))
            }
            Self::Interrupted(failure) => failure,
            Self::Silent => silent(peer, doing),
            Self::Late(limit) => {
                let limit = limit.as_secs();
                Failure::environment(format!(
                    "the peer ({peer}) did not answer {doing} within {limit} s"
                ))
                .advised(Situation::PeerEnded)
            }
            Self::Stopped(silence) => {
                let silence = silence.as_secs();
                Failure::environment(format!(
                    "the peer ({peer}) sent nothing for {silence} s {doing}, not even a tick"
                ))
                .with_hint("its process is stopped (Ctrl-Z, a debugger), or its node overloaded")
            }
            Self::TooLong { length, most } => Failure::environment(format!(
                "the peer ({peer}) announced {length} bytes {doing} (at most {most} allowed)"
            ))
            .advised(Situation::NoDiagnostic),
            Self::Io(error) => Failure::new(Kind::Environment, error)
                .context(format_args!("the connection to the peer ({peer}) failed {doing}")),
        }
    }
}

/// Whether a message consists of the reason of the peer.
pub fn is_reason_of_peer(message: &str) -> bool {
    message.contains(CANNOT_RUN) || message.contains(ENDED_RUN)
}

/// Whether a message is about the interruption of the peer.
pub fn is_interruption_of_peer(message: &str) -> bool {
    message.starts_with("the peer (") && message.contains(INTERRUPTED)
}

pub fn ended_run(peer: SocketAddr, reason: &str) -> Failure {
    let message = format!("the peer ({peer}){ENDED_RUN}{reason}");
    Failure::new(Kind::Peer, Error::msg(message))
}

/// The failure for a host that no longer answers.
fn silent(peer: SocketAddr, doing: &str) -> Failure {
    Failure::environment(format!(
        "lost the connection to the peer ({peer}) {doing}: its host does not answer"
    ))
    .advised(Situation::PeerGone)
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Closed
            }
            // The errors of the kernel when probes or data are not acknowledged.
            ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown => Self::Silent,
            _ => Self::Io(error),
        }
    }
}

impl From<Failure> for LinkError {
    fn from(failure: Failure) -> Self {
        Self::Interrupted(failure)
    }
}

impl From<rustix::io::Errno> for LinkError {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}
