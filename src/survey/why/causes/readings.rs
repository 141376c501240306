//! Readings of measurements that prove causes: counters that grow on a culprit while good NICs are
//! quiet (diagnosis.md 2), and ordered flows between two groups (diagnosis.md 4.3). Each flow keeps
//! the path that it gets when it begins, so if some of several parallel links are slow, the rates
//! fall into two heaps.

use std::collections::{BTreeMap, BTreeSet};

use facts::robust::{lower_median, sorted};
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

const COUNTERS: &[CounterItem] = &[
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

    /// The growth of an item; `None` without measurements.
    fn of(&self, item: &CounterItem) -> Option<u64> {
        let most = self.by_code.get(item.code).copied();
        self.has_measured.then(|| most.unwrap_or_default())
    }
}

/// The items that have grown far more on the culprit than on good NICs.
pub fn counter_readings(own: &Growth, others: &Growth) -> Vec<Finding> {
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

/// Code of the reading about heaps.
pub const FLOW_HEAPS: &str = "flow-heaps";

/// Fewest flows that say something.
const LEAST: usize = 8;

/// Fewest flows of a heap, and how many times as fast as each slow flow each fast one is
/// (diagnosis.md 4.3).
const LEAST_OF_HEAP: usize = 2;
const APART: f64 = 1.5;

/// How often slow and fast flows must take turns in time: what is slow for a while has another
/// cause than a link.
const LEAST_TURNS: usize = 3;

/// A flow, of those that were measured one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredFlow {
    /// Number of the NIC that sends.
    pub initiator: u32,
    /// Number of the NIC that receives.
    pub target: u32,
    /// Bytes per second.
    pub rate: f64,
}

/// The slow and the fast ones of these rates; `None` if they do not fall into two heaps.
pub fn heaps(rates: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
    let sorted = sorted(rates);
    let last = sorted.len().checked_sub(LEAST_OF_HEAP)?;
    let gap = |at: &usize| sorted[*at] / sorted[*at - 1];
    let widest = (LEAST_OF_HEAP..=last).max_by(|one, other| gap(one).total_cmp(&gap(other)))?;
    (gap(&widest) > APART).then(|| {
        let (slow, fast) = sorted.split_at(widest);
        (slow.to_vec(), fast.to_vec())
    })
}

/// Returns what flows between two groups say, in the order in which they were measured; `None` if
/// they say nothing about links: too few of them, heaps of a slow NIC, or of a slow moment.
pub fn flow_reading(flows: &[MeasuredFlow]) -> Option<Finding> {
    if flows.len() < LEAST {
        return None;
    }
    let rates: Vec<f64> = flows.iter().map(|flow| flow.rate).collect();
    let Some((slow, fast)) = heaps(&rates) else {
        let text = format!("{} ordered flows are about equally fast", flows.len());
        return Some(finding(Severity::Good, "alike".into(), text));
    };
    let limit = fast[0];
    let is_slow = |flow: &MeasuredFlow| flow.rate < limit;
    let turns = flows.windows(2).filter(|two| is_slow(&two[0]) != is_slow(&two[1]));
    if turns.count() < LEAST_TURNS || is_of_nics(flows, is_slow) {
        return None;
    }
    let value = format!("{} of {}", slow.len(), flows.len());
    let text = format!(
        "{value} ordered flows are {:.1} times as slow as the others",
        lower_median(&fast)? / lower_median(&slow)?
    );
    Some(finding(Severity::Suspect, value, text))
}

/// Whether slow NICs explain the slow flows: hardly any is left without NICs that have slow flows
/// only.
fn is_of_nics(flows: &[MeasuredFlow], is_slow: impl Fn(&MeasuredFlow) -> bool) -> bool {
    let ends = |flow: &MeasuredFlow| [(0, flow.initiator), (1, flow.target)];
    let fast = flows.iter().filter(|flow| !is_slow(flow));
    let good: BTreeSet<(u8, u32)> = fast.flat_map(ends).collect();
    let is_good = |flow: &&MeasuredFlow| ends(flow).iter().all(|end| good.contains(end));
    let left = flows.iter().filter(|flow| is_slow(flow)).filter(is_good);
    left.count() < LEAST_OF_HEAP
}

fn finding(verdict: Severity, value: String, text: String) -> Finding {
    Finding {
        value: Some(value),
        verdict,
        sentence: Some(text),
        ..Finding::named(FLOW_HEAPS, "flows between the groups")
    }
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

    /// The codes of what these counters say beside these of good NICs.
    fn codes(own: &[(&str, u64)], others: &[(&str, u64)]) -> Vec<String> {
        let found = counter_readings(&growth(own, 3), &growth(others, 5));
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
        assert_eq!(counter_readings(&own, &growth(&[], 1))[0].value.as_deref(), Some("60"));
    }

    #[test]
    fn nothing_is_known_without_measurements_of_both() {
        let marked = growth(&[("ixe_tc_rsp_ecn_pkts", 1000)], 1);
        assert_eq!(counter_readings(&marked, &Growth::default()), []);
        assert_eq!(counter_readings(&Growth::default(), &marked), []);
        let found = counter_readings(&marked, &growth(&[], 1));
        let text = "up to 1000 packets marked in congested switches in a measurement, good NICs 0";
        assert_eq!(found[0].described(), text);
    }

    /// Returns 16 flows from four NICs to four others, whose rates `rate` returns by their place in
    /// time and their ends.
    fn flows(rate: impl Fn(u32, u32, u32) -> f64) -> Vec<MeasuredFlow> {
        let flow = |place: u32| {
            let (initiator, target) = (place % 4, (place + place / 4) % 4);
            let rate = rate(place, initiator, target);
            MeasuredFlow { initiator, target, rate }
        };
        (0..16).map(flow).collect()
    }

    /// The state of the reading.
    fn state(flows: &[MeasuredFlow]) -> Option<Severity> {
        flow_reading(flows).map(|reading| reading.verdict)
    }

    /// Flows that take the slow one of two links.
    const ON_SLOW_LINK: [u32; 7] = [1, 4, 5, 8, 11, 14, 15];

    #[test]
    fn heaps_are_apart_and_have_two_flows_each() {
        let pair = |rates: &[f64]| heaps(rates).map(|(slow, fast)| (slow.len(), fast.len()));
        assert_eq!(pair(&[25.0, 10.0, 24.0, 10.1, 25.2]), Some((2, 3)));
        assert_eq!(pair(&[25.0, 16.5, 24.9, 16.4]), Some((2, 2)));
        assert_eq!(pair(&[25.0, 16.7, 25.1, 16.8]), None);
        // One slow flow is no heap, and what lies between fills the gap.
        assert_eq!(pair(&[25.0, 5.0, 24.0, 25.2]), None);
        assert_eq!(pair(&[25.0, 5.0, 24.0, 25.2, 24.5, 5.1]), Some((2, 4)));
        assert_eq!(pair(&[25.0, 24.0, 18.0, 13.0, 10.0, 10.1]), None);
        assert_eq!([pair(&[]), pair(&[1.0]), pair(&[1.0, 9.0, 9.0])], [None; 3]);
    }

    #[test]
    fn flows_over_slow_links_are_a_heap() {
        let slow = |place, _, _| {
            let factor = if ON_SLOW_LINK.contains(&place) { 0.4 } else { 1.0 };
            factor * (25.0 - 0.01 * f64::from(place))
        };
        let found = flow_reading(&flows(slow)).unwrap();
        assert_eq!(found.verdict, Severity::Suspect);
        let text = "7 of 16 ordered flows are 2.5 times as slow as the others";
        assert_eq!(found.described(), text);
    }

    #[test]
    fn equal_flows_are_good_however_slow() {
        let equal = flows(|_, _, _| 10.0);
        assert_eq!(state(&equal), Some(Severity::Good));
        assert_eq!([state(&equal[..8]), state(&equal[..7])], [Some(Severity::Good), None]);
        let varied = |place, _, _| 10.0 + f64::from(place % 5);
        assert_eq!(state(&flows(varied)), Some(Severity::Good));
    }

    #[test]
    fn slow_nics_are_no_links() {
        let severity = |is_slow: &dyn Fn(u32, u32) -> bool| {
            let rate = |_, initiator, target| {
                if is_slow(initiator, target) { 10.0 } else { 25.0 }
            };
            state(&flows(rate))
        };
        assert_eq!(severity(&|initiator, _| initiator == 2), None);
        assert_eq!(severity(&|_, target| target == 1), None);
        assert_eq!(severity(&|initiator, target| initiator == 2 || target == 1), None);
    }

    #[test]
    fn slow_moments_are_no_links() {
        let for_a_while = |place, _, _| {
            if (5..11).contains(&place) { 10.0 } else { 25.0 }
        };
        assert_eq!(state(&flows(for_a_while)), None);
    }
}
