//! How the processes of a survey talk: a tree of TCP connections, of width [`WIDTH`].
//!
//! * `message`: what they send each other.
//! * `link`: a connection of a poll loop.
//! * `listener`: where a process lets others in, which prove that they have the token.
//! * `uplink`: the way of a member to the coordinator.
//! * `relay`: the thread of a member that passes messages on.
//! * `member`: a member as its measuring thread sees it.
//! * `links`: which member is whose child.
//! * `root`: the coordinator.
//! * `knock`: how a task that does not see the meeting point learns why.
//! * `clock`: the clock of the coordinator in the other processes.
//! * `traffic`: how much they have sent.
//! * `fuzzing`: any bytes in place of each message, for tests.
//!
//! A process connects to the coordinator, introduces itself, and learns who its parent is: the
//! coordinator, or a member with fewer than [`WIDTH`] children. Orders carry their path, so members
//! know nothing of the tree but their neighbours; all of its state is in the coordinator.
//!
//! While a block runs, nothing is sent but what concerns processes that come or go. A process whose
//! parent is lost, or does not answer, asks the coordinator for another one. What was on its way is
//! sent again: the coordinator keeps each block until its report has arrived, a member its last
//! report.
//!
//! At the end, a member waits for those below it while it receives messages from them. A member
//! that looks for a parent then becomes a child of the coordinator, because others may have ended.

mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod knock;
mod link;
mod links;
mod listener;
mod member;
mod message;
mod relay;
mod root;
mod traffic;
mod uplink;

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

pub use clock::now_ns;
pub use knock::{KnockAnswer, knock};
pub use link::PollSet;
pub use member::{JOIN_LIMIT, Member};
pub use message::Order;
pub use relay::Relay;
pub use root::{Event, Root};
pub use traffic::{LevelTraffic, Traffic};
pub use uplink::DETOUR_LIMIT;

use facts::token::Token;

/// Maximum number of children of a process: three levels cover 32,768 processes (jobs.md 3.6).
pub const WIDTH: usize = 32;

/// Where a process of a survey may connect to and listen, if not everywhere: a server starts it for
/// a coordinator that it need not trust.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The networks of possible parents.
    pub parents: Option<Vec<IpNet>>,
    /// The address to listen at.
    pub bind: Option<IpAddr>,
}

impl Bounds {
    /// Returns whether a parent may have this address.
    fn permit(&self, parent: IpAddr) -> bool {
        let parent = parent.to_canonical();
        let parents = self.parents.as_ref();
        parents.is_none_or(|networks| networks.iter().any(|network| network.contains(&parent)))
    }
}

/// What a process knows of the coordinator before it connects.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// Addresses of the coordinator, tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// The token of the survey.
    pub token: Token,
    /// The bounds of the process.
    pub bounds: Bounds,
}

#[cfg(test)]
mod loss_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
