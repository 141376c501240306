//! The counters of damaged and of lost packets, summed up by pair (health.md 1.7).

use std::collections::BTreeMap;

use super::answer::{LINK_ERRORS, PairResult, RETRIES, TIMEOUTS, TestPair};

/// Most pairs whose counts are kept.
const MOST_PAIRS: usize = 1 << 20;

/// The sums of counters that do not grow on a good fabric, by pair.
#[derive(Debug, Default)]
pub struct ErrorCounts {
    /// Packets that were damaged on the link of the initiator.
    pub damaged: BTreeMap<TestPair, u64>,
    /// Packets that were sent again or not answered in time.
    pub lost: BTreeMap<TestPair, u64>,
}

impl ErrorCounts {
    /// Adds the counters of a result.
    pub fn add(&mut self, result: &PairResult) {
        let key = (result.test, result.pair);
        for (counts, counters) in
            [(&mut self.damaged, &LINK_ERRORS[..]), (&mut self.lost, &[RETRIES, TIMEOUTS][..])]
        {
            let sum = result.sum(counters);
            if sum > 0 && (counts.len() < MOST_PAIRS || counts.contains_key(&key)) {
                let known = counts.entry(key).or_default();
                *known = known.saturating_add(sum);
            }
        }
    }
}
