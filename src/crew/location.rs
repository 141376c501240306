//! Where a NIC is: group, switch and port of the fabric. Where the address of a NIC does not show
//! it: by a file of the user, or by what Slurm knows about its nodes (jobs.md 3.5).

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::host_list;

/// The place of a NIC on the fabric. Its numbers come from the address of the NIC, or from the
/// user's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Location {
    /// Group of switches.
    pub group: u16,
    /// Switch in the group.
    pub switch: u16,
    /// Port of the switch; null if only the switch is known.
    pub port: Option<u16>,
}

impl Location {
    /// The location in the address of a NIC: group bits 19..11, switch bits 10..6, port bits 5..0
    /// (jobs.md 3.5). The bits above belong to virtual functions. The location is meaningful only
    /// if software has set the MAC address of the NIC.
    pub fn from_nid(nid: u32) -> Self {
        Self {
            group: (nid >> 11 & 0x1ff) as u16,
            switch: (nid >> 6 & 0x1f) as u16,
            port: Some((nid & 0x3f) as u16),
        }
    }
}

impl fmt::Display for Location {
    /// Writes `ggg.ss.pp`, as dgnettest does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}.{:02}", self.group, self.switch)?;
        self.port.map_or(Ok(()), |port| write!(f, ".{port:02}"))
    }
}

facts::named_enum! {
    /// The smallest part of the fabric that both NICs of a pair share. Latencies differ by class.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    pub enum Class {
        /// A NIC with itself.
        #[serde(rename = "loopback")]
        Loopback = "loopback",
        /// NICs of one node.
        #[serde(rename = "same node")]
        Node = "same node",
        /// NICs at one switch.
        #[serde(rename = "same switch")]
        Switch = "same switch",
        /// NICs of one group of switches.
        #[serde(rename = "same group")]
        Group = "same group",
        /// NICs of different groups.
        #[serde(rename = "other group")]
        Fabric = "other group",
        /// NICs of different nodes, of which one has no known location.
        #[serde(rename = "no location")]
        Unknown = "no location",
    }
    /// Returns its name in texts, in columns and in JSON.
    pub fn name(self);
}

impl Class {
    /// The class of two NICs of different nodes.
    pub fn between(one: Option<Location>, other: Option<Location>) -> Self {
        match (one, other) {
            (Some(one), Some(other)) if one.group != other.group => Self::Fabric,
            (Some(one), Some(other)) if one.switch != other.switch => Self::Group,
            (Some(_), Some(_)) => Self::Switch,
            _ => Self::Unknown,
        }
    }
}

/// The names of the switch and the group of a host.
struct NamedSwitch<'a> {
    switch: &'a str,
    group: &'a str,
}

/// The locations of the hosts in a file: host, switch and group on each line, divided by blanks.
/// The host may be a list, such as `nid[1-16]`. Blank lines and text after `#` do not count.
/// Switches and groups are numbers or names.
///
/// # Errors
///
/// An invalid line, and a host on two lines.
pub fn file_locations(text: &str) -> Result<HashMap<String, Location>, String> {
    let mut places = HashMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let invalid = |reason: String| format!("line {number}: {reason}");
        let fields = line.split('#').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [list, switch, group] = fields[..] else {
            if fields.is_empty() {
                continue;
            }
            return Err(invalid("expected host, switch and group".into()));
        };
        for host in host_list::expand(list).map_err(invalid)? {
            if places.contains_key(&host) {
                return Err(invalid(format!("{host} is on a line before this one")));
            }
            places.insert(host, NamedSwitch { switch, group });
        }
        if places.len() > host_list::MOST_HOSTS {
            return Err(invalid(format!("more than {} hosts", host_list::MOST_HOSTS)));
        }
    }
    Ok(numbered(places))
}

/// The locations of hosts from the switches above them, `s0.s4`, from the top of the tree down
/// ([`crate::launcher::LauncherTask`]). The group is the switch above the switch of the host.
pub fn topology_locations<'a>(
    hosts: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> HashMap<String, Location> {
    let places = hosts.into_iter().map(|(host, switches)| {
        let mut upward = switches.rsplit('.');
        let [switch, group] = [(); 2].map(|()| upward.next().unwrap_or_default());
        (host.to_owned(), NamedSwitch { switch, group })
    });
    numbered(places.collect())
}

/// Replaces the names of switches and groups by numbers.
fn numbered(places: HashMap<String, NamedSwitch>) -> HashMap<String, Location> {
    let switches = numbers(places.values().map(|place| place.switch).collect());
    let groups = numbers(places.values().map(|place| place.group).collect());
    let located = places.into_iter().map(|(host, place)| {
        let location =
            Location { group: groups[place.group], switch: switches[place.switch], port: None };
        (host, location)
    });
    located.collect()
}

/// A number for each name: the one at its end, if the names differ only in that number. Otherwise
/// names are counted in their order.
fn numbers(names: BTreeSet<&str>) -> HashMap<&str, u16> {
    let start = |name: &&str| name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let prefixes: BTreeSet<&str> = names.iter().map(|name| &name[..start(name)]).collect();
    let number = |name: &&str| name[start(name)..].parse().ok();
    let own: BTreeSet<u16> = names.iter().filter_map(number).collect();
    if prefixes.len() == 1 && own.len() == names.len() {
        names.into_iter().filter_map(|name| Some((name, number(&name)?))).collect()
    } else {
        names.into_iter().zip(0..=u16::MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_address_of_example() {
        // jobs.md 3.5
        let location = Location::from_nid(0x007ea);
        assert_eq!(location.to_string(), "000.31.42");
        assert_eq!(Location::from_nid(0x3007ea), location, "a virtual function");
    }

    #[test]
    fn class_has_one_name_in_text_and_json() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }

    #[test]
    fn class_is_smallest_shared_part() {
        let at = |group, switch, port| Some(Location { group, switch, port: Some(port) });
        for (one, other, expected) in [
            (at(1, 2, 3), at(1, 2, 4), Class::Switch),
            (at(1, 2, 3), at(1, 3, 3), Class::Group),
            (at(1, 2, 3), at(2, 2, 3), Class::Fabric),
            (at(1, 2, 3), None, Class::Unknown),
        ] {
            assert_eq!(Class::between(one, other), expected);
        }
    }

    /// Returns hosts and locations as a text, in the order of the hosts.
    fn text(locations: HashMap<String, Location>) -> String {
        let mut lines: Vec<String> =
            locations.into_iter().map(|(host, location)| format!("{host} {location}")).collect();
        lines.sort();
        lines.join(", ")
    }

    #[test]
    fn reads_file_of_hosts() {
        let file = "# host switch group\n\nnid[1-2] 4 0\n nid3\t12 1 # the last one\n";
        let locations = file_locations(file).unwrap();
        assert_eq!(text(locations), "nid1 000.04, nid2 000.04, nid3 001.12");
        assert_eq!(file_locations("").unwrap(), HashMap::new());
    }

    #[test]
    fn numbers_names_of_switches_and_groups() {
        for (file, expected) in [
            ("a sw10 g1\nb sw2 g1\nc sw010x g1", "a 001.01, b 001.02, c 001.00"),
            ("a sw10 g007\nb sw2 g1", "a 007.10, b 001.02"),
            ("a s1 east\nb s01 west", "a 000.01, b 001.00"),
            ("a s70000 1\nb s1 x1", "a 000.01, b 001.00"),
        ] {
            assert_eq!(text(file_locations(file).unwrap()), expected, "{file}");
        }
    }

    #[test]
    fn refuses_invalid_lines() {
        for (file, reason) in [
            ("a 1 2\nb 1", "line 2: expected host, switch and group"),
            ("a 1 2 3", "line 1: expected host, switch and group"),
            ("a] 1 2", "line 1: ']' without '['"),
            ("a[1-2] 1 2\na2 1 2", "line 2: a2 is on a line before this one"),
            ("a[1-65536] 1 2\nb 1 2", "line 2: more than 65536 hosts"),
        ] {
            assert_eq!(file_locations(file), Err(reason.into()), "{file}");
        }
    }

    #[test]
    fn numbers_as_many_names_as_there_are_numbers() {
        let names: Vec<String> = (0..=u16::MAX).map(|name| format!("{name}x")).collect();
        let numbers = numbers(names.iter().map(String::as_str).collect());
        assert_eq!(numbers.values().max(), Some(&u16::MAX));
    }

    #[test]
    fn reads_topology_of_slurm() {
        let hosts = [("nid8", "s0.s4"), ("nid9", "s0.s5"), ("nid10", "s1.s4")];
        let expected = "nid10 001.04, nid8 000.04, nid9 000.05";
        assert_eq!(text(topology_locations(hosts)), expected);
        assert_eq!(text(topology_locations([("nid1", "s7")])), "nid1 000.07");
        assert_eq!(text(topology_locations([("a", "top.s1.leaf3")])), "a 001.03");
    }
}
