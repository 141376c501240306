//! The wait of a server of one tool for its client, and its answers to others while it measures.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::agreed::Agreed;
use super::connection::Connection;
use super::handshake::{Handshake, Refusal};
use super::introduction::HandshakeIntroduction;
use super::reception::{Dialogue, DialogueState, HandshakeLine, ReadySockets, Reception};
use super::refusal_log::RefusalLog;
use facts::error::{Context, Failure, cause};
use facts::interrupt;
use facts::net::listener::Listener;
use facts::phase::enter;

/// Time limit for the answers to clients that have connected when a busy server becomes free, or
/// when the time limit of a server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// How long a busy server leaves a new client without an answer: the run may be over by then.
const NEARLY_FREE: Duration = Duration::from_secs(1);

/// A client, and what was agreed with it.
type Met = (Connection, Agreed);

/// Waits for the first connection to `listener` whose handshake succeeds. Returns `None` if there
/// is none by the time limit, after which the connections of that moment have [`LAST_ANSWERS`] to
/// finish. No connection ends the wait unless it becomes the client.
///
/// # Errors
///
/// An interruption, and a process without free file descriptors.
pub fn first_client<'a>(
    listener: &'a Listener,
    us: &'a HandshakeIntroduction,
    refusals: RefusalLog<'a>,
    limit: Option<Duration>,
) -> Result<Option<Met>, Failure> {
    let mut reception = reception(listener, us, refusals);
    let end = limit.map(|limit| Instant::now() + limit);
    let client = loop {
        let ready = reception.wait(None, end)?;
        let client = answer(&mut reception, listener, &ready)?;
        if client.is_some() {
            break client;
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break last_answers(&mut reception, listener, |_| false)?;
        }
    };
    if client.is_some() {
        reception.served();
    }
    Ok(client)
}

/// Tells each client that the server is busy, until `end` is readable or closed. The connection of
/// a client that waits for its turn stays open until then, or until the limit of its answer.
/// Connections that come later stay with the listener.
pub fn turn_away<'a>(
    listener: &'a Listener,
    us: &'a HandshakeIntroduction,
    refusals: RefusalLog<'a>,
    end: &UnixStream,
) -> Result<(), Failure> {
    let mut reception = reception(listener, us, refusals);
    let nearly = Some(NEARLY_FREE);
    loop {
        let ready = reception.wait(Some(end), None)?;
        // A client that comes at the end of a run, perhaps after the client of that run has ended,
        // stays with the listener and is served next.
        if ready.end || ready.newcomers && interrupt::wait(end, PollFlags::IN, nearly)? {
            break;
        }
        answer(&mut reception, listener, &ready)?;
    }
    // A client whose handshake has begun gets its answer, not a closed connection.
    last_answers(&mut reception, listener, |handshake| handshake.turns_away())?;
    Ok(())
}

fn reception<'a>(
    listener: &'a Listener,
    us: &'a HandshakeIntroduction,
    refusals: RefusalLog<'a>,
) -> Reception<'a, Handshake<'a>> {
    Reception::new(listener, refusals, |line: &mut HandshakeLine| Ok(Handshake::new(us, line.peer)))
}

impl Dialogue for Handshake<'_> {
    type End = Met;

    fn is_named(&self) -> bool {
        Handshake::is_named(self)
    }

    fn answer(mut self, mut line: HandshakeLine) -> Result<DialogueState<Self>, Refusal> {
        while let Some(payload) = self.receive(&mut line)? {
            // A legacy client that waits for an answer sees the connection close. SIGPIPE would end
            // it without a message if it received one and sent the next (wire.md 10).
            if self.turns_away() {
                return Err(self.refusal(&line, "the server is busy"));
            }
            // A prompted client has already received this side's half of the exchange.
            if !line.is_prompted {
                self.learn(&payload);
                self.send_mine(&mut line)?;
            }
            if let Some(agreed) = self.accept(&payload)? {
                let connection = Connection::new(line.stream, line.peer, false);
                let lost = |error| Refusal::Unrelated(cause(&error));
                return Ok(DialogueState::Over((connection.map_err(lost)?, agreed)));
            }
            if line.is_prompted {
                self.send_mine(&mut line)?;
            }
        }
        Ok(DialogueState::Waits(self, line))
    }

    fn prompt(&mut self, line: &mut HandshakeLine) -> Result<(), Refusal> {
        self.send_mine(line)
    }

    fn failure(&mut self, line: &HandshakeLine, reason: &str) -> Failure {
        let (peer, doing) = (line.peer, self.doing());
        let failure = format!("the client ({peer}) failed {doing}: {reason}");
        Handshake::failure(self, Failure::environment(failure))
    }
}

impl Handshake<'_> {
    /// Sends this side's half of an exchange.
    fn send_mine(&mut self, line: &mut HandshakeLine) -> Result<(), Refusal> {
        // The answers of a busy server are no phase of its run.
        if !self.is_busy() {
            enter(self.phase());
        }
        let mine = self.mine();
        self.send(line, &mine)
    }
}

/// Continues the handshakes of the connections that are ready. Returns the client, once there is
/// one.
fn answer(
    reception: &mut Reception<Handshake>,
    listener: &Listener,
    ready: &ReadySockets,
) -> Result<Option<Met>, Failure> {
    let port = listener.port();
    let answered = reception.answer(ready);
    answered.environment(format_args!("cannot accept a connection on TCP port {port}"))
}

/// Continues the handshakes that have begun, until all are answered, for [`LAST_ANSWERS`] at most.
/// Returns the client, if there is one.
fn last_answers(
    reception: &mut Reception<Handshake>,
    listener: &Listener,
    is_answered: impl Fn(&Handshake) -> bool,
) -> Result<Option<Met>, Failure> {
    let until = Instant::now() + LAST_ANSWERS;
    while !reception.dialogues().all(&is_answered) && Instant::now() < until {
        let ready = reception.wait_for_present(Some(until))?;
        if let Some(client) = answer(reception, listener, &ready)? {
            return Ok(Some(client));
        }
    }
    Ok(None)
}
