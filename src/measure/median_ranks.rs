//! The confidence interval of a median.

/// The 97.5th percentile of the normal distribution, for intervals of 95 %.
const NORMAL_97_5: f64 = 1.959_963_985;

/// Returns the ranks of the samples that bound the median of the distribution with a confidence of
/// at least 95 %, among `count` samples in ascending order; `None` with too few samples.
///
/// Each sample lies below the median with probability 1/2, whatever the distribution, so the number
/// below it is binomially distributed. The samples must be independent of each other.
pub fn median_ranks(count: u64) -> Option<(u64, u64)> {
    let n = count as f64;
    let low = ((n - NORMAL_97_5 * n.sqrt()) / 2.0).floor();
    (low >= 1.0).then(|| (low as u64, count + 1 - low as u64))
}
