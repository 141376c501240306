//! Robust statistics: medians, spreads and quantiles, which a few strange values hardly move
//! (jobs.md 3.4).

/// Standard deviation of a normal distribution, as a multiple of the median absolute deviation and
/// of the mean absolute deviation.
const SIGMA_OF_MEDIAN: f64 = 1.4826;
const SIGMA_OF_MEAN: f64 = 1.2533;

/// The smallest [`sigma`], as a part of the centre: no alarm comes from a tight distribution.
const LEAST_SIGMA: f64 = 0.005;

/// Fewest values whose median has an interval.
pub const LEAST_FOR_INTERVAL: usize = 8;

/// Half the width of the 95 % interval of a median, in ranks, for one value; it grows with the
/// square root of the number of values.
const HALF_WIDTH: f64 = 0.98;

/// One of [`lower_median`], [`median`] and [`upper_median`].
pub type Median = fn(&[f64]) -> Option<f64>;

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The median; of an even number of values the mean of both in the middle. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| quantile(&sorted(values), 0.5))
}

/// The median; of an even number of values the lower one of both in the middle. `None` without
/// values.
pub fn lower_median(values: &[f64]) -> Option<f64> {
    at_rank(values, values.len().checked_sub(1)? / 2)
}

/// The median; of an even number of values the upper one of both in the middle. `None` without
/// values.
pub fn upper_median(values: &[f64]) -> Option<f64> {
    at_rank(values, values.len() / 2)
}

/// The value at a rank from 0 in ascending order; `None` with too few values.
pub fn at_rank(values: &[f64], rank: usize) -> Option<f64> {
    let mut values = values.to_vec();
    (rank < values.len()).then(|| *values.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// A quantile of values in ascending order, by linear interpolation; NaN without values.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    interpolate(part * last as f64, |rank| sorted.get(rank).copied().unwrap_or(f64::NAN))
}

/// The value at a rank from 0, which need not be an integer, by linear interpolation.
pub fn interpolate(rank: f64, value_at: impl Fn(usize) -> f64) -> f64 {
    let (low, high) = (value_at(rank.floor() as usize), value_at(rank.ceil() as usize));
    if low == high { low } else { low + (high - low) * rank.fract() }
}

/// The index of the bin with the quantile by nearest rank, from the numbers of values of the bins
/// in ascending order; `None` without values.
pub fn quantile_bin(mut counts: impl Iterator<Item = u64> + Clone, part: f64) -> Option<usize> {
    let count = counts.clone().fold(0, u64::saturating_add);
    let rank = (part * count as f64).ceil().max(1.0) as u64;
    let mut below = 0_u64;
    counts.position(|count| {
        below = below.saturating_add(count);
        below >= rank
    })
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The robust standard deviation around `centre`, from the median distance; 0 without values, and
/// if more than half of them are equal to the centre.
pub fn spread(values: &[f64], centre: f64, median: Median) -> f64 {
    SIGMA_OF_MEDIAN * median(&distances(values, centre)).unwrap_or(0.0)
}

/// The robust standard deviation around `centre`: at least 0.5 % of it, and from the mean distance
/// if more than half of the values are equal to the centre.
pub fn sigma(values: &[f64], centre: f64) -> f64 {
    let distances = distances(values, centre);
    let [median_value, mean_value] =
        [median, mean].map(|statistic| statistic(&distances).unwrap_or(0.0));
    sigma_of_distances(centre, median_value, mean_value)
}

/// The [`sigma`] that follows from the median and the mean distance from the centre.
pub fn sigma_of_distances(centre: f64, median: f64, mean: f64) -> f64 {
    let sigma = if median > 0.0 { SIGMA_OF_MEDIAN * median } else { SIGMA_OF_MEAN * mean };
    sigma.max(LEAST_SIGMA * centre.abs())
}

fn distances(values: &[f64], centre: f64) -> Vec<f64> {
    values.iter().map(|value| (value - centre).abs()).collect()
}

/// The 95 % interval of the median by order statistics. `None` with fewer than 8 values.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let (low, high) = interval_ranks(values.len())?;
    let values = sorted(values);
    Some((values[low], values[high]))
}

/// The ranks, from 0, of the ends of the 95 % interval of the median: counted from 1, they are n/2
/// ± 0.98 √n. `None` with fewer than 8 values.
pub fn interval_ranks(count: usize) -> Option<(usize, usize)> {
    let (middle, width) = (count as f64 / 2.0, HALF_WIDTH * (count as f64).sqrt());
    let rank = |from_one: f64| (from_one as usize).clamp(1, count) - 1;
    (count >= LEAST_FOR_INTERVAL)
        .then(|| (rank((middle - width).floor()), rank((middle + width).ceil())))
}

/// Returns slope and height at 0 of the line with the least sum of absolute deviations from these
/// points. It passes through two of them. `None` if all points have the same place.
pub fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let pairs = points.iter().enumerate().flat_map(|(at, one)| {
        points[at + 1..].iter().filter(move |other| other.0 != one.0).map(move |other| {
            let slope = (other.1 - one.1) / (other.0 - one.0);
            (slope, one.1 - slope * one.0)
        })
    });
    let deviation = |(slope, height): &(f64, f64)| -> f64 {
        points.iter().map(|(x, y)| (y - height - slope * x).abs()).sum()
    };
    pairs.min_by(|one, other| deviation(one).total_cmp(&deviation(other)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn medians_differ_in_even_numbers_of_values_only() {
        let medians: [Median; 3] = [lower_median, median, upper_median];
        let values_for = |values: &[f64]| medians.map(|median| median(values));
        assert_eq!(values_for(&[]), [None; 3]);
        assert_eq!(values_for(&[7.0, 1.0, 5.0]), [Some(5.0); 3]);
        assert_eq!(values_for(&[4.0, 1.0, 3.0, 2.0]), [Some(2.0), Some(2.5), Some(3.0)]);
        assert_eq!(values_for(&[f64::INFINITY; 2]), [Some(f64::INFINITY); 3]);
    }

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let quantiles = [0.0, 0.25, 0.5, 1.0].map(|part| quantile(&values, part));
        assert_eq!(quantiles, [1.0, 1.75, 2.5, 4.0]);
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(quantile(&[1.0, f64::INFINITY, f64::INFINITY], 0.0), 1.0);
    }

    #[test]
    fn bins_have_quantiles_by_nearest_rank() {
        let bin = |part| quantile_bin([0, 9, 1].into_iter(), part);
        assert_eq!([0.0, 0.9, 0.91, 1.0].map(bin), [Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!(quantile_bin([0, 0].into_iter(), 0.5), None);
        assert_eq!(quantile_bin([u64::MAX, 1].into_iter(), 0.5), Some(0));
    }

    #[test]
    fn sigma_has_a_floor_and_survives_equal_values() {
        assert!((sigma(&[1.0, 2.0, 3.0, 4.0, 5.0], 3.0) - 1.4826).abs() < 1e-9);
        assert!((sigma(&[3.0, 3.0, 3.0, 7.0], 3.0) - 1.2533).abs() < 1e-9);
        assert!((sigma(&[200.0; 4], 200.0) - 1.0).abs() < 1e-9);
        assert!((sigma(&[-200.0; 4], -200.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn spread_ignores_few_values() {
        let values = [95.0, 90.0, 1e6, 100.0, 105.0];
        assert_eq!(spread(&values, 100.0, lower_median), 1.4826 * 5.0);
        let two = [1.0, 3.0];
        let spreads =
            [lower_median, median, upper_median].map(|statistic| spread(&two, 1.0, statistic));
        assert_eq!(spreads, [0.0, 1.4826, 1.4826 * 2.0]);
        assert_eq!(spread(&[], 1.0, median), 0.0);
    }

    #[test]
    fn interval_of_median_is_of_order_statistics() {
        // load.md 5, vector 23
        let values = [3.0, 0.98, 1.0, 1.01, 1.4, 1.02, 1.03, 1.05];
        assert!((median(&values).unwrap() - 1.025).abs() < 1e-9);
        assert_eq!(median_interval(&values), Some((0.98, 1.4)));
        assert_eq!(median_interval(&values[1..]), None);
        // 8 ± 3.92 and 50 ± 9.8: from 1, the ranks 4 and 12, 40 and 60.
        assert_eq!([16, 100].map(interval_ranks), [Some((3, 11)), Some((39, 59))]);
    }

    proptest! {
        #[test]
        fn medians_are_between_half_of_the_values(
            values in prop::collection::vec(-10.0..10.0, 1..40),
        ) {
            let [low, middle, high] =
                [lower_median, median, upper_median].map(|statistic| statistic(&values).unwrap());
            prop_assert!(low <= middle && middle <= high);
            prop_assert_eq!(sorted(&values)[(values.len() - 1) / 2], low);
            prop_assert_eq!(sorted(&values)[values.len() / 2], high);
            let mean = (low + high) / 2.0;
            prop_assert!((middle - mean).abs() <= 4.0 * f64::EPSILON * low.abs().max(high.abs()));
        }

        #[test]
        fn quantiles_ascend_between_both_ends(
            values in prop::collection::vec(-10.0..10.0, 1..40),
            [one, other] in [0.0..=1.0, 0.0..=1.0],
        ) {
            let values = sorted(&values);
            let quantiles = [0.0, f64::min(one, other), f64::max(one, other), 1.0];
            let quantiles = quantiles.map(|part| quantile(&values, part));
            prop_assert_eq!((quantiles[0], quantiles[3]), (values[0], values[values.len() - 1]));
            prop_assert!(quantiles.is_sorted_by(|low, high| *low <= high + 1e-12));
        }

        #[test]
        fn spreads_follow_the_scale_and_not_the_place(
            values in prop::collection::vec(-10.0..10.0, 1..40),
            factor in 0.1..10.0_f64,
        ) {
            let medians: [Median; 3] = [lower_median, median, upper_median];
            for median in medians {
                let spread_of = |values: &[f64]| spread(values, median(values).unwrap(), median);
                let moved: Vec<f64> = values.iter().map(|value| value * factor + 3.0).collect();
                prop_assert!((spread_of(&moved) - factor * spread_of(&values)).abs() < 1e-9);
            }
        }

        #[test]
        fn interval_contains_median(values in prop::collection::vec(0.1..10.0, 8..80)) {
            let (low, high) = median_interval(&values).unwrap();
            let middle = median(&values).unwrap();
            prop_assert!(low <= middle && middle <= high);
        }
    }
}
