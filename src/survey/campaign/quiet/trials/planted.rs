//! Clusters with one fault.

use super::super::findings::{Direction, Unit};
use super::super::ids::{NicId, NodeId};
use super::super::testing::{Effect, Fault, pair};

/// A cluster with a fault, and the pairs of its survey.
pub struct PlantedSurvey {
    pub name: &'static str,
    pub shape: [u16; 4],
    pub pairs: &'static str,
    pub fault: Fault,
}

pub fn plans() -> Vec<PlantedSurvey> {
    use Direction::{Both, Initiator, Target};
    let slow = |unit, direction| Fault::slow(unit, direction, 2.0);
    let nic = Unit::Nic(NicId(1));
    let fails = Fault { unit: nic, direction: Both, effect: Effect::Fails };
    let plan = |name, shape, pairs, fault| PlantedSurvey { name, shape, pairs, fault };
    let small = [0, 0, 4, 1];
    let racks = [4, 4, 8, 1];
    let (from, to) = (3, 5);
    let path = Unit::Path(pair(from, to));
    vec![
        plan("nic", small, "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 5, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 6, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 7, 1], "random:4", slow(nic, Both)),
        plan("nic", [0, 0, 8, 1], "random:3", slow(nic, Both)),
        plan("nic", racks, "random:4", slow(nic, Both)),
        plan("nic", racks, "halves", slow(nic, Both)),
        plan("nic as initiator", [0, 0, 4, 1], "random:4", slow(nic, Initiator)),
        plan("nic as initiator", [0, 0, 8, 1], "random:4", slow(nic, Initiator)),
        plan("nic as initiator", racks, "random:4", slow(nic, Initiator)),
        plan("nic as target", [0, 0, 8, 1], "random:4", slow(nic, Target)),
        plan("nic as target", racks, "random:4", slow(nic, Target)),
        plan("failing nic", small, "random:4", fails),
        plan("failing nic", [0, 0, 8, 1], "random:4", fails),
        plan("failing nic", racks, "random:4", fails),
        plan("one nic of four", [0, 0, 8, 4], "random:4", slow(nic, Both)),
        plan("node", [0, 0, 8, 2], "random:4", slow(Unit::Node(NodeId(2)), Both)),
        plan("node", [2, 2, 4, 4], "random:4", slow(Unit::Node(NodeId(2)), Both)),
        plan("switch", racks, "random:4", slow(Unit::Switch { group: 1, switch: 2 }, Both)),
        plan(
            "switch",
            racks,
            "within-switch,switches",
            slow(Unit::Switch { group: 1, switch: 2 }, Both),
        ),
        plan("group", [6, 2, 8, 1], "random:4", slow(Unit::Group(3), Both)),
        plan("group pair", [4, 2, 8, 1], "random:4", slow(Unit::GroupPair(1, 3), Both)),
        plan("group pair", [5, 2, 8, 1], "groups", slow(Unit::GroupPair(1, 3), Both)),
        plan("path", [0, 0, 8, 1], "all", slow(path, Both)),
    ]
}

/// Returns clusters whose faults hardly change a median: counters, tails and failures show them.
pub fn signs() -> Vec<PlantedSurvey> {
    let nic = Unit::Nic(NicId(3));
    let switch = Unit::Switch { group: 1, switch: 0 };
    let links = Unit::GroupPair(0, 2);
    let groups = ([3, 2, 3, 1], "all");
    let shapes = [([0, 0, 5, 1], "random:4"), ([0, 0, 24, 1], "random:4"), groups];
    let nic_faults = [
        ("nic that damages packets", Effect::Damages(60.0)),
        ("nic that loses few packets", Effect::Resends(4.0)),
        ("nic that sends packets again", Effect::Resends(20.0)),
        ("nic that delays some", Effect::DelaysSome(3.0)),
        ("nic with tails", Effect::HasTail),
        ("nic that fails now and then", Effect::Loses(0.3)),
    ];
    let larger_faults = [
        ("switch that damages packets", switch, Effect::Damages(60.0)),
        ("switch that fails", switch, Effect::Fails),
        ("links with tails", links, Effect::HasTail),
        ("links that fail", links, Effect::Fails),
    ];
    let plan = |name, (shape, pairs), unit, effect| PlantedSurvey {
        name,
        shape,
        pairs,
        fault: Fault { unit, direction: Direction::Both, effect },
    };
    let larger = larger_faults.map(|(name, unit, effect)| plan(name, groups, unit, effect));
    let nics = shapes
        .into_iter()
        .flat_map(|shape| nic_faults.map(|(name, effect)| plan(name, shape, nic, effect)));
    nics.chain(larger).collect()
}
