//! The time of a list entry, from the rows of a range of depths.

use serde::{Deserialize, Serialize};

use super::extent::Extent;
use super::size_result::SizeResult;
use facts::expect::Metric;
use facts::percentile::Percentile;
use facts::robust;

/// Fewest rows that say how far they are from a line.
const LEAST_ROWS: usize = 3;

/// What the NIC takes to compare a message or a receive with one list entry, from the medians of
/// all rows: the slope of the line with the least sum of absolute deviations from them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "WalkResult"))]
pub struct MatchCost {
    /// Time of one entry, in nanoseconds.
    pub entry_ns: f64,
    /// Number of rows, all measured completely.
    pub rows: usize,
    /// Largest distance of a median from the line, in nanoseconds.
    pub farthest_ns: f64,
    /// Whether the line rises by more than that distance from the first row to the last: otherwise
    /// the rows do not show what an entry takes.
    pub is_shown: bool,
}

impl MatchCost {
    /// Returns the time of an entry from the rows of a latency tool. `None` with fewer than three
    /// depths that were measured completely.
    pub fn of(results: &[SizeResult]) -> Option<Self> {
        let point = |result: &SizeResult| {
            let depth = result.posted.or(result.unexpected)?;
            let median = result.figure(Metric::Percentile(Percentile::STANDARD[0]))?;
            (result.extent == Extent::Complete).then_some((f64::from(depth), median))
        };
        let points: Vec<(f64, f64)> = results.iter().filter_map(point).collect();
        let (entry_ns, height) = robust::line(&points).filter(|_| points.len() >= LEAST_ROWS)?;
        let distances = points.iter().map(|(depth, ns)| (ns - height - entry_ns * depth).abs());
        let farthest_ns = distances.fold(0.0, f64::max);
        let depths = points.iter().map(|(depth, _)| *depth);
        let span = depths.clone().fold(0.0, f64::max) - depths.fold(f64::INFINITY, f64::min);
        let is_shown = entry_ns * span > farthest_ns;
        Some(Self { entry_ns, rows: points.len(), farthest_ns, is_shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Detail;
    use measure::Recorder;
    use plan::depths::Row;

    fn behind(depth: u16, ns: u64) -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        recorder.record(ns);
        let row = Row { size: 8, posted: Some(depth), unexpected: None };
        SizeResult::from_latencies(8, &recorder, Extent::Complete, Detail::default()).in_row(row)
    }

    #[test]
    fn time_of_an_entry_is_the_slope_of_the_rows() {
        let mut rows = [0, 1, 2, 4, 8, 16].map(|depth| behind(depth, 100 + 5 * u64::from(depth)));
        let walk = MatchCost::of(&rows).unwrap();
        assert_eq!((walk.entry_ns, walk.rows, walk.farthest_ns), (5.0, 6, 0.0));
        assert!(walk.is_shown);
        // A row during which the machine was busy.
        rows[3] = behind(4, 190);
        let walk = MatchCost::of(&rows).unwrap();
        assert_eq!((walk.entry_ns, walk.rows, walk.farthest_ns), (5.0, 6, 70.0));
        assert!(walk.is_shown);
        rows[3] = behind(4, 201);
        assert!(!MatchCost::of(&rows).unwrap().is_shown);
    }

    #[test]
    fn two_rows_and_sizes_say_nothing_about_entries() {
        assert!(MatchCost::of(&[behind(0, 100), behind(8, 140)]).is_none());
        let sizes = [8, 16, 32].map(|size| SizeResult { size_bytes: size, ..behind(9, size) });
        assert!(MatchCost::of(&sizes).is_none());
        let partial = SizeResult { extent: Extent::Partial, ..behind(8, 140) };
        assert!(MatchCost::of(&[behind(0, 100), behind(4, 120), partial]).is_none());
    }
}
