//! Dragonflies with one slow part: packets pass switches and cables, so the part also slows pairs
//! of NICs that are not at it.

use fastrand::Rng;

use super::super::answer::Pair;
use super::super::findings::{Direction, Unit};
use super::super::ids::NicId;
use super::super::roster::Roster;
use super::super::testing::Fault;
use crew::location::Location;

/// What is slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Planted {
    /// A NIC as target.
    Receiver(NicId),
    /// A switch: all of its ports and cables.
    Switch(u16, u16),
    /// All cables of a group to others.
    Group(u16),
    /// The cables between two groups.
    Links(u16, u16),
    /// The same in the direction from the first group to the second one.
    OneWay(u16, u16),
}

/// A group and a switch of it.
type Switch = (u16, u16);

/// A dragonfly with one cable between each two groups.
#[derive(Clone, Copy, Debug)]
pub struct ModelDragonfly {
    pub groups: u16,
    pub switches: u16,
}

impl ModelDragonfly {
    /// Returns the switch of group `from` at which its cable to group `to` ends.
    fn gateway(self, from: u16, to: u16) -> Switch {
        let distance = (to + self.groups - from) % self.groups;
        (from, (distance - 1) % self.switches)
    }

    /// Returns the switches on the shortest path.
    fn path(self, from: Switch, to: Switch) -> Vec<Switch> {
        let mut path = vec![from];
        if from.0 != to.0 {
            path.extend([self.gateway(from.0, to.0), self.gateway(to.0, from.0)]);
        }
        path.push(to);
        path.dedup();
        path
    }

    /// Returns whether a pair passes what is slow.
    pub fn is_slow(self, planted: Planted, pair: Pair, roster: &Roster) -> bool {
        let place = |nic: NicId| {
            let Location { group, switch, .. } = roster.location(nic).expect("a location");
            (group, switch)
        };
        let [from, to] = pair.nics().map(place);
        match planted {
            Planted::Receiver(nic) => pair.target == nic,
            Planted::Switch(group, switch) => self.path(from, to).contains(&(group, switch)),
            Planted::Group(group) => from.0 != to.0 && (from.0 == group || to.0 == group),
            Planted::Links(one, other) => [(one, other), (other, one)].contains(&(from.0, to.0)),
            Planted::OneWay(one, other) => (one, other) == (from.0, to.0),
        }
    }

    /// Returns the slow pairs as faults.
    pub fn faults(self, planted: Planted, factor: f64, roster: &Roster) -> Vec<Fault> {
        let nics = || roster.nic_ids();
        let pairs =
            nics().flat_map(|initiator| nics().map(move |target| Pair { initiator, target }));
        let slow = pairs.filter(|pair| self.is_slow(planted, *pair, roster));
        slow.map(|pair| Fault::slow(Unit::Path(pair), Direction::Initiator, factor)).collect()
    }
}

/// Surveys of one kind of fault.
pub struct FaultTrial {
    pub name: &'static str,
    pub shapes: &'static [[u16; 4]],
    pub plant: fn(&mut Rng, [u16; 4]) -> (Planted, Unit, Direction),
    /// Surveys of 100 that must name the fault and nothing else, with 4 random partners of each
    /// NIC, with 8, and with all pairs.
    pub right: [usize; 3],
}

/// Dragonflies in which a switch is a part of its own, and slows less than half of all pairs.
const SWITCHES: &[[u16; 4]] = &[[4, 2, 4, 1], [5, 2, 3, 1], [3, 3, 3, 1]];

/// The same with two NICs at each switch.
const SWITCHES_OF_TWO: &[[u16; 4]] = &[[6, 2, 2, 1], [4, 3, 2, 1], [5, 3, 2, 1]];

/// Dragonflies of which one group has less than half of the links.
const GROUPS: &[[u16; 4]] = &[[8, 2, 2, 1], [5, 2, 3, 1], [6, 2, 2, 1], [5, 3, 2, 1]];

/// Dragonflies in which two groups have less than a third of the pairs of groups.
const LINKS: &[[u16; 4]] = &[[4, 2, 4, 1], [5, 2, 3, 1], [6, 2, 2, 1]];

/// Draws two groups.
fn link(random: &mut Rng, shape: [u16; 4]) -> (u16, u16) {
    let one = random.u16(0..shape[0]);
    (one, (one + random.u16(1..shape[0])) % shape[0])
}

pub const TRIALS: [FaultTrial; 6] = [
    FaultTrial {
        name: "receiver",
        shapes: SWITCHES,
        plant: |random, shape| {
            let nic = NicId(random.u32(0..u32::from(shape[0] * shape[1] * shape[2])));
            (Planted::Receiver(nic), Unit::Nic(nic), Direction::Target)
        },
        right: [100, 100, 100],
    },
    FaultTrial {
        name: "switch",
        shapes: SWITCHES,
        plant: |random, shape| {
            let (group, switch) = (random.u16(0..shape[0]), random.u16(0..shape[1]));
            let unit = Unit::Switch { group, switch };
            (Planted::Switch(group, switch), unit, Direction::Both)
        },
        right: [45, 85, 98],
    },
    FaultTrial {
        name: "switch of two",
        shapes: SWITCHES_OF_TWO,
        plant: |random, shape| {
            let (group, switch) = (random.u16(0..shape[0]), random.u16(0..shape[1]));
            let unit = Unit::Switch { group, switch };
            (Planted::Switch(group, switch), unit, Direction::Both)
        },
        right: [95, 95, 98],
    },
    FaultTrial {
        name: "group",
        shapes: GROUPS,
        plant: |random, shape| {
            let group = random.u16(0..shape[0]);
            (Planted::Group(group), Unit::Group(group), Direction::Both)
        },
        right: [95, 98, 98],
    },
    FaultTrial {
        name: "links",
        shapes: LINKS,
        plant: |random, shape| {
            let (one, other) = link(random, shape);
            let unit = Unit::GroupPair(one.min(other), one.max(other));
            (Planted::Links(one, other), unit, Direction::Both)
        },
        right: [80, 95, 98],
    },
    FaultTrial {
        name: "links, one way",
        shapes: LINKS,
        plant: |random, shape| {
            let (one, other) = link(random, shape);
            let unit = Unit::GroupPair(one.min(other), one.max(other));
            let direction = if one < other { Direction::Initiator } else { Direction::Target };
            (Planted::OneWay(one, other), unit, direction)
        },
        right: [50, 80, 98],
    },
];
