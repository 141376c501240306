//! The progress of a measurement, for another thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Two numbers that a measuring loop sets outside the timed part, without locks. A reader may see
/// one number slightly older than the other.
#[derive(Debug, Default)]
pub struct Gauge {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Gauge {
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
}
