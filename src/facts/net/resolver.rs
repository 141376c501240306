//! Names of hosts -> addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::{Failure, cause};
use crate::interrupt;

/// Returns the addresses of a host. An IPv6 address may be in brackets, as in URLs.
///
/// # Errors
///
/// An interruption. The inner error comes from the resolver.
pub fn addresses(host: &str, port: u16) -> Result<io::Result<Vec<SocketAddr>>, Failure> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = (bare.to_owned(), port);
    interrupt::aside(move || Ok((name.0.as_str(), name.1).to_socket_addrs()?.collect()))
}

/// Returns the text of the resolver for why a name has no address.
pub fn resolution(error: &io::Error) -> String {
    let text = cause(error);
    match text.strip_prefix("failed to lookup address information: ") {
        Some(reason) => reason.to_owned(),
        None => text,
    }
}
