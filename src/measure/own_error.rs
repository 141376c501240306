//! What the tool itself adds to a latency: the cost of a reading of the clock, of issuing a
//! command, and of polling an event, without a NIC.

use cxi::calibration::PrivateQueues;
use serde::{Deserialize, Serialize};

use super::clock::Clock;
use facts::error::{Context, Failure};

/// Samples of each distribution.
const SAMPLES: usize = 4096;

/// Iterations before the samples, which load code and memory into the caches.
const WARMUP: usize = 256;

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
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

impl Distribution {
    /// The distribution of `samples`, of which there is at least one, by nearest rank.
    fn of(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        let at = |percent: usize| samples[(samples.len() * percent).div_ceil(100).max(1) - 1];
        Self {
            count: samples.len() as u64,
            min_ns: at(0),
            p50_ns: at(50),
            p99_ns: at(99),
            max_ns: at(100),
        }
    }
}

/// What the tool itself adds to a latency. Each time contains the cost of about one reading of the
/// clock, as a latency does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
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

impl MeasurementError {
    /// Measures the tool on queues without a NIC. Takes about a millisecond.
    ///
    /// # Errors
    ///
    /// Not enough memory for the queues.
    pub fn measure(clock: &impl Clock) -> Result<Self, Failure> {
        let what = "cannot measure the error of the measurement";
        let mut queues = PrivateQueues::new().environment(what)?;
        let mut issued = Ok(());
        let mut seen = 0;
        let clock_alone = sampled(|| time(clock, || ()));
        let granularity_ns = granularity(&clock_alone);
        let issue = sampled(|| {
            let taken = time(clock, || {
                issued = issued.and(queues.issue());
            });
            queues.read_command();
            queues.write_event();
            seen += usize::from(queues.poll());
            queues.acknowledge();
            taken
        });
        let poll = sampled(|| {
            issued = issued.and(queues.issue());
            queues.read_command();
            queues.write_event();
            let taken = time(clock, || seen += usize::from(queues.poll()));
            queues.acknowledge();
            taken
        });
        let path = sampled(|| {
            queues.write_event();
            let taken = time(clock, || {
                issued = issued.and(queues.issue());
                seen += usize::from(queues.poll());
            });
            queues.acknowledge();
            queues.read_command();
            taken
        });
        issued.environment(what)?;
        if seen != 3 * (WARMUP + SAMPLES) {
            return Err(Failure::environment(format!("{what}: events are missing")));
        }
        Ok(Self::of([clock_alone, issue, poll, path], granularity_ns))
    }

    fn of(samples: [Vec<u64>; 4], granularity_ns: u64) -> Self {
        let [clock, issue, poll, path] = samples.map(Distribution::of);
        let spread_ns = (path.p99_ns - path.min_ns).max(granularity_ns);
        Self { clock, issue, poll, path, granularity_ns, spread_ns }
    }
}

/// Takes the samples of one distribution.
fn sampled(mut sample: impl FnMut() -> u64) -> Vec<u64> {
    for _ in 0..WARMUP {
        sample();
    }
    std::iter::repeat_with(sample).take(SAMPLES).collect()
}

/// The time of `step`, in nanoseconds.
#[inline(always)]
fn time(clock: &impl Clock, step: impl FnOnce()) -> u64 {
    let start = clock.now();
    step();
    clock.now().saturating_sub(start)
}

/// The granularity of the clock: the smallest difference of two different times among `times` and
/// zero, which are multiples of it.
fn granularity(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.push(0);
    sorted.sort_unstable();
    sorted.dedup();
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    steps.min().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Each reading takes 10 ns.
    struct Ticking(Cell<u64>);

    impl Clock for Ticking {
        fn now(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }
    }

    #[test]
    fn each_sample_contains_one_reading() {
        let error = MeasurementError::measure(&Ticking(Cell::new(0))).unwrap();
        let always_10 =
            Distribution { count: SAMPLES as u64, min_ns: 10, p50_ns: 10, p99_ns: 10, max_ns: 10 };
        for distribution in [error.clock, error.issue, error.poll, error.path] {
            assert_eq!(distribution, always_10);
        }
        assert_eq!((error.granularity_ns, error.spread_ns), (10, 10));
    }

    #[test]
    fn spread_is_that_of_the_path() {
        let samples = [10..12, 40..400, 20..300, 60..160].map(|range| range.collect());
        assert_eq!(MeasurementError::of(samples, 1).spread_ns, 98);
    }

    #[test]
    fn distribution_has_nearest_ranks() {
        let samples = (0..1_000).map(|i| 1 + i * 7 % 1_000).collect();
        let expected =
            Distribution { count: 1_000, min_ns: 1, p50_ns: 500, p99_ns: 990, max_ns: 1_000 };
        assert_eq!(Distribution::of(samples), expected);
        assert_eq!(Distribution::of(vec![7]).p99_ns, 7);
    }

    #[test]
    fn finds_granularity_of_clock() {
        for (times, granularity) in [
            (&[0, 40, 0, 80, 40][..], 40),
            (&[13, 12, 14, 13], 1),
            (&[40, 40, 40], 40),
            (&[0, 0], 1),
        ] {
            assert_eq!(super::granularity(times), granularity, "{times:?}");
        }
    }
}
