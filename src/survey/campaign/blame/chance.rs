//! What chance explains.

use super::limits::FALSE_ALARM;

/// Standard error of a median, as a multiple of the standard error of a mean.
const ERROR_OF_MEDIAN: f64 = 1.2533;

/// The error of an effect is at least this, however many pairs there are: figures drift between the
/// sweep and the retests.
pub const LEAST_ERROR: f64 = 0.0025;

/// Returns the standard error of a median of `count` values with this spread.
pub fn error_of_median(spread: f64, count: usize) -> f64 {
    ERROR_OF_MEDIAN * spread / (count.max(1) as f64).sqrt()
}

/// Returns the score that none of `count` values exceeds by chance: an upper bound of the normal
/// quantile, wider for few values, whose spread is uncertain.
pub fn score_limit(count: usize) -> f64 {
    let count = count.max(2) as f64;
    (2.0 * (count / FALSE_ALARM).ln()).sqrt() * (1.0 + 4.0 / count)
}

/// Returns the probability that at least `hits` of `trials` have a property that each has with
/// probability `part`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_of_binomial_distribution() {
        assert!((binomial_tail(4, 4, 0.5) - 0.0625).abs() < 1e-12);
        assert!((binomial_tail(4, 3, 0.1) - 0.0037).abs() < 1e-12);
        assert_eq!(binomial_tail(4, 0, 0.1), 1.0);
    }
}
