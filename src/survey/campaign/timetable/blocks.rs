//! The slots of a block -> the order of each process, and the reports of the processes -> the
//! results of each slot.

use std::collections::BTreeMap;

use super::{Block, Report, Slot, Task, TaskResult};
use crate::quiet::roster::Roster;
use facts::device::FabricAddress;

/// How long the slots of a block are, and how much is under way in them.
#[derive(Clone, Copy, Debug)]
pub struct BlockTimes {
    /// Number of the block in the survey.
    pub number: u32,
    /// Length of a slot, in nanoseconds.
    pub slot_ns: u64,
    /// Bytes that a NIC that sends has under way at most; none if nobody sends.
    pub window_bytes: Option<u64>,
}

/// Returns the block of each process whose NICs take part, by its rank. When it begins is not known
/// yet. `addresses` has the address of each NIC; those in `slots` have one.
pub fn blocks(
    slots: &[Slot],
    times: BlockTimes,
    roster: &Roster,
    addresses: &[Option<FabricAddress>],
) -> BTreeMap<u32, Block> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    for (number, slot) in (0..).zip(slots) {
        for (nic, part) in slot {
            let block = blocks.entry(roster.node_of(*nic).rank);
            let block = block.or_insert_with(|| Block {
                number: times.number,
                begins_ns: 0,
                slot_ns: times.slot_ns,
                slots: slots.len() as u32,
                window_bytes: times.window_bytes,
                tasks: Vec::new(),
                addresses: BTreeMap::new(),
            });
            let known =
                part.peers().iter().filter_map(|peer| Some((*peer, addresses[peer.index()]?)));
            block.addresses.extend(known);
            block.tasks.push(Task { slot: number, nic: *nic, part: part.clone() });
        }
    }
    blocks
}

/// Returns the results of each of this number of slots.
pub fn by_slot(reports: Vec<Report>, slots: usize) -> Vec<Vec<TaskResult>> {
    let mut results: Vec<Vec<TaskResult>> = vec![Vec::new(); slots];
    for result in reports.into_iter().flat_map(|report| report.results) {
        // A report has results of its own tasks only, which are in these slots.
        results[result.slot as usize].push(result);
    }
    results
}

#[cfg(test)]
mod tests {
    use super::super::{SlotTask, TaskAnswer};
    use super::*;
    use crate::quiet::ids::{NicId, TestId};
    use crate::quiet::testing::Cluster;

    /// Returns three nodes with a NIC each. The ranks of the nodes differ from their indices.
    fn roster() -> Roster {
        let mut roster = Cluster::new([0, 0, 3, 1], &[], 0).roster;
        roster.nodes.iter_mut().zip([7, 5, 6]).for_each(|(node, rank)| node.rank = rank);
        roster
    }

    #[test]
    fn each_process_gets_its_tasks_and_the_addresses_of_their_peers() {
        let test = TestId(4);
        let send = SlotTask::Send { test, targets: vec![NicId(1), NicId(2)] };
        let answer = SlotTask::Answer { test, initiator: NicId(0) };
        let slots = [
            Slot::from([(NicId(0), send.clone()), (NicId(1), SlotTask::Watch)]),
            Slot::from([(NicId(2), answer.clone())]),
        ];
        let address = |nic| FabricAddress { nic, pid: 3 };
        let times = BlockTimes { number: 3, slot_ns: 100, window_bytes: Some(7) };
        let addresses = [10, 11, 12].map(|nic| Some(address(nic)));
        let blocks = blocks(&slots, times, &roster(), &addresses);
        let task = |slot, nic, part| vec![Task { slot, nic: NicId(nic), part }];
        let tasks: Vec<_> = blocks.iter().map(|(rank, block)| (*rank, &block.tasks)).collect();
        let expected =
            [(5, task(0, 1, SlotTask::Watch)), (6, task(1, 2, answer)), (7, task(0, 0, send))];
        assert_eq!(tasks, expected.each_ref().map(|(rank, tasks)| (*rank, tasks)));
        let sender = &blocks[&7];
        let peers = [(NicId(1), address(11)), (NicId(2), address(12))];
        assert_eq!(sender.addresses, BTreeMap::from(peers));
        assert_eq!((sender.number, sender.begins_ns, sender.slots), (3, 0, 2));
        assert_eq!((sender.slot_ns, sender.window_bytes), (100, Some(7)));
    }

    #[test]
    fn results_belong_to_their_slots() {
        let result = |slot, nic| TaskResult::new(slot, NicId(nic), TaskAnswer::Present);
        let report = |rank, results| Report {
            block: 0,
            rank,
            results,
            addresses: Vec::new(),
            beyond_ns: 0,
            clock_uncertainty_ns: None,
            load: None,
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
