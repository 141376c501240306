//! Robust statistics of residuals.

use facts::robust::{self, at_rank, lower_median};

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
    use super::*;

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
