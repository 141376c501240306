//! A server's wait for its client, among unrelated connections (defect T16 of tools.md).
//!
//! One thread performs the handshakes of all connections at the same time: a silent connection does
//! not delay the others. No connection ends the wait unless it becomes the client.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::agreed::Agreed;
use super::connection::Connection;
use super::handshake::{Handshake, Refusal};
use super::introduction::Introduction;
use super::refusal_log::RefusalLog;
use super::wire::MAX_PAYLOAD;
use facts::error::{Context, Failure, cause};
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::net::framing::{Incoming, TooLong, message};
use facts::net::listener::Listener;
use facts::phase::enter;

/// Maximum number of connections in a handshake. A new one replaces an old one, if possible one
/// that has not sent the name of a tool.
const MOST: usize = 256;

/// Time after which a server sends its name first. The clients of SHS 12 and before wait for it
/// (wire.md 9.1); newer ones have sent theirs by then.
pub const PROMPT: Duration = Duration::from_secs(2);

/// Time limit for the answers to clients that have connected when a busy server becomes free, or
/// when the time limit of a server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// How long a busy server leaves a new client without an answer: the run may be over by then.
const NEARLY_FREE: Duration = Duration::from_secs(1);

/// The connections to a server that have not become its client.
pub struct Reception<'a> {
    listener: &'a Listener,
    us: &'a Introduction,
    refusals: RefusalLog<'a>,
    candidates: Vec<Candidate<'a>>,
}

impl<'a> Reception<'a> {
    /// Creates the reception for the connections of `listener`. It logs to `refusals`.
    pub fn new(listener: &'a Listener, us: &'a Introduction, refusals: RefusalLog<'a>) -> Self {
        Self { listener, us, refusals, candidates: Vec::new() }
    }

    /// Waits for the first connection whose handshake succeeds. Returns `None` if there is none by
    /// the time limit, after which the connections of that moment have [`LAST_ANSWERS`] to finish.
    ///
    /// # Errors
    ///
    /// An interruption, and a process without free file descriptors.
    pub fn first_client(
        mut self,
        limit: Option<Duration>,
    ) -> Result<Option<(Connection, Agreed)>, Failure> {
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            let ready = wait(Some(self.listener), &self.candidates, None, end)?;
            if let Some(client) = self.answer(ready)? {
                self.refusals.served();
                return Ok(Some(client));
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
        }
        let client = self.last_answers(|_| false)?;
        if client.is_some() {
            self.refusals.served();
        }
        Ok(client)
    }

    /// Tells each client that the server is busy, until `end` is readable or closed. The connection
    /// of a client that waits for its turn stays open until then, or until [`ANSWER_LIMIT`].
    /// Connections that come later stay with the listener.
    pub fn turn_away(mut self, end: &UnixStream) -> Result<(), Failure> {
        loop {
            let ready = wait(Some(self.listener), &self.candidates, Some(end), None)?;
            // A client that comes at the end of a run, perhaps after the client of that run has
            // ended, stays with the listener and is served next.
            let is_over = || {
                let until = Instant::now() + NEARLY_FREE;
                wait(None, &[], Some(end), Some(until)).map(|ready| ready.end)
            };
            if ready.end || ready.newcomers && is_over()? {
                break;
            }
            self.answer(ready)?;
        }
        // A client whose handshake has begun gets its answer, not a closed connection.
        self.last_answers(|candidate| candidate.handshake.turns_away())?;
        Ok(())
    }

    /// Continues the handshakes that have begun, until all are answered, for [`LAST_ANSWERS`] at
    /// most. Returns the client, if there is one.
    fn last_answers(
        &mut self,
        is_answered: impl Fn(&Candidate) -> bool,
    ) -> Result<Option<(Connection, Agreed)>, Failure> {
        let until = Instant::now() + LAST_ANSWERS;
        while !self.candidates.iter().all(&is_answered) && Instant::now() < until {
            let ready = wait(None, &self.candidates, None, Some(until))?;
            if let Some(client) = self.answer(ready)? {
                return Ok(Some(client));
            }
        }
        Ok(None)
    }

    /// Continues the handshakes of the connections that are ready. Returns the client, once there
    /// is one.
    fn answer(&mut self, ready: ReadySockets) -> Result<Option<(Connection, Agreed)>, Failure> {
        let candidates = mem::take(&mut self.candidates);
        for (mut candidate, is_ready) in candidates.into_iter().zip(ready.candidates) {
            match candidate.advance(is_ready) {
                Ok(None) => self.candidates.push(candidate),
                Ok(Some(agreed)) => match candidate.into_connection() {
                    Ok(connection) => return Ok(Some((connection, agreed))),
                    Err((peer, error)) => self.refusals.refused(peer, &lost(&error)),
                },
                Err(refusal) => self.refusals.refused(candidate.peer, &refusal),
            }
        }
        if ready.newcomers {
            self.admit()?;
        }
        Ok(None)
    }

    /// Accepts the new connections.
    fn admit(&mut self) -> Result<(), Failure> {
        // Not more than MOST at once, so that the accepted ones are served in between.
        for _ in 0..MOST {
            match self.listener.accept() {
                Ok(None) => return Ok(()),
                Ok(Some((stream, peer))) => {
                    if self.candidates.len() == MOST {
                        self.drop_oldest();
                    }
                    self.candidates.push(Candidate::new(stream, peer, self.us));
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
                        if !self.candidates.is_empty() =>
                    {
                        self.drop_oldest();
                    }
                    Some(
                        fatal @ (Errno::MFILE
                        | Errno::NFILE
                        | Errno::NOBUFS
                        | Errno::NOMEM
                        | Errno::BADF
                        | Errno::INVAL),
                    ) => {
                        return Err(fatal).environment(format_args!(
                            "cannot accept a connection on TCP port {}",
                            self.listener.port()
                        ));
                    }
                    // Linux reports errors of the new connection here.
                    _ => {}
                },
            }
        }
        Ok(())
    }

    /// Drops the oldest connection that has not sent the name of a tool, or else the oldest.
    fn drop_oldest(&mut self) {
        let nameless = self.candidates.iter().position(|candidate| !candidate.handshake.is_named());
        let gone = self.candidates.remove(nameless.unwrap_or(0));
        let reason = format!("replaced by newer connections (at most {MOST} at a time)");
        self.refusals.refused(gone.peer, &Refusal::Unrelated(reason));
    }
}

/// What is ready after [`wait`].
struct ReadySockets {
    /// For each candidate, whether there is something to read.
    candidates: Vec<bool>,
    /// Whether there are new connections.
    newcomers: bool,
    /// Whether the end was requested.
    end: bool,
}

/// Waits for a connection to `listener`, for bytes of a candidate, for `end` to be readable or
/// closed, or for the earliest time limit: a candidate's, or `until`.
fn wait(
    listener: Option<&Listener>,
    candidates: &[Candidate],
    end: Option<&UnixStream>,
    until: Option<Instant>,
) -> Result<ReadySockets, Failure> {
    let now = Instant::now();
    let due = candidates.iter().map(Candidate::due).chain(until).min();
    let within = due.map(|due| due.saturating_duration_since(now));
    let streams = candidates.iter().map(|candidate| &candidate.stream);
    let mut polled: Vec<PollFd> = streams
        .map(|stream| PollFd::new(stream, PollFlags::IN))
        .chain(listener.map(|listener| PollFd::new(listener.socket(), PollFlags::IN)))
        .chain(end.map(|end| PollFd::new(end, PollFlags::IN)))
        .collect();
    interrupt::wait_for_any(&mut polled, within)?;
    let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
    Ok(ReadySockets {
        candidates: ready.by_ref().take(candidates.len()).collect(),
        newcomers: listener.is_some() && ready.next() == Some(true),
        end: end.is_some() && ready.next() == Some(true),
    })
}

/// A connection that may become the client.
struct Candidate<'a> {
    stream: TcpStream,
    peer: SocketAddr,
    incoming: Incoming,
    handshake: Handshake<'a>,
    /// When the current exchange began.
    since: Instant,
    /// Whether this side sends first, for clients that wait for it.
    prompts: bool,
}

impl<'a> Candidate<'a> {
    fn new(stream: TcpStream, peer: SocketAddr, us: &'a Introduction) -> Self {
        Self {
            stream,
            peer,
            incoming: Incoming::new(MAX_PAYLOAD),
            handshake: Handshake::new(us, peer),
            since: Instant::now(),
            prompts: false,
        }
    }

    /// Returns the time limit of the current exchange.
    fn due(&self) -> Instant {
        let limit = if self.prompts || self.handshake.is_named() { ANSWER_LIMIT } else { PROMPT };
        self.since + limit
    }

    /// Continues the handshake; returns what was agreed at its end.
    fn advance(&mut self, is_ready: bool) -> Result<Option<Agreed>, Refusal> {
        if is_ready && let Some(agreed) = self.receive()? {
            return Ok(Some(agreed));
        }
        if Instant::now() < self.due() {
            return Ok(None);
        }
        if !self.prompts && !self.handshake.is_named() {
            self.prompts = true;
            self.answer()?;
            return Ok(None);
        }
        let silence = format!("it sent nothing for {} s", ANSWER_LIMIT.as_secs());
        Err(self.refusal(&silence))
    }

    fn receive(&mut self) -> Result<Option<Agreed>, Refusal> {
        // After a signal, nothing is answered.
        while !interrupt::requested() {
            let received = match self.stream.read(self.incoming.room()) {
                Ok(0) if self.handshake.is_named() => {
                    return Err(self.refusal("it closed the connection"));
                }
                Ok(0) => {
                    let reason = "it closed the connection without sending the name of a tool";
                    return Err(self.refusal(reason));
                }
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.refusal(&cause(&error))),
            };
            let Some(payload) = self
                .incoming
                .advance(received)
                .map_err(|TooLong(_)| self.refusal("it speaks another protocol"))?
            else {
                continue;
            };
            // A legacy client that waits for an answer sees the connection close. SIGPIPE would end
            // it without a message if it received one and sent the next (wire.md 10).
            if self.handshake.turns_away() {
                return Err(self.refusal("the server is busy"));
            }
            // A prompted client has already received this side's half of the exchange.
            if !self.prompts {
                self.handshake.learn(&payload);
                self.answer()?;
            }
            if let Some(agreed) = self.handshake.accept(&payload)? {
                return Ok(Some(agreed));
            }
            if self.prompts {
                self.answer()?;
            }
            self.since = Instant::now();
        }
        Ok(None)
    }

    /// Sends this side's half of an exchange, which always fits into the socket's buffer.
    fn answer(&mut self) -> Result<(), Refusal> {
        // The answers of a busy server are no phase of its run.
        if !self.handshake.is_busy() {
            enter(self.handshake.phase());
        }
        match self.stream.write_all(&message(&self.handshake.mine())) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refusal(&cause(&error))),
        }
    }

    /// Returns a refusal: of an unrelated connection until it has sent the name of a tool, of a
    /// client afterwards.
    fn refusal(&mut self, reason: &str) -> Refusal {
        if !self.handshake.is_named() {
            return Refusal::Unrelated(reason.to_owned());
        }
        let failure = Failure::environment(format!(
            "the client ({}) failed {}: {reason}",
            self.peer,
            self.handshake.doing()
        ));
        Refusal::Failed(self.handshake.failure(failure))
    }

    fn into_connection(self) -> Result<Connection, (SocketAddr, io::Error)> {
        Connection::new(self.stream, self.peer, false).map_err(|error| (self.peer, error))
    }
}

/// Returns the refusal of a client that was lost after the handshake.
fn lost(error: &io::Error) -> Refusal {
    Refusal::Unrelated(cause(error))
}
