//! The clients of a server of all tools (`cxidiag serve`): the name and the version of each, and
//! the answers to both. The process that measures with a client continues its handshake
//! ([`super::Caller`]) when the next message begins to arrive.
//!
//! One thread reads the messages of all connections at the same time. An unrelated or silent
//! connection costs the server a file descriptor for [`ANSWER_LIMIT`] at most, and no process.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use rustix::event::{PollFd, PollFlags};

use super::admission::Credentials;
use super::connection;
use super::handshake::{self, Refusal};
use super::introduction::machine;
use super::peer_facts::{CHECK, PeerFacts, SURVEY, greeting, queue_announcement};
use super::reception::PROMPT;
use super::refusal_log::RefusalLog;
use super::status::STATUS;
use super::wire::{self, BUSY, MAX_PAYLOAD};
use facts::advice::{Advise, Situation};
use facts::device::DeviceName;
use facts::error::{Failure, cause};
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::net::framing::{Incoming, TooLong, message};
use facts::net::listener::{Listener, out_of};
use plan::Plan;
use plan::run_options::Side;
use plan::tool::Tool;

/// Maximum number of connections in the handshake. A new one replaces an old one.
const MOST: usize = 256;

/// Why a server without token and allowed networks takes no part in the survey of another host.
const FOREIGN_SURVEY: &str = "surveys of other hosts need --allow=NETWORKS, --token or \
                              --allow-survey at 'cxidiag serve'";

/// Time until the next attempt to accept a connection if the process has no resources for it.
const AGAIN: Duration = Duration::from_millis(100);

/// Which clients a server accepts.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The tools that a client may name.
    pub tools: &'static [Tool],
    /// The networks of the clients; empty for all.
    pub allowed: Vec<IpNet>,
    /// Job and token of the server.
    credentials: Credentials,
    /// The NIC of clients that ask for none.
    device: DeviceName,
    /// Identifies this machine.
    machine: String,
    /// Coordinators of surveys on other hosts are served.
    serves_surveys: bool,
}

impl Rules {
    /// Creates the rules of a server with this `plan`. A coordinator on another host needs a token,
    /// an address that is allowed, or `allow_survey`.
    pub fn new(
        tools: &'static [Tool],
        allowed: Vec<IpNet>,
        allow_survey: bool,
        plan: &Plan,
    ) -> Self {
        let is_restricted = !allowed.is_empty() || plan.admission.token.is_some();
        Self {
            tools,
            serves_surveys: allow_survey || is_restricted,
            allowed,
            credentials: Credentials::new(Side::Server, &plan.admission),
            device: plan.device,
            machine: machine(),
        }
    }

    fn allow(&self, peer: IpAddr) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|network| network.contains(&peer))
    }
}

/// A connection that asks the server for something.
#[derive(Debug)]
pub enum Arrival {
    /// A client, whose next message has begun to arrive.
    Client(Newcomer),
    /// A process of this machine that asks for the state of the server.
    Status(TcpStream),
}

/// A client that has answered the version of the server with its next message: its options, or what
/// it asks for.
#[derive(Debug)]
pub struct Newcomer {
    /// Its connection.
    pub stream: TcpStream,
    /// Its TCP address.
    pub peer: SocketAddr,
    /// The tool that it has named.
    pub tool: &'static Tool,
    /// Its version, with the words behind it.
    pub version: String,
    /// The NIC of the server that it asks for.
    pub device: Option<DeviceName>,
    /// It is the coordinator of a survey, whose process measures with other hosts.
    pub surveys: bool,
    /// It asks for a check of the NICs.
    pub checks: bool,
    is_cxidiag: bool,
}

impl Newcomer {
    /// Returns what it does, for the log: the name of its tool, `survey` or `check`.
    pub fn doing(&self) -> &'static str {
        if self.surveys {
            "survey"
        } else if self.checks {
            "check"
        } else {
            self.tool.name
        }
    }

    /// Refuses the client, which waits and comes again with `--wait`. Returns the reason as it is
    /// sent.
    pub fn turn_away(self, reason: &str) -> String {
        let reason = format!("{BUSY}{reason}");
        self.refuse(&reason);
        reason
    }

    /// Refuses the client. A cxidiag receives the reason, a legacy client sees a closed connection.
    pub fn refuse(mut self, reason: &str) {
        if self.is_cxidiag {
            // A client that has ended does not need the reply.
            let _ = self.stream.write_all(&wire::refusal(reason));
            connection::discard(&self.stream);
        }
    }
}

/// Passes each arrival at `listener` to `receive`, and logs the others to `refusals`.
pub fn receive_all(
    listener: &Listener,
    rules: &Rules,
    mut refusals: RefusalLog,
    mut receive: impl FnMut(Arrival),
) -> Result<(), Failure> {
    let mut callers: Vec<Pending> = Vec::new();
    loop {
        let (ready, has_newcomers) = wait(listener, &callers)?;
        for (caller, is_ready) in mem::take(&mut callers).into_iter().zip(ready) {
            let peer = caller.peer;
            match caller.advance(is_ready, rules) {
                Ok(Progress::Waits(caller)) => callers.push(caller),
                Ok(Progress::Arrived(arrival)) => receive(arrival),
                Err(refusal) => refusals.refused(peer, &refusal),
            }
        }
        if has_newcomers {
            accept(listener, rules, &mut callers, &mut refusals);
        }
    }
}

/// Waits for a connection to `listener`, for bytes of a caller, or for the earliest time limit.
/// Returns which callers have sent something, and whether there are new connections.
fn wait(listener: &Listener, callers: &[Pending]) -> Result<(Vec<bool>, bool), Failure> {
    let due = callers.iter().map(Pending::due).min();
    let within = due.map(|due| due.saturating_duration_since(Instant::now()));
    let streams = callers.iter().map(|caller| &caller.stream);
    let mut polled: Vec<PollFd> = streams
        .map(|stream| PollFd::new(stream, PollFlags::IN))
        .chain([PollFd::new(listener.socket(), PollFlags::IN)])
        .collect();
    interrupt::wait_for_any(&mut polled, within)?;
    let mut ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
    let has_newcomers = ready.pop() == Some(true);
    Ok((ready, has_newcomers))
}

/// Accepts the new connections.
fn accept(
    listener: &Listener,
    rules: &Rules,
    callers: &mut Vec<Pending>,
    refusals: &mut RefusalLog,
) {
    // Not more than MOST at once, so that the accepted ones are answered in between.
    for _ in 0..MOST {
        match listener.accept() {
            Ok(None) => return,
            Ok(Some((stream, peer))) => {
                let mut caller = Pending::new(stream, peer, rules);
                // A process of this machine may ask for the state.
                if !caller.is_allowed && !is_of_this_machine(&caller.stream) {
                    refusals.refused(peer, &caller.exclude());
                    continue;
                }
                if callers.len() == MOST {
                    let reason = format!("at most {MOST} at a time");
                    replace_oldest(callers, refusals, &reason);
                }
                callers.push(caller);
            }
            Err(error) if out_of(&error).is_none() => {}
            Err(error) if !callers.is_empty() => {
                replace_oldest(callers, refusals, &cause(&error));
            }
            // A client that ends frees resources.
            Err(_) => {
                thread::sleep(AGAIN);
                return;
            }
        }
    }
}

/// Closes the connection that has sent nothing for the longest time, of the address with most
/// connections, for this reason. Many connections of one address do not replace the connection of
/// another one, and silent ones do not replace a client in its handshake.
fn replace_oldest(callers: &mut Vec<Pending>, refusals: &mut RefusalLog, reason: &str) {
    let mut crowds: HashMap<IpAddr, usize> = HashMap::new();
    for caller in callers.iter() {
        *crowds.entry(caller.peer.ip()).or_default() += 1;
    }
    let most = crowds.values().max().copied();
    let is_of_crowd = |caller: &Pending| crowds.get(&caller.peer.ip()).copied() == most;
    let candidates = callers.iter().enumerate().filter(|(_, caller)| is_of_crowd(caller));
    let Some((oldest, _)) = candidates.min_by_key(|(_, caller)| caller.since) else {
        return;
    };
    let gone = callers.remove(oldest);
    let reason = format!("replaced by newer connections ({reason})");
    refusals.refused(gone.peer, &Refusal::Unrelated(reason));
}

/// A connection in the handshake.
struct Pending {
    stream: TcpStream,
    peer: SocketAddr,
    incoming: Incoming,
    /// Its address is one of the clients'.
    is_allowed: bool,
    /// The tool that it has named.
    tool: Option<&'static Tool>,
    /// Its version, once this side has answered it, and what it announces.
    greeted: Option<Box<(String, PeerFacts)>>,
    /// This side has sent a name first, for clients that wait for it.
    is_prompted: bool,
    /// When the current exchange began.
    since: Instant,
}

/// What has become of a connection.
enum Progress {
    /// Its next message has not arrived.
    Waits(Pending),
    /// It asks for something.
    Arrived(Arrival),
}

impl Pending {
    fn new(stream: TcpStream, peer: SocketAddr, rules: &Rules) -> Self {
        Self {
            stream,
            peer,
            incoming: Incoming::new(MAX_PAYLOAD),
            is_allowed: rules.allow(peer.ip()),
            tool: None,
            greeted: None,
            is_prompted: false,
            since: Instant::now(),
        }
    }

    /// Returns whether this side is to send a name first if the client does not send its own.
    fn may_wait(&self) -> bool {
        self.tool.is_none() && !self.is_prompted
    }

    /// Returns the time limit of the current exchange.
    fn due(&self) -> Instant {
        let limit = if self.may_wait() { PROMPT } else { ANSWER_LIMIT };
        self.since + limit
    }

    /// Returns the next message, if it has arrived.
    fn receive(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        loop {
            let received = match self.stream.read(self.incoming.room()) {
                Ok(0) => return Err(self.refusal("it closed the connection")),
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.refusal(&cause(&error))),
            };
            let payload = self.incoming.advance(received);
            let payload =
                payload.map_err(|TooLong(_)| self.refusal("it speaks another protocol"))?;
            if payload.is_some() {
                return Ok(payload);
            }
        }
    }

    /// Answers what has arrived.
    fn advance(mut self, is_ready: bool, rules: &Rules) -> Result<Progress, Refusal> {
        if is_ready {
            while self.greeted.is_none()
                && let Some(payload) = self.receive()?
            {
                match self.tool {
                    Some(tool) => self.greet(tool, &payload, rules)?,
                    None if is_status(&payload) && is_of_this_machine(&self.stream) => {
                        return Ok(Progress::Arrived(Arrival::Status(self.stream)));
                    }
                    None => self.accept_name(&payload, rules)?,
                }
            }
            if self.has_answered()? {
                return Ok(self.arrive());
            }
        }
        if Instant::now() < self.due() {
            return Ok(Progress::Waits(self));
        }
        if self.may_wait() {
            self.is_prompted = true;
            self.answer(rules.tools[0].legacy_name)?;
            return Ok(Progress::Waits(self));
        }
        let silence = format!("it sent nothing for {} s", ANSWER_LIMIT.as_secs());
        Err(self.refusal(&silence))
    }

    /// Takes the name of the client's tool, and sends it back as the name of this server.
    fn accept_name(&mut self, payload: &[u8], rules: &Rules) -> Result<(), Refusal> {
        if !self.is_allowed {
            return Err(self.exclude());
        }
        let name = handshake::tool_name(payload)?;
        if self.is_prompted {
            let (name, peer) = (handshake::shown(name), self.peer);
            let failure = format!("the client ({peer}) is {name}, which waits for the server");
            let failure = Failure::environment(failure).advised(Situation::OldVersion);
            return Err(failure.into());
        }
        let offered = rules.tools.iter().find(|tool| tool.legacy_name == name);
        let Some(tool) = offered else {
            let (name, peer) = (handshake::shown(name), self.peer);
            let failure = format!("the client ({peer}) is {name}, which this server lacks");
            return Err(Failure::environment(failure).into());
        };
        self.answer(name)?;
        self.tool = Some(tool);
        self.since = Instant::now();
        Ok(())
    }

    /// Checks the version of the client, and what it announces with its version, and answers. A
    /// client that is refused reads the reason from the answer.
    fn greet(&mut self, tool: &'static Tool, payload: &[u8], rules: &Rules) -> Result<(), Refusal> {
        let version = wire::parse_string(payload).unwrap_or_default();
        let facts = PeerFacts::read(version);
        let greeting = greeting(tool, &rules.credentials, Some(&facts.announced));
        let checked = handshake::check_version(tool, version, self.peer)
            .and_then(|()| rules.credentials.admit(&facts.announced, self.peer));
        if let Err(failure) = checked {
            // A client that has ended does not need the reply.
            let _ = self.answer(&greeting);
            return Err(failure.into());
        }
        if facts.surveys && !rules.serves_surveys && !is_of_this_machine(&self.stream) {
            let _ = self.stream.write_all(&wire::refusal(FOREIGN_SURVEY));
            let failure = format!("the client ({}) surveys: {FOREIGN_SURVEY}", self.peer);
            return Err(Failure::environment(failure).into());
        }
        let device = facts.device.unwrap_or(rules.device);
        self.answer(&match &facts {
            facts if facts.surveys => format!("{greeting} {SURVEY}"),
            facts if facts.checks => format!("{greeting} {CHECK}"),
            _ => queue_announcement(&greeting, &rules.machine, device),
        })?;
        self.greeted = Some(Box::new((version.to_owned(), facts)));
        self.since = Instant::now();
        Ok(())
    }

    /// Returns whether the client has begun to send what follows its version. The bytes stay in the
    /// socket, for its process.
    fn has_answered(&mut self) -> Result<bool, Refusal> {
        if self.greeted.is_none() {
            return Ok(false);
        }
        match self.stream.peek(&mut [0]) {
            Ok(0) => Err(self.refusal("it closed the connection")),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.refusal(&cause(&error))),
        }
    }

    /// Returns the client, which has answered.
    fn arrive(mut self) -> Progress {
        let (Some(tool), Some(greeted)) = (self.tool, self.greeted.take()) else {
            return Progress::Waits(self);
        };
        let (version, facts) = *greeted;
        Progress::Arrived(Arrival::Client(Newcomer {
            stream: self.stream,
            peer: self.peer,
            tool,
            version,
            device: facts.device,
            surveys: facts.surveys,
            checks: facts.checks,
            is_cxidiag: facts.is_cxidiag,
        }))
    }

    /// Refuses a connection from an address that `--allow` does not list. The connection need not
    /// have sent anything: a client of cxidiag reads the reason in place of the server's name.
    fn exclude(&mut self) -> Refusal {
        let reason = format!("--allow of the server does not list {}", self.peer.ip());
        // A client that has ended does not need the reply.
        let _ = self.stream.write_all(&wire::refusal(&reason));
        Refusal::Unrelated("--allow does not list its address".into())
    }

    /// Sends a string, which always fits into the socket's buffer.
    fn answer(&mut self, text: &str) -> Result<(), Refusal> {
        let bytes = message(&wire::string(text));
        let sent = self.stream.write_all(&bytes);
        sent.map_err(|error| self.refusal(&cause(&error)))
    }

    /// Returns a refusal: of an unrelated connection until it has named a tool, of a client
    /// afterwards.
    fn refusal(&self, reason: &str) -> Refusal {
        match self.tool {
            None => Refusal::Unrelated(reason.to_owned()),
            Some(_) => {
                let peer = self.peer;
                let failure = format!("the client ({peer}) failed during the handshake: {reason}");
                Failure::environment(failure).into()
            }
        }
    }
}

fn is_status(payload: &[u8]) -> bool {
    wire::parse_string(payload) == Some(STATUS)
}

/// Returns whether the peer of a connection is on this machine.
fn is_of_this_machine(stream: &TcpStream) -> bool {
    let ends = || Ok::<_, io::Error>((stream.peer_addr()?.ip(), stream.local_addr()?.ip()));
    ends().is_ok_and(|(peer, own)| is_own(peer, own))
}

/// Returns whether a `peer` that has connected to the address `own` is on this machine.
fn is_own(peer: IpAddr, own: IpAddr) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback() || peer == own.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_machine_is_loopback_or_the_address_connected_to() {
        for (peer, own, expected) in [
            ("127.0.0.3", "127.0.0.1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", true),
            ("10.1.0.2", "10.1.0.2", true),
            ("::ffff:10.1.0.2", "10.1.0.2", true),
            ("10.1.0.3", "10.1.0.2", false),
            ("fe80::3", "fe80::2", false),
        ] {
            let found = is_own(peer.parse().unwrap(), own.parse().unwrap());
            assert_eq!(found, expected, "{peer} at {own}");
        }
    }
}
