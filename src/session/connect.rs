//! A client's way to its server: every address of the host in turn, and again while it waits for
//! the server to start.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::advice::{Situation, remedy};
use crate::error::{Failure, Kind, cause};
use crate::interrupt;
use crate::plan::{Plan, Reaching};

/// Time between two attempts.
const AGAIN: Duration = Duration::from_millis(100);

/// Attempts to reach a server, until the user's time is up.
pub struct Search<'a> {
    program: &'a str,
    host: &'a str,
    addresses: Vec<SocketAddr>,
    reaching: Reaching,
    since: Instant,
    told: bool,
}

impl<'a> Search<'a> {
    /// Looks up the addresses of `host`.
    pub fn new(plan: &'a Plan, host: &'a str) -> Result<Self, Failure> {
        Ok(Self::among(plan, host, resolve(host, plan.port)?))
    }

    /// A search among these addresses of `host`.
    pub fn among(plan: &'a Plan, host: &'a str, addresses: Vec<SocketAddr>) -> Self {
        Self {
            program: &plan.program,
            host,
            addresses,
            reaching: plan.reaching,
            since: Instant::now(),
            told: false,
        }
    }

    /// Connects to the first address that answers. Where none does and the user's time allows, tries
    /// again.
    pub fn connect(&mut self) -> Result<Connection, Failure> {
        loop {
            let failure = match self.attempt() {
                Ok(connection) => return Ok(connection),
                Err(failure) => failure,
            };
            if failure.kind == Kind::Interrupted || !self.pause(&failure) {
                return Err(failure);
            }
        }
    }

    /// Waits before the next attempt, unless the time is up. The first time it says that it waits, and
    /// for what.
    pub fn pause(&mut self, failure: &Failure) -> bool {
        let left = self.reaching.wait.saturating_sub(self.since.elapsed());
        if left.is_zero() {
            return false;
        }
        if !self.told {
            self.told = true;
            let note = format!(
                "{}: {failure}; waiting up to {} s for a server\n",
                self.program,
                self.reaching.wait.as_secs()
            );
            let _ = io::stderr().write_all(note.as_bytes());
        }
        thread::sleep(AGAIN.min(left));
        true
    }

    fn attempt(&self) -> Result<Connection, Failure> {
        let mut failed = Vec::new();
        for &address in &self.addresses {
            let limit = self.reaching.limit;
            let connected = interrupt::aside(move || TcpStream::connect_timeout(&address, limit))?
                .and_then(not_itself)
                .and_then(|stream| Connection::new(stream, address, true));
            match connected {
                Ok(connection) => return Ok(connection),
                Err(error) => failed.push((address, error)),
            }
        }
        // The most telling one last: one that refuses is there.
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
            .map(|(address, error)| format!("{}: {}", address.ip(), cause(error)))
            .collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!(" (other addresses: {})", others.join(", "))
        };
        let (reason, situation) = match error.kind() {
            ErrorKind::ConnectionRefused => (
                "connection refused".to_owned(),
                Some(Situation::ConnectionRefused),
            ),
            ErrorKind::TimedOut => {
                let limit = self.reaching.limit.as_secs();
                let reason = format!("no answer within {limit} s");
                (reason, Some(Situation::NoConnection))
            }
            _ => (cause(error), None),
        };
        let failure = Failure::environment(format!("cannot connect to {place}: {reason}{others}"));
        match situation {
            Some(situation) => failure.with_hint(remedy(situation)),
            None => failure,
        }
    }
}

/// TCP lets a client meet itself where nobody listens, if the kernel happens to give it the port that
/// it looks for.
fn not_itself(stream: TcpStream) -> io::Result<TcpStream> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// The addresses of a host; a failure if the run is to end. An IPv6 address may stand in brackets, as in
/// URLs.
pub fn addresses(host: &str, port: u16) -> Result<io::Result<Vec<SocketAddr>>, Failure> {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let name = (bare.to_owned(), port);
    interrupt::aside(move || Ok((name.0.as_str(), name.1).to_socket_addrs()?.collect()))
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    addresses(host, port)?.map_err(|error| {
        let reason = resolution(&error);
        let failure = Failure::environment(format!("cannot resolve '{host}': {reason}"));
        if host.contains(':') {
            failure.with_hint("give the port with --port, not in the address")
        } else {
            failure.with_hint(remedy(Situation::UnknownHost))
        }
    })
}

/// Why a name has no address, in the words of the resolver.
pub fn resolution(error: &io::Error) -> String {
    let text = cause(error);
    match text.strip_prefix("failed to lookup address information: ") {
        Some(reason) => reason.to_owned(),
        None => text,
    }
}
