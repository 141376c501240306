//! What NICs sent under load, slot by slot: the results that bandwidths are made of.

use std::collections::BTreeMap;

use crate::slot::{LoadFlow, LoadSlot};
use campaign::quiet::busy::most_waited_percent;
use campaign::quiet::ids::NicId;
use campaign::timetable::{PARTS, SlotTimes, TaskAnswer, TaskResult};

/// The first part of the counted time has at least this part of the bytes of each late part, if
/// the NIC began in time.
const LEAST_FIRST: f64 = 0.5;

/// What one NIC sent in a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRate {
    pub source: NicId,
    /// The NICs to which it sent in turn, without those that it did not reach.
    pub peers: Vec<NicId>,
    /// Bytes per second, to all of them together.
    pub rate: f64,
}

/// What all NICs sent in a slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotRates {
    /// The NICs whose results count.
    pub sent: Vec<SentRate>,
    /// Source and target of each flow of which an operation failed, although both took part.
    pub unreached: Vec<(NicId, NicId)>,
    /// The flows without a result that counts, because of busy CPUs, a late start or a lost
    /// report. They may have loaded the fabric.
    pub unjudged: Vec<LoadFlow>,
}

impl SlotRates {
    /// Returns the rates of a load slot. A NIC that could not send at all has rate 0.
    pub fn of(load_slot: &LoadSlot, results: &[TaskResult]) -> Self {
        let mut rates = Self::default();
        let counted_s = SlotTimes::from_slot(load_slot.slot_ns).counted() as f64 / 1e9;
        let nic_results: BTreeMap<NicId, &TaskResult> =
            results.iter().map(|result| (result.nic, result)).collect();
        let takes_part = |nic: &NicId| {
            let answer = nic_results.get(nic).map(|result| &result.answer);
            !matches!(answer, None | Some(TaskAnswer::Untested(_)))
        };
        for flow in load_slot.flows.iter().filter(|flow| !flow.peers.is_empty()) {
            let Some(result) = nic_results.get(&flow.source) else {
                rates.unjudged.push(flow.clone());
                continue;
            };
            let is_reached = |place: u32| match &result.answer {
                TaskAnswer::Sent { unreached, .. } => !unreached.contains(&place),
                _ => true,
            };
            let peers = (0..).zip(&flow.peers);
            let (reached, unreached): (Vec<_>, Vec<_>) =
                peers.partition(|(place, _)| is_reached(*place));
            let unreached = unreached.into_iter().map(|(_, peer)| *peer);
            let unreached = unreached.filter(takes_part).map(|peer| (flow.source, peer));
            rates.unreached.extend(unreached);
            match bytes_that_count(result) {
                Some(bytes) => rates.sent.push(SentRate {
                    source: flow.source,
                    peers: reached.into_iter().map(|(_, peer)| *peer).collect(),
                    rate: bytes / counted_s,
                }),
                None => rates.unjudged.push(flow.clone()),
            }
        }
        rates
    }

    /// Leaves out the NICs whose rate is above `most`, which cannot be true.
    pub fn leave_out_above(&mut self, most: f64, load_slot: &LoadSlot) {
        let unjudged = &mut self.unjudged;
        self.sent.retain(|sent| {
            let is_possible = sent.rate <= most;
            if !is_possible {
                let flows = load_slot.flows.iter();
                unjudged.extend(flows.filter(|flow| flow.source == sent.source).cloned());
            }
            is_possible
        });
    }

    /// Returns each flow with its rate: a NIC sends to its peers in turn, so each of them that it
    /// reaches gets an equal part.
    pub fn flows(&self) -> impl Iterator<Item = (NicId, NicId, f64)> {
        let reached = self.sent.iter().flat_map(|rate| {
            let part = rate.rate / rate.peers.len() as f64;
            rate.peers.iter().map(move |peer| (rate.source, *peer, part))
        });
        let unreached = self.unreached.iter();
        reached.chain(unreached.map(|(source, target)| (*source, *target, 0.0)))
    }

    /// Returns source and target of each flow whose rate is not known.
    pub fn unknown_flows(&self) -> impl Iterator<Item = (NicId, NicId)> {
        self.unjudged.iter().flat_map(|flow| flow.peers.iter().map(|peer| (flow.source, *peer)))
    }
}

/// Returns the bytes that a NIC sent, unless they say nothing about the fabric.
fn bytes_that_count(result: &TaskResult) -> Option<f64> {
    let bytes = match &result.answer {
        TaskAnswer::Sent { bytes, .. } => *bytes,
        TaskAnswer::Failed(_) => [0; PARTS],
        _ => return None,
    };
    let is_busy = result.waited_percent > most_waited_percent(true);
    (!is_busy && !is_late(&bytes)).then(|| bytes.iter().map(|bytes| *bytes as f64).sum())
}

/// Returns whether the NIC began to send after the counted time had begun. A slow NIC may have no
/// answer in one part or another, so the first part is compared with the smallest late one.
fn is_late(bytes: &[u64; PARTS]) -> bool {
    let late_parts = &bytes[PARTS / 2..];
    let least = late_parts.iter().copied().min().unwrap_or(0);
    (bytes[0] as f64) < LEAST_FIRST * least as f64
}

#[cfg(test)]
mod tests {
    use super::super::spec::Pattern;
    use super::*;
    use crate::slot::LoadMeasurement;
    use campaign::quiet::answer::Untested;

    fn load_slot(flows: &[(u32, &[u32])]) -> LoadSlot {
        let flow = |(source, peers): &(u32, &[u32])| LoadFlow {
            source: NicId(*source),
            peers: peers.iter().copied().map(NicId).collect(),
        };
        LoadSlot {
            purpose: LoadMeasurement::Bandwidth(Pattern::AllToAll),
            repetition: 0,
            place: 0,
            flows: flows.iter().map(flow).collect(),
            victims: Vec::new(),
            slot_ns: 250_000_000,
            window_bytes: 1 << 20,
        }
    }

    fn result(nic: u32, answer: TaskAnswer, waited_percent: u8) -> TaskResult {
        TaskResult { waited_percent, ..TaskResult::new(0, NicId(nic), answer) }
    }

    fn sent(bytes: [u64; PARTS]) -> TaskAnswer {
        let unreached = Vec::new();
        TaskAnswer::Sent { bytes, unreached }
    }

    #[test]
    fn bytes_belong_to_peers_in_equal_parts() {
        let load_slot = load_slot(&[(0, &[1, 2])]);
        let rates = SlotRates::of(&load_slot, &[result(0, sent([1_300_000; PARTS]), 5)]);
        let flows: Vec<_> = rates.flows().collect();
        assert_eq!(flows, [(NicId(0), NicId(1), 50e6), (NicId(0), NicId(2), 50e6)]);
    }

    #[test]
    fn bytes_belong_to_peers_that_were_reached() {
        let load_slot = load_slot(&[(0, &[1, 2, 3]), (4, &[2])]);
        let without = |unreached: &[u32]| TaskAnswer::Sent {
            bytes: [1_300_000; PARTS],
            unreached: unreached.to_vec(),
        };
        // The process of NIC 3 was late: its target may have been closed.
        let rates = SlotRates::of(
            &load_slot,
            &[
                result(0, without(&[1, 2]), 0),
                result(2, TaskAnswer::Present, 0),
                result(3, TaskAnswer::Untested(Untested::Late), 0),
                result(4, without(&[0]), 90),
            ],
        );
        let flows: Vec<_> = rates.flows().collect();
        let unreached = [(NicId(0), NicId(2)), (NicId(4), NicId(2))];
        let [first, second] = unreached.map(|(source, target)| (source, target, 0.0));
        assert_eq!(flows, [(NicId(0), NicId(1), 100e6), first, second]);
        assert_eq!(rates.unreached, unreached);
        assert_eq!(rates.unjudged.len(), 1);
    }

    #[test]
    fn results_that_say_nothing_are_left_out() {
        let load_slot = load_slot(&[(0, &[5]), (1, &[5]), (2, &[5]), (3, &[5]), (4, &[5])]);
        let mut late = [1000; PARTS];
        late[0] = 499;
        let mut uneven = [1000; PARTS];
        (uneven[0], uneven[7]) = (0, 0);
        let results = [
            result(0, sent([1000; PARTS]), 6),
            result(1, sent(late), 0),
            result(2, sent(uneven), 0),
            result(3, TaskAnswer::Untested(Untested::Late), 0),
        ];
        let rates = SlotRates::of(&load_slot, &results);
        let sources: Vec<u32> = rates.sent.iter().map(|rate| rate.source.0).collect();
        assert_eq!(sources, [2]);
        let unknown: Vec<u32> = rates.unknown_flows().map(|(source, _)| source.0).collect();
        assert_eq!(unknown, [0, 1, 3, 4]);
    }

    #[test]
    fn nic_that_cannot_send_has_rate_zero() {
        let failed = result(0, TaskAnswer::Failed("no route".into()), 0);
        let rates = SlotRates::of(&load_slot(&[(0, &[5])]), &[failed]);
        assert_eq!(rates.sent[0].rate, 0.0);
    }
}
