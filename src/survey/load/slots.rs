//! A load slot -> what the NICs do in it.

use std::collections::BTreeSet;

use crate::slot::{AGGRESSOR_TEST, LoadSlot};
use campaign::quiet::ids::NicId;
use campaign::timetable::{Slot, SlotTask};

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
    use super::super::pattern::Pattern;
    use super::*;
    use crate::slot::{LoadFlow, LoadMeasurement, VICTIM};
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
