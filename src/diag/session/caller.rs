//! A client that another process has received: the rest of its handshake, after the versions.

use std::net::{SocketAddr, TcpStream};

use super::agreed::Agreed;
use super::connection::Connection;
use super::handshake::{Handshake, Refusal};
use super::introduction::{Introduction, machine};
use super::open::Session;
use super::peer_facts::PeerFacts;
use super::wait::Wait;
use super::wire::{self, MAX_PAYLOAD};
use facts::error::{Context, Failure};
use facts::limit::ANSWER_LIMIT;
use facts::phase::enter;
use node::local_address::LocalAddress;
use plan::Plan;

/// A client with which names and versions were exchanged, in the process that serves it.
#[derive(Debug)]
pub struct Caller {
    connection: Connection,
    version: String,
}

impl Caller {
    /// Takes the connection of a client over, which has named the tool of this process and sent
    /// this `version`.
    ///
    /// # Errors
    ///
    /// Socket options that the kernel refuses.
    pub fn new(stream: TcpStream, peer: SocketAddr, version: String) -> Result<Self, Failure> {
        let connection = Connection::new(stream, peer, false);
        Ok(Self {
            connection: connection.environment("cannot take over the connection of the client")?,
            version,
        })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
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
    /// A client with which this side cannot run, or that does not answer; an interruption.
    pub fn meet(self, plan: &Plan, own: LocalAddress) -> Result<(Session, Agreed), Failure> {
        let us = Introduction::new(plan, own, plan.port, machine()).with_turns();
        match self.introduce(&us) {
            Ok(agreed) => {
                let connection = self.connection.with_program(&plan.program);
                Ok((Session::new(connection, &agreed, plan), agreed))
            }
            Err(failure) => Err(self.refuse(failure)),
        }
    }

    fn introduce(&self, us: &Introduction) -> Result<Agreed, Failure> {
        let peer = self.connection.peer();
        let mut handshake = Handshake::named(us, peer);
        // `cxidiag serve` has answered the version.
        let mut payload = wire::string(&self.version);
        loop {
            match handshake.accept(&payload) {
                Ok(Some(agreed)) => return Ok(agreed),
                Ok(None) => {}
                Err(Refusal::Failed(failure) | Refusal::Busy(failure)) => return Err(failure),
                Err(Refusal::Unrelated(reason)) => return Err(Failure::environment(reason)),
            }
            enter(handshake.phase());
            let doing = handshake.doing();
            let wait = Wait::for_answer(doing, ANSWER_LIMIT);
            let mine = handshake.mine();
            let exchanged = self.connection.exchange(&mine, MAX_PAYLOAD, &wait);
            payload = exchanged.map_err(|error| {
                let failure = error.into_failure(peer, doing);
                handshake.failure(failure)
            })?;
        }
    }
}
