//! Where a server listens, and how a client reaches it.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::connect::ServerSearch;
use super::testing::{CLIENT, client, plan};
use super::*;
use facts::error::Kind;
use facts::net::listener::{Listener, Reach};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

#[test]
fn listens_at_given_address() {
    for (at, host) in [("127.0.0.2", "127.0.0.2"), ("::1", "::1"), ("localhost", "localhost")] {
        let listener = Listener::bind(Some(at), 0, Reach::Everywhere).unwrap();
        let port = format!("--port={}", listener.port());
        let plan = plan(&[host, &port]);
        let mut search = ServerSearch::new(&plan, host).unwrap();
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
        assert!(ServerSearch::new(&plan, host).unwrap().connect().is_ok());
        let (_, peer) = listener.accept().unwrap().unwrap();
        assert_eq!(peer.ip().to_string(), host.trim_matches(['[', ']']));
    }
}

#[test]
fn names_what_an_address_lacks() {
    for (host, reason, hint) in [
        ("fe80::1", "a link-local address needs its interface: fe80::1%eth0", None),
        ("[fe80::1]", "a link-local address needs its interface: fe80::1%eth0", None),
        ("fe80::1%nosuch0", "Name or service not known", Some("`ip link` lists them")),
        ("[::1]:49194", "Name or service not known", Some("give the port with --port")),
    ] {
        let failure = ServerSearch::new(&plan(&[host]), host).err().unwrap();
        assert!(failure.message().ends_with(reason), "{failure}");
        let found = failure.hint.unwrap_or_default();
        assert!(hint.is_none_or(|hint| found.contains(hint)), "{host}: {found}");
        let failure = Listener::bind(Some(host), 0, Reach::Everywhere).unwrap_err();
        assert!(failure.message().ends_with(reason), "{failure}");
    }
}

#[test]
fn tries_each_address() {
    let listener = Listener::bind(Some("127.0.0.3"), 0, Reach::Everywhere).unwrap();
    let port = listener.port();
    let plan = plan(&["h"]);
    let to = |hosts: &[&str]| {
        let addresses = hosts.iter().map(|host| SocketAddr::new(host.parse().unwrap(), port));
        ServerSearch::among(&plan, "h", addresses.collect()).connect()
    };
    assert_eq!(
        to(&["::1", "127.0.0.2", "127.0.0.3"]).unwrap().peer().ip().to_string(),
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
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let failure = client(port, &[], CLIENT).unwrap_err();
    assert_eq!(
        failure.message(),
        format!("cannot connect to 127.0.0.1 port {port}: connection refused")
    );
    assert!(failure.hint.unwrap().contains("--port"));
}

#[test]
fn reports_port_in_use() {
    // A socket that does not listen has the port as well.
    for listens in [true, false] {
        let taken = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&taken, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
        if listens {
            listen(&taken, 1).unwrap();
        }
        let port = SocketAddr::try_from(getsockname(&taken).unwrap()).unwrap().port();
        let plan = plan(&[&format!("--port={port}")]);
        let failure = Server::listen(&plan, Reach::Everywhere).err().unwrap();
        let expected = format!("cannot listen on TCP port {port}: another program uses it");
        assert_eq!(failure.message(), expected);
        assert!(failure.hint.unwrap().contains("--port"));
    }
}

#[test]
fn reports_unresolvable_name() {
    // RFC 2606: never exists.
    let failure = join(&plan(&["h"]), "nowhere.invalid", CLIENT).unwrap_err();
    assert!(failure.message().starts_with("cannot resolve 'nowhere.invalid': "), "{failure}");
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
