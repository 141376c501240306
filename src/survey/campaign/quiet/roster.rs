//! The nodes and NICs of a survey, and the parts of a cluster that NICs and pairs belong to.

use serde::{Deserialize, Serialize};

use super::answer::Pair;
use super::findings::Unit;
use super::ids::{NicId, NodeId, Role};
use crew::location::{Class, Location};
use facts::device::DeviceName;
use facts::host::HostIndex;

/// Why a node that has joined is absent: its process has no NIC to measure with.
pub const NO_NIC: &str = "it has no NIC";

/// A node, and the process that measures on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Node {
    /// Name of the host. It is the expected one if the process is absent, and "rank N" if that is
    /// unknown.
    pub host: String,
    /// Rank of the process in the launcher's numbering.
    pub rank: u32,
    /// Why no pair of this node is measured, or measured any longer; null if nothing prevents it.
    pub absent: Option<String>,
}

/// A NIC of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Nic {
    /// Index of its node.
    pub node: NodeId,
    /// Name of the device: `cxi0`.
    pub device: String,
    /// Address of the NIC on the fabric; null if it could not be opened.
    pub nid: Option<u32>,
    /// Where it is; null if that is not known.
    pub location: Option<Location>,
    /// Why it is not measured with, or not any longer; null if nothing prevents it.
    pub failure: Option<String>,
}

/// All nodes and NICs. Pairs and results name NICs by their index in `nics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Roster {
    /// The nodes, by rank.
    pub nodes: Vec<Node>,
    /// The NICs, by node and device.
    pub nics: Vec<Nic>,
    /// Speed of all links, in Gb/s; null if one is unknown, or not all have the same.
    #[serde(default)]
    pub link_gbps: Option<u32>,
}

impl Roster {
    /// Returns a NIC.
    pub fn nic(&self, nic: NicId) -> &Nic {
        &self.nics[nic.index()]
    }

    /// Returns whether the CPUs of its machine do the work of a NIC.
    pub fn runs_on_cpus(&self, nic: NicId) -> bool {
        DeviceName::names(&self.nic(nic).device, |platform| platform.runs_on_cpus)
    }

    /// Returns whether a NIC is not a software NIC.
    pub fn has_hardware(&self) -> bool {
        let mut devices = self.nics.iter().map(|nic| &nic.device);
        devices.any(|device| !DeviceName::names(device, |platform| platform.is_simulated))
    }

    /// Returns a node.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// Returns the node of a NIC.
    pub fn node_of(&self, nic: NicId) -> &Node {
        self.node(self.nic(nic).node)
    }

    /// Returns the location of a NIC, if it is known.
    pub fn location(&self, nic: NicId) -> Option<Location> {
        self.nic(nic).location
    }

    /// Notes that no pair of a node is measured any longer, unless a reason is known already.
    pub fn set_absent(&mut self, node: NodeId, reason: &str) {
        let absent = &mut self.nodes[node.index()].absent;
        absent.get_or_insert_with(|| reason.to_owned());
    }

    /// Notes that a NIC is not measured any longer, unless a reason is known already.
    pub fn set_failed(&mut self, nic: NicId, reason: &str) {
        let failure = &mut self.nics[nic.index()].failure;
        failure.get_or_insert_with(|| reason.to_owned());
    }

    /// Returns all NICs.
    pub fn nic_ids(&self) -> impl Iterator<Item = NicId> + Clone + use<> {
        NicId::first(self.nics.len())
    }

    /// Returns all nodes.
    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + Clone + use<> {
        NodeId::first(self.nodes.len())
    }

    /// Returns the name of a NIC in texts: `nid000417 cxi1`.
    pub fn name(&self, nic: NicId) -> String {
        format!("{} {}", self.node_of(nic).host, self.nic(nic).device)
    }

    /// Returns the names of the hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.host.as_str())
    }

    /// Returns the name of a NIC with the name that `hosts` has for its host. Two surveys may have
    /// the names of hosts from different sources.
    pub fn name_among(&self, hosts: &HostIndex, nic: NicId) -> String {
        let host = hosts.name(&self.node_of(nic).host);
        format!("{host} {}", self.nic(nic).device)
    }

    /// Returns the class of a pair of NICs.
    pub fn class(&self, pair: Pair) -> Class {
        let [first, second] = pair.nics().map(|nic| self.nic(nic));
        if pair.is_loopback() {
            Class::Loopback
        } else if first.node == second.node {
            Class::Node
        } else {
            Class::between(first.location, second.location)
        }
    }
}

/// Returns the NICs of a part; none for paths and pairs of groups.
pub fn members(unit: Unit, roster: &Roster) -> Vec<NicId> {
    let is_in = |nic: &NicId| {
        let own = roster.nic(*nic);
        match unit {
            Unit::Switch { group, switch } => {
                own.location.is_some_and(|place| (place.group, place.switch) == (group, switch))
            }
            Unit::Group(group) => own.location.is_some_and(|place| place.group == group),
            _ => false,
        }
    };
    match unit {
        Unit::Nic(nic) => vec![nic],
        Unit::Node(node) => {
            let first = roster.nics.partition_point(|nic| nic.node < node);
            let end = roster.nics.partition_point(|nic| nic.node <= node);
            (first as u32..end as u32).map(NicId).collect()
        }
        Unit::GroupPair(..) | Unit::Path(_) => Vec::new(),
        Unit::Switch { .. } | Unit::Group(_) => roster.nic_ids().filter(is_in).collect(),
    }
}

/// Returns the parts that a NIC belongs to, the smallest first.
pub fn parts_of_nic(roster: &Roster, nic: NicId) -> [Option<Unit>; 4] {
    let own = roster.nic(nic);
    let place = own.location;
    [
        Some(Unit::Nic(nic)),
        Some(Unit::Node(own.node)),
        place.map(|place| Unit::Switch { group: place.group, switch: place.switch }),
        place.map(|place| Unit::Group(place.group)),
    ]
}

/// Returns the larger parts of the fabric that a pair belongs to: switches and groups of both NICs,
/// each once, and the pair of groups.
pub fn parts_of_pair(roster: &Roster, pair: Pair) -> [Option<Unit>; 5] {
    let [one, other] = pair.nics().map(|nic| roster.location(nic));
    let switch = |place: Location| Unit::Switch { group: place.group, switch: place.switch };
    let (one_unit, other_unit) = (one.map(switch), other.map(switch));
    let (group, other_group) = (one.map(|place| place.group), other.map(|place| place.group));
    if pair.is_loopback() {
        return [None; 5];
    }
    [
        one_unit,
        other_unit.filter(|_| one_unit != other_unit),
        group.map(Unit::Group),
        other_group.filter(|_| group != other_group).map(Unit::Group),
        group_pair(roster, pair),
    ]
}

/// Returns the groups of a pair between two groups.
pub fn group_pair(roster: &Roster, pair: Pair) -> Option<Unit> {
    crossing(roster, pair).map(|(unit, _)| unit)
}

/// Returns the groups of a pair between two groups, and the role of the group with the smaller
/// number.
pub fn crossing(roster: &Roster, pair: Pair) -> Option<(Unit, Role)> {
    let group = |nic: NicId| Some(roster.location(nic)?.group);
    let (one, other) = (group(pair.initiator)?, group(pair.target)?);
    let role = if one < other { Role::Initiator } else { Role::Target };
    (one != other).then(|| (Unit::GroupPair(one.min(other), one.max(other)), role))
}
