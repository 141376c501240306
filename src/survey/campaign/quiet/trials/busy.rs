//! Clusters with a fault and with busy CPUs.

use super::super::findings::{Direction, Unit};
use super::super::ids::{NicId, NodeId};
use super::super::testing::{Cluster, Effect, Fault, Load};

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
