//! How the processes of a survey talk: each member has one TCP connection to the coordinator, and
//! no other one.
//!
//! * `message`: what members and coordinator send each other, and what members do, which the user
//!   of the star chooses.
//! * `link`: a connection on which nothing waits, and how much was sent and received.
//! * `clock`: the clock of the coordinator in a member.
//! * `listener`: where the coordinator lets members in, which prove that they have the token, and
//!   the limit of open files, and so of members.
//! * `root`: the coordinator.
//! * `connection`: the way of a member to the coordinator.
//! * `member`: a member as its measuring thread sees it, and how a task that does not see the
//!   meeting point learns why.
//! * `fuzzing`: any bytes in place of each message, for tests.
//! * `many_members`: thousands of members in one thread, for tests.
//!
//! A member connects to the coordinator, introduces itself, and takes over the clock of the
//! coordinator. It then receives orders, and sends one reply to each. A member listens for nothing.
//! While a block runs, nothing is sent but what concerns processes that come or go.
//!
//! A member whose connection is lost returns with another one within a limit. What was on its way
//! is sent again: the coordinator keeps each order until it has the reply, a member its last reply.

mod clock;
mod connection;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod link;
mod listener;
#[cfg(any(test, feature = "testing"))]
pub mod many_members;
mod member;
mod message;
mod root;

use std::net::SocketAddr;

pub use clock::now_ns;
pub use link::Traffic;
pub use listener::allow_connections;
pub use member::{JOIN_LIMIT, KnockAnswer, Member, knock};
#[cfg(any(test, feature = "testing"))]
pub use message::Reply;
pub use message::{Expected, MemoryCopy, NoWork, Order, Work};
pub use root::{Event, GRACE, Root};

use facts::token::Token;

/// What a process knows of the coordinator before it connects.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// Addresses of the coordinator, tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// The token of the survey.
    pub token: Token,
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
