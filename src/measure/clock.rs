//! The clock of the measuring loops.

use rustix::time::{ClockId, clock_getres};

/// A clock that only goes forward, in nanoseconds from an arbitrary start.
///
/// No step of the system's date distorts or prolongs a run (defect T17 of tools.md).
pub trait Clock {
    /// The time now.
    fn now(&self) -> u64;
}

/// CLOCK_MONOTONIC_RAW: nanoseconds, not slewed by time synchronisation.
pub struct MonotonicRaw;

impl MonotonicRaw {
    /// What the kernel calls it.
    pub const NAME: &str = "CLOCK_MONOTONIC_RAW";

    /// Its resolution in nanoseconds, as the kernel tells it.
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
