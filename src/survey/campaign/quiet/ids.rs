//! The names of NICs, nodes and tests in a survey: indices of different types, so that the compiler
//! distinguishes them.

use serde::{Deserialize, Serialize};

use crew::location::Class;

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
            /// Returns the first `count` of them.
            pub fn first(count: usize) -> impl Iterator<Item = Self> + Clone {
                (0..count as $number).map(Self)
            }

            /// Returns the index in their list.
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
