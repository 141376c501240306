//! A client's connection to its server: tries every address of the host, and tries again while it
//! waits for the server to start.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::connection::Connection;
use facts::advice::{Advise, Situation};
use facts::error::{Failure, Kind, Step};
use facts::host::ip_address;
use facts::interrupt;
use facts::net::{addresses, connect_first, reason, resolution};
use facts::number::time_text;
use plan::{Plan, Reaching};

/// Time between two attempts.
const AGAIN: Duration = Duration::from_millis(100);

/// Attempts to reach a server until the time limit of `--wait`.
pub struct ServerSearch<'a> {
    program: &'a str,
    host: &'a str,
    addresses: Vec<SocketAddr>,
    reaching: Reaching,
    since: Instant,
    /// The line about the wait was printed.
    announced: bool,
}

impl<'a> ServerSearch<'a> {
    /// Resolves the addresses of `host`.
    ///
    /// # Errors
    ///
    /// A name without an address, and an interruption.
    pub fn new(plan: &'a Plan, host: &'a str) -> Result<Self, Failure> {
        Ok(Self::among(plan, host, resolve(host, plan.port, plan.address_hint.as_deref())?))
    }

    /// Creates a search among these addresses of `host`.
    pub fn among(plan: &'a Plan, host: &'a str, addresses: Vec<SocketAddr>) -> Self {
        Self {
            program: &plan.program,
            host,
            addresses,
            reaching: plan.reaching,
            since: Instant::now(),
            announced: false,
        }
    }

    /// Connects to the first address that answers. Tries again until the time limit.
    ///
    /// # Errors
    ///
    /// No address that answers, and an interruption.
    pub fn connect(&mut self) -> Result<Connection, Failure> {
        loop {
            let failure = match self.attempt() {
                Ok(connection) => return Ok(connection),
                Err(failure) => failure,
            };
            if failure.kind == Kind::Interrupted || !self.pause(&failure)? {
                return Err(failure);
            }
        }
    }

    /// Waits before the next attempt. Returns false if the time is up. The first call prints what
    /// this side waits for.
    pub fn pause(&mut self, failure: &Failure) -> Result<bool, Failure> {
        let Some(left) = self.left(failure) else {
            return Ok(false);
        };
        interrupt::wait_for_any(&mut Vec::new(), Some(AGAIN.min(left)))?;
        Ok(true)
    }

    /// Waits until a busy server closes `connection`: it is free then, or is to be asked again.
    /// Returns false if the time is up.
    pub fn wait_for_turn(
        &mut self,
        connection: &Connection,
        failure: &Failure,
    ) -> Result<bool, Failure> {
        let since = Instant::now();
        let Some(left) = self.left(failure) else {
            return Ok(false);
        };
        connection.wait(left)?;
        if since.elapsed() < AGAIN {
            return self.pause(failure);
        }
        Ok(self.left(failure).is_some())
    }

    /// The time that is left for attempts, if there is any. The first call prints what this side
    /// waits for.
    fn left(&mut self, failure: &Failure) -> Option<Duration> {
        let left = self.reaching.wait.saturating_sub(self.since.elapsed());
        if left.is_zero() {
            return None;
        }
        if !self.announced {
            self.announced = true;
            let note = format!(
                "{}: {failure}; waiting up to {}\n",
                self.program,
                time_text(self.reaching.wait)
            );
            let _ = io::stderr().write_all(note.as_bytes());
        }
        Some(left)
    }

    fn attempt(&self) -> Result<Connection, Failure> {
        let (addresses, limit) = (self.addresses.clone(), self.reaching.limit);
        let connected = interrupt::aside(move || connect_first(&addresses, limit))
            .map_err(|failure| failure.in_step(Step::Tcp))?;
        let mut failed = match connected {
            Ok((stream, address)) => match Connection::new(stream, address, true) {
                Ok(connection) => return Ok(connection.with_program(self.program)),
                Err(error) => vec![(address, error)],
            },
            Err(failed) => failed,
        };
        // The most informative error last: a refusal shows that the host is up.
        failed.sort_by_key(|(_, error)| match error.kind() {
            ErrorKind::ConnectionRefused => 2,
            ErrorKind::TimedOut => 1,
            _ => 0,
        });
        Err(self.unconnected(&failed))
    }

    fn unconnected(&self, failed: &[(SocketAddr, io::Error)]) -> Failure {
        let Some(((address, error), others)) = failed.split_last() else {
            return Failure::environment(format!("'{}' has no address", self.host));
        };
        let (host, port) = (self.host, address.port());
        let place = match address.ip() {
            ip if ip.to_string() == host => format!("{host} port {port}"),
            ip => format!("{host} ({ip}) port {port}"),
        };
        let others: Vec<String> = others
            .iter()
            .map(|(address, error)| format!("{}: {}", address.ip(), reason(*address, error)))
            .collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!(" (other addresses: {})", others.join(", "))
        };
        let (reason, situation) = match error.kind() {
            ErrorKind::ConnectionRefused => {
                ("connection refused".to_owned(), Some(Situation::ConnectionRefused))
            }
            ErrorKind::TimedOut => {
                let limit = time_text(self.reaching.limit);
                let reason = format!("no answer within {limit}");
                (reason, Some(Situation::NoConnection))
            }
            _ => (reason(*address, error), None),
        };
        let failure = Failure::environment(format!("cannot connect to {place}: {reason}{others}"))
            .in_step(Step::Tcp);
        match situation {
            Some(situation) => failure.advised(situation),
            None => failure,
        }
    }
}

/// The addresses of a host; `meant` is the hint if the host has no addresses.
pub(super) fn resolve(
    host: &str,
    port: u16,
    meant: Option<&str>,
) -> Result<Vec<SocketAddr>, Failure> {
    let found = addresses(host, port).map_err(|failure| failure.in_step(Step::Name))?;
    found.map_err(|error| {
        let reason = resolution(&error);
        let failure =
            Failure::environment(format!("cannot resolve '{host}': {reason}")).in_step(Step::Name);
        if host.contains('%') {
            failure.with_hint("after % stands an interface of this machine: `ip link` lists them")
        } else if ip_address(host).is_none() && host.contains(':') {
            failure.with_hint("give the port with --port, not in the address")
        } else if let Some(meant) = meant {
            failure.with_hint(meant)
        } else {
            failure.advised(Situation::UnknownHost)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use facts::net::{Listener, Reach};
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

    use super::*;
    use crate::testing::{CLIENT, HOST, client, plan};
    use crate::*;

    #[test]
    fn shows_fraction_of_a_second_in_full() {
        let plan = plan(&[HOST, "--connect-timeout=500ms"]);
        let search = ServerSearch::among(&plan, HOST, Vec::new());
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let failure = search.unconnected(&[(address, ErrorKind::TimedOut.into())]);
        let expected = "cannot connect to 127.0.0.1 port 1: no answer within 500ms";
        assert_eq!(failure.message(), expected);
    }

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
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
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
}
