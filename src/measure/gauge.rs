//! How far a measurement has come, for another thread to look at.

use std::sync::atomic::{AtomicU64, Ordering};

/// Two numbers that a measuring loop sets outside the timed part, without waiting for anybody. A
/// reader may see one a little older than the other.
#[derive(Debug, Default)]
pub struct Gauge {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Gauge {
    /// So many operations count; their latencies make this sum (ns), where they are measured.
    #[inline]
    pub fn set(&self, count: u64, sum: u64) {
        self.count.store(count, Ordering::Relaxed);
        self.sum.store(sum, Ordering::Relaxed);
    }

    /// What was set last.
    pub fn get(&self) -> (u64, u64) {
        let count = self.count.load(Ordering::Relaxed);
        (count, self.sum.load(Ordering::Relaxed))
    }
}
