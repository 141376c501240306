//! Sessions over the loopback interface: two of ours, and ours against a scripted peer.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::listener::Listener;
use super::option_block::{OPTIONS_SIZE, OptionBlock};
use super::testing::{
    CLIENT, HOST, LONG, Met, Output, SERVER, Script, client, default_options, hex, plan,
};
use super::wire::{encode_address, message, string};
use super::*;
use crate::nic::counter::Change;
use crate::nic::counter_table::{Preset, Row};
use crate::nic::counters::{Changes, NicFacts};

/// A server in a thread, and its port. The thread returns the log of refusals as well.
fn noting_server(
    arguments: &'static [&str],
    own: LocalAddress,
) -> (JoinHandle<(Met, String)>, u16) {
    let (port, listening) = mpsc::channel();
    let server = thread::spawn(move || {
        let plan = plan(&[&["--port=0"], arguments].concat());
        let mut out = Output {
            text: Vec::new(),
            port,
        };
        let mut notes = Vec::new();
        let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
        server.announce(&mut out).unwrap();
        let met = server.find_client(&plan, own, &mut notes);
        (met, String::from_utf8(notes).unwrap())
    });
    (server, listening.recv_timeout(ANSWER_LIMIT).unwrap())
}

fn server(arguments: &'static [&str], own: LocalAddress) -> (JoinHandle<Met>, u16) {
    let (server, port) = noting_server(arguments, own);
    (thread::spawn(move || server.join().unwrap().0), port)
}

/// Both sides of a session.
fn pair() -> (Session, Session) {
    let (server, port) = server(&[], SERVER);
    let client = client(port, &[], CLIENT).unwrap();
    (server.join().unwrap().unwrap().0, client.0)
}

/// Runs a cxidiag client against a server that follows `script`.
fn against_server(script: impl FnOnce(Script) + Send + 'static) -> Met {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let scripted = thread::spawn(move || script(Script(listener.accept().unwrap().0)));
    let met = client(port, &[], CLIENT);
    scripted.join().unwrap();
    met
}

/// Runs a cxidiag server against a client that follows `script`.
fn against_client(script: impl FnOnce(Script)) -> Met {
    let (server, port) = server(&[], SERVER);
    script(Script::client(port));
    server.join().unwrap()
}

/// Returns the log of a cxidiag server about a client that follows `script`; the server then serves
/// the next client.
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

#[test]
fn both_sides_agree_on_client_options() {
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

/// Changes of all counters of a NIC, which take several messages.
fn counters() -> Changes {
    let within = Some(Duration::from_micros(1_200_345));
    let change = |by| Change::Counted { by, within };
    let names = Preset::Quick.rows().flat_map(Row::names);
    let by_name = names.zip(1 << 40..).map(|(name, by)| (name, change(by)));
    let nic = NicFacts {
        device: "cxi1".into(),
        ..NicFacts::default()
    };
    Changes::new(nic, by_name.collect())
}

#[test]
fn client_receives_counters_of_server() {
    let (server, client) = pair();
    let sending = thread::spawn(move || {
        server.send_counters(&counters(), Preset::Quick)?;
        server.barrier("test", LONG)
    });
    assert_eq!(client.receive_counters(Preset::Quick).unwrap(), counters());
    // Both sides are at the same message.
    client.barrier("test", LONG).unwrap();
    sending.join().unwrap().unwrap();
}

#[test]
fn refuses_invalid_and_endless_counters() {
    for (payload, expected) in [
        (&b"\xff"[..], "sent an invalid message of counters"),
        (b"hni_tx_ok_opt:1:1\0", "sent too many messages of counters"),
        (&[b'x'; 2000], "announced 2000 bytes during the exchange"),
    ] {
        let (server, client) = pair();
        thread::scope(|scope| {
            scope.spawn(move || {
                let exchange = || server.connection.exchange(payload, 0, ANSWER_LIMIT);
                while exchange().is_ok() {}
            });
            let failure = client.receive_counters(Preset::Quick).unwrap_err();
            assert!(failure.message().contains(expected), "{failure}");
            drop(client);
        });
    }
}

#[test]
fn accepts_legacy_client_byte_by_byte() {
    let met = against_client(|mut script| {
        let mut bytes = |hex_digits: &str| {
            for byte in hex(hex_digits) {
                script.0.write_all(&[byte]).unwrap();
            }
            script.receive()
        };
        assert_eq!(
            bytes("0e000000 6378695f77726974655f6c617400"),
            string("cxi_write_lat")
        );
        // A legacy peer reads two numbers and ignores what follows.
        assert!(bytes("06000000 322e342e3000").starts_with(b"2.4.0 cxidiag/"));
        let options = default_options();
        script.0.write_all(&message(&options)).unwrap();
        assert_eq!(script.receive().len(), OPTIONS_SIZE);
        script
            .0
            .write_all(&hex("08000000 1300000000000000"))
            .unwrap();
        assert_eq!(script.receive(), hex("1200000000000000"));
    });
    let (_, agreed) = met.unwrap();
    assert_eq!(agreed.peer, FabricAddress { nic: 0x13, pid: 0 });
    assert_eq!(agreed.run, plan(&[HOST]).run);
    assert!(!agreed.is_cxidiag);
}

#[test]
fn sends_each_message_with_one_write() {
    let met = against_server(|mut script| {
        for answer in [
            string("cxi_write_lat"),
            string("2.4.0"),
            default_options().to_vec(),
            vec![0; 8],
        ] {
            // The whole message arrives with its first byte.
            let mut bytes = [0; 1024];
            let seen = script.0.peek(&mut bytes).unwrap();
            assert_eq!(seen, message(&script.receive()).len());
            script.send(&answer);
        }
    });
    assert!(met.is_ok());
}

#[test]
fn both_sides_report_different_tools() {
    let notes = noted(|mut script| {
        // The exchange is complete before it is checked.
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
fn shows_both_versions_if_different() {
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
fn t15_both_sides_refuse_different_vnis() {
    let (server, port) = noting_server(&[], SERVER);
    let ours = client(port, &[], LocalAddress { vni: 11, ..CLIENT }).unwrap_err();
    assert!(ours.message().contains("11 here, 10 at the peer"), "{ours}");
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert!(notes.contains("10 here, 11 at the peer"), "{notes}");
}

/// Returns the message about two NICs that cannot reach each other, on the side that notices it.
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
fn refuses_nics_that_cannot_reach_each_other() {
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
fn refuses_same_nic_address_on_two_machines() {
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
            Err(Refusal::Failed(failure) | Refusal::Busy(failure)) => Some(failure.message()),
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
fn t27_refuses_invalid_options_and_addresses() {
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
fn t27_checks_options_of_server() {
    let failure = against_server(|mut script| {
        script.follow(&string("cxi_write_lat"));
        script.follow(&string("2.4.0"));
        let mut options = default_options();
        options[91] = 7;
        script.follow(&options);
    })
    .unwrap_err();
    assert!(
        failure.message().contains("unknown GPU type 7"),
        "{failure}"
    );
    for address in [
        FabricAddress {
            nic: 1 << 20,
            pid: 0,
        },
        FabricAddress { nic: 1, pid: 511 },
    ] {
        let message = apart("2.4.0", address);
        assert!(
            message.contains("sent an invalid address: NIC "),
            "{message}"
        );
    }
}

#[test]
fn refuses_options_and_addresses_of_wrong_size() {
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
fn t16_server_ignores_unrelated_connections() {
    let (server, port) = server(&[], SERVER);
    drop(Script::client(port));
    let mut browser = Script::client(port);
    browser.0.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut nameless = Script::client(port);
    nameless.send(b"hello\0");
    assert!(client(port, &[], CLIENT).is_ok());
    assert!(server.join().unwrap().is_ok());
}

#[test]
fn distinguishes_closed_connection_from_unrelated_server() {
    let failure = against_server(drop).unwrap_err();
    assert!(
        failure
            .message()
            .contains("closed the connection without sending the name of a tool"),
        "{failure}"
    );
    let failure = against_server(|mut script| {
        script.receive();
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
fn barrier_waits_for_both_sides() {
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
fn barrier_ends_at_limit() {
    let (_server, client) = pair();
    let failure = client
        .barrier("Post-run", Duration::from_millis(1))
        .unwrap_err();
    assert!(failure.message().contains("Post-run"), "{failure}");
    assert!(!failure.is_of_peer());
}

#[test]
fn lost_peer_ends_long_barrier() {
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
fn refuses_barrier_with_payload() {
    let mut extra = None;
    let met = against_client(|mut script| {
        script.lead(&string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        script.lead(&default_options());
        script.lead(&[0; 8]);
        script.send(&[0]);
        extra = Some(script);
    });
    let failure = met.unwrap().0.ready().unwrap_err();
    assert!(failure.message().contains("announced 1 bytes"), "{failure}");
}

fn is_there(session: &Session) -> bool {
    session.check_peer("meanwhile").is_ok()
}

#[test]
fn finds_interrupt_notice_in_check_and_at_barrier() {
    let (server, client) = pair();
    client.send_interrupt_notice();
    let seen = server.barrier("Post-run", LONG).unwrap_err();
    assert!(
        seen.is_of_peer()
            && seen
                .message()
                .contains("was interrupted at the Post-run barrier")
    );
    // The notice is sent once; the end of the connection follows.
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
    // The notice is the cause of an error of the NIC as well.
    let cause = client.cause(Failure::nic("UNDELIVERABLE"), "meanwhile");
    assert_eq!((cause.kind, cause.message()), (seen.kind, seen.message()));
    let other = Failure::environment("full");
    assert_eq!(client.cause(other, "meanwhile").kind, Kind::Environment);
}

#[test]
fn t33_ready_barrier_fails_with_reason_of_refusal() {
    let (server, client) = pair();
    let failure = Failure::environment("no pages \u{fc}brig\n").with_hint("make some");
    let message = failure.message();
    assert_eq!(server.refuse(failure).message(), message);
    // Only the first refusal is sent.
    server.refuse(Failure::nic("other"));
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

/// Failures that the peer has caused are not sent to it.
#[test]
fn refuses_only_for_own_failures() {
    for failure in [Failure::peer("gone"), Failure::interrupted("SIGINT")] {
        let (server, client) = pair();
        server.refuse(failure);
        drop(server);
        let seen = client.ready().unwrap_err();
        assert!(seen.message().contains("closed the connection"), "{seen}");
    }
}

#[test]
fn check_does_not_disturb_peer() {
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
    // The barrier returns when the end of the connection has arrived.
    assert!(server.barrier("Post-run", LONG).unwrap_err().is_of_peer());
    assert!(!is_there(&server));
}

/// The client is lost in the middle of the handshake, after it has sent the name of its tool.
#[test]
fn logs_client_lost_before_its_options() {
    let notes = noted(|mut script| {
        script.lead(&string("cxi_write_lat"));
        // Unread bytes turn the close into a reset.
        script.send(&string("2.4.0"));
        script.0.shutdown(Shutdown::Write).unwrap();
        script.0.peek(&mut [0]).unwrap();
    });
    assert!(notes.contains("during the handshake (options)"), "{notes}");
}

/// These clients wait for the server to send first (wire.md 9.1).
#[test]
fn prompts_old_client_and_names_its_release() {
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
fn drops_silent_connection() {
    let notes = noted(|mut script| {
        // Old clients wait for this message.
        assert_eq!(script.receive(), string("cxi_write_lat"));
        script.ended();
    });
    assert!(notes.contains("sent nothing for 5 s"), "{notes}");
}

/// There are more of them than the server keeps, and a client is still served.
#[test]
fn serves_client_among_silent_connections() {
    let (server, port) = noting_server(&[], SERVER);
    let silent: Vec<Script> = (0..300).map(|_| Script::client(port)).collect();
    assert!(client(port, &[], CLIENT).is_ok());
    let (met, notes) = server.join().unwrap();
    assert!(met.is_ok());
    assert!(notes.contains("replaced by newer connections"), "{notes}");
    assert!(notes.lines().count() < 25, "{notes}");
    drop(silent);
}

#[test]
fn second_client_is_refused_at_once() {
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
fn listens_at_given_address() {
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
fn listens_on_ipv4_and_ipv6_by_default() {
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
fn tries_each_address() {
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
fn reports_refused_connection() {
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
fn reports_port_in_use() {
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let plan = plan(&[&format!("--port={port}")]);
    let failure = Server::listen(&plan, Reach::Everywhere).err().unwrap();
    assert!(failure.message().contains(&port.to_string()), "{failure}");
    assert!(failure.hint.unwrap().contains("--port"));
}

#[test]
fn reports_unresolvable_name() {
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
fn closed_output_ends_server_silently() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let server = Server::listen(&plan(&["--port=0"]), Reach::ThisMachine).unwrap();
    let failure = server.announce(&mut Closed).unwrap_err();
    assert_eq!(failure.kind, Kind::OutputClosed);
}
