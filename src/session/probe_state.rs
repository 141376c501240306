//! The messages of the server of a node to the processes that probe the node.

use serde::{Deserialize, Serialize};

use crew::location::Location;
use facts::device::{DeviceName, FabricAddress};

/// A NIC, for those that probe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicState {
    pub device: DeviceName,
    pub address: FabricAddress,
    pub vni: u32,
    /// Where it is, if its address shows it.
    pub location: Option<Location>,
    /// It is not to be probed at present.
    pub is_busy: bool,
}

/// The NICs of a node, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    pub nics: Vec<NicState>,
}
