//! How a client begins a session, its wait for its turn at a NIC of a server of all tools, and the
//! process of that server which takes the client over.
//!
//! Client and server announce with their versions that they know of turns. The server then sends
//! the place of the client in the queue of its NICs after the handshake, and again whenever it
//! changes: strings, `0` when it is the client's turn. A client that does not know of turns waits
//! at the *ready* barrier, which has no time limit in legacy tools (wire.md 6.1).
//!
//! A client that is stopped must not keep the NIC. If both sides know of calls, the `0` is a call:
//! the client answers with the number of calls that it has read, and begins with the next `0`. A
//! server that has waited for [`CALL_LIMIT`] sends another place instead, and calls again later.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use facts::advice::{Advise, Situation};
use facts::error::{Context, Failure, Step, cause};
use facts::interrupt;
use facts::limit::{self, ANSWER_LIMIT};
use facts::number::time_text;
use facts::phase::{Phase, enter};
use node::local_address::LocalAddress;
use plan::Plan;
use rustix::event::{PollFd, PollFlags};
use serde::de::DeserializeOwned;

use crate::connect::ServerSearch;
use crate::connection::Connection;
use crate::handshake::{Agreed, Handshake, Refusal};
use crate::link_error::LinkError;
use crate::open::Session;
use crate::peer_facts::{HandshakeIntroduction, PeerFacts, machine};
use crate::wait::Wait;
use crate::wire::{self, BUSY, MAX_PAYLOAD, REFUSAL};

/// Time that a client has to answer a call.
const CALL_LIMIT: Duration = Duration::from_secs(5);

/// Time that a client which does not know of calls has to come to the *ready* barrier: it allocates
/// its buffers meanwhile.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Time that a server which sends ticks has to send the first place: it sends one at once.
const FIRST_PLACE_LIMIT: Duration = Duration::from_secs(60);

/// The activity of the client of a server at this point, in messages.
const WAITING: &str = "while it waited for its turn";

/// The activity of this client at this point, in messages.
const QUEUEING: &str = "while this client waited for its turn";

/// Waits until it is this client's turn, for the plan's time limit at most. Prints the place in the
/// queue whenever it changes.
///
/// # Errors
///
/// A server that ends or refuses, the end of the time limit, and an interruption.
fn wait(connection: &Connection, plan: &Plan, agreed: &Agreed) -> Result<(), Failure> {
    wait_in_queue(connection, plan, agreed).map_err(|failure| failure.in_step(Step::Turn))
}

fn wait_in_queue(connection: &Connection, plan: &Plan, agreed: &Agreed) -> Result<(), Failure> {
    let since = Instant::now();
    let limit = plan.reaching.turn.unwrap_or(Duration::MAX);
    let peer = connection.peer();
    let nic = agreed.peer_device.map_or("the NIC".into(), |device| device.to_string());
    let mut last = None;
    let mut calls = TurnSignal::default();
    let mut has_answered = false;
    loop {
        let left = limit.saturating_sub(since.elapsed());
        let has_place = last.is_some() || calls.count > 0;
        let is_first = !has_place && agreed.peer_ticks && left > FIRST_PLACE_LIMIT;
        // The clients before this one measure for any time.
        let is_in_queue = last.is_some() && !has_answered;
        let wait = Wait {
            doing: QUEUEING,
            limit: if is_first { FIRST_PLACE_LIMIT } else { left },
            needed: is_in_queue.then_some(Duration::MAX),
        };
        let place = match connection.receive(MAX_PAYLOAD, &wait, &mut || Ok(())) {
            Ok(payload) => place(&payload, peer)?,
            Err(LinkError::TooLong { length: REFUSAL, .. }) => {
                return Err(connection.refusal().into_failure(peer, QUEUEING));
            }
            Err(LinkError::Late(_)) if !is_first => {
                let place = last.map_or(String::new(), |place| format!(", place {place}"));
                let limit = time_text(limit);
                return Err(Failure::environment(format!(
                    "{nic} of the server ({peer}) is in use: no turn within {limit}{place}"
                )));
            }
            Err(error) => return Err(error.into_failure(peer, QUEUEING)),
        };
        if place == 0 {
            if has_answered || !agreed.answers_calls {
                return Ok(());
            }
            calls.count += 1;
            // The next message may take the call back, after a stop of this process.
            if !connection.has_message() {
                connection.tell(&calls.answer(), QUEUEING)?;
                has_answered = true;
            }
            continue;
        }
        has_answered = false;
        last = Some(place);
        let program = &plan.program;
        let note = format!("{program}: waiting for {nic} of the server ({peer}): place {place}\n");
        // The run goes on if a note cannot be written.
        let _ = io::stderr().write_all(note.as_bytes());
    }
}

/// The place in a message of the server.
pub(super) fn place(payload: &[u8], peer: SocketAddr) -> Result<u32, Failure> {
    let place = wire::parse_string(payload).and_then(|text| text.parse().ok());
    place.ok_or_else(|| {
        Failure::environment(format!("the server ({peer}) sent an invalid place in its queue"))
    })
}

/// The calls of one client.
#[derive(Debug, Default)]
pub struct TurnSignal {
    /// Number of calls.
    count: u32,
}

impl TurnSignal {
    /// The answer to the last call.
    fn answer(&self) -> Vec<u8> {
        wire::string(&self.count.to_string())
    }
}

impl Session {
    /// Calls the client, whose turn it is. Returns whether it is there, and begins; otherwise it
    /// stays in the queue.
    ///
    /// # Errors
    ///
    /// A client that has ended or sends something else, and an interruption.
    pub fn call(&self, calls: &mut TurnSignal) -> Result<bool, Failure> {
        calls.count += 1;
        if self.answers_calls {
            return self.call_for_answer(calls);
        }
        if calls.count == 1 {
            self.send(0)?;
        }
        self.connection.wait(limit::in_effect(READY_LIMIT))?;
        self.connection.check(WAITING)?;
        Ok(self.connection.has_message())
    }

    fn call_for_answer(&self, calls: &TurnSignal) -> Result<bool, Failure> {
        self.send(0)?;
        let until = Instant::now() + limit::in_effect(CALL_LIMIT);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wait = Wait::for_answer(WAITING, left);
            match self.connection.receive(MAX_PAYLOAD, &wait, &mut || Ok(())) {
                Ok(answer) if answer == calls.answer() => break,
                // An answer to an earlier call.
                Ok(_) => {}
                Err(LinkError::Late(_)) => return Ok(false),
                Err(error) => return Err(error.into_failure(self.peer(), WAITING)),
            }
        }
        self.send(0)?;
        Ok(true)
    }

    /// Sends the client its place in the queue. A client that does not know of queues waits without
    /// it, and one that does not know of calls reads no place after its first call.
    ///
    /// # Errors
    ///
    /// A client that has ended.
    pub fn send_place(&self, place: u32, calls: &TurnSignal) -> Result<(), Failure> {
        if self.answers_calls || calls.count == 0 {
            self.send(place)?;
        }
        Ok(())
    }

    fn send(&self, place: u32) -> Result<(), Failure> {
        if !self.queues {
            return Ok(());
        }
        self.connection.tell(&wire::string(&place.to_string()), WAITING)
    }

    /// Waits until `other` can be read.
    ///
    /// # Errors
    ///
    /// A client that has ended, and an interruption.
    pub fn wait_beside(&self, other: impl AsFd) -> Result<(), Failure> {
        wait_beside(&self.connection, other)
    }
}

impl AcceptedClient {
    /// Sends the client its place in the queue; 0 when it is its turn.
    ///
    /// # Errors
    ///
    /// A client that has ended.
    pub fn send_place(&self, place: u32) -> Result<(), Failure> {
        self.connection().tell(&wire::string(&place.to_string()), WAITING)
    }

    /// Waits until `other` can be read.
    ///
    /// # Errors
    ///
    /// A client that has ended, and an interruption.
    pub fn wait_beside(&self, other: impl AsFd) -> Result<(), Failure> {
        wait_beside(self.connection(), other)
    }
}

fn wait_beside(connection: &Connection, other: impl AsFd) -> Result<(), Failure> {
    // A message of the client is no reason to wake up: it may be at the next barrier already.
    let mut polled =
        vec![PollFd::new(&other, PollFlags::IN), PollFd::new(connection, PollFlags::RDHUP)];
    interrupt::wait_for_any(&mut polled, None)?;
    if !polled[0].revents().is_empty() {
        return Ok(());
    }
    connection.check(WAITING)?;
    Err(LinkError::Closed.into_failure(connection.peer(), WAITING))
}

/// Connects to the server at `host` on the plan's port, and performs the handshake.
///
/// # Errors
///
/// A server that cannot be reached or does not agree, and an interruption.
pub fn join(plan: &Plan, host: &str, own: LocalAddress) -> Result<(Session, Agreed), Failure> {
    let us = HandshakeIntroduction::new(plan, own, plan.port, machine());
    enter(Phase::Connecting);
    let mut search = ServerSearch::new(plan, host)?;
    loop {
        let connection = search.connect()?;
        let peer = connection.peer();
        match introduce(&connection, &us) {
            Ok(agreed) => {
                if agreed.queues {
                    connection.expect_ticks(agreed.peer_ticks);
                    wait(&connection, plan, &agreed)?;
                }
                return Ok((Session::new(connection, &agreed, plan), agreed));
            }
            Err(Refusal::Failed(failure)) => return Err(failure),
            Err(Refusal::Busy(failure)) => {
                if !search.wait_for_turn(&connection, &failure)? {
                    return Err(failure);
                }
            }
            Err(Refusal::Unrelated(reason)) => {
                let tool = plan.tool.legacy_name;
                let failure = Failure::environment(format!(
                    "the peer ({peer}) did not answer as a {tool} server: {reason}"
                ))
                .advised(Situation::NoDiagnostic)
                .in_step(Step::Handshake);
                // A server that has just found another client closes this connection in the same
                // way.
                if !search.pause(&failure)? {
                    return Err(failure);
                }
            }
        }
    }
}

/// Performs the client's side of the handshake.
fn introduce(connection: &Connection, us: &HandshakeIntroduction) -> Result<Agreed, Refusal> {
    let mut handshake = Handshake::new(us, connection.peer());
    loop {
        let doing = handshake.doing();
        enter(handshake.phase());
        let payload = connection
            .exchange(&handshake.mine(), MAX_PAYLOAD, &Wait::for_answer(doing, ANSWER_LIMIT))
            .map_err(|error| match (error, handshake.is_named()) {
                (LinkError::Interrupted(failure), _) => {
                    Refusal::Failed(failure.in_step(Step::Handshake))
                }
                (LinkError::TooLong { length: REFUSAL, .. }, _) => {
                    let refusal = connection.refusal();
                    let is_full =
                        matches!(&refusal, LinkError::Refusal(reason) if reason.starts_with(BUSY));
                    let failure = refusal.into_failure(connection.peer(), doing);
                    if is_full { Refusal::Busy(failure) } else { Refusal::Failed(failure) }
                }
                (error, false) => Refusal::Unrelated(unnamed(&error)),
                (error, true) => {
                    // A server that has found another client closes the other connections.
                    let serves_another = matches!(error, LinkError::Closed);
                    let is_late = matches!(error, LinkError::Late(_));
                    let mut failure = error.into_failure(connection.peer(), doing);
                    if is_late {
                        failure = failure.in_step(Step::Handshake);
                    }
                    let failure = handshake.failure(failure);
                    if serves_another { Refusal::Busy(failure) } else { Refusal::Failed(failure) }
                }
            })?;
        if let Some(agreed) = handshake.accept(&payload)? {
            return Ok(agreed);
        }
    }
}

/// Why a server has not sent its name.
fn unnamed(error: &LinkError) -> String {
    match error {
        LinkError::Closed => "it closed the connection without sending the name of a tool".into(),
        LinkError::InterruptNotice => "it was interrupted".into(),
        LinkError::Refusal(reason) => reason.clone(),
        LinkError::Interrupted(failure) => failure.to_string(),
        LinkError::Silent => "its host no longer answers".into(),
        LinkError::Late(limit) | LinkError::Stopped(limit) => {
            let limit = limit.as_secs();
            format!("it sent nothing for {limit} s: frozen or another program")
        }
        LinkError::TooLong { .. } => "it speaks another protocol".into(),
        LinkError::Io(error) => cause(error),
    }
}

/// A client that has sent its whole handshake, or what it asks for, in the process that serves it.
#[derive(Debug)]
pub struct AcceptedClient {
    connection: Connection,
    version: String,
    messages: Vec<Vec<u8>>,
}

impl AcceptedClient {
    /// Takes the connection of a client over, which has named the tool of this process and sent
    /// this `version` and these `messages`.
    ///
    /// # Errors
    ///
    /// Socket options that the kernel refuses.
    pub fn new(
        stream: TcpStream,
        peer: SocketAddr,
        version: String,
        messages: Vec<Vec<u8>>,
    ) -> Result<Self, Failure> {
        let connection = Connection::new(stream, peer, false);
        let connection = connection.environment("cannot take over the connection of the client")?;
        Ok(Self { connection, version, messages })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The request of the client; `what` names it for messages.
    pub(super) fn request<T: DeserializeOwned>(&self, what: &str) -> Result<T, Failure> {
        let request = self.messages.first().and_then(|text| serde_json::from_slice(text).ok());
        let peer = self.connection.peer();
        request.ok_or_else(|| Failure::environment(format!("the peer ({peer}) sent no {what}")))
    }

    /// Refuses the client, and returns the failure. A cxidiag receives the reason, a legacy client
    /// sees a closed connection.
    pub fn refuse(&self, failure: Failure) -> Failure {
        if PeerFacts::read(&self.version).is_cxidiag {
            self.connection.refuse(&failure.message());
        }
        failure
    }

    /// Performs the rest of the handshake. A client that is refused receives the reason.
    ///
    /// # Errors
    ///
    /// A client with which this side cannot run, or that has ended.
    pub fn meet(self, plan: &Plan, own: LocalAddress) -> Result<(Session, Agreed), Failure> {
        let us = HandshakeIntroduction::new(plan, own, plan.port, machine()).with_turns();
        match self.introduce(&us) {
            Ok(agreed) => {
                let connection = self.connection.with_program(&plan.program);
                Ok((Session::new(connection, &agreed, plan), agreed))
            }
            Err(failure) => Err(self.refuse(failure)),
        }
    }

    fn introduce(&self, us: &HandshakeIntroduction) -> Result<Agreed, Failure> {
        let peer = self.connection.peer();
        let mut handshake = Handshake::named(us, peer);
        let version = wire::string(&self.version);
        let mut agreed = None;
        for payload in [&version].into_iter().chain(&self.messages) {
            // `cxidiag serve` has answered the others.
            if handshake.phase() == Phase::Addresses {
                enter(Phase::Addresses);
                let sent = self.connection.tell(&handshake.mine(), handshake.doing());
                sent.map_err(|failure| handshake.failure(failure))?;
            }
            agreed = handshake.accept(payload).map_err(|refusal| match refusal {
                Refusal::Failed(failure) | Refusal::Busy(failure) => failure,
                Refusal::Unrelated(reason) => Failure::environment(reason),
            })?;
        }
        agreed.ok_or_else(|| Failure::environment("cxidiag serve has sent no whole handshake"))
    }
}
