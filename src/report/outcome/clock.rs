//! The clock, and what the tool itself adds to a latency.

use serde::{Deserialize, Serialize};

use measure;
use measure::{ClockFacts, OwnError};

/// The clock that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Clock"))]
pub struct MeasuringClock {
    /// Name of the clock: TSC, CNTVCT, or a clock of Linux.
    pub name: String,
    /// Resolution of the times, in nanoseconds.
    pub resolution_ns: u64,
    /// Frequency of the counter, measured against CLOCK_MONOTONIC_RAW over the whole run, in Hz;
    /// null for a clock of Linux, and if nothing was measured.
    pub frequency_hz: Option<f64>,
    /// Relative difference between the rate at which counts were converted to nanoseconds and the
    /// rate measured over the whole run, in parts per million; null for a clock of Linux, and if
    /// nothing was measured.
    pub drift_ppm: Option<f64>,
}

impl From<ClockFacts> for MeasuringClock {
    fn from(facts: ClockFacts) -> Self {
        Self {
            name: facts.name.into(),
            resolution_ns: facts.resolution_ns,
            frequency_hz: facts.frequency_hz,
            drift_ppm: facts.drift_ppm,
        }
    }
}

/// What the tool itself adds to a latency. Each time contains the cost of about one reading of the
/// clock, as a latency does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct MeasurementError {
    /// Two readings of the clock in a row.
    pub clock: Distribution,
    /// Issuing a command with 8 bytes of data by a low-latency write.
    pub issue: Distribution,
    /// Polling an event that is ready.
    pub poll: Distribution,
    /// Issuing and polling in one sample: about the latency that `write-lat` reports for a NIC that
    /// takes no time.
    pub path: Distribution,
    /// Granularity of the clock, in nanoseconds.
    pub granularity_ns: u64,
    /// Spread of the tool's own part of a latency, in nanoseconds: p99 minus minimum of the path,
    /// and at least the granularity.
    pub spread_ns: u64,
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Distribution {
    /// Number of samples.
    pub count: u64,
    /// Smallest sample, in nanoseconds.
    pub min_ns: u64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// Largest sample, in nanoseconds.
    pub max_ns: u64,
}

impl From<measure::Distribution> for Distribution {
    fn from(distribution: measure::Distribution) -> Self {
        Self {
            count: distribution.count,
            min_ns: distribution.min_ns,
            p50_ns: distribution.p50_ns,
            p99_ns: distribution.p99_ns,
            max_ns: distribution.max_ns,
        }
    }
}

impl From<OwnError> for MeasurementError {
    fn from(error: OwnError) -> Self {
        Self {
            clock: error.clock.into(),
            issue: error.issue.into(),
            poll: error.poll.into(),
            path: error.path.into(),
            granularity_ns: error.granularity_ns,
            spread_ns: error.spread_ns(),
        }
    }
}
