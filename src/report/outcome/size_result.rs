//! The result of one size: its bandwidth, whether it meets an expectation, and the time of a list
//! entry, from the rows of a range of depths.

use facts::expect::{Expectation, Metric};
use facts::percentile::Percentile;
use facts::rate::{KeptSchedule, Rate};
use facts::robust;
use measure::{Rates, Recorder, SideResult, SideView};
use plan::depths::Row;
use serde::{Deserialize, Serialize};

use crate::intervals::Intervals;
use crate::outcome::latency::{Detail, Extent, LatencyResult};

/// The part of a requested rate that counts as reached: a late last start alone is no failure.
const REACHED: f64 = 0.99;

/// The result of one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SizeResult {
    /// Size of an operation, in bytes.
    pub size_bytes: u64,
    /// --posted: list entries before the one that receives; null without.
    #[serde(default)]
    pub posted: Option<u16>,
    /// --unexpected: messages before the one that a receive searches for; null without.
    #[serde(default)]
    pub unexpected: Option<u16>,
    /// How much of the size was measured.
    pub extent: Extent,
    /// Number of operations that count.
    pub count: u64,
    /// Latencies; null in a bandwidth tool, and without samples.
    pub latency: Option<LatencyResult>,
    /// Bandwidth; null in a latency tool, and if the size was not measured.
    pub bandwidth: Option<BandwidthResult>,
    /// --verify: number of bytes of the last operations that both sides have checked after the
    /// size; null without, and in a partial result.
    pub verified_bytes: Option<u64>,
    /// --rate: how this side kept the schedule; null without, on a side that issues nothing, and in
    /// a partial result.
    pub rate: Option<RateResult>,
    /// Part of the time of the size, in percent, in which the first measuring thread of this side
    /// was ready to run but waited for a CPU; null if unknown.
    pub cpu_wait_percent: Option<f64>,
    /// What was measured in each interval; null without --interval, and if the size was not
    /// measured.
    pub intervals: Option<Intervals>,
    /// --compare-write: writes of the same size; null without, and in a partial result.
    #[serde(default)]
    pub write: Option<WriteResult>,
    /// --fan: when the puts of a fan have arrived; null without, and in a partial result.
    #[serde(default)]
    pub fan: Option<FanResult>,
    /// Metrics that the text of a run does not have as numbers; empty in a document.
    #[serde(skip)]
    pub unreadable: Vec<Metric>,
}

/// The arrivals of the puts that one counter fires together. The latencies of the size end with the
/// last arrival.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FanResult {
    /// Median time from the start to the first arrival, in nanoseconds.
    pub first_ns: u64,
    /// Median time from the first arrival to the last one, in nanoseconds.
    pub span_ns: u64,
    /// Triggered operations per second: all arrivals but the first one, divided by the span; null
    /// if the clock shows no time between both.
    pub operations_per_s: Option<f64>,
}

impl FanResult {
    /// The result of fans of this number of puts from two medians in nanoseconds.
    pub fn new(puts: u16, first_ns: u64, span_ns: u64) -> Self {
        let others = f64::from(puts.saturating_sub(1));
        let operations_per_s = (span_ns > 0).then(|| others * 1e9 / span_ns as f64);
        Self { first_ns, span_ns, operations_per_s }
    }
}

/// Writes that the client's CPU issued, for comparison with hops that the NICs triggered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct WriteResult {
    /// Median latency of a write, in nanoseconds.
    pub median_ns: u64,
    /// The median latency of a write minus the median latency of a hop, in nanoseconds.
    pub beyond_hop_ns: i64,
}

/// How a side kept the schedule of --rate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RateResult {
    /// Requested operations per second.
    pub requested_operations_per_s: f64,
    /// Operations per second from the first start to the last one, of all pairs of queues together;
    /// null if there was only one start in each.
    pub reached_operations_per_s: Option<f64>,
    /// Whether no start was late, or the reached rate is at least 99 % of the requested one.
    pub is_reached: bool,
    /// Number of starts: iterations of a latency tool, lists of a bandwidth tool.
    pub starts: u64,
    /// Starts whose intended time had passed when the operation or list before had ended.
    pub late_starts: u64,
}

impl SizeResult {
    /// The result of a size that was not measured.
    pub fn none(size: u64) -> Self {
        Self { size_bytes: size, ..Self::default() }
    }

    /// The row, which no other result of its run has.
    pub fn row(&self) -> Row {
        Row { size: self.size_bytes, posted: self.posted, unexpected: self.unexpected }
    }

    /// The result as the one of a row with these depths.
    pub fn in_row(self, row: Row) -> Self {
        Self { posted: row.posted, unexpected: row.unexpected, ..self }
    }

    /// The result of a size from the samples of a latency tool.
    pub fn from_latencies(size: u64, recorder: &Recorder, extent: Extent, detail: Detail) -> Self {
        let count = recorder.statistics().count();
        Self {
            extent: if count == 0 { Extent::None } else { extent },
            count,
            latency: (count > 0).then(|| LatencyResult::of(recorder, extent, detail)),
            ..Self::none(size)
        }
    }

    /// The result of a size from the counts of both sides of a bandwidth tool, this side first.
    pub fn from_lists(size: u64, sides: [SideResult; 2], rates: Rates, extent: Extent) -> Self {
        Self {
            extent,
            count: sides[0].count,
            bandwidth: Some(BandwidthResult::of(sides, rates)),
            ..Self::none(size)
        }
    }

    /// Adds how the schedule of a rate was kept, with `operations` in each start.
    pub fn with_rate(mut self, rate: Rate, operations: u64, kept: KeptSchedule) -> Self {
        let requested = rate.operations(self.size_bytes);
        let reached = kept.per_second.map(|starts| starts * operations as f64);
        self.rate = Some(RateResult {
            requested_operations_per_s: requested,
            reached_operations_per_s: reached,
            is_reached: kept.late == 0
                || reached.is_none_or(|reached| reached >= requested * REACHED),
            starts: kept.starts,
            late_starts: kept.late,
        });
        self
    }

    /// Adds the median latency of writes of this size, if the size has latencies.
    pub fn with_write(mut self, median_ns: u64) -> Self {
        let hop_ns = self.figure(Metric::Percentile(Percentile::STANDARD[0]));
        self.write = hop_ns.map(|hop_ns| WriteResult {
            median_ns,
            beyond_hop_ns: median_ns as i64 - hop_ns as i64,
        });
        self
    }

    /// A metric in its base unit, if this result has it.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        let latency = self.latency.as_ref();
        let bandwidth = self.bandwidth.as_ref();
        match metric {
            _ if self.unreadable.contains(&metric) => None,
            Metric::Min => latency.map(|latency| latency.min_ns as f64),
            Metric::Max => latency.map(|latency| latency.max_ns as f64),
            Metric::Mean => latency.map(|latency| latency.mean_ns),
            Metric::Deviation => latency.map(|latency| latency.standard_deviation_ns),
            Metric::Percentile(percentile) => latency?
                .percentiles
                .iter()
                .find(|value| value.percent == percentile.percent())
                .map(|value| value.value_ns as f64),
            Metric::Bandwidth => bandwidth.map(|bandwidth| bandwidth.bandwidth_bytes_per_s),
            Metric::PacketRate => bandwidth.map(|bandwidth| bandwidth.packet_rate_packets_per_s),
        }
    }
}

/// Whether a size meets an expectation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Verdict"))]
pub struct ExpectationResult {
    /// Size of an operation, in bytes.
    pub size_bytes: u64,
    /// --posted: list entries before the one that receives; null without.
    #[serde(default)]
    pub posted: Option<u16>,
    /// --unexpected: messages before the one that a receive searches for; null without.
    #[serde(default)]
    pub unexpected: Option<u16>,
    /// The expectation, as given.
    pub expectation: String,
    /// Whether the expectation is met. A size that was not measured completely meets none.
    pub met: bool,
    /// The measured metric; null if it was not measured.
    pub measured: Option<f64>,
    /// The bound that the metric is compared with.
    pub limit: f64,
    /// Unit of the metric and of the bound.
    pub unit: String,
}

impl ExpectationResult {
    /// Whether a row meets `expectation`, whose metric was measured as `figure`.
    pub fn new(row: Row, expectation: &Expectation, extent: Extent, figure: Option<f64>) -> Self {
        Self {
            size_bytes: row.size,
            posted: row.posted,
            unexpected: row.unexpected,
            expectation: expectation.text.clone(),
            met: extent == Extent::Complete
                && figure.is_some_and(|figure| expectation.is_met_by(figure)),
            measured: figure,
            limit: expectation.limit,
            unit: expectation.metric.unit().name().into(),
        }
    }

    pub fn row(&self) -> Row {
        Row { size: self.size_bytes, posted: self.posted, unexpected: self.unexpected }
    }

    /// The measured metric with a unit for people.
    pub fn measured_text(&self, metric: Metric) -> String {
        let (unit, scale) = metric.unit().readable();
        match self.measured {
            Some(figure) => format!("{:.3}{unit}", figure / scale),
            None => "-".into(),
        }
    }
}

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
    /// The time of an entry from the rows of a latency tool. `None` with fewer than three depths
    /// that were measured completely.
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

/// Bandwidth of one size.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct BandwidthResult {
    /// Bytes per second, both directions added.
    pub bandwidth_bytes_per_s: f64,
    /// Packets per second, both directions added.
    pub packet_rate_packets_per_s: f64,
    /// Time that this side took, in microseconds.
    pub elapsed_us: u64,
    /// Number of operations of the peer that count.
    pub peer_count: u64,
    /// Time that the peer took, in microseconds.
    pub peer_elapsed_us: u64,
    /// The results of each pair of queues; null without --pairs.
    #[serde(default)]
    pub pairs: Option<Vec<QueuePairResult>>,
    /// This side's own view; null without --both-ends.
    #[serde(default)]
    pub own_view: Option<SideView>,
    /// The peer's own view; null without --both-ends.
    #[serde(default)]
    pub peer_view: Option<SideView>,
}

/// The result of one pair of queues.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "PairResult"))]
pub struct QueuePairResult {
    /// Number of the pair, from 0.
    pub pair: u16,
    /// Bytes per second, both directions added.
    pub bandwidth_bytes_per_s: f64,
    /// Number of operations that this side issued.
    pub count: u64,
    /// Time that this side took, in microseconds.
    pub elapsed_us: u64,
    /// Number of operations that the peer issued.
    pub peer_count: u64,
    /// Time that the peer took, in microseconds.
    pub peer_elapsed_us: u64,
}

impl QueuePairResult {
    /// The results of pairs from the counts of both sides, this side first, and their rates.
    pub fn of(pairs: &[([SideResult; 2], Rates)]) -> Vec<Self> {
        let result = |(pair, (sides, rates)): (usize, &([SideResult; 2], Rates))| Self {
            pair: pair as u16,
            bandwidth_bytes_per_s: rates.megabytes * 1e6,
            count: sides[0].count,
            elapsed_us: sides[0].elapsed_us,
            peer_count: sides[1].count,
            peer_elapsed_us: sides[1].elapsed_us,
        };
        pairs.iter().enumerate().map(result).collect()
    }
}

impl BandwidthResult {
    /// The bandwidth of a size from the counts of both sides, this side first.
    pub fn of([own, peer]: [SideResult; 2], rates: Rates) -> Self {
        Self {
            bandwidth_bytes_per_s: rates.megabytes * 1e6,
            packet_rate_packets_per_s: rates.megapackets * 1e6,
            elapsed_us: own.elapsed_us,
            peer_count: peer.count,
            peer_elapsed_us: peer.elapsed_us,
            pairs: None,
            own_view: None,
            peer_view: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use facts::expect::{self, Metric};
    use measure::Recorder;
    use plan::depths::Row;

    use super::*;
    use crate::outcome::{Detail, Extent, SizeResult};

    #[test]
    fn requires_complete_size_to_meet_expectation() {
        let expectation = &expect::parse("max<4us", false).unwrap()[0];
        for (extent, figure, met) in [
            (Extent::Complete, Some(3999.0), true),
            (Extent::Complete, Some(4000.0), false),
            (Extent::Complete, None, false),
            (Extent::Partial, Some(3999.0), false),
            (Extent::None, None, false),
        ] {
            assert_eq!(
                ExpectationResult::new(Row::default(), expectation, extent, figure).met,
                met,
                "{extent:?}"
            );
        }
    }

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

    #[test]
    fn returns_bandwidth_metrics() {
        let side = SideResult { elapsed_us: 1_000_000, count: 10 };
        let rates = Rates { megabytes: 23.5, megapackets: 11.0 };
        let result = SizeResult::from_lists(8, [side; 2], rates, Extent::Complete);
        assert_eq!(result.figure(Metric::Bandwidth), Some(23.5e6));
        assert_eq!(result.figure(Metric::PacketRate), Some(11e6));
        assert_eq!(result.figure(Metric::Mean), None);
    }
}
