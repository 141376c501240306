//! What a client asks the servers of many hosts: for a document of each node, which `cxidiag serve`
//! there has a process make. The process of a server receives an order and answers with the
//! document.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::accepted_client::AcceptedClient;
use super::connect::ServerSearch;
use super::invitation::{answer, greet};
use super::peer_facts::RequestedCommand;
use super::wait::Wait;
use facts::child::PROGRAM;
use facts::error::{Context, Failure, Step};
use facts::number::time_text;
use facts::token::Token;
use facts::{interrupt, threads};
use plan::tools::TOOLS;
use plan::typed::Typed;
use plan::{DEFAULT_PORT, Plan};

/// Time from one question to the next, for all clients of a server.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of a document beyond the readings for it, and of the wait for a server that has just
/// answered another client.
const LIMIT: Duration = Duration::from_secs(10);

/// Time limit of a connection: a host that is down costs the others no more.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Longest document, in bytes: 8 NICs have 64 KiB, 256 ranks have 256 KiB.
const MOST_DOCUMENT: usize = 4 << 20;

/// The options of a check that a client may choose. The process reads the files of the driver once
/// and sends nothing through the NICs, whatever the order says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckOrder {
    /// The NICs; empty for the NICs of the server.
    pub devices: Vec<String>,
    /// Number of NICs that the machine must have.
    pub expected_nics: Option<u32>,
    /// Speed that links must have, in Gb/s.
    pub link_gigabits: Option<f64>,
}

/// The ranks that a client may ask for. A process of an older release skips what it does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanksOrder {
    /// The user of the client, whose ranks are read.
    pub user: u32,
    /// The job of the client.
    pub job: Option<String>,
    /// Time between two readings, in milliseconds.
    pub interval_ms: u64,
    /// Time for the stacks of the ranks at a reading, in milliseconds; 0 to leave them out.
    #[serde(default)]
    pub stack_ms: u64,
}

/// A question to servers.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a, Order> {
    command: RequestedCommand,
    /// What the server does meanwhile, for messages.
    doing: &'static str,
    order: &'a Order,
    /// How long the readings take.
    window: Duration,
    /// Until when servers are asked, and why one is not asked after that.
    last: Option<(Instant, &'static str)>,
    /// How many are asked at the same time.
    most_at_once: usize,
}

/// The name of each host, and its document or why there is none.
pub type HostAnswers<T> = Vec<(String, Result<T, String>)>;

/// Why a server does not answer at present.
pub fn too_early() -> String {
    format!("another check has run within the last {}", time_text(INTERVAL))
}

impl<'a> Question<'a, CheckOrder> {
    /// Asks for checks, until `last`.
    pub fn check(order: &'a CheckOrder, last: Option<(Instant, &'static str)>) -> Self {
        let (command, doing) = (RequestedCommand::Check, "during the check");
        Self { command, doing, order, window: Duration::ZERO, last, most_at_once: 128 }
    }
}

impl<'a> Question<'a, RanksOrder> {
    /// Asks for the ranks of a job, whose readings take `window`: at the same time, because they
    /// are compared.
    pub fn ranks(order: &'a RanksOrder, window: Duration) -> Self {
        let (command, doing) = (RequestedCommand::Why, "while it reads the ranks of the job");
        Self { command, doing, order, window, last: None, most_at_once: 512 }
    }
}

impl<Order: Serialize + Sync> Question<'_, Order> {
    /// Asks the server on each host, at this port.
    ///
    /// # Errors
    ///
    /// An interruption, and a thread that cannot be started.
    pub fn ask_all<T: Send>(
        &self,
        hosts: &[String],
        port: Option<u16>,
        read: impl Fn(&[u8]) -> Result<T, Failure> + Sync,
    ) -> Result<HostAnswers<T>, Failure> {
        let mut typed = Typed::nothing(TOOLS[0].defaults);
        // Each question names its host.
        typed.address = Some("peer".into());
        typed.port = Some(port.unwrap_or(DEFAULT_PORT));
        typed.connect_timeout = Some(CONNECT_LIMIT);
        typed.token = Token::from_environment();
        let plan = Plan::new(&TOOLS[0], PROGRAM.into(), typed, None)?;
        let order = serde_json::to_vec(self.order).environment("cannot write the order")?;
        let next = AtomicUsize::new(0);
        let answers = Mutex::new(Vec::new());
        threads::share(self.most_at_once.min(hosts.len()), || {
            while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let document = match self.last {
                    Some((last, why)) if Instant::now() >= last => Err(Failure::environment(why)),
                    _ => self.ask(&plan, host, &order),
                };
                let document = document.and_then(|document| read(&document));
                let document = document.map_err(|failure| unanswered(&failure, host));
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.push((host.clone(), document));
            }
        })?;
        interrupt::check()?;
        Ok(answers.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks a server, and again after another client's question.
    fn ask(&self, plan: &Plan, host: &str, order: &[u8]) -> Result<Vec<u8>, Failure> {
        let until = Instant::now() + self.left(LIMIT);
        loop {
            match self.ask_once(plan, host, order) {
                Err(failure)
                    if failure.message().contains(&too_early()) && Instant::now() < until =>
                {
                    interrupt::wait_for_any(&mut Vec::new(), Some(INTERVAL / 4))?;
                }
                asked => return asked,
            }
        }
    }

    fn ask_once(&self, plan: &Plan, host: &str, order: &[u8]) -> Result<Vec<u8>, Failure> {
        let connection = greet(plan, ServerSearch::new(plan, host)?, self.command.word())?;
        let sent = connection.send(order);
        let wait = Wait::for_answer(self.doing, self.left(self.window + LIMIT));
        let received = sent.and_then(|()| connection.receive(MOST_DOCUMENT, &wait, &mut || Ok(())));
        answer(&connection, received, wait.doing)
    }

    /// Returns what is left of this time.
    fn left(&self, time: Duration) -> Duration {
        let left = self.last.map(|(last, _)| last.saturating_duration_since(Instant::now()));
        left.map_or(time, |left| left.min(time))
    }
}

/// Returns why a host has sent no document, without its name and address: hosts with the same
/// reason make one group.
fn unanswered(failure: &Failure, host: &str) -> String {
    let message = failure.message().replace(&format!(" {host} "), " ");
    let words = message.split(' ').filter(|word| {
        let address = word.trim_start_matches('(').trim_end_matches([')', ',', ':']);
        address.parse::<SocketAddr>().is_err()
    });
    let message = words.collect::<Vec<_>>().join(" ");
    if failure.step() == Some(Step::Tcp) {
        message + " (does 'cxidiag serve' run there?)"
    } else {
        message
    }
}

impl AcceptedClient {
    /// The order of a client that asks for a document.
    ///
    /// # Errors
    ///
    /// A client that has sent something else.
    pub fn order<Order: for<'de> Deserialize<'de>>(&self) -> Result<Order, Failure> {
        self.request("order")
    }

    /// Sends the document.
    ///
    /// # Errors
    ///
    /// A client that has ended.
    pub fn send_document(&self, document: &[u8]) -> Result<(), Failure> {
        self.connection().tell(document, "after the readings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_no_host_after_the_last_moment() {
        let order = CheckOrder::default();
        let question = Question::check(&order, Some((Instant::now(), "too late")));
        let answers = question.ask_all(&["host.invalid".to_owned()], None, |_| Ok(())).unwrap();
        assert_eq!(answers[0].1.as_ref().err().map(String::as_str), Some("too late"));
    }

    #[test]
    fn reasons_of_hosts_differ_only_in_what_happened() {
        for (message, host, expected) in [
            (
                "cannot connect to nid1 port 49194: connection refused",
                "nid1",
                "cannot connect to port 49194: connection refused",
            ),
            (
                "the peer (10.1.0.1:49194) did not answer during the check within 10 s",
                "nid1",
                "the peer did not answer during the check within 10 s",
            ),
        ] {
            assert_eq!(unanswered(&Failure::environment(message), host), expected);
        }
    }
}
