//! TCP without a protocol.
//!
//! * Names of hosts -> addresses, and connections to the first of several addresses that answers
//!   (RFC 8305, section 5).
//! * A server's socket, and the connection that gives way to a new one where places are few: hosts
//!   share the places.
//! * Messages with their length before them, from bytes in pieces of any size (wire.md 2).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};

use crate::advice::{Advise, Situation};
use crate::error::{Failure, cause};
use crate::host::bare;
use crate::interrupt;

/// Time between the starts of two attempts, while neither has an answer.
const STAGGER: Duration = Duration::from_millis(250);

/// A TCP socket for an address, which blocks nothing.
fn new_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

/// Begins to connect, without waiting.
///
/// # Errors
///
/// An address without a route, and the limit of open files.
fn begin(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = new_socket(address)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Returns why an address of this machine or another one cannot be reached.
pub fn reason(address: SocketAddr, error: &io::Error) -> String {
    let text = cause(error);
    if address.ip().is_loopback() && error.kind() == ErrorKind::NetworkUnreachable {
        return format!("{text}: the interface lo is down or lacks the address");
    }
    text
}

/// The address at which processes of this machine reach each other: ::1 if the machine has no
/// other.
pub fn loopback() -> IpAddr {
    let is_missing = |address: IpAddr| UdpSocket::bind((address, 0)).is_err();
    let (old, new) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    if is_missing(old) && !is_missing(new) { new } else { old }
}

/// Checks that processes of this machine can connect to each other.
///
/// # Errors
///
/// A network namespace whose loopback interface is down.
pub fn check_loopback() -> Result<(), Failure> {
    let address = SocketAddr::from((loopback(), 1));
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // A datagram socket finds the route, and sends nothing.
    let socket = UdpSocket::bind(any);
    match socket.and_then(|socket| socket.connect(address)) {
        Err(error) if error.kind() == ErrorKind::NetworkUnreachable => Err(Failure::environment(
            format!("cannot connect to processes of this machine: {}", reason(address, &error)),
        )
        .with_hint("`ip link set lo up` as root of the network namespace")),
        // Any other error comes from the connection itself.
        _ => Ok(()),
    }
}

/// An attempt that has no answer yet.
struct ConnectAttempt {
    address: SocketAddr,
    socket: OwnedFd,
    until: Instant,
}

/// Connects to the first of `addresses` that answers. An attempt begins `STAGGER` after the one
/// before, or when that fails, and takes `limit` at most.
///
/// # Errors
///
/// Why each address has failed, in the order of the failures.
pub fn connect_first(
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<(TcpStream, SocketAddr), Vec<(SocketAddr, io::Error)>> {
    let mut waiting = addresses.iter().copied().peekable();
    let mut next_start = Instant::now();
    let mut attempts: Vec<ConnectAttempt> = Vec::new();
    let mut failed = Vec::new();
    loop {
        let now = Instant::now();
        if (attempts.is_empty() || now >= next_start)
            && let Some(address) = waiting.next()
        {
            match begin(address) {
                Ok(socket) => attempts.push(ConnectAttempt { address, socket, until: now + limit }),
                Err(error) => {
                    failed.push((address, error));
                    continue;
                }
            }
            next_start = now + STAGGER;
        }
        let start = waiting.peek().map(|_| next_start);
        let ends = attempts.iter().map(|attempt| attempt.until);
        let Some(next) = ends.chain(start).min() else {
            return Err(failed);
        };
        let answered = answered(&attempts, next.saturating_duration_since(now));
        // A later index first: removal moves only what follows.
        for index in (0..attempts.len()).rev() {
            let attempt = &attempts[index];
            let outcome = match answered[index] {
                // Without getsockopt(2), the address of the peer shows whether it is connected.
                true => sockopt::socket_error(&attempt.socket).unwrap_or(Ok(())),
                false if Instant::now() >= attempt.until => Err(Errno::TIMEDOUT),
                false => continue,
            };
            let ConnectAttempt { address, socket, .. } = attempts.remove(index);
            match outcome.map_err(io::Error::from).and_then(|()| blocking(socket)) {
                Ok(stream) => return Ok((stream, address)),
                Err(error) => failed.push((address, error)),
            }
            next_start = Instant::now();
        }
    }
}

/// Waits until an attempt has an answer, for `within` at most. Returns which of them have.
fn answered(attempts: &[ConnectAttempt], within: Duration) -> Vec<bool> {
    let mut sockets: Vec<_> =
        attempts.iter().map(|attempt| PollFd::new(&attempt.socket, PollFlags::OUT)).collect();
    // A wait that a signal interrupts ends early.
    let _ = poll(&mut sockets, Timespec::try_from(within).ok().as_ref());
    let sockets = sockets.iter();
    sockets.map(|socket| !socket.revents().is_empty()).collect()
}

/// The stream, which waits. TCP permits a connection of a socket to itself, if no server listens
/// and the kernel assigns the client the very port that it connects to: it is refused.
fn blocking(socket: OwnedFd) -> io::Result<TcpStream> {
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// Addresses for the tests of connections.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use rustix::net::{bind, getsockname, listen};

    use super::*;

    /// An address that drops what comes to it, and the sockets that fill its queue of connections.
    pub fn silent(host: [u8; 4]) -> (SocketAddr, Vec<OwnedFd>) {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        bind(&socket, &SocketAddr::from((host, 0))).unwrap();
        listen(&socket, 0).unwrap();
        let address = getsockname(&socket).unwrap().try_into().unwrap();
        let filling = (0..4).map(|_| begin(address).unwrap());
        (address, filling.chain([socket]).collect())
    }
}

/// The addresses of a host. An IPv6 address may be in brackets, as in URLs.
///
/// # Errors
///
/// An interruption. The inner error comes from the resolver, or says that a link-local address
/// lacks its interface, without which the kernel takes no such address.
pub fn addresses(host: &str, port: u16) -> Result<io::Result<Vec<SocketAddr>>, Failure> {
    let name = (bare(host).to_owned(), port);
    interrupt::aside(move || {
        let mut found: Vec<_> = (name.0.as_str(), name.1).to_socket_addrs()?.collect();
        let lacks_interface = |address: &SocketAddr| match address {
            SocketAddr::V6(own) => own.ip().is_unicast_link_local() && own.scope_id() == 0,
            SocketAddr::V4(_) => false,
        };
        if !found.is_empty() && found.iter().all(lacks_interface) {
            let why = format!("a link-local address needs its interface: {}%eth0", found[0].ip());
            return Err(io::Error::other(why));
        }
        found.retain(|address| !lacks_interface(address));
        Ok(found)
    })
}

/// The text of the resolver for why a name has no address.
pub fn resolution(error: &io::Error) -> String {
    let text = cause(error);
    match text.strip_prefix("failed to lookup address information: ") {
        Some(reason) => reason.to_owned(),
        None => text,
    }
}

/// Connections that the kernel keeps until they are accepted; it may reduce this number.
const BACKLOG: i32 = 4096;

/// Which clients can connect to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Clients on any machine.
    Everywhere,
    /// Clients on this machine.
    ThisMachine,
}

/// A listening socket. After it is dropped, the kernel refuses connections.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    port: u16,
}

impl Listener {
    /// Listens on `port` (0: any free port) at the address `at`, or without it at all addresses of
    /// `reach`.
    ///
    /// # Errors
    ///
    /// A port that is in use or reserved, an address that is not of this machine, an interruption.
    pub fn bind(at: Option<&str>, port: u16, reach: Reach) -> Result<Self, Failure> {
        let addresses = match (at, reach) {
            (Some(name), _) => {
                addresses(name, port)?.map_err(|error| cannot(at, port, &resolution(&error)))?
            }
            (None, Reach::ThisMachine) => vec![(loopback(), port).into()],
            // IPv4 alone if the machine has no IPv6.
            (None, Reach::Everywhere) => vec![
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            ],
        };
        let mut first_error = None;
        for address in addresses {
            match open(address) {
                Ok(listener) => return Ok(listener),
                Err(error) => {
                    // The next address may work if this one does not exist on this machine.
                    let next = matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)
                    );
                    first_error.get_or_insert(error);
                    if !next {
                        break;
                    }
                }
            }
        }
        let error = first_error.unwrap_or_else(|| ErrorKind::AddrNotAvailable.into());
        let failure = cannot(at, port, &cause(&error));
        Err(match error.kind() {
            ErrorKind::AddrInUse => {
                cannot(at, port, "another program uses it").advised(Situation::PortInUse)
            }
            ErrorKind::PermissionDenied if error.raw_os_error() == Some(libc::EACCES) => {
                failure.advised(Situation::PortReserved)
            }
            ErrorKind::AddrNotAvailable => failure.advised(Situation::NotOurAddress),
            _ => failure,
        })
    }

    /// Takes over a socket that listens already.
    ///
    /// # Errors
    ///
    /// A socket without an address.
    pub fn from_socket(socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        Ok(Self { socket, port })
    }

    /// The port listened on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The socket, to wait for connections. It is non-blocking.
    pub fn socket(&self) -> &TcpListener {
        &self.socket
    }

    /// Accepts the next pending connection, if there is one.
    ///
    /// # Errors
    ///
    /// The errors of `accept(2)`.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        match self.socket.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                // An IPv4 peer of an IPv6 socket is shown with its IPv4 address.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                Ok(Some((stream, peer)))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The error of `accept(2)` if this process or the system has no resources for a connection.
pub fn out_of(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error).filter(|errno| {
        matches!(*errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    })
}

fn open(address: SocketAddr) -> io::Result<Listener> {
    let socket = new_socket(address)?;
    // A server may start on the port of one that has just ended.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // The unspecified address accepts IPv4 as well, independent of the system's default.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Listener::from_socket(socket.into())
}

fn cannot(at: Option<&str>, port: u16, reason: &str) -> Failure {
    let place = at.map_or(String::new(), |at| format!(" of {at}"));
    Failure::environment(format!("cannot listen on TCP port {port}{place}: {reason}"))
}

/// The index of the connection with the smallest key of the host that has the most `connections`,
/// and the number of connections of this host. Hosts with up to `few` connections count as if they
/// had `few`.
pub fn first_of_largest_host<K: Ord>(
    connections: impl Iterator<Item = (IpAddr, K)> + Clone,
    few: usize,
) -> Option<(usize, usize)> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (host, _) in connections.clone() {
        *counts.entry(host).or_default() += 1;
    }
    let weighed = connections.enumerate();
    let weighed = weighed.map(|(index, (host, key))| (counts[&host].max(few), Reverse(key), index));
    weighed.max().map(|(count, _, index)| (index, count))
}

/// Size of the length before each payload, in bytes.
pub const HEADER_SIZE: usize = 4;

/// The bytes of a message: length, then payload.
pub fn message(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// Bytes that are read at first, header included. More are read as many at a time as have arrived.
const FIRST: usize = 1 << 10;

/// An incoming message, assembled from pieces of any size. It requests no byte beyond its end: the
/// next message stays in the socket. Its memory follows what has arrived, not what is announced.
#[derive(Debug)]
pub struct Incoming {
    /// The header, followed by the part of the payload that is read next or has arrived.
    bytes: Vec<u8>,
    filled: usize,
    /// Where the header ends, or the message once its length is known.
    end: usize,
    most: usize,
}

/// The peer announced a payload of this many bytes, which is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub u32);

impl Incoming {
    /// Creates an empty message with at most `most` payload bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), filled: 0, end: HEADER_SIZE, most }
    }

    /// The space for the next bytes; never empty.
    pub fn room(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            self.bytes.resize(self.end.min(FIRST.max(2 * self.filled)), 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Takes the first `more` bytes of the space as received. Returns the payload when it is
    /// complete; the next message begins then.
    ///
    /// # Errors
    ///
    /// A payload over the limit.
    pub fn advance(&mut self, more: usize) -> Result<Option<Vec<u8>>, TooLong> {
        self.filled += more;
        if self.filled < self.end {
            return Ok(None);
        }
        if let Ok(header) = <[u8; HEADER_SIZE]>::try_from(&self.bytes[..]) {
            let length = u32::from_le_bytes(header);
            if length as usize > self.most {
                return Err(TooLong(length));
            }
            self.end += length as usize;
            if length > 0 {
                return Ok(None);
            }
        }
        // A long message leaves no memory behind: a process may have thousands of connections.
        let Self { bytes: mut payload, .. } = std::mem::replace(self, Self::new(self.most));
        payload.drain(..HEADER_SIZE);
        Ok(Some(payload))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;
    use crate::net::testing::silent;

    /// Long enough for every test: none waits for it.
    const LIMIT: Duration = Duration::from_secs(600);

    #[test]
    fn reaches_address_behind_silent_ones() {
        let silent = [2, 3, 4].map(|host| silent([127, 0, 0, host]));
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = server.local_addr().unwrap();
        let mut addresses: Vec<_> = silent.iter().map(|(address, _)| *address).collect();
        addresses.push(good);
        let (stream, address) = connect_first(&addresses, LIMIT).unwrap();
        assert_eq!(address, good);
        assert_eq!(stream.peer_addr().unwrap(), good);
    }

    #[test]
    fn says_why_each_address_fails() {
        let (silent, _sockets) = silent([127, 0, 0, 5]);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = server.local_addr().unwrap();
        drop(server);
        let failed = connect_first(&[silent, closed], Duration::from_secs(1)).unwrap_err();
        let kinds = failed.iter().map(|(address, error)| (*address, error.kind()));
        let expected = [(closed, ErrorKind::ConnectionRefused), (silent, ErrorKind::TimedOut)];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
        assert!(connect_first(&[], LIMIT).unwrap_err().is_empty());
    }

    #[test]
    fn chooses_smallest_key_of_the_host_with_most_connections() {
        let chosen = |connections: &[(u8, u32)], few| {
            let connections = connections.iter();
            let connections =
                connections.map(|(host, key)| (IpAddr::from([10, 0, 0, *host]), *key));
            first_of_largest_host(connections, few)
        };
        assert_eq!(chosen(&[], 0), None);
        let three = [(1, 9), (2, 0), (1, 7), (1, 8)];
        assert_eq!(chosen(&three, 2), Some((2, 3)));
        assert_eq!(chosen(&three, 3), Some((1, 3)));
        // Of two hosts with as many connections, the smallest key decides.
        assert_eq!(chosen(&[(1, 5), (2, 4), (1, 6), (2, 7)], 0), Some((1, 2)));
    }

    /// All messages in `bytes`, received in pieces of at most `piece` bytes.
    fn messages(bytes: &[u8], piece: usize, most: usize) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut incoming = Incoming::new(most);
        let mut messages = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = incoming.room();
            let taken = room.len().min(piece).min(rest.len());
            room[..taken].copy_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            messages.extend(incoming.advance(taken)?);
        }
        Ok(messages)
    }

    #[test]
    fn refuses_payload_over_limit() {
        assert_eq!(messages(&message(&[7; 9]), 99, 8), Err(TooLong(9)));
        assert_eq!(messages(&message(&[7; 8]), 99, 8), Ok(vec![vec![7; 8]]));
        assert_eq!(messages(b"GET / HTTP/1.1", 99, 1020), Err(TooLong(542_393_671)));
        assert_eq!(messages(&[], 99, 0), Ok(vec![]));
    }

    #[test]
    fn memory_follows_what_has_arrived() {
        let mut incoming = Incoming::new(1 << 24);
        incoming.room().copy_from_slice(&(1_u32 << 24).to_le_bytes());
        assert_eq!(incoming.advance(HEADER_SIZE), Ok(None));
        let mut arrived = HEADER_SIZE;
        let payload = loop {
            let room = incoming.room().len();
            assert!(room <= FIRST.max(arrived), "{room} bytes after {arrived}");
            assert!(incoming.bytes.capacity() <= 2 * FIRST.max(arrived), "after {arrived}");
            arrived += room;
            if let Some(payload) = incoming.advance(room).unwrap() {
                break payload;
            }
        };
        assert_eq!(payload.len(), 1 << 24);
        assert_eq!(incoming.bytes.capacity(), 0);
    }

    proptest! {
        #[test]
        fn messages_come_back_from_pieces(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
            piece in 1..50_usize,
        ) {
            let bytes: Vec<u8> = payloads.iter().flat_map(|payload| message(payload)).collect();
            prop_assert_eq!(messages(&bytes, piece, 40), Ok(payloads));
        }
    }
}
