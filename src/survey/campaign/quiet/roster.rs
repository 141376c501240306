//! The nodes and NICs of a survey, the parts of a cluster that NICs and pairs belong to, and the
//! names of NICs, nodes, tests and pairs: indices of different types, so that the compiler
//! distinguishes them.

use serde::{Deserialize, Serialize};

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
    pub fn nic(&self, nic: NicId) -> &Nic {
        &self.nics[nic.index()]
    }

    /// Whether the CPUs of its machine do the work of a NIC.
    pub fn runs_on_cpus(&self, nic: NicId) -> bool {
        DeviceName::names(&self.nic(nic).device, |platform| platform.runs_on_cpus)
    }

    /// Whether a NIC is not a software NIC.
    pub fn has_hardware(&self) -> bool {
        let mut devices = self.nics.iter().map(|nic| &nic.device);
        devices.any(|device| !DeviceName::names(device, |platform| platform.is_simulated))
    }

    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    pub fn node_of(&self, nic: NicId) -> &Node {
        self.node(self.nic(nic).node)
    }

    /// The location of a NIC, if it is known.
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

    pub fn nic_ids(&self) -> impl Iterator<Item = NicId> + Clone + use<> {
        NicId::first(self.nics.len())
    }

    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + Clone + use<> {
        NodeId::first(self.nodes.len())
    }

    /// The name of a NIC in texts: `nid000417 cxi1`.
    pub fn name(&self, nic: NicId) -> String {
        format!("{} {}", self.node_of(nic).host, self.nic(nic).device)
    }

    /// The names of the hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.host.as_str())
    }

    /// The name of a NIC with the name that `hosts` has for its host. Two surveys may have the
    /// names of hosts from different sources.
    pub fn name_among(&self, hosts: &HostIndex, nic: NicId) -> String {
        let host = hosts.name(&self.node_of(nic).host);
        format!("{host} {}", self.nic(nic).device)
    }

    /// The class of a pair of NICs.
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

/// The NICs of a part; none for paths and pairs of groups.
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

/// The parts that a NIC belongs to, the smallest first.
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

/// The larger parts of the fabric that a pair belongs to: switches and groups of both NICs, each
/// once, and the pair of groups.
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

/// The groups of a pair between two groups.
pub fn group_pair(roster: &Roster, pair: Pair) -> Option<Unit> {
    crossing(roster, pair).map(|(unit, _)| unit)
}

/// The groups of a pair between two groups, and the role of the group with the smaller number.
pub fn crossing(roster: &Roster, pair: Pair) -> Option<(Unit, Role)> {
    let group = |nic: NicId| Some(roster.location(nic)?.group);
    let (one, other) = (group(pair.initiator)?, group(pair.target)?);
    let role = if one < other { Role::Initiator } else { Role::Target };
    (one != other).then(|| (Unit::GroupPair(one.min(other), one.max(other)), role))
}

/// Declares an index in a list.
macro_rules! index {
    ($(#[$about:meta])* $name:ident($number:ty)) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl $name {
            /// The first `count` of them.
            pub fn first(count: usize) -> impl Iterator<Item = Self> + Clone {
                (0..count as $number).map(Self)
            }

            /// The index in their list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index!(
    /// A NIC: its index in the roster.
    NicId(u32)
);
index!(
    /// A node: its index in the roster.
    NodeId(u32)
);
index!(
    /// A test: its index in the list of tests.
    TestId(u16)
);

/// A population: the pairs of one class in one test.
pub type PopulationKey = (TestId, Class);

facts::named_enum! {
    /// What a NIC does in a pair.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Role {
        /// It issues the operations.
        Initiator = "initiator",
        /// The operations address it.
        Target = "target",
    }
    /// Its name in sentences.
    pub fn name(self);
}

impl Role {
    /// Both roles.
    pub const BOTH: [Self; 2] = Self::ALL;

    /// The role of the partner.
    pub fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Target,
            Self::Target => Self::Initiator,
        }
    }

    /// The index of this role in an array with both.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Two NICs, as indices in the roster. The initiator issues the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Pair {
    /// The NIC that issues operations.
    pub initiator: NicId,
    /// The NIC that the operations address; the initiator itself in loopback.
    pub target: NicId,
}

/// A test and a pair.
pub type TestPair = (TestId, Pair);

impl Pair {
    /// The pair of a NIC with itself.
    pub fn loopback(nic: NicId) -> Self {
        Self { initiator: nic, target: nic }
    }

    /// The pair in which `nic` has this role.
    pub fn with_role(role: Role, nic: NicId, partner: NicId) -> Self {
        let (initiator, target) = match role {
            Role::Initiator => (nic, partner),
            Role::Target => (partner, nic),
        };
        Self { initiator, target }
    }

    /// The initiator and the target.
    pub fn nics(self) -> [NicId; 2] {
        [self.initiator, self.target]
    }

    /// Both NICs with their roles, the initiator first.
    pub fn roles(self) -> [(Role, NicId); 2] {
        [(Role::Initiator, self.initiator), (Role::Target, self.target)]
    }

    /// The other NIC.
    pub fn partner(self, nic: NicId) -> NicId {
        if self.initiator == nic { self.target } else { self.initiator }
    }

    /// The pair in the other direction.
    pub fn reversed(self) -> Self {
        Self { initiator: self.target, target: self.initiator }
    }

    /// Whether the pair is a NIC with itself.
    pub fn is_loopback(self) -> bool {
        self.initiator == self.target
    }
}

/// A part of the cluster that can be a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A NIC, its cable, or its port of the switch; an index in the roster.
    Nic(NicId),
    /// A node: all of its NICs; an index in the roster.
    Node(NodeId),
    /// A switch.
    Switch {
        /// Its group.
        group: u16,
        /// Its number in the group.
        switch: u16,
    },
    /// A group of switches.
    Group(u16),
    /// The links between two groups, the smaller number first.
    GroupPair(u16, u16),
    /// What lies between two NICs, in the direction of the pair.
    Path(Pair),
}
