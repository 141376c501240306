//! The robust additive fit of a test: log cost = centre of the class + effect of the initiator +
//! effect of the target. Its effects anchor the centres: the median NIC has none. So the centres
//! are the costs of good pairs, even if bad NICs take part in most pairs: one NIC of four is in
//! half of the pairs, a third of many NICs in more than half.
//!
//! The fit leaves a residual of each pair; robust statistics say what residuals have in common.

use super::answer::Pair;
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

/// Returns the part of a cost that centre and effects leave.
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

/// Returns whether a residual is nearer to an effect than to 0.
pub fn has_effect(residual: f64, effect: f64) -> bool {
    residual * effect.signum() >= effect.abs() / 2.0
}

/// The quantile of the upper spread, and its distance from the median of a normal distribution, in
/// standard deviations.
const UPPER: (f64, f64) = (0.75, 0.6745);

/// Returns the robust standard deviation; 0 without values.
pub fn spread(values: &[f64]) -> f64 {
    lower_median(values).map_or(0.0, |median| robust::spread(values, median, lower_median))
}

/// Returns the robust standard deviation of the worse values: not less than [`spread`]. A part of
/// the values may be a second mode, as of software NICs, some of which sleep where others poll.
pub fn upper_spread(values: &[f64]) -> f64 {
    let (part, distance) = UPPER;
    let place = (part * values.len().saturating_sub(1) as f64) as usize;
    let ends = lower_median(values).zip(at_rank(values, place));
    ends.map_or(0.0, |(median, upper)| spread(values).max((upper - median) / distance))
}

/// Returns the rank correlation of two lists of equal length (Spearman); 0 if one is constant.
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

/// Returns the ranks of values, from 0; equal values have the mean of their ranks.
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

#[cfg(test)]
mod tests {
    use super::super::testing::pair;
    use super::*;

    /// Returns the pairs of all NICs in both directions, with the costs of `cost`.
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
