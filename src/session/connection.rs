//! One TCP connection: listen, accept, connect, and the exchange that everything consists of
//! (wire.md 1 to 3).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::wire::{self, FAREWELL, HEADER_SIZE, message};
use super::{ANSWER_LIMIT, Reach};
use crate::error::{Failure, cause};
use crate::interrupt;

/// How long one address may take to accept a connection. TCP alone would try for two minutes.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Why an exchange failed.
#[derive(Debug)]
pub enum LinkError {
    /// The peer closed or reset the connection.
    Closed,
    /// The peer was interrupted, and said so.
    Farewell,
    /// This side was interrupted.
    Interrupted(Failure),
    /// Nothing came within this time.
    Late(Duration),
    /// The peer announced more than can be right.
    TooLong {
        /// Bytes announced.
        length: u32,
        /// Bytes expected at most.
        most: usize,
    },
    /// Any other error of the socket.
    Io(io::Error),
}

impl LinkError {
    /// For the user: `doing` says what the exchange was for.
    pub fn into_failure(self, peer: SocketAddr, doing: &str) -> Failure {
        match self {
            Self::Closed => Failure::peer(format!(
                "the peer ({peer}) closed the connection {doing}: it failed or was killed"
            )),
            Self::Farewell => Failure::peer(format!("the peer ({peer}) was interrupted {doing}")),
            Self::Interrupted(failure) => failure,
            Self::Late(limit) => {
                let limit = limit.as_secs();
                Failure::environment(format!(
                    "the peer ({peer}) did not answer {doing} within {limit} s"
                ))
                .with_hint("see what the other side printed")
            }
            Self::TooLong { length, most } => Failure::environment(format!(
                "the peer ({peer}) announced {length} bytes {doing}, where {most} are the most"
            ))
            .with_hint("it is no CXI benchmark, or one of another release"),
            Self::Io(error) => Failure::environment(format!(
                "the connection to the peer ({peer}) failed {doing}: {}",
                cause(&error)
            )),
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Closed
            }
            _ => Self::Io(error),
        }
    }
}

impl From<Failure> for LinkError {
    fn from(failure: Failure) -> Self {
        Self::Interrupted(failure)
    }
}

/// A connection to a peer.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    /// The client speaks first, always.
    leads: bool,
}

impl Connection {
    fn new(stream: TcpStream, peer: SocketAddr, leads: bool) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self {
            stream,
            peer,
            leads,
        })
    }

    /// TCP address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// One message in each direction, the client's first. Returns the peer's, of at most `most`
    /// bytes; `limit` ends the wait for it.
    pub fn exchange(
        &self,
        mine: &[u8],
        most: usize,
        limit: Option<Duration>,
    ) -> Result<Vec<u8>, LinkError> {
        if self.leads {
            self.send(mine)?;
            self.receive(most, limit)
        } else {
            let theirs = self.receive(most, limit)?;
            self.send(mine)?;
            Ok(theirs)
        }
    }

    /// Fails if the peer has let go of its end, or says farewell behind what else it has left to
    /// read. Does not wait.
    pub fn look(&self) -> Result<(), LinkError> {
        let mut bytes = [0; 64];
        match self.peek(&mut bytes) {
            Ok(0) => Err(LinkError::Closed),
            Ok(count) if wire::holds_farewell(&bytes[..count]) => Err(LinkError::Farewell),
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(()),
                _ => Err(error.into()),
            },
        }
    }

    /// Whether there is something to read. Does not wait.
    pub fn has_message(&self) -> bool {
        self.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    }

    /// Waits until there is something to read, or the connection has ended.
    pub fn wait(&self, within: Duration) -> Result<(), LinkError> {
        interrupt::wait(&self.stream, PollFlags::IN, Some(within))?;
        Ok(())
    }

    /// Tells a peer that understands it that this side was interrupted.
    pub fn say_farewell(&self) {
        // A peer that has ended needs no telling.
        let _ = (&self.stream).write_all(&FAREWELL.to_le_bytes());
    }

    /// Bytes that can be read at once; 0 if the peer has closed the connection.
    fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(bytes);
        self.stream.set_nonblocking(false)?;
        peeked
    }

    /// Header and payload in one write: a legacy peer takes what one `recv` gives it.
    fn send(&self, payload: &[u8]) -> Result<(), LinkError> {
        (&self.stream)
            .write_all(&message(payload))
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => LinkError::Late(ANSWER_LIMIT),
                _ => error.into(),
            })
    }

    fn receive(&self, most: usize, limit: Option<Duration>) -> Result<Vec<u8>, LinkError> {
        let wait = Wait {
            limit,
            since: Instant::now(),
        };
        let mut header = [0; HEADER_SIZE];
        self.fill(&mut header, &wait)?;
        let length = u32::from_le_bytes(header);
        if length == FAREWELL {
            return Err(LinkError::Farewell);
        }
        if length as usize > most {
            return Err(LinkError::TooLong { length, most });
        }
        let mut payload = vec![0; length as usize];
        self.fill(&mut payload, &wait)?;
        Ok(payload)
    }

    /// Reads until `buffer` is full.
    fn fill(&self, buffer: &mut [u8], wait: &Wait) -> Result<(), LinkError> {
        let mut filled = 0;
        while filled < buffer.len() {
            interrupt::wait(&self.stream, PollFlags::IN, wait.left()?)?;
            self.stream.set_read_timeout(wait.left()?)?;
            match (&self.stream).read(&mut buffer[filled..]) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(more) => filled += more,
                // Too early or interrupted: what is left of the time decides.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// A wait for one message, however many pieces it comes in.
struct Wait {
    limit: Option<Duration>,
    since: Instant,
}

impl Wait {
    /// Time left, if there is a limit.
    fn left(&self) -> Result<Option<Duration>, LinkError> {
        let Some(limit) = self.limit else {
            return Ok(None);
        };
        match limit.checked_sub(self.since.elapsed()) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => Err(LinkError::Late(limit)),
        }
    }
}

/// A server's socket.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    port: u16,
}

impl Listener {
    /// Listens on `port`, by IPv4; 0 is any free port.
    pub fn bind(port: u16, reach: Reach) -> Result<Self, Failure> {
        let address = match reach {
            Reach::Everywhere => Ipv4Addr::UNSPECIFIED,
            Reach::ThisMachine => Ipv4Addr::LOCALHOST,
        };
        // The standard library sets SO_REUSEADDR: a server starts again right after another.
        let bound = TcpListener::bind((address, port)).and_then(|socket| {
            socket.local_addr().map(|own| Self {
                port: own.port(),
                socket,
            })
        });
        bound.map_err(|error| {
            let failure = |reason: &str| Failure::environment(format!("cannot listen on TCP port {port}: {reason}"));
            match error.kind() {
                ErrorKind::AddrInUse => failure("another program listens there").with_hint(
                    "end the server that was left there, or give both sides another --port (0 on a server: any free one)",
                ),
                ErrorKind::PermissionDenied => {
                    failure(&cause(&error)).with_hint("ports below 1024 are reserved; choose another with --port")
                }
                _ => failure(&cause(&error)),
            }
        })
    }

    /// The port listened on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next connection.
    pub fn accept(&self) -> Result<Connection, Failure> {
        loop {
            interrupt::wait(&self.socket, PollFlags::IN, None)?;
            let accepted = self
                .socket
                .accept()
                .and_then(|(stream, peer)| Connection::new(stream, peer, false));
            match accepted {
                Ok(connection) => return Ok(connection),
                // That one went away before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    let message = format!(
                        "cannot accept a connection on TCP port {}: {}",
                        self.port,
                        cause(&error)
                    );
                    return Err(Failure::environment(message));
                }
            }
        }
    }
}

/// Connects to the first address of `host` that answers.
pub fn connect(host: &str, port: u16) -> Result<Connection, Failure> {
    let mut last = None;
    for address in resolve(host, port)? {
        let connected =
            interrupt::aside(move || TcpStream::connect_timeout(&address, CONNECT_LIMIT))?
                .and_then(|stream| Connection::new(stream, address, true));
        match connected {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some((address, error)),
        }
    }
    match last {
        Some((address, error)) => Err(unconnected(host, address, &error)),
        None => Err(
            Failure::environment(format!("'{host}' has no IPv4 address")).with_hint(
                "the control connection is IPv4 only; give an IPv4 address of the server",
            ),
        ),
    }
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let name = (host.to_owned(), port);
    let addresses = interrupt::aside(move || (name.0.as_str(), name.1).to_socket_addrs())?;
    let addresses = addresses.map_err(|error| {
        let text = cause(&error);
        let reason = text
            .strip_prefix("failed to lookup address information: ")
            .unwrap_or(&text);
        let failure = Failure::environment(format!("cannot resolve '{host}': {reason}"));
        match host.contains(':') {
            true => failure.with_hint("the address stands alone: give the port with --port"),
            false => failure.with_hint(
                "check the name, or give the IPv4 address; this has nothing to do with the NIC",
            ),
        }
    })?;
    Ok(addresses.filter(SocketAddr::is_ipv4).collect())
}

fn unconnected(host: &str, address: SocketAddr, error: &io::Error) -> Failure {
    let port = address.port();
    let place = match address.ip() {
        ip if ip.to_string() == host => format!("{host} port {port}"),
        IpAddr::V4(ip) => format!("{host} ({ip}) port {port}"),
        IpAddr::V6(ip) => format!("{host} ({ip}) port {port}"),
    };
    match error.kind() {
        ErrorKind::ConnectionRefused => Failure::environment(format!("nobody listens at {place}"))
            .with_hint("start the server first, and give both sides the same --port"),
        ErrorKind::TimedOut => {
            let limit = CONNECT_LIMIT.as_secs();
            Failure::environment(format!("no answer from {place} within {limit} s")).with_hint(
                "is this the right host, is it up, and does every firewall let this port through?",
            )
        }
        _ => Failure::environment(format!("cannot connect to {place}: {}", cause(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;

    use super::*;

    /// O_NONBLOCK in the octal flags that Linux shows for a descriptor.
    const NONBLOCKING: u32 = 0o4000;

    #[test]
    fn a_look_leaves_the_socket_blocking() {
        let listener = Listener::bind(0, Reach::ThisMachine).unwrap();
        let client = connect("127.0.0.1", listener.port()).unwrap();
        let _server = listener.accept().unwrap();
        assert!(client.look().is_ok());
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", client.stream.as_raw_fd()));
        let info = info.unwrap();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap();
        assert_eq!(
            u32::from_str_radix(flags.trim(), 8).unwrap() & NONBLOCKING,
            0
        );
    }
}
