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
//! 10 | lib               the list of modules                                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | check_order       how the NICs of another host are checked through a server               |
//!    | probe_feed        the figures of the probes of a server                                   |
//!    | server            a server's socket, from client to client                                |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | busy              how a server answers clients while it measures with another one         |
//!    | invitation        how a survey gets a process on the host of a server                     |
//!    | join              how a client begins a session                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | arrivals          how a server of all tools receives its clients                          |
//!    | dry_run           the handshake on bytes without a socket, for fuzzing                    |
//!    | first_client      how a server of one tool finds its client                               |
//!    | turn              the wait of a client for its turn                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | accepted_client   how another process takes a client over                                 |
//!    | counters          the counters of a server's NIC as messages                              |
//!    | reception         the connections to a server in their handshake                          |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | open              an open session, from the handshake to the last barrier                 |
//!    | refusal_log       the lines about clients that were refused                               |
//!    | status            the question for the state of a server of all tools                     |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | connect           how a client finds its server                                           |
//!    | handshake         identifies the peer and agrees on the run; without a socket             |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | connection        a connection, and the exchange of messages over it                      |
//!    | peer_facts        what two cxidiag tell each other with their versions                    |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | introduction      what a side sends in the handshake                                      |
//!    | wait              the time limits of a wait, and what the user is told of it              |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | admission         whether two sides measure together: jobs, tokens, busy servers          |
//!    | control_line      messages between a server of all tools and its processes                |
//!    | terms             run options <-> option block                                            |
//!    | tick              what shows that the process of the peer is not stopped                  |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | agreed            what both sides have agreed on                                          |
//!    | link_error        why an exchange of messages failed                                      |
//!    | option_block      the options of a run, bytes <-> record                                  |
//!    | probe_state       what a prober says of its NICs                                          |
//!    | wire              messages, bytes <-> records                                             |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

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

pub use crate::accepted_client::AcceptedClient;
pub use agreed::Agreed;
pub use connection::PeerCheck;
pub use join::join;
pub use link_error::{is_interruption_of_peer, is_reason_of_peer};
pub use open::Session;
pub use refusal_log::{LineLimit, RefusalLog, ServerTotals};
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
