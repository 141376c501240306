//! Sessions over the loopback interface: two of ours, and ours against a scripted peer.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::option_block::{OPTIONS_SIZE, OptionBlock};
use super::testing::{hex, plan};
use super::wire::{message, string};
use super::*;

const HOST: &str = "127.0.0.1";
const SERVER: Own = Own {
    nic: 0x12,
    pid: 0,
    vni: 10,
};
const CLIENT: Own = Own {
    nic: 0x13,
    pid: 1,
    vni: 10,
};

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

/// A server in a thread, and its port.
fn server(arguments: &'static [&str], own: Own) -> (JoinHandle<Met>, u16) {
    let (port, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let plan = plan(&[&["--port=0"], arguments].concat());
        let mut out = Output {
            text: Vec::new(),
            port,
        };
        serve(&plan, own, Reach::ThisMachine, &mut out)
    });
    (server, told.recv_timeout(ANSWER_LIMIT).unwrap())
}

fn client(port: u16, arguments: &[&str], own: Own) -> Met {
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

fn default_options() -> [u8; OPTIONS_SIZE] {
    terms::to_block(&plan(&[HOST]), 49194).encode()
}

#[test]
fn two_sides_agree_on_the_options_of_the_client() {
    let (server, port) = server(&["-s", "1:64", "-n", "7"], SERVER);
    let (_, client) = client(port, &["-s", "4:16", "-n", "5", "--no-idc"], CLIENT).unwrap();
    let (_, server) = server.join().unwrap().unwrap();
    assert_eq!(server.run, client.run);
    assert_eq!(
        (server.run.iters, server.run.max_size, server.run.use_idc),
        (5, 16, false)
    );
    assert_eq!(server.peer, Address { nic: 0x13, pid: 1 });
    assert_eq!(client.peer, Address { nic: 0x12, pid: 0 });
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
    assert_eq!(agreed.peer, Address { nic: 0x13, pid: 0 });
    assert_eq!(agreed.run, plan(&[HOST]).run);
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
    let met = against_client(|mut script| {
        // The exchange is complete before it is judged.
        assert_eq!(
            script.lead(&string("cxi_read_lat")),
            string("cxi_write_lat")
        );
    });
    let failure = met.unwrap_err();
    assert!(
        failure
            .message
            .contains("cxi_write_lat here, cxi_read_lat at the peer"),
        "{failure}"
    );
    let failure =
        against_server(|mut script| drop(script.follow(&string("cxi_read_lat")))).unwrap_err();
    assert!(
        failure
            .message
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
        failure.message.contains("2.4.0 here, 2.2.0 at the peer"),
        "{failure}"
    );
    assert!(failure.hint.unwrap().contains("SHS 12.0"));
}

#[test]
fn t15_different_vnis_are_refused_on_both_sides() {
    let (server, port) = server(&[], SERVER);
    let ours = client(port, &[], Own { vni: 11, ..CLIENT }).unwrap_err();
    assert!(ours.message.contains("11 here, 10 at the peer"), "{ours}");
    let theirs = server.join().unwrap().unwrap_err();
    assert!(
        theirs.message.contains("10 here, 11 at the peer"),
        "{theirs}"
    );
}

#[test]
fn t27_what_cannot_be_is_refused() {
    let failure = against_client(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        let asked = OptionBlock {
            max_size: 1 << 50,
            ..OptionBlock::decode(&default_options())
        };
        script.lead(&asked.encode());
        script.lead(&[0; 8]);
    })
    .unwrap_err();
    assert!(failure.message.contains("8:1125899906842624"), "{failure}");
}

#[test]
fn options_and_addresses_have_their_sizes() {
    let failure = against_client(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        script.lead(&[0; OPTIONS_SIZE - 1]);
    })
    .unwrap_err();
    assert!(
        failure.message.contains("128 bytes as its options"),
        "{failure}"
    );
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.4.0"));
        script.follow(&default_options());
        script.follow(&[0; 7]);
    })
    .unwrap_err();
    assert!(
        failure.message.contains("7 bytes as its address"),
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
            .message
            .contains("closed the connection without naming itself"),
        "{failure}"
    );
    let failure = against_server(|mut script| {
        script.hear();
        script.0.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
    })
    .unwrap_err();
    assert!(failure.message.contains("another protocol"), "{failure}");
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
    })
    .unwrap_err();
    assert!(
        failure.message.contains("closed the connection"),
        "{failure}"
    );
    assert!(failure.is_of_peer());
}

#[test]
fn barriers_join_the_two_sides() {
    let (server, client) = pair();
    let meeting = thread::spawn(move || {
        server.ready().unwrap();
        server.barrier("Post-run", None).unwrap();
        server
    });
    client.ready().unwrap();
    client.barrier("Post-run", Some(ANSWER_LIMIT)).unwrap();
    meeting.join().unwrap();
}

#[test]
fn a_barrier_has_a_limit_only_if_it_is_given() {
    let (_server, client) = pair();
    let failure = client
        .barrier("Post-run", Some(Duration::from_millis(1)))
        .unwrap_err();
    assert!(failure.message.contains("Post-run"), "{failure}");
    assert!(!failure.is_of_peer());
}

#[test]
fn a_peer_that_vanishes_ends_a_barrier_without_limit() {
    let (server, client) = pair();
    let waiting = thread::spawn(move || server.barrier("Post-run", None).unwrap_err());
    drop(client);
    let failure = waiting.join().unwrap();
    assert!(failure.is_of_peer());
    assert!(
        failure.message.contains(HOST) && failure.message.contains("failed or was killed"),
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
    assert!(failure.message.contains("announced 1 bytes"), "{failure}");
}

fn is_there(session: &Session) -> bool {
    session.peer_is_there("meanwhile").is_ok()
}

#[test]
fn a_farewell_is_heard_in_a_look_and_at_a_barrier() {
    let (server, client) = pair();
    client.say_farewell();
    let seen = server.barrier("Post-run", None).unwrap_err();
    assert!(
        seen.is_of_peer()
            && seen
                .message
                .contains("was interrupted at the Post-run barrier")
    );
    // Once is enough, and what follows is the end.
    client.say_farewell();
    drop(client);
    assert!(
        server
            .barrier("Post-run", None)
            .unwrap_err()
            .message
            .contains("closed the connection")
    );

    let (server, client) = pair();
    server.say_farewell();
    assert!(client.connection.wait(Duration::from_secs(60)).is_ok());
    let seen = client.peer_is_there("meanwhile").unwrap_err();
    assert!(
        seen.message.ends_with("was interrupted meanwhile"),
        "{seen}"
    );
    // It is the cause of what the NIC saw, too.
    let cause = client.cause(Failure::nic("UNDELIVERABLE"), "meanwhile");
    assert_eq!(cause, seen);
    let other = Failure::environment("full");
    assert_eq!(client.cause(other.clone(), "meanwhile"), other);
}

#[test]
fn a_look_at_the_peer_does_not_disturb_it() {
    let (server, client) = pair();
    assert!(is_there(&server) && is_there(&client));
    let leading = thread::spawn(move || {
        client.barrier("Post-run", None).unwrap();
        client
    });
    assert!(is_there(&server));
    server.barrier("Post-run", None).unwrap();
    assert!(is_there(&server));
    drop(leading.join().unwrap());
    // The barrier returns when the end has arrived.
    assert!(server.barrier("Post-run", None).unwrap_err().is_of_peer());
    assert!(!is_there(&server));
}

#[test]
fn a_reset_is_an_end_too() {
    let (server, port) = server(&[], SERVER);
    let mut script = Script::client(port);
    script.lead(&string("cxi_write_lat"));
    // Unread bytes turn the close into a reset.
    script.say(&string("2.4.0"));
    script.0.shutdown(Shutdown::Write).unwrap();
    drop(script);
    assert!(server.join().unwrap().unwrap_err().is_of_peer());
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
        failure.message,
        format!("nobody listens at 127.0.0.1 port {port}")
    );
    assert!(failure.hint.unwrap().contains("--port"));
}

#[test]
fn a_port_in_use() {
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let failure = serve(
        &plan(&[&format!("--port={port}")]),
        SERVER,
        Reach::Everywhere,
        &mut Vec::new(),
    )
    .unwrap_err();
    assert!(failure.message.contains(&port.to_string()), "{failure}");
    assert!(failure.hint.unwrap().contains("--port"));
}

#[test]
fn a_name_that_cannot_be_resolved() {
    // RFC 2606: never exists.
    let failure = join(&plan(&["h"]), "nowhere.invalid", CLIENT).unwrap_err();
    assert!(
        failure
            .message
            .starts_with("cannot resolve 'nowhere.invalid': "),
        "{failure}"
    );
    assert!(!failure.message.contains("lookup address"), "{failure}");
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
    let failure = serve(
        &plan(&["--port=0"]),
        SERVER,
        Reach::ThisMachine,
        &mut Closed,
    )
    .unwrap_err();
    assert_eq!(failure.kind, crate::error::Kind::OutputClosed);
}
