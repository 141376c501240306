//! The nodes and NICs of a survey.

use serde::{Deserialize, Serialize};

use crate::location::{Class, Location};

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
    pub node: u32,
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
}

impl Roster {
    /// Returns the name of a NIC in texts: `nid000417 cxi1`.
    pub fn name(&self, nic: u32) -> String {
        let nic = &self.nics[nic as usize];
        format!("{} {}", self.nodes[nic.node as usize].host, nic.device)
    }

    /// Returns the class of a pair of NICs.
    pub fn class(&self, one: u32, other: u32) -> Class {
        let [first, second] = [one, other].map(|nic| &self.nics[nic as usize]);
        if one == other {
            Class::Loopback
        } else if first.node == second.node {
            Class::Node
        } else {
            Class::between(first.location, second.location)
        }
    }
}
