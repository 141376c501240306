//! The recorder: takes all samples of one size, in constant memory unless they are kept. The
//! confidence interval of their median.

use std::sync::Arc;

use hdrhistogram::Histogram;

use super::{Gauge, Statistics};
use facts::error::{Context, Failure};
use facts::percentile::Percentile;

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

    /// Returns a recorder whose gauge has the distribution of the samples.
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

    /// Returns the progress, for another thread.
    pub fn gauge(&self) -> &Arc<Gauge> {
        &self.gauge
    }

    /// Returns count, minimum, maximum, mean and deviation.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the sample (ns) at the nearest rank of `percentile`, with the resolution of the
    /// histogram: never less than the sample, never more than the maximum. `None` without samples.
    pub fn percentile(&self, percentile: Percentile) -> Option<u64> {
        self.at_rank(percentile.rank(self.statistics.count()))
    }

    /// Returns the median (ns). `None` without samples.
    pub fn median(&self) -> Option<u64> {
        self.percentile(Percentile::MEDIAN)
    }

    /// Returns the ends (ns) of the 95 % confidence interval of the median. `None` with too few
    /// samples.
    pub fn median_interval(&self) -> Option<(u64, u64)> {
        let (low, high) = median_ranks(self.statistics.count())?;
        self.at_rank(low).zip(self.at_rank(high))
    }

    /// Returns the sample at a rank in ascending order, from 1, with the resolution of the
    /// histogram.
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

    /// Returns the histogram of the samples.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Returns the samples (ns) in the order of recording, if they are kept.
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

/// Returns the ranks of the samples that bound the median of the distribution with a confidence of
/// at least 95 %, among `count` samples in ascending order; `None` with too few samples.
///
/// Each sample lies below the median with probability 1/2, whatever the distribution, so the number
/// below it is binomially distributed. The samples must be independent of each other.
pub fn median_ranks(count: u64) -> Option<(u64, u64)> {
    let n = count as f64;
    let low = ((n - NORMAL_97_5 * n.sqrt()) / 2.0).floor();
    (low >= 1.0).then(|| (low as u64, count + 1 - low as u64))
}

#[cfg(test)]
mod tests {
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
}
