//! The Mann-Whitney U test: whether the runs of one configuration lie above the runs of another.
//!
//! It compares ranks only, so it assumes nothing about the distribution of the runs. The runs must
//! be independent of each other.

/// Additions up to which the distribution of the ranks is computed exactly.
const EXACT: usize = 10_000_000;

/// Values of the smaller sample from which the normal distribution is close enough.
const NORMAL: usize = 8;

/// The smallest probability that [`probability_of_shift`] can return for samples of these sizes
/// without equal values: the probability of the order in which all of `second` lie above all of
/// `first`.
pub fn smallest_probability(first: usize, second: usize) -> f64 {
    let (count, chosen) = (first + second, first.min(second));
    if is_exact(count, chosen) {
        1.0 / combinations(count, chosen)
    } else {
        let ranks: Vec<usize> = (1..=count).map(|rank| 2 * rank).collect();
        by_normal_distribution(&ranks, chosen, ranks[count - chosen..].iter().sum())
    }
}

/// The probability, if both samples come from the same distribution, that `second` lies at least as
/// far above `first` as it does: the one-sided p-value. 1 if a sample is empty.
///
/// Exact, also with equal values, if the smaller sample has fewer than 8 values or the computation
/// is short (up to 33 values a side, or 8 and 270); else by the normal distribution.
pub fn probability_of_shift(first: &[f64], second: &[f64]) -> f64 {
    if first.is_empty() || second.is_empty() {
        return 1.0;
    }
    if second.len() > first.len() {
        // Mirrored at 0: the exact computation is shorter for the smaller sample.
        let negated = |sample: &[f64]| sample.iter().map(|value| -value).collect::<Vec<_>>();
        return probability_of_shift(&negated(second), &negated(first));
    }
    let ranks = doubled_ranks(first, second);
    let sum: usize = ranks[first.len()..].iter().sum();
    if is_exact(ranks.len(), second.len()) {
        exact(&ranks, second.len(), sum)
    } else {
        by_normal_distribution(&ranks, second.len(), sum)
    }
}

/// Whether [`exact`] is used for choices of `chosen` of `count` values: the smaller sample.
fn is_exact(count: usize, chosen: usize) -> bool {
    let largest_sum = chosen * 2 * count;
    chosen < NORMAL || count * chosen * largest_sum <= EXACT
}

/// Returns twice the rank of each value of `first`, then of `second`, among all. Equal values have
/// the mean of their ranks, which may end in one half.
fn doubled_ranks(first: &[f64], second: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|other| *other < value).count();
        let equal = all.iter().filter(|other| *other == value).count();
        2 * below + equal + 1
    };
    all.iter().map(rank).collect()
}

/// The part of all choices of `chosen` ranks whose sum is at least `least`.
fn exact(ranks: &[usize], chosen: usize, least: usize) -> f64 {
    // These are the choices whose distances from the highest rank add up to at most `most`.
    let highest = ranks.iter().copied().max().unwrap_or_default();
    let most = chosen * highest - least;
    // ways[k][s]: choices of k of the ranks so far with the distance s.
    let mut ways = vec![vec![0.0_f64; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        let distance = highest - rank;
        for count in (1..=chosen).rev() {
            let (fewer, these) = ways.split_at_mut(count);
            let (from, to) = (&fewer[count - 1], &mut these[0]);
            for sum in distance..=most {
                to[sum] += from[sum - distance];
            }
        }
    }
    ways[chosen].iter().sum::<f64>() / combinations(ranks.len(), chosen)
}

/// Returns approximately the part of all choices of `chosen` ranks whose sum is at least `sum`, by
/// the normal distribution with corrections for equal values and for the steps of the sum.
fn by_normal_distribution(ranks: &[usize], chosen: usize, sum: usize) -> f64 {
    let (count, chosen) = (ranks.len() as f64, chosen as f64);
    let mean = (count + 1.0) / 2.0;
    let squares = ranks.iter().map(|&rank| (rank as f64 / 2.0 - mean).powi(2));
    let variance = squares.sum::<f64>() * chosen * (count - chosen) / (count * (count - 1.0));
    if variance == 0.0 {
        return 1.0;
    }
    let distance = sum as f64 / 2.0 - chosen * mean - 0.5;
    upper_tail(distance / variance.sqrt())
}

/// The probability that a value of the standard normal distribution is above `z`, with an absolute
/// error below 8e-8 (Abramowitz and Stegun, 26.2.17).
fn upper_tail(z: f64) -> f64 {
    const TERMS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let tail = series * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 0.0 { 1.0 - tail } else { tail }
}

/// The number of ways to choose `chosen` of `count`.
fn combinations(count: usize, chosen: usize) -> f64 {
    (1..=chosen).fold(1.0, |ways, i| ways * (count - chosen + i) as f64 / i as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Counts all choices one by one: an independent computation.
    fn counted(first: &[f64], second: &[f64]) -> f64 {
        let all: Vec<f64> = first.iter().chain(second).copied().collect();
        // Pairs that `second` wins, twice, with one for equal values.
        let wins = |chosen: u32| {
            let is_chosen = |at: &usize| chosen >> at & 1 == 1;
            let mut wins = 0;
            for i in (0..all.len()).filter(is_chosen) {
                for j in (0..all.len()).filter(|at| !is_chosen(at)) {
                    wins += i32::from(all[i] > all[j]) + i32::from(all[i] >= all[j]);
                }
            }
            wins
        };
        let observed = wins((1_u32 << all.len()) - (1 << first.len()));
        let choices: Vec<u32> = (0..1_u32 << all.len())
            .filter(|chosen| chosen.count_ones() as usize == second.len())
            .collect();
        let reached = choices.iter().filter(|choice| wins(**choice) >= observed).count();
        reached as f64 / choices.len() as f64
    }

    #[test]
    fn returns_known_probabilities() {
        let close = |is: f64, expected: f64| (is - expected).abs() < 1e-12;
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        let high = [6.0, 7.0, 8.0, 9.0, 10.0];
        assert!(close(probability_of_shift(&low, &high), 1.0 / 252.0));
        assert!(close(probability_of_shift(&high, &low), 1.0));
        assert!(close(smallest_probability(5, 5), 1.0 / 252.0));
        assert!(close(smallest_probability(4, 4), 1.0 / 70.0));
        // One exchange at the border: one further order is as extreme.
        let (first, second) = ([1.0, 2.0, 3.0, 4.0, 6.0], [5.0, 7.0, 8.0, 9.0, 10.0]);
        assert!(close(probability_of_shift(&first, &second), 2.0 / 252.0));
        assert_eq!(probability_of_shift(&[1.0; 4], &[1.0; 5]), 1.0);
        assert_eq!(probability_of_shift(&[], &[1.0]), 1.0);
    }

    #[test]
    fn approximation_agrees_with_exact_distribution() {
        for shift in 0..8 {
            let first: Vec<f64> = (0..25).map(f64::from).collect();
            let second: Vec<f64> = (0..25).map(|i| f64::from(i + shift)).collect();
            let ranks = doubled_ranks(&first, &second);
            let sum = ranks[25..].iter().sum();
            let (exact, approximate) =
                (exact(&ranks, 25, sum), by_normal_distribution(&ranks, 25, sum));
            assert!((exact - approximate).abs() < 0.005, "{exact} {approximate}");
        }
        let first: Vec<f64> = (0..100).map(f64::from).collect();
        let second: Vec<f64> = (0..100).map(|i| f64::from(i) + 60.5).collect();
        assert!(probability_of_shift(&first, &second) < 1e-6);
        assert!(probability_of_shift(&first, &first) > 0.49);
        assert_eq!(probability_of_shift(&[1.0; 40], &[1.0; 40]), 1.0);
    }

    #[test]
    fn one_or_two_values_above_a_hundred_others_are_a_shift() {
        let history: Vec<f64> = (0..150).map(f64::from).collect();
        for (others, new) in [(150, &[200.0][..]), (100, &[200.0, 201.0]), (99, &[200.0])] {
            let base = &history[..others];
            let smallest = smallest_probability(others, new.len());
            let p_value = probability_of_shift(base, new);
            assert!(smallest <= 0.01, "{others}: {smallest}");
            assert!((p_value - smallest).abs() < 1e-12, "{others}: {p_value}");
            // Below all others, the other way round.
            let below: Vec<f64> = new.iter().map(|value| -value).collect();
            let p_value = probability_of_shift(&below, base);
            assert!((p_value - smallest).abs() < 1e-12, "{others}: {p_value}");
        }
        // Two of 150 values lie above the new one.
        let p_value = probability_of_shift(&history, &[147.5]);
        assert!((p_value - 3.0 / 151.0).abs() < 1e-12, "{p_value}");
        assert!(smallest_probability(98, 1) > 0.01);
    }

    #[test]
    fn smallest_probability_is_that_of_the_method_in_use() {
        for (first, second) in [(7, 300), (8, 300), (40, 40), (200, 100), (1, 1), (3, 0)] {
            let low: Vec<f64> = (0..first).map(f64::from).collect();
            let high: Vec<f64> = (0..second).map(|i| f64::from(1_000 + i)).collect();
            let smallest = smallest_probability(low.len(), high.len());
            let reached = probability_of_shift(&low, &high);
            assert!((reached - smallest).abs() < 1e-9 * smallest, "{reached} {smallest}");
        }
    }

    proptest! {
        /// Small numbers give many equal values.
        #[test]
        fn agrees_with_counted_choices(
            first in prop::collection::vec(0_u8..6, 1..5),
            second in prop::collection::vec(0_u8..6, 1..5),
        ) {
            let first: Vec<f64> = first.into_iter().map(f64::from).collect();
            let second: Vec<f64> = second.into_iter().map(f64::from).collect();
            let (is, expected) = (probability_of_shift(&first, &second), counted(&first, &second));
            prop_assert!((is - expected).abs() < 1e-12, "{is} {expected}");
            prop_assert!(is >= smallest_probability(first.len(), second.len()) - 1e-12);
        }
    }
}
