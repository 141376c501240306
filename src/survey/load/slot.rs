//! A load slot: all its flows, what its results are counted for, and what the NICs do in it.

use std::collections::BTreeSet;

use super::findings::Spread;
use super::spec::{Distance, Pattern, Set};
use campaign::quiet::answer::Pair;
use campaign::quiet::ids::{NicId, TestId};
use campaign::timetable::{Slot, SlotTask};

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
    /// Returns the victims beside a pattern, in its traffic class.
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
    /// Returns whether it is a load slot of victims without load.
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

/// Returns the name of a pattern with its variant: `bisect:system, both ways`.
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

/// Returns the name of the pattern of load slots with this purpose.
pub fn purpose_name(purpose: LoadMeasurement) -> String {
    match purpose {
        LoadMeasurement::Ramp => "ramp".into(),
        LoadMeasurement::Bandwidth(pattern) => pattern_name(pattern),
        LoadMeasurement::Victims(key) => under_name(key.under, key.at_target),
    }
}

/// Returns the name of the pattern of aggressors, as victims see it: `incast-same:8` if the victims
/// measure at the target of the incast.
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

#[cfg(test)]
mod tests {
    use super::super::spec::Pattern;
    use super::*;
    use campaign::quiet::answer::Pair;

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
}
