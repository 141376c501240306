//! The clocks that the measuring loops read.

use cxi::clock::CpuCounter;
use rustix::time::{ClockId, clock_getres};

/// A monotonic clock, in nanoseconds from an arbitrary start.
///
/// Changes of the system time do not affect it (defect T17 of tools.md).
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> u64;
}

/// CLOCK_MONOTONIC_RAW: nanoseconds, not slewed by time synchronisation.
#[derive(Clone, Copy, Debug)]
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

/// Binary digits of a rate behind the point: enough for a relative error of 10^-9.
const FRACTION: u32 = 32;

/// The counter of the CPUs, converted to nanoseconds at a fixed rate.
#[derive(Clone, Copy, Debug)]
pub struct CounterClock {
    counter: CpuCounter,
    /// Nanoseconds per count, times 2^32.
    rate: u64,
}

impl CounterClock {
    /// Creates a clock that converts at `rate`, in nanoseconds per count.
    pub fn new(counter: CpuCounter, rate: f64) -> Self {
        Self { counter, rate: (rate * (1_u64 << FRACTION) as f64).round() as u64 }
    }

    /// Returns the rate after rounding, in nanoseconds per count.
    pub fn rate(self) -> f64 {
        self.rate as f64 / (1_u64 << FRACTION) as f64
    }

    /// Converts a count.
    #[inline(always)]
    fn nanoseconds(self, count: u64) -> u64 {
        ((u128::from(count) * u128::from(self.rate)) >> FRACTION) as u64
    }
}

impl Clock for CounterClock {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.nanoseconds(self.counter.read())
    }
}

/// The clock of the loops of a run. The choice among the variants is made outside the loops.
#[derive(Clone, Copy, Debug)]
pub enum ChosenClock {
    /// The clock of the kernel.
    MonotonicRaw(MonotonicRaw),
    /// The counter of the CPUs.
    Counter(CounterClock),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Counters of 1 MHz to 8 GHz of a machine that has been up for 36 years at most.
        #[test]
        fn converts_differences_of_counts_to_nanoseconds(
            rate in 0.125_f64..1000.0,
            up_ns in 0_u64..1 << 60,
            counts in 0_u64..1 << 40,
        ) {
            let Some(counter) = CpuCounter::find() else {
                return Ok(());
            };
            let clock = CounterClock::new(counter, rate);
            let at = (up_ns as f64 / rate) as u64;
            prop_assert!((clock.rate() / rate - 1.0).abs() < 2e-9);
            let difference = clock.nanoseconds(at + counts) - clock.nanoseconds(at);
            let exact = counts as f64 * clock.rate();
            prop_assert!((difference as f64 - exact).abs() <= 1.0 + exact * 1e-12);
        }
    }
}
