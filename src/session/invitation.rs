//! How a survey without a launcher gets a process on another host: a client connects to
//! `cxidiag serve` there, names the first tool, and adds a word to its version by which the server
//! starts a process of `survey`.
//!
//! The process receives an [`Invitation`] from the coordinator, joins the survey, and ends when
//! this connection does.

use std::cell::Cell;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::accepted_client::AcceptedClient;
use super::admission::Credentials;
use super::connect::{self, ServerSearch};
use super::connection::Connection;
use super::link_error::LinkError;
use super::peer_facts::{ASKS, PeerFacts, RequestedCommand, greeting};
use super::wait::Wait;
use super::wire::{self, MAX_PAYLOAD, REFUSAL};
use super::{handshake, join};
use facts::error::{Context, Failure};
use facts::limit::ANSWER_LIMIT;
use plan::Plan;
use plan::run_options::Side;

/// Each wait of both sides.
const INVITATION: Wait<'static> = Wait::for_answer("during the invitation", ANSWER_LIMIT);

/// The data that a process needs to join a survey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// TCP port of the coordinator, on the host that this connection comes from.
    pub port: u16,
    /// The token of the survey, unless both sides have one of their own.
    pub token: Option<String>,
    /// The NICs to measure with; empty for all hardware.
    pub devices: Vec<String>,
    /// The tests, each with its tool and the arguments of the tool: their buffers need memory.
    #[serde(default)]
    pub tests: Vec<(String, Vec<String>)>,
    /// Options about service, VNI and traffic class: the only ones that the coordinator of another
    /// host may choose.
    pub service: Vec<String>,
}

/// A process on another host. It ends when this value is dropped.
#[derive(Debug)]
pub struct Invited {
    connection: Connection,
    place: Cell<Option<u32>>,
}

impl Invited {
    /// The address of its server.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// The place of the process in the queue of its NICs, if it waits for its turn.
    pub fn place(&self) -> Option<u32> {
        self.place.get().filter(|place| *place > 0)
    }

    /// Receives what the server has sent: places in the queue. Does not wait.
    ///
    /// # Errors
    ///
    /// The reason of a server that has refused the process.
    pub fn news(&self) -> Result<(), Failure> {
        while self.connection.has_message() {
            let received = self.connection.receive(MAX_PAYLOAD, &INVITATION, &mut || Ok(()));
            let payload = answer(&self.connection, received, INVITATION.doing)?;
            self.place.set(Some(join::place(&payload, self.connection.peer())?));
        }
        Ok(())
    }
}

/// The addresses of the server on `host`.
///
/// # Errors
///
/// A name without an address, and an interruption.
pub fn addresses(plan: &Plan, host: &str) -> Result<Vec<SocketAddr>, Failure> {
    connect::resolve(host, plan.port, plan.address_hint.as_deref())
}

impl Invitation {
    /// Sends the invitation to a process of the server on `host`, which has these `addresses`, as
    /// the client of `plan`.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached, refuses this client, or is of a release without surveys,
    /// and an interruption.
    pub fn send(
        &self,
        plan: &Plan,
        host: &str,
        addresses: Vec<SocketAddr>,
    ) -> Result<Invited, Failure> {
        let search = ServerSearch::among(plan, host, addresses);
        let connection = greet(plan, search, RequestedCommand::Survey.word())?;
        let text = serde_json::to_vec(self).environment("cannot write the invitation")?;
        exchange(&connection, &text)?;
        let place = Cell::default();
        Ok(Invited { connection, place })
    }
}

/// Connects to the server that `search` finds as the client of `plan`, and says by `word` what it
/// wants.
///
/// # Errors
///
/// The server cannot be reached, refuses this client or does not know `word`; an interruption.
pub(super) fn greet(
    plan: &Plan,
    mut search: ServerSearch<'_>,
    word: &str,
) -> Result<Connection, Failure> {
    let connection = search.connect()?;
    let credentials = Credentials::new(Side::Client, &plan.admission);
    let name = exchange(&connection, &wire::string(plan.tool.legacy_name))?;
    let no_name = "it did not send the name of a tool";
    handshake::tool_name(&name).map_err(|_| stranger(&connection, no_name))?;
    let greeting = greeting(plan.tool, &credentials, credentials.proof(None).as_deref());
    let greeting = wire::string(&format!("{greeting} {word} {ASKS}"));
    let version = exchange(&connection, &greeting)?;
    if version == greeting {
        return Err(stranger(&connection, handshake::REFLECTS));
    }
    let facts = PeerFacts::read(wire::parse_string(&version).unwrap_or_default());
    credentials.admit(&facts.announced, connection.peer())?;
    if let Some(answer) = credentials.answer(&facts.announced) {
        exchange(&connection, &wire::string(&answer))?;
    }
    if !facts.has(word) {
        let peer = connection.peer();
        let message = format!(
            "the server ({peer}) does not know '{word}': it is older than this cxidiag, or serves \
             one tool"
        );
        return Err(
            Failure::environment(message).with_hint("run 'cxidiag serve' of this release there")
        );
    }
    Ok(connection)
}

/// The answer of the server.
fn exchange(connection: &Connection, payload: &[u8]) -> Result<Vec<u8>, Failure> {
    answer(connection, connection.exchange(payload, MAX_PAYLOAD, &INVITATION), INVITATION.doing)
}

/// A message that was `received`, or the reason of a server that refuses this client.
pub(super) fn answer(
    connection: &Connection,
    received: Result<Vec<u8>, LinkError>,
    doing: &str,
) -> Result<Vec<u8>, Failure> {
    received.map_err(|error| {
        let error = match error {
            LinkError::TooLong { length: REFUSAL, .. } => connection.refusal(),
            other => other,
        };
        error.into_failure(connection.peer(), doing)
    })
}

fn stranger(connection: &Connection, reason: &str) -> Failure {
    let peer = connection.peer();
    Failure::environment(format!("the peer ({peer}) is no server of cxidiag: {reason}"))
}

impl AcceptedClient {
    /// The invitation of a coordinator, which waits for the answer of [`Self::accept_invitation`]
    /// or [`Self::refuse`]. The connection is kept: the coordinator ends the process by closing it.
    ///
    /// # Errors
    ///
    /// A coordinator that has sent something else.
    pub fn invitation(&self) -> Result<Invitation, Failure> {
        self.request("invitation")
    }

    /// Accepts the invitation.
    ///
    /// # Errors
    ///
    /// A coordinator that has ended.
    pub fn accept_invitation(&self) -> Result<(), Failure> {
        self.connection().tell(&[], INVITATION.doing)
    }
}
