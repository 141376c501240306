//! One TCP connection to a peer, and the exchange of messages on it (wire.md 2 and 3).
//!
//! A wait watches the connection. The end of the peer's process is noticed at once, because its
//! kernel closes or resets the connection. A silent host or network is noticed by TCP keepalive:
//! this side may not send a byte between two messages, since a legacy peer would read it as part of
//! the next one. The kernel of a stopped process still answers; such a wait ends by its limit.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, recv, sockopt};

use super::link_error::{self, LinkError};
use super::wait::{Deadline, Wait};
use super::wire::{self, INTERRUPT_NOTICE, MAX_PAYLOAD, Notice, REFUSAL, TICK};
use facts::child::PROGRAM;
use facts::error::Failure;
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::net::{Incoming, TooLong, message};

/// How long the peer's host may leave keepalive probes of a waiting side unanswered: the next
/// probe, after two seconds at most, ends the wait.
const SILENCE: Duration = Duration::from_millis(1700);

/// The same limit while no wait is in progress. The kernel then sends one probe per second, and two
/// lost probes must not end a run.
const SILENCE_UNATTENDED: Duration = Duration::from_secs(5);

/// Time without traffic before the kernel sends a probe, and the interval of further probes: the
/// smallest value that the kernel accepts.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which a waiting side makes the kernel send a probe, so that [`SILENCE`] covers
/// several probes.
const ATTENTION: Duration = Duration::from_millis(250);

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Discards what has arrived. If a connection is closed with unread bytes, Linux resets it, and the
/// peer may not read what was sent last.
pub fn discard(stream: &TcpStream) {
    let mut part = [0; 4096];
    while recv(stream, &mut part, RecvFlags::DONTWAIT).is_ok_and(|(count, _)| count > 0) {}
}

const REASON: Wait<'static> = Wait::for_answer("with the reason of its refusal", ANSWER_LIMIT);

const TICK_BYTES: [u8; 4] = TICK.to_le_bytes();

/// A check that a wait makes regularly; a failure ends the wait.
pub type PeerCheck<'a> = dyn FnMut() -> Result<(), Failure> + 'a;

/// A connection to a peer.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    /// This side sends first in each exchange: the client.
    leads: bool,
    /// Why the connection is lost, if a check has found it: the kernel reports it only once.
    lost: Cell<Option<ErrorKind>>,
    /// Both sides have all their resources.
    is_ready: Cell<bool>,
    /// The peer sends ticks.
    has_ticks: Cell<bool>,
    /// Name of the program, at the beginning of lines about long waits.
    program: String,
}

impl Connection {
    /// Creates the connection of `stream` to `peer`; `leads` on the client's side.
    ///
    /// # Errors
    ///
    /// Socket options that the kernel refuses.
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
            is_ready: Cell::new(false),
            has_ticks: Cell::new(false),
            program: PROGRAM.into(),
        };
        connection.allow_silence(SILENCE_UNATTENDED)?;
        Ok(connection)
    }

    /// The connection with the name of the program, for lines about long waits.
    pub fn with_program(self, program: &str) -> Self {
        Self { program: program.to_owned(), ..self }
    }

    /// Notes whether the peer sends ticks.
    pub fn expect_ticks(&self, has_ticks: bool) {
        self.has_ticks.set(has_ticks);
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The TCP address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The TCP address of this side.
    ///
    /// # Errors
    ///
    /// A socket without an address.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Exchanges one message in each direction, the client's first. Returns the peer's payload, of
    /// at most `most` bytes; `wait` describes the wait for it.
    ///
    /// # Errors
    ///
    /// Each [`LinkError`].
    pub fn exchange(
        &self,
        mine: &[u8],
        most: usize,
        wait: &Wait<'_>,
    ) -> Result<Vec<u8>, LinkError> {
        self.exchange_while(mine, most, wait, &mut || Ok(()))
    }

    /// Exchanges messages as [`Self::exchange`] does; a failure of `look`, which is called at
    /// intervals of [`ATTENTION`], ends the wait.
    ///
    /// # Errors
    ///
    /// Each [`LinkError`].
    pub fn exchange_while(
        &self,
        mine: &[u8],
        most: usize,
        wait: &Wait<'_>,
        look: &mut PeerCheck<'_>,
    ) -> Result<Vec<u8>, LinkError> {
        // After a signal, no exchange begins.
        interrupt::check()?;
        if self.leads {
            self.send(mine)?;
            self.receive(most, wait, look)
        } else {
            let theirs = self.receive(most, wait, look)?;
            self.send(mine)?;
            Ok(theirs)
        }
    }

    /// Checks the connection without waiting; `doing` completes the message.
    ///
    /// # Errors
    ///
    /// A connection that the peer has closed, a lost host, and an interrupt notice or a refusal,
    /// also behind unread messages.
    pub fn check(&self, doing: &str) -> Result<(), Failure> {
        let mut bytes = [0; 64];
        let error = match self.peek(&mut bytes) {
            Ok(0) => self.ended(),
            Ok(count) => match wire::notice(&bytes[..count]) {
                None => return Ok(()),
                Some(Notice::Interrupt) => LinkError::InterruptNotice,
                Some(Notice::Refusal) => match self.refusal_behind_messages() {
                    LinkError::Refusal(reason) => return Err(self.refused(reason)),
                    other => other,
                },
            },
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => return Ok(()),
                _ => error.into(),
            },
        };
        Err(error.into_failure(self.peer, doing))
    }

    /// Marks that both sides have all their resources: a refusal ends a run from now on.
    pub fn begin_run(&self) {
        self.is_ready.set(true);
    }

    /// The failure of a run that the peer has refused, or ended, for this reason.
    pub fn refused(&self, reason: String) -> Failure {
        if !self.is_ready.get() {
            return LinkError::Refusal(reason).into_failure(self.peer, "");
        }
        link_error::ended_run(self.peer, &reason)
    }

    /// Whether there is something to read. Does not wait.
    pub fn has_message(&self) -> bool {
        self.peek(&mut [0; 64]).is_ok_and(|bytes| bytes > 0)
    }

    /// Waits, for `within` at most, until there is something to read or the connection has ended.
    pub fn wait(&self, within: Duration) -> Result<(), Failure> {
        interrupt::wait(&self.stream, PollFlags::IN, Some(within)).map(|_| ())
    }

    /// Sends an interrupt notice, which only a cxidiag peer understands.
    pub fn send_interrupt_notice(&self) {
        // A peer that has ended does not need the notice.
        let _ = (&self.stream).write_all(&INTERRUPT_NOTICE.to_le_bytes());
        discard(&self.stream);
    }

    /// Sends the reason why this side cannot run, which only a cxidiag peer understands.
    pub fn refuse(&self, reason: &str) {
        let _ = (&self.stream).write_all(&wire::refusal(reason));
        discard(&self.stream);
    }

    /// The number of bytes that can be read at once; 0 at the end of the connection.
    fn peek(&self, bytes: &mut [u8; 64]) -> io::Result<usize> {
        // One system call: a loop that measures makes this check.
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = loop {
            let peeked = recv(&self.stream, &mut bytes[..], flags).map(|(count, _)| count);
            let is_tick = self.has_ticks.get()
                && matches!(peeked, Ok(count) if count >= TICK_BYTES.len())
                && bytes.starts_with(&TICK_BYTES);
            if !is_tick {
                break peeked.map_err(io::Error::from);
            }
            // It would hide what comes later.
            recv(&self.stream, &mut TICK_BYTES.clone(), RecvFlags::DONTWAIT)?;
        };
        if let Err(error) = &peeked
            && !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        {
            self.lost.set(Some(error.kind()));
        }
        peeked
    }

    /// Why the connection has ended: the error that a check has found, or a close by the peer.
    fn ended(&self) -> LinkError {
        match self.lost.get() {
            Some(kind) => io::Error::from(kind).into(),
            None => LinkError::Closed,
        }
    }

    /// The socket.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends header and payload with one write: a legacy peer expects both in one `recv`.
    ///
    /// # Errors
    ///
    /// [`LinkError::Late`] and the errors of the socket.
    pub fn send(&self, payload: &[u8]) -> Result<(), LinkError> {
        (&self.stream).write_all(&message(payload)).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => LinkError::Late(ANSWER_LIMIT),
            _ => match error.into() {
                LinkError::Closed => self.last_notice().unwrap_or(LinkError::Closed),
                other => other,
            },
        })
    }

    /// Sends a payload; `doing` says in a failure what this side does.
    pub fn tell(&self, payload: &[u8], doing: &str) -> Result<(), Failure> {
        self.send(payload).map_err(|error| error.into_failure(self.peer, doing))
    }

    /// The notice that the peer sent before it closed the connection, if it is unread.
    fn last_notice(&self) -> Option<LinkError> {
        let mut bytes = [0; 64];
        let count = self.peek(&mut bytes).ok()?;
        Some(match wire::notice(&bytes[..count])? {
            Notice::Interrupt => LinkError::InterruptNotice,
            Notice::Refusal => self.refusal_behind_messages(),
        })
    }

    /// The payload of the next message, of at most `most` bytes; the limit of `wait` and a failure
    /// of `look` end the wait. One line informs the user of a long wait.
    ///
    /// # Errors
    ///
    /// Each [`LinkError`].
    pub fn receive(
        &self,
        most: usize,
        wait: &Wait<'_>,
        look: &mut PeerCheck<'_>,
    ) -> Result<Vec<u8>, LinkError> {
        let mut deadline = Deadline::new(wait, self.has_ticks.get(), Instant::now());
        let mut incoming = Incoming::new(most);
        loop {
            self.wait_readable(&mut deadline, wait.doing, look)?;
            match (&self.stream).read(incoming.room()) {
                Ok(0) => return Err(self.ended()),
                Ok(more) => match incoming.advance(more) {
                    Ok(Some(payload)) => return Ok(payload),
                    Ok(None) => {}
                    Err(TooLong(INTERRUPT_NOTICE)) => return Err(LinkError::InterruptNotice),
                    Err(TooLong(TICK)) if self.has_ticks.get() => {
                        deadline.tick(Instant::now());
                        incoming = Incoming::new(most);
                    }
                    Err(TooLong(length)) => return Err(LinkError::TooLong { length, most }),
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives the reason of a refusal, which follows its announcement.
    pub fn refusal(&self) -> LinkError {
        match self.receive(MAX_PAYLOAD, &REASON, &mut || Ok(())) {
            Ok(reason) => {
                let reason = wire::parse_string(&reason).unwrap_or("no reason given");
                LinkError::Refusal(reason.to_owned())
            }
            Err(error) => error,
        }
    }

    /// Receives the reason of a refusal that follows other messages.
    fn refusal_behind_messages(&self) -> LinkError {
        loop {
            match self.receive(MAX_PAYLOAD, &REASON, &mut || Ok(())) {
                Ok(_) => {}
                Err(LinkError::TooLong { length: REFUSAL, .. }) => return self.refusal(),
                Err(error) => return error,
            }
        }
    }

    /// Waits for bytes or the end of the connection. After the first [`ATTENTION`], a host that is
    /// silent for [`SILENCE`] ends the wait.
    fn wait_readable(
        &self,
        deadline: &mut Deadline,
        doing: &str,
        look: &mut PeerCheck<'_>,
    ) -> Result<(), LinkError> {
        let mut attended = false;
        let result = loop {
            let now = Instant::now();
            self.inform(deadline, doing, now);
            let left = match deadline.left(now) {
                Ok(left) => left,
                Err(exceeded) => break Err(exceeded),
            };
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
                    // Setting this option makes Linux send a due probe at once.
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

    /// Prints the line about a long wait when it is due.
    fn inform(&self, deadline: &mut Deadline, doing: &str, now: Instant) {
        if let Some(notice) = deadline.notice(now) {
            let role = if self.leads { "server" } else { "client" };
            let peer = format!("the {role} ({})", self.peer);
            let line = format!("{}: {}\n", self.program, notice.text(&peer, doing));
            // The wait goes on if the line cannot be written.
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    /// Sets how long the peer's host may leave a probe or data unacknowledged.
    fn allow_silence(&self, longest: Duration) -> io::Result<()> {
        let milliseconds = longest.as_millis() as u32;
        Ok(sockopt::set_tcp_user_timeout(&self.stream, milliseconds)?)
    }
}
