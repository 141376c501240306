//! What another thread reads while a loop measures: the progress, and a histogram of latencies.

use std::sync::atomic::{AtomicU64, Ordering};

use facts::percentile::Percentile;

/// Numbers that a measuring loop sets outside the timed part, without locks. A reader may see one
/// number slightly older than the other.
#[derive(Debug, Default)]
pub struct Gauge {
    count: AtomicU64,
    sum: AtomicU64,
    /// Times of [`MonotonicRaw`](super::MonotonicRaw); 0 before they are known.
    begun: AtomicU64,
    ended: AtomicU64,
    latencies: Option<LiveHistogram>,
}

impl Gauge {
    /// Creates a gauge with the distribution of the latencies.
    pub fn with_latencies() -> Self {
        Self { latencies: Some(LiveHistogram::new()), ..Self::default() }
    }

    /// Sets the number of operations and the sum of their latencies (ns; 0 if not measured).
    #[inline]
    pub fn set(&self, count: u64, sum: u64) {
        self.count.store(count, Ordering::Relaxed);
        self.sum.store(sum, Ordering::Relaxed);
    }

    /// Adds operations. Several threads may do so at the same time.
    #[inline]
    pub fn add(&self, operations: u64) {
        self.count.fetch_add(operations, Ordering::Relaxed);
    }

    /// The numbers that were set last.
    pub fn get(&self) -> (u64, u64) {
        let count = self.count.load(Ordering::Relaxed);
        (count, self.sum.load(Ordering::Relaxed))
    }

    /// Sets all numbers for a size that has not begun. The distribution stays as it is.
    pub fn clear(&self) {
        for number in [&self.count, &self.sum, &self.begun, &self.ended] {
            number.store(0, Ordering::Relaxed);
        }
    }

    /// Sets the begin of the measured part (ns of [`MonotonicRaw`](super::MonotonicRaw)).
    pub fn begin(&self, now: u64) {
        self.begun.store(now, Ordering::Relaxed);
    }

    /// Sets the end of the measured part (ns of [`MonotonicRaw`](super::MonotonicRaw)).
    pub fn end(&self, now: u64) {
        self.ended.store(now, Ordering::Relaxed);
    }

    /// Returns when the measured part has begun; `None` before.
    pub fn begun(&self) -> Option<u64> {
        Some(self.begun.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Returns when the measured part has ended; `None` before.
    pub fn ended(&self) -> Option<u64> {
        Some(self.ended.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Adds a latency (ns) to the distribution, if there is one.
    #[inline]
    pub fn record(&self, latency: u64) {
        if let Some(latencies) = &self.latencies {
            latencies.record(latency);
        }
    }

    /// The distribution of the latencies, of all sizes so far, if there is one.
    pub fn latencies(&self) -> Option<LatencyCounts> {
        self.latencies.as_ref().map(LiveHistogram::read)
    }
}

/// Binary digits of a latency that the histogram distinguishes after the leading one: it is exact
/// to one nanosecond up to 511 ns, and to 0.2 % above.
const DIGITS: u32 = 8;

/// Largest latency in ns, a little above one hour. Longer ones count as this one.
const LONGEST: u64 = (1 << 42) - 1;

const PLACES: usize = place(LONGEST) + 1;

/// Counts of latencies, log-linear: [`DIGITS`] binary digits in each power of two.
///
/// The counts only grow. A reader subtracts what it has read before, so that nothing is reset and a
/// record is never lost. They take 70 KB.
#[derive(Debug)]
pub struct LiveHistogram(Box<[AtomicU64]>);

impl LiveHistogram {
    /// Creates an empty histogram. All its memory is used at once, so that the first records cause
    /// no page faults.
    pub fn new() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }

    /// Records a latency (ns). One thread alone may record.
    #[inline]
    pub fn record(&self, sample: u64) {
        let count = &self.0[place(sample.min(LONGEST))];
        // There is no other writer, so no increment can be lost.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub fn read(&self) -> LatencyCounts {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        LatencyCounts(counts.collect())
    }
}

impl Default for LiveHistogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The counts of a `LiveHistogram` at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyCounts(Box<[u64]>);

impl LatencyCounts {
    /// The counts of an empty histogram.
    pub fn none() -> Self {
        Self(vec![0; PLACES].into())
    }

    /// The latency (ns) at the nearest rank of `percentile` among those that were recorded after
    /// `before` was read, with the resolution of the histogram. `None` if there are none.
    pub fn percentile_since(&self, before: &Self, percentile: Percentile) -> Option<u64> {
        let added = || self.0.iter().zip(&before.0).map(|(now, then)| now - then);
        let count = added().sum();
        if count == 0 {
            return None;
        }
        let rank = percentile.rank(count);
        let mut seen = 0;
        let at = added().position(|added| {
            seen += added;
            seen >= rank
        })?;
        Some(middle(at))
    }
}

const fn place(sample: u64) -> usize {
    let magnitude = (u64::BITS - sample.leading_zeros()).saturating_sub(DIGITS + 1);
    ((magnitude as u64) << DIGITS) as usize + (sample >> magnitude) as usize
}

const fn middle(place: usize) -> u64 {
    let magnitude = (place as u64 >> DIGITS).saturating_sub(1);
    let lowest = (place as u64 - (magnitude << DIGITS)) << magnitude;
    lowest + ((1 << magnitude) - 1) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_have_their_latencies_in_order() {
        assert_eq!((place(0), place(LONGEST)), (0, PLACES - 1));
        let middles: Vec<u64> = (0..PLACES).map(middle).collect();
        assert!(middles.is_sorted());
        assert!(middles.iter().map(|ns| place(*ns)).eq(0..PLACES));
    }

    proptest! {
        #[test]
        fn resolves_latencies_to_0_2_percent(sample in prop_oneof![0..=LONGEST, 0..1_000_000_u64]) {
            let shown = middle(place(sample));
            prop_assert!(shown.abs_diff(sample) <= sample / 512, "{shown} for {sample}");
        }
    }

    #[test]
    fn counts_latencies_above_the_longest_as_the_longest() {
        let histogram = LiveHistogram::new();
        histogram.record(u64::MAX);
        let none = LatencyCounts::none();
        let shown = histogram.read().percentile_since(&none, Percentile::P99);
        assert_eq!(shown, Some(middle(PLACES - 1)));
    }

    #[test]
    fn percentile_is_that_of_the_latencies_after_the_former_reading() {
        let histogram = LiveHistogram::new();
        histogram.record(500);
        let before = histogram.read();
        assert_eq!(before.percentile_since(&before, Percentile::P99), None);
        (1..=100).for_each(|sample| histogram.record(sample));
        let after = histogram.read();
        assert_eq!(after.percentile_since(&before, Percentile::P99), Some(99));
        assert_eq!(after.percentile_since(&before, Percentile::MAX), Some(100));
        // The first latency is the largest of all.
        let none = LatencyCounts::none();
        assert_eq!(after.percentile_since(&none, Percentile::MAX), Some(500));
    }
}
