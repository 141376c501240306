//! How a survey without a launcher gets a process on another host: its coordinator connects to
//! `cxidiag serve` there, which starts a process for it as for any client. That process receives a
//! [`Invitation`], joins the survey, and ends when this connection does.
//!
//! The coordinator names the first tool, and adds a word to its version by which the server starts
//! a process of `survey`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::admission::Credentials;
use super::caller::Caller;
use super::connect::Search;
use super::connection::{Connection, LinkError};
use super::peer_facts::{PeerFacts, SURVEY, greeting};
use super::wire::{self, MAX_PAYLOAD, REFUSAL};
use super::{handshake, turn};
use facts::error::{Context, Failure};
use facts::limit::ANSWER_LIMIT;
use plan::Plan;
use plan::run_options::Side;

/// Maximum length of an invitation, in bytes.
const MOST: usize = 64 << 10;

/// What a process needs to join a survey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// Its rank.
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// TCP port of the coordinator, on the host that this connection comes from.
    pub port: u16,
    /// The token of the survey, unless both sides have one of their own.
    pub token: Option<String>,
    /// The NICs to measure with; empty for all hardware.
    pub devices: Vec<String>,
    /// Options about service, VNI and traffic class: the only ones that the coordinator of another
    /// host may choose.
    pub service: Vec<String>,
}

/// A process on another host. It ends when this value is dropped.
#[derive(Debug)]
pub struct Invited {
    connection: Connection,
}

impl Invited {
    /// Returns the address of its server.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// Returns the place of the process in the queue of its NICs, if it waits for its turn.
    pub fn place(&self) -> Option<u32> {
        let mut last = None;
        while self.connection.has_message() {
            let payload = self
                .connection
                .receive(MAX_PAYLOAD, ANSWER_LIMIT, &mut || Ok(()));
            last = turn::place(&payload.ok()?, self.connection.peer()).ok();
        }
        last.filter(|place| *place > 0)
    }
}

impl Invitation {
    /// Sends the invitation to a process of the server on `host`, as the client of `plan`.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached, refuses this client, or is of a release without surveys,
    /// and an interruption.
    pub fn send(&self, plan: &Plan, host: &str) -> Result<Invited, Failure> {
        let (connection, facts) = greet(plan, host, SURVEY)?;
        if !facts.surveys {
            let peer = connection.peer();
            return Err(Failure::environment(format!(
                "the server ({peer}) takes no part in surveys"
            ))
            .with_hint("run 'cxidiag serve' of this release there"));
        }
        let text = serde_json::to_vec(self).environment("cannot write the invitation")?;
        exchange(&connection, &text)?;
        Ok(Invited { connection })
    }
}

/// Connects to the server on `host` as the client of `plan`, and says by `word` what it wants.
/// Returns the connection, and what the server announces.
///
/// # Errors
///
/// A server that cannot be reached or refuses this client, and an interruption.
pub(super) fn greet(
    plan: &Plan,
    host: &str,
    word: &str,
) -> Result<(Connection, PeerFacts), Failure> {
    let connection = Search::new(plan, host)?.connect()?;
    let credentials = Credentials::new(Side::Client, &plan.admission);
    let name = exchange(&connection, &wire::string(plan.tool.legacy_name))?;
    handshake::tool_name(&name).map_err(|_| stranger(&connection))?;
    let version = format!("{} {word}", greeting(plan.tool, &credentials, None));
    let version = exchange(&connection, &wire::string(&version))?;
    let facts = PeerFacts::read(wire::parse_string(&version).unwrap_or_default());
    credentials.admit(&facts.announced, connection.peer())?;
    Ok((connection, facts))
}

/// Returns what the server answers.
fn exchange(connection: &Connection, payload: &[u8]) -> Result<Vec<u8>, Failure> {
    let answer = connection.exchange(payload, MAX_PAYLOAD, ANSWER_LIMIT);
    answer.map_err(|error| {
        let error = match error {
            LinkError::TooLong {
                length: REFUSAL, ..
            } => connection.refusal(),
            other => other,
        };
        error.into_failure(connection.peer(), "during the invitation")
    })
}

fn stranger(connection: &Connection) -> Failure {
    let peer = connection.peer();
    Failure::environment(format!("the peer ({peer}) is no server of cxidiag"))
}

impl Caller {
    /// Receives the invitation of a coordinator. The connection is kept: the coordinator ends the
    /// process by closing it.
    ///
    /// # Errors
    ///
    /// A coordinator that ends or sends something else.
    pub fn invitation(&self) -> Result<Invitation, Failure> {
        let (connection, peer) = (self.connection(), self.connection().peer());
        let text = connection.exchange(&[], MOST, ANSWER_LIMIT);
        let text = text.map_err(|error| error.into_failure(peer, "during the invitation"))?;
        serde_json::from_slice(&text)
            .map_err(|_| Failure::environment(format!("the peer ({peer}) sent no invitation")))
    }
}
