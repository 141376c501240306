//! The clients of a server of all tools (`cxidiag serve`): the name and the version of each, and
//! the answers to both. The process that measures with a client continues its handshake
//! ([`super::Caller`]) when the next message begins to arrive.
//! An unrelated or silent connection costs no process.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use ipnet::IpNet;

use super::admission::Credentials;
use super::connection;
use super::handshake::{self, Refusal};
use super::introduction::machine;
use super::peer_facts::{CHECK, PROBE, PeerFacts, SURVEY, greeting, queue_announcement};
use super::reception::{CLOSED, Dialogue, Line, Progress, Reception};
use super::refusal_log::RefusalLog;
use super::status::STATUS;
use super::wire::{self, BUSY};
use facts::advice::{Advise, Situation};
use facts::device::DeviceName;
use facts::error::{Failure, cause};
use facts::net::listener::Listener;
use plan::Plan;
use plan::run_options::Side;
use plan::tool::Tool;

/// Why a server without token and allowed networks takes no part in the survey of another host.
const FOREIGN_SURVEY: &str = "surveys of other hosts need --allow=NETWORKS, --token or \
                              --allow-survey at 'cxidiag serve'";

/// Why a server takes no part in probes.
const NO_PROBES: &str = "'cxidiag serve' takes no part in probes: it runs without --probe=HOSTS";

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
    /// Processes that probe this node get the addresses of its NICs.
    serves_probes: bool,
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
            serves_probes: false,
        }
    }

    /// Returns the rules of a server that takes part in probes.
    pub fn with_probes(self, serves_probes: bool) -> Self {
        Self { serves_probes, ..self }
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
    /// A process that probes this node: it waits for the state of the NICs.
    Watcher(SocketAddr, TcpStream),
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
pub fn receive_all<'a>(
    listener: &'a Listener,
    rules: &'a Rules,
    refusals: RefusalLog<'a>,
    mut receive: impl FnMut(Arrival),
) -> Result<(), Failure> {
    let mut reception = Reception::new(listener, refusals, |line| Greeting::begin(line, rules));
    loop {
        let ready = reception.wait(None, None)?;
        match reception.answer(&ready) {
            Ok(arrival) => arrival.into_iter().for_each(&mut receive),
            // A client that ends frees resources.
            Err(_) => thread::sleep(AGAIN),
        }
    }
}

/// The dialogue with one connection: name and version.
struct Greeting<'a> {
    rules: &'a Rules,
    /// Its address is one of the clients'.
    is_allowed: bool,
    /// The tool that it has named.
    tool: Option<&'static Tool>,
    /// Its version, once this side has answered it, and what it announces.
    greeted: Option<Box<(String, PeerFacts)>>,
}

impl Dialogue for Greeting<'_> {
    type End = Arrival;

    fn is_named(&self) -> bool {
        self.tool.is_some()
    }

    fn answer(mut self, mut line: Line) -> Result<Progress<Self>, Refusal> {
        while self.greeted.is_none()
            && let Some(payload) = self.receive(&mut line)?
        {
            match self.tool {
                Some(tool) => self.greet(&mut line, tool, &payload)?,
                None if is_status(&payload) && is_of_this_machine(&line.stream) => {
                    return Ok(Progress::Over(Arrival::Status(line.stream)));
                }
                None => self.accept_name(&mut line, &payload)?,
            }
        }
        if self.greeted.as_ref().is_some_and(|greeted| greeted.1.probes) {
            return Ok(Progress::Over(Arrival::Watcher(line.peer, line.stream)));
        }
        if self.greeted.is_none() || !self.has_answered(&line)? {
            return Ok(Progress::Waits(self, line));
        }
        Ok(self.arrive(line))
    }

    fn prompt(&mut self, line: &mut Line) -> Result<(), Refusal> {
        self.say(line, self.rules.tools[0].legacy_name)
    }

    fn failure(&mut self, line: &Line, reason: &str) -> Failure {
        let peer = line.peer;
        Failure::environment(format!("the client ({peer}) failed during the handshake: {reason}"))
    }
}

impl<'a> Greeting<'a> {
    /// Begins with a new connection. A process of this machine may ask for the state, whatever its
    /// address.
    fn begin(line: &mut Line, rules: &'a Rules) -> Result<Self, Refusal> {
        let is_allowed = rules.allow(line.peer.ip());
        if !is_allowed && !is_of_this_machine(&line.stream) {
            return Err(exclude(line));
        }
        Ok(Self { rules, is_allowed, tool: None, greeted: None })
    }

    /// Takes the name of the client's tool, and sends it back as the name of this server.
    fn accept_name(&mut self, line: &mut Line, payload: &[u8]) -> Result<(), Refusal> {
        if !self.is_allowed {
            return Err(exclude(line));
        }
        let name = handshake::tool_name(payload)?;
        let peer = line.peer;
        if line.is_prompted {
            let name = handshake::shown(name);
            let failure = format!("the client ({peer}) is {name}, which waits for the server");
            let failure = Failure::environment(failure).advised(Situation::OldVersion);
            return Err(failure.into());
        }
        let offered = self.rules.tools.iter().find(|tool| tool.legacy_name == name);
        let Some(tool) = offered else {
            let name = handshake::shown(name);
            let failure = format!("the client ({peer}) is {name}, which this server lacks");
            return Err(Failure::environment(failure).into());
        };
        self.say(line, name)?;
        self.tool = Some(tool);
        Ok(())
    }

    /// Checks the version of the client, and what it announces with its version, and answers. A
    /// client that is refused reads the reason from the answer.
    fn greet(
        &mut self,
        line: &mut Line,
        tool: &'static Tool,
        payload: &[u8],
    ) -> Result<(), Refusal> {
        let (rules, peer) = (self.rules, line.peer);
        let version = wire::parse_string(payload).unwrap_or_default();
        let facts = PeerFacts::read(version);
        let greeting = greeting(tool, &rules.credentials, Some(&facts.announced));
        let checked = handshake::check_version(tool, version, peer)
            .and_then(|()| rules.credentials.admit(&facts.announced, peer));
        if let Err(failure) = checked {
            // A client that has ended does not need the reply.
            let _ = self.say(line, &greeting);
            return Err(failure.into());
        }
        if facts.surveys && !rules.serves_surveys && !is_of_this_machine(&line.stream) {
            let _ = line.stream.write_all(&wire::refusal(FOREIGN_SURVEY));
            let failure = format!("the client ({peer}) surveys: {FOREIGN_SURVEY}");
            return Err(Failure::environment(failure).into());
        }
        if facts.probes && !rules.serves_probes {
            let _ = line.stream.write_all(&wire::refusal(NO_PROBES));
            return Err(
                Failure::environment(format!("the client ({peer}) probes: {NO_PROBES}")).into()
            );
        }
        let device = facts.device.unwrap_or(rules.device);
        let answer = match &facts {
            facts if facts.surveys => format!("{greeting} {SURVEY}"),
            facts if facts.checks => format!("{greeting} {CHECK}"),
            facts if facts.probes => format!("{greeting} {PROBE}"),
            _ => queue_announcement(&greeting, &rules.machine, device),
        };
        self.say(line, &answer)?;
        self.greeted = Some(Box::new((version.to_owned(), facts)));
        Ok(())
    }

    /// Returns whether the client has begun to send what follows its version. The bytes stay in the
    /// socket, for its process.
    fn has_answered(&mut self, line: &Line) -> Result<bool, Refusal> {
        match line.stream.peek(&mut [0]) {
            Ok(0) => Err(self.refusal(line, CLOSED)),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.refusal(line, &cause(&error))),
        }
    }

    /// Returns the client, which has answered.
    fn arrive(mut self, line: Line) -> Progress<Self> {
        let (Some(tool), Some(greeted)) = (self.tool, self.greeted.take()) else {
            return Progress::Waits(self, line);
        };
        let (version, facts) = *greeted;
        Progress::Over(Arrival::Client(Newcomer {
            stream: line.stream,
            peer: line.peer,
            tool,
            version,
            device: facts.device,
            surveys: facts.surveys,
            checks: facts.checks,
            is_cxidiag: facts.is_cxidiag,
        }))
    }

    fn say(&mut self, line: &mut Line, text: &str) -> Result<(), Refusal> {
        self.send(line, &wire::string(text))
    }
}

/// Refuses a connection from an address that `--allow` does not list. The connection need not have
/// sent anything: a client of cxidiag reads the reason in place of the server's name.
fn exclude(line: &mut Line) -> Refusal {
    let reason = format!("--allow of the server does not list {}", line.peer.ip());
    // A client that has ended does not need the reply.
    let _ = line.stream.write_all(&wire::refusal(&reason));
    Refusal::Unrelated("--allow does not list its address".into())
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
