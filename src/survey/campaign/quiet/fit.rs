//! The robust additive fit of a test: log cost = centre of the class + effect of the initiator +
//! effect of the target. Its effects anchor the centres: the median NIC has none. So the centres
//! are the costs of good pairs, even if bad NICs take part in most pairs: one NIC of four is in
//! half of the pairs, a third of many NICs in more than half.
//!
//! The fit leaves a residual of each pair; robust statistics say what residuals have in common.
//!
//! It reads logarithms of costs, of which large values are bad. The cost of a latency is the
//! latency, the cost of a bandwidth its reciprocal.

use super::answer::{Answer, Figures, PairResult, Stage};
use super::busy::most_waited_percent;
use super::findings::Statistic;
use super::population::SMALLEST_BANDWIDTH;
use super::roster::Pair;
use crate::blame::LEAST_FIGURES;
use crew::location::Class;
use facts::robust::{self, at_rank, lower_median};

/// How often weights are computed again.
const REWEIGHTINGS: usize = 8;

/// How often all effects are computed again with the same weights.
const SWEEPS: usize = 12;

/// Residual from which a pair counts less, as a multiple of the spread (Huber).
const HUBER: f64 = 1.5;

/// Pulls effects towards 0 that the pairs do not determine, as a part of a pair.
const RIDGE: f64 = 0.05;

/// Smallest spread of residuals.
const LEAST_SPREAD: f64 = 1e-4;

/// A pair and the logarithm of its cost.
#[derive(Clone, Copy, Debug)]
pub struct PairCost {
    pub pair: Pair,
    pub class: Class,
    /// Logarithm of the cost.
    pub cost: f64,
}

/// The result of a fit.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The centre of each class; none without pairs.
    pub centres: [Option<f64>; Class::ALL.len()],
    /// The effect of each NIC; NaN without pairs.
    pub effects: Vec<f64>,
}

pub fn fit(pairs: &[PairCost], nics: usize) -> Fit {
    let mut nic_lists: Vec<Vec<u32>> = vec![Vec::new(); nics];
    let mut by_class: [Vec<f64>; Class::ALL.len()] = Default::default();
    for (index, one) in pairs.iter().enumerate() {
        by_class[one.class as usize].push(one.cost);
        for nic in one.pair.nics() {
            let own = &mut nic_lists[nic.index()];
            if own.last() != Some(&(index as u32)) {
                own.push(index as u32);
            }
        }
    }
    let mut centres = by_class.map(|costs| lower_median(&costs));
    let mut effects = vec![0.0; nics];
    let mut weights = vec![1.0; pairs.len()];
    for _ in 0..REWEIGHTINGS {
        for _ in 0..SWEEPS {
            for (nic, own) in nic_lists.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
                let (mut sum, mut total) = (0.0, RIDGE);
                for index in own {
                    let one = &pairs[*index as usize];
                    let weight = weights[*index as usize];
                    sum += weight * (residual(one, &centres, &effects) + effects[nic]);
                    total += weight;
                }
                effects[nic] = sum / total;
            }
            let mut sums = [(0.0, 0.0); Class::ALL.len()];
            for (one, weight) in pairs.iter().zip(&weights) {
                let (sum, total) = &mut sums[one.class as usize];
                *sum += weight * residual(one, &centres, &effects);
                *total += weight;
            }
            for (centre, (sum, total)) in centres.iter_mut().zip(sums) {
                if let Some(centre) = centre {
                    *centre += sum / total;
                }
            }
        }
        anchor(&mut centres, &mut effects, &nic_lists);
        let residuals = pairs.iter().map(|one| residual(one, &centres, &effects));
        let residuals: Vec<f64> = residuals.collect();
        let most = HUBER * spread(&residuals).max(LEAST_SPREAD);
        for (weight, residual) in weights.iter_mut().zip(residuals) {
            *weight = (most / residual.abs()).min(1.0);
        }
    }
    for (effect, own) in effects.iter_mut().zip(&nic_lists) {
        if own.is_empty() {
            *effect = f64::NAN;
        }
    }
    Fit { centres, effects }
}

/// The part of a cost that centre and effects leave.
fn residual(one: &PairCost, centres: &[Option<f64>], effects: &[f64]) -> f64 {
    let centre = centres[one.class as usize].unwrap_or_default();
    let [initiator, target] = one.pair.nics().map(|nic| effects[nic.index()]);
    let target_value = if one.pair.is_loopback() { 0.0 } else { target };
    one.cost - centre - initiator - target_value
}

/// Moves the effect of the median NIC into the centres. With an even number of NICs, this is the
/// better one of both in the middle.
fn anchor(centres: &mut [Option<f64>], effects: &mut [f64], nic_lists: &[Vec<u32>]) {
    let fitted = effects.iter().zip(nic_lists).filter(|(_, own)| !own.is_empty());
    let fitted: Vec<f64> = fitted.map(|(effect, _)| *effect).collect();
    let Some(median) = lower_median(&fitted) else {
        return;
    };
    effects.iter_mut().for_each(|effect| *effect -= median);
    for (class, centre) in centres.iter_mut().enumerate() {
        let nics = if class == Class::Loopback as usize { 1.0 } else { 2.0 };
        if let Some(centre) = centre {
            *centre += nics * median;
        }
    }
}

/// A pair and the part of its cost that its class does not explain.
#[derive(Clone, Copy, Debug)]
pub struct PairResidual {
    pub pair: Pair,
    pub value: f64,
}

/// Whether a residual is nearer to an effect than to 0.
pub fn has_effect(residual: f64, effect: f64) -> bool {
    residual * effect.signum() >= effect.abs() / 2.0
}

/// The quantile of the upper spread, and its distance from the median of a normal distribution, in
/// standard deviations.
const UPPER: (f64, f64) = (0.75, 0.6745);

/// The robust standard deviation; 0 without values.
pub fn spread(values: &[f64]) -> f64 {
    lower_median(values).map_or(0.0, |median| robust::spread(values, median, lower_median))
}

/// The robust standard deviation of the worse values: not less than [`spread`]. A part of the
/// values may be a second mode, as of software NICs, some of which sleep where others poll.
pub fn upper_spread(values: &[f64]) -> f64 {
    let (part, distance) = UPPER;
    let place = (part * values.len().saturating_sub(1) as f64) as usize;
    let ends = lower_median(values).zip(at_rank(values, place));
    ends.map_or(0.0, |(median, upper)| spread(values).max((upper - median) / distance))
}

/// The rank correlation of two lists of equal length (Spearman); 0 if one is constant.
pub fn rank_correlation(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (ranks(one), ranks(other));
    let mean = (one.len() as f64 - 1.0) / 2.0;
    let (mut product, mut squares, mut other_squares) = (0.0, 0.0, 0.0);
    for (one, other) in one.iter().zip(&other) {
        product += (one - mean) * (other - mean);
        squares += (one - mean).powi(2);
        other_squares += (other - mean).powi(2);
    }
    let size = (squares * other_squares).sqrt();
    if size > 0.0 { product / size } else { 0.0 }
}

/// The ranks of values, from 0; equal values have the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|one, other| values[*one] == values[*other]) {
        let mean = first as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|index| ranks[*index] = mean);
        first += equal.len();
    }
    ranks
}

/// Part of the pairs of a class above which disturbed pairs decide how all of them are judged.
const MOST_DISTURBED: f64 = 0.1;
/// The same for bandwidths: a part of them may be left out, because a bound of a bandwidth says
/// much less than one of a latency.
const MOST_DISTURBED_BANDWIDTHS: f64 = 0.5;

/// CPUs that limit bandwidths make them differ as much as waits for them do. They do not limit the
/// bandwidths of a class if these differ by less than this part of that.
const MOST_FROM_WAITS: f64 = 0.25;

/// A latency, in nanoseconds. Linux runs a process for about 3 ms between two waits for its CPU
/// **[I]**, which is dozens of latencies up to this one.
const SHORT_NS: f64 = 1e5;

/// The figures of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairFigures {
    pub pair: Pair,
    pub class: Class,
    /// Whether a side waited for its CPU so long that the figure is only a bound.
    pub is_disturbed: bool,
    /// Whether the user has asked for the pair: the partners of suspects are not random.
    pub is_of_sweep: bool,
    /// Number of the round in the survey.
    pub round: u32,
    /// How long a side waited for its CPU, in percent of its time.
    pub waited_percent: u8,
    /// Logarithm of the cost.
    cost: f32,
    /// Logarithm of the cost by the 5th percentile, or by the smallest latency if that is unknown;
    /// of bandwidths, `cost`.
    p5: f32,
    /// Logarithm of the cost by the smallest latency; of bandwidths, `cost`.
    min: f32,
    /// Ratios of the 90th and 99th percentile of the latencies to their median; 1 if they are
    /// unknown, and of bandwidths.
    pub p90: f32,
    pub p99: f32,
}

/// The logarithm of the cost of a pair, in the statistic by which its class is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedCost {
    /// The logarithm of the cost.
    pub cost: f64,
    /// Whether the true cost may be smaller.
    pub is_bound: bool,
}

impl PairFigures {
    /// The observation of a pair that was measured.
    pub fn of(result: &PairResult, class: Class) -> Option<Self> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let is_bandwidth = matches!(figures, Figures::Bandwidth { .. });
        let cost = log_cost(figures.value(), is_bandwidth) as f32;
        let mut one = Self {
            pair: result.pair,
            class,
            is_disturbed: result.waited_percent > most_waited_percent(is_bandwidth),
            is_of_sweep: result.stage == Stage::Sweep,
            round: result.round,
            waited_percent: result.waited_percent,
            cost,
            p5: cost,
            min: cost,
            p90: 1.0,
            p99: 1.0,
        };
        if let Figures::Latency { median_ns, p5_ns, min_ns, p90_ns, p99_ns, .. } = *figures {
            one.p5 = log_cost(p5_ns.unwrap_or(min_ns) as f64, false) as f32;
            one.min = log_cost(min_ns as f64, false) as f32;
            let ratio = |ns: Option<u64>| ns.unwrap_or(median_ns) as f32 / median_ns.max(1) as f32;
            (one.p90, one.p99) = (ratio(p90_ns), ratio(p99_ns));
        }
        Some(one)
    }

    /// Replaces figures by better ones of another measurement of the pair.
    pub fn improve(&mut self, other: &Self) {
        self.is_disturbed &= other.is_disturbed;
        self.waited_percent = self.waited_percent.min(other.waited_percent);
        self.cost = self.cost.min(other.cost);
        self.p5 = self.p5.min(other.p5);
        self.min = self.min.min(other.min);
        self.p90 = self.p90.min(other.p90);
        self.p99 = self.p99.min(other.p99);
    }

    /// Whether few operations can have met a wait for a CPU, and not the 90th percentile.
    pub fn has_p90(&self) -> bool {
        !self.is_disturbed || f64::from(self.cost) <= SHORT_NS.ln()
    }

    /// The observation with costs that are lower by this logarithm.
    pub fn faster_by(self, log: f64) -> Self {
        let lower = |cost: f32| cost - log as f32;
        Self { cost: lower(self.cost), p5: lower(self.p5), min: lower(self.min), ..self }
    }

    /// The logarithm of the ratio between a figure by this statistic and the smallest one: what
    /// waiting for CPUs may have added to it.
    pub fn waiting(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::P5 => f64::from(self.p5 - self.min),
            Statistic::Median | Statistic::Min | Statistic::Bound | Statistic::Unaffected => 0.0,
        }
    }

    /// The cost by a statistic. A median of a disturbed pair can be anything: its 5th percentile is
    /// a bound.
    pub fn reading(&self, statistic: Statistic) -> JudgedCost {
        let cost = match statistic {
            Statistic::Median if self.is_disturbed => self.p5,
            Statistic::Median | Statistic::Bound | Statistic::Unaffected => self.cost,
            Statistic::P5 => self.p5,
            Statistic::Min => self.min,
        };
        JudgedCost {
            cost: f64::from(cost),
            is_bound: self.is_disturbed && statistic == Statistic::Median,
        }
    }
}

/// The logarithm of the cost of a figure.
fn log_cost(value: f64, is_bandwidth: bool) -> f64 {
    let least = if is_bandwidth { SMALLEST_BANDWIDTH } else { 1.0 };
    let log = value.max(least).ln();
    if is_bandwidth { -log } else { log }
}

/// The figure with this logarithm of a cost.
pub fn figure(log: f64, is_bandwidth: bool) -> f64 {
    if is_bandwidth { (-log).exp() } else { log.exp() }
}

/// The statistics by which a class may be judged. They must not depend on the result of any pair:
/// with many disturbed pairs, those that reach more than a bound are a selection.
pub fn statistics(pairs: &[&PairFigures], is_bandwidth: bool) -> &'static [Statistic] {
    let disturbed = pairs.iter().filter(|one| one.is_disturbed).count();
    let part = disturbed as f64 / pairs.len().max(1) as f64;
    if is_bandwidth && part > MOST_DISTURBED_BANDWIDTHS {
        if follow_waits(pairs) { &[Statistic::Bound] } else { &[Statistic::Unaffected] }
    } else if !is_bandwidth && part > MOST_DISTURBED {
        &[Statistic::P5, Statistic::Min]
    } else {
        &[Statistic::Median]
    }
}

/// Whether busy CPUs may have limited the bandwidths of pairs.
fn follow_waits(pairs: &[&PairFigures]) -> bool {
    let without_cpu =
        |one: &&PairFigures| -(1.0 - f64::from(one.waited_percent.min(99)) / 100.0).ln();
    let costs: Vec<f64> = pairs.iter().map(|one| f64::from(one.cost)).collect();
    let waits: Vec<f64> = pairs.iter().map(without_cpu).collect();
    pairs.len() < LEAST_FIGURES || upper_spread(&costs) > MOST_FROM_WAITS * spread(&waits)
}

#[cfg(test)]
mod tests {
    use super::super::testing::pair;
    use super::*;

    /// The pairs of all NICs in both directions, with the costs of `cost`.
    fn all(nics: u32, cost: impl Fn(u32, u32) -> f64) -> Vec<PairCost> {
        let targets = |one| (0..nics).map(move |other| (one, other));
        let pairs = (0..nics).flat_map(targets).filter(|(one, other)| one != other);
        let cost_for = |(one, other)| PairCost {
            pair: pair(one, other),
            class: Class::Unknown,
            cost: cost(one, other),
        };
        pairs.map(cost_for).collect()
    }

    fn centre(fit: &Fit) -> f64 {
        fit.centres[Class::Unknown as usize].unwrap()
    }

    #[test]
    fn centre_is_of_good_pairs_beside_bad_nic_of_four() {
        let cost = |one, other| 7.0 + if one == 2 || other == 2 { 1.0 } else { 0.0 };
        let fit = fit(&all(4, cost), 5);
        assert!((centre(&fit) - 7.0).abs() < 0.02, "{fit:?}");
        assert!((fit.effects[2] - 1.0).abs() < 0.03);
        assert!(fit.effects[4].is_nan());
    }

    #[test]
    fn centre_is_of_good_pairs_beside_third_of_bad_nics() {
        let bad = |nic: u32| f64::from(u8::from(nic.is_multiple_of(3)));
        let fit = fit(&all(12, |one, other| 7.0 + bad(one) + bad(other)), 12);
        assert!((centre(&fit) - 7.0).abs() < 0.02, "{fit:?}");
    }

    #[test]
    fn copes_with_missing_pairs() {
        let cost = |one, other| 7.0 + if one == 2 || other == 2 { 3.0 } else { 0.0 };
        let mut pairs = all(12, cost);
        // All pairs of the slow NIC are there, and few of the others.
        let mut number = 0;
        pairs.retain(|one| {
            number += 1;
            one.cost > 9.0 || number % 7 == 0
        });
        let fit = fit(&pairs, 12);
        assert!((centre(&fit) - 7.0).abs() < 0.1, "{fit:?}");
    }

    #[test]
    fn spreads_ignore_few_values() {
        let values = [95.0, 90.0, 1e6, 100.0, 105.0];
        assert_eq!(spread(&values), 1.4826 * 5.0);
        assert_eq!([spread(&[]), upper_spread(&[])], [0.0; 2]);
    }

    /// Some software NICs sleep between operations, others poll.
    #[test]
    fn upper_spread_covers_a_second_mode() {
        let values = [vec![0.0; 60], vec![2.3; 40]].concat();
        assert_eq!(spread(&values), 0.0);
        assert!(upper_spread(&values) > 2.0);
    }

    #[test]
    fn correlates_ranks() {
        let rising = [1.0, 2.0, 3.0, 10.0];
        assert_eq!(rank_correlation(&rising, &[0.0, 0.1, 0.2, 0.3]), 1.0);
        assert_eq!(rank_correlation(&rising, &[3.0, 2.0, 1.0, 0.0]), -1.0);
        assert_eq!(rank_correlation(&rising, &[1.0; 4]), 0.0);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
    }
}
