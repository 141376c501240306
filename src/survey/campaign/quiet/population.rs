//! Distributions of the figures of many pairs (jobs.md 3.4).

use std::collections::BTreeMap;

use facts::robust::{interpolate, interval_ranks, sigma_of_distances};

/// Most figures that a distribution keeps exactly. A larger distribution counts figures in bins.
pub const MOST_EXACT: usize = 65_536;

/// Ratio of the edges of a bin.
const BIN: f64 = 1.005;

/// Bins of a histogram for people.
const MOST_BARS: usize = 40;

/// Share of the largest figure at which a histogram begins at least.
const LEAST_SHARE: f64 = 1e-12;

/// Smallest bandwidth that counts as such, in bytes per second, so that costs and their ratios are
/// finite.
pub const SMALLEST_BANDWIDTH: f64 = 1e-3;

/// The cost of a figure.
pub fn cost(value: f64, is_bandwidth: bool) -> f64 {
    if is_bandwidth { 1.0 / value.max(SMALLEST_BANDWIDTH) } else { value }
}

/// Figures, exactly or in bins of equal ratio.
#[derive(Clone, Debug)]
pub struct FigureHistogram {
    exact: Vec<f64>,
    bins: BTreeMap<i32, u64>,
    most_exact: usize,
    count: u64,
    min: f64,
    max: f64,
}

impl FigureHistogram {
    /// Creates an empty distribution that keeps `most_exact` figures exactly.
    pub fn new(most_exact: usize) -> Self {
        Self {
            exact: Vec::new(),
            bins: BTreeMap::new(),
            most_exact,
            count: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }

    /// Adds a figure.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if !self.bins.is_empty() {
            *self.bins.entry(bin(value)).or_default() += 1;
            return;
        }
        self.exact.push(value);
        if self.exact.len() > self.most_exact {
            for value in std::mem::take(&mut self.exact) {
                *self.bins.entry(bin(value)).or_default() += 1;
            }
        }
    }

    /// The number of figures.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The figures in ascending order, with the number of each.
    pub fn sorted(&self) -> Sorted {
        if self.bins.is_empty() {
            return Sorted::of(self.exact.iter().map(|value| (*value, 1)).collect());
        }
        let middle = |bin: i32| BIN.powf(f64::from(bin) + 0.5).clamp(self.min, self.max);
        Sorted::of(self.bins.iter().map(|(bin, count)| (middle(*bin), *count)).collect())
    }
}

fn bin(value: f64) -> i32 {
    (value.max(f64::MIN_POSITIVE).ln() / BIN.ln()).floor() as i32
}

/// Figures in ascending order, with the number of each.
#[derive(Clone, Debug)]
pub struct Sorted {
    figures: Vec<(f64, u64)>,
    count: u64,
}

impl Sorted {
    /// Sorts figures with their numbers.
    pub fn of(mut figures: Vec<(f64, u64)>) -> Self {
        figures.sort_by(|one, other| one.0.total_cmp(&other.0));
        let count = figures.iter().map(|(_, count)| count).sum();
        Self { figures, count }
    }

    /// The figure at a rank from 0.
    fn at(&self, rank: u64) -> f64 {
        let mut below = 0;
        for (value, count) in &self.figures {
            below += count;
            if rank < below {
                return *value;
            }
        }
        self.figures.last().map_or(f64::NAN, |(value, _)| *value)
    }

    /// A quantile, by linear interpolation between order statistics; NaN without figures.
    pub fn quantile(&self, part: f64) -> f64 {
        interpolate(part * self.count.saturating_sub(1) as f64, |rank| self.at(rank as u64))
    }

    /// The median; NaN without figures.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The ends of the 95 % interval of the median, by order statistics.
    pub fn median_interval(&self) -> Option<(f64, f64)> {
        let (low, high) = interval_ranks(self.count as usize)?;
        Some((self.at(low as u64), self.at(high as u64)))
    }

    /// The robust standard deviation.
    pub fn sigma(&self) -> f64 {
        let median = self.median();
        let deviations = self.figures.iter().map(|(value, count)| ((value - median).abs(), *count));
        let deviations = Self::of(deviations.collect());
        let total: f64 =
            deviations.figures.iter().map(|(value, count)| value * *count as f64).sum();
        sigma_of_distances(median, deviations.median(), total / self.count as f64)
    }

    /// The costs of the figures.
    pub fn costs(&self, is_bandwidth: bool) -> Self {
        Self::of(
            self.figures
                .iter()
                .map(|(value, count)| (cost(*value, is_bandwidth), *count))
                .collect(),
        )
    }

    /// The lower edges of bins of equal ratio, ascending, with the number of figures in each.
    pub fn histogram(&self) -> Vec<(f64, u64)> {
        let (Some((min, _)), Some((max, _))) = (self.figures.first(), self.figures.last()) else {
            return Vec::new();
        };
        // A figure of 0 is in the first bin.
        let min = min.max(max * LEAST_SHARE).max(f64::MIN_POSITIVE);
        let width = ((max / min).ln() / MOST_BARS as f64).max(BIN.ln());
        let mut bars: Vec<(f64, u64)> = Vec::new();
        for (value, count) in &self.figures {
            let bar = ((value.max(min) / min).ln() / width) as usize;
            while bars.len() <= bar.min(MOST_BARS - 1) {
                bars.push((min * (width * bars.len() as f64).exp(), 0));
            }
            bars[bar.min(MOST_BARS - 1)].1 += count;
        }
        bars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(values: &[f64]) -> Sorted {
        Sorted::of(values.iter().map(|value| (*value, 1)).collect())
    }

    #[test]
    fn interpolates_between_order_statistics() {
        let figures = sorted(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(figures.median(), 2.5);
        assert_eq!([0.0, 0.25, 1.0].map(|part| figures.quantile(part)), [1.0, 1.75, 4.0]);
        assert!(sorted(&[]).median().is_nan());
    }

    #[test]
    fn interval_of_median_has_equal_ranks_from_both_ends() {
        let interval =
            |count: u32| sorted(&(1..=count).map(f64::from).collect::<Vec<_>>()).median_interval();
        assert_eq!(interval(7), None);
        // 4 ± 2.77, 8 ± 3.92 and 50 ± 9.8
        assert_eq!(interval(8), Some((1.0, 7.0)));
        assert_eq!(interval(16), Some((4.0, 12.0)));
        assert_eq!(interval(100), Some((40.0, 60.0)));
    }

    #[test]
    fn deviation_is_robust_and_has_a_floor() {
        let outlier = sorted(&[90.0, 95.0, 100.0, 105.0, 1e6]);
        assert_eq!(outlier.sigma(), 1.4826 * 5.0);
        // More than half of the figures are equal: the mean absolute deviation counts.
        let equal = sorted(&[100.0, 100.0, 100.0, 100.0, 110.0]);
        assert_eq!(equal.sigma(), 1.2533 * 2.0);
        assert_eq!(sorted(&[100.0; 9]).sigma(), 0.5);
    }

    #[test]
    fn histogram_of_zeros_has_finite_edges() {
        for figures in [&[0.0, 2.5e10][..], &[0.0], &[0.0, 1e-300], &[1e-320, 1e308]] {
            let bars = sorted(figures).histogram();
            assert!(bars.iter().all(|(edge, _)| edge.is_finite()), "{bars:?}");
            assert_eq!(bars.iter().map(|(_, count)| count).sum::<u64>(), figures.len() as u64);
        }
    }

    #[test]
    fn costs_of_zeros_are_finite() {
        assert!(cost(0.0, true) > cost(1.0, true) && cost(0.0, true).is_finite());
        assert!(sorted(&[0.0, 0.0, 1e9]).costs(true).sigma().is_finite());
    }

    #[test]
    fn bins_are_near_exact_figures() {
        let (mut exact, mut bins) = (FigureHistogram::new(100_000), FigureHistogram::new(10));
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let value = 1000.0 * (1.0 + rng.f64()).powi(3);
            exact.add(value);
            bins.add(value);
        }
        let near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.005;
        let (exact, bins) = (exact.sorted(), bins.sorted());
        for part in [0.0, 0.01, 0.5, 0.99, 1.0] {
            assert!(near(exact.quantile(part), bins.quantile(part)), "{part}");
        }
        assert!((exact.sigma() / bins.sigma() - 1.0).abs() < 0.01);
        let (low, high) = exact.median_interval().unwrap();
        assert!(low < exact.median() && exact.median() < high && high < 1.05 * low);
        for figures in [exact, bins] {
            let bars = figures.histogram();
            assert_eq!(bars.iter().map(|(_, count)| count).sum::<u64>(), 20_000);
            assert!(bars.len() <= MOST_BARS && bars.is_sorted_by(|one, other| one.0 < other.0));
        }
    }
}
