//! The limits that the searches for a cause among quiet pairs and under load have in common.

/// Probability with which one search among the figures of a test suspects any part of a fabric
/// without a fault. A survey has a search for each test and class.
pub const FALSE_ALARM: f64 = 0.05;

/// Fewest figures of a class that has a limit.
pub const LEAST_FIGURES: usize = 8;

/// Fewest partners with which a NIC, and not its partner, is a cause.
pub const LEAST_PARTNERS: usize = 2;

/// Part of the pairs of a larger part that must have its effect.
pub const LARGER_SHARE: f64 = 2.0 / 3.0;
