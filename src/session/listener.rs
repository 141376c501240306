//! A server's socket.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::Reach;
use super::connect::addresses;
use super::connect::resolution;
use crate::advice::{Situation, remedy};
use crate::error::{Failure, cause};

/// Connections that the kernel keeps until they are accepted: as many as it allows.
const BACKLOG: i32 = 4096;

/// A socket that listens. Dropping it refuses whoever comes next.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    port: u16,
}

impl Listener {
    /// Listens on `port` (0: any free one) at the address `at`; without one, wherever `reach` says.
    pub fn bind(at: Option<&str>, port: u16, reach: Reach) -> Result<Self, Failure> {
        let addresses = match (at, reach) {
            (Some(name), _) => {
                addresses(name, port)?.map_err(|error| cannot(at, port, &resolution(&error)))?
            }
            (None, Reach::ThisMachine) => vec![(Ipv4Addr::LOCALHOST, port).into()],
            // IPv4 alone where the machine has no IPv6.
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
                    // The other addresses are a way out where one does not exist here.
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
            ErrorKind::AddrInUse => cannot(at, port, "another program listens there")
                .with_hint(remedy(Situation::PortInUse)),
            ErrorKind::PermissionDenied => failure.with_hint(remedy(Situation::PortReserved)),
            ErrorKind::AddrNotAvailable => failure.with_hint(remedy(Situation::NotOurAddress)),
            _ => failure,
        })
    }

    /// The port listened on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The socket, to wait for connections. It does not block.
    pub fn socket(&self) -> &TcpListener {
        &self.socket
    }

    /// The next connection that is there.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        match self.socket.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                // An IPv4 peer of a socket for both is shown as one.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                Ok(Some((stream, peer)))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn open(address: SocketAddr) -> io::Result<Listener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // A server starts again right after another.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if family == AddressFamily::INET6 {
        // The unspecified address is for IPv4, too, whatever the system's default is.
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    let socket = TcpListener::from(socket);
    let port = socket.local_addr()?.port();
    Ok(Listener { socket, port })
}

fn cannot(at: Option<&str>, port: u16, reason: &str) -> Failure {
    let place = at.map_or(String::new(), |at| format!(" of {at}"));
    Failure::environment(format!("cannot listen on TCP port {port}{place}: {reason}"))
}
