//! Counters that prove causes, if they grow on a culprit while good NICs are quiet (diagnosis.md
//! 2).

use std::collections::BTreeMap;

use facts::severity::Severity;
use health::Finding;

/// How many times as much as on good NICs a counter must grow (diagnosis.md 2, `fgfc`).
const TIMES: u64 = 10;

/// Counters with one meaning.
#[derive(Debug)]
pub struct CounterItem {
    /// Code of the reading.
    pub code: &'static str,
    name: &'static str,
    /// The counters, which are added up.
    counters: &'static [&'static str],
    /// Smallest growth in a measurement that says something.
    least: u64,
    /// What they count, in sentences.
    what: &'static str,
}

pub const COUNTERS: &[CounterItem] = &[
    CounterItem {
        code: "packets-lost",
        name: "lost packets",
        counters: &["pct_spt_timeouts", "pct_retry_srb_requests"],
        // The survey permits as many in each pair.
        least: 6,
        what: "lost packets",
    },
    CounterItem {
        code: "fabric-stall",
        name: "flow control of the fabric",
        counters: &["oxe_stall_fgfc_blk"],
        least: 100_000,
        what: "cycles held back by the flow control of the fabric",
    },
    CounterItem {
        code: "congestion-marks",
        name: "congestion marks",
        counters: &["ixe_tc_req_ecn_pkts", "ixe_tc_rsp_ecn_pkts"],
        least: 100,
        what: "packets marked in congested switches",
    },
];

/// By how much the counters of each item have grown at most in a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    by_code: BTreeMap<&'static str, u64>,
    has_measured: bool,
}

impl Growth {
    /// Adds what the counters of a NIC have grown by in a measurement, by their names.
    pub fn add<'a>(&mut self, counters: impl Iterator<Item = (&'a str, u64)>) {
        self.has_measured = true;
        let counters: BTreeMap<&str, u64> = counters.collect();
        for item in COUNTERS {
            let changes = item.counters.iter().filter_map(|name| counters.get(name));
            let sum = changes.copied().fold(0, u64::saturating_add);
            let most = self.by_code.entry(item.code).or_default();
            *most = (*most).max(sum);
        }
    }

    /// Returns the growth of an item; `None` without measurements.
    fn of(&self, item: &CounterItem) -> Option<u64> {
        let most = self.by_code.get(item.code).copied();
        self.has_measured.then(|| most.unwrap_or_default())
    }
}

/// Returns the items that have grown far more on the culprit than on good NICs.
pub fn readings(own: &Growth, others: &Growth) -> Vec<Finding> {
    let reading = |item: &CounterItem| {
        let (grown, other_count) = (own.of(item)?, others.of(item)?);
        let is_far_more = grown >= other_count.saturating_mul(TIMES);
        (grown >= item.least && is_far_more).then(|| {
            let what = item.what;
            let text = format!("up to {grown} {what} in a measurement, good NICs {other_count}");
            Finding {
                value: Some(grown.to_string()),
                verdict: Severity::Suspect,
                sentence: Some(text),
                ..Finding::named(item.code, item.name)
            }
        })
    };
    COUNTERS.iter().filter_map(reading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(changes: &[(&str, u64)], measurements: u32) -> Growth {
        let mut growth = Growth::default();
        for _ in 0..measurements {
            growth.add(changes.iter().copied());
        }
        growth
    }

    /// Returns the codes of what these counters say beside these of good NICs.
    fn codes(own: &[(&str, u64)], others: &[(&str, u64)]) -> Vec<String> {
        let found = readings(&growth(own, 3), &growth(others, 5));
        found.into_iter().map(|reading| reading.code).collect()
    }

    #[test]
    fn growth_counts_beside_good_nics() {
        let retries = |count| ("pct_retry_srb_requests", count);
        assert_eq!(codes(&[retries(6)], &[]), ["packets-lost"]);
        assert_eq!(codes(&[retries(5)], &[]), [""; 0]);
        // Both counters are of one item.
        let both = [retries(3), ("pct_spt_timeouts", 3)];
        assert_eq!(codes(&both, &[]), ["packets-lost"]);
        assert_eq!(codes(&[retries(60)], &[retries(6)]), ["packets-lost"]);
        assert_eq!(codes(&[retries(60)], &[retries(7)]), [""; 0]);
        // The measurement with the largest growth counts.
        let mut own = growth(&[retries(60)], 1);
        own.add([].into_iter());
        assert_eq!(readings(&own, &growth(&[], 1))[0].value.as_deref(), Some("60"));
    }

    #[test]
    fn nothing_is_known_without_measurements_of_both() {
        let marked = growth(&[("ixe_tc_rsp_ecn_pkts", 1000)], 1);
        assert_eq!(readings(&marked, &Growth::default()), []);
        assert_eq!(readings(&Growth::default(), &marked), []);
        let found = readings(&marked, &growth(&[], 1));
        let text = "up to 1000 packets marked in congested switches in a measurement, good NICs 0";
        assert_eq!(found[0].described(), text);
    }
}
