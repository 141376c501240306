//! The control connection: TCP between client and server, as the legacy tools of SHS 13.0 and
//! later speak it (wire.md).
//!
//! * `wire`, `option_block`: messages, bytes <-> records.
//! * `terms`: run options <-> option block.
//! * `handshake`: who is there, and what will be done; without a socket.
//! * `connection`: a connection, the exchange of one message in each direction, and watching it.
//! * `listener`, `reception`, `refusal_log`: how a server finds its client among whoever else connects.
//! * `connect`: how a client finds its server.
//! * [`dry_run`]: the same decisions about bytes from anywhere, for fuzzing.
//! * This file: a session, from the first byte to the last barrier.
//!
//! The device is opened before all this (wire.md 1): a session is given the own fabric address.

mod connect;
mod connection;
pub mod dry_run;
mod handshake;
mod listener;
mod option_block;
mod reception;
mod refusal_log;
mod terms;
mod wire;

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use crate::advice::{Situation, remedy};
use crate::device::FabricAddress;
use crate::endpoint::LocalAddress;
use crate::error::{Failure, Kind, cause};
use crate::gpu::OnGpus;
use crate::interrupt;
use crate::measure::SideResult;
use crate::phase::{Phase, enter};
use crate::plan::Plan;
use crate::run_options::RunOptions;
use crate::tool::Tool;
use connect::Search;
pub use connection::Look;
use connection::{Connection, LinkError};
use handshake::{Handshake, Introduction, Refusal};
use listener::Listener;
use refusal_log::RefusalLog;
use wire::{MAX_PAYLOAD, REFUSAL, RESULT_SIZE};

/// How long a message may take where the peer has nothing else to do (wire.md 6).
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How long a side may take to allocate all that it needs: hundreds of gigabytes are to be cleared
/// and pinned in this time.
const READY_LIMIT: Duration = Duration::from_secs(600);

/// How long the end of a peer may take to be heard of behind an error that it causes.
const NEWS: Duration = Duration::from_millis(200);

/// Begins the line in which a server tells its port.
pub const LISTENING: &str = "Listening on port ";

/// Who can connect to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Whoever reaches this machine.
    Everywhere,
    /// Processes on this machine.
    ThisMachine,
}

/// What both sides know after the handshake.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    /// The options of the run: on both sides those of the client, but that a side which sends from a
    /// GPU uses no immediate data commands.
    pub run: RunOptions,
    /// The tool that both sides run.
    pub tool: &'static Tool,
    /// Fabric address of the peer.
    pub peer: FabricAddress,
    /// The peer's buffers that lie on GPUs.
    pub peer_gpus: OnGpus,
    /// The peer is a cxidiag: it numbers the bytes that it sends, understands a farewell, and ends a
    /// duration in step. A legacy tool does none of that.
    pub is_cxidiag: bool,
}

/// The connection to a peer that has the same tool and the same options.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// The peer understands what is told out of turn, and is to be told if this side is interrupted.
    owes_interrupt_notice: Cell<bool>,
}

/// A server's listening socket.
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Listens on the plan's port, and says so on `out`.
    ///
    /// # Errors
    ///
    /// A port or address that cannot be listened on, and `out` that cannot be written.
    pub fn listen(plan: &Plan, reach: Reach, out: &mut impl Write) -> Result<Self, Failure> {
        enter(Phase::Listening);
        let listener = Listener::bind(plan.listening.bind.as_deref(), plan.port, reach)?;
        let port = listener.port();
        writeln!(out, "{LISTENING}{port} for client to connect...")
            .and_then(|()| out.flush())
            .map_err(interrupt::output_failed)?;
        Ok(Self { listener })
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Waits for a client of the plan's tool. Other connections are mentioned on `err` and otherwise
    /// ignored (defect T16 of tools.md). The socket stays open, and the next call finds the next client.
    ///
    /// # Errors
    ///
    /// An interruption, and a process that has no file descriptors left.
    pub fn find_client(
        &self,
        plan: &Plan,
        own: LocalAddress,
        err: &mut impl Write,
    ) -> Result<(Session, Agreed), Failure> {
        let us = Introduction::new(plan, own, self.port(), machine());
        let mut refusals = RefusalLog::new(&plan.program, err);
        let (connection, agreed) = reception::first_client(&self.listener, &us, &mut refusals)?;
        refusals.served();
        Ok((Session::new(connection, agreed.is_cxidiag), agreed))
    }
}

/// Connects to the server at `host`, on the plan's port.
pub fn join(plan: &Plan, host: &str, own: LocalAddress) -> Result<(Session, Agreed), Failure> {
    let us = Introduction::new(plan, own, plan.port, machine());
    enter(Phase::Connecting);
    let mut search = Search::new(plan, host)?;
    loop {
        let connection = search.connect()?;
        let peer = connection.peer();
        match introduce(&connection, &us) {
            Ok(agreed) => return Ok((Session::new(connection, agreed.is_cxidiag), agreed)),
            Err(Refusal::Failed(failure)) => return Err(failure),
            Err(Refusal::Unrelated(reason)) => {
                let tool = plan.tool.legacy_name;
                let failure = Failure::environment(format!(
                    "the peer ({peer}) did not answer as a {tool} server: {reason}"
                ))
                .with_hint(remedy(Situation::NoDiagnostic));
                // A server that has just found another client ends our connection like that.
                if !search.pause(&failure) {
                    return Err(failure);
                }
            }
        }
    }
}

/// The client's side of the handshake.
fn introduce(connection: &Connection, us: &Introduction) -> Result<Agreed, Refusal> {
    let mut handshake = Handshake::new(us, connection.peer());
    loop {
        let doing = handshake.doing();
        enter(handshake.phase());
        let payload = connection
            .exchange(&handshake.mine(), MAX_PAYLOAD, ANSWER_LIMIT)
            .map_err(|error| match (error, handshake.is_named()) {
                (LinkError::Interrupted(failure), _) => Refusal::Failed(failure),
                (error, false) => Refusal::Unrelated(unnamed(&error)),
                (error, true) => {
                    let failure = error.into_failure(connection.peer(), doing);
                    Refusal::Failed(handshake.failure(failure))
                }
            })?;
        if let Some(agreed) = handshake.accept(&payload)? {
            return Ok(agreed);
        }
    }
}

/// Why nothing came from where a server should be.
fn unnamed(error: &LinkError) -> String {
    match error {
        LinkError::Closed => "it closed the connection without sending the name of a tool".into(),
        LinkError::InterruptNotice => "it was interrupted".into(),
        LinkError::Refusal(reason) => reason.clone(),
        LinkError::Interrupted(failure) => failure.to_string(),
        LinkError::Silent => "its host no longer answers".into(),
        LinkError::Late(limit) => format!("it sent nothing for {} s", limit.as_secs()),
        LinkError::TooLong { .. } => "it speaks another protocol".into(),
        LinkError::Io(error) => cause(error),
    }
}

/// Identifies this machine since its start, also across containers; empty where the system does
/// not tell.
fn machine() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

impl Session {
    fn new(connection: Connection, peer_is_cxidiag: bool) -> Self {
        Self {
            connection,
            owes_interrupt_notice: Cell::new(peer_is_cxidiag),
        }
    }

    /// TCP address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// Waits until the peer has come to the same point; `limit` ends the wait. The end of the peer
    /// is noticed at once, and within two seconds that of its host or of the network.
    pub fn barrier(&self, point: &str, limit: Duration) -> Result<(), Failure> {
        self.barrier_while(point, limit, &mut || Ok(()))
    }

    /// The same, and looks now and then whether there is anything for which not to wait longer.
    pub fn barrier_while(
        &self,
        point: &str,
        limit: Duration,
        look: &mut Look<'_>,
    ) -> Result<(), Failure> {
        match self.connection.exchange_while(&[], 0, limit, look) {
            Ok(_) => Ok(()),
            Err(error) => {
                // wire.md 9.1: one byte came in barriers of latency tools for a few months, under
                // a version of send_lat that is still in use.
                let is_unreleased = matches!(error, LinkError::TooLong { length: 1, .. });
                let error = match error {
                    LinkError::TooLong { length, .. }
                        if length == REFUSAL && self.owes_interrupt_notice.get() =>
                    {
                        self.connection.refusal()
                    }
                    other => other,
                };
                let failure = error.into_failure(self.peer(), &format!("at the {point} barrier"));
                Err(match is_unreleased {
                    true => failure.with_hint(handshake::release(Some((2, 3)))),
                    false => failure,
                })
            }
        }
    }

    /// The barrier after which both sides have all their resources.
    pub fn ready(&self) -> Result<(), Failure> {
        enter(Phase::Ready);
        self.barrier("ready", READY_LIMIT)
    }

    /// Exchanges the results of one size.
    pub fn results(&self, own: SideResult) -> Result<SideResult, Failure> {
        let doing = "during the exchange of results";
        let exchanged =
            self.connection
                .exchange(&wire::encode_result(own), RESULT_SIZE, ANSWER_LIMIT);
        let payload = exchanged.map_err(|error| error.into_failure(self.peer(), doing))?;
        match payload[..].try_into() {
            Ok(bytes) => Ok(wire::decode_result(bytes)),
            Err(_) => Err(Failure::peer(format!(
                "the peer ({}) sent a result of {} bytes (expected {RESULT_SIZE})",
                self.peer(),
                payload.len()
            ))),
        }
    }

    /// Whether the peer has begun with the next message. Does not block.
    pub fn peer_speaks(&self) -> bool {
        self.connection.has_message()
    }

    /// Fails if the peer has ended, or its host has gone; `doing` is for the message. Does not block.
    pub fn check_peer(&self, doing: &str) -> Result<(), Failure> {
        self.connection.check(doing)
    }

    /// What to tell of a run that ends with `failure`: what the NIC reports may be but a consequence of
    /// the peer's end, of which the connection tells a moment later.
    pub fn cause(&self, failure: Failure, doing: &str) -> Failure {
        if failure.kind != Kind::Nic {
            return failure;
        }
        let heard = self.connection.wait(NEWS);
        match heard.and_then(|()| self.connection.check(doing)) {
            Ok(()) => failure,
            Err(cause) => cause,
        }
    }

    /// Tells the peer why this side has failed before it was ready, if it understands that; to a
    /// legacy peer the connection ends without a reason (defect T33 of tools.md). Returns the failure.
    pub fn tell(&self, failure: Failure) -> Failure {
        let is_own = matches!(failure.kind, Kind::Environment | Kind::Nic | Kind::Usage);
        if is_own && self.owes_interrupt_notice.get() {
            self.finish();
            self.connection.refuse(&failure.message());
        }
        failure
    }

    /// Tells the peer that this side is interrupted, if it understands that; a legacy peer sees the end
    /// of the connection. Once.
    pub fn send_interrupt_notice(&self) {
        if self.owes_interrupt_notice.replace(false) {
            self.connection.send_interrupt_notice();
        }
    }

    /// Nothing more is to be said: the peer has all that it needs to come to its end.
    pub fn finish(&self) {
        self.owes_interrupt_notice.set(false);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if interrupt::requested() {
            self.send_interrupt_notice();
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
