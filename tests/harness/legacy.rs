//! Legacy tools at the other end of the control connection: a thread that replays their messages,
//! and `tests/legacy/peer.py`, which also uses the NIC.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{LazyLock, Mutex};
use std::thread::{self, JoinHandle};

use plan::run_options::Side;

use super::{Command, Fabric, LIBCXI, Server, assert_success, finish, relay};

/// Our names of the tools, their legacy names and their versions (wire.md 4.1).
const TOOLS: [(&str, &str, &str); 8] = [
    ("write-lat", "cxi_write_lat", "2.4.0"),
    ("read-lat", "cxi_read_lat", "2.4.0"),
    ("send-lat", "cxi_send_lat", "2.3.0"),
    ("atomic-lat", "cxi_atomic_lat", "2.4.0"),
    ("write-bw", "cxi_write_bw", "2.4.0"),
    ("read-bw", "cxi_read_bw", "2.4.0"),
    ("send-bw", "cxi_send_bw", "2.4.0"),
    ("atomic-bw", "cxi_atomic_bw", "2.4.0"),
];

/// Fields of the option block: name, first byte and length (wire.md 4.2).
const FIELDS: [(&str, usize, usize); 24] = [
    ("clock", 0, 4),
    ("ignore_mismatch", 4, 1),
    ("iters", 5, 8),
    ("warmup", 13, 8),
    ("gap", 21, 8),
    ("duration", 29, 4),
    ("list", 33, 2),
    ("flags", 35, 1),
    ("reserved", 36, 1),
    ("min", 37, 8),
    ("max", 45, 8),
    ("max_buf", 53, 8),
    ("align", 69, 8),
    ("use", 77, 1),
    ("op", 78, 1),
    ("cswap", 79, 1),
    ("type", 80, 1),
    ("service", 81, 4),
    ("device", 85, 4),
    ("port", 89, 2),
    ("gpu_type", 91, 1),
    ("padding", 92, 5),
    ("gpus", 97, 8),
    ("server", 105, 8),
];

/// The option block that a legacy tool sends without options (wire.md 4.6), with other values in
/// these fields: `min=1 max=0x200`.
pub fn block(tool: &str, fields: &str) -> Vec<u8> {
    let common = "service=1 port=49194";
    let latency = "iters=100 warmup=10 gap=1000";
    let bandwidth = "iters=1000 list=256 min=65536 max=65536 max_buf=4294967296 align=64";
    let defaults = match tool {
        "write-lat" | "send-lat" => format!("{latency} min=8 max=8 use=0x06 gpu_type=0xff"),
        "read-lat" => format!("{latency} min=8 max=8 use=0x04 gpu_type=0xff"),
        // No legacy tool: what cxidiag sends.
        "trig-lat" => format!("{latency} min=8 max=8 use=0x44 gpu_type=0xff"),
        "atomic-lat" => format!("{latency} use=0x06 op=2 type=7"),
        "write-bw" => format!("{bandwidth} use=0x03 gpu_type=0xff"),
        "read-bw" => format!("{bandwidth} gpu_type=0xff"),
        "send-bw" => format!("{bandwidth} use=0x02 gpu_type=0xff"),
        "atomic-bw" => "iters=10000 list=4096 use=0x03 op=2 type=7".to_owned(),
        _ => panic!("{tool}"),
    };
    let mut block = vec![0; 129];
    for field in format!("{common} {defaults} {fields}").split_whitespace() {
        let (name, value) = field.split_once('=').expect("a value");
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let value = value.expect("a number").to_le_bytes();
        let (_, at, length) = FIELDS.iter().find(|(field, ..)| *field == name).expect(name);
        block[*at..at + length].copy_from_slice(&value[..*length]);
    }
    block
}

/// The legacy name and the version of a tool.
pub fn legacy(tool: &str) -> (&'static str, &'static str) {
    let (_, name, version) = TOOLS.iter().find(|(name, ..)| *name == tool).expect("a tool");
    (name, version)
}

/// A legacy tool that replays its messages up to the ready barrier, whatever it receives.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub tool: &'a str,
    /// Fields of its option block.
    pub fields: &'a str,
    /// What it does instead at a message: `version=close`.
    pub deviation: &'a str,
    /// Before SHS 13.0 the server sent first (wire.md 9.1).
    pub server_sends_first: bool,
}

const MESSAGES: [&str; 5] = ["name", "version", "options", "address", "ready"];

impl<'a> Peer<'a> {
    pub fn of(tool: &'a str) -> Self {
        let (name, version) = legacy(tool);
        Self { name, version, tool, fields: "", deviation: "", server_sends_first: false }
    }

    pub fn deviating(tool: &'a str, deviation: &'a str) -> Self {
        Self { deviation, ..Self::of(tool) }
    }

    /// Plays the peer on a connection, and returns what it received.
    fn play(&self, stream: &mut TcpStream, is_client: bool, port: u16) -> Vec<Vec<u8>> {
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        let own = [
            text(self.name),
            text(self.version),
            block(self.tool, &format!("device=1 port={port} {}", self.fields)),
            vec![0x13, 0, 0, 0, 0, 0, 0, 0],
            Vec::new(),
        ];
        let sends_first = is_client != self.server_sends_first;
        let mut received = Vec::new();
        for (name, message) in MESSAGES.iter().zip(own) {
            let deviation = self.deviation.strip_prefix(name);
            let deviation = deviation.map_or("", |deviation| &deviation[1..]);
            if deviation == "skip" {
                continue;
            }
            if sends_first && !send(stream, &message, deviation) {
                break;
            }
            match receive(stream) {
                Some(message) => received.push(message),
                None => break,
            }
            if !sends_first && !send(stream, &message, deviation) {
                break;
            }
        }
        received
    }
}

/// Sends a message, or what deviates from it. Returns false if the connection ends with that.
fn send(stream: &mut TcpStream, payload: &[u8], deviation: &str) -> bool {
    let header = |length: usize| (length as u32).to_le_bytes().to_vec();
    let length = payload.len();
    let own = vec![header(length), payload.to_vec()];
    // Like the legacy tools, which send header and payload in two pieces (wire.md 2).
    let pieces = match deviation {
        "" => own,
        "twice" => [own.clone(), own].concat(),
        "longer" => vec![header(length + 1), [payload, b"\0"].concat()],
        "shorter" => vec![header(length - 1), payload[1..].to_vec()],
        "empty" => vec![header(0)],
        "huge" => vec![header(4_294_967_040), payload.to_vec()],
        "cut" | "stall" => vec![own.concat()[..(4 + length) / 2].to_vec()],
        "close" | "reset" | "silence" => Vec::new(),
        _ => panic!("{deviation}"),
    };
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        if stream.write_all(piece).is_err() {
            return false;
        }
    }
    match deviation {
        "close" | "cut" => false,
        "reset" => {
            relay::reset(stream).expect("a socket");
            false
        }
        "silence" | "stall" => {
            while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
            false
        }
        _ => true,
    }
}

/// The length that no message has: a client sends it every two seconds
/// (docs/control-connection.md).
const TICK: u32 = u32::MAX - 2;

/// Receives a message, or `None` at the end of the connection. Fails on a part of one: the legacy
/// tools take what one recv() returns (wire.md 2).
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut whole = |length: usize| {
        let mut bytes = vec![0; length];
        // Reading no bytes waits for some.
        if length > 0 {
            let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
            assert_eq!(count, length, "part of a message");
        }
        Some(bytes)
    };
    loop {
        let header = whole(4)?;
        let length = u32::from_le_bytes(header.try_into().expect("4 bytes"));
        if length != TICK {
            return whole(length as usize);
        }
    }
}

/// A run of cxidiag against a replayed peer.
pub struct Replayed {
    pub cxidiag: Output,
    /// The messages that cxidiag sent.
    pub received: Vec<Vec<u8>>,
    pub port: u16,
}

/// A run of cxidiag against `tests/legacy/peer.py` or against itself.
pub struct Run {
    pub cxidiag: Output,
    pub peer: Output,
    /// The messages that cxidiag sent.
    pub received: Vec<Vec<u8>>,
}

/// Runs a replayed client against `server`, and then what the server needs to end.
pub fn replay_client(server: Server, peer: Peer, then: impl Fn(&Server)) -> Replayed {
    let port = server.port.parse().expect("a port");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    let received = peer.play(&mut stream, true, port);
    drop(stream);
    then(&server);
    Replayed { cxidiag: server.finish(), received, port }
}

/// Ends the wait for a client that has ended without connecting.
fn stop_accepting(port: u16) {
    drop(TcpStream::connect(("127.0.0.1", port)));
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

impl Fabric {
    fn client_of_port(&self, tool: &str, port: u16, options: &str) -> Output {
        self.run(&format!("{tool} 127.0.0.1 -p {port} -d soft1 {options}"))
    }

    /// Runs a client of cxidiag against a replayed server.
    pub fn replay_server(&self, tool: &str, options: &str, peer: Peer) -> Replayed {
        let (listener, port) = listen();
        thread::scope(|scope| {
            let playing = scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                peer.play(&mut stream, false, port)
            });
            let cxidiag = self.client_of_port(tool, port, options);
            stop_accepting(port);
            let received = playing.join().expect("messages");
            Replayed { cxidiag, received, port }
        })
    }

    /// Runs a replayed client against a server of cxidiag.
    pub fn replay_client(&self, tool: &str, peer: Peer) -> Replayed {
        replay_client(self.server(tool, "-d soft0"), peer, |_| ())
    }

    /// Runs a replayed client that is refused: the server goes on to serve a client of cxidiag.
    pub fn replay_refused_client(&self, tool: &str, peer: Peer) -> Replayed {
        replay_client(self.server(tool, "-d soft0"), peer, |server| {
            assert_success(&self.client(tool, server, "-d soft1 -n 1"));
        })
    }

    /// Starts `tests/legacy/peer.py`, as a client of a port if there is one.
    fn python(&self, tool: &str, device: u8, fields: &str, port: Option<u16>) -> Command {
        let (name, version) = legacy(tool);
        let block = block(tool, fields);
        let block: String = block.iter().map(|byte| format!("{byte:02x}")).collect();
        let port = port.map(|port| port.to_string()).unwrap_or_default();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/legacy/peer.py");
        let args =
            format!("-BS {script} {name} {version} {} {device} {block} {port}", LIBCXI.display());
        self.command_of(Path::new("python3"), &args)
    }

    /// A client of the legacy tool on soft1 against the server at `port`, not started.
    pub fn legacy_client(&self, tool: &str, port: &str) -> Command {
        self.python(tool, 1, "", Some(port.parse().expect("a port")))
    }

    /// Starts a server of the legacy tool on soft0.
    pub fn legacy_server(&self, tool: &str) -> Server {
        Server::start(self.python(tool, 0, "", None))
    }

    /// Runs one side of cxidiag against the other side of the legacy tool. The client has the
    /// options: typed, or as fields of its option block. The peer deviates at one of its messages.
    pub fn against_legacy(
        &self,
        side: Side,
        tool: &str,
        (options, fields): (&str, &str),
        deviation: Deviation,
    ) -> Run {
        match side {
            Side::Client => self.against_server(tool, options, deviation),
            Side::Server => self.against_client(tool, fields, deviation),
        }
    }

    /// Runs a client of cxidiag against a legacy server, with a deviation at one of its messages.
    pub fn against_server(&self, tool: &str, options: &str, deviation: Deviation) -> Run {
        let server = self.legacy_server(tool);
        let (port, messages) = carry_messages(&server.port, false, deviation);
        let cxidiag = self.client_of_port(tool, port, options);
        stop_accepting(port);
        Run { cxidiag, peer: server.finish(), received: messages.join().expect("messages") }
    }

    /// Runs a client of cxidiag, whose messages are returned, against a server of cxidiag.
    pub fn against_itself(&self, tool: &str, options: &str) -> Run {
        let server = self.server(tool, "-d soft0");
        let (port, messages) = carry_messages(&server.port, false, None);
        let cxidiag = self.client_of_port(tool, port, options);
        stop_accepting(port);
        Run { cxidiag, peer: server.finish(), received: messages.join().expect("messages") }
    }

    /// Runs a legacy client with these fields of its option block against a server of cxidiag.
    pub fn against_client(&self, tool: &str, fields: &str, deviation: Deviation) -> Run {
        // Built while nothing waits for it.
        LazyLock::force(&LIBCXI);
        let server = self.server(tool, "-d soft0");
        let (port, messages) = carry_messages(&server.port, true, deviation);
        let peer = finish(self.python(tool, 1, fields, Some(port)));
        stop_accepting(port);
        Run { cxidiag: server.finish(), peer, received: messages.join().expect("messages") }
    }
}

/// What a legacy peer does instead of sending one of its messages, which are counted from 0.
pub type Deviation<'a> = Option<(usize, &'a str)>;

/// Carries the messages of one connection to `server`, and deviates at one message of the legacy
/// peer. Returns the port to connect to, and the messages that cxidiag sends.
fn carry_messages(
    server: &str,
    peer_is_client: bool,
    deviation: Deviation,
) -> (u16, JoinHandle<Vec<Vec<u8>>>) {
    let (listener, port) = listen();
    let server = format!("127.0.0.1:{server}");
    let deviation = deviation.map(|(at, what)| (at, what.to_owned()));
    let carrying = thread::spawn(move || {
        let (client, _) = listener.accept().expect("a client");
        let server = TcpStream::connect(server).expect("a server");
        // Otherwise the second piece of each message waits 40 ms for the receipt of the first.
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a socket");
        }
        let (peer, cxidiag) = if peer_is_client { (client, server) } else { (server, client) };
        let deviating = carry(&peer, &cxidiag, deviation);
        let carried = carry(&cxidiag, &peer, None);
        deviating.join().expect("messages");
        carried.join().expect("messages")
    });
    (port, carrying)
}

fn carry(
    from: &TcpStream,
    to: &TcpStream,
    deviation: Option<(usize, String)>,
) -> JoinHandle<Vec<Vec<u8>>> {
    let [mut from, mut to] = [from, to].map(|stream| stream.try_clone().expect("a descriptor"));
    thread::spawn(move || {
        let mut messages = Vec::new();
        while let Some(message) = receive(&mut from) {
            let deviation = deviation.as_ref().filter(|(at, _)| *at == messages.len());
            let goes_on = send(&mut to, &message, deviation.map_or("", |(_, what)| what));
            messages.push(message);
            if !goes_on {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
        messages
    })
}

/// Cases that [`all`] runs at the same time: their processes share the machine, and each must
/// answer within the time limits of the legacy tools.
const AT_ONCE: usize = 16;

/// Runs each case in a thread and on a fabric of its own: most of their time is spent waiting.
/// Cases that wait for a time limit come first, so that they do not prolong the whole.
pub fn all<T: Sync>(cases: &[T], run: impl Fn(&Fabric, &T) + Sync) {
    let remaining = Mutex::new(cases.iter());
    let next = || remaining.lock().expect("no panic here").next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let fabric = Fabric::new();
                    run(&fabric, case);
                    fabric.assert_nothing_left();
                }
            });
        }
    });
}
