//! The recorder: takes all samples of one size, in constant memory unless they are kept. How well
//! the median of a run is known: its confidence interval, and when that is narrow enough.

use std::sync::Arc;

use facts::error::{Context, Failure};
use facts::percentile::Percentile;
use hdrhistogram::Histogram;

use crate::{Gauge, Statistics};

/// Largest latency of the histogram: one hour, in ns. It counts longer ones as one hour; the
/// statistics are exact.
const LONGEST: u64 = 3_600_000_000_000;

/// Significant decimal digits of the histogram: it is exact to one nanosecond up to 32 us, and to
/// 0.2 s at one hour. It takes 3.5 MB.
const DIGITS: u8 = 4;

/// Exact statistics and a histogram of the samples of one size and, if requested, all samples. No
/// sample is dropped.
#[derive(Debug)]
pub struct Recorder {
    statistics: Statistics,
    histogram: Histogram<u64>,
    samples: Option<Vec<u64>>,
    gauge: Arc<Gauge>,
}

impl Recorder {
    /// Creates a recorder and reserves all its memory. It keeps single samples, at most `keep`, if
    /// that is given.
    ///
    /// # Errors
    ///
    /// Not enough memory (defect T32 of tools.md).
    pub fn new(keep: Option<u64>) -> Result<Self, Failure> {
        let samples = keep.map(reserve).transpose()?;
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS)
            .environment("cannot make a histogram")?;
        Ok(Self { statistics: Statistics::new(), histogram, samples, gauge: Arc::default() })
    }

    /// A recorder whose gauge has the distribution of the samples.
    pub fn with_live_latencies(self) -> Self {
        Self { gauge: Arc::new(Gauge::with_latencies()), ..self }
    }

    /// Records one sample (ns). Neither allocates nor formats.
    #[inline]
    pub fn record(&mut self, sample: u64) {
        self.statistics.add(sample);
        self.histogram.saturating_record(sample);
        if let Some(samples) = &mut self.samples
            && samples.len() < samples.capacity()
        {
            samples.push(sample);
        }
        let statistics = &self.statistics;
        self.gauge.record(sample);
        self.gauge.set(statistics.count(), statistics.sum() as u64);
    }

    /// Removes all samples, for the next size.
    pub fn clear(&mut self) {
        self.statistics = Statistics::new();
        // An unused histogram has not used its memory either: clearing would allocate its pages.
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        if let Some(samples) = &mut self.samples {
            samples.clear();
        }
        self.gauge.clear();
    }

    /// The progress, for another thread.
    pub fn gauge(&self) -> &Arc<Gauge> {
        &self.gauge
    }

    /// Returns count, minimum, maximum, mean and deviation.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The sample (ns) at the nearest rank of `percentile`, with the resolution of the histogram:
    /// never less than the sample, never more than the maximum. `None` without samples.
    pub fn percentile(&self, percentile: Percentile) -> Option<u64> {
        self.at_rank(percentile.rank(self.statistics.count()))
    }

    /// The median (ns). `None` without samples.
    pub fn median(&self) -> Option<u64> {
        self.percentile(Percentile::MEDIAN)
    }

    /// The ends (ns) of the 95 % confidence interval of the median. `None` with too few samples.
    pub fn median_interval(&self) -> Option<(u64, u64)> {
        let (low, high) = median_ranks(self.statistics.count())?;
        self.at_rank(low).zip(self.at_rank(high))
    }

    /// The sample at a rank in ascending order, from 1, with the resolution of the histogram.
    fn at_rank(&self, rank: u64) -> Option<u64> {
        let count = self.statistics.count();
        let max = self.statistics.max();
        // Also because the last place of the histogram counts the samples above one hour.
        if rank == count {
            return (count > 0).then_some(max);
        }
        let mut seen = 0;
        let place = self.histogram.iter_recorded().find(|place| {
            seen += place.count_since_last_iteration();
            seen >= rank
        })?;
        let value = self.histogram.highest_equivalent(place.value_iterated_to());
        Some(value.min(max))
    }

    /// The histogram of the samples.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// The samples (ns) in the order of recording, if they are kept.
    pub fn samples(&self) -> Option<&[u64]> {
        self.samples.as_deref()
    }
}

fn reserve(count: u64) -> Result<Vec<u64>, Failure> {
    let mut samples = Vec::new();
    usize::try_from(count)
        .ok()
        .and_then(|count| samples.try_reserve_exact(count).ok())
        .ok_or_else(|| {
            Failure::environment(format!("not enough memory to store {count} samples"))
                .with_hint("use fewer iterations, or omit --report-all and --samples")
        })?;
    Ok(samples)
}

/// The 97.5th percentile of the normal distribution, for intervals of 95 %.
const NORMAL_97_5: f64 = 1.959_963_985;

/// The ranks of the samples that bound the median of the distribution with a confidence of at least
/// 95 %, among `count` samples in ascending order; `None` with too few samples.
///
/// Each sample lies below the median with probability 1/2, whatever the distribution, so the number
/// below it is binomially distributed. The samples must be independent of each other.
fn median_ranks(count: u64) -> Option<(u64, u64)> {
    let n = count as f64;
    let low = ((n - NORMAL_97_5 * n.sqrt()) / 2.0).floor();
    (low >= 1.0).then(|| (low as u64, count + 1 - low as u64))
}

/// Fewest samples of a stable median.
const LEAST_SAMPLES: u64 = 100;

/// The limit of `--until`: how far the ends of the 95 % interval of the median may lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// The limit in percent of the median, above 0.
    pub percent: f64,
}

impl Until {
    /// Whether both ends of `interval` lie within the limit of `median`.
    fn admits(self, median: u64, (low, high): (u64, u64)) -> bool {
        let farthest = (median - low).max(high - median);
        farthest as f64 <= median as f64 * self.percent / 100.0
    }

    /// Whether the median of the samples is known to the limit.
    pub fn is_met_by(self, recorder: &Recorder) -> bool {
        let enough = recorder.statistics().count() >= LEAST_SAMPLES;
        let median = recorder.median().zip(recorder.median_interval());
        enough && median.is_some_and(|(median, interval)| self.admits(median, interval))
    }
}

/// Decides during a run whether its median is stable.
///
/// A decision walks through a histogram, and each further decision makes it likelier that one is
/// met by chance. So the number of samples grows by half from one decision to the next.
#[derive(Clone, Copy, Debug)]
pub struct StabilityCheck {
    until: Option<Until>,
    /// Number of samples of the next decision.
    next: u64,
}

impl StabilityCheck {
    /// Creates a check for one size. Without a limit it never ends the run.
    pub fn new(until: Option<Until>) -> Self {
        Self { until, next: LEAST_SAMPLES }
    }

    /// Whether the run may end. Called after each sample.
    #[inline]
    pub fn ends(&mut self, recorder: &Recorder) -> bool {
        match self.until {
            Some(until) if recorder.statistics().count() >= self.next => {
                self.next += self.next / 2;
                until.is_met_by(recorder)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statistics_histogram_and_samples_agree() {
        let mut recorder = Recorder::new(Some(3)).unwrap();
        [2008, 2012, 2007].into_iter().for_each(|sample| recorder.record(sample));
        assert_eq!(recorder.samples(), Some(&[2008, 2012, 2007][..]));
        assert_eq!(recorder.statistics(), &[2008, 2012, 2007].into_iter().collect());
        assert_eq!(recorder.histogram().len(), 3);
        assert_eq!(recorder.gauge().get(), (3, 6027));
        recorder.gauge().begin(1);
        recorder.gauge().end(2);
        recorder.clear();
        assert_eq!(recorder.samples(), Some(&[][..]));
        let gauge = recorder.gauge();
        assert_eq!((gauge.get(), gauge.begun(), gauge.ended()), ((0, 0), None, None));
        assert_eq!((recorder.statistics().count(), recorder.histogram().len()), (0, 0));
    }

    #[test]
    fn keeps_samples_only_on_request() {
        let mut recorder = Recorder::new(None).unwrap();
        recorder.record(2008);
        assert_eq!(recorder.samples(), None);
    }

    #[test]
    fn drops_no_sample() {
        let mut recorder = Recorder::new(None).unwrap();
        [0, LONGEST * 2].into_iter().for_each(|sample| recorder.record(sample));
        assert_eq!((recorder.statistics().min(), recorder.statistics().max()), (0, LONGEST * 2));
        assert_eq!(recorder.histogram().len(), 2);
    }

    #[test]
    fn percentile_is_sample_at_rank() {
        let mut recorder = Recorder::new(None).unwrap();
        assert_eq!(recorder.percentile(Percentile::MEDIAN), None);
        // Unordered: 1 to 10,000 ns.
        (0..10_000).for_each(|i| recorder.record(1 + i * 7919 % 10_000));
        let values = Percentile::STANDARD.map(|percentile| recorder.percentile(percentile));
        let expected = [5_000, 9_000, 9_900, 9_990, 9_999, 10_000];
        assert_eq!(values, expected.map(Some));
    }

    #[test]
    fn resolves_nanosecond_to_hour() {
        for base in [0, 1, 1_000, 32_700, 1_000_000, 1_000_000_000, LONGEST - 100] {
            for sample in base..base + 5 {
                let mut recorder = Recorder::new(None).unwrap();
                recorder.record(sample);
                recorder.record(sample);
                recorder.record(LONGEST * 3);
                let median = recorder.percentile(Percentile::MEDIAN).unwrap();
                assert!(median >= sample, "{median} of {sample}");
                assert!(median - sample <= sample / 10_000, "{median} of {sample}");
                assert_eq!(recorder.percentile(Percentile::MAX), Some(LONGEST * 3));
            }
        }
    }

    #[test]
    fn never_reallocates_kept_samples() {
        let mut recorder = Recorder::new(Some(2)).unwrap();
        let capacity = recorder.samples.as_ref().unwrap().capacity();
        (0..capacity as u64 + 5).for_each(|sample| recorder.record(sample));
        assert_eq!(recorder.samples.as_ref().unwrap().capacity(), capacity);
    }

    #[test]
    fn t32_reports_too_many_samples() {
        for count in [u64::MAX, u64::MAX / 8, 1 << 60] {
            let failure = Recorder::new(Some(count)).unwrap_err();
            assert!(failure.message().contains(&count.to_string()), "{}", failure.message());
        }
    }

    /// The exact probability that fewer than `k` of `n` samples lie below the median.
    fn below(n: u64, k: u64) -> f64 {
        let mut term = 0.5_f64.powi(n as i32);
        let mut sum = 0.0;
        for i in 0..k {
            sum += term;
            term *= (n - i) as f64 / (i + 1) as f64;
        }
        sum
    }

    /// Up to the number of samples for which the smallest probability is a normal number.
    #[test]
    fn interval_covers_the_median_with_95_percent() {
        let mut first = None;
        for n in 1..=1_000 {
            let Some((low, high)) = median_ranks(n) else {
                continue;
            };
            first.get_or_insert(n);
            assert_eq!(low + high, n + 1);
            // The median lies below the lower end if fewer than `low` samples lie below it.
            let coverage = 1.0 - 2.0 * below(n, low);
            assert!(coverage >= 0.95, "{coverage} with {n}");
            if n >= 100 {
                // Not wider than necessary: the next narrower ranks cover less.
                let narrower = 1.0 - 2.0 * below(n, low + 2);
                assert!(narrower < 0.95, "{narrower} with {n}");
            }
        }
        assert_eq!(first, Some(8));
    }

    fn recorded(samples: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::new(None).unwrap();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        recorder
    }

    #[test]
    fn needs_100_samples() {
        let until = Until { percent: 1.0 };
        assert!(!until.is_met_by(&recorded(vec![500; 99])));
        assert!(until.is_met_by(&recorded(vec![500; 100])));
    }

    #[test]
    fn both_ends_must_lie_within_limit() {
        let until = Until { percent: 1.0 };
        for (median, interval, met) in [
            (1_000, (990, 1_010), true),
            (1_000, (989, 1_000), false),
            (1_000, (1_000, 1_011), false),
            (50, (50, 50), true),
            (50, (49, 50), false),
            (0, (0, 0), true),
        ] {
            assert_eq!(until.admits(median, interval), met, "{median} {interval:?}");
        }
    }

    #[test]
    fn decides_at_growing_numbers_of_samples() {
        // No median of two far values is stable.
        let mut recorder = Recorder::new(None).unwrap();
        let mut check = StabilityCheck::new(Some(Until { percent: 1.0 }));
        let mut decisions = Vec::new();
        for i in 0..1_000 {
            recorder.record(500 + i % 2 * 500);
            let before = check.next;
            assert!(!check.ends(&recorder));
            if check.next != before {
                decisions.push(i + 1);
            }
        }
        assert_eq!(decisions, [100, 150, 225, 337, 505, 757]);
        let mut never = StabilityCheck::new(None);
        assert!(!never.ends(&recorded(vec![500; 200])));
    }

    proptest! {
        /// A wide interval of a wide distribution ends no run; a constant one ends each.
        #[test]
        fn interval_contains_the_median(
            samples in prop::collection::vec(1_u64..30_000, 8..400),
        ) {
            let recorder = recorded(samples.iter().copied());
            let (low, high) = recorder.median_interval().unwrap();
            let median = recorder.median().unwrap();
            prop_assert!(low <= median && median <= high);
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let (first, last) = median_ranks(samples.len() as u64).unwrap();
            prop_assert_eq!((low, high), (sorted[first as usize - 1], sorted[last as usize - 1]));
        }

        #[test]
        fn more_samples_do_not_widen_the_ranks(count in 100_u64..1_000_000) {
            let width = |n: u64| median_ranks(n).map(|(low, high)| (high - low) as f64 / n as f64);
            prop_assert!(width(count * 4).unwrap() < width(count).unwrap());
        }
    }
}
