//! How the NICs of another host are checked: a client connects to `cxidiag serve` there, names the
//! first tool, and adds a word to its version by which the server starts a process of `check`. That
//! process receives a [`CheckOrder`] and answers with the document of its check.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::connect::ServerSearch;
use super::invitation::{answer, greet};
use super::peer_facts::CHECK;
use super::wait::Wait;
use crate::accepted_client::AcceptedClient;
use facts::error::{Context, Failure};
use facts::interrupt;
use facts::number::time_text;
use plan::Plan;

/// Time from one check to the next, for all clients of a server.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of a quick check, which takes some milliseconds, and of the wait for a server that
/// has just run another check.
const CHECK_LIMIT: Duration = Duration::from_secs(10);

/// Longest document, in bytes: 8 NICs have 64 KiB.
const MOST_DOCUMENT: usize = 4 << 20;

/// The options that a client may choose. The process reads the files of the driver once and sends
/// nothing through the NICs, whatever the order says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckOrder {
    /// The NICs; empty for the NICs of the server.
    pub devices: Vec<String>,
    /// Number of NICs that the machine must have.
    pub expected_nics: Option<u32>,
    /// Speed that links must have, in Gb/s.
    pub link_gigabits: Option<f64>,
}

/// Why a server does not check at present.
pub fn too_early() -> String {
    format!("another check has run within the last {}", time_text(CHECK_INTERVAL))
}

impl CheckOrder {
    /// Asks the server on `host`, as the client of `plan`. Returns the document of the check. Asks
    /// again after another client's check, and ends at `ends` at the latest.
    ///
    /// # Errors
    ///
    /// A server that cannot be reached, refuses this client, or is of a release without checks, and
    /// an interruption.
    pub fn ask(&self, plan: &Plan, host: &str, ends: Option<Instant>) -> Result<Vec<u8>, Failure> {
        let left = || {
            let left = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            left.map_or(CHECK_LIMIT, |left| left.min(CHECK_LIMIT))
        };
        let until = Instant::now() + left();
        loop {
            match self.ask_once(plan, host, left()) {
                Err(failure)
                    if failure.message().contains(&too_early()) && Instant::now() < until =>
                {
                    let pause = CHECK_INTERVAL / 4;
                    interrupt::wait_for_any(&mut Vec::new(), Some(pause))?;
                }
                asked => return asked,
            }
        }
    }

    fn ask_once(&self, plan: &Plan, host: &str, limit: Duration) -> Result<Vec<u8>, Failure> {
        let connection = greet(plan, ServerSearch::new(plan, host)?, CHECK)?;
        let text = serde_json::to_vec(self).environment("cannot write the order")?;
        let sent = connection.send(&text);
        let wait = Wait::for_answer("during the check", limit);
        let received = sent.and_then(|()| connection.receive(MOST_DOCUMENT, &wait, &mut || Ok(())));
        answer(&connection, received, wait.doing)
    }
}

impl AcceptedClient {
    /// The order of a client.
    ///
    /// # Errors
    ///
    /// A client that has sent something else.
    pub fn check_order(&self) -> Result<CheckOrder, Failure> {
        self.request("order")
    }

    /// Sends the document of the check.
    ///
    /// # Errors
    ///
    /// A client that has ended.
    pub fn send_check(&self, document: &[u8]) -> Result<(), Failure> {
        self.connection().tell(document, "after the check")
    }
}
