//! The statistics and limits that the searches among quiet pairs and under load share when they ask
//! which part of the cluster is to blame for what is outside its limits (docs/blame.md): the
//! limits, what chance explains, and the part that explains most of the rows that are outside.

use std::collections::BTreeMap;

/// Probability with which one search among the figures of a test suspects any part of a fabric
/// without a fault. A survey has a search for each test and class.
pub const FALSE_ALARM: f64 = 0.05;

/// Fewest figures of a class that has a limit.
pub const LEAST_FIGURES: usize = 8;

/// Fewest partners with which a NIC, and not its partner, is a cause.
pub const LEAST_PARTNERS: usize = 2;

/// Part of the pairs of a larger part that must have its effect.
pub const LARGER_SHARE: f64 = 2.0 / 3.0;

/// Standard error of a median, as a multiple of the standard error of a mean.
const ERROR_OF_MEDIAN: f64 = 1.2533;

/// The error of an effect is at least this, however many pairs there are: figures drift between the
/// sweep and the retests.
pub const LEAST_ERROR: f64 = 0.0025;

/// The standard error of a median of `count` values with this spread.
pub fn error_of_median(spread: f64, count: usize) -> f64 {
    ERROR_OF_MEDIAN * spread / (count.max(1) as f64).sqrt()
}

/// The score that none of `count` values exceeds by chance: an upper bound of the normal quantile,
/// wider for few values, whose spread is uncertain.
pub fn score_limit(count: usize) -> f64 {
    let count = count.max(2) as f64;
    (2.0 * (count / FALSE_ALARM).ln()).sqrt() * (1.0 + 4.0 / count)
}

/// The probability that at least `hits` of `trials` have a property that each has with probability
/// `part`.
pub fn binomial_tail(trials: usize, hits: usize, part: f64) -> f64 {
    if hits == 0 {
        return 1.0;
    }
    let (yes, no) = (part.ln(), (-part).ln_1p());
    let mut log_ways = 0.0;
    let mut sum = 0.0;
    for count in 0..=trials {
        if count > 0 {
            log_ways += ((trials - count + 1) as f64 / count as f64).ln();
        }
        if count >= hits {
            sum += (log_ways + count as f64 * yes + (trials - count) as f64 * no).exp();
        }
    }
    sum.min(1.0)
}

/// The rows of a part, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All of them.
    pub rows: Vec<usize>,
    /// Those outside their limits.
    pub outside: Vec<usize>,
}

impl Share {
    /// Whether at least this part of the rows is outside.
    pub fn is_at_least(&self, part: f64) -> bool {
        self.outside.len() as f64 >= part * self.rows.len() as f64
    }

    /// Whether enough rows are outside for a part with members.
    pub fn explains_larger_part(&self) -> bool {
        self.is_at_least(LARGER_SHARE)
    }
}

/// The rows of each part. A part in a role is a part of its own.
pub struct PartShares<P>(BTreeMap<P, Share>);

impl<P: Copy + Ord> PartShares<P> {
    /// Counts rows: the parts that a row passes, and whether it is outside its limit.
    pub fn new<I: IntoIterator<Item = P>>(rows: impl Iterator<Item = (I, bool)>) -> Self {
        let mut shares: BTreeMap<P, Share> = BTreeMap::new();
        for (row, (parts, is_outside)) in rows.enumerate() {
            for part in parts {
                let share = shares.entry(part).or_default();
                // Both ends of a row may be at the part.
                if share.rows.last() != Some(&row) {
                    share.rows.push(row);
                    share.outside.extend(is_outside.then_some(row));
                }
            }
        }
        Self(shares)
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.0.len()
    }

    /// The rows of a part.
    pub fn get(&self, part: P) -> Option<&Share> {
        self.0.get(&part)
    }

    /// The part that explains most rows, of those that may be a cause. Of equals, the first one
    /// counts.
    pub fn best(&self, may_be_cause: impl Fn(P, &Share) -> bool) -> Option<(P, &Share)> {
        let shares = self.0.iter().rev().map(|(part, share)| (*part, share));
        let causes = shares.filter(|(part, share)| may_be_cause(*part, share));
        causes.max_by_key(|(_, share)| share.outside.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_of_binomial_distribution() {
        assert!((binomial_tail(4, 4, 0.5) - 0.0625).abs() < 1e-12);
        assert!((binomial_tail(4, 3, 0.1) - 0.0037).abs() < 1e-12);
        assert_eq!(binomial_tail(4, 0, 0.1), 1.0);
    }

    #[test]
    fn explains_most_rows_by_the_first_of_equal_parts() {
        let rows = [([1, 2], true), ([1, 3], true), ([2, 3], false), ([4, 4], true)];
        let shares = PartShares::new(rows.into_iter());
        assert_eq!(shares.get(4), Some(&Share { rows: vec![3], outside: vec![3] }));
        let best = |least: f64| shares.best(|_, share| share.is_at_least(least)).map(|best| best.0);
        assert_eq!((best(0.5), best(1.0)), (Some(1), Some(1)));
        assert_eq!(shares.best(|part, _| part > 1).map(|best| best.0), Some(2));
        assert!(shares.best(|_, _| false).is_none());
    }
}
