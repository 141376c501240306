//! Scenes under load -> the block of each process, and what the processes report -> the results of
//! each scene.

use std::collections::{BTreeMap, BTreeSet};

use super::scene::{SINK, Scene};
use super::timetable::{LoadBlock, LoadPart, LoadReport, LoadResult, LoadTask};
use crate::survey::ids::NicId;
use crate::survey::roster::Roster;
use facts::device::FabricAddress;

/// The slots of a block under load.
#[derive(Clone, Copy, Debug)]
pub struct LoadSlots {
    /// Number of the block in the survey.
    pub block: u32,
    /// When the first slot begins, on the clock of the coordinator, in nanoseconds.
    pub begins_ns: u64,
    /// Length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// Bytes that an aggressor has under way at most.
    pub window_bytes: u64,
}

/// What the NICs do in one slot. A NIC does one thing.
pub type SlotParts = BTreeMap<NicId, LoadPart>;

/// Returns the block of each process whose NICs take part, by its rank. `parts` has the parts of
/// each slot.
pub fn load_blocks(
    parts: &[SlotParts],
    slots: LoadSlots,
    roster: &Roster,
) -> BTreeMap<u32, LoadBlock> {
    let mut blocks: BTreeMap<u32, LoadBlock> = BTreeMap::new();
    for (slot, slot_parts) in (0..).zip(parts) {
        for (nic, part) in slot_parts {
            let block = blocks.entry(roster.node_of(*nic).rank);
            let block = block.or_insert_with(|| LoadBlock {
                number: slots.block,
                begins_ns: slots.begins_ns,
                slot_ns: slots.slot_ns,
                slots: parts.len() as u32,
                window_bytes: slots.window_bytes,
                tasks: Vec::new(),
            });
            block.tasks.push(LoadTask { slot, nic: *nic, part: part.clone() });
        }
    }
    blocks
}

/// Leaves out flows from and to NICs without an address, and returns what each NIC of the scene
/// does. A target that sends itself is not watched apart.
pub fn parts(
    scene: &mut Scene,
    is_two_sided: bool,
    addresses: &[Option<FabricAddress>],
) -> SlotParts {
    let address = |nic: &NicId| addresses[nic.index()];
    // What a NIC reports about its peers is about those that it was given.
    scene.retain(|nic| address(&nic).is_some());
    let mut parts = BTreeMap::new();
    let mut targets = BTreeSet::new();
    for flow in &scene.flows {
        let peers = flow.peers.iter().filter_map(address).collect();
        targets.extend(flow.peers.iter().copied());
        parts.insert(flow.source, LoadPart::Send { test: SINK, peers });
    }
    let test = scene.victim_test();
    for pair in &scene.victims {
        let (Some(own), Some(peer)) = (address(&pair.initiator), address(&pair.target)) else {
            continue;
        };
        // A process that answers cannot measure at the same time.
        if is_two_sided && pair.nics().iter().any(|nic| parts.contains_key(nic)) {
            continue;
        }
        parts.insert(pair.initiator, LoadPart::Measure { test, peer });
        if is_two_sided {
            parts.insert(pair.target, LoadPart::Answer { test, peer: own });
        } else {
            targets.insert(pair.target);
        }
    }
    for target in targets {
        parts.entry(target).or_insert(LoadPart::Watch);
    }
    parts
}

pub fn by_slot(reports: Vec<LoadReport>, scenes: usize) -> Vec<Vec<LoadResult>> {
    let mut results: Vec<Vec<LoadResult>> = vec![Vec::new(); scenes];
    for result in reports.into_iter().flat_map(|report| report.results) {
        // A report has results of its own tasks only, which are in these slots.
        results[result.slot as usize].push(result);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;
    use super::super::scene::{Flow, Purpose, VICTIM};
    use super::super::timetable::LoadAnswer;
    use super::*;
    use crate::survey::answer::Pair;
    use crate::survey::testing::Cluster;

    fn addresses(count: u32) -> Vec<Option<FabricAddress>> {
        (0..count).map(|nic| Some(FabricAddress { nic, pid: 1 })).collect()
    }

    fn scene(flows: &[(u32, &[u32])], victims: &[(u32, u32)]) -> Scene {
        let flow = |(source, peers): &(u32, &[u32])| Flow {
            source: NicId(*source),
            peers: peers.iter().map(|peer| NicId(*peer)).collect(),
        };
        let victim = |(initiator, target): &(u32, u32)| Pair {
            initiator: NicId(*initiator),
            target: NicId(*target),
        };
        Scene {
            purpose: Purpose::Bandwidth(Pattern::AllToAll),
            repetition: 0,
            place: 0,
            flows: flows.iter().map(flow).collect(),
            victims: victims.iter().map(victim).collect(),
            slot_ns: 100,
            window_bytes: 7,
        }
    }

    fn blocks(
        scenes: &[Scene],
        is_two_sided: bool,
        addresses: &[Option<FabricAddress>],
    ) -> BTreeMap<u32, LoadBlock> {
        let scene_parts = |scene: &Scene| parts(&mut scene.clone(), is_two_sided, addresses);
        let parts: Vec<SlotParts> = scenes.iter().map(scene_parts).collect();
        let slots = LoadSlots { block: 3, begins_ns: 1000, slot_ns: 100, window_bytes: 7 };
        let cluster = Cluster::new([0, 0, addresses.len() as u16, 1], &[], 0);
        load_blocks(&parts, slots, &cluster.roster)
    }

    /// Returns the parts by rank, the NICs of peers, and slots.
    fn described(blocks: &BTreeMap<u32, LoadBlock>) -> Vec<(u32, u32, String)> {
        let describe = |part: &LoadPart| match part {
            LoadPart::Send { peers, .. } => {
                let peers: Vec<u32> = peers.iter().map(|peer| peer.nic).collect();
                format!("send {peers:?}")
            }
            LoadPart::Measure { test, peer } => format!("measure {} {}", test.0, peer.nic),
            LoadPart::Answer { test, peer } => format!("answer {} {}", test.0, peer.nic),
            LoadPart::Watch => "watch".into(),
        };
        let block_pairs = |(rank, block): (&u32, &LoadBlock)| {
            let tasks = block.tasks.iter();
            let task_key = |task: &LoadTask| (*rank, task.slot, describe(&task.part));
            tasks.map(task_key).collect::<Vec<_>>()
        };
        blocks.iter().flat_map(block_pairs).collect()
    }

    #[test]
    fn each_nic_does_one_thing_in_a_slot() {
        let scenes = [scene(&[(0, &[1, 2]), (1, &[0])], &[(3, 4)])];
        let found = blocks(&scenes, false, &addresses(5));
        let expected = [
            (0, 0, "send [1, 2]"),
            (1, 0, "send [0]"),
            (2, 0, "watch"),
            (3, 0, "measure 1 4"),
            (4, 0, "watch"),
        ];
        assert_eq!(
            described(&found),
            expected.map(|(rank, slot, part)| (rank, slot, part.to_owned()))
        );
        let block = &found[&0];
        assert_eq!((block.number, block.begins_ns, block.slots), (3, 1000, 1));
        assert_eq!((block.slot_ns, block.window_bytes), (100, 7));
    }

    #[test]
    fn target_of_two_sided_victims_answers() {
        let scenes = [scene(&[], &[]), scene(&[], &[(1, 0), (0, 1)])];
        let found = blocks(&scenes, true, &addresses(2));
        let test = VICTIM.0;
        let expected = [(0, 1, format!("answer {test} 1")), (1, 1, format!("measure {test} 0"))];
        assert_eq!(described(&found), expected);
    }

    #[test]
    fn nics_without_address_take_no_part() {
        let mut addresses = addresses(4);
        addresses[1] = None;
        let scenes = [scene(&[(0, &[1, 2]), (1, &[3]), (2, &[1])], &[(3, 1)])];
        let found = blocks(&scenes, false, &addresses);
        let expected = [(0, 0, "send [2]"), (2, 0, "watch")];
        assert_eq!(
            described(&found),
            expected.map(|(rank, slot, part)| (rank, slot, part.to_owned()))
        );
    }

    #[test]
    fn results_belong_to_the_scene_of_their_slot() {
        let result = |slot, nic| LoadResult {
            slot,
            nic: NicId(nic),
            answer: LoadAnswer::Present,
            waited_percent: 0,
            counters: Vec::new(),
        };
        let report = |rank, results| LoadReport {
            block: 0,
            rank,
            results,
            addresses: Vec::new(),
            clock_uncertainty_ns: None,
        };
        let reports =
            vec![report(0, vec![result(1, 0), result(0, 0)]), report(1, vec![result(1, 1)])];
        let found = by_slot(reports, 3);
        let nics: Vec<Vec<u32>> = found
            .iter()
            .map(|results| results.iter().map(|result| result.nic.0).collect())
            .collect();
        assert_eq!(nics, [vec![0], vec![0, 1], vec![]]);
    }
}
