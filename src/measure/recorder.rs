//! The recorder: takes every sample of one size, in constant memory unless all are to be kept.

use std::sync::Arc;

use hdrhistogram::Histogram;

use super::{Gauge, Percentile, Statistics};
use crate::error::{Context, Failure};

/// Longest latency with a place of its own in the histogram: one hour, in ns. Longer ones are
/// counted there as one hour; the statistics have them as they are.
const LONGEST: u64 = 3_600_000_000_000;

/// Decimal digits to which the histogram tells latencies apart: every nanosecond up to 32 us has its
/// place, and an hour is told to 0.2 s. It takes 3.5 MB.
const DIGITS: u8 = 4;

/// Exact statistics and a histogram of the latencies of one size; all of them, if asked to keep
/// them. Nothing is trimmed.
#[derive(Debug)]
pub struct Recorder {
    statistics: Statistics,
    histogram: Histogram<u64>,
    samples: Option<Vec<u64>>,
    gauge: Arc<Gauge>,
}

impl Recorder {
    /// A recorder that also keeps the samples themselves, if `keep` says how many there will be.
    ///
    /// All memory is reserved here. Fails if there is not enough (defect T32 of tools.md).
    pub fn new(keep: Option<u64>) -> Result<Self, Failure> {
        let samples = keep.map(reserve).transpose()?;
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS)
            .environment("cannot make a histogram")?;
        Ok(Self {
            statistics: Statistics::new(),
            histogram,
            samples,
            gauge: Arc::default(),
        })
    }

    /// Takes one sample (ns). Neither allocates nor formats.
    #[inline]
    pub fn record(&mut self, sample: u64) {
        self.statistics.add(sample);
        self.histogram.saturating_record(sample);
        if let Some(samples) = &mut self.samples
            && samples.len() < samples.capacity()
        {
            samples.push(sample);
        }
        self.set_gauge();
    }

    /// Forgets all samples, to be used for the next size.
    pub fn clear(&mut self) {
        self.statistics = Statistics::new();
        self.histogram.reset();
        if let Some(samples) = &mut self.samples {
            samples.clear();
        }
        self.set_gauge();
    }

    fn set_gauge(&self) {
        let statistics = &self.statistics;
        self.gauge.set(statistics.count(), statistics.sum() as u64);
    }

    /// Tells another thread how far this has come.
    pub fn gauge(&self) -> &Arc<Gauge> {
        &self.gauge
    }

    /// Count, ends, mean and deviation.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The sample (ns) at the nearest rank of `percentile`, as exactly as the histogram tells it: never
    /// less than it is, and never more than the largest sample. Nothing without samples.
    pub fn percentile(&self, percentile: Percentile) -> Option<u64> {
        let rank = percentile.rank(self.statistics.count());
        let mut seen = 0;
        let place = self.histogram.iter_recorded().find(|place| {
            seen += place.count_since_last_iteration();
            seen >= rank
        })?;
        // The last place also has what was longer than an hour.
        let value = match rank == self.statistics.count() {
            true => self.statistics.max(),
            false => self.histogram.highest_equivalent(place.value_iterated_to()),
        };
        Some(value.min(self.statistics.max()))
    }

    /// Distribution of the samples.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// The samples (ns) in the order of their taking, where they are kept.
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
                .with_hint("use fewer iterations, or omit --report-all")
        })?;
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_histogram_and_samples_see_the_same() {
        let mut recorder = Recorder::new(Some(3)).unwrap();
        [2008, 2012, 2007]
            .into_iter()
            .for_each(|sample| recorder.record(sample));
        assert_eq!(recorder.samples(), Some(&[2008, 2012, 2007][..]));
        assert_eq!(
            recorder.statistics(),
            &[2008, 2012, 2007].into_iter().collect()
        );
        assert_eq!(recorder.histogram().len(), 3);
        assert_eq!(recorder.gauge().get(), (3, 6027));
        recorder.clear();
        assert_eq!(recorder.samples(), Some(&[][..]));
        assert_eq!(recorder.gauge().get(), (0, 0));
        assert_eq!(
            (recorder.statistics().count(), recorder.histogram().len()),
            (0, 0)
        );
    }

    #[test]
    fn samples_are_kept_only_on_request() {
        let mut recorder = Recorder::new(None).unwrap();
        recorder.record(2008);
        assert_eq!(recorder.samples(), None);
    }

    #[test]
    fn nothing_is_trimmed() {
        let mut recorder = Recorder::new(None).unwrap();
        [0, LONGEST * 2]
            .into_iter()
            .for_each(|sample| recorder.record(sample));
        assert_eq!(
            (recorder.statistics().min(), recorder.statistics().max()),
            (0, LONGEST * 2)
        );
        assert_eq!(recorder.histogram().len(), 2);
    }

    #[test]
    fn percentiles_are_samples_at_their_rank() {
        let mut recorder = Recorder::new(None).unwrap();
        assert_eq!(recorder.percentile(Percentile::MEDIAN), None);
        // In no order: 1 to 10,000 ns.
        (0..10_000).for_each(|i| recorder.record(1 + i * 7919 % 10_000));
        let values = Percentile::STANDARD.map(|percentile| recorder.percentile(percentile));
        let expected = [5_000, 9_000, 9_900, 9_990, 9_999, 10_000];
        assert_eq!(values, expected.map(Some));
    }

    #[test]
    fn resolution_from_a_nanosecond_to_an_hour() {
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
    fn kept_samples_never_grow() {
        let mut recorder = Recorder::new(Some(2)).unwrap();
        let capacity = recorder.samples.as_ref().unwrap().capacity();
        (0..capacity as u64 + 5).for_each(|sample| recorder.record(sample));
        assert_eq!(recorder.samples.as_ref().unwrap().capacity(), capacity);
    }

    #[test]
    fn t32_too_many_samples_are_one_clear_error() {
        for count in [u64::MAX, u64::MAX / 8, 1 << 60] {
            let failure = Recorder::new(Some(count)).unwrap_err();
            assert!(
                failure.message().contains(&count.to_string()),
                "{}",
                failure.message()
            );
        }
    }
}
