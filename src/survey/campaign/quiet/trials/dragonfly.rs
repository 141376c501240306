//! Dragonflies with one slow part: packets pass switches and cables, so the part also slows pairs
//! of NICs that are not at it.

use fastrand::Rng;

use super::super::findings::Direction;
use super::super::roster::{NicId, Pair, Roster, Unit};
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
    /// The switch of group `from` at which its cable to group `to` ends.
    fn gateway(self, from: u16, to: u16) -> Switch {
        let distance = (to + self.groups - from) % self.groups;
        (from, (distance - 1) % self.switches)
    }

    /// The switches on the shortest path.
    fn path(self, from: Switch, to: Switch) -> Vec<Switch> {
        let mut path = vec![from];
        if from.0 != to.0 {
            path.extend([self.gateway(from.0, to.0), self.gateway(to.0, from.0)]);
        }
        path.push(to);
        path.dedup();
        path
    }

    /// Whether a pair passes what is slow.
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

    /// The slow pairs as faults.
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

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::{FaultTrial, ModelDragonfly, Planted, TRIALS};
    use crate::quiet::findings::{Certainty, Direction};
    use crate::quiet::roster::Unit;
    use crate::quiet::testing::{Cluster, Load, named, seeds, survey_of_some};

    /// Surveys of each dragonfly with each fault.
    const SEEDS: u64 = 16;

    /// The most surveys of a trial that name something that is not slow.
    const MOST_WRONG: usize = 1;

    /// Returns what a survey names, without what is transient.
    fn survey_with_fault(
        shape: [u16; 4],
        planted: Planted,
        (tool, pairs): (&str, &str),
        load: Option<Load>,
        seed: u64,
    ) -> Vec<(Unit, Certainty, Direction)> {
        let mut cluster = Cluster::new(shape, &[tool], seed);
        cluster.load = load;
        let dragonfly = ModelDragonfly { groups: shape[0], switches: shape[1] };
        cluster.faults = dragonfly.faults(planted, 2.5, &cluster.roster);
        named(&survey_of_some(&mut cluster, pairs, seed))
    }

    /// Whether each survey of a trial is right, and what those name that name something that is not
    /// slow. A path through what is slow is slow.
    fn run(trial: &FaultTrial, tool: &str, pairs: &str) -> (Vec<bool>, Vec<String>) {
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        for shape in trial.shapes {
            for seed in seeds(SEEDS) {
                let mut random = Rng::with_seed(seed);
                let (planted, unit, direction) = (trial.plant)(&mut random, *shape);
                let found = survey_with_fault(*shape, planted, (tool, pairs), None, seed);
                let is_it = |(own, _, way): &(Unit, Certainty, Direction)| {
                    // With few pairs, those in the other direction may not be measured.
                    *own == unit && (*way == direction || *way == Direction::Both)
                };
                let is_on_the_way = |(own, ..): &(Unit, Certainty, Direction)| {
                    let Unit::Path(pair) = own else {
                        return false;
                    };
                    let cluster = Cluster::new(*shape, &[tool], seed);
                    let dragonfly = ModelDragonfly { groups: shape[0], switches: shape[1] };
                    dragonfly.is_slow(planted, *pair, &cluster.roster)
                };
                right.push(matches!(&found[..], [one] if is_it(one)));
                if !found.iter().all(|one| is_it(one) || is_on_the_way(one)) {
                    wrong.push(format!("{shape:?} seed {seed} {planted:?}: {found:?}"));
                }
            }
        }
        (right, wrong)
    }

    #[test]
    fn names_what_is_slow_in_a_dragonfly() {
        let mut failures = Vec::new();
        for trial in &TRIALS {
            let [few, many, all] = trial.right;
            for (tool, pairs, least) in [
                ("write-bw", "random:4", few),
                ("write-bw", "random:8", many),
                ("write-lat", "random:8", many),
                ("write-bw", "all", all),
            ] {
                let (right, wrong) = run(trial, tool, pairs);
                let surveys = right.len();
                let right = right.into_iter().filter(|is_right| *is_right).count();
                let text = format!("{} {tool} {pairs}: {right} of {surveys} right", trial.name);
                if 100 * right < least * surveys || wrong.len() > MOST_WRONG {
                    failures.push(format!("{text}\n{}", wrong.join("\n")));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// Surveys in which other parts than the slow one look slow as well.
    #[test]
    fn names_nothing_beside_what_is_slow() {
        let busy = Some(Load { node: None, disturbed: 0.4, untested: 0.1, is_harmless: false });
        let (large, small) = ([4, 2, 4, 1], [5, 2, 3, 1]);
        let switch = Planted::Switch;
        for (shape, planted, pairs, load, seed) in [
            // The other switch of the group: most of its pairs with the effect pass the slow one.
            (large, switch(3, 0), "random:8", busy, 38),
            (large, switch(2, 1), "all", busy, 35),
            (small, switch(3, 1), "all", busy, 11),
            (small, switch(2, 1), "random:8", busy, 4),
            (small, switch(4, 1), "random:8", busy, 16),
            // Links between groups that end at it.
            (small, switch(4, 1), "random:4", None, 23),
            (small, switch(2, 1), "random:4", None, 24),
            (small, switch(4, 0), "random:4", None, 38),
            // A NIC with slow pairs on one way only: pairs in the other direction have another
            // link.
            ([6, 2, 2, 1], Planted::OneWay(1, 4), "random:4", None, 9),
            ([6, 2, 2, 1], Planted::OneWay(5, 3), "random:4", None, 23),
        ] {
            let found = survey_with_fault(shape, planted, ("write-bw", pairs), load, seed);
            let is_it = |(unit, ..): &(Unit, Certainty, Direction)| match (unit, planted) {
                (Unit::Path(_), _) => true,
                (Unit::Switch { group, switch }, Planted::Switch(..)) => {
                    planted == Planted::Switch(*group, *switch)
                }
                (Unit::GroupPair(one, other), Planted::OneWay(from, to)) => {
                    (*one, *other) == (from.min(to), from.max(to))
                }
                _ => false,
            };
            let is_right = found.iter().all(is_it);
            assert!(is_right, "{shape:?} {seed} {planted:?}: {found:?}");
        }
    }

    #[test]
    fn names_no_path_of_links_that_are_slow_in_one_direction() {
        let links = Unit::GroupPair(0, 1);
        let mut found = 0;
        for seed in 0..20 {
            let planted = Planted::OneWay(0, 1);
            let survey = ("write-lat", "random:4");
            let named = survey_with_fault([4, 2, 2, 1], planted, survey, None, seed);
            assert!(named.iter().all(|one| one.0 == links), "{seed}: {named:?}");
            found += named.len();
        }
        assert!(found >= 10, "{found}");
    }

    /// All pairs of two of three groups pass the slow switch. Their NICs are two thirds of all, but
    /// most pairs are good.
    #[test]
    fn names_the_slow_switch_between_two_of_three_groups() {
        for seed in 0..20 {
            let survey = ("write-bw", "random:4");
            let named = survey_with_fault([3, 4, 2, 1], Planted::Switch(2, 0), survey, None, seed);
            let slow = Unit::Switch { group: 2, switch: 0 };
            assert_eq!(named, [(slow, Certainty::Bad, Direction::Both)], "{seed}");
        }
    }
}
