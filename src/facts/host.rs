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

/// Returns whether two names name one host: in any case, and with or without domain. Two names with
/// domains need the same domain.
pub fn is_same_host(one: &str, other: &str) -> bool {
    let both_full = one.contains('.') && other.contains('.');
    let is_equal = one.eq_ignore_ascii_case(other);
    is_equal || !both_full && short_name(one) == short_name(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_host_has_any_case_and_one_domain() {
        for (one, other, is_same) in [
            ("NID1.cluster.example", "nid1", true),
            ("nid1.cluster.example", "NID1.Cluster.Example", true),
            ("nid1.a.example", "nid1.b.example", false),
            ("nid1", "nid2", false),
            ("10.1.1.8", "10.1.1.9", false),
            ("10.1.1.8", "10", false),
        ] {
            assert_eq!(is_same_host(one, other), is_same, "{one} {other}");
            assert_eq!(is_same_host(other, one), is_same, "{other} {one}");
        }
    }

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
