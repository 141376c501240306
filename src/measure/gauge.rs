//! The progress of a measurement, for another thread.

use std::sync::atomic::{AtomicU64, Ordering};

use super::live_histogram::{LatencyCounts, LiveHistogram};

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

    /// Returns the numbers that were set last.
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

    /// Returns the distribution of the latencies, of all sizes so far, if there is one.
    pub fn latencies(&self) -> Option<LatencyCounts> {
        self.latencies.as_ref().map(LiveHistogram::read)
    }
}
