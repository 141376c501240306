//! A server: its socket, how it gets from client to client, its wait for the client of one tool,
//! and its answers to others while it measures with that client.
//!
//! A thread answers the others, because the measuring thread must not be disturbed. It sleeps until
//! there is a connection, runs on other CPUs where there are any, and a client costs it one name
//! and one version.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use cxi::placement::Confined;
use facts::error::{Context, Failure, cause};
use facts::interrupt;
use facts::net::listener::{Listener, Reach};
use facts::number::time_text;
use facts::phase::{Phase, enter};
use node::local_address::LocalAddress;
use plan::Plan;
use rustix::event::PollFlags;

use super::admission::Serving;
use super::connection::Connection;
use super::handshake::{Agreed, Handshake, Refusal};
use super::open::Session;
use super::peer_facts::{HandshakeIntroduction, machine};
use super::reception::{Dialogue, DialogueState, HandshakeLine, ReadySockets, Reception};
use super::refusal_log::RefusalLog;

/// Beginning of the line in which a server prints its port.
pub const LISTENING: &str = "Listening on port ";

/// A server's listening socket.
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Listens on the plan's port.
    ///
    /// # Errors
    ///
    /// A port or address that cannot be used.
    pub fn listen(plan: &Plan, reach: Reach) -> Result<Self, Failure> {
        enter(Phase::Listening);
        let listener = Listener::bind(plan.listening.bind.as_deref(), plan.port, reach)?;
        Ok(Self { listener })
    }

    /// Prints the port to `out`.
    pub fn announce(&self, out: &mut impl Write) -> Result<(), Failure> {
        let port = self.port();
        writeln!(out, "{LISTENING}{port} for client to connect...")
            .and_then(|()| out.flush())
            .map_err(interrupt::output_failed)
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Waits for a client of the plan's tool, for the plan's time limit at most. Other connections
    /// are logged to `err` and ignored (defect T16 of tools.md). The socket stays open: the next
    /// call finds the next client.
    ///
    /// # Errors
    ///
    /// The end of the time limit, an interruption, and a process that has no file descriptors left.
    pub fn find_client(
        &self,
        plan: &Plan,
        own: LocalAddress,
        err: &mut impl Write,
    ) -> Result<(Session, Agreed), Failure> {
        let us = HandshakeIntroduction::new(plan, own, self.port(), machine());
        let refusals = RefusalLog::new(&plan.program, err);
        let limit = plan.listening.timeout.filter(|limit| !limit.is_zero());
        let found = first_client(&self.listener, &us, refusals, limit)?;
        let (connection, agreed) = found.ok_or_else(|| {
            let limit = time_text(limit.unwrap_or_default());
            let port = self.port();
            Failure::environment(format!("no client came to TCP port {port} within {limit}"))
        })?;
        let connection = connection.with_program(&plan.program);
        Ok((Session::new(connection, &agreed, plan), agreed))
    }

    /// Calls `serve` with the session of a client. Until the run is over, a thread tells other
    /// clients that the server is busy; later ones wait for the next [`Self::find_client`], and all
    /// do if the thread cannot be started. It runs on `cpus`, if there are any, and the scheduler
    /// prefers other threads to it.
    ///
    /// # Errors
    ///
    /// The errors of `serve`.
    pub fn serve_alone(
        &self,
        plan: &Plan,
        own: LocalAddress,
        cpus: &[u32],
        session: Session,
        serve: impl FnOnce(Session) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut us = HandshakeIntroduction::new(plan, own, self.port(), machine());
        us.serving = Some(Serving { client: session.peer().ip(), since: Instant::now() });
        turn_away_during(&self.listener, &us, cpus, |running| {
            session.running.replace(running);
            serve(session)
        })
    }
}

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

/// Niceness of the thread: the measurement has a higher priority. With the lowest one, the thread,
/// and the run with it, would end seconds later on a loaded host.
const NICENESS: i32 = 5;

/// Name of the thread.
const NAME: &str = "busy";

/// Calls `serve`, while a thread on `cpus` (any if empty) turns away the clients of `listener`. The
/// thread ends when `serve` drops its argument. If it cannot be started, other clients wait.
///
/// # Errors
///
/// The errors of `serve`.
fn turn_away_during(
    listener: &Listener,
    us: &HandshakeIntroduction,
    cpus: &[u32],
    serve: impl FnOnce(Option<UnixStream>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Ok((running, end)) = UnixStream::pair() else {
        return serve(None);
    };
    let turn_away = || {
        // Without its own CPUs, or a lower priority, the thread answers as well.
        let _confined = Confined::to(cpus);
        let _ = rustix::process::nice(NICENESS);
        // Clients see in the answer why they are turned away: nothing is printed.
        let log = &mut io::sink();
        // An interruption ends `serve` as well. Without file descriptors, clients wait.
        let _ = turn_away(listener, us, RefusalLog::new("", log), &end);
    };
    let thread = Builder::new().name(NAME.into());
    beside(thread, turn_away, || serve(Some(running)))
}

/// The result of `run`, which is called while `thread` executes `answer`, if it can be started: the
/// run matters more than the answers.
fn beside<T>(thread: Builder, answer: impl FnOnce() + Send, run: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let _ = thread.spawn_scoped(scope, answer);
        run()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_a_thread_that_cannot_be_started() {
        // No address space has room for this stack.
        let thread = Builder::new().stack_size(1 << 50);
        let outcome = beside(thread, || panic!("it has started"), || "measured");
        assert_eq!(outcome, "measured");
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod server_tests;
