//! Exact statistics of latencies in nanoseconds.
//!
//! All sums are integers; results are converted to floating-point numbers in the last step.

/// Count, sum, sum of squares, minimum and maximum of samples.
///
/// Exact while `count * max^2 < 2^128`: 10^12 samples of one hour each, for instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    squares: u128,
}

impl Statistics {
    /// Creates the statistics of no samples.
    pub const fn new() -> Self {
        Self { count: 0, min: u64::MAX, max: 0, sum: 0, squares: 0 }
    }

    /// Adds a sample (ns).
    #[inline]
    pub fn add(&mut self, sample: u64) {
        self.count += 1;
        self.min = self.min.min(sample);
        self.max = self.max.max(sample);
        self.sum += u128::from(sample);
        self.squares += u128::from(sample) * u128::from(sample);
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of the samples in ns.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The smallest sample in ns; 0 without samples.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The largest sample in ns; 0 without samples.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The arithmetic mean in ns; 0 without samples.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let (whole, rest) = self.split_mean();
        whole as f64 + rest as f64 / self.count as f64
    }

    /// The population standard deviation in ns; 0 without samples.
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        // With n samples, mean = q + r/n and D = sum of (x - q)^2, the variance is
        //     D/n - (r/n)^2  =  (D - r)/n + r(n - r)/n^2,
        // where D = squares - q(sum + r) is a whole number and D >= r, because the square of a
        // whole number is not less than the number. No term is negative: nothing cancels out.
        let (q, r) = self.split_mean();
        let deviations = self.squares - q * (self.sum + r);
        let n = self.count as f64;
        let variance = (deviations - r) as f64 / n
            + (r as f64 / n) * ((u128::from(self.count) - r) as f64 / n);
        variance.sqrt()
    }

    /// The whole part of the mean, and the rest of the sum.
    fn split_mean(&self) -> (u128, u128) {
        (self.sum / u128::from(self.count), self.sum % u128::from(self.count))
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<u64> for Statistics {
    fn from_iter<I: IntoIterator<Item = u64>>(samples: I) -> Self {
        let mut statistics = Self::new();
        samples.into_iter().for_each(|sample| statistics.add(sample));
        statistics
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Statistics {
        samples.into_iter().collect()
    }

    #[test]
    fn is_zero_without_samples() {
        let nothing = Statistics::new();
        assert_eq!((nothing.count(), nothing.min(), nothing.max()), (0, 0, 0));
        assert_eq!((nothing.mean(), nothing.standard_deviation()), (0.0, 0.0));
    }

    #[test]
    fn has_no_deviation_with_one_sample() {
        let one = of([2090]);
        assert_eq!((one.count(), one.min(), one.max()), (1, 2090, 2090));
        assert_eq!((one.mean(), one.standard_deviation()), (2090.0, 0.0));
    }

    #[test]
    fn t2_is_exact_for_one_nanosecond_difference() {
        let statistics = of((0..100_000).map(|i| 2090 + i % 2));
        assert_eq!(statistics.mean(), 2090.5);
        assert_eq!(statistics.standard_deviation(), 0.5);
        // The legacy tools print 0.04 us.
        assert_eq!(format!("{:.2}", statistics.standard_deviation() / 1000.0), "0.00");
    }

    #[test]
    fn t3_does_not_wrap_on_long_samples() {
        let statistics = of((0..461).map(|i| 200_000_000 + 1_000 * (i % 2)));
        // 230 of 461 samples are 1000 ns above the others: 1000 sqrt(p(1 - p)), p = 230/461.
        let p = 230.0 / 461.0_f64;
        assert!((statistics.standard_deviation() - 1000.0 * (p * (1.0 - p)).sqrt()).abs() < 1e-9);
        assert_eq!(of([200_000_000; 461]).standard_deviation(), 0.0);
    }

    #[test]
    fn sums_billion_hours() {
        let hour = 3_600_000_000_000_u64;
        let n = 1_000_000_000_u64;
        let sum = u128::from(n) * u128::from(hour);
        let hours =
            Statistics { count: n, min: hour, max: hour, sum, squares: sum * u128::from(hour) };
        assert_eq!((hours.mean(), hours.standard_deviation()), (hour as f64, 0.0));
    }

    /// The numerator of the exact variance over n^2: the sum over all pairs i < j of (xi - xj)^2.
    /// An independent computation.
    fn pairs(samples: &[u64]) -> u128 {
        let mut total = 0;
        for (i, a) in samples.iter().enumerate() {
            for b in &samples[i + 1..] {
                total += u128::from(a.abs_diff(*b)).pow(2);
            }
        }
        total
    }

    fn close(ours: f64, exact: f64) -> bool {
        (ours - exact).abs() <= 4.0 * f64::EPSILON * exact.abs()
    }

    proptest! {
        #[test]
        fn as_exact_as_rational_arithmetic(
            base in 0_u64..1 << 43,
            spread in prop_oneof![Just(1_u64), Just(2), Just(1000), Just(1 << 43)],
            parts in prop::collection::vec(any::<u64>(), 1..200),
        ) {
            let samples: Vec<u64> = parts.iter().map(|part| base + part % spread).collect();
            let statistics = of(samples.iter().copied());
            let n = samples.len() as u128;
            let sum: u128 = samples.iter().copied().map(u128::from).sum();
            prop_assert_eq!(statistics.count() as u128, n);
            prop_assert_eq!(Some(statistics.min()), samples.iter().copied().min());
            prop_assert_eq!(Some(statistics.max()), samples.iter().copied().max());
            prop_assert!(close(statistics.mean(), sum as f64 / n as f64));
            let exact = (pairs(&samples) as f64).sqrt() / n as f64;
            prop_assert!(
                close(statistics.standard_deviation(), exact),
                "{} instead of {}", statistics.standard_deviation(), exact
            );
        }
    }
}
