//! The clients of a server of all tools (`cxidiag serve`): what each sends in its handshake, or
//! asks for, and the answers to all but the last message. The process that measures with a client
//! ([`super::AcceptedClient`]) gives the last answer. It is started when the whole handshake has
//! arrived, so that an unfinished one costs no process.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use ipnet::IpNet;

use super::admission::Credentials;
use super::connection;
use super::handshake::{self, Refusal};
use super::peer_facts::{
    PROBE, PeerFacts, RequestedCommand, greeting, machine, queue_announcement,
};
use super::reception::{Dialogue, DialogueState, HandshakeLine, Reception, RefusalLog};
use super::requests::STATUS;
use super::terms::{self, LocalHost};
use super::wire::{self, BUSY, OPTIONS_SIZE};
use facts::advice::{Advise, Situation};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::net::Listener;
use node::gpu::OnGpus;
use plan::Plan;
use plan::run_options::Side;
use plan::tool::Tool;

/// Why a server without token and allowed networks takes no part in the survey of another host.
const FOREIGN_SURVEY: &str = "surveys of other hosts need --allow=NETWORKS, --token or \
                              --allow-survey at 'cxidiag serve'";

/// Why a server without token and allowed networks does not tell other hosts what processes do.
const FOREIGN_JOB: &str =
    "jobs are read for other hosts with --allow=NETWORKS or --token at 'cxidiag serve'";

/// Why a server takes no part in probes.
const NO_PROBES: &str = "'cxidiag serve' takes no part in probes: it runs without --probe=HOSTS";

/// Time until the next attempt to accept a connection if the process has no resources for it.
const AGAIN: Duration = Duration::from_millis(100);

/// Longest request of a client that sends one, in bytes.
const MOST_REQUEST: usize = 16 << 10;

/// Number of messages of a client after its version: options and address.
const OF_A_CLIENT: usize = 2;

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
    /// The service and the port in the options of this side, which clients skip.
    svc_id: u32,
    port: u16,
    /// Identifies this machine.
    machine: String,
    /// Tokens or addresses say who the clients on other hosts are.
    is_restricted: bool,
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
            is_restricted,
            allowed,
            credentials: Credentials::new(Side::Server, &plan.admission),
            device: plan.device,
            svc_id: plan.service_options.svc_id.unwrap_or(1),
            port: plan.port,
            machine: machine(),
            serves_probes: false,
        }
    }

    /// The rules of a server that takes part in probes.
    pub fn with_probes(self, serves_probes: bool) -> Self {
        Self { serves_probes, ..self }
    }

    /// The options of this side for a client of `tool`, of which clients read what they say about
    /// GPUs.
    fn options(&self, tool: &Tool, asked: Option<DeviceName>) -> [u8; OPTIONS_SIZE] {
        let device = asked.unwrap_or(self.device).index;
        let host = LocalHost { svc_id: self.svc_id, device, port: self.port, gpus: OnGpus::NONE };
        terms::to_block(&tool.defaults, &host).encode()
    }

    /// Why a client on another host does not get a process of this command.
    fn refusal(&self, command: RequestedCommand) -> Option<&'static str> {
        match command {
            RequestedCommand::Survey if !self.serves_surveys => Some(FOREIGN_SURVEY),
            RequestedCommand::Why if !self.is_restricted => Some(FOREIGN_JOB),
            _ => None,
        }
    }

    fn allow(&self, peer: IpAddr) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|network| network.contains(&peer))
    }
}

/// A connection that asks the server for something.
#[derive(Debug)]
pub enum Arrival {
    /// A client.
    Client(Newcomer),
    /// A process of this machine that asks for the state of the server.
    Status(TcpStream),
    /// A process that probes this node: it waits for the state of the NICs.
    Watcher(SocketAddr, TcpStream),
}

/// A client that has sent its whole handshake, or what it asks for.
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
    /// The messages that it has sent after it: options and address, or its request.
    pub messages: Vec<Vec<u8>>,
    /// The NIC of the server that it asks for.
    pub device: Option<DeviceName>,
    /// The command whose process it asks for.
    pub requested: Option<RequestedCommand>,
    is_cxidiag: bool,
}

impl Newcomer {
    /// Its activity, for the log: the command that it asks for, or its tool.
    pub fn doing(&self) -> &'static str {
        self.requested.map_or(self.tool.name, RequestedCommand::word)
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

/// The dialogue with one connection.
struct Greeting<'a> {
    rules: &'a Rules,
    /// Its address is one of the clients'.
    is_allowed: bool,
    /// The tool that it has named.
    tool: Option<&'static Tool>,
    /// Its version, once this side has answered it, and what it announces.
    greeted: Option<Box<(String, PeerFacts)>>,
    /// The proof of this server, until the client has answered it.
    unanswered: Option<String>,
    /// The messages that it has sent after its version.
    messages: Vec<Vec<u8>>,
}

impl Dialogue for Greeting<'_> {
    type End = Arrival;

    fn is_named(&self) -> bool {
        self.tool.is_some()
    }

    fn answer(mut self, mut line: HandshakeLine) -> Result<DialogueState<Self>, Refusal> {
        while let Some(payload) = self.receive(&mut line)? {
            match (self.tool, &self.greeted) {
                (None, _) if is_status(&payload) && is_of_this_machine(&line.stream) => {
                    return Ok(DialogueState::Over(Arrival::Status(line.stream)));
                }
                (None, _) => self.accept_name(&mut line, &payload)?,
                (Some(tool), None) => self.greet(&mut line, tool, &payload)?,
                (Some(tool), Some(greeted)) if self.unanswered.is_none() => {
                    let facts = &greeted.1;
                    let options = self.rules.options(tool, facts.device);
                    self.messages.push(payload);
                    if facts.requested().is_some() || self.messages.len() == OF_A_CLIENT {
                        return Ok(self.arrive(line));
                    }
                    self.send(&mut line, &options)?;
                }
                (Some(_), Some(_)) => {
                    let proof = self.unanswered.take().unwrap_or_default();
                    self.rules.credentials.check(&payload, &proof, line.peer)?;
                    self.send(&mut line, &[])?;
                }
            }
            let has_greeted_prober =
                self.greeted.as_ref().is_some_and(|greeted| greeted.1.has(PROBE));
            if has_greeted_prober && self.unanswered.is_none() {
                return Ok(DialogueState::Over(Arrival::Watcher(line.peer, line.stream)));
            }
        }
        Ok(DialogueState::Waits(self, line))
    }

    fn prompt(&mut self, line: &mut HandshakeLine) -> Result<(), Refusal> {
        self.say(line, self.rules.tools[0].legacy_name)
    }

    fn failure(&mut self, line: &HandshakeLine, reason: &str) -> Failure {
        let peer = line.peer;
        Failure::environment(format!("the client ({peer}) failed during the handshake: {reason}"))
    }
}

impl<'a> Greeting<'a> {
    /// Begins with a new connection. A process of this machine may ask for the state, whatever its
    /// address.
    fn begin(line: &mut HandshakeLine, rules: &'a Rules) -> Result<Self, Refusal> {
        let is_allowed = rules.allow(line.peer.ip());
        if !is_allowed && !is_of_this_machine(&line.stream) {
            return Err(exclude(line));
        }
        let messages = Vec::new();
        Ok(Self { rules, is_allowed, tool: None, greeted: None, unanswered: None, messages })
    }

    /// Takes the name of the client's tool, and sends it back as the name of this server.
    fn accept_name(&mut self, line: &mut HandshakeLine, payload: &[u8]) -> Result<(), Refusal> {
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
        line: &mut HandshakeLine,
        tool: &'static Tool,
        payload: &[u8],
    ) -> Result<(), Refusal> {
        let (rules, peer) = (self.rules, line.peer);
        let version = wire::parse_string(payload).unwrap_or_default();
        let facts = PeerFacts::read(version);
        let proof = rules.credentials.proof(Some(&facts.announced));
        let greeting = greeting(tool, &rules.credentials, proof.as_deref());
        let checked = handshake::check_version(tool, version, peer)
            .and_then(|()| rules.credentials.admit(&facts.announced, peer));
        if let Err(failure) = checked {
            // A client that has ended does not need the reply.
            let _ = self.say(line, &greeting);
            return Err(failure.into());
        }
        let requested = facts.requested();
        let word = requested.map(RequestedCommand::word);
        let word = word.or(facts.has(PROBE).then_some(PROBE));
        let refusal = match requested {
            None => Some(NO_PROBES).filter(|_| word.is_some() && !rules.serves_probes),
            Some(command) => rules.refusal(command).filter(|_| !is_of_this_machine(&line.stream)),
        };
        if let (Some(word), Some(why)) = (word, refusal) {
            let _ = line.stream.write_all(&wire::refusal(why));
            let failure = format!("the client ({peer}) asks for '{word}': {why}");
            return Err(Failure::environment(failure).into());
        }
        let device = facts.device.unwrap_or(rules.device);
        let answer = match word {
            Some(word) => format!("{greeting} {word}"),
            None => queue_announcement(&greeting, &rules.machine, device),
        };
        self.say(line, &answer)?;
        if requested.is_some() {
            line.allow(MOST_REQUEST);
        }
        self.unanswered = proof.filter(|_| facts.announced.answers());
        self.greeted = Some(Box::new((version.to_owned(), facts)));
        Ok(())
    }

    /// The client, which has sent everything.
    fn arrive(mut self, line: HandshakeLine) -> DialogueState<Self> {
        let (Some(tool), Some(greeted)) = (self.tool, self.greeted.take()) else {
            return DialogueState::Waits(self, line);
        };
        let (version, facts) = *greeted;
        DialogueState::Over(Arrival::Client(Newcomer {
            stream: line.stream,
            peer: line.peer,
            tool,
            version,
            messages: self.messages,
            device: facts.device,
            requested: facts.requested(),
            is_cxidiag: facts.is_cxidiag,
        }))
    }

    fn say(&mut self, line: &mut HandshakeLine, text: &str) -> Result<(), Refusal> {
        self.send(line, &wire::string(text))
    }
}

/// Refuses a connection from an address that `--allow` does not list. The connection need not have
/// sent anything: a client of cxidiag reads the reason in place of the server's name.
fn exclude(line: &mut HandshakeLine) -> Refusal {
    let reason = format!("--allow of the server does not list {}", line.peer.ip());
    // A client that has ended does not need the reply.
    let _ = line.stream.write_all(&wire::refusal(&reason));
    Refusal::Unrelated("--allow does not list its address".into())
}

fn is_status(payload: &[u8]) -> bool {
    wire::parse_string(payload) == Some(STATUS)
}

/// Whether the peer of a connection is on this machine.
fn is_of_this_machine(stream: &TcpStream) -> bool {
    let ends = || Ok::<_, io::Error>((stream.peer_addr()?.ip(), stream.local_addr()?.ip()));
    ends().is_ok_and(|(peer, own)| is_own(peer, own))
}

/// Whether a `peer` that has connected to the address `own` is on this machine.
fn is_own(peer: IpAddr, own: IpAddr) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback() || peer == own.to_canonical()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Ipv4Addr;
    use std::sync::mpsc;

    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

    use super::super::testing::{CLIENT, LONG, Script, default_options, plan};
    use super::*;
    use facts::net::Reach;
    use plan::tools::peer_tools;

    const NAME: &str = "cxi_write_lat";
    const LEGACY: &str = "2.4.0";
    const SURVEYS: &str = "2.4.0 cxidiag/9 survey asks";

    /// Starts a server, and returns its port and what arrives.
    fn server(arguments: &'static [&str]) -> (u16, mpsc::Receiver<Arrival>) {
        let listener = Listener::bind(None, 0, Reach::ThisMachine).unwrap();
        let port = listener.port();
        let (send, arrivals) = mpsc::channel();
        // The thread ends with the process.
        thread::spawn(move || {
            let rules = Rules::new(peer_tools(), Vec::new(), true, &plan(arguments));
            let rules = rules.with_probes(true);
            let mut lines = Vec::new();
            let refusals = RefusalLog::new("", &mut lines);
            let receive = |arrival| drop(send.send(arrival));
            receive_all(&listener, &rules, refusals, receive).map_err(|failure| failure.message())
        });
        (port, arrivals)
    }

    fn next(arrivals: &mpsc::Receiver<Arrival>) -> Newcomer {
        match arrivals.recv_timeout(LONG).unwrap() {
            Arrival::Client(newcomer) => newcomer,
            other => panic!("{other:?}"),
        }
    }

    /// A connection of this address to the server.
    fn connection(number: u16, port: u16) -> Script {
        let [high, low] = number.to_be_bytes();
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 1, high, low], 0))).unwrap();
        connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LONG)).unwrap();
        Script(stream)
    }

    fn greeting_client(number: u16, port: u16, version: &str) -> Script {
        let mut client = connection(number, port);
        client.lead(&wire::string(NAME));
        client.lead(&wire::string(version));
        client
    }

    /// Sends options and address as a client that the server does not turn away.
    fn finish(mut client: Script) {
        client.lead(&default_options());
        client.send(&wire::encode_address(CLIENT.address));
    }

    /// An unfinished handshake is no arrival, and keeps no later client out.
    #[test]
    fn only_whole_handshakes_and_requests_arrive() {
        let (port, arrivals) = server(&[]);
        let (options, address) = (default_options(), wire::encode_address(CLIENT.address));
        let options_message = [&129_u32.to_le_bytes()[..], &options].concat();
        let unfinished = [
            (LEGACY, options_message[..1].to_vec()),
            (LEGACY, options_message[..132].to_vec()),
            (LEGACY, options_message.clone()),
            (LEGACY, [&options_message[..], &[8, 0, 0, 0, 1]].concat()),
            (SURVEYS, (MOST_REQUEST as u32).to_le_bytes().to_vec()),
        ];
        let mut silent = Vec::new();
        for (number, (version, bytes)) in (1..=100).zip(unfinished.iter().cycle()) {
            let mut client = greeting_client(number, port, version);
            client.0.write_all(bytes).unwrap();
            silent.push(client);
        }
        let client = greeting_client(255, port, LEGACY);
        assert!(arrivals.try_recv().is_err());
        finish(client);
        let newcomer = next(&arrivals);
        assert_eq!(newcomer.peer.ip(), Ipv4Addr::new(127, 1, 0, 255));
        assert_eq!(newcomer.messages, [&options[..], &address]);
        let mut coordinator = greeting_client(254, port, SURVEYS);
        coordinator.send(&[7; MOST_REQUEST]);
        let newcomer = next(&arrivals);
        assert_eq!(newcomer.messages, [[7; MOST_REQUEST]]);
        assert_eq!(newcomer.requested, Some(RequestedCommand::Survey));
        assert!(arrivals.try_recv().is_err());
    }

    /// A client, a coordinator, clients of `check` and `why --hosts` and a prober answer this
    /// server's proof before they arrive. A copy of all that they have sent does not.
    #[test]
    fn copies_of_clients_do_not_arrive() {
        const TOKEN: &[&str] = &["--token=secret"];
        let (port, arrivals) = server(TOKEN);
        let admission = plan(&[&["127.0.0.1"], TOKEN].concat()).admission;
        let credentials = Credentials::new(Side::Client, &admission);
        for (number, word) in
            (1..).zip(["queue", "survey asks", "check asks", "why asks", "probe asks"])
        {
            let greeting = greeting(
                peer_tools().first().unwrap(),
                &credentials,
                credentials.proof(None).as_deref(),
            );
            let version = format!("{greeting} {word}");
            let mut client = connection(number, port);
            client.lead(&wire::string(peer_tools()[0].legacy_name));
            let server = client.lead(&wire::string(&version));
            let server = PeerFacts::read(wire::parse_string(&server).unwrap());
            let answer = wire::string(&credentials.answer(&server.announced).unwrap());
            assert_eq!(client.lead(&answer), [0; 0]);
            match word {
                "queue" => finish(client),
                "probe asks" => {}
                _ => client.send(b"{}"),
            }
            let _arrived = arrivals.recv_timeout(LONG).unwrap();
            for first in [&answer[..], b"{}", &default_options()] {
                let mut copy = connection(number, port);
                copy.lead(&wire::string(peer_tools()[0].legacy_name));
                copy.lead(&wire::string(&version));
                copy.send(first);
                copy.ended();
            }
            assert!(arrivals.try_recv().is_err(), "{word}");
        }
    }

    /// A connection that has just come keeps its place, although it has sent less than all others.
    #[test]
    fn oldest_of_many_connections_gives_way_and_learns_why() {
        let (port, arrivals) = server(&[]);
        let mut silent: Vec<_> =
            (1..=256).map(|number| greeting_client(number, port, LEGACY)).collect();
        let mut client = connection(300, port);
        silent.extend((301..310).map(|number| connection(number, port)));
        // When this one has its answer, the server has accepted all that came before.
        silent.push(greeting_client(310, port, LEGACY));
        client.lead(&wire::string(NAME));
        client.lead(&wire::string(LEGACY));
        finish(client);
        assert_eq!(next(&arrivals).peer.ip(), Ipv4Addr::new(127, 1, 1, 44));
        let mut sent = Vec::new();
        silent[0].0.read_to_end(&mut sent).unwrap();
        let reason = "busy: replaced by newer connections (at most 256 at a time)";
        assert_eq!(sent, wire::refusal(reason));
    }

    #[test]
    fn open_server_surveys_and_reads_jobs_for_its_machine_alone() {
        let refused = |allowed: &[&str], surveys, token: &[&str]| {
            let allowed = allowed.iter().map(|network| network.parse().unwrap()).collect();
            let rules = Rules::new(peer_tools(), allowed, surveys, &plan(token));
            RequestedCommand::ALL.map(|command| rules.refusal(command))
        };
        let (survey, job) = (Some(FOREIGN_SURVEY), Some(FOREIGN_JOB));
        assert_eq!(refused(&[], false, &[]), [survey, None, job]);
        assert_eq!(refused(&[], true, &[]), [None, None, job]);
        assert_eq!(refused(&["10.0.0.0/8"], false, &[]), [None; 3]);
        assert_eq!(refused(&[], false, &["--token=secret"]), [None; 3]);
        let wants_document = RequestedCommand::ALL.map(RequestedCommand::wants_document);
        assert_eq!(wants_document, [false, true, true]);
    }

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
