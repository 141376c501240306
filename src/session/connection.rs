//! One TCP connection to a peer, and the exchange that everything consists of (wire.md 2 and 3).
//!
//! A wait watches the connection. The end of the peer's process is noticed at once, because its
//! kernel closes or resets the connection. A host or network that has fallen silent is noticed by
//! TCP keepalive: no byte of ours may be sent between two messages, since a legacy peer would take
//! it for the next one. A process that is only stopped still has a kernel that answers; it is slow,
//! not gone, and ends a wait by its limit.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt;

use super::ANSWER_LIMIT;
use super::wire::{self, INTERRUPT_NOTICE, Incoming, MAX_PAYLOAD, TooLong, message};
use crate::advice::{Situation, remedy};
use crate::error::{Failure, Kind};
use crate::{interrupt, limit};

/// How long the peer's host may leave a waiting side without any sign of life: the next probe, at
/// two seconds at the latest, then ends the wait.
const SILENCE: Duration = Duration::from_millis(1700);

/// The same while nobody waits. The kernel then sends a probe a second, and as few as two lost
/// ones should not end a run.
const SILENCE_UNATTENDED: Duration = Duration::from_secs(5);

/// How long nothing is heard before the kernel probes, and the time between two probes. The
/// kernel knows no smaller ones.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// How often a waiting side has the kernel probe, so that within [`SILENCE`] more than one probe
/// has to get lost.
const ATTENTION: Duration = Duration::from_millis(250);

/// Why an exchange failed.
#[derive(Debug)]
pub enum LinkError {
    /// The peer closed or reset the connection.
    Closed,
    /// The peer was interrupted, and said so.
    InterruptNotice,
    /// The peer cannot take part, for this reason.
    Refusal(String),
    /// This side is not to wait any longer: it was interrupted, or has failed.
    Interrupted(Failure),
    /// The peer's host, or the network in between, has gone.
    Silent,
    /// Nothing came within this time.
    Late(Duration),
    /// The peer announced more than can be right.
    TooLong {
        /// Bytes announced.
        length: u32,
        /// Bytes expected at most.
        most: usize,
    },
    /// Any other error of the socket.
    Io(io::Error),
}

impl LinkError {
    /// For the user: `doing` says what the exchange was for.
    pub fn into_failure(self, peer: SocketAddr, doing: &str) -> Failure {
        match self {
            Self::Closed => Failure::peer(format!(
                "the peer ({peer}) closed the connection {doing}: it failed or was killed"
            )),
            Self::Refusal(reason) => {
                Failure::peer(reason).context(format_args!("the peer ({peer}) cannot run"))
            }
            Self::InterruptNotice => {
                Failure::peer(format!("the peer ({peer}) was interrupted {doing}"))
            }
            Self::Interrupted(failure) => failure,
            Self::Silent => silent(peer, doing),
            Self::Late(limit) => {
                let limit = limit.as_secs();
                Failure::environment(format!(
                    "the peer ({peer}) did not answer {doing} within {limit} s"
                ))
                .with_hint(remedy(Situation::PeerEnded))
            }
            Self::TooLong { length, most } => Failure::environment(format!(
                "the peer ({peer}) announced {length} bytes {doing} (at most {most} allowed)"
            ))
            .with_hint(remedy(Situation::NoDiagnostic)),
            Self::Io(error) => Failure::new(Kind::Environment, error).context(format_args!(
                "the connection to the peer ({peer}) failed {doing}"
            )),
        }
    }
}

/// A peer of which nothing is heard any more.
fn silent(peer: SocketAddr, doing: &str) -> Failure {
    Failure::environment(format!(
        "lost the connection to the peer ({peer}) {doing}: its host does not answer"
    ))
    .with_hint(remedy(Situation::PeerGone))
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Closed
            }
            // What the kernel says when its probes or our bytes are not acknowledged.
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

/// What a wait asks now and then; a failure ends it.
pub type Look<'a> = dyn FnMut() -> Result<(), Failure> + 'a;

/// A connection to a peer.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    /// The client speaks first, always.
    leads: bool,
    /// Why the connection is lost, where a look has found it out: the kernel says so only once.
    lost: Cell<Option<ErrorKind>>,
}

impl Connection {
    /// The end of a stream to `peer`; `leads` on the client's side.
    pub fn new(stream: TcpStream, peer: SocketAddr, leads: bool) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, PROBE_INTERVAL)?;
        sockopt::set_tcp_keepintvl(&stream, PROBE_INTERVAL)?;
        let connection = Self {
            stream,
            peer,
            leads,
            lost: Cell::new(None),
        };
        connection.allow_silence(SILENCE_UNATTENDED)?;
        Ok(connection)
    }

    /// TCP address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// One message in each direction, the client's first. Returns the peer's, of at most `most`
    /// bytes; `limit` ends the wait for it.
    pub fn exchange(
        &self,
        mine: &[u8],
        most: usize,
        limit: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        self.exchange_while(mine, most, limit, &mut || Ok(()))
    }

    /// The same; a failure of `look`, which is asked every [`ATTENTION`], ends the wait.
    pub fn exchange_while(
        &self,
        mine: &[u8],
        most: usize,
        limit: Duration,
        look: &mut Look<'_>,
    ) -> Result<Vec<u8>, LinkError> {
        // A run that is to end has nothing more to say here.
        interrupt::check()?;
        if self.leads {
            self.send(mine)?;
            self.receive(most, limit, look)
        } else {
            let theirs = self.receive(most, limit, look)?;
            self.send(mine)?;
            Ok(theirs)
        }
    }

    /// Fails if the peer has let go of its end, has gone, or says farewell behind what else it has
    /// left to read; `doing` is for the message. Does not wait.
    pub fn check(&self, doing: &str) -> Result<(), Failure> {
        let mut bytes = [0; 64];
        let error = match self.peek(&mut bytes) {
            Ok(0) => self.ended(),
            Ok(count) if wire::holds_interrupt_notice(&bytes[..count]) => {
                LinkError::InterruptNotice
            }
            Ok(_) => return Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => return Ok(()),
                _ => error.into(),
            },
        };
        Err(error.into_failure(self.peer, doing))
    }

    /// Whether there is something to read. Does not wait.
    pub fn has_message(&self) -> bool {
        self.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    }

    /// Waits until there is something to read, or the connection has ended.
    pub fn wait(&self, within: Duration) -> Result<(), Failure> {
        interrupt::wait(&self.stream, PollFlags::IN, Some(within)).map(|_| ())
    }

    /// Tells a peer that understands it that this side was interrupted.
    pub fn send_interrupt_notice(&self) {
        // A peer that has ended needs no telling.
        let _ = (&self.stream).write_all(&INTERRUPT_NOTICE.to_le_bytes());
    }

    /// Tells a peer that understands it why this side cannot take part.
    pub fn refuse(&self, reason: &str) {
        let _ = (&self.stream).write_all(&wire::refusal(reason));
    }

    /// Bytes that can be read at once; 0 at the end of the connection.
    fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(bytes);
        self.stream.set_nonblocking(false)?;
        if let Err(error) = &peeked
            && !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        {
            self.lost.set(Some(error.kind()));
        }
        peeked
    }

    /// Why there is nothing more to read: the peer has closed, or what a look has found.
    fn ended(&self) -> LinkError {
        match self.lost.get() {
            Some(kind) => io::Error::from(kind).into(),
            None => LinkError::Closed,
        }
    }

    /// Header and payload in one write: a legacy peer takes what one `recv` gives it.
    fn send(&self, payload: &[u8]) -> Result<(), LinkError> {
        (&self.stream)
            .write_all(&message(payload))
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => LinkError::Late(ANSWER_LIMIT),
                _ => error.into(),
            })
    }

    fn receive(
        &self,
        most: usize,
        limit: Duration,
        look: &mut Look<'_>,
    ) -> Result<Vec<u8>, LinkError> {
        let limit = limit::in_effect(limit);
        let since = Instant::now();
        let mut incoming = Incoming::new(most);
        loop {
            self.wait_readable(limit, since, look)?;
            match (&self.stream).read(incoming.room()) {
                Ok(0) => return Err(self.ended()),
                Ok(more) => match incoming.advance(more) {
                    Ok(Some(payload)) => return Ok(payload),
                    Ok(None) => {}
                    Err(TooLong(INTERRUPT_NOTICE)) => return Err(LinkError::InterruptNotice),
                    Err(TooLong(length)) => return Err(LinkError::TooLong { length, most }),
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The reason of a refusal, which follows its announcement.
    pub fn refusal(&self) -> LinkError {
        match self.receive(MAX_PAYLOAD, ANSWER_LIMIT, &mut || Ok(())) {
            Ok(reason) => {
                let reason = wire::parse_string(&reason).unwrap_or("no reason given");
                LinkError::Refusal(reason.to_owned())
            }
            Err(error) => error,
        }
    }

    /// Waits for bytes or the end of the connection. A wait that takes longer than a moment is
    /// attended: a host that says nothing for [`SILENCE`] ends it.
    fn wait_readable(
        &self,
        limit: Duration,
        since: Instant,
        look: &mut Look<'_>,
    ) -> Result<(), LinkError> {
        let mut attended = false;
        let result = loop {
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                break Err(LinkError::Late(limit));
            }
            match interrupt::wait(&self.stream, PollFlags::IN, Some(left.min(ATTENTION))) {
                Ok(true) => break Ok(()),
                Ok(false) => {
                    if !attended {
                        attended = true;
                        self.allow_silence(SILENCE)?;
                    }
                    if let Err(failure) = look() {
                        break Err(failure.into());
                    }
                    // Linux looks anew at what is due when this is set, and probes at once.
                    sockopt::set_tcp_keepidle(&self.stream, PROBE_INTERVAL)?;
                }
                Err(error) => break Err(error.into()),
            }
        };
        if attended {
            self.allow_silence(SILENCE_UNATTENDED)?;
        }
        result
    }

    /// How long the peer's host may owe an answer to a probe or to bytes.
    fn allow_silence(&self, longest: Duration) -> io::Result<()> {
        let milliseconds = longest.as_millis() as u32;
        Ok(sockopt::set_tcp_user_timeout(&self.stream, milliseconds)?)
    }
}
