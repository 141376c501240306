//! Ordered flows between two groups. Each keeps the path that it gets when it begins, so if some of
//! several parallel links are slow, the rates fall into two heaps (diagnosis.md 4.3).

use std::collections::BTreeSet;

use facts::robust::{lower_median, sorted};
use facts::severity::Severity;
use health::Finding;

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

/// Returns the slow and the fast ones of these rates; `None` if they do not fall into two heaps.
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
pub fn reading(flows: &[MeasuredFlow]) -> Option<Finding> {
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

/// Returns whether slow NICs explain the slow flows: hardly any is left without NICs that have
/// slow flows only.
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

    /// Returns the state of the reading.
    fn state(flows: &[MeasuredFlow]) -> Option<Severity> {
        reading(flows).map(|reading| reading.verdict)
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
        let found = reading(&flows(slow)).unwrap();
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
