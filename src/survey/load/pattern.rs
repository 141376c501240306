//! The patterns of load (load.md 3.2).

/// The NICs that exchange traffic among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// All NICs.
    All,
    /// The NICs of each switch.
    Switch,
    /// The NICs of each group.
    Group,
    /// Half of the groups with the other half.
    System,
}

/// How far a permutation shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// To the next NIC, of the same switch if possible.
    One,
    /// To the next switch.
    Switch,
    /// To the next group: the worst case for minimal paths.
    Group,
    /// To any NIC.
    Random,
}

/// Which NICs send to which others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// One NIC of a switch at a time: the bandwidth without load.
    Quiet,
    /// Halves, one to one.
    Bisect {
        /// Halves of what.
        of: Set,
        /// Both halves send at once.
        both_ways: bool,
    },
    /// A permutation.
    Shift(Distance),
    /// Each to eight others.
    AllToAll,
    /// This number of sources for each target.
    Incast(u16),
}
