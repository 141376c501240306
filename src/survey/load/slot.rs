//! A load slot: all its flows, what its results are counted for, what the NICs do in it, and what
//! they sent: the rates that bandwidths are made of.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Spread;
use super::spec::{Distance, Pattern, Set};
use campaign::quiet::busy::most_waited_percent;
use campaign::quiet::roster::{NicId, Pair, TestId};
use campaign::timetable::{PARTS, Slot, SlotTask, SlotTimes, TaskAnswer, TaskResult};

/// The test whose target the operations of aggressors address.
pub const AGGRESSOR_TEST: TestId = TestId(0);

/// The test of victims in the traffic class of the aggressors.
pub const VICTIM: TestId = TestId(1);

/// The test of victims in another traffic class, if the survey has one.
const VICTIM_IN_OTHER_CLASS: TestId = TestId(2);

/// What a load slot is for. Results of load slots with the same purpose belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoadMeasurement {
    /// Whether a part of the load is harmless: not counted.
    Ramp,
    Bandwidth(Pattern),
    /// The latencies of victims, without load and with the load of a pattern in turn.
    Victims(VictimKey),
}

/// What the results of victims belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VictimKey {
    /// The pattern of the aggressors.
    pub under: Pattern,
    /// Whether victims are the target of the incast.
    pub at_target: bool,
    /// How roles are dealt.
    pub spread: Spread,
    /// Whether victims measure in another traffic class.
    pub in_other_class: bool,
}

impl VictimKey {
    /// The victims beside a pattern, in its traffic class.
    pub fn new(under: Pattern, spread: Spread) -> Self {
        Self { under, at_target: false, spread, in_other_class: false }
    }
}

/// A NIC that sends to others in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFlow {
    /// The NIC that sends.
    pub source: NicId,
    /// The NICs to which it sends.
    pub peers: Vec<NicId>,
}

/// All flows of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSlot {
    pub purpose: LoadMeasurement,
    /// Number of the repetition, from 0: others have other roles.
    pub repetition: u32,
    /// Number of the load slot in its repetition, from 0. Load slots of victims come quiet, loaded,
    /// loaded, quiet.
    pub place: u32,
    /// The load; empty in a quiet load slot of victims.
    pub flows: Vec<LoadFlow>,
    /// Pairs that measure; empty without victims.
    pub victims: Vec<Pair>,
    /// Length of the slot, in nanoseconds.
    pub slot_ns: u64,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
}

impl LoadSlot {
    /// Whether it is a load slot of victims without load.
    pub fn is_quiet(&self) -> bool {
        self.flows.is_empty()
    }

    /// Leaves out flows from and to NICs that `is_known` refuses.
    pub fn retain(&mut self, is_known: impl Fn(NicId) -> bool) {
        for flow in &mut self.flows {
            flow.peers.retain(|peer| is_known(*peer));
        }
        self.flows.retain(|flow: &LoadFlow| is_known(flow.source) && !flow.peers.is_empty());
    }

    pub fn victim_test(&self) -> TestId {
        match self.purpose {
            LoadMeasurement::Victims(key) if key.in_other_class => VICTIM_IN_OTHER_CLASS,
            _ => VICTIM,
        }
    }
}

/// The name of a pattern with its variant: `bisect:system, both ways`.
pub fn pattern_name(pattern: Pattern) -> String {
    match pattern {
        Pattern::Quiet => "quiet".into(),
        Pattern::Bisect { of, both_ways } => {
            let name = match of {
                Set::All => "bisect",
                Set::Switch => "bisect:switch",
                Set::Group => "bisect:group",
                Set::System => "bisect:system",
            };
            let variant = if both_ways { ", both ways" } else { "" };
            format!("{name}{variant}")
        }
        Pattern::Shift(distance) => {
            let to = match distance {
                Distance::One => "next NIC",
                Distance::Switch => "next switch",
                Distance::Group => "next group",
                Distance::Random => "random",
            };
            format!("shift, {to}")
        }
        Pattern::AllToAll => "all2all".into(),
        Pattern::Incast(sources) => format!("incast:{sources}"),
    }
}

/// The name of the pattern of load slots with this purpose.
pub fn purpose_name(purpose: LoadMeasurement) -> String {
    match purpose {
        LoadMeasurement::Ramp => "ramp".into(),
        LoadMeasurement::Bandwidth(pattern) => pattern_name(pattern),
        LoadMeasurement::Victims(key) => under_name(key.under, key.at_target),
    }
}

/// The name of the pattern of aggressors, as victims see it: `incast-same:8` if the victims measure
/// at the target of the incast.
pub fn under_name(pattern: Pattern, at_target: bool) -> String {
    match pattern {
        Pattern::Incast(sources) if at_target => format!("incast-same:{sources}"),
        _ => pattern_name(pattern),
    }
}

/// Leaves out flows from and to NICs that `has_address` refuses, and returns what each NIC of the
/// load slot does. A target that sends itself is not watched apart.
pub fn slot(
    load_slot: &mut LoadSlot,
    is_two_sided: bool,
    has_address: impl Fn(NicId) -> bool,
) -> Slot {
    // What a NIC reports about its peers is about those that it was given.
    load_slot.retain(&has_address);
    let mut parts = Slot::new();
    let mut targets = BTreeSet::new();
    for flow in &load_slot.flows {
        targets.extend(flow.peers.iter().copied());
        parts.insert(
            flow.source,
            SlotTask::Send { test: AGGRESSOR_TEST, targets: flow.peers.clone() },
        );
    }
    let test = load_slot.victim_test();
    for pair in &load_slot.victims {
        if !pair.nics().into_iter().all(&has_address) {
            continue;
        }
        // A process that answers cannot measure at the same time.
        if is_two_sided && pair.nics().iter().any(|nic| parts.contains_key(nic)) {
            continue;
        }
        let target = pair.target;
        parts.insert(pair.initiator, SlotTask::Measure { test, target, reads_all_counters: false });
        if is_two_sided {
            parts.insert(target, SlotTask::Answer { test, initiator: pair.initiator });
        } else {
            targets.insert(target);
        }
    }
    for target in targets {
        parts.entry(target).or_insert(SlotTask::Watch);
    }
    parts
}

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
    /// The rates of a load slot. A NIC that could not send at all has rate 0.
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

    /// Each flow with its rate: a NIC sends to its peers in turn, so each of them that it reaches
    /// gets an equal part.
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

/// The bytes that a NIC sent, unless they say nothing about the fabric.
fn bytes_that_count(result: &TaskResult) -> Option<f64> {
    let bytes = match &result.answer {
        TaskAnswer::Sent { bytes, .. } => *bytes,
        TaskAnswer::Failed(_) => [0; PARTS],
        _ => return None,
    };
    let is_busy = result.waited_percent > most_waited_percent(true);
    (!is_busy && !is_late(&bytes)).then(|| bytes.iter().map(|bytes| *bytes as f64).sum())
}

/// Whether the NIC began to send after the counted time had begun. A slow NIC may have no answer in
/// one part or another, so the first part is compared with the smallest late one.
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

    fn load_slot(flows: &[(u32, &[u32])], victims: &[(u32, u32)]) -> LoadSlot {
        let flow = |(source, peers): &(u32, &[u32])| LoadFlow {
            source: NicId(*source),
            peers: peers.iter().map(|peer| NicId(*peer)).collect(),
        };
        let victim = |(initiator, target): &(u32, u32)| Pair {
            initiator: NicId(*initiator),
            target: NicId(*target),
        };
        LoadSlot {
            purpose: LoadMeasurement::Bandwidth(Pattern::AllToAll),
            repetition: 0,
            place: 0,
            flows: flows.iter().map(flow).collect(),
            victims: victims.iter().map(victim).collect(),
            slot_ns: 100,
            window_bytes: 7,
        }
    }

    /// Returns what each NIC does, where all but these NICs have an address.
    fn described(
        mut load_slot: LoadSlot,
        is_two_sided: bool,
        without: &[u32],
    ) -> Vec<(u32, String)> {
        let describe = |part: &SlotTask| match part {
            SlotTask::Send { targets, .. } => {
                let targets: Vec<u32> = targets.iter().map(|target| target.0).collect();
                format!("send {targets:?}")
            }
            SlotTask::Measure { test, target, .. } => format!("measure {} {}", test.0, target.0),
            SlotTask::Answer { test, initiator } => format!("answer {} {}", test.0, initiator.0),
            SlotTask::Watch => "watch".into(),
        };
        let slot = slot(&mut load_slot, is_two_sided, |nic| !without.contains(&nic.0));
        slot.iter().map(|(nic, part)| (nic.0, describe(part))).collect()
    }

    fn expected<const N: usize>(parts: [(u32, &str); N]) -> Vec<(u32, String)> {
        parts.map(|(nic, part)| (nic, part.to_owned())).into()
    }

    #[test]
    fn each_nic_does_one_thing_in_a_slot() {
        let load_slot = load_slot(&[(0, &[1, 2]), (1, &[0])], &[(3, 4)]);
        let parts =
            [(0, "send [1, 2]"), (1, "send [0]"), (2, "watch"), (3, "measure 1 4"), (4, "watch")];
        assert_eq!(described(load_slot, false, &[]), expected(parts));
    }

    #[test]
    fn target_of_two_sided_victims_answers() {
        let test = VICTIM.0;
        let [answer, measure] = [format!("answer {test} 1"), format!("measure {test} 0")];
        let found = described(load_slot(&[], &[(1, 0), (0, 1)]), true, &[]);
        assert_eq!(found, [(0, answer), (1, measure)]);
    }

    #[test]
    fn nics_without_address_take_no_part() {
        let load_slot = load_slot(&[(0, &[1, 2]), (1, &[3]), (2, &[1])], &[(3, 1)]);
        assert_eq!(described(load_slot, false, &[1]), expected([(0, "send [2]"), (2, "watch")]));
    }

    fn counted_slot(flows: &[(u32, &[u32])]) -> LoadSlot {
        LoadSlot { slot_ns: 250_000_000, window_bytes: 1 << 20, ..load_slot(flows, &[]) }
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
        let load_slot = counted_slot(&[(0, &[1, 2])]);
        let rates = SlotRates::of(&load_slot, &[result(0, sent([1_300_000; PARTS]), 5)]);
        let flows: Vec<_> = rates.flows().collect();
        assert_eq!(flows, [(NicId(0), NicId(1), 50e6), (NicId(0), NicId(2), 50e6)]);
    }

    #[test]
    fn bytes_belong_to_peers_that_were_reached() {
        let load_slot = counted_slot(&[(0, &[1, 2, 3]), (4, &[2])]);
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
        let load_slot = counted_slot(&[(0, &[5]), (1, &[5]), (2, &[5]), (3, &[5]), (4, &[5])]);
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
        let rates = SlotRates::of(&counted_slot(&[(0, &[5])]), &[failed]);
        assert_eq!(rates.sent[0].rate, 0.0);
    }
}
