//! Latencies in bins of equal ratio.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use hdrhistogram::Histogram;

/// Bins of the documents from one power of two to the next: each is 1.1 % wide.
const BINS_OF_OCTAVE: f64 = 64.0;

/// The number of the bin of a latency in nanoseconds.
fn bin(ns: u64) -> u32 {
    ((ns.max(1) as f64).log2() * BINS_OF_OCTAVE) as u32
}

/// The smallest whole number of nanoseconds in a bin, if it has any.
fn lowest(bin: u32) -> u64 {
    (f64::from(bin) / BINS_OF_OCTAVE).exp2().ceil() as u64
}

/// The bins that have samples, in ascending order: the smallest whole number of nanoseconds in the
/// bin, and the number of samples. `latencies` has latencies and their numbers of samples.
pub fn bins(latencies: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut bins: BTreeMap<u32, u64> = BTreeMap::new();
    for (ns, count) in latencies {
        let sum = bins.entry(bin(ns)).or_default();
        *sum = sum.saturating_add(count);
    }
    bins.into_iter().map(|(number, count)| (lowest(number), count)).collect()
}

/// The bins of a recorded histogram.
pub fn bins_of(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let places = histogram.iter_recorded();
    bins(places.map(|place| {
        // The largest value of a place may exceed the largest sample, and reach the next bin.
        let lowest = histogram.lowest_equivalent(place.value_iterated_to());
        (lowest, place.count_since_last_iteration())
    }))
}

/// A bin of a picture, which joins a power of two of the bins of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Lower edge, in nanoseconds.
    pub from_ns: u64,
    /// Upper edge, which does not belong to the bin.
    pub to_ns: u64,
    /// Number of samples.
    pub count: u64,
}

/// The bins from the first to the last with samples, joined so that at most `most` of them have
/// samples, and all are of equal ratio. None between them is left out.
pub fn joined(bins: &[(u64, u64)], most: usize) -> Vec<Joined> {
    let numbers: Vec<(u32, u64)> = bins.iter().map(|&(ns, count)| (bin(ns), count)).collect();
    let factor = factor(numbers.iter().map(|(number, _)| *number), most);
    let joined = merged(&numbers, factor).into_iter();
    joined
        .map(|(number, count)| Joined {
            from_ns: lowest(number),
            to_ns: lowest(number + factor),
            count,
        })
        .collect()
}

/// Returns how many neighbours, a power of two, are joined so that at most `most` bins are left of
/// those with these numbers.
pub fn factor(numbers: impl Iterator<Item = u32> + Clone, most: usize) -> u32 {
    let used = |factor| numbers.clone().map(|number| number / factor).collect::<BTreeSet<_>>();
    let mut factors = iter::successors(Some(1), |factor: &u32| factor.checked_mul(2));
    factors.find(|factor| used(*factor).len() <= most).unwrap_or(1)
}

/// The bins from the first to the last of these, in ascending order, of which `factor` neighbours
/// are joined, with the number of the first neighbour.
pub fn merged(bins: &[(u32, u64)], factor: u32) -> Vec<(u32, u64)> {
    let (Some((first, _)), Some((last, _))) = (bins.first(), bins.last()) else {
        return Vec::new();
    };
    let first = first / factor;
    let mut merged: Vec<(u32, u64)> =
        (first..=last / factor).map(|place| (place * factor, 0)).collect();
    for (number, count) in bins {
        let (_, sum) = &mut merged[(number / factor - first) as usize];
        *sum = sum.saturating_add(*count);
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_belong_to_their_bins() {
        for ns in (1..10_000).chain([1 << 40, (1 << 41) - 1]) {
            let number = bin(ns);
            assert!(lowest(number) <= ns && ns < lowest(number + 1), "{ns}");
        }
        for number in (0..2_000).filter(|number| lowest(*number) < lowest(*number + 1)) {
            assert_eq!(bin(lowest(number)), number);
        }
    }

    #[test]
    fn bin_of_a_histogram_does_not_begin_above_its_sample() {
        let edges = (0..1_000).map(lowest).filter(|edge| *edge > 1);
        for below in edges.map(|edge| edge - 1) {
            let mut histogram = Histogram::new(3).unwrap();
            histogram.record(below).unwrap();
            assert!(bins_of(&histogram)[0].0 <= below, "{below}");
        }
    }
}
