//! The names of NICs, nodes and tests in a survey: indices of different types, so that the compiler
//! distinguishes them.

use serde::{Deserialize, Serialize};

use crew::location::Class;

/// A NIC: its index in the roster.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct NicId(pub u32);

/// A node: its index in the roster.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// A test: its index in the list of tests.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema), schemars(inline))]
#[serde(transparent)]
pub struct TestId(pub u16);

/// A population: the pairs of one class in one test.
pub type PopulationKey = (TestId, Class);

impl NicId {
    /// Returns the first `count` NICs.
    pub fn first(count: usize) -> impl Iterator<Item = Self> + Clone {
        (0..count as u32).map(Self)
    }

    /// Returns the index in the roster.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Returns the first `count` nodes.
    pub fn first(count: usize) -> impl Iterator<Item = Self> + Clone {
        (0..count as u32).map(Self)
    }

    /// Returns the index in the roster.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TestId {
    /// Returns the first `count` tests.
    pub fn first(count: usize) -> impl Iterator<Item = Self> + Clone {
        (0..count as u16).map(Self)
    }

    /// Returns the index in the list of tests.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// What a NIC does in a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It issues the operations.
    Initiator,
    /// The operations address it.
    Target,
}

impl Role {
    /// Both roles.
    pub const BOTH: [Self; 2] = [Self::Initiator, Self::Target];

    /// Returns the role of the partner.
    pub fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Target,
            Self::Target => Self::Initiator,
        }
    }

    /// Returns the index of this role in an array with both.
    pub fn index(self) -> usize {
        self as usize
    }
}
