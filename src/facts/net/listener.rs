//! A server's socket, and the connection that gives way to a new one where places are few: hosts
//! share the places.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use rustix::io::Errno;
use rustix::net::{bind, listen, sockopt};

use super::race::{addresses, loopback, new_socket, resolution};
use crate::advice::{Advise, Situation};
use crate::error::{Failure, cause};

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

    /// Returns the port listened on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the socket, to wait for connections. It is non-blocking.
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

/// Returns the error of `accept(2)` if this process or the system has no resources for a
/// connection.
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

/// Returns the index of the connection with the smallest key of the host that has the most
/// `connections`, and the number of connections of this host. Hosts with up to `few` connections
/// count as if they had `few`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
