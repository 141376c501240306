//! This host.

use std::net::IpAddr;

use rustix::system::uname;

/// Returns the name of this host.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// Returns the name of a host without its domain, in small letters, to compare names of different
/// sources. An IP address stays as it is.
pub fn short_name(host: &str) -> String {
    let is_address = host.parse::<IpAddr>().is_ok();
    let label = host.split('.').next().filter(|_| !is_address);
    label.unwrap_or(host).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_have_neither_domain_nor_capitals() {
        for (host, short) in [
            ("NID1.cluster.example", "nid1"),
            ("nid1", "nid1"),
            ("10.1.1.8", "10.1.1.8"),
            ("fe80::1", "fe80::1"),
        ] {
            assert_eq!(short_name(host), short);
        }
    }
}
