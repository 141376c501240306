//! Requests of clients to `cxidiag serve` other than a run.
//!
//! * A [`Question`] to the servers of many hosts asks for a document of each node, which the server
//!   there has a process make. The process receives an order and answers with the document.
//! * An [`Invitation`] gets a survey without a launcher a process on another host. The client names
//!   the first tool and adds a word to its version by which the server starts a process of
//!   `survey`. The process receives the invitation from the coordinator, joins the survey, and ends
//!   when this connection does.
//! * The question for the state of the server, which processes of its machine may ask: the server
//!   answers the name [`STATUS`] with lines of text.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use facts::child::PROGRAM;
use facts::error::{Context, Failure, Step};
use facts::limit::ANSWER_LIMIT;
use facts::net::message;
use facts::number::time_text;
use facts::token::Token;
use facts::{interrupt, text, threads};
use plan::run_options::Side;
use plan::tools::TOOLS;
use plan::typed::Typed;
use plan::{DEFAULT_PORT, Plan};
use rustix::event::PollFlags;
use serde::{Deserialize, Serialize};

use crate::admission::Credentials;
use crate::connect::{self, ServerSearch};
use crate::connection::Connection;
use crate::handshake;
use crate::join::{self, AcceptedClient};
use crate::link_error::LinkError;
use crate::peer_facts::{ASKS, PeerFacts, RequestedCommand, greeting};
use crate::wait::Wait;
use crate::wire::{self, MAX_PAYLOAD, REFUSAL};

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
fn answer(
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

/// The name that asks for the state, in place of the name of a tool.
pub const STATUS: &str = "cxi_status";

/// Longest answer, in bytes.
const MOST_STATUS: usize = 1 << 20;

/// Asks the server at `host` on the plan's port, and returns its answer.
///
/// # Errors
///
/// A server that cannot be reached or does not answer, and an interruption.
pub fn ask_status(plan: &Plan, host: &str) -> Result<String, Failure> {
    let connection = ServerSearch::new(plan, host)?.connect().map_err(|failure| {
        let place = format!("at {host} port {}", plan.port);
        failure.with_hint(format!(
            "only the server {place} was asked: --bind and --port name another one"
        ))
    })?;
    let end = Instant::now() + ANSWER_LIMIT;
    let mut stream = connection.into_stream();
    let what = format!("the server ({host}) did not answer");
    let asked = stream.write_all(&message(&wire::string(STATUS)));
    asked.environment(&what)?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while answer.len() < MOST_STATUS {
        let left = end.saturating_duration_since(Instant::now());
        if !interrupt::wait(&stream, PollFlags::IN, Some(left))? {
            let limit = time_text(ANSWER_LIMIT);
            return Err(Failure::environment(format!("{what} within {limit}")));
        }
        match stream.read(&mut part).environment(&what)? {
            0 => break,
            length => answer.extend(&part[..length]),
        }
    }
    if answer.is_empty() {
        return Err(Failure::environment(what).with_hint("only `cxidiag serve` reports its state"));
    }
    Ok(text::shown_lines(&String::from_utf8_lossy(&answer)).into_owned())
}

/// Answers the question with `text`.
pub fn answer_status(mut stream: TcpStream, text: &str) {
    // A process that has ended does not need the status. The socket's buffer has room for all
    // lines.
    let _ = stream.write_all(text.as_bytes());
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
