//! The control connection: TCP between client and server, as the legacy tools of SHS 13.0 and
//! later speak it (wire.md).
//!
//! The device is opened before the session begins (wire.md 1): the handshake sends its fabric
//! address.
//!
//! <!-- From tests/tidy/houses.rs: src/session -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 10 | lib            the list of modules                                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | arrivals       how a server of all tools receives its clients                             |
//!    | probe_feed     the figures of the probes of a server                                      |
//!    | requests       requests to `cxidiag serve` other than a run                               |
//!    | server         a server's socket, from client to client, and its answers to others        |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | join           how a client begins a session, and how a process takes it over             |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | dry_run        the handshake on bytes without a socket, for fuzzing                       |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | counters       the counters of a server's NIC as messages                                 |
//!    | reception      connections to a server in their handshake, lines about refused ones       |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | open           an open session, from the handshake to the last barrier                    |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | connect        how a client finds its server                                              |
//!    | handshake      identifies the peer and agrees on the run; without a socket                |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | connection     a connection, and the exchange of messages over it                         |
//!    | peer_facts     what two cxidiag tell each other in the handshake                          |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | wait           the time limits of a wait, what the user is told of it, and ticks          |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | admission      whether two sides measure together: jobs, tokens, busy servers             |
//!    | control_line   messages between a server of all tools and its processes                   |
//!    | terms          run options <-> option block                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | link_error     why an exchange of messages failed                                         |
//!    | wire           messages and the option block, bytes <-> records                           |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

mod admission;
pub mod arrivals;
mod connect;
mod connection;
pub mod control_line;
mod counters;
pub mod dry_run;
mod handshake;
mod join;
mod link_error;
mod open;
mod peer_facts;
pub mod probe_feed;
mod reception;
pub mod requests;
mod server;
mod terms;
mod wait;
mod wire;

pub use connection::PeerCheck;
pub use handshake::Agreed;
pub use join::{AcceptedClient, TurnSignal, join};
pub use link_error::{is_interruption_of_peer, is_reason_of_peer};
pub use open::Session;
pub use peer_facts::RequestedCommand;
pub use reception::{LineLimit, RefusalLog, ServerTotals};
pub use server::{LISTENING, Server};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
