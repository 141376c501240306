//! Rounds of disjoint pairs (jobs.md 3.2). They are made when they are needed: all pairs of a large
//! cluster do not fit into memory.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::answer::{Pair, Stage};
use super::pairs::{Line, Selection};
use super::population::LEAST_FIGURES;
use super::roster::Roster;
use super::timetable::Round;
use crate::location::Location;

/// Most NICs of a group that are measured with the same other group in a round.
const NICS_OF_GROUP: usize = 4;

/// Whether the NICs of a node are measured one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicOrder {
    /// The first NICs of all nodes, then the second ones, and so on.
    #[default]
    InTurn,
    /// All NICs of a node at the same time.
    AtOnce,
}

/// Returns the pairs of round `round` of the circle method among `players`, by position. Rounds
/// `0..rounds_of_circle(players)` have each pair once; the same number of rounds after them have each
/// pair in the other direction, and so on.
///
/// Two successive rounds, the first one even, form a ring in which each player is initiator once and
/// target once; with an odd number of players, the player who rests is missing from it.
fn circle(players: usize, round: usize) -> impl Iterator<Item = (usize, usize)> {
    let cycle = rounds_of_circle(players).max(1);
    let fixed = cycle;
    let turn = round % cycle;
    let reversed = (round / cycle) % 2 == 1;
    let first = if turn % 2 == 0 {
        (fixed, turn)
    } else {
        (turn, fixed)
    };
    let others = (1..cycle.div_ceil(2)).map(move |k| {
        let (ahead, behind) = ((turn + k) % cycle, (turn + cycle - k) % cycle);
        if k % 2 == 0 {
            (ahead, behind)
        } else {
            (behind, ahead)
        }
    });
    std::iter::once(first)
        .chain(others)
        .filter(move |(one, other)| *one.max(other) < players)
        .map(move |(one, other)| if reversed { (other, one) } else { (one, other) })
}

/// Returns the number of rounds in which each two of `players` meet once.
fn rounds_of_circle(players: usize) -> usize {
    if players < 2 { 0 } else { (players - 1) | 1 }
}

/// The pairs of one selection among NICs that may be measured at the same time.
#[derive(Debug)]
enum Shape {
    Loopback(Vec<u32>),
    /// The first rounds of the circle method, in each set by itself.
    Circles {
        sets: Vec<Vec<u32>>,
        rounds: usize,
    },
    Neighbours(Vec<u32>),
    Halves(Vec<u32>),
    /// The circle method among the sets of each part, by some NICs of each set.
    Between {
        parts: Vec<Vec<Vec<u32>>>,
        most: usize,
    },
    Listed(Vec<Vec<Pair>>),
}

impl Shape {
    fn rounds(&self) -> usize {
        match self {
            Self::Loopback(nics) => usize::from(!nics.is_empty()),
            Self::Circles { rounds, .. } => *rounds,
            Self::Neighbours(nics) => nics.len().next_power_of_two().trailing_zeros() as usize,
            Self::Halves(nics) => usize::from(nics.len() >= 2),
            Self::Between { parts, .. } => parts
                .iter()
                .map(|sets| rounds_of_circle(sets.len()))
                .max()
                .unwrap_or(0),
            Self::Listed(rounds) => rounds.len(),
        }
    }

    /// Adds the pairs of a round to `pairs`.
    fn add_round(&self, round: usize, pairs: &mut Vec<Pair>) {
        let pair = |initiator, target| Pair { initiator, target };
        match self {
            Self::Loopback(nics) => pairs.extend(nics.iter().map(|nic| pair(*nic, *nic))),
            Self::Circles { sets, rounds } => {
                for nics in sets {
                    // A small set ends before the others, unless a number of rounds was asked for.
                    if sets.len() == 1 && round < *rounds || round < rounds_of_circle(nics.len()) {
                        pairs.extend(
                            circle(nics.len(), round)
                                .map(|(one, other)| pair(nics[one], nics[other])),
                        );
                    }
                }
            }
            Self::Neighbours(nics) => {
                let distance = 1 << round;
                for one in
                    (0..nics.len()).filter(|one| one & distance == 0 && one + distance < nics.len())
                {
                    let both = (nics[one], nics[one + distance]);
                    let is_first = (one / (2 * distance) + round) % 2 == 0;
                    pairs.push(if is_first {
                        pair(both.0, both.1)
                    } else {
                        pair(both.1, both.0)
                    });
                }
            }
            Self::Halves(nics) => {
                let half = nics.len() / 2;
                for one in 0..half {
                    let both = (nics[one], nics[one + half]);
                    pairs.push(if one % 2 == 0 {
                        pair(both.0, both.1)
                    } else {
                        pair(both.1, both.0)
                    });
                }
            }
            Self::Between { parts, most } => {
                for sets in parts
                    .iter()
                    .filter(|sets| round < rounds_of_circle(sets.len()))
                {
                    for (one, other) in circle(sets.len(), round) {
                        let (one, other) = (&sets[one], &sets[other]);
                        let count = one.len().min(other.len()).min(*most);
                        // Each round takes other NICs of a set.
                        let nic = |set: &[u32], k| set[(round * count + k) % set.len()];
                        pairs.extend((0..count).map(|k| {
                            let both = (nic(one, k), nic(other, k));
                            if k % 2 == 0 {
                                pair(both.0, both.1)
                            } else {
                                pair(both.1, both.0)
                            }
                        }));
                    }
                }
            }
            Self::Listed(rounds) => {
                pairs.extend_from_slice(rounds.get(round).map_or(&[], Vec::as_slice))
            }
        }
    }

    /// Returns the number of pairs of all rounds.
    fn pairs(&self) -> u64 {
        if let Self::Circles { sets, rounds } = self {
            let of_set = |nics: &Vec<u32>| {
                let own = if sets.len() == 1 {
                    *rounds
                } else {
                    rounds_of_circle(nics.len())
                };
                (nics.len() / 2 * own) as u64
            };
            return sets.iter().map(of_set).sum();
        }
        let mut pairs = Vec::new();
        for round in 0..self.rounds() {
            self.add_round(round, &mut pairs);
        }
        pairs.len() as u64
    }
}

/// Pairs that are measured before those of the next step.
#[derive(Debug)]
struct Step {
    test: u16,
    /// Index of the shapes whose rounds are measured together.
    shapes: usize,
}

/// All rounds of the pairs that the user has asked for.
#[derive(Debug)]
pub struct Sweep {
    /// For each selection and turn of NICs, the shapes that are measured at the same time.
    shapes: Vec<Vec<Shape>>,
    steps: Vec<Step>,
    step: usize,
    round: usize,
    most_active: usize,
    /// What is left of a round that was divided.
    rest: Vec<Pair>,
}

impl Sweep {
    /// Creates the rounds of `selections` for `tests` tests: for each selection all tests, for each of
    /// these the NICs of a node in their order.
    ///
    /// # Errors
    ///
    /// A selection that needs the locations of NICs without any, or a node in a file of pairs that the
    /// roster lacks.
    pub fn new(
        roster: &Roster,
        selections: &[Selection],
        tests: u16,
        order: NicOrder,
        most_active: Option<u32>,
        seed: u64,
    ) -> Result<Self, String> {
        let rails = rails(roster);
        let mut shapes = Vec::new();
        let mut steps = Vec::new();
        for selection in selections {
            let mut of_rails = Vec::new();
            for rail in &rails {
                of_rails.push(shape(selection, rail, roster, seed)?);
            }
            let first = shapes.len();
            match order {
                NicOrder::InTurn => shapes.extend(of_rails.into_iter().map(|shape| vec![shape])),
                NicOrder::AtOnce => shapes.push(of_rails),
            }
            let of_selection = first..shapes.len();
            steps.extend((0..tests).flat_map(|test| {
                of_selection
                    .clone()
                    .map(move |shapes| Step { test, shapes })
            }));
        }
        let most_active = most_active.map_or(usize::MAX, |most| most.max(1) as usize);
        Ok(Self {
            shapes,
            steps,
            step: 0,
            round: 0,
            most_active,
            rest: Vec::new(),
        })
    }

    /// Returns the number of pairs of all rounds.
    pub fn pairs(&self) -> u64 {
        let of_shapes: Vec<u64> = self
            .shapes
            .iter()
            .map(|together| together.iter().map(Shape::pairs).sum())
            .collect();
        self.steps.iter().map(|step| of_shapes[step.shapes]).sum()
    }

    /// Returns the next round with the pairs that `is_wanted` accepts; `None` after the last one.
    pub fn next(&mut self, mut is_wanted: impl FnMut(u16, Pair) -> bool) -> Option<Round> {
        loop {
            let test = self.steps.get(self.step)?.test;
            if self.rest.is_empty() {
                let together = &self.shapes[self.steps[self.step].shapes];
                let rounds = together.iter().map(Shape::rounds).max().unwrap_or(0);
                if self.round == rounds {
                    (self.step, self.round) = (self.step + 1, 0);
                    continue;
                }
                for shape in together {
                    if self.round < shape.rounds() {
                        shape.add_round(self.round, &mut self.rest);
                    }
                }
                self.rest.retain(|pair| is_wanted(test, *pair));
                self.round += 1;
            }
            if !self.rest.is_empty() {
                let kept = self.rest.split_off(self.most_active.min(self.rest.len()));
                let pairs = std::mem::replace(&mut self.rest, kept);
                return Some(Round {
                    test,
                    stage: Stage::Sweep,
                    pairs,
                });
            }
        }
    }
}

/// Returns the NICs with the same number on their nodes, for each number, ordered by location and
/// position in the roster.
fn rails(roster: &Roster) -> Vec<Vec<u32>> {
    let mut rails: Vec<Vec<u32>> = Vec::new();
    let mut number = 0;
    for (index, nic) in roster.nics.iter().enumerate() {
        let is_first = index == 0 || roster.nics[index - 1].node != nic.node;
        number = if is_first { 0 } else { number + 1 };
        if number == rails.len() {
            rails.push(Vec::new());
        }
        rails[number].push(index as u32);
    }
    for rail in &mut rails {
        rail.sort_by_key(|nic| (roster.nics[*nic as usize].location, *nic));
    }
    rails
}

fn shape(selection: &Selection, rail: &[u32], roster: &Roster, seed: u64) -> Result<Shape, String> {
    let nics = rail.to_vec();
    let located = || {
        let at = |nic: u32| roster.nics[nic as usize].location;
        let located: Vec<(Location, u32)> = rail
            .iter()
            .filter_map(|nic| Some((at(*nic)?, *nic)))
            .collect();
        if located.is_empty() {
            return Err(format!(
                "--pairs={selection} needs the locations of NICs, and none is known"
            ));
        }
        Ok(located)
    };
    Ok(match selection {
        Selection::Loopback => Shape::Loopback(nics),
        Selection::Neighbours => Shape::Neighbours(nics),
        Selection::Halves => Shape::Halves(nics),
        Selection::All => Shape::Circles {
            rounds: rounds_of_circle(nics.len()),
            sets: vec![nics],
        },
        Selection::Random(partners) => random(nics, *partners as usize, seed),
        Selection::WithinSwitch => {
            let sets = sets(located()?, |place| (place.group, place.switch));
            let rounds = sets
                .iter()
                .map(|nics| rounds_of_circle(nics.len()))
                .max()
                .unwrap_or(0);
            Shape::Circles { sets, rounds }
        }
        Selection::Switches => {
            let mut groups: BTreeMap<u16, Vec<(Location, u32)>> = BTreeMap::new();
            for (place, nic) in located()? {
                groups.entry(place.group).or_default().push((place, nic));
            }
            let parts = groups
                .into_values()
                .map(|nics| sets(nics, |place| place.switch))
                .collect();
            Shape::Between { parts, most: 1 }
        }
        Selection::Groups => {
            let parts = vec![sets(located()?, |place| place.group)];
            Shape::Between {
                parts,
                most: NICS_OF_GROUP,
            }
        }
        Selection::Listed(lines) => Shape::Listed(listed(lines, rail, roster)?),
    })
}

/// Returns `partners` rounds of a random circle: more if few NICs would have too few pairs for limits,
/// less if each pair has been measured in both directions.
fn random(mut nics: Vec<u32>, partners: usize, seed: u64) -> Shape {
    Rng::with_seed(seed).shuffle(&mut nics);
    let at_once = (nics.len() / 2).max(1);
    let rounds = partners
        .max(LEAST_FIGURES.div_ceil(at_once))
        .min(2 * rounds_of_circle(nics.len()));
    Shape::Circles {
        sets: vec![nics],
        rounds,
    }
}

/// Returns the NICs with equal keys together.
fn sets<K: Ord>(nics: Vec<(Location, u32)>, key: impl Fn(Location) -> K) -> Vec<Vec<u32>> {
    let mut sets: BTreeMap<K, Vec<u32>> = BTreeMap::new();
    for (place, nic) in nics {
        sets.entry(key(place)).or_default().push(nic);
    }
    sets.into_values().collect()
}

/// Returns the rounds of a file among the NICs of a rail.
fn listed(lines: &[Line], rail: &[u32], roster: &Roster) -> Result<Vec<Vec<Pair>>, String> {
    let mut of_node = BTreeMap::new();
    for nic in rail {
        of_node.insert(roster.nics[*nic as usize].node, *nic);
    }
    let find = |name: &str, line: &Line| {
        let rank = name.parse().ok();
        let is_it = |node: &super::roster::Node| Some(node.rank) == rank || node.host == name;
        let node = roster.nodes.iter().position(is_it);
        node.ok_or_else(|| {
            format!(
                "--pairs: line {}: no process has the host or rank '{name}'",
                line.number
            )
        })
    };
    let mut rounds = Vec::new();
    for of_round in lines.chunk_by(|one, other| one.round == other.round) {
        let mut pairs = Vec::new();
        for line in of_round {
            let [one, other] = [find(&line.nodes[0], line)?, find(&line.nodes[1], line)?]
                .map(|node| of_node.get(&(node as u32)).copied());
            if let (Some(initiator), Some(target)) = (one, other) {
                pairs.push(Pair { initiator, target });
            }
        }
        rounds.push(pairs);
    }
    Ok(rounds)
}
