//! Names of hosts -> addresses, and connections to the first of several addresses that answers (RFC
//! 8305, section 5).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::error::{Failure, cause};
use crate::host::bare;
use crate::interrupt;

/// Time between the starts of two attempts, while neither has an answer.
pub const STAGGER: Duration = Duration::from_millis(250);

/// Returns a TCP socket for an address, which blocks nothing.
pub(super) fn new_socket(address: SocketAddr) -> io::Result<OwnedFd> {
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
pub fn begin(address: SocketAddr) -> io::Result<OwnedFd> {
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

/// Returns the address at which processes of this machine reach each other: ::1 if the
/// machine has no other.
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

/// Connects to the first of `addresses` that answers. An attempt begins [`STAGGER`] after the one
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

/// Returns the stream, which waits. TCP permits a connection of a socket to itself, if no server
/// listens and the kernel assigns the client the very port that it connects to: it is refused.
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

    /// Returns an address that drops what comes to it, and the sockets that fill its queue of
    /// connections.
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

/// Returns the addresses of a host. An IPv6 address may be in brackets, as in URLs.
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

/// Returns the text of the resolver for why a name has no address.
pub fn resolution(error: &io::Error) -> String {
    let text = cause(error);
    match text.strip_prefix("failed to lookup address information: ") {
        Some(reason) => reason.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::testing::silent;
    use super::*;

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
}
