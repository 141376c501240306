//! The control connection: TCP between client and server, as the legacy tools of SHS 13.0 and
//! later speak it (wire.md).
//!
//! * `wire`, `option_block`: messages, bytes <-> records.
//! * `introduction`, `agreed`: what a side sends in the handshake, and what both have agreed on.
//! * `terms`: run options <-> option block.
//! * `handshake`: identifies the peer and agrees on the run; without a socket.
//! * `peer_facts`: what two cxidiag tell each other with their versions.
//! * `admission`: whether two cxidiag measure together: jobs, tokens, busy servers.
//! * `counters`: the counters of a server's NIC as messages.
//! * `connection`: a connection, the exchange of one message in each direction, detection of a lost
//!   peer. `link_error`: why an exchange failed.
//! * `reception`, `refusal_log`: the connections to a server in their handshake, among unrelated
//!   ones.
//! * `first_client`: how a server of one tool finds its client.
//! * `server`: a server's socket, from client to client.
//! * `busy`: how a server answers clients while it measures with another one.
//! * `arrivals`, `accepted_client`: how a server of all tools receives its clients, and how another
//!   process takes a client over.
//! * `tick`: what shows a side that the process of its peer is not stopped.
//! * `wait`: the time limits of a wait, and what the user is told of a long one.
//! * `turn`: the wait of a client for its turn.
//! * `control_line`: the messages between a server of all tools and that process.
//! * `invitation`: how a survey gets a process on the host of such a server.
//! * `check_order`: how the NICs of another host are checked through such a server.
//! * `status`: the question for the state of such a server.
//! * `connect`, `join`: how a client finds its server and begins a session.
//! * `open`: an open session, from the handshake to the last barrier.
//! * [`dry_run`]: the handshake on bytes without a socket, for fuzzing.
//!
//! The device is opened before the session begins (wire.md 1): the handshake sends its fabric
//! address.

mod accepted_client;
mod admission;
mod agreed;
pub mod arrivals;
mod busy;
pub mod check_order;
mod connect;
mod connection;
pub mod control_line;
mod counters;
pub mod dry_run;
mod first_client;
mod handshake;
mod introduction;
pub mod invitation;
mod join;
mod link_error;
mod open;
mod option_block;
mod peer_facts;
pub mod probe_feed;
pub mod probe_state;
mod reception;
mod refusal_log;
mod server;
pub mod status;

mod terms;
mod tick;
mod turn;
mod wait;
mod wire;

pub use crate::session::accepted_client::AcceptedClient;
pub use agreed::Agreed;
pub use connection::PeerCheck;
pub use join::join;
pub use link_error::{is_interruption_of_peer, is_reason_of_peer};
pub use open::Session;
pub use refusal_log::{LineLimit, RefusalLog, Totals};
pub use server::{LISTENING, Server};
pub use turn::TurnSignal;

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
