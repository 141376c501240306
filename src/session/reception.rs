//! Where a server waits for its client, among whoever else connects (defect T16 of tools.md).
//!
//! The handshakes of all connections go on at the same time, on one thread, so that a silent
//! stranger keeps nobody waiting. Nothing that a connection does before it has become the client
//! ends the wait.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::connection::Connection;
use super::handshake::{Handshake, Introduction, Refusal};
use super::listener::Listener;
use super::refusal_log::RefusalLog;
use super::wire::{Incoming, MAX_PAYLOAD, TooLong, message};
use super::{ANSWER_LIMIT, Agreed};
use crate::error::{Context, Failure, cause};
use crate::interrupt;
use crate::phase::enter;

/// Most connections in a handshake at a time. A new one takes the place of an old one that has not
/// named itself.
const MOST: usize = 256;

/// When a server speaks first. The clients of SHS 12 and before wait for that (wire.md 9.1); those
/// of today have spoken by then, and others mind no more than they would mind silence.
const PROMPT: Duration = Duration::from_secs(2);

/// Waits for the first connection that turns out to be a client with which we agree.
pub fn first_client(
    listener: &Listener,
    us: &Introduction,
    refusals: &mut RefusalLog,
) -> Result<(Connection, Agreed), Failure> {
    let mut candidates: Vec<Candidate> = Vec::new();
    loop {
        let ready = wait(listener, &candidates)?;
        let mut remaining = Vec::with_capacity(candidates.len());
        for (mut candidate, is_ready) in candidates.drain(..).zip(ready.candidates) {
            match candidate.attend(is_ready) {
                Ok(None) => remaining.push(candidate),
                Ok(Some(agreed)) => match candidate.into_connection() {
                    Ok(connection) => return Ok((connection, agreed)),
                    Err((peer, error)) => refusals.refused(peer, &lost(&error)),
                },
                Err(refusal) => refusals.refused(candidate.peer, &refusal),
            }
        }
        candidates = remaining;
        if ready.newcomers {
            admit(listener, us, &mut candidates, refusals)?;
        }
    }
}

/// Takes in whoever is at the door.
fn admit<'a>(
    listener: &Listener,
    us: &'a Introduction,
    candidates: &mut Vec<Candidate<'a>>,
    refusals: &mut RefusalLog,
) -> Result<(), Failure> {
    // Not more than the room holds at once: those inside want to be heard, too.
    for _ in 0..MOST {
        match listener.accept() {
            Ok(None) => return Ok(()),
            Ok(Some((stream, peer))) => {
                if candidates.len() == MOST {
                    crowd_out(candidates, refusals);
                }
                candidates.push(Candidate::new(stream, peer, us));
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
                    if !candidates.is_empty() =>
                {
                    crowd_out(candidates, refusals);
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
                        listener.port()
                    ));
                }
                // Linux reports here what went wrong with the connection that would have come.
                _ => {}
            },
        }
    }
    Ok(())
}

/// Makes room: the oldest that has not named itself has to go, else the oldest.
fn crowd_out(candidates: &mut Vec<Candidate>, refusals: &mut RefusalLog) {
    let nameless = candidates
        .iter()
        .position(|candidate| !candidate.handshake.is_named());
    let gone = candidates.remove(nameless.unwrap_or(0));
    let reason = format!("replaced by newer connections (at most {MOST} at a time)");
    refusals.refused(gone.peer, &Refusal::Unrelated(reason));
}

/// What [`wait`] found.
struct Ready {
    newcomers: bool,
    /// For each candidate, whether there is something to read.
    candidates: Vec<bool>,
}

/// Waits until something happens, or is overdue.
fn wait(listener: &Listener, candidates: &[Candidate]) -> Result<Ready, Failure> {
    let now = Instant::now();
    let due = candidates.iter().map(Candidate::due).min();
    let within = due.map(|due| due.saturating_duration_since(now));
    let mut polled = vec![PollFd::new(listener.socket(), PollFlags::IN)];
    polled.extend(
        candidates
            .iter()
            .map(|candidate| PollFd::new(&candidate.stream, PollFlags::IN)),
    );
    interrupt::wait_for_any(&mut polled, within)?;
    let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
    Ok(Ready {
        newcomers: ready.next().unwrap_or(false),
        candidates: ready.collect(),
    })
}

/// A connection that may become the client.
struct Candidate<'a> {
    stream: TcpStream,
    peer: SocketAddr,
    incoming: Incoming,
    handshake: Handshake<'a>,
    /// When the exchange at hand began.
    since: Instant,
    /// Whether this side speaks first, for the clients that wait for it.
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

    /// Until when it may stay silent.
    fn due(&self) -> Instant {
        let limit = match self.prompts || self.handshake.is_named() {
            true => ANSWER_LIMIT,
            false => PROMPT,
        };
        self.since + limit
    }

    /// Hears what it says and answers; returns what was agreed at the end of the handshake.
    fn attend(&mut self, is_ready: bool) -> Result<Option<Agreed>, Refusal> {
        if is_ready && let Some(agreed) = self.hear()? {
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

    fn hear(&mut self) -> Result<Option<Agreed>, Refusal> {
        // A server that is to end answers nobody.
        while !interrupt::requested() {
            let heard = match self.stream.read(self.incoming.room()) {
                Ok(0) if self.handshake.is_named() => {
                    return Err(self.refusal("it closed the connection"));
                }
                Ok(0) => {
                    let reason = "it closed the connection without sending the name of a tool";
                    return Err(self.refusal(reason));
                }
                Ok(heard) => heard,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.refusal(&cause(&error))),
            };
            let Some(payload) = self
                .incoming
                .advance(heard)
                .map_err(|TooLong(_)| self.refusal("it speaks another protocol"))?
            else {
                continue;
            };
            // A prompted client has this side's half of the exchange already.
            if !self.prompts {
                self.handshake.learn_tool(&payload);
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

    /// Our half of an exchange: little enough to find room in the socket at once.
    fn answer(&mut self) -> Result<(), Refusal> {
        enter(self.handshake.phase());
        match self.stream.write_all(&message(&self.handshake.mine())) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.refusal(&cause(&error))),
        }
    }

    /// Why it is refused: a stranger until it has named itself, a failed client afterwards.
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

/// A client that was lost at the last moment.
fn lost(error: &io::Error) -> Refusal {
    Refusal::Unrelated(cause(error))
}
