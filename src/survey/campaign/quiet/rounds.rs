//! Rounds of disjoint pairs (jobs.md 3.2). The sweep makes each round when it is needed, because
//! all pairs of a large cluster do not fit into memory. A set of pairs has a bit for each target.

use std::collections::HashMap;

use super::answer::Stage;
use super::pairs::{Selection, Shape, rails, shape};
use super::roster::{NicId, Pair, Roster, TestId};

/// Disjoint pairs that are measured at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Index of the test.
    pub test: TestId,
    /// Why they are measured.
    pub stage: Stage,
    /// The pairs. No NIC occurs twice.
    pub pairs: Vec<Pair>,
}

/// Whether the NICs of a node are measured one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicOrder {
    /// The first NICs of all nodes, then the second ones, and so on.
    #[default]
    InTurn,
    /// All NICs of a node at the same time.
    AtOnce,
}

/// A step of the sweep: a test with some shapes. The next step begins after the last pair of this
/// step.
#[derive(Clone, Copy, Debug)]
struct SweepStep {
    test: TestId,
    /// Index of the shapes that are measured at the same time.
    shapes: usize,
    /// Index of the first shapes of its selection.
    first: usize,
}

/// All rounds of the pairs that the user has asked for. A pair of several selections belongs to the
/// first of them.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// For each selection and turn of NICs, the shapes that are measured at the same time.
    shapes: Vec<Vec<Shape>>,
    steps: Vec<SweepStep>,
    step: usize,
    round: usize,
    most_active: usize,
    /// The remaining pairs of a round that was divided.
    rest: Vec<Pair>,
    /// The pairs of earlier selections.
    covered: PairSet,
    covers: usize,
    planned: u64,
}

impl Sweep {
    /// Creates the rounds of `selections` for `tests` tests: for each selection all tests, for each
    /// of these the NICs of a node in their order.
    ///
    /// # Errors
    ///
    /// A selection that needs the locations of NICs without any, or a node in a file of pairs that
    /// the roster lacks.
    pub fn new(
        roster: &Roster,
        selections: &[Selection],
        tests: usize,
        order: NicOrder,
        most_active: Option<u32>,
        seed: u64,
    ) -> Result<Self, String> {
        let rails = rails(roster);
        let mut shapes = Vec::new();
        let mut steps = Vec::new();
        for selection in selections {
            let mut rail_shapes = Vec::new();
            for rail in &rails {
                rail_shapes.push(shape(selection, rail, roster, seed)?);
            }
            let first = shapes.len();
            match order {
                NicOrder::InTurn => shapes.extend(rail_shapes.into_iter().map(|shape| vec![shape])),
                NicOrder::AtOnce => shapes.push(rail_shapes),
            }
            let selection_range = first..shapes.len();
            steps.extend(TestId::first(tests).flat_map(|test| {
                selection_range.clone().map(move |shapes| SweepStep { test, shapes, first })
            }));
        }
        let most_active = most_active.map_or(usize::MAX, |most| most.max(1) as usize);
        Ok(Self {
            planned: tests as u64 * pairs(&shapes, selections.len() > 1),
            covered: PairSet::default(),
            covers: 0,
            shapes,
            steps,
            step: 0,
            round: 0,
            most_active,
            rest: Vec::new(),
        })
    }

    /// The number of pairs of all rounds.
    pub fn pairs(&self) -> u64 {
        self.planned
    }

    /// The next round with the pairs that `is_wanted` accepts; `None` after the last one.
    pub fn next(&mut self, mut is_wanted: impl FnMut(TestId, Pair) -> bool) -> Option<Round> {
        loop {
            let SweepStep { test, first, .. } = *self.steps.get(self.step)?;
            if self.covers < first {
                for shape in self.shapes[self.covers..first].iter().flatten() {
                    add_all(shape, |pair| {
                        self.covered.insert(pair);
                    });
                }
                self.covers = first;
            }
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
                let covered = &self.covered;
                self.rest.retain(|pair| !covered.contains(*pair) && is_wanted(test, *pair));
                self.round += 1;
            }
            if !self.rest.is_empty() {
                let kept = self.rest.split_off(self.most_active.min(self.rest.len()));
                let pairs = std::mem::replace(&mut self.rest, kept);
                return Some(Round { test, stage: Stage::Sweep, pairs });
            }
        }
    }

    /// Ends the sweep: calls `each` with the pairs that are left.
    pub fn drain(&mut self, mut each: impl FnMut(TestId, Pair)) {
        self.most_active = usize::MAX;
        while let Some(Round { test, pairs, .. }) = self.next(|_, _| true) {
            pairs.into_iter().for_each(|pair| each(test, pair));
        }
    }
}

/// The number of different pairs. A single selection has each of them once.
fn pairs(shapes: &[Vec<Shape>], has_several_selections: bool) -> u64 {
    let shapes = shapes.iter().flatten();
    if !has_several_selections {
        return shapes.map(Shape::pairs).sum();
    }
    let mut seen = PairSet::default();
    let mut count = 0;
    for shape in shapes {
        add_all(shape, |pair| count += u64::from(seen.insert(pair)));
    }
    count
}

/// Calls `add` with each pair of a shape.
fn add_all(shape: &Shape, mut add: impl FnMut(Pair)) {
    let mut pairs = Vec::new();
    for round in 0..shape.rounds() {
        shape.add_round(round, &mut pairs);
        pairs.drain(..).for_each(&mut add);
    }
}

const BITS: u32 = u64::BITS;

#[derive(Clone, Debug, Default)]
pub(super) struct PairSet {
    /// The targets of each initiator.
    targets: HashMap<NicId, Vec<u64>>,
}

impl PairSet {
    /// Adds a pair. Returns whether it was missing.
    pub fn insert(&mut self, pair: Pair) -> bool {
        let words = self.targets.entry(pair.initiator).or_default();
        let (word, bit) = place(pair.target);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        is_new
    }

    /// Removes a pair. Returns whether the set had it.
    pub fn remove(&mut self, pair: Pair) -> bool {
        let had = self.contains(pair);
        if let (true, Some(words)) = (had, self.targets.get_mut(&pair.initiator)) {
            let (word, bit) = place(pair.target);
            words[word] &= !bit;
        }
        had
    }

    /// The number of pairs.
    pub fn len(&self) -> u64 {
        let words = self.targets.values().flatten();
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    pub fn contains(&self, pair: Pair) -> bool {
        let (word, bit) = place(pair.target);
        let words = self.targets.get(&pair.initiator);
        words.is_some_and(|words| words.get(word).is_some_and(|own| own & bit != 0))
    }
}

/// The word of a target, and its bit there.
fn place(target: NicId) -> (usize, u64) {
    ((target.0 / BITS) as usize, 1 << (target.0 % BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::pairs::parse;
    use super::super::testing::{Cluster, pair};
    use super::*;

    fn rounds(
        shape: [u16; 4],
        pairs: &str,
        order: NicOrder,
        most_active: Option<u32>,
    ) -> Vec<Round> {
        let roster = Cluster::new(shape, &[], 0).roster;
        let file = "1 0 1\n1 2 nid000003\n2 1 1\n3 0 1";
        let selections = parse(pairs, |_| Ok(file.into())).unwrap();
        let mut sweep = Sweep::new(&roster, &selections, 1, order, most_active, 1).unwrap();
        let planned = sweep.pairs();
        let rounds: Vec<Round> = std::iter::from_fn(|| sweep.next(|_, _| true)).collect();
        assert_eq!(rounds.iter().map(|round| round.pairs.len() as u64).sum::<u64>(), planned);
        for round in &rounds {
            let nics = round.pairs.iter().flat_map(|pair| {
                let is_loopback = pair.initiator == pair.target;
                [Some(pair.initiator), (!is_loopback).then_some(pair.target)].into_iter().flatten()
            });
            let mut seen = HashSet::new();
            assert!(nics.into_iter().all(|nic| seen.insert(nic)), "{round:?}");
        }
        rounds
    }

    fn all_pairs(rounds: &[Round]) -> Vec<(u32, u32)> {
        rounds
            .iter()
            .flat_map(|round| &round.pairs)
            .map(|pair| (pair.initiator.0, pair.target.0))
            .collect()
    }

    #[test]
    fn makes_rounds_of_each_selection() {
        let in_turn = |shape, pairs| rounds(shape, pairs, NicOrder::InTurn, None);
        let counts = |shape, pairs| {
            let rounds = in_turn(shape, pairs);
            (rounds.len(), all_pairs(&rounds).len())
        };
        let flat = [0, 0, 9, 1];
        assert_eq!(counts(flat, "loopback"), (1, 9));
        assert_eq!(counts(flat, "neighbours"), (4, 4 + 4 + 4 + 1));
        assert_eq!(counts(flat, "halves"), (1, 4));
        assert_eq!(counts(flat, "all"), (9, 36));
        assert_eq!(counts(flat, "random:5"), (5, 20));
        assert_eq!(counts(flat, "random:100"), (18, 72));
        assert_eq!(counts([0, 0, 4, 1], "random:1"), (6, 12));
        assert_eq!(counts([2, 3, 4, 1], "within-switch"), (3, 6 * 6));
        assert_eq!(counts([2, 3, 4, 1], "switches"), (3, 2 * 3));
        assert_eq!(counts([3, 2, 4, 1], "groups"), (3, 3 * 4));
        assert_eq!(counts([3, 1, 1, 1], "groups"), (3, 3));
        assert_eq!(all_pairs(&in_turn(flat, "@f")), [(0, 1), (2, 3), (1, 1)]);
        assert_eq!(in_turn(flat, "loopback,halves").len(), 2);
    }

    #[test]
    fn makes_each_pair_of_several_selections_once() {
        for pairs in ["halves,all", "all,halves,neighbours,random:20", "@f", "all,@f"] {
            for order in [NicOrder::InTurn, NicOrder::AtOnce] {
                let pairs = all_pairs(&rounds([0, 0, 6, 2], pairs, order, Some(2)));
                let different: HashSet<_> = pairs.iter().collect();
                assert_eq!(different.len(), pairs.len());
            }
        }
    }

    #[test]
    fn joins_equal_nics_of_nodes_in_turn_or_at_once() {
        let same = |pairs: &[(u32, u32)]| pairs.iter().all(|(one, other)| one % 2 == other % 2);
        let in_turn = rounds([0, 0, 6, 2], "all", NicOrder::InTurn, None);
        let at_once = rounds([0, 0, 6, 2], "all", NicOrder::AtOnce, None);
        assert_eq!((in_turn.len(), at_once.len()), (10, 5));
        let sorted = |rounds: &[Round]| {
            let mut pairs = all_pairs(rounds);
            pairs.sort_unstable();
            pairs
        };
        assert!(same(&all_pairs(&in_turn)));
        assert_eq!(sorted(&in_turn), sorted(&at_once));
    }

    #[test]
    fn divides_rounds_with_too_many_pairs() {
        let rounds = rounds([0, 0, 10, 1], "all", NicOrder::InTurn, Some(2));
        assert_eq!(rounds.len(), 9 * 3);
        assert!(rounds.iter().all(|round| round.pairs.len() <= 2));
    }

    #[test]
    fn refuses_selections_that_the_roster_cannot_serve() {
        let roster = Cluster::new([0, 0, 4, 1], &[], 0).roster;
        for (pairs, file, why) in [
            (
                "switches",
                "",
                "switches needs the locations of NICs, and none is known (see --locations)",
            ),
            ("@f", "1 0 9", "line 1: no process has the host or rank '9'"),
            ("@f", "1 0 1\n1 nid000000 2", "line 2: a node occurs twice in round 1"),
        ] {
            let selections = parse(pairs, |_| Ok(file.into())).unwrap();
            let sweep = Sweep::new(&roster, &selections, 1, NicOrder::InTurn, None, 1);
            assert_eq!(sweep.unwrap_err(), why);
        }
    }

    #[test]
    fn has_each_pair_once_in_its_direction() {
        let mut set = PairSet::default();
        assert!(set.insert(pair(1, 200)) && set.insert(pair(1, 3)));
        assert!(!set.insert(pair(1, 200)));
        assert!(set.contains(pair(1, 200)) && set.contains(pair(1, 3)));
        assert_eq!(set.len(), 2);
        assert!(set.remove(pair(1, 3)) && !set.remove(pair(1, 3)));
        assert!(!set.contains(pair(1, 3)) && set.contains(pair(1, 200)));
        assert!(!set.contains(pair(200, 1)) && !set.contains(pair(1, 72)));
    }
}
