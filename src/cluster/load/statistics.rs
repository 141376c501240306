//! Statistics of figures under load (load.md 3.6, jobs.md 3.4).

/// Standard deviation of a normal distribution, as a multiple of the median absolute deviation and
/// of the mean absolute deviation.
const SIGMA_OF_MEDIAN: f64 = 1.4826;
const SIGMA_OF_MEAN: f64 = 1.2533;

/// A deviation is at least this part of the median: no alarm comes from a tight distribution.
const LEAST_DEVIATION: f64 = 0.005;

/// Fewest values of which a median has an interval.
pub const LEAST_FOR_INTERVAL: usize = 8;

/// Half the width of the 95 % interval of a median, in ranks, for one value; it grows with the
/// square root of the number of values.
const HALF_WIDTH: f64 = 0.98;

/// Returns the values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns the median; of an even number of values the mean of both in the middle. `None` without
/// values.
pub fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| quantile(&sorted(values), 0.5))
}

/// Returns the mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns a quantile of values in ascending order, by linear interpolation; NaN without values.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = part * last as f64;
    let (below, above) = (sorted[place as usize], sorted[last.min(place as usize + 1)]);
    below + (above - below) * place.fract()
}

/// Returns the robust standard deviation around `centre`, at least 0.5 % of it.
pub fn deviation(values: &[f64], centre: f64) -> f64 {
    let distances: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    let of_median = SIGMA_OF_MEDIAN * median(&distances).unwrap_or(0.0);
    let found =
        if of_median > 0.0 { of_median } else { SIGMA_OF_MEAN * mean(&distances).unwrap_or(0.0) };
    found.max(LEAST_DEVIATION * centre.abs())
}

/// Returns the 95 % interval of the median by order statistics: ranks n/2 ± 0.98 √n. `None` with
/// fewer than 8 values.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len();
    if count < LEAST_FOR_INTERVAL {
        return None;
    }
    let values = sorted(values);
    let (middle, width) = (count as f64 / 2.0, HALF_WIDTH * (count as f64).sqrt());
    let at = |rank: f64| values[(rank as usize).clamp(1, count) - 1];
    Some((at((middle - width).floor()), at((middle + width).ceil())))
}

/// Returns Jain's index of fairness: 1 for equal shares, 1/n if one of n gets everything. `None`
/// if the shares are all 0.
pub fn fairness(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let of_squares: f64 = shares.iter().map(|share| share * share).sum();
    (of_squares > 0.0).then(|| sum * sum / (shares.len() as f64 * of_squares))
}

/// Returns the smallest share as a ratio to an equal share. `None` if the shares are all 0.
pub fn smallest_share(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let smallest = shares.iter().copied().fold(f64::INFINITY, f64::min);
    (sum > 0.0).then(|| smallest * shares.len() as f64 / sum)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interval_of_median_is_of_order_statistics() {
        // load.md 5, vector 23
        let values = [3.0, 0.98, 1.0, 1.01, 1.4, 1.02, 1.03, 1.05];
        assert!((median(&values).unwrap() - 1.025).abs() < 1e-9);
        assert_eq!(median_interval(&values), Some((0.98, 1.4)));
        assert_eq!(median_interval(&values[1..]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn fairness_and_smallest_share_are_those_of_vector_22() {
        let shares = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2];
        assert!((fairness(&shares).unwrap() - 0.920).abs() < 5e-4);
        assert!((smallest_share(&shares).unwrap() - 0.222).abs() < 5e-4);
        assert_eq!((fairness(&[0.0; 3]), smallest_share(&[0.0; 3])), (None, None));
    }

    #[test]
    fn deviation_has_a_floor_and_survives_equal_values() {
        assert!((deviation(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0) - 1.4826).abs() < 1e-9);
        assert!((deviation(&[3.0, 3.0, 3.0, 7.0], 3.0) - 1.2533).abs() < 1e-9);
        assert!((deviation(&[200.0; 4], 200.0) - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn interval_contains_median(values in prop::collection::vec(0.1..10.0, 8..80)) {
            let (low, high) = median_interval(&values).unwrap();
            let middle = median(&values).unwrap();
            prop_assert!(low <= middle && middle <= high);
        }

        #[test]
        fn fairness_is_between_one_of_all_and_equal_shares(
            shares in prop::collection::vec(0.0..10.0, 2..40),
        ) {
            if let (Some(index), Some(least)) = (fairness(&shares), smallest_share(&shares)) {
                prop_assert!(index >= 1.0 / shares.len() as f64 - 1e-9 && index <= 1.0 + 1e-9);
                prop_assert!((0.0..=1.0 + 1e-9).contains(&least));
            }
        }
    }
}
