//! The latencies of a size, and how much of it was measured.

use serde::{Deserialize, Serialize};

use crate::bins::bins_of;
use facts::percentile::Percentile;
use measure::{Recorder, Until};

/// Latencies of one size. No sample is excluded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LatencyResult {
    /// Smallest latency, in nanoseconds.
    pub min_ns: u64,
    /// Largest latency, in nanoseconds.
    pub max_ns: u64,
    /// Arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
    /// Where a latency begins with --rate: "intended_start", so that it contains the delay of its
    /// start; null without.
    pub latency_from: Option<String>,
    /// Standard deviation of the samples (of the population), in nanoseconds.
    pub standard_deviation_ns: f64,
    /// The median, in nanoseconds, as in the list of percentiles.
    #[serde(default)]
    pub p50_ns: Option<u64>,
    /// The 99th percentile, in nanoseconds, as in the list of percentiles.
    #[serde(default)]
    pub p99_ns: Option<u64>,
    /// Percentiles 50, 90, 99, 99.9, 99.99 and 100, which is the maximum, and the percentiles that
    /// --percentiles adds, in ascending order.
    pub percentiles: Vec<PercentileValue>,
    /// Lower end of the 95 % confidence interval of the median, in nanoseconds; null with fewer
    /// than 8 samples.
    pub median_low_ns: Option<u64>,
    /// Upper end of the 95 % confidence interval of the median, in nanoseconds; null with fewer
    /// than 8 samples.
    pub median_high_ns: Option<u64>,
    /// Whether the median is known to the limit of --until; null without, and in a partial result.
    pub median_is_stable: Option<bool>,
    /// --histogram: the samples in bins of equal ratio, 64 from one power of two to the next, in
    /// ascending order: the smallest whole number of nanoseconds in the bin, and the number of
    /// samples. Empty bins are left out; null without.
    #[serde(default)]
    pub histogram: Option<Vec<(u64, u64)>>,
    /// --report-all: each sample, in the order of the measurement, in nanoseconds; null without,
    /// and for more than 1000000 samples.
    #[serde(default)]
    pub samples_ns: Option<Vec<u64>>,
}

/// A latency that the given percentage of the samples does not exceed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PercentileValue {
    /// Percentage of the samples, above 0 and up to 100.
    pub percent: f64,
    /// Sample at the nearest rank, in nanoseconds, with at least four significant digits.
    pub value_ns: u64,
    /// Whether fewer than 10 samples lie above this percentile, so that it is unreliable.
    pub too_few_samples: bool,
    /// Whether it differs from the one before it among 50, 90, 99, 99.9, 99.99 and 100 (the first
    /// one: from the minimum) by less than the spread of the tool itself, so that the difference
    /// may be an error of the measurement; null if that spread was not measured.
    pub within_own_spread: Option<bool>,
}

/// What the result of a size has in addition to the figures that all have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail<'a> {
    /// Spread of the tool itself, in nanoseconds, if it was measured.
    pub own_spread_ns: Option<u64>,
    /// Limit of the median, if there is one.
    pub until: Option<Until>,
    /// Percentiles beside [`Percentile::STANDARD`].
    pub further: &'a [Percentile],
    /// Whether there is a histogram.
    pub histogram: bool,
}

impl LatencyResult {
    /// The latencies of a size from its samples, of which there is at least one.
    pub fn of(recorder: &Recorder, extent: Extent, detail: Detail) -> Self {
        let mut percentiles = [&Percentile::STANDARD, detail.further].concat();
        percentiles.sort_unstable();
        percentiles.dedup();
        let statistics = recorder.statistics();
        let count = statistics.count();
        let interval = recorder.median_interval();
        let mut before = statistics.min();
        let value = |percentile: Percentile| {
            let value_ns = recorder.percentile(percentile)?;
            let step = value_ns - before;
            if Percentile::STANDARD.contains(&percentile) {
                before = value_ns;
            }
            Some(PercentileValue {
                percent: percentile.percent(),
                value_ns,
                too_few_samples: !percentile.is_supported_by(count),
                within_own_spread: detail.own_spread_ns.map(|spread| step < spread),
            })
        };
        let percentiles: Vec<PercentileValue> = percentiles.into_iter().filter_map(value).collect();
        let value_ns = |percent| {
            let found = percentiles.iter().find(|value| value.percent == percent);
            found.map(|value| value.value_ns)
        };
        Self {
            min_ns: statistics.min(),
            max_ns: statistics.max(),
            mean_ns: statistics.mean(),
            latency_from: None,
            standard_deviation_ns: statistics.standard_deviation(),
            p50_ns: value_ns(50.0),
            p99_ns: value_ns(99.0),
            percentiles,
            median_low_ns: interval.map(|(low, _)| low),
            median_high_ns: interval.map(|(_, high)| high),
            median_is_stable: detail
                .until
                .filter(|_| extent == Extent::Complete)
                .map(|until| until.is_met_by(recorder)),
            histogram: detail.histogram.then(|| bins_of(recorder.histogram())),
            samples_ns: None,
        }
    }
}

/// How much of a size was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// All iterations, or the full duration.
    Complete,
    /// A part: the run ended early.
    Partial,
    /// Nothing: the run ended before this size.
    #[default]
    None,
}

#[cfg(test)]
mod tests {
    use super::super::SizeResult;
    use super::*;

    fn recorded(samples: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::new(None).unwrap();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        recorder
    }

    /// An interrupted size may have had too little time.
    #[test]
    fn only_complete_medians_are_stable_or_not() {
        let stability = |extent| {
            let recorder = recorded([1, 1_000]);
            let detail = Detail { until: Some(Until { percent: 1.0 }), ..Detail::default() };
            let result = SizeResult::from_latencies(8, &recorder, extent, detail);
            result.latency.and_then(|latency| latency.median_is_stable)
        };
        assert_eq!(stability(Extent::Complete), Some(false));
        assert_eq!(stability(Extent::Partial), None);
    }

    #[test]
    fn returns_latency_metrics() {
        let result = SizeResult::from_latencies(
            8,
            &recorded(1..=1_000),
            Extent::Complete,
            Detail::default(),
        );
        let figure = |name: &str| result.figure(name.parse().unwrap());
        assert_eq!(figure("min"), Some(1.0));
        assert_eq!(figure("max"), Some(1_000.0));
        assert_eq!(figure("mean"), Some(500.5));
        assert_eq!(figure("p99"), Some(990.0));
        assert_eq!(figure("p99.99"), Some(1_000.0));
        assert_eq!(figure("bw"), None);
        let marked: Vec<bool> =
            result.latency.unwrap().percentiles.iter().map(|p| p.too_few_samples).collect();
        assert_eq!(marked, [false, false, false, true, true, false]);
    }

    #[test]
    fn marks_percentiles_that_the_tool_cannot_distinguish() {
        // Minimum 100, median 104, p90 to p99.99 112, maximum 120.
        let samples = (0..1_000).map(|i| match i {
            0 => 100,
            1..600 => 104,
            600..999 => 112,
            _ => 120,
        });
        let recorder = recorded(samples);
        let marks = |spread| {
            let result = SizeResult::from_latencies(
                8,
                &recorder,
                Extent::Complete,
                Detail { own_spread_ns: spread, ..Detail::default() },
            );
            let percentiles = result.latency.unwrap().percentiles;
            let marks = percentiles.iter().map(|percentile| percentile.within_own_spread);
            marks.collect::<Vec<_>>()
        };
        assert_eq!(marks(None), [None; 6]);
        let expected = [true, false, true, true, false, true].map(Some);
        assert_eq!(marks(Some(8)), expected);
    }

    #[test]
    fn treats_no_samples_as_not_measured() {
        let result =
            SizeResult::from_latencies(8, &recorded([]), Extent::Partial, Detail::default());
        assert_eq!((result.extent, result.latency.is_none()), (Extent::None, true));
    }

    #[test]
    fn further_percentiles_stand_in_order() {
        let further = ["95", "99", "10"].map(|text| text.parse().unwrap());
        let detail = Detail { further: &further, ..Detail::default() };
        let result = SizeResult::from_latencies(8, &recorded(1..=1_000), Extent::Complete, detail);
        let latency = result.latency.unwrap();
        assert_eq!((latency.p50_ns, latency.p99_ns), (Some(500), Some(990)));
        let percentiles = latency.percentiles;
        let all: Vec<_> = percentiles
            .iter()
            .map(|percentile| (percentile.percent, percentile.value_ns))
            .collect();
        assert_eq!(all[..5], [(10.0, 100), (50.0, 500), (90.0, 900), (95.0, 950), (99.0, 990)]);
        assert_eq!(all.len(), 8);
        // p99 is 90 above p90, and only 40 above p95.
        let detail = Detail { own_spread_ns: Some(50), ..detail };
        let result = SizeResult::from_latencies(8, &recorded(1..=1_000), Extent::Complete, detail);
        assert_eq!(result.latency.unwrap().percentiles[4].within_own_spread, Some(false));
    }
}
