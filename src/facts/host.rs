//! This host.

use std::collections::HashMap;
use std::net::IpAddr;

use rustix::system::uname;

pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

/// A host without the brackets of an IPv6 address, as in URLs.
pub fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Reads an IP address as users write it: in brackets or without, perhaps with the interface of a
/// link-local address, as in `fe80::1%eth0`, which the result lacks.
pub fn ip_address(host: &str) -> Option<IpAddr> {
    bare(host).split('%').next()?.parse().ok()
}

/// The name of a host without its domain, in small letters, to compare names of different sources.
/// An IP address stays as it is.
pub fn short_name(host: &str) -> String {
    let label = host.split('.').next().filter(|_| ip_address(host).is_none());
    label.unwrap_or(host).to_lowercase()
}

/// Whether two names name one host: in any case, and with or without domain. Two names with domains
/// need the same domain.
pub fn is_same_host(one: &str, other: &str) -> bool {
    let both_full = one.contains('.') && other.contains('.');
    let is_equal = one.eq_ignore_ascii_case(other);
    is_equal || !both_full && short_name(one) == short_name(other)
}

/// A list of names of hosts, in which a host is found by any of its names ([`is_same_host`]).
#[derive(Debug, Default)]
pub struct HostIndex {
    /// Names and their positions, by the short name.
    names: HashMap<String, Vec<(String, usize)>>,
    count: usize,
}

impl HostIndex {
    /// The index of a list.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut index = Self::default();
        names.into_iter().for_each(|name| index.add(name));
        index
    }

    /// Appends a name to the list.
    pub fn add(&mut self, name: &str) {
        let names = self.names.entry(short_name(name)).or_default();
        names.push((name.to_owned(), self.count));
        self.count += 1;
    }

    /// The position of a host: of the equal name, else of the first name of the same host.
    pub fn find(&self, host: &str) -> Option<usize> {
        self.entry(host).map(|(_, position)| *position)
    }

    /// The name that the list has for a host; `host` itself if the list lacks it.
    pub fn name<'a>(&'a self, host: &'a str) -> &'a str {
        self.entry(host).map_or(host, |(name, _)| name)
    }

    fn entry(&self, host: &str) -> Option<&(String, usize)> {
        let names = self.names.get(&short_name(host))?;
        let equal = names.iter().find(|(name, _)| name == host);
        equal.or_else(|| names.iter().find(|(name, _)| is_same_host(name, host)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_hosts_by_other_forms_of_their_names() {
        let names = ["nid1", "NID2.a.example", "nid2.b.example", "10.1.1.8"];
        let index = HostIndex::new(names);
        for (host, position) in [
            ("nid1.a.example", Some(0)),
            ("nid2.b.example", Some(2)),
            ("NID2.B.example", Some(2)),
            ("nid2", Some(1)),
            ("nid2.c.example", None),
            ("10.1.1.8", Some(3)),
            ("10.1.1.9", None),
        ] {
            assert_eq!(index.find(host), position, "{host}");
            assert_eq!(index.name(host), position.map_or(host, |at| names[at]));
        }
    }

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
            ("fe80::1%eth0.100", "fe80::1%eth0.100"),
            ("[::ffff:10.1.1.8]", "[::ffff:10.1.1.8]"),
        ] {
            assert_eq!(short_name(host), short);
        }
    }
}
