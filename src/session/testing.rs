//! Helpers for the tests of the session.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::server::LISTENING;
use super::terms::{self, LocalHost};
use super::wire::OPTIONS_SIZE;
use super::{Agreed, Server, Session, join};
use facts::device::FabricAddress;
use facts::error::Failure;
use facts::net::{Reach, message};
use node::gpu::OnGpus;
use node::local_address::LocalAddress;
use node::traffic_class::TrafficClass;
use plan::command_line::Request;
use plan::tool::Tool;
use plan::tools::TOOLS;
use plan::{Plan, command_line};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// The tool of these tests.
pub fn tool() -> &'static Tool {
    TOOLS.iter().find(|tool| tool.name == "write-lat").unwrap()
}

/// The plan for these arguments.
pub fn plan(arguments: &[&str]) -> Plan {
    let Ok(Request::Run(typed)) =
        command_line::parse(tool(), arguments.iter().map(OsString::from).collect())
    else {
        panic!("{arguments:?}");
    };
    Plan::new(tool(), "cxidiag write-lat".into(), *typed, None).unwrap()
}

/// Bytes from hexadecimal digits; blanks and line ends do not count.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

pub const HOST: &str = "127.0.0.1";
pub const SERVER: LocalAddress = LocalAddress {
    address: FabricAddress { nic: 0x12, pid: 0 },
    svc_id: 1,
    vni: 10,
    has_vni_of_range: false,
    class: TrafficClass::BestEffort,
    simulated: true,
    gpus: OnGpus::NONE,
};
pub const CLIENT: LocalAddress = LocalAddress {
    address: FabricAddress { nic: 0x13, pid: 1 },
    svc_id: 1,
    vni: 10,
    has_vni_of_range: false,
    class: TrafficClass::BestEffort,
    simulated: true,
    gpus: OnGpus::NONE,
};

/// A limit that no barrier of these tests reaches.
pub const LONG: Duration = Duration::from_secs(60);

/// Standard output of a server: sends the port to the test when the line is flushed.
pub struct Output {
    pub text: Vec<u8>,
    pub port: mpsc::Sender<u16>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.text);
        let port = text
            .strip_prefix(LISTENING)
            .and_then(|rest| rest.strip_suffix(" for client to connect...\n"));
        let _ = self.port.send(port.unwrap().parse().unwrap());
        Ok(())
    }
}

/// How a side met its peer.
pub type Met = Result<(Session, Agreed), Failure>;

/// Joins the server at `port`.
pub fn client(port: u16, arguments: &[&str], own: LocalAddress) -> Met {
    let port = format!("--port={port}");
    join(&plan(&[&[HOST, &port], arguments].concat()), HOST, own)
}

/// A peer that follows the script of a test, on either side.
pub struct Script(pub TcpStream);

impl Script {
    /// Connects as the client of the server at `port`.
    pub fn client(port: u16) -> Self {
        Self(TcpStream::connect((HOST, port)).unwrap())
    }

    /// Connects from another address of this machine.
    pub fn client_at(own: Ipv4Addr, port: u16) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((own, 0))).unwrap();
        connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        Self(socket.into())
    }

    pub fn send(&mut self, payload: &[u8]) {
        self.0.write_all(&message(payload)).unwrap();
    }

    pub fn receive(&mut self) -> Vec<u8> {
        let mut header = [0; 4];
        self.0.read_exact(&mut header).unwrap();
        let mut payload = vec![0; u32::from_le_bytes(header) as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }

    /// Waits until the other side has closed the connection.
    pub fn ended(&mut self) {
        assert!(matches!(self.0.read(&mut [0]), Ok(0) | Err(_)));
    }

    /// Makes a client's half of an exchange.
    pub fn lead(&mut self, payload: &[u8]) -> Vec<u8> {
        self.send(payload);
        self.receive()
    }

    /// Makes a server's half of an exchange.
    pub fn follow(&mut self, payload: &[u8]) -> Vec<u8> {
        let received = self.receive();
        self.send(payload);
        received
    }
}

/// The option block of a client without options.
pub fn default_options() -> [u8; OPTIONS_SIZE] {
    let plan = plan(&[HOST]);
    let host = LocalHost { svc_id: 1, device: plan.device.index, port: 49194, gpus: OnGpus::NONE };
    terms::to_block(&plan.run, &host).encode()
}

/// A server in a thread, and its port. The thread returns the log of refusals as well.
pub fn noting_server(
    arguments: &'static [&str],
    own: LocalAddress,
) -> (JoinHandle<(Met, String)>, u16) {
    let (port, listening) = mpsc::channel();
    let server = thread::spawn(move || {
        let plan = plan(&[&["--port=0"], arguments].concat());
        let mut out = Output { text: Vec::new(), port };
        let mut notes = Vec::new();
        let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
        server.announce(&mut out).unwrap();
        let met = server.find_client(&plan, own, &mut notes);
        (met, String::from_utf8(notes).unwrap())
    });
    (server, listening.recv_timeout(LONG).unwrap())
}

pub fn server(arguments: &'static [&str], own: LocalAddress) -> (JoinHandle<Met>, u16) {
    let (server, port) = noting_server(arguments, own);
    (thread::spawn(move || server.join().unwrap().0), port)
}

/// Both sides of a session.
pub fn pair() -> (Session, Session) {
    let (server, port) = server(&[], SERVER);
    let client = client(port, &[], CLIENT).unwrap();
    (server.join().unwrap().unwrap().0, client.0)
}

/// Runs a cxidiag client against a server that follows `script`.
pub fn against_server(script: impl FnOnce(Script) + Send + 'static) -> Met {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let scripted = thread::spawn(move || script(Script(listener.accept().unwrap().0)));
    let met = client(port, &[], CLIENT);
    scripted.join().unwrap();
    met
}

/// Runs a cxidiag server against a client that follows `script`.
pub fn against_client(script: impl FnOnce(Script)) -> Met {
    let (server, port) = server(&[], SERVER);
    script(Script::client(port));
    server.join().unwrap()
}

/// The log of a cxidiag server about a client that follows `script`; the server then serves the
/// next client.
pub fn noted(script: impl FnOnce(Script)) -> String {
    let (server, port) = noting_server(&[], SERVER);
    script(Script::client(port));
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert_eq!(notes.lines().count(), 1, "{notes}");
    assert!(notes.contains(HOST), "{notes}");
    notes
}
