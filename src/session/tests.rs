//! Sessions over the loopback interface: two of ours, and ours against a scripted peer.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::option_block::{OPTIONS_SIZE, OptionBlock};
use super::terms::LocalHost;
use super::testing::{hex, plan};
use super::wire::{encode_address, message, string};
use super::*;

const HOST: &str = "127.0.0.1";
const SERVER: LocalAddress = LocalAddress {
    address: FabricAddress { nic: 0x12, pid: 0 },
    vni: 10,
    simulated: true,
    gpus: OnGpus::NONE,
};
const CLIENT: LocalAddress = LocalAddress {
    address: FabricAddress { nic: 0x13, pid: 1 },
    vni: 10,
    simulated: true,
    gpus: OnGpus::NONE,
};

/// A limit that no barrier of these tests reaches.
const LONG: Duration = Duration::from_secs(60);

/// Standard output of a server: tells the port as soon as it stands there, flushed.
struct Output {
    text: Vec<u8>,
    port: mpsc::Sender<u16>,
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

type Met = Result<(Session, Agreed), Failure>;

/// A server in a thread, and its port. At its end it tells what it has noted, too.
fn noting_server(
    arguments: &'static [&str],
    own: LocalAddress,
) -> (JoinHandle<(Met, String)>, u16) {
    let (port, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let plan = plan(&[&["--port=0"], arguments].concat());
        let mut out = Output {
            text: Vec::new(),
            port,
        };
        let mut notes = Vec::new();
        let server = Server::listen(&plan, Reach::ThisMachine, &mut out);
        let met = server.and_then(|server| server.find_client(&plan, own, &mut notes));
        (met, String::from_utf8(notes).unwrap())
    });
    (server, told.recv_timeout(ANSWER_LIMIT).unwrap())
}

fn server(arguments: &'static [&str], own: LocalAddress) -> (JoinHandle<Met>, u16) {
    let (server, port) = noting_server(arguments, own);
    (thread::spawn(move || server.join().unwrap().0), port)
}

fn client(port: u16, arguments: &[&str], own: LocalAddress) -> Met {
    let port = format!("--port={port}");
    join(&plan(&[&[HOST, &port], arguments].concat()), HOST, own)
}

/// Both sides of a session.
fn pair() -> (Session, Session) {
    let (server, port) = server(&[], SERVER);
    let client = client(port, &[], CLIENT).unwrap();
    (server.join().unwrap().unwrap().0, client.0)
}

/// A peer that does what a test says, on either end.
struct Script(TcpStream);

impl Script {
    /// Plays the client of the server at `port`.
    fn client(port: u16) -> Self {
        Self(TcpStream::connect((HOST, port)).unwrap())
    }

    fn say(&mut self, payload: &[u8]) {
        self.0.write_all(&message(payload)).unwrap();
    }

    fn hear(&mut self) -> Vec<u8> {
        let mut header = [0; 4];
        self.0.read_exact(&mut header).unwrap();
        let mut payload = vec![0; u32::from_le_bytes(header) as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }

    /// The other side has let go.
    fn ended(&mut self) {
        assert!(matches!(self.0.read(&mut [0]), Ok(0) | Err(_)));
    }

    /// The half of an exchange of a client.
    fn lead(&mut self, payload: &[u8]) -> Vec<u8> {
        self.say(payload);
        self.hear()
    }

    /// The half of an exchange of a server.
    fn follow(&mut self, payload: &[u8]) -> Vec<u8> {
        let heard = self.hear();
        self.say(payload);
        heard
    }
}

/// Our client against a server that does what `script` says.
fn against_server(script: impl FnOnce(Script) + Send + 'static) -> Met {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let scripted = thread::spawn(move || script(Script(listener.accept().unwrap().0)));
    let met = client(port, &[], CLIENT);
    scripted.join().unwrap();
    met
}

/// Our server against a client that does what `script` says.
fn against_client(script: impl FnOnce(Script)) -> Met {
    let (server, port) = server(&[], SERVER);
    script(Script::client(port));
    server.join().unwrap()
}

/// What our server notes about a client that does what `script` says, and that does not keep it
/// from serving the next one.
fn noted(script: impl FnOnce(Script)) -> String {
    let (server, port) = noting_server(&[], SERVER);
    script(Script::client(port));
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert_eq!(notes.lines().count(), 1, "{notes}");
    assert!(notes.contains(HOST), "{notes}");
    notes
}

fn default_options() -> [u8; OPTIONS_SIZE] {
    let plan = plan(&[HOST]);
    let host = LocalHost {
        svc_id: plan.svc_id,
        device: plan.device.index,
        port: 49194,
        gpus: OnGpus::NONE,
    };
    terms::to_block(&plan.run, &host).encode()
}

#[test]
fn two_sides_agree_on_the_options_of_the_client() {
    let (server, port) = server(&["-s", "1:64", "-n", "7"], SERVER);
    let (_, client) = client(port, &["-s", "4:16", "-n", "5", "--no-idc"], CLIENT).unwrap();
    let (_, server) = server.join().unwrap().unwrap();
    assert_eq!(server.run, client.run);
    assert!(server.is_cxidiag && client.is_cxidiag);
    assert_eq!(
        (server.run.iters, server.run.max_size, server.run.use_idc),
        (5, 16, false)
    );
    assert_eq!(server.peer, FabricAddress { nic: 0x13, pid: 1 });
    assert_eq!(client.peer, FabricAddress { nic: 0x12, pid: 0 });
}

#[test]
fn a_legacy_client_is_understood_in_single_bytes() {
    let met = against_client(|mut script| {
        let mut bytes = |hex_digits: &str| {
            for byte in hex(hex_digits) {
                script.0.write_all(&[byte]).unwrap();
            }
            script.hear()
        };
        assert_eq!(
            bytes("0e000000 6378695f77726974655f6c617400"),
            string("cxi_write_lat")
        );
        // A legacy peer reads two numbers and ignores what follows.
        assert!(bytes("06000000 322e342e3000").starts_with(b"2.4.0 cxidiag/"));
        let options = default_options();
        script.0.write_all(&message(&options)).unwrap();
        assert_eq!(script.hear().len(), OPTIONS_SIZE);
        script
            .0
            .write_all(&hex("08000000 1300000000000000"))
            .unwrap();
        assert_eq!(script.hear(), hex("1200000000000000"));
    });
    let (_, agreed) = met.unwrap();
    assert_eq!(agreed.peer, FabricAddress { nic: 0x13, pid: 0 });
    assert_eq!(agreed.run, plan(&[HOST]).run);
    assert!(!agreed.is_cxidiag);
}

#[test]
fn each_message_leaves_in_one_piece() {
    let met = against_server(|mut script| {
        for answer in [
            string("cxi_write_lat"),
            string("2.4.0"),
            default_options().to_vec(),
            vec![0; 8],
        ] {
            // Whoever sees the first byte sees the whole message.
            let mut bytes = [0; 1024];
            let seen = script.0.peek(&mut bytes).unwrap();
            assert_eq!(seen, message(&script.hear()).len());
            script.say(&answer);
        }
    });
    assert!(met.is_ok());
}

#[test]
fn different_tools_both_say_so() {
    let notes = noted(|mut script| {
        // The exchange is complete before it is judged.
        assert_eq!(
            script.lead(&string("cxi_read_lat")),
            string("cxi_write_lat")
        );
        script.ended();
    });
    assert!(
        notes.contains("cxi_write_lat here, cxi_read_lat at the peer"),
        "{notes}"
    );
    let failure =
        against_server(|mut script| drop(script.follow(&string("cxi_read_lat")))).unwrap_err();
    assert!(
        failure
            .message()
            .contains("cxi_write_lat here, cxi_read_lat at the peer"),
        "{failure}"
    );
}

#[test]
fn different_versions_are_both_shown() {
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.2.0"));
    })
    .unwrap_err();
    assert!(
        failure.message().contains("2.4.0 here, 2.2.0 at the peer"),
        "{failure}"
    );
    assert!(failure.hint.unwrap().contains("SHS 12.0"));
}

#[test]
fn t15_different_vnis_are_refused_on_both_sides() {
    let (server, port) = noting_server(&[], SERVER);
    let ours = client(port, &[], LocalAddress { vni: 11, ..CLIENT }).unwrap_err();
    assert!(ours.message().contains("11 here, 10 at the peer"), "{ours}");
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert!(notes.contains("10 here, 11 at the peer"), "{notes}");
}

/// What two NICs that cannot reach each other are told, on the side that hears of it.
fn apart(version: &'static str, address: FabricAddress) -> String {
    let failure = against_server(move |mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string(version));
        script.follow(&default_options());
        script.follow(&encode_address(address));
    })
    .unwrap_err();
    failure.message()
}

#[test]
fn nics_that_cannot_reach_each_other_are_refused() {
    let other = FabricAddress { nic: 0x12, pid: 0 };
    let message = apart("2.4.0 cxidiag/9 vni=10 host=elsewhere software", other);
    assert!(message.contains("on another machine"), "{message}");
    let message = apart("2.4.0 cxidiag/9 vni=10 host=elsewhere", other);
    assert!(
        message.starts_with("a software NIC here, hardware at the peer"),
        "{message}"
    );
}

#[test]
fn two_machines_do_not_share_the_address_of_a_nic() {
    let hardware = LocalAddress {
        simulated: false,
        ..CLIENT
    };
    let plan = plan(&[HOST]);
    let us = Introduction::new(&plan, hardware, 1, "here".into());
    let met = |host: &str, nic| {
        let version = format!("2.4.0 cxidiag/9 vni=10 host={host}");
        let address = FabricAddress { nic, pid: 0 };
        let mut handshake = Handshake::new(&us, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
        let [name, version] = ["cxi_write_lat", &version].map(string);
        for payload in [name, version, default_options().into()] {
            assert!(handshake.accept(&payload).unwrap().is_none());
        }
        match handshake.accept(&encode_address(address)) {
            Ok(agreed) => agreed.map(|_| String::new()),
            Err(Refusal::Failed(failure)) => Some(failure.message()),
            Err(Refusal::Unrelated(reason)) => panic!("{reason}"),
        }
    };
    let reachable = Some(String::new());
    assert_eq!(met("here", CLIENT.address.nic), reachable);
    assert_eq!(met("there", CLIENT.address.nic + 1), reachable);
    let message = met("there", CLIENT.address.nic).unwrap();
    assert!(message.contains("have the address 0x13"), "{message}");
}

#[test]
fn t27_what_cannot_be_is_refused() {
    let notes = noted(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        let asked = OptionBlock {
            max_size: 1 << 50,
            ..OptionBlock::decode(&default_options())
        };
        script.lead(&asked.encode());
    });
    assert!(
        notes.contains("sent invalid options: size 8:1125899906842624: "),
        "{notes}"
    );
    assert!(!notes.contains("--"), "nobody typed it here: {notes}");
}

#[test]
fn t27_what_a_server_sends_is_checked() {
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.4.0"));
        let mut options = default_options();
        options[91] = 7;
        script.follow(&options);
    })
    .unwrap_err();
    assert!(failure.message().contains("unknown GPU type "), "{failure}");
    for address in [
        FabricAddress {
            nic: 1 << 20,
            pid: 0,
        },
        FabricAddress { nic: 1, pid: 511 },
    ] {
        let message = apart("2.4.0", address);
        assert!(message.contains("sent what cannot be: NIC "), "{message}");
    }
}

#[test]
fn options_and_addresses_have_their_sizes() {
    let notes = noted(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        script.lead(&[0; OPTIONS_SIZE - 1]);
        script.ended();
    });
    assert!(notes.contains("128 bytes as its options"), "{notes}");
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.4.0"));
        script.follow(&default_options());
        script.follow(&[0; 7]);
    })
    .unwrap_err();
    assert!(
        failure.message().contains("7 bytes as its address"),
        "{failure}"
    );
}

#[test]
fn t16_strangers_do_not_end_a_server() {
    let (server, port) = server(&[], SERVER);
    drop(Script::client(port));
    let mut browser = Script::client(port);
    browser.0.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut nameless = Script::client(port);
    nameless.say(b"hello\0");
    assert!(client(port, &[], CLIENT).is_ok());
    assert!(server.join().unwrap().is_ok());
}

#[test]
fn a_server_that_hangs_up_is_told_apart_from_one_that_is_none() {
    let failure = against_server(drop).unwrap_err();
    assert!(
        failure
            .message()
            .contains("closed the connection without sending the name of a tool"),
        "{failure}"
    );
    let failure = against_server(|mut script| {
        script.hear();
        script.0.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
    })
    .unwrap_err();
    assert!(failure.message().contains("another protocol"), "{failure}");
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
    })
    .unwrap_err();
    assert!(
        failure.message().contains("closed the connection"),
        "{failure}"
    );
    assert!(failure.is_of_peer());
}

#[test]
fn barriers_join_the_two_sides() {
    let (server, client) = pair();
    let waiting = thread::spawn(move || {
        server.ready().unwrap();
        server.barrier("Post-run", LONG).unwrap();
        server
    });
    client.ready().unwrap();
    client.barrier("Post-run", ANSWER_LIMIT).unwrap();
    waiting.join().unwrap();
}

#[test]
fn a_barrier_has_a_limit_only_if_it_is_given() {
    let (_server, client) = pair();
    let failure = client
        .barrier("Post-run", Duration::from_millis(1))
        .unwrap_err();
    assert!(failure.message().contains("Post-run"), "{failure}");
    assert!(!failure.is_of_peer());
}

#[test]
fn a_peer_that_vanishes_ends_a_barrier_without_limit() {
    let (server, client) = pair();
    let waiting = thread::spawn(move || server.barrier("Post-run", LONG).unwrap_err());
    drop(client);
    let failure = waiting.join().unwrap();
    assert!(failure.is_of_peer());
    assert!(
        failure.message().contains(HOST) && failure.message().contains("failed or was killed"),
        "{failure}"
    );
}

#[test]
fn a_barrier_with_a_payload_is_none() {
    let mut extra = None;
    let met = against_client(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        script.lead(&default_options());
        script.lead(&[0; 8]);
        script.say(&[0]);
        extra = Some(script);
    });
    let failure = met.unwrap().0.ready().unwrap_err();
    assert!(failure.message().contains("announced 1 bytes"), "{failure}");
}

fn is_there(session: &Session) -> bool {
    session.check_peer("meanwhile").is_ok()
}

#[test]
fn a_farewell_is_heard_in_a_look_and_at_a_barrier() {
    let (server, client) = pair();
    client.send_interrupt_notice();
    let seen = server.barrier("Post-run", LONG).unwrap_err();
    assert!(
        seen.is_of_peer()
            && seen
                .message()
                .contains("was interrupted at the Post-run barrier")
    );
    // Once is enough, and what follows is the end.
    client.send_interrupt_notice();
    drop(client);
    assert!(
        server
            .barrier("Post-run", LONG)
            .unwrap_err()
            .message()
            .contains("closed the connection")
    );

    let (server, client) = pair();
    server.send_interrupt_notice();
    assert!(client.connection.wait(Duration::from_secs(60)).is_ok());
    let seen = client.check_peer("meanwhile").unwrap_err();
    assert!(
        seen.message().ends_with("was interrupted meanwhile"),
        "{seen}"
    );
    // It is the cause of what the NIC saw, too.
    let cause = client.cause(Failure::nic("UNDELIVERABLE"), "meanwhile");
    assert_eq!((cause.kind, cause.message()), (seen.kind, seen.message()));
    let other = Failure::environment("full");
    assert_eq!(client.cause(other, "meanwhile").kind, Kind::Environment);
}

#[test]
fn t33_a_refusal_is_heard_at_the_ready_barrier_with_its_reason() {
    let (server, client) = pair();
    let failure = Failure::environment("no pages \u{fc}brig\n").with_hint("make some");
    let message = failure.message();
    assert_eq!(server.tell(failure).message(), message);
    // Only the first counts.
    server.tell(Failure::nic("other"));
    server.send_interrupt_notice();
    drop(server);
    let seen = client.ready().unwrap_err();
    assert!(seen.is_of_peer());
    assert!(
        seen.message().ends_with(" cannot run: no pages ?brig?"),
        "{seen}"
    );
    assert!(
        client
            .ready()
            .unwrap_err()
            .message()
            .contains("closed the connection")
    );
}

/// Nothing is told of what the peer has caused or knows.
#[test]
fn what_is_not_this_sides_failure_is_not_told() {
    for failure in [Failure::peer("gone"), Failure::interrupted("SIGINT")] {
        let (server, client) = pair();
        server.tell(failure);
        drop(server);
        let seen = client.ready().unwrap_err();
        assert!(seen.message().contains("closed the connection"), "{seen}");
    }
}

#[test]
fn a_look_at_the_peer_does_not_disturb_it() {
    let (server, client) = pair();
    assert!(is_there(&server) && is_there(&client));
    let leading = thread::spawn(move || {
        client.barrier("Post-run", LONG).unwrap();
        client
    });
    assert!(is_there(&server));
    server.barrier("Post-run", LONG).unwrap();
    assert!(is_there(&server));
    drop(leading.join().unwrap());
    // The barrier returns when the end has arrived.
    assert!(server.barrier("Post-run", LONG).unwrap_err().is_of_peer());
    assert!(!is_there(&server));
}

/// Also in the middle of a handshake, when the client has named itself.
#[test]
fn a_client_that_goes_before_its_options_is_none() {
    let notes = noted(|mut script| {
        script.lead(&string("cxi_write_lat"));
        // Unread bytes turn the close into a reset.
        script.say(&string("2.4.0"));
        script.0.shutdown(Shutdown::Write).unwrap();
        script.0.peek(&mut [0]).unwrap();
    });
    assert!(notes.contains("during the handshake (options)"), "{notes}");
}

/// As wire.md 9.1 has it: these clients let the server speak first.
#[test]
fn an_old_client_waits_for_the_server_and_is_told_apart() {
    let notes = noted(|mut script| {
        assert_eq!(
            script.follow(&string("cxi_write_lat")),
            string("cxi_write_lat")
        );
        assert!(script.follow(&string("2.2.0")).starts_with(b"2.4.0"));
        script.ended();
    });
    assert!(notes.contains("2.4.0 here, 2.2.0 at the peer"), "{notes}");
    assert!(notes.contains("SHS 12.0"), "{notes}");
}

#[test]
fn a_silent_stranger_is_let_go() {
    let notes = noted(|mut script| {
        // What old clients wait for.
        assert_eq!(script.hear(), string("cxi_write_lat"));
        script.ended();
    });
    assert!(
        notes.contains("said nothing for 5 s without naming itself"),
        "{notes}"
    );
}

/// More of them than there is room for, and none of them is in the way of a client.
#[test]
fn silent_strangers_keep_nobody_waiting() {
    let (server, port) = noting_server(&[], SERVER);
    let strangers: Vec<Script> = (0..300).map(|_| Script::client(port)).collect();
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert!(notes.contains("256 others came after it"), "{notes}");
    assert!(notes.lines().count() < 25, "{notes}");
    drop(strangers);
}

#[test]
fn whoever_is_late_is_refused_at_once() {
    let (server, port) = server(&[], SERVER);
    let first = client(port, &[], CLIENT).unwrap();
    let session = server.join().unwrap().unwrap();
    let failure = client(port, &[], CLIENT).unwrap_err();
    assert!(
        failure.message().ends_with("connection refused"),
        "{failure}"
    );
    drop((first, session));
}

#[test]
fn a_server_listens_where_it_is_told_to() {
    for (at, host) in [
        ("127.0.0.2", "127.0.0.2"),
        ("::1", "::1"),
        ("localhost", "localhost"),
    ] {
        let listener = Listener::bind(Some(at), 0, Reach::Everywhere).unwrap();
        let port = format!("--port={}", listener.port());
        let plan = plan(&[host, &port]);
        let mut search = Search::new(&plan, host).unwrap();
        assert!(search.connect().is_ok());
        assert!(listener.accept().unwrap().is_some());
    }
    let failure = Listener::bind(Some("192.0.2.1"), 0, Reach::Everywhere).unwrap_err();
    assert!(failure.message().contains("192.0.2.1"), "{failure}");
    assert!(failure.hint.unwrap().contains("--bind"));
}

#[test]
fn a_server_that_is_not_told_where_listens_to_ipv4_and_ipv6() {
    let listener = Listener::bind(None, 0, Reach::Everywhere).unwrap();
    for host in ["127.0.0.1", "::1", "[::1]"] {
        let port = format!("--port={}", listener.port());
        let plan = plan(&[host, &port]);
        assert!(Search::new(&plan, host).unwrap().connect().is_ok());
        let (_, peer) = listener.accept().unwrap().unwrap();
        assert_eq!(peer.ip().to_string(), host.trim_matches(['[', ']']));
    }
}

#[test]
fn every_address_is_tried() {
    let listener = Listener::bind(Some("127.0.0.3"), 0, Reach::Everywhere).unwrap();
    let port = listener.port();
    let plan = plan(&["h"]);
    let to = |hosts: &[&str]| {
        let addresses = hosts
            .iter()
            .map(|host| SocketAddr::new(host.parse().unwrap(), port));
        Search::among(&plan, "h", addresses.collect()).connect()
    };
    assert_eq!(
        to(&["::1", "127.0.0.2", "127.0.0.3"])
            .unwrap()
            .peer()
            .ip()
            .to_string(),
        "127.0.0.3"
    );
    let failure = to(&["::1", "127.0.0.2"]).unwrap_err();
    let all = format!(
        "cannot connect to h (127.0.0.2) port {port}: connection refused (other addresses: ::1: Connection refused)"
    );
    assert_eq!(failure.message(), all);
}

#[test]
fn nobody_listening() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let failure = client(port, &[], CLIENT).unwrap_err();
    assert_eq!(
        failure.message(),
        format!("cannot connect to 127.0.0.1 port {port}: connection refused")
    );
    assert!(failure.hint.unwrap().contains("--port"));
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let plan = plan(&[&format!("--port={port}")]);
    let failure = Server::listen(&plan, Reach::Everywhere, &mut Vec::new())
        .err()
        .unwrap();
    assert!(failure.message().contains(&port.to_string()), "{failure}");
    assert!(failure.hint.unwrap().contains("--port"));
}

#[test]
fn a_name_that_cannot_be_resolved() {
    // RFC 2606: never exists.
    let failure = join(&plan(&["h"]), "nowhere.invalid", CLIENT).unwrap_err();
    assert!(
        failure
            .message()
            .starts_with("cannot resolve 'nowhere.invalid': "),
        "{failure}"
    );
    assert!(!failure.message().contains("lookup address"), "{failure}");
    let failure = join(&plan(&["h"]), "127.0.0.1:5000", CLIENT).unwrap_err();
    assert!(failure.hint.unwrap().contains("--port"));
}

#[test]
fn a_closed_output_ends_a_server_quietly() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let failure = Server::listen(&plan(&["--port=0"]), Reach::ThisMachine, &mut Closed)
        .err()
        .unwrap();
    assert_eq!(failure.kind, Kind::OutputClosed);
}
