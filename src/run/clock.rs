//! The clock of the measuring loops.

/// A clock that only goes forward, in nanoseconds from an arbitrary start.
///
/// No step of the system's date distorts or prolongs a run (defect T17 of tools.md).
pub trait Clock {
    /// The time now.
    fn now(&self) -> u64;
}

/// CLOCK_MONOTONIC_RAW: nanoseconds, not slewed by time synchronisation.
pub struct MonotonicRaw;

impl Clock for MonotonicRaw {
    #[inline(always)]
    fn now(&self) -> u64 {
        cxi::clock::now_ns()
    }
}
