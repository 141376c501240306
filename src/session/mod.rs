//! The control connection: TCP between client and server, as the legacy tools of SHS 13.0 and
//! later speak it (wire.md).
//!
//! * `wire`, `option_block`: messages, bytes <-> records.
//! * `connection`: listen, accept, connect, and the exchange of one message in each direction.
//! * `terms`: run options <-> option block.
//! * `handshake`: who is there, and what will be done.
//! * This file: a session, from the first byte to the last barrier.
//!
//! The device is opened before all this (wire.md 1): a session is given the own fabric address.

mod connection;
mod handshake;
mod option_block;
mod terms;
mod wire;

use std::cell::Cell;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::interrupt;
use crate::phase::{Phase, enter};
use crate::plan::{Plan, RunOptions};
use connection::{Connection, LinkError, Listener};
use handshake::Refusal;
use wire::RESULT_SIZE;
pub use wire::{Address, PeerResult};

/// How long a message may take where the peer has nothing else to do (wire.md 6).
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

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

/// What this side's NIC is known by on the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// Address of the NIC.
    pub nic: u32,
    /// PID of the domain.
    pub pid: u32,
    /// VNI of the domain.
    pub vni: u32,
}

/// What both sides know after the handshake.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    /// The options of the run, on both sides those of the client.
    pub run: RunOptions,
    /// Fabric address of the peer.
    pub peer: Address,
    /// The peer is a cxidiag: it numbers the bytes that it sends, and ends a duration in step. A
    /// legacy tool does neither.
    pub is_cxidiag: bool,
}

/// The connection to a peer that has the same tool and the same options.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// Whom to say farewell: nobody, once it has been said or if the peer is a legacy tool.
    owes_farewell: Cell<bool>,
}

/// Listens on the plan's port, says so on `out`, and waits for a client.
///
/// A connection that does not even begin like a client (a port scan, a health probe, another
/// protocol) is mentioned on stderr and otherwise ignored (defect T16 of tools.md).
pub fn serve(
    plan: &Plan,
    own: Own,
    reach: Reach,
    out: &mut impl Write,
) -> Result<(Session, Agreed), Failure> {
    enter(Phase::Listening);
    let listener = Listener::bind(plan.port, reach)?;
    let port = listener.port();
    writeln!(out, "{LISTENING}{port} for client to connect...")
        .and_then(|()| out.flush())
        .map_err(Failure::output)?;
    let block = terms::to_block(plan, port);
    loop {
        let mut connection = listener.accept()?;
        match handshake::perform(&mut connection, plan.tool, &block, own) {
            Ok(client) => {
                let peer_name = connection.peer();
                let run = terms::from_block(plan.tool, &client.block).map_err(|reason| {
                    Failure::environment(format!(
                        "the client ({peer_name}) asks for what cannot be: {reason}"
                    ))
                })?;
                let agreed = Agreed {
                    run,
                    peer: client.address,
                    is_cxidiag: client.is_cxidiag,
                };
                return Ok((Session::new(connection, agreed.is_cxidiag), agreed));
            }
            Err(Refusal::Stranger(reason)) => {
                let note = format!(
                    "{}: ignored a connection from {}: {reason}\n",
                    plan.program,
                    connection.peer()
                );
                let _ = std::io::stderr().write_all(note.as_bytes());
            }
            Err(Refusal::Failed(failure)) => return Err(failure),
        }
    }
}

/// Connects to the server at `host`, on the plan's port.
pub fn join(plan: &Plan, host: &str, own: Own) -> Result<(Session, Agreed), Failure> {
    enter(Phase::Connecting);
    let mut connection = connection::connect(host, plan.port)?;
    let block = terms::to_block(plan, plan.port);
    match handshake::perform(&mut connection, plan.tool, &block, own) {
        Ok(server) => Ok((
            Session::new(connection, server.is_cxidiag),
            Agreed {
                run: plan.run,
                peer: server.address,
                is_cxidiag: server.is_cxidiag,
            },
        )),
        Err(Refusal::Failed(failure)) => Err(failure),
        Err(Refusal::Stranger(reason)) => {
            let tool = plan.tool.legacy_name;
            let message = format!(
                "the peer ({}) did not answer as a {tool} server: {reason}",
                connection.peer()
            );
            Err(Failure::environment(message)
                .with_hint("check address and --port; see what the other side printed"))
        }
    }
}

impl Session {
    fn new(connection: Connection, peer_is_cxidiag: bool) -> Self {
        Self {
            connection,
            owes_farewell: Cell::new(peer_is_cxidiag),
        }
    }

    /// TCP address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// Waits until the peer has come to the same point; `limit` ends the wait. The peer's end
    /// is noticed at once, limit or not.
    pub fn barrier(&self, point: &str, limit: Option<Duration>) -> Result<(), Failure> {
        match self.connection.exchange(&[], 0, limit) {
            Ok(_) => Ok(()),
            Err(error) => {
                // wire.md 9.1: one byte came in barriers of latency tools for a few months, under
                // a version of send_lat that is still in use.
                let is_unreleased = matches!(error, LinkError::TooLong { length: 1, .. });
                let failure = error.into_failure(self.peer(), &format!("at the {point} barrier"));
                Err(match is_unreleased {
                    true => failure.with_hint(handshake::release(Some((2, 3)))),
                    false => failure,
                })
            }
        }
    }

    /// The barrier after which both sides have all their resources. It has no limit: allocating
    /// may take any time.
    pub fn ready(&self) -> Result<(), Failure> {
        enter(Phase::Ready);
        self.barrier("ready", None)
    }

    /// Exchanges the results of one size.
    pub fn results(&self, own: PeerResult) -> Result<PeerResult, Failure> {
        let doing = "for the results of the peer";
        let exchanged = self
            .connection
            .exchange(&own.encode(), RESULT_SIZE, Some(ANSWER_LIMIT));
        let payload = exchanged.map_err(|error| error.into_failure(self.peer(), doing))?;
        match payload[..].try_into() {
            Ok(bytes) => Ok(PeerResult::decode(bytes)),
            Err(_) => Err(Failure::peer(format!(
                "the peer ({}) sent {} bytes where a result has {RESULT_SIZE}",
                self.peer(),
                payload.len()
            ))),
        }
    }

    /// Whether the peer has begun with the next message. Does not block.
    pub fn peer_speaks(&self) -> bool {
        self.connection.has_message()
    }

    /// Fails if the peer has ended its end of the connection; `when` completes the sentence. Does not
    /// block.
    pub fn peer_is_there(&self, when: &str) -> Result<(), Failure> {
        let looked = self.connection.look();
        looked.map_err(|error| error.into_failure(self.peer(), when))
    }

    /// What to tell of a run that ends with `failure`: what the NIC reports may be but a consequence of
    /// the peer's end, of which the connection tells a moment later.
    pub fn cause(&self, failure: Failure, when: &str) -> Failure {
        if failure.kind != Kind::Nic {
            return failure;
        }
        let heard = self.connection.wait(NEWS);
        let looked = heard.and_then(|()| self.connection.look());
        match looked {
            Ok(()) => failure,
            Err(error) => error.into_failure(self.peer(), when),
        }
    }

    /// Tells the peer that this side is interrupted, if it understands that; a legacy peer sees the end
    /// of the connection. Once.
    pub fn say_farewell(&self) {
        if self.owes_farewell.replace(false) {
            self.connection.say_farewell();
        }
    }

    /// Nothing more is to be said: the peer has all that it needs to come to its end.
    pub fn finish(&self) {
        self.owes_farewell.set(false);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if interrupt::requested() {
            self.say_farewell();
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
