//! The figures of many pairs, and the limits that follow from them (jobs.md 3.4).
//!
//! Scores are computed from *costs*, of which large values are bad: nanoseconds, or the time for a
//! byte at the measured bandwidth. So a bandwidth of a third is as far from the median as a latency
//! of three times the median. For figures near the median this equals the score of the bandwidth
//! itself.

use std::collections::BTreeMap;

use super::answer::Pair;
use super::ids::NicId;

/// Fewest figures of a population that has limits.
pub const LEAST_FIGURES: usize = 8;

/// Fewest figures for the score with few false alarms.
const MANY_FIGURES: u64 = 1000;

/// Most figures that a distribution keeps exactly. A larger distribution counts figures in bins.
pub const MOST_EXACT: usize = 65_536;

/// Ratio of the edges of a bin.
const BIN: f64 = 1.005;

/// Bins of a histogram for people.
const MOST_BARS: usize = 40;

/// The robust standard deviation, as a multiple of the median absolute deviation.
const SIGMA_OF_MAD: f64 = 1.4826;
/// The robust standard deviation if more than half of the figures are equal, as a multiple of the
/// mean absolute deviation.
const SIGMA_OF_MEAN: f64 = 1.2533;
/// Smallest robust standard deviation, as a part of the median.
const LEAST_SIGMA: f64 = 0.005;

/// Returns the cost of a figure.
pub fn cost(value: f64, of_bandwidth: bool) -> f64 {
    if of_bandwidth { 1.0 / value } else { value }
}

/// Figures, exactly or in bins of equal ratio.
#[derive(Clone, Debug)]
pub struct Distribution {
    exact: Vec<f64>,
    bins: BTreeMap<i32, u64>,
    most_exact: usize,
    count: u64,
    min: f64,
    max: f64,
}

impl Distribution {
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

    /// Returns the number of figures.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the figures in ascending order, with the number of each.
    pub fn sorted(&self) -> Sorted {
        if self.bins.is_empty() {
            return Sorted::of(self.exact.iter().map(|value| (*value, 1)).collect());
        }
        let middle = |bin: i32| BIN.powf(f64::from(bin) + 0.5).clamp(self.min, self.max);
        Sorted::of(
            self.bins
                .iter()
                .map(|(bin, count)| (middle(*bin), *count))
                .collect(),
        )
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

    /// Returns the figure at a rank from 0.
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

    /// Returns a quantile, by linear interpolation between order statistics; NaN without figures.
    pub fn quantile(&self, part: f64) -> f64 {
        let place = part * self.count.saturating_sub(1) as f64;
        let (low, high) = (self.at(place.floor() as u64), self.at(place.ceil() as u64));
        if low == high {
            low
        } else {
            low + (high - low) * place.fract()
        }
    }

    /// Returns the median; NaN without figures.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the ends of the 95 % interval of the median, by order statistics.
    pub fn median_interval(&self) -> Option<(f64, f64)> {
        let n = self.count as f64;
        let half = 0.98 * n.sqrt();
        let (low, high) = ((n / 2.0 - half).floor(), (n / 2.0 + half).ceil());
        (self.count >= LEAST_FIGURES as u64).then(|| {
            (
                self.at(low.max(0.0) as u64),
                self.at((high as u64).min(self.count - 1)),
            )
        })
    }

    /// Returns the number of figures below a value.
    pub fn count_below(&self, value: f64) -> u64 {
        let below = self
            .figures
            .iter()
            .take_while(|(figure, _)| *figure < value);
        below.map(|(_, count)| count).sum()
    }

    /// Returns the robust standard deviation.
    pub fn sigma(&self) -> f64 {
        let median = self.median();
        let deviations = self
            .figures
            .iter()
            .map(|(value, count)| ((value - median).abs(), *count));
        let deviations = Self::of(deviations.collect());
        let total: f64 = deviations
            .figures
            .iter()
            .map(|(value, count)| value * *count as f64)
            .sum();
        sigma(median, deviations.median(), total / self.count as f64)
    }

    /// Returns the costs of the figures.
    pub fn costs(&self, of_bandwidth: bool) -> Self {
        Self::of(
            self.figures
                .iter()
                .map(|(value, count)| (cost(*value, of_bandwidth), *count))
                .collect(),
        )
    }

    /// Returns the lower edges of bins of equal ratio, ascending, with the number of figures in
    /// each.
    pub fn histogram(&self) -> Vec<(f64, u64)> {
        let (Some((min, _)), Some((max, _))) = (self.figures.first(), self.figures.last()) else {
            return Vec::new();
        };
        let min = min.max(f64::MIN_POSITIVE);
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

/// Returns the robust standard deviation that follows from a median and the deviations from it.
fn sigma(median: f64, median_deviation: f64, mean_deviation: f64) -> f64 {
    let sigma = if median_deviation > 0.0 {
        SIGMA_OF_MAD * median_deviation
    } else {
        SIGMA_OF_MEAN * mean_deviation
    };
    sigma.max(LEAST_SIGMA * median)
}

/// The centre of a population of costs and its robust standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Centre {
    /// Number of costs.
    pub count: u64,
    /// Median cost.
    pub median: f64,
    /// Robust standard deviation of the costs.
    pub sigma: f64,
}

impl Centre {
    /// Returns the centre of a population.
    pub fn of(costs: &Sorted) -> Self {
        Self {
            count: costs.count,
            median: costs.median(),
            sigma: costs.sigma(),
        }
    }

    /// Returns the cost above which a pair is outside two limits: of the score, and of the ratio to
    /// the median. Few figures have an uncertain deviation, so their limit is wider: by a quarter
    /// for 16 figures.
    pub fn limit(self, of_bandwidth: bool) -> f64 {
        let score = if self.count >= MANY_FIGURES { 4.5 } else { 3.5 };
        let score = score * (1.0 + LEAST_FIGURES as f64 / 2.0 / self.count.max(1) as f64);
        (self.median + score * self.sigma).max(self.median * least_ratio(of_bandwidth))
    }
}

/// The difference between pairs that no fault causes, in addition to the limits of a population.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Ratio to the median.
    ratio: f64,
    /// Difference of latencies, in nanoseconds.
    latency_ns: f64,
}

impl Noise {
    /// NICs in hardware.
    pub const HARDWARE: Self = Self {
        ratio: 1.0,
        latency_ns: 0.0,
    };

    /// Software NICs: their threads share CPUs with other programs, and some wake up for each
    /// operation where others poll.
    pub const SOFTWARE: Self = Self {
        ratio: 2.0,
        latency_ns: 20_000.0,
    };

    /// Returns the cost above which a pair is outside the limits.
    pub fn limit(self, centre: Centre, of_bandwidth: bool) -> f64 {
        centre
            .limit(of_bandwidth)
            .max(self.least(centre.median, of_bandwidth))
    }

    /// Returns the least cost outside the limits of a population with this median.
    fn least(self, median: f64, of_bandwidth: bool) -> f64 {
        (median * self.ratio).max(median + self.difference(of_bandwidth))
    }

    /// Returns the largest difference of two costs that is noise.
    pub fn difference(self, of_bandwidth: bool) -> f64 {
        if of_bandwidth { 0.0 } else { self.latency_ns }
    }
}

/// Returns the ratio to the median above which a cost can be outside the limits.
fn least_ratio(of_bandwidth: bool) -> f64 {
    if of_bandwidth { 1.0 / 0.93 } else { 1.3 }
}

/// Returns the costs of pairs of few NICs, without the pairs of the worst NICs. The worst NICs are
/// at most a third of all NICs, and their median costs are far from the median of all NICs. One NIC
/// of four takes part in half of the pairs, so a bad NIC would shift the median.
pub fn without_worst_nics(pairs: &[(Pair, f64)], of_bandwidth: bool) -> Sorted {
    let mut of_nics: BTreeMap<NicId, Vec<(f64, u64)>> = BTreeMap::new();
    for (pair, cost) in pairs {
        for nic in pair.nics() {
            of_nics.entry(nic).or_default().push((*cost, 1));
        }
    }
    let mut medians: Vec<(f64, NicId)> = of_nics
        .into_iter()
        .map(|(nic, costs)| (Sorted::of(costs).median(), nic))
        .collect();
    medians.sort_by(|one, other| one.0.total_cmp(&other.0));
    let middle = medians
        .get(medians.len().saturating_sub(1) / 2)
        .map_or(f64::NAN, |(median, _)| *median);
    let worst = medians.split_off(medians.len() - medians.len() / 3);
    let is_far = |nic: NicId| {
        worst
            .iter()
            .any(|(median, one)| *one == nic && *median > middle * least_ratio(of_bandwidth))
    };
    let kept = pairs
        .iter()
        .filter(|(pair, _)| !is_far(pair.initiator) && !is_far(pair.target));
    Sorted::of(kept.map(|(_, cost)| (*cost, 1)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::pair;
    use super::*;

    fn sorted(values: &[f64]) -> Sorted {
        Sorted::of(values.iter().map(|value| (*value, 1)).collect())
    }

    #[test]
    fn interpolates_between_order_statistics() {
        let figures = sorted(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(figures.median(), 2.5);
        assert_eq!(
            [0.0, 0.25, 1.0].map(|part| figures.quantile(part)),
            [1.0, 1.75, 4.0]
        );
        assert!(sorted(&[]).median().is_nan());
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
    fn limit_needs_score_and_ratio() {
        let limit = |sigma, count, of_bandwidth| {
            Centre {
                median: 100.0,
                sigma,
                count,
            }
            .limit(of_bandwidth)
        };
        assert_eq!(limit(1.0, 10_000, false), 130.0);
        assert!((limit(20.0, 10_000, false) - 190.0).abs() < 0.1);
        assert!((limit(20.0, 100, false) - 172.8).abs() < 0.1);
        assert!((limit(20.0, 16, false) - 187.5).abs() < 0.1);
        assert!((limit(1.0, 10_000, true) - 107.527).abs() < 0.001);
    }

    #[test]
    fn software_nics_differ_without_a_fault() {
        let least = |median, of_bandwidth| Noise::SOFTWARE.least(median, of_bandwidth);
        assert_eq!(least(1_000.0, false), 21_000.0);
        assert_eq!(least(100_000.0, false), 200_000.0);
        assert_eq!(least(0.1, true), 0.2);
        assert_eq!(Noise::HARDWARE.least(1_000.0, false), 1_000.0);
    }

    #[test]
    fn bins_are_near_exact_figures() {
        let (mut exact, mut bins) = (Distribution::new(100_000), Distribution::new(10));
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

    #[test]
    fn ignores_bad_nic_of_four_in_the_median() {
        let cost = |one: u32, other: u32| if one == 2 || other == 2 { 300.0 } else { 100.0 };
        let pairs: Vec<(Pair, f64)> = (0..4)
            .flat_map(|one| (0..4).map(move |other| (one, other)))
            .filter(|(one, other)| one != other)
            .map(|(one, other)| (pair(one, other), cost(one, other)))
            .collect();
        assert_eq!(without_worst_nics(&pairs, false).median(), 100.0);
        let even: Vec<(Pair, f64)> = pairs.iter().map(|(pair, _)| (*pair, 100.0)).collect();
        assert_eq!(without_worst_nics(&even, false).count, 12);
    }
}
