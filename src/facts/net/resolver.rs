//! Names of hosts -> addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::{Failure, cause};
use crate::host::bare;
use crate::interrupt;

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
