//! How well the median of a run is known: its confidence interval, and when that is narrow enough.

use super::recorder::Recorder;

/// Fewest samples of a stable median.
const LEAST_SAMPLES: u64 = 100;

/// The limit of `--until`: how far the ends of the 95 % interval of the median may lie from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Until {
    /// The limit in percent of the median, above 0.
    pub percent: f64,
}

impl Until {
    /// Returns whether both ends of `interval` lie within the limit of `median`.
    fn admits(self, median: u64, (low, high): (u64, u64)) -> bool {
        let farthest = (median - low).max(high - median);
        farthest as f64 <= median as f64 * self.percent / 100.0
    }

    /// Returns whether the median of the samples is known to the limit.
    pub fn is_met_by(self, recorder: &Recorder) -> bool {
        let enough = recorder.statistics().count() >= LEAST_SAMPLES;
        let median = recorder.median().zip(recorder.median_interval());
        enough && median.is_some_and(|(median, interval)| self.admits(median, interval))
    }
}

/// Decides during a run whether its median is stable.
///
/// A decision walks through a histogram, and each further decision makes it likelier that one is
/// met by chance. So the number of samples grows by half from one decision to the next.
#[derive(Clone, Copy, Debug)]
pub struct StabilityCheck {
    until: Option<Until>,
    /// Number of samples of the next decision.
    next: u64,
}

impl StabilityCheck {
    /// Creates a check for one size. Without a limit it never ends the run.
    pub fn new(until: Option<Until>) -> Self {
        Self { until, next: LEAST_SAMPLES }
    }

    /// Returns whether the run may end. Called after each sample.
    #[inline]
    pub fn ends(&mut self, recorder: &Recorder) -> bool {
        match self.until {
            Some(until) if recorder.statistics().count() >= self.next => {
                self.next += self.next / 2;
                until.is_met_by(recorder)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::recorder::median_ranks;
    use super::*;

    /// Returns the exact probability that fewer than `k` of `n` samples lie below the median.
    fn below(n: u64, k: u64) -> f64 {
        let mut term = 0.5_f64.powi(n as i32);
        let mut sum = 0.0;
        for i in 0..k {
            sum += term;
            term *= (n - i) as f64 / (i + 1) as f64;
        }
        sum
    }

    /// Up to the number of samples for which the smallest probability is a normal number.
    #[test]
    fn interval_covers_the_median_with_95_percent() {
        let mut first = None;
        for n in 1..=1_000 {
            let Some((low, high)) = median_ranks(n) else {
                continue;
            };
            first.get_or_insert(n);
            assert_eq!(low + high, n + 1);
            // The median lies below the lower end if fewer than `low` samples lie below it.
            let coverage = 1.0 - 2.0 * below(n, low);
            assert!(coverage >= 0.95, "{coverage} with {n}");
            if n >= 100 {
                // Not wider than necessary: the next narrower ranks cover less.
                let narrower = 1.0 - 2.0 * below(n, low + 2);
                assert!(narrower < 0.95, "{narrower} with {n}");
            }
        }
        assert_eq!(first, Some(8));
    }

    fn recorded(samples: impl IntoIterator<Item = u64>) -> Recorder {
        let mut recorder = Recorder::new(None).unwrap();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        recorder
    }

    #[test]
    fn needs_100_samples() {
        let until = Until { percent: 1.0 };
        assert!(!until.is_met_by(&recorded(vec![500; 99])));
        assert!(until.is_met_by(&recorded(vec![500; 100])));
    }

    #[test]
    fn both_ends_must_lie_within_limit() {
        let until = Until { percent: 1.0 };
        for (median, interval, met) in [
            (1_000, (990, 1_010), true),
            (1_000, (989, 1_000), false),
            (1_000, (1_000, 1_011), false),
            (50, (50, 50), true),
            (50, (49, 50), false),
            (0, (0, 0), true),
        ] {
            assert_eq!(until.admits(median, interval), met, "{median} {interval:?}");
        }
    }

    #[test]
    fn decides_at_growing_numbers_of_samples() {
        // No median of two far values is stable.
        let mut recorder = Recorder::new(None).unwrap();
        let mut check = StabilityCheck::new(Some(Until { percent: 1.0 }));
        let mut decisions = Vec::new();
        for i in 0..1_000 {
            recorder.record(500 + i % 2 * 500);
            let before = check.next;
            assert!(!check.ends(&recorder));
            if check.next != before {
                decisions.push(i + 1);
            }
        }
        assert_eq!(decisions, [100, 150, 225, 337, 505, 757]);
        let mut never = StabilityCheck::new(None);
        assert!(!never.ends(&recorded(vec![500; 200])));
    }

    proptest! {
        /// A wide interval of a wide distribution ends no run; a constant one ends each.
        #[test]
        fn interval_contains_the_median(
            samples in prop::collection::vec(1_u64..30_000, 8..400),
        ) {
            let recorder = recorded(samples.iter().copied());
            let (low, high) = recorder.median_interval().unwrap();
            let median = recorder.median().unwrap();
            prop_assert!(low <= median && median <= high);
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let (first, last) = median_ranks(samples.len() as u64).unwrap();
            prop_assert_eq!((low, high), (sorted[first as usize - 1], sorted[last as usize - 1]));
        }

        #[test]
        fn more_samples_do_not_widen_the_ranks(count in 100_u64..1_000_000) {
            let width = |n: u64| median_ranks(n).map(|(low, high)| (high - low) as f64 / n as f64);
            prop_assert!(width(count * 4).unwrap() < width(count).unwrap());
        }
    }
}
