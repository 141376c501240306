//! The role of a process, and how it meets its peer.

use std::path::PathBuf;
use std::time::Duration;

use facts::token::Token;

/// Time for each size of a run with `--until` and without `--duration`.
pub const DEFAULT_UNTIL_DURATION: Duration = Duration::from_secs(10);

/// Time limit for a connection to one address. TCP alone would try for two minutes.
pub const DEFAULT_CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The role of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for a client and serves it.
    Server,
    /// Connects to the server at this address and measures.
    Client {
        /// Host name or IP address, as typed.
        address: String,
    },
    /// Starts a server as a second process, and measures against it.
    Loopback,
    /// Is both sides: a tool without a peer.
    Alone,
}

/// How a server listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listening {
    /// Address or name of this machine to listen on; `None` for all addresses.
    pub bind: Option<String>,
    /// Serves one client after another.
    pub persist: bool,
    /// Time limit for each wait for a client; zero for no limit, `None` for the default.
    pub timeout: Option<Duration>,
    /// File for the number of the port.
    pub port_file: Option<PathBuf>,
}

/// Which peers this process measures with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Also those in other batch jobs.
    pub any_job: bool,
    /// Only those that have this token.
    pub token: Option<Token>,
}

/// How a client reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaching {
    /// Time limit for a connection to each address of the server.
    pub limit: Duration,
    /// How long the client keeps trying.
    pub wait: Duration,
    /// How long it waits for its turn at a NIC of `cxidiag serve`; `None` for no limit.
    pub turn: Option<Duration>,
}

impl Reaching {
    /// Reaches the server within these times, as far as they are given.
    pub fn new(limit: Option<Duration>, wait: Option<Duration>) -> Self {
        let limit = limit.unwrap_or(DEFAULT_CONNECT_LIMIT);
        Self { limit, wait: wait.unwrap_or_default(), turn: wait }
    }
}
