//! The figures of healthy NICs of a generation, for a NIC without a good one beside it
//! (diagnosis.md 1).

use crate::causes::procedure::TestCode;

/// A bandwidth of healthy NICs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthyFigure {
    pub test: TestCode,
    /// What healthy NICs reach, in bytes per second.
    pub usual: f64,
    /// What each of them reaches at least.
    pub least: f64,
}

/// The figures of Cassini 1 with a link of 200 Gb/s.
const CASSINI_1: [HealthyFigure; 2] = [
    HealthyFigure { test: TestCode::B1, usual: 23.1e9, least: 22.5e9 },
    HealthyFigure { test: TestCode::B3, usual: 20.5e9, least: 19.0e9 },
];

/// Returns the known figures of a generation of Cassini; none of others.
pub fn healthy(generation: Option<f64>) -> &'static [HealthyFigure] {
    if generation == Some(1.0) { &CASSINI_1 } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cassini_1_has_known_figures() {
        assert_eq!(healthy(Some(1.0)), CASSINI_1);
        assert_eq!([healthy(Some(2.0)), healthy(None)], [[]; 2]);
    }

    #[test]
    fn healthy_nics_reach_more_than_the_least() {
        assert!(CASSINI_1.iter().all(|figure| figure.least < figure.usual));
    }
}
