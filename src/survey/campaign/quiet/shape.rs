//! The pairs of a selection, round by round (jobs.md 3.2).

use std::collections::{BTreeMap, HashMap, HashSet};

use fastrand::Rng;

use super::answer::Pair;
use super::ids::{NicId, NodeId};
use super::pairs::{PairLine, Selection};
use super::roster::Roster;
use crate::blame::LEAST_FIGURES;
use crew::location::Location;
use facts::host::HostIndex;

/// Most NICs of a group that are measured with the same other group in a round.
const NICS_OF_GROUP: usize = 4;

/// Returns the pairs of round `round` of the circle method among `players`, by position. Rounds
/// `0..rounds_of_circle(players)` have each pair once; the same number of rounds after them have
/// each pair in the other direction, and so on.
///
/// Two successive rounds, the first one even, form a ring in which each player is initiator once
/// and target once; with an odd number of players, the player who rests is missing from it.
fn circle(players: usize, round: usize) -> impl Iterator<Item = (usize, usize)> {
    let cycle = rounds_of_circle(players).max(1);
    let fixed = cycle;
    let turn = round % cycle;
    let reversed = (round / cycle) % 2 == 1;
    let first = if turn.is_multiple_of(2) { (fixed, turn) } else { (turn, fixed) };
    let others = (1..cycle.div_ceil(2)).map(move |k| {
        let (ahead, behind) = ((turn + k) % cycle, (turn + cycle - k) % cycle);
        if k % 2 == 0 { (ahead, behind) } else { (behind, ahead) }
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

/// Returns a pair of two NICs, in one direction in even turns and in the other one in odd turns.
fn in_turn(turn: usize, one: NicId, other: NicId) -> Pair {
    let pair = Pair { initiator: one, target: other };
    if turn.is_multiple_of(2) { pair } else { pair.reversed() }
}

/// The pairs of one selection among NICs that may be measured at the same time, each pair once.
#[derive(Clone, Debug)]
pub enum Shape {
    Loopback(Vec<NicId>),
    /// The first rounds of the circle method, in each set by itself.
    Circles {
        sets: Vec<Vec<NicId>>,
        rounds: usize,
    },
    Neighbours(Vec<NicId>),
    Halves(Vec<NicId>),
    /// The circle method among the sets of each part, by some NICs of each set.
    Between {
        parts: Vec<Vec<Vec<NicId>>>,
        most: usize,
    },
    Listed(Vec<Vec<Pair>>),
}

impl Shape {
    /// Returns the number of rounds.
    pub fn rounds(&self) -> usize {
        match self {
            Self::Loopback(nics) => usize::from(!nics.is_empty()),
            Self::Circles { rounds, .. } => *rounds,
            Self::Neighbours(nics) => nics.len().next_power_of_two().trailing_zeros() as usize,
            Self::Halves(nics) => usize::from(nics.len() >= 2),
            Self::Between { parts, .. } => {
                parts.iter().map(|sets| rounds_of_circle(sets.len())).max().unwrap_or(0)
            }
            Self::Listed(rounds) => rounds.len(),
        }
    }

    pub fn add_round(&self, round: usize, pairs: &mut Vec<Pair>) {
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
                    let turn = one / (2 * distance) + round;
                    pairs.push(in_turn(turn, nics[one], nics[one + distance]));
                }
            }
            Self::Halves(nics) => {
                let half = nics.len() / 2;
                pairs.extend((0..half).map(|one| in_turn(one, nics[one], nics[one + half])));
            }
            Self::Between { parts, most } => {
                for sets in parts.iter().filter(|sets| round < rounds_of_circle(sets.len())) {
                    for (one, other) in circle(sets.len(), round) {
                        let (one, other) = (&sets[one], &sets[other]);
                        let count = one.len().min(other.len()).min(*most);
                        // Each round takes other NICs of a set.
                        let nic = |set: &[NicId], k| set[(round * count + k) % set.len()];
                        pairs.extend((0..count).map(|k| in_turn(k, nic(one, k), nic(other, k))));
                    }
                }
            }
            Self::Listed(rounds) => {
                pairs.extend_from_slice(rounds.get(round).map_or(&[], Vec::as_slice))
            }
        }
    }

    /// Returns the number of pairs of all rounds.
    pub fn pairs(&self) -> u64 {
        if let Self::Circles { sets, rounds } = self {
            let set_count = |nics: &Vec<NicId>| {
                let own = if sets.len() == 1 { *rounds } else { rounds_of_circle(nics.len()) };
                (nics.len() / 2 * own) as u64
            };
            return sets.iter().map(set_count).sum();
        }
        let mut pairs = Vec::new();
        for round in 0..self.rounds() {
            self.add_round(round, &mut pairs);
        }
        pairs.len() as u64
    }
}

/// Returns the NICs with the same number on their nodes, for each number, ordered by location and
/// position in the roster.
pub fn rails(roster: &Roster) -> Vec<Vec<NicId>> {
    let mut rails: Vec<Vec<NicId>> = Vec::new();
    let mut number = 0;
    for (index, nic) in roster.nics.iter().enumerate() {
        let is_first = index == 0 || roster.nics[index - 1].node != nic.node;
        number = if is_first { 0 } else { number + 1 };
        if number == rails.len() {
            rails.push(Vec::new());
        }
        rails[number].push(NicId(index as u32));
    }
    for rail in &mut rails {
        rail.sort_by_key(|nic| (roster.location(*nic), *nic));
    }
    rails
}

/// Returns the pairs of a selection among the NICs of a rail.
///
/// # Errors
///
/// A selection that needs the locations of NICs without any, or a node in a file of pairs that the
/// roster lacks.
pub fn shape(
    selection: &Selection,
    rail: &[NicId],
    roster: &Roster,
    seed: u64,
) -> Result<Shape, String> {
    let nics = rail.to_vec();
    let located = || {
        let at = |nic: NicId| roster.nic(nic).location;
        let located: Vec<(Location, NicId)> =
            rail.iter().filter_map(|nic| Some((at(*nic)?, *nic))).collect();
        if located.is_empty() {
            return Err(format!(
                "{selection} needs the locations of NICs, and none is known (see --locations)"
            ));
        }
        Ok(located)
    };
    Ok(match selection {
        Selection::Loopback => Shape::Loopback(nics),
        Selection::Neighbours => Shape::Neighbours(nics),
        Selection::Halves => Shape::Halves(nics),
        Selection::All => Shape::Circles { rounds: rounds_of_circle(nics.len()), sets: vec![nics] },
        Selection::Random(partners) => random(nics, *partners as usize, seed),
        Selection::WithinSwitch => {
            let sets = sets(located()?, |place| (place.group, place.switch));
            let rounds = sets.iter().map(|nics| rounds_of_circle(nics.len())).max().unwrap_or(0);
            Shape::Circles { sets, rounds }
        }
        Selection::Switches => {
            let mut groups: BTreeMap<u16, Vec<(Location, NicId)>> = BTreeMap::new();
            for (place, nic) in located()? {
                groups.entry(place.group).or_default().push((place, nic));
            }
            let parts = groups.into_values().map(|nics| sets(nics, |place| place.switch)).collect();
            Shape::Between { parts, most: 1 }
        }
        Selection::Groups => {
            let parts = vec![sets(located()?, |place| place.group)];
            Shape::Between { parts, most: NICS_OF_GROUP }
        }
        Selection::Listed(lines) => Shape::Listed(listed(lines, rail, roster)?),
    })
}

/// Returns `partners` rounds of a random circle: more if few NICs would have too few pairs for
/// limits that are known well, less if each pair has been measured in both directions.
fn random(mut nics: Vec<NicId>, partners: usize, seed: u64) -> Shape {
    Rng::with_seed(seed).shuffle(&mut nics);
    let at_once = (nics.len() / 2).max(1);
    let rounds =
        partners.max((2 * LEAST_FIGURES).div_ceil(at_once)).min(2 * rounds_of_circle(nics.len()));
    Shape::Circles { sets: vec![nics], rounds }
}

/// Returns the NICs with equal keys together.
fn sets<K: Ord>(nics: Vec<(Location, NicId)>, key: impl Fn(Location) -> K) -> Vec<Vec<NicId>> {
    let mut sets: BTreeMap<K, Vec<NicId>> = BTreeMap::new();
    for (place, nic) in nics {
        sets.entry(key(place)).or_default().push(nic);
    }
    sets.into_values().collect()
}

/// Returns the rounds of a file among the NICs of a rail. A pair of several rounds belongs to the
/// first.
fn listed(lines: &[PairLine], rail: &[NicId], roster: &Roster) -> Result<Vec<Vec<Pair>>, String> {
    let node_nics: HashMap<NodeId, NicId> =
        rail.iter().map(|nic| (roster.nic(*nic).node, *nic)).collect();
    let ranks = roster.node_ids().zip(&roster.nodes).map(|(id, node)| (node.rank.to_string(), id));
    let ranks: HashMap<String, NodeId> = ranks.collect();
    let hosts = HostIndex::new(roster.hosts());
    let host_node = |name: &str| hosts.find(name).map(|index| NodeId(index as u32));
    let mut rounds = Vec::new();
    let mut known = HashSet::new();
    for round_lines in lines.chunk_by(|one, other| one.round == other.round) {
        let mut pairs = Vec::new();
        let mut seen = HashSet::new();
        for line in round_lines {
            let find = |name: &String| {
                let node = ranks.get(name).copied().or_else(|| host_node(name));
                node.ok_or_else(|| {
                    format!("line {}: no process has the host or rank '{name}'", line.number)
                })
            };
            let (one, other) = (find(&line.nodes[0])?, find(&line.nodes[1])?);
            if !seen.insert(one) || (one != other && !seen.insert(other)) {
                return Err(format!(
                    "line {}: a node occurs twice in round {}",
                    line.number, line.round
                ));
            }
            if let (Some(initiator), Some(target)) = (node_nics.get(&one), node_nics.get(&other)) {
                let pair = Pair { initiator: *initiator, target: *target };
                if known.insert(pair) {
                    pairs.push(pair);
                }
            }
        }
        rounds.push(pairs);
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn circle_has_each_pair_once_and_then_reversed(players in 0_usize..40) {
            let cycle = rounds_of_circle(players);
            let pairs_of = |rounds: std::ops::Range<usize>| -> Vec<(usize, usize)> {
                rounds.flat_map(|round| circle(players, round)).collect()
            };
            let pairs = pairs_of(0..cycle);
            let unordered: HashSet<_> = pairs.iter().map(|(one, other)| (one.min(other), one.max(other))).collect();
            prop_assert_eq!(pairs.len(), players * players.saturating_sub(1) / 2);
            prop_assert_eq!(unordered.len(), pairs.len());
            let reversed: HashSet<_> = pairs_of(cycle..2 * cycle).into_iter().map(|(one, other)| (other, one)).collect();
            prop_assert_eq!(reversed, pairs.into_iter().collect::<HashSet<_>>());
        }

        #[test]
        fn two_rounds_of_circle_are_a_ring(half in 1_usize..20, couple in 0_usize..4) {
            let players = 2 * half + 2;
            let first = 2 * couple % (rounds_of_circle(players) - 1);
            let next: HashMap<usize, usize> = circle(players, first).chain(circle(players, first + 1)).collect();
            let mut player = 0;
            for _ in 1..players {
                player = next[&player];
                prop_assert_ne!(player, 0);
            }
            prop_assert_eq!(next[&player], 0);
        }
    }
}
