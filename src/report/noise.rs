//! How far a metric of one run can be trusted, from the run's own samples.
//!
//! The samples of a run do not show how much one run differs from the next, so the ranges are wide.

use super::intervals::{Interval, Intervals};
use super::outcome::{LatencyResult, SizeResult};
use facts::expect::Metric;
use facts::percentile::Percentile;

/// Number of intervals from which the range of a run is computed.
const ENOUGH_INTERVALS: usize = 5;

/// Noise of a bandwidth without intervals, as a part of it.
const ASSUMED: f64 = 1.0 / 3.0;

/// Time without a CPU, in percent, above which the samples of a run are not comparable.
pub const DISTURBED_PERCENT: f64 = 5.0;

/// The range of a metric in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Its lower end, in the base unit of the metric.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Whether it is assumed, because the run has no samples of the metric.
    pub is_assumed: bool,
}

impl Noise {
    fn measured(low: f64, high: f64) -> Self {
        Self { low, high, is_assumed: false }
    }

    /// Whether a value lies in the range.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The range that contains both.
    pub fn and(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            is_assumed: self.is_assumed || other.is_assumed,
        }
    }
}

/// The range of a metric in one run; `None` if it is unknown.
///
/// A percentile lies between its neighbours in the document, the median for instance between the
/// minimum and p90, and the mean within a standard deviation. A bandwidth lies between its slowest
/// and its fastest interval. Maximum and standard deviation have no range.
pub fn of(result: &SizeResult, metric: Metric) -> Option<Noise> {
    let value = result.figure(metric)?;
    match metric {
        Metric::Bandwidth | Metric::PacketRate => {
            let measured = result
                .intervals
                .as_ref()
                .and_then(|intervals| interval_noise(intervals, metric, value));
            Some(measured.unwrap_or(Noise {
                low: value * (1.0 - ASSUMED),
                high: value * (1.0 + ASSUMED),
                is_assumed: true,
            }))
        }
        Metric::Mean => {
            let latency = result.latency.as_ref()?;
            let deviation = result.figure(Metric::Deviation)?;
            let low = (value - deviation).max(latency.min_ns as f64);
            Some(Noise::measured(low, value + deviation))
        }
        Metric::Min => {
            let median = result.figure(Metric::Percentile(Percentile::MEDIAN))?;
            Some(Noise::measured(value, median))
        }
        Metric::Percentile(percentile) => percentile_noise(result.latency.as_ref()?, percentile),
        Metric::Max | Metric::Deviation => None,
    }
}

/// The range between the neighbours of a percentile among the standard percentiles. Each document
/// has the standard percentiles; a document with `--percentiles` may have nearer ones.
fn percentile_noise(latency: &LatencyResult, percentile: Percentile) -> Option<Noise> {
    let percent = percentile.percent();
    let standard = Percentile::STANDARD.map(Percentile::percent);
    let all = &latency.percentiles;
    let neighbours = || all.iter().filter(|value| standard.contains(&value.percent));
    all.iter().find(|value| value.percent == percent)?;
    let below = neighbours().rfind(|value| value.percent < percent);
    let above = neighbours().find(|value| value.percent > percent)?;
    Some(Noise::measured(
        below.map_or(latency.min_ns, |value| value.value_ns) as f64,
        above.value_ns as f64,
    ))
}

/// The range of a rate. Intervals count if they have at least half of the full length. They have
/// the rate of one side, so the range is `value` times least and greatest rate, each divided by the
/// mean rate. `None` with too few intervals.
fn interval_noise(intervals: &Intervals, metric: Metric, value: f64) -> Option<Noise> {
    let half = intervals.interval_s / 2.0;
    let is_long = |row: &&Interval| row.end_s - row.start_s >= half;
    let rates: Vec<f64> = intervals
        .rows
        .iter()
        .filter(is_long)
        .filter_map(|row| row.figures.figure(metric))
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    if rates.len() < ENOUGH_INTERVALS || mean <= 0.0 {
        return None;
    }
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = rates.iter().copied().fold(0.0, f64::max);
    Some(Noise::measured(value.min(value * least / mean), value.max(value * greatest / mean)))
}

/// Whether other programs have disturbed a size so much that its samples are not comparable with
/// the samples of another run: its thread waited for a CPU.
pub fn is_disturbed(result: &SizeResult) -> bool {
    let waited = result.cpu_wait_percent;
    waited.is_some_and(|percent| percent > DISTURBED_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::IntervalFigures;
    use crate::outcome::{Detail, Extent};
    use measure::{Rates, Recorder, SideResult};

    fn latency_result() -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        (101..=200).for_each(|sample| recorder.record(sample));
        SizeResult::from_latencies(8, &recorder, Extent::Complete, Detail::default())
    }

    fn ends(result: &SizeResult, metric: &str) -> Option<(f64, f64)> {
        of(result, metric.parse().unwrap()).map(|noise| (noise.low, noise.high))
    }

    #[test]
    fn percentile_lies_between_its_neighbours() {
        let result = latency_result();
        assert_eq!(ends(&result, "p50"), Some((101.0, 190.0)));
        assert_eq!(ends(&result, "p90"), Some((150.0, 199.0)));
        assert_eq!(ends(&result, "min"), Some((101.0, 150.0)));
        assert_eq!(ends(&result, "max"), None);
        assert_eq!(ends(&result, "stddev"), None);
        let (low, high) = ends(&result, "mean").unwrap();
        assert!(low > 121.0 && low < 122.0 && high > 179.0 && high < 180.0);
    }

    fn with_intervals(rates: &[f64]) -> SizeResult {
        let side = SideResult { elapsed_us: 1_000, count: 10 };
        let rates_of_size = Rates { megabytes: 200.0, megapackets: 1.0 };
        let row = |(at, rate): (usize, &f64)| Interval {
            start_s: at as f64,
            end_s: at as f64 + 1.0,
            figures: IntervalFigures {
                count: 1,
                bandwidth_bytes_per_s: Some(*rate),
                packet_rate_packets_per_s: None,
                mean_ns: None,
                p99_ns: None,
            },
        };
        let mut rows: Vec<Interval> = rates.iter().enumerate().map(row).collect();
        // The last one is short.
        if let Some(last) = rows.last_mut() {
            last.end_s = last.start_s + 0.1;
        }
        let mut result = SizeResult::from_lists(8, [side; 2], rates_of_size, Extent::Complete);
        result.intervals =
            Some(Intervals { interval_s: 1.0, rows, min: None, p5: None, max: None });
        result
    }

    #[test]
    fn bandwidth_lies_between_its_intervals() {
        // The intervals have the bandwidth of one side: half the bandwidth of the size.
        let result = with_intervals(&[90e6, 100e6, 100e6, 100e6, 110e6, 1e6]);
        assert_eq!(ends(&result, "bw"), Some((180e6, 220e6)));
        assert_eq!(of(&result, Metric::Bandwidth).map(|noise| noise.is_assumed), Some(false));
        let few = with_intervals(&[90e6, 100e6, 100e6, 110e6, 1e6]);
        let noise = of(&few, Metric::Bandwidth).unwrap();
        assert!(noise.is_assumed && noise.contains(134e6) && !noise.contains(133e6), "{noise:?}");
    }

    #[test]
    fn waiting_for_a_cpu_disturbs() {
        let mut result = latency_result();
        for (waited, expected) in [(None, false), (Some(5.0), false), (Some(5.1), true)] {
            result.cpu_wait_percent = waited;
            assert_eq!(is_disturbed(&result), expected, "{waited:?}");
        }
    }

    /// `--percentiles=49,51` does not make a median more certain.
    #[test]
    fn further_percentiles_narrow_no_range() {
        let further = ["49", "51", "95"].map(|text| text.parse().unwrap());
        let detail = Detail { further: &further, ..Detail::default() };
        let mut recorder = Recorder::new(None).unwrap();
        (101..=200).for_each(|sample| recorder.record(sample));
        let result = SizeResult::from_latencies(8, &recorder, Extent::Complete, detail);
        assert_eq!(ends(&result, "p50"), ends(&latency_result(), "p50"));
        assert_eq!(ends(&result, "p95"), Some((190.0, 199.0)));
    }
}
