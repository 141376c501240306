//! Where a NIC is: group, switch and port of the fabric (jobs.md 3.5).

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// Returns the location in the address of a NIC: group bits 19..11, switch bits 10..6, port
    /// bits 5..0 (jobs.md 3.5). The bits above belong to virtual functions. The location is
    /// meaningful only if software has set the MAC address of the NIC.
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
    /// Returns the class of two NICs of different nodes.
    pub fn between(one: Option<Location>, other: Option<Location>) -> Self {
        match (one, other) {
            (Some(one), Some(other)) if one.group != other.group => Self::Fabric,
            (Some(one), Some(other)) if one.switch != other.switch => Self::Group,
            (Some(_), Some(_)) => Self::Switch,
            _ => Self::Unknown,
        }
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
}
