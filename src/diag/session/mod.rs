//! The control connection: TCP between client and server, as the legacy tools of SHS 13.0 and
//! later speak it (wire.md).
//!
//! * `wire`, `option_block`: messages, bytes <-> records.
//! * `terms`: run options <-> option block.
//! * `handshake`: identifies the peer and agrees on the run; without a socket.
//! * `peer_facts`: what two cxidiag tell each other with their versions.
//! * `admission`: whether two cxidiag measure together: jobs, tokens, busy servers.
//! * `counters`: the counters of a server's NIC as messages.
//! * `connection`: a connection, the exchange of one message in each direction, detection of a lost
//!   peer.
//! * `listener`, `reception`, `refusal_log`: how a server finds its client among unrelated
//!   connections.
//! * `server`: a server's socket, from client to client.
//! * `busy`: how a server answers clients while it measures with another one.
//! * `arrivals`, `caller`: how a server of all tools receives its clients, and how another process
//!   takes a client over.
//! * `turn`: the wait of a client for its turn.
//! * `control_line`: the messages between a server of all tools and that process.
//! * `summons`: how a survey gets a process on the host of such a server.
//! * `status`: the question for the state of such a server.
//! * `connect`: how a client finds its server.
//! * [`tree`]: how the processes of a survey talk.
//! * [`dry_run`]: the handshake on bytes without a socket, for fuzzing.
//! * This file: a session, from the handshake to the last barrier.
//!
//! The device is opened before the session begins (wire.md 1): the handshake sends its fabric
//! address.

mod admission;
pub mod arrivals;
mod busy;
mod caller;
mod connect;
mod connection;
pub mod control_line;
mod counters;
pub mod dry_run;
mod handshake;
mod option_block;
mod peer_facts;
mod reception;
mod refusal_log;
mod server;
pub mod status;
pub mod summons;
mod terms;
mod turn;
mod wire;

use std::cell::{Cell, RefCell};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub use caller::Caller;
use connect::Search;
use connection::{Connection, LinkError};
pub use connection::{Look, is_interruption_of_peer, is_reason_of_peer};
use control_line::ControlLine;
use facts::advice::{Situation, remedy};
use facts::device::{DeviceName, FabricAddress};
use facts::error::{Context, Failure, Kind, cause};
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::phase::{Phase, enter};
use handshake::{Handshake, Introduction, Refusal};
use measure::{SideResult, SideView};
use node::gpu::OnGpus;
use node::local_address::LocalAddress;
use plan::Plan;
use plan::run_options::RunOptions;
use plan::tool::Tool;
pub use refusal_log::{LineLimit, RefusalLog, Totals};
pub use server::{LISTENING, Server};
use wire::{MAX_PAYLOAD, REFUSAL};

/// Time limit for the set-up of a side, which may clear and pin hundreds of gigabytes.
const READY_LIMIT: Duration = Duration::from_secs(600);

/// How long after an error of the NIC the end of the peer may be noticed that has caused it.
const NEWS: Duration = Duration::from_millis(200);

/// What both sides have agreed on in the handshake.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The client's options, on both sides. A side that sends from a GPU uses no immediate data
    /// commands.
    pub run: RunOptions,
    /// The tool that both sides run.
    pub tool: &'static Tool,
    /// Fabric address of the peer.
    pub peer: FabricAddress,
    /// The peer's buffers that lie on GPUs.
    pub peer_gpus: OnGpus,
    /// The peer is a cxidiag: it numbers the bytes that it sends, understands interrupt notices,
    /// and completes begun iterations at the end of a duration. A legacy tool does none of these.
    pub is_cxidiag: bool,
    /// Name of the peer's host; `None` if the peer has not sent it.
    pub peer_name: Option<String>,
    /// The server's NIC, in a client, if the server has announced it.
    pub peer_device: Option<DeviceName>,
    /// The client waits for its turn after the handshake.
    pub queues: bool,
}

/// The connection to a peer that has the same tool and the same options.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// The peer understands interrupt notices and refusals, and none was sent yet.
    owes_interrupt_notice: Cell<bool>,
    /// Open until the run is over; a server turns other clients away meanwhile.
    running: RefCell<Option<UnixStream>>,
    /// The client receives its place in the queue.
    queues: bool,
    /// In the process of a client of a server of all tools: the line to that server, which may end
    /// the run.
    line: RefCell<Option<ControlLine>>,
}

/// Connects to the server at `host` on the plan's port, and performs the handshake.
///
/// # Errors
///
/// A server that cannot be reached or does not agree, and an interruption.
pub fn join(plan: &Plan, host: &str, own: LocalAddress) -> Result<(Session, Agreed), Failure> {
    let us = Introduction::new(plan, own, plan.port, machine());
    enter(Phase::Connecting);
    let mut search = Search::new(plan, host)?;
    loop {
        let connection = search.connect()?;
        let peer = connection.peer();
        match introduce(&connection, &us) {
            Ok(agreed) => {
                if agreed.queues {
                    turn::wait(&connection, plan, &agreed)?;
                }
                return Ok((Session::new(connection, &agreed), agreed));
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
                .with_hint(remedy(Situation::NoDiagnostic));
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
fn introduce(connection: &Connection, us: &Introduction) -> Result<Agreed, Refusal> {
    let mut handshake = Handshake::new(us, connection.peer());
    loop {
        let doing = handshake.doing();
        enter(handshake.phase());
        let payload = connection
            .exchange(&handshake.mine(), MAX_PAYLOAD, ANSWER_LIMIT)
            .map_err(|error| match (error, handshake.is_named()) {
                (LinkError::Interrupted(failure), _) => Refusal::Failed(failure),
                (
                    LinkError::TooLong {
                        length: REFUSAL, ..
                    },
                    _,
                ) => {
                    let refusal = connection.refusal();
                    Refusal::Failed(refusal.into_failure(connection.peer(), doing))
                }
                (error, false) => Refusal::Unrelated(unnamed(&error)),
                (error, true) => {
                    // A server that has found another client closes the other connections.
                    let serves_another = matches!(error, LinkError::Closed);
                    let failure = error.into_failure(connection.peer(), doing);
                    let failure = handshake.failure(failure);
                    if serves_another {
                        Refusal::Busy(failure)
                    } else {
                        Refusal::Failed(failure)
                    }
                }
            })?;
        if let Some(agreed) = handshake.accept(&payload)? {
            return Ok(agreed);
        }
    }
}

/// Returns why a server has not sent its name.
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

/// Returns an identifier of this machine and its current boot, the same in all containers; empty if
/// the system has none.
fn machine() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

impl Session {
    fn new(connection: Connection, agreed: &Agreed) -> Self {
        Self {
            connection,
            owes_interrupt_notice: Cell::new(agreed.is_cxidiag),
            running: RefCell::new(None),
            queues: agreed.queues,
            line: RefCell::new(None),
        }
    }

    /// Lets the server at the other end of `line` end the run with a reason.
    pub fn led_by(self, line: ControlLine) -> Self {
        self.line.replace(Some(line));
        self
    }

    /// TCP address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// Returns the TCP address of this side.
    ///
    /// # Errors
    ///
    /// A connection without an address.
    pub fn local(&self) -> Result<SocketAddr, Failure> {
        let address = self.connection.local();
        address.environment("cannot read the address of the control connection")
    }

    /// Waits, for `limit` at most, until the peer is at the same barrier. The end of the peer's
    /// process is noticed at once, a lost host or network within two seconds.
    ///
    /// # Errors
    ///
    /// A peer that has ended, refused or sent something else, a lost host, the end of `limit`, and
    /// an interruption.
    pub fn barrier(&self, point: &str, limit: Duration) -> Result<(), Failure> {
        self.barrier_while(point, limit, &mut || Ok(()))
    }

    /// Waits as [`Self::barrier`] does; a failure of `look`, which is called regularly, ends the
    /// wait.
    ///
    /// # Errors
    ///
    /// Those of [`Self::barrier`], and those of `look`.
    pub fn barrier_while(
        &self,
        point: &str,
        limit: Duration,
        look: &mut Look<'_>,
    ) -> Result<(), Failure> {
        match self.connection.exchange_while(&[], 0, limit, look) {
            Ok(_) => Ok(()),
            Err(error) => {
                // wire.md 9.1: for a few months, latency tools sent one byte in barriers, with a
                // version of send_lat that is still in use.
                let is_unreleased = matches!(error, LinkError::TooLong { length: 1, .. });
                let failure = self.failure(error, &format!("at the {point} barrier"));
                Err(if is_unreleased {
                    failure.with_hint(handshake::release(Some((2, 3))))
                } else {
                    failure
                })
            }
        }
    }

    /// Returns the failure of an exchange; `doing` names its purpose. A cxidiag that refuses sends
    /// its reason next.
    fn failure(&self, error: LinkError, doing: &str) -> Failure {
        let is_refusal = matches!(
            error,
            LinkError::TooLong {
                length: REFUSAL,
                ..
            }
        );
        let error = if is_refusal && self.owes_interrupt_notice.get() {
            self.connection.refusal()
        } else {
            error
        };
        match error {
            LinkError::Refusal(reason) => self.connection.refused(reason),
            other => other.into_failure(self.peer(), doing),
        }
    }

    /// Waits at the barrier after which both sides have all their resources.
    ///
    /// # Errors
    ///
    /// Those of [`Self::barrier`]; a peer whose set-up failed refuses.
    pub fn ready(&self) -> Result<(), Failure> {
        enter(Phase::Ready);
        self.barrier("ready", READY_LIMIT)?;
        self.connection.begin_run();
        Ok(())
    }

    /// Sends the result of one size, and returns the peer's.
    ///
    /// # Errors
    ///
    /// A peer that has ended, does not answer or sends something else, and an interruption.
    pub fn results(&self, own: SideResult) -> Result<SideResult, Failure> {
        let payload = self.exchange_fixed(&wire::encode_result(own), "result")?;
        Ok(wire::decode_result(&payload))
    }

    /// Sends this side's view of one size, and returns the peer's.
    ///
    /// # Errors
    ///
    /// Those of [`Self::results`].
    pub fn views(&self, own: SideView) -> Result<SideView, Failure> {
        let payload = self.exchange_fixed(&wire::encode_view(own), "view")?;
        Ok(wire::decode_view(&payload))
    }

    /// Exchanges payloads of the same length.
    fn exchange_fixed<const LENGTH: usize>(
        &self,
        own: &[u8; LENGTH],
        what: &str,
    ) -> Result<[u8; LENGTH], Failure> {
        let exchanged = self.connection.exchange(own, LENGTH, ANSWER_LIMIT);
        let payload = exchanged
            .map_err(|error| self.failure(error, &format!("during the exchange of {what}s")))?;
        payload[..].try_into().map_err(|_| {
            Failure::peer(format!(
                "the peer ({}) sent a {what} of {} bytes (expected {LENGTH})",
                self.peer(),
                payload.len()
            ))
        })
    }

    /// Sends the number of iterations that this side has issued, and returns the peer's.
    ///
    /// # Errors
    ///
    /// Those of [`Self::results`].
    pub fn iterations(&self, own: u64) -> Result<u64, Failure> {
        let payload = self.exchange_fixed(&own.to_le_bytes(), "iteration count")?;
        Ok(u64::from_le_bytes(payload))
    }

    /// Sends the number of bytes that this side has checked, and waits, for `limit` at most, until
    /// the peer has checked its own. Returns the peer's number.
    ///
    /// # Errors
    ///
    /// Those of [`Self::barrier`]; a peer whose data is wrong refuses.
    pub fn checked_bytes(&self, own: u64, limit: Duration) -> Result<u64, Failure> {
        let doing = "at the Verify barrier";
        let mine = own.to_le_bytes();
        let exchanged = self.connection.exchange(&mine, mine.len(), limit);
        let payload = exchanged.map_err(|error| self.failure(error, doing))?;
        match payload[..].try_into() {
            Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
            Err(_) => Err(Failure::peer(format!(
                "the peer ({}) sent {} bytes {doing} (expected {})",
                self.peer(),
                payload.len(),
                mine.len()
            ))),
        }
    }

    /// Returns whether a message of the peer has arrived: it waits at the next barrier. Does not
    /// block.
    pub fn peer_waits(&self) -> bool {
        self.connection.has_message()
    }

    /// Checks the connection without blocking; `doing` completes the message.
    ///
    /// # Errors
    ///
    /// A peer that has ended or was interrupted, and a lost host.
    pub fn check_peer(&self, doing: &str) -> Result<(), Failure> {
        self.connection.check(doing)
    }

    /// Returns the cause of `failure`: an error of the NIC may result from the end of the peer,
    /// which the connection shows a moment later.
    pub fn cause(&self, failure: Failure, doing: &str) -> Failure {
        if failure.kind != Kind::Nic {
            return failure;
        }
        let waited = self.connection.wait(NEWS);
        match waited.and_then(|()| self.connection.check(doing)) {
            Ok(()) => failure,
            Err(cause) => cause,
        }
    }

    /// Sends the reason why this side cannot run to a cxidiag peer, and returns the failure. A
    /// legacy peer sees a closed connection (defect T33 of tools.md).
    pub fn refuse(&self, failure: Failure) -> Failure {
        let is_own = matches!(failure.kind, Kind::Environment | Kind::Nic | Kind::Usage);
        if is_own && self.owes_interrupt_notice.get() {
            self.finish();
            self.connection.refuse(&failure.message());
        }
        failure
    }

    /// Sends an interrupt notice to a cxidiag peer, once, or the reason why the server at the other
    /// end of the control line has ended the run. A legacy peer sees a closed connection.
    pub fn send_interrupt_notice(&self) {
        if !self.owes_interrupt_notice.replace(false) {
            return;
        }
        let mut line = self.line.borrow_mut();
        match line.as_mut().and_then(ControlLine::refusal) {
            Some(reason) => self.connection.refuse(&reason),
            None => self.connection.send_interrupt_notice(),
        }
    }

    /// Ends the protocol: no interrupt notice or refusal follows.
    pub fn finish(&self) {
        self.owes_interrupt_notice.set(false);
        self.running.take();
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
mod barrier_tests;
#[cfg(test)]
mod counter_tests;
#[cfg(test)]
mod reaching_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
