//! A server: its time limit, what it answers while it is busy, and peers without a token.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::super::testing::{
    CLIENT, HOST, LONG, Output, SERVER, Script, client, default_options, plan,
};
use super::super::wire::{encode_address, string};
use super::*;
use facts::error::Kind;
use facts::net::framing::message;

#[test]
fn listener_stays_open_while_a_client_is_served() {
    let (port, listening) = mpsc::channel();
    let server = thread::spawn(move || {
        let plan = plan(&["--port=0"]);
        let text = Vec::new();
        let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
        server.announce(&mut Output { text, port }).unwrap();
        let next = || server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
        let (first, _) = next();
        let (second, _) = next();
        // The first session goes on while the second client is found.
        first.ready().unwrap();
        second.ready().unwrap();
    });
    let port = listening.recv_timeout(LONG).unwrap();
    let (first, _) = client(port, &[], CLIENT).unwrap();
    let (second, _) = client(port, &[], CLIENT).unwrap();
    first.ready().unwrap();
    second.ready().unwrap();
    server.join().unwrap();
}

/// A server of two clients, its port, and its session with the first one, which lasts until the
/// first barrier. The server then calls `release`.
fn releasing_server(release: impl FnOnce() + Send + 'static) -> (JoinHandle<()>, u16, Session) {
    let (port, listening) = mpsc::channel();
    let server = thread::spawn(move || {
        let plan = plan(&["--port=0"]);
        let text = Vec::new();
        let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
        server.announce(&mut Output { text, port }).unwrap();
        let (session, _) = server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
        let served = server.serve_alone(&plan, SERVER, &[], session, |session| {
            session.barrier("first", LONG)?;
            session.finish();
            release();
            Ok(())
        });
        served.unwrap();
        server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
    });
    let port = listening.recv_timeout(LONG).unwrap();
    let (first, _) = client(port, &[], CLIENT).unwrap();
    (server, port, first)
}

fn busy_server() -> (JoinHandle<()>, u16, Session) {
    releasing_server(|| {})
}

#[test]
fn busy_server_names_its_client() {
    let (server, port, first) = busy_server();
    let failure = client(port, &[], CLIENT).unwrap_err();
    let message = failure.message();
    let expected = format!("the server ({HOST}:{port}) is busy: serving {HOST} for ");
    assert!(message.starts_with(&expected), "{message}");
    assert!(message.ends_with(" s"), "{message}");
    assert!(failure.hint.unwrap().contains("--wait"));
    // What is wrong in any case comes first.
    let failure = client(port, &["--wait=60"], LocalAddress { vni: 11, ..CLIENT }).unwrap_err();
    assert!(failure.message().contains("VNIs"), "{failure}");
    first.barrier("first", LONG).unwrap();
    client(port, &[], CLIENT).unwrap();
    server.join().unwrap();
}

#[test]
fn client_gets_its_turn_when_a_busy_server_is_free() {
    let (server, port, first) = busy_server();
    let mut waiting = Script::client(port);
    waiting.lead(&string("cxi_write_lat"));
    let answer = waiting.lead(&string("2.4.0 cxidiag/9 vni=10"));
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains(" busy="), "{answer}");
    first.barrier("first", LONG).unwrap();
    waiting.ended();
    client(port, &[], CLIENT).unwrap();
    server.join().unwrap();
}

#[test]
fn client_connects_again_when_a_busy_server_becomes_free() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let scripted = thread::spawn(move || {
        let next = || Script(listener.accept().unwrap().0);
        let mut told = next();
        told.follow(&string("cxi_write_lat"));
        told.follow(&string("2.4.0 cxidiag/9 vni=10 busy=3:10.1.1.8"));
        drop(told);
        // This one becomes free before it sends its version.
        next().follow(&string("cxi_write_lat"));
        // This one finds another client after it has sent its version.
        let mut other = next();
        other.follow(&string("cxi_write_lat"));
        other.follow(&string("2.4.0 cxidiag/9 vni=10"));
        drop(other);
        let mut free = next();
        free.follow(&string("cxi_write_lat"));
        free.follow(&string("2.4.0"));
        free.follow(&default_options());
        free.follow(&encode_address(SERVER.address));
    });
    client(port, &["--wait=60"], CLIENT).unwrap();
    scripted.join().unwrap();
}

#[test]
fn server_that_releases_its_resources_is_not_busy() {
    let (finished, end) = mpsc::channel::<()>();
    let (released, gate) = mpsc::channel::<()>();
    let (server, port, first) = releasing_server(move || {
        finished.send(()).unwrap();
        gate.recv().unwrap();
    });
    first.barrier("first", LONG).unwrap();
    end.recv().unwrap();
    let mut next = Script::client(port);
    next.send(&string("cxi_write_lat"));
    // No answer, rather than one that the server is busy.
    let moment = Duration::from_millis(100);
    next.0.set_read_timeout(Some(moment)).unwrap();
    assert!(next.0.peek(&mut [0]).is_err());
    next.0.set_read_timeout(None).unwrap();
    released.send(()).unwrap();
    assert_eq!(next.receive(), string("cxi_write_lat"));
    let version = String::from_utf8(next.lead(&string("2.4.0"))).unwrap();
    assert!(!version.contains(" busy="), "{version}");
    next.lead(&default_options());
    next.lead(&encode_address(CLIENT.address));
    server.join().unwrap();
}

/// A legacy client ends without a message if it sends to a closed connection (wire.md 10).
#[test]
fn busy_server_closes_connection_while_legacy_client_listens() {
    let (server, port, first) = busy_server();
    let mut script = Script::client(port);
    assert_eq!(script.lead(&string("cxi_write_lat")), string("cxi_write_lat"));
    script.lead(&string("2.4.0"));
    script.send(&default_options());
    assert_eq!(script.0.read(&mut [0]).unwrap(), 0);
    first.barrier("first", LONG).unwrap();
    client(port, &[], CLIENT).unwrap();
    server.join().unwrap();
}

#[test]
fn busy_server_ignores_unrelated_connections() {
    let (server, port, first) = busy_server();
    let mut silent = TcpStream::connect((HOST, port)).unwrap();
    let mut garbage = TcpStream::connect((HOST, port)).unwrap();
    garbage.write_all(&[0xff; 99]).unwrap();
    Script(garbage).ended();
    client(port, &[], CLIENT).unwrap_err();
    first.barrier("first", LONG).unwrap();
    // After two seconds, the server sends its name.
    let mut sent = Vec::new();
    let _ = silent.read_to_end(&mut sent);
    let name = message(&string("cxi_write_lat"));
    assert!(sent.is_empty() || sent == name, "{sent:?}");
    client(port, &[], CLIENT).unwrap();
    server.join().unwrap();
}

#[test]
fn limits_each_wait_for_a_client() {
    let plan = plan(&["--port=0", "--timeout=10ms"]);
    let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
    let port = server.port();
    // A silent connection is not a client, and does not extend the time.
    let _silent = TcpStream::connect((HOST, port)).unwrap();
    for _ in 0..2 {
        let met = server.find_client(&plan, SERVER, &mut Vec::new());
        let failure = met.map(drop).unwrap_err();
        let message = format!("no client came to TCP port {port} within 10ms");
        assert_eq!((failure.kind, failure.message()), (Kind::Environment, message));
    }
}

#[test]
fn client_that_has_connected_in_time_finishes_its_handshake() {
    let plan = plan(&["--port=0", "--timeout=1ns"]);
    let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
    let mut client = Script::client(server.port());
    client.send(&string("cxi_write_lat"));
    client.send(&string("2.4.0"));
    client.send(&default_options());
    client.send(&encode_address(CLIENT.address));
    server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
}

#[test]
fn legacy_peers_need_no_token_only_if_this_side_has_none() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    for version in ["2.4.0", "2.4.0 cxidiag/0.1.0 vni=10"] {
        let ours = thread::spawn(move || client(port, &["--token=secret"], CLIENT));
        let mut script = Script(listener.accept().unwrap().0);
        script.follow(&string("cxi_write_lat"));
        let received = String::from_utf8(script.follow(&string(version))).unwrap();
        assert!(!received.contains("secret"), "{received}");
        let failure = ours.join().unwrap().map(drop).unwrap_err();
        let expected = format!("tokens differ: set here, not set at the peer ({HOST}:{port})");
        assert_eq!(failure.message(), expected);
        assert!(failure.hint.unwrap().contains("CXIDIAG_TOKEN"));
    }
}
