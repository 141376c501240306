//! Fabrics and results for tests.

use std::collections::HashSet;

use super::conductor::{Cap, LoadConductor, LoadSetup, LoadSizes};
use super::roles::{LocatedNic, placed};
use crate::results::ResultFacts;
use crate::slot::LoadSlot;
use crate::spec::parse;
use campaign::quiet::findings::Test;
use campaign::quiet::ids::{NicId, NodeId};
use campaign::quiet::roster::Roster;
use campaign::quiet::testing::Cluster;
use campaign::timetable::histogram::Histogram;
use campaign::timetable::{PARTS, SlotTimes, TaskAnswer, TaskResult};

/// Returns a fabric of groups, switches in each, nodes at each switch, and NICs of each node.
pub fn fabric(shape: [u16; 4]) -> Roster {
    Cluster::new(shape, &[], 1).roster
}

/// Returns a fabric whose nodes have a NIC at each switch of their group.
pub fn fabric_of_wide_nodes(groups: u16, switches: u16, nodes: u16) -> Roster {
    let mut roster = fabric([groups, switches, nodes, 1]);
    for (index, nic) in roster.nics.iter_mut().enumerate() {
        let nodes = usize::from(nodes);
        let group = index / (nodes * usize::from(switches));
        nic.node = NodeId((group * nodes + index % nodes) as u32);
    }
    roster
}

/// Returns the fabric of the vectors of load.md 5: four groups of two switches with two NICs.
pub fn d4() -> Roster {
    fabric([4, 2, 2, 1])
}

pub fn all(roster: &Roster) -> Vec<NicId> {
    roster.nic_ids().collect()
}

pub fn all_placed(roster: &Roster) -> Vec<LocatedNic> {
    placed(roster, &all(roster))
}

/// Returns the settings of software NICs of 1 GB/s.
pub fn setup(wanted: &str) -> LoadSetup {
    LoadSetup {
        wanted: parse(wanted).unwrap(),
        sizes: LoadSizes { size_bytes: 65_536, window_bytes: 1 << 20 },
        victims_percent: super::roles::VICTIMS_PERCENT,
        cap: Cap::Default,
        nic_rate: Some(1e9),
        facts: ResultFacts {
            theory: None,
            is_partial: false,
            is_software: true,
            victim_test: Test { tool: "write-lat".into(), size_bytes: 8, of_bandwidth: false },
            other_class: None,
            seed: 7,
        },
    }
}

/// Returns the load of a fabric.
pub fn conductor(roster: &Roster, setup: LoadSetup) -> LoadConductor {
    LoadConductor::new(roster, all(roster), setup).unwrap()
}

/// Returns what the NICs of a load slot report on a good fabric. `rate` is the bandwidth of a
/// source.
pub fn results(load_slot: &LoadSlot, slot: u32, rate: impl Fn(NicId) -> f64) -> Vec<TaskResult> {
    let part_s = SlotTimes::from_slot(load_slot.slot_ns).counted() as f64 / 1e9 / PARTS as f64;
    let result = |nic, answer| TaskResult::new(slot, nic, answer);
    let mut results = Vec::new();
    let mut targets: Vec<NicId> = load_slot.victims.iter().map(|pair| pair.target).collect();
    for flow in &load_slot.flows {
        let bytes = [(rate(flow.source) * part_s) as u64; PARTS];
        let unreached = Vec::new();
        results.push(result(flow.source, TaskAnswer::Sent { bytes, unreached }));
        targets.extend(&flow.peers);
    }
    for pair in &load_slot.victims {
        let mut latencies = Histogram::default();
        latencies.add(2000, 5000);
        latencies.add(2500, 100);
        results.push(result(pair.initiator, TaskAnswer::Latencies(latencies)));
    }
    // A NIC that sends and receives has one result.
    let mut seen: HashSet<NicId> = results.iter().map(|result| result.nic).collect();
    targets.retain(|nic| seen.insert(*nic));
    let watched = targets.into_iter().map(|nic| result(nic, TaskAnswer::Present));
    results.extend(watched);
    results
}

/// The pairs of `bisect:system` in vector 9 of load.md.
pub const VECTOR_9: [(u32, u32); 8] =
    [(0, 8), (1, 13), (2, 10), (3, 15), (4, 12), (5, 9), (6, 14), (7, 11)];
