//! A client that another process has received: its handshake, and the last answer.

use std::net::{SocketAddr, TcpStream};

use super::connection::Connection;
use super::handshake::{Agreed, Handshake, Refusal};
use super::open::Session;
use super::peer_facts::{HandshakeIntroduction, PeerFacts, machine};
use super::wire;
use facts::error::{Context, Failure};
use facts::phase::{Phase, enter};
use node::local_address::LocalAddress;
use plan::Plan;
use serde::de::DeserializeOwned;

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
