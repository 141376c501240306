//! The limits that all searches for a cause have in common, among quiet pairs and under load.

/// Probability with which a survey without a fault suspects any part.
pub const FALSE_ALARM: f64 = 0.05;

/// Kinds of parts that a search under load tells apart: NICs, switches, groups, links between
/// switches, links between groups. Each has an equal part of [`FALSE_ALARM`].
pub const KINDS: f64 = 5.0;

/// Fewest figures of a class that has a limit.
pub const LEAST_FIGURES: usize = 8;

/// Fewest equal parts that are compared with each other.
pub const LEAST_EQUAL: usize = 3;

/// Fewest members of a larger part that is a cause, and fewest pairs between two groups.
pub const LEAST_MEMBERS: usize = 3;

/// Fewest partners with which a NIC, and not its partner, is a cause.
pub const LEAST_PARTNERS: usize = 2;

/// Part of the pairs of a larger part that must have its effect.
pub const LARGER_SHARE: f64 = 2.0 / 3.0;

/// Parts have equal flows if their numbers differ by at most this part.
pub const EQUAL_FLOWS: f64 = 0.25;
