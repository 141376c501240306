//! Which pairs of NICs a survey measures, as typed after `--pairs`, and round by round (jobs.md
//! 3.2).
//!
//! ```text
//! random:4                            the default
//! loopback,within-switch,groups       smallest shared part first
//! @pairs.txt                          lines of <round> <node> <node>
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use fastrand::Rng;

use super::roster::{NicId, NodeId, Pair, Roster};
use crate::blame::LEAST_FIGURES;
use crew::location::Location;
use facts::host::HostIndex;
use facts::number::{decimal, within};

/// A set of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Each NIC with itself.
    Loopback,
    /// Each NIC with the NICs whose position differs in one bit: 1, 2, 4, ... positions away.
    Neighbours,
    /// Each NIC of the first half of the positions with one of the second half.
    Halves,
    /// Each NIC with this number of random others.
    Random(u32),
    /// Each pair of NICs once.
    All,
    /// Each pair of NICs of the same switch.
    WithinSwitch,
    /// Each pair of switches of the same group, by one NIC of each.
    Switches,
    /// Each pair of groups, by up to four NICs of each.
    Groups,
    /// The rounds of a file.
    Listed(Vec<PairLine>),
}

impl Selection {
    /// Whether each NIC is to be in a pair.
    pub fn is_of_all_nics(&self) -> bool {
        !matches!(self, Self::Switches | Self::Groups | Self::Listed(_))
    }
}

/// A line of a file of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLine {
    /// Number of the line in the file, from 1.
    pub number: usize,
    /// Pairs of equal rounds are measured at the same time.
    pub round: u64,
    /// Host name or rank of the initiator and of the target.
    pub nodes: [String; 2],
}

/// Largest number of random partners.
const MOST_PARTNERS: u64 = 10_000;

/// Selections without a value.
const NAMED: [(&str, Selection); 7] = [
    ("loopback", Selection::Loopback),
    ("neighbours", Selection::Neighbours),
    ("halves", Selection::Halves),
    ("all", Selection::All),
    ("within-switch", Selection::WithinSwitch),
    ("switches", Selection::Switches),
    ("groups", Selection::Groups),
];

/// A selection as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedSelection {
    Named(Selection),
    /// The file after an `@`.
    File(String),
}

/// Divides selections separated by commas, without reading files.
///
/// # Errors
///
/// The first selection that is unknown or given twice.
pub fn typed(text: &str) -> Result<Vec<TypedSelection>, String> {
    let mut selections = Vec::new();
    for name in text.split(',') {
        let selection = match name.strip_prefix('@') {
            Some(path) => TypedSelection::File(path.to_owned()),
            None => TypedSelection::Named(one(name)?),
        };
        if selections.contains(&selection) {
            return Err(format!("'{name}' is given twice"));
        }
        selections.push(selection);
    }
    Ok(selections)
}

/// Parses selections separated by commas. `read` returns the text of the file after an `@`.
///
/// # Errors
///
/// The first selection that is unknown or given twice, or the error of a file.
pub fn parse(
    text: &str,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<Selection>, String> {
    let selections = typed(text)?.into_iter().map(|typed| match typed {
        TypedSelection::Named(selection) => Ok(selection),
        TypedSelection::File(path) => {
            let lines = lines(&read(&path)?).map_err(|why| format!("{path}: {why}"))?;
            Ok(Selection::Listed(lines))
        }
    });
    selections.collect()
}

fn one(name: &str) -> Result<Selection, String> {
    if let Some(partners) = name.strip_prefix("random:") {
        return within(partners, 1..=MOST_PARTNERS)
            .map(|partners| Selection::Random(partners as u32))
            .map_err(|why| format!("'{name}': {why} after random:"));
    }
    let known = NAMED.iter().find(|(known, _)| *known == name);
    known.map(|(_, selection)| selection.clone()).ok_or_else(|| {
        let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
        format!("unknown selection '{name}' (expected {}, random:COUNT or @FILE)", names.join(", "))
    })
}

/// Parses a file of pairs: `<round> <node> <node>` on each line; a comment begins with `#`.
///
/// # Errors
///
/// The first line with an error, by its number, or a text without pairs.
fn lines(text: &str) -> Result<Vec<PairLine>, String> {
    let mut lines: Vec<PairLine> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let [round, one, other] = words[..] else {
            if words.is_empty() {
                continue;
            }
            return Err(format!("line {number}: expected <round> <node> <node>"));
        };
        let round = decimal(round).ok_or_else(|| {
            format!("line {number}: '{round}' is not the decimal number of a round")
        })?;
        lines.push(PairLine { number, round, nodes: [one, other].map(str::to_owned) });
    }
    if lines.is_empty() {
        return Err("the file has no pairs (expected <round> <node> <node> on a line)".into());
    }
    lines.sort_by_key(|line| line.round);
    Ok(lines)
}

impl fmt::Display for Selection {
    /// Writes the selection as it is typed; a file is `@FILE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(partners) => write!(f, "random:{partners}"),
            Self::Listed(_) => f.write_str("@FILE"),
            named => {
                let own = NAMED.iter().find(|(_, known)| known == named);
                f.write_str(own.map_or("", |(name, _)| name))
            }
        }
    }
}

/// Most NICs of a group that are measured with the same other group in a round.
const NICS_OF_GROUP: usize = 4;

/// The pairs of round `round` of the circle method among `players`, by position. Rounds
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

/// The number of rounds in which each two of `players` meet once.
fn rounds_of_circle(players: usize) -> usize {
    if players < 2 { 0 } else { (players - 1) | 1 }
}

/// A pair of two NICs, in one direction in even turns and in the other one in odd turns.
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
    /// The number of rounds.
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

    /// The number of pairs of all rounds.
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

/// The NICs with the same number on their nodes, for each number, ordered by location and position
/// in the roster.
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

/// The pairs of a selection among the NICs of a rail.
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

/// The NICs with equal keys together.
fn sets<K: Ord>(nics: Vec<(Location, NicId)>, key: impl Fn(Location) -> K) -> Vec<Vec<NicId>> {
    let mut sets: BTreeMap<K, Vec<NicId>> = BTreeMap::new();
    for (place, nic) in nics {
        sets.entry(key(place)).or_default().push(nic);
    }
    sets.into_values().collect()
}

/// The rounds of a file among the NICs of a rail. A pair of several rounds belongs to the first.
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

    fn no_file(path: &str) -> Result<String, String> {
        Err(format!("cannot read {path}"))
    }

    #[test]
    fn reads_each_selection_as_it_is_written() {
        for name in [
            "loopback",
            "neighbours",
            "halves",
            "random:3",
            "all",
            "within-switch",
            "switches",
            "groups",
        ] {
            let [selection] = parse(name, no_file).unwrap().try_into().unwrap();
            assert_eq!(selection.to_string(), name);
        }
        let several = parse("loopback,within-switch,random:2", no_file).unwrap();
        assert_eq!(several, [Selection::Loopback, Selection::WithinSwitch, Selection::Random(2)]);
    }

    #[test]
    fn refuses_selections_with_reason() {
        for (text, why) in [
            (
                "",
                "unknown selection '' (expected loopback, neighbours, halves, all, within-switch, ",
            ),
            ("ring", "unknown selection 'ring'"),
            ("random", "groups, random:COUNT or @FILE)"),
            ("random:0", "'random:0': expected a decimal number from 1 to 10000 after random:"),
            ("all,halves,all", "'all' is given twice"),
            ("@missing", "cannot read missing"),
        ] {
            let message = parse(text, no_file).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
    }

    #[test]
    fn reads_rounds_of_a_file() {
        let text = "# two rounds\n2 a c\n1 a b # near\n\n1 c 3\n";
        let [Selection::Listed(lines)] = &parse("@f", |_| Ok(text.into())).unwrap()[..] else {
            panic!("expected one file");
        };
        let facts: Vec<_> =
            lines.iter().map(|line| (line.number, line.round, line.nodes[1].as_str())).collect();
        assert_eq!(facts, [(3, 1, "b"), (5, 1, "3"), (2, 2, "c")]);
        for (text, why) in [
            ("1 a", "f: line 1: expected <round> <node> <node>"),
            ("1 a b c", "line 1: expected"),
            ("x a b", "line 1: 'x' is not the decimal number of a round"),
            ("# none", "has no pairs"),
        ] {
            let message = parse("@f", |_| Ok(text.into())).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
    }

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
