//! Rounds of pairs -> the block of each process.

use std::collections::BTreeMap;

use cluster::survey::answer::Pair;
use cluster::survey::ids::NicId;
use cluster::survey::roster::Roster;
use cluster::survey::timetable::{Block, Part, Round, Task};
use facts::device::FabricAddress;

/// The slots of some rounds: when they begin, and how long each of them is.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Number of the block.
    pub block: u32,
    /// Number of the first round in the survey.
    pub first_round: u32,
    /// When the first slot begins, on the clock of the coordinator, in nanoseconds.
    pub begins_ns: u64,
    /// Length of a slot, in nanoseconds.
    pub slot_ns: u64,
}

/// Returns the block of each process that takes part in `rounds`, by its rank. `addresses` has the
/// address of each NIC. A pair with a NIC without address is in no block; it is returned with its
/// slot.
pub fn blocks(
    rounds: &[Round],
    slots: Slots,
    roster: &Roster,
    addresses: &[Option<FabricAddress>],
) -> (BTreeMap<u32, Block>, Vec<(u32, Pair)>) {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    let mut left_out = Vec::new();
    let mut add = |nic: NicId, task: Task| {
        let block = blocks.entry(roster.node_of(nic).rank);
        let block = block.or_insert_with(|| Block {
            number: slots.block,
            begins_ns: slots.begins_ns,
            slot_ns: slots.slot_ns,
            slots: rounds.len() as u32,
            tasks: Vec::new(),
        });
        block.tasks.push(task);
    };
    for (slot, round) in (0..).zip(rounds) {
        for pair in &round.pairs {
            let [initiator, target] = pair.nics().map(|nic| addresses[nic.index()]);
            let (Some(initiator), Some(target)) = (initiator, target) else {
                left_out.push((slot, *pair));
                continue;
            };
            let task = |part, peer| Task {
                slot,
                test: round.test,
                stage: round.stage,
                round: slots.first_round + slot,
                active: round.pairs.len() as u32,
                pair: *pair,
                part,
                peer,
            };
            if pair.is_loopback() {
                add(pair.initiator, task(Part::Alone, initiator));
            } else {
                add(pair.initiator, task(Part::Initiator, target));
                add(pair.target, task(Part::Target, initiator));
            }
        }
    }
    (blocks, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::survey::answer::Stage;
    use cluster::survey::ids::{NodeId, TestId};
    use cluster::survey::roster::{Nic, Node};

    /// Returns three nodes with a NIC each. The ranks of the nodes differ from their indices.
    fn roster() -> Roster {
        let node = |rank| Node { host: format!("n{rank}"), rank, absent: None };
        let nic = |node| Nic {
            node: NodeId(node),
            device: "cxi0".into(),
            nid: Some(node),
            location: None,
            failure: None,
        };
        Roster { nodes: [7, 5, 6].map(node).into(), nics: [0, 1, 2].map(nic).into() }
    }

    #[test]
    fn gives_a_task_to_both_processes_of_a_pair() {
        let address = |nic| Some(FabricAddress { nic, pid: 3 });
        let pair = Pair { initiator: NicId(0), target: NicId(2) };
        let alone = Pair { initiator: NicId(1), target: NicId(1) };
        let round =
            |pairs: &[Pair]| Round { test: TestId(4), stage: Stage::Sweep, pairs: pairs.into() };
        let rounds = [round(&[pair]), round(&[alone])];
        let slots = Slots { block: 2, first_round: 10, begins_ns: 1_000, slot_ns: 50 };
        let addresses = [address(10), address(11), address(12)];
        let (blocks, left_out) = blocks(&rounds, slots, &roster(), &addresses);
        let tasks: Vec<_> = blocks
            .iter()
            .flat_map(|(rank, block)| {
                block
                    .tasks
                    .iter()
                    .map(|task| (*rank, task.slot, task.round, task.part, task.peer.nic))
            })
            .collect();
        assert_eq!(
            tasks,
            [
                (5, 1, 11, Part::Alone, 11),
                (6, 0, 10, Part::Target, 10),
                (7, 0, 10, Part::Initiator, 12),
            ]
        );
        assert!(blocks.values().all(|block| block.slots == 2 && block.number == 2));
        assert_eq!(left_out, []);
    }

    #[test]
    fn leaves_out_pairs_of_nics_without_address() {
        let pair = Pair { initiator: NicId(0), target: NicId(2) };
        let round = Round { test: TestId(0), stage: Stage::Sweep, pairs: vec![pair] };
        let slots = Slots { block: 0, first_round: 0, begins_ns: 0, slot_ns: 1 };
        let (blocks, left_out) = blocks(&[round], slots, &roster(), &[None; 3]);
        assert!(blocks.is_empty());
        assert_eq!(left_out, [(0, pair)]);
    }
}
