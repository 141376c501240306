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
use facts::net::race::{connect_first, reason};
use facts::net::resolver::{addresses, resolution};
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

    /// Returns the time that is left for attempts, if there is any. The first call prints what this
    /// side waits for.
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

/// Returns the addresses of a host; `meant` is the hint if the host has no addresses.
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
    use super::super::testing::{HOST, plan};
    use super::*;

    #[test]
    fn shows_fraction_of_a_second_in_full() {
        let plan = plan(&[HOST, "--connect-timeout=500ms"]);
        let search = ServerSearch::among(&plan, HOST, Vec::new());
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let failure = search.unconnected(&[(address, ErrorKind::TimedOut.into())]);
        let expected = "cannot connect to 127.0.0.1 port 1: no answer within 500ms";
        assert_eq!(failure.message(), expected);
    }
}
