//! Clusters with one fault: with free CPUs, and with busy ones.

use crate::quiet::findings::{Direction, Unit};
use crate::quiet::ids::{NicId, NodeId};
use crate::quiet::testing::{Cluster, Effect, Fault, Load, pair};

/// A cluster with a fault, and the pairs of its survey.
pub struct PlantedSurvey {
    pub name: &'static str,
    pub shape: [u16; 4],
    pub pairs: &'static str,
    pub fault: Fault,
}

pub fn plans() -> Vec<PlantedSurvey> {
    use Direction::{Both, Initiator, Target};
    let slow = |unit, direction| Fault::slow(unit, direction, 2.0);
    let nic = Unit::Nic(NicId(1));
    let fails = Fault { unit: nic, direction: Both, effect: Effect::Fails };
    let plan = |name, shape, pairs, fault| PlantedSurvey { name, shape, pairs, fault };
    let small = [0, 0, 4, 1];
    let racks = [4, 4, 8, 1];
    let (from, to) = (3, 5);
    let path = Unit::Path(pair(from, to));
    vec![
        plan("nic", small, "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 5, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 6, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 7, 1], "random:4", slow(nic, Both)),
        plan("nic", [0, 0, 8, 1], "random:3", slow(nic, Both)),
        plan("nic", racks, "random:4", slow(nic, Both)),
        plan("nic", racks, "halves", slow(nic, Both)),
        plan("nic as initiator", [0, 0, 4, 1], "random:4", slow(nic, Initiator)),
        plan("nic as initiator", [0, 0, 8, 1], "random:4", slow(nic, Initiator)),
        plan("nic as initiator", racks, "random:4", slow(nic, Initiator)),
        plan("nic as target", [0, 0, 8, 1], "random:4", slow(nic, Target)),
        plan("nic as target", racks, "random:4", slow(nic, Target)),
        plan("failing nic", small, "random:4", fails),
        plan("failing nic", [0, 0, 8, 1], "random:4", fails),
        plan("failing nic", racks, "random:4", fails),
        plan("one nic of four", [0, 0, 8, 4], "random:4", slow(nic, Both)),
        plan("node", [0, 0, 8, 2], "random:4", slow(Unit::Node(NodeId(2)), Both)),
        plan("node", [2, 2, 4, 4], "random:4", slow(Unit::Node(NodeId(2)), Both)),
        plan("switch", racks, "random:4", slow(Unit::Switch { group: 1, switch: 2 }, Both)),
        plan(
            "switch",
            racks,
            "within-switch,switches",
            slow(Unit::Switch { group: 1, switch: 2 }, Both),
        ),
        plan("group", [6, 2, 8, 1], "random:4", slow(Unit::Group(3), Both)),
        plan("group pair", [4, 2, 8, 1], "random:4", slow(Unit::GroupPair(1, 3), Both)),
        plan("group pair", [5, 2, 8, 1], "groups", slow(Unit::GroupPair(1, 3), Both)),
        plan("path", [0, 0, 8, 1], "all", slow(path, Both)),
    ]
}

/// Returns clusters whose faults hardly change a median: counters, tails and failures show them.
pub fn signs() -> Vec<PlantedSurvey> {
    let nic = Unit::Nic(NicId(3));
    let switch = Unit::Switch { group: 1, switch: 0 };
    let links = Unit::GroupPair(0, 2);
    let groups = ([3, 2, 3, 1], "all");
    let shapes = [([0, 0, 5, 1], "random:4"), ([0, 0, 24, 1], "random:4"), groups];
    let nic_faults = [
        ("nic that damages packets", Effect::Damages(60.0)),
        ("nic that loses few packets", Effect::Resends(4.0)),
        ("nic that sends packets again", Effect::Resends(20.0)),
        ("nic that delays some", Effect::DelaysSome(3.0)),
        ("nic with tails", Effect::HasTail),
        ("nic that fails now and then", Effect::Loses(0.3)),
    ];
    let larger_faults = [
        ("switch that damages packets", switch, Effect::Damages(60.0)),
        ("switch that fails", switch, Effect::Fails),
        ("links with tails", links, Effect::HasTail),
        ("links that fail", links, Effect::Fails),
    ];
    let plan = |name, (shape, pairs), unit, effect| PlantedSurvey {
        name,
        shape,
        pairs,
        fault: Fault { unit, direction: Direction::Both, effect },
    };
    let larger = larger_faults.map(|(name, unit, effect)| plan(name, groups, unit, effect));
    let nics = shapes
        .into_iter()
        .flat_map(|shape| nic_faults.map(|(name, effect)| plan(name, shape, nic, effect)));
    nics.chain(larger).collect()
}

/// What is wrong with a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    Nothing,
    Switch,
    Nic,
    NicAsInitiator,
    HalfBandwidth,
    FivePercent,
    ThirtyPercent,
    BusyNode,
    DeadNode,
    TwoNics,
}

impl Truth {
    pub const ALL: [Self; 10] = [
        Self::Nothing,
        Self::Switch,
        Self::Nic,
        Self::NicAsInitiator,
        Self::HalfBandwidth,
        Self::FivePercent,
        Self::ThirtyPercent,
        Self::BusyNode,
        Self::DeadNode,
        Self::TwoNics,
    ];

    /// Returns the test that meets the fault.
    fn tool(self) -> &'static str {
        if self == Self::HalfBandwidth { "write-bw" } else { "write-lat" }
    }

    fn faults(self) -> Vec<Fault> {
        let nic = |nic, factor| Fault::slow(Unit::Nic(NicId(nic)), Direction::Both, factor);
        let switch = Unit::Switch { group: 1, switch: 1 };
        match self {
            Self::Nothing | Self::BusyNode => Vec::new(),
            Self::Switch => vec![Fault::slow(switch, Direction::Both, 4.0)],
            Self::Nic => vec![nic(1, 3.0)],
            Self::NicAsInitiator => {
                vec![Fault::slow(Unit::Nic(NicId(1)), Direction::Initiator, 3.0)]
            }
            Self::HalfBandwidth => vec![nic(1, 2.0)],
            Self::FivePercent => vec![nic(1, 1.05)],
            Self::ThirtyPercent => vec![nic(1, 1.35)],
            Self::DeadNode => vec![Fault {
                unit: Unit::Node(NodeId(1)),
                direction: Direction::Both,
                effect: Effect::Fails,
            }],
            Self::TwoNics => vec![nic(1, 3.0), nic(6, 2.0)],
        }
    }

    /// Returns whether a cluster of this shape can have the fault.
    pub fn fits(self, shape: [u16; 4]) -> bool {
        let [groups, _, nodes, nics] = shape;
        match self {
            Self::Switch => groups > 0,
            Self::TwoNics => groups > 0 || nodes * nics >= 8,
            _ => true,
        }
    }

    /// Returns a cluster with the fault, and with CPUs that disturb a part of its pairs and leave
    /// another part untested.
    pub fn cluster(self, shape: [u16; 4], (disturbed, untested): (f64, f64), seed: u64) -> Cluster {
        let mut cluster = Cluster::new(shape, &[self.tool()], seed);
        cluster.faults = self.faults();
        cluster.load = (disturbed > 0.0 || self == Self::BusyNode).then(|| Load {
            node: (self == Self::BusyNode).then_some(NodeId(2)),
            disturbed: if disturbed > 0.0 { disturbed } else { 0.3 },
            untested,
            is_harmless: false,
        });
        cluster
    }
}

/// A cluster, and the pairs of its survey.
pub const SHAPES: [([u16; 4], &str); 13] = [
    ([0, 0, 4, 1], "all,random:4"),
    ([0, 0, 8, 1], "random:4"),
    ([0, 0, 8, 1], "all"),
    ([0, 0, 12, 1], "all"),
    ([2, 2, 4, 1], "all"),
    ([0, 0, 32, 1], "random:4"),
    ([0, 0, 16, 2], "all"),
    ([3, 3, 4, 1], "random:4"),
    ([4, 4, 8, 1], "random:4"),
    ([0, 0, 128, 1], "random:4"),
    ([8, 8, 8, 1], "random:4"),
    ([0, 0, 512, 1], "random:6"),
    ([2, 4, 16, 1], "all"),
];

/// Busy CPUs: their names, parts of the pairs that are disturbed and untested.
pub const LOADS: [(&str, f64, f64); 4] =
    [("idle", 0.0, 0.0), ("some", 0.05, 0.02), ("busy", 0.4, 0.1), ("very busy", 0.9, 0.5)];
