//! The clock of the measuring loops.

use rustix::time::{ClockId, clock_getres};

/// A monotonic clock, in nanoseconds from an arbitrary start.
///
/// Changes of the system time do not affect it (defect T17 of tools.md).
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> u64;
}

/// CLOCK_MONOTONIC_RAW: nanoseconds, not slewed by time synchronisation.
pub struct MonotonicRaw;

impl MonotonicRaw {
    /// Name of the clock in the kernel.
    pub const NAME: &str = "CLOCK_MONOTONIC_RAW";

    /// Returns the resolution that the kernel reports, in nanoseconds.
    pub fn resolution_ns() -> u64 {
        let resolution = clock_getres(ClockId::MonotonicRaw);
        resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64
    }
}

impl Clock for MonotonicRaw {
    #[inline(always)]
    fn now(&self) -> u64 {
        cxi::clock::now_ns()
    }
}
