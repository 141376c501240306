//! The search for the parts that explain the pairs outside the limits (jobs.md 3.3).
//!
//! A part explains pairs in a role if more than half of its pairs in this role are outside. The part that
//! explains most is a cause. Its pairs are set aside, because they say nothing about its partners, and
//! the search begins again. What no part explains is the path between two NICs.
//!
//! Each pass finds all parts that explain more than any other part that their pairs touch: the order
//! among these does not matter. So the number of passes hardly grows with that of causes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::answer::Pair;
use super::failures::most_failing;
use super::findings::{Certainty, Direction, Unit};
use super::limits::Limits;
use super::outside::{Outside, RetestOutcome};
use super::result_store::{CLASSES, Key, ResultStore, RoleCounts};
use super::roster::Roster;
use super::tally::{LEAST_MEMBERS, Tally};
use super::units::{group_pair, members, parts_of_nic};

/// Share of pairs outside the limits above which a part explains them: at first,
const MOST: f64 = 0.5;
/// and for what is left then, with more partners: a part that is bad now and then, or by little.
const MANY: f64 = 0.2;

/// A part of the cluster with the pairs that it explains.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The part.
    pub unit: Unit,
    /// In which role.
    pub direction: Direction,
    /// The pairs that it explains.
    pub pairs: Vec<Outside>,
}

impl Explanation {
    /// Adds what the same part explains besides.
    fn extend(&mut self, other: Self) {
        if self.direction != other.direction {
            self.direction = Direction::Both;
        }
        self.pairs.extend(other.pairs);
    }

    /// Returns how sure the survey is.
    pub fn certainty(&self) -> Certainty {
        let is_any = |outcome| self.pairs.iter().any(|one| one.outcome == outcome);
        if is_any(RetestOutcome::Confirmed) {
            Certainty::Bad
        } else if is_any(RetestOutcome::Open) {
            Certainty::Suspect
        } else {
            Certainty::Transient
        }
    }
}

/// A part that may be to blame, with what it would explain.
#[derive(Debug, Default)]
struct Candidate {
    pairs: Vec<usize>,
    in_role: [bool; 2],
    good: u32,
}

/// The search for causes among pairs outside the limits.
struct Search<'a> {
    roster: &'a Roster,
    evidence: &'a ResultStore,
    /// Whether slow pairs can be outside the limits, by test and class.
    is_judged: Vec<[bool; CLASSES]>,
    /// Whether pairs with many retries can be outside the limits.
    judges_retries: Vec<[bool; CLASSES]>,
    outside: Vec<Outside>,
    /// Whether no cause has been found for it yet.
    is_open: Vec<bool>,
    /// Pairs that causes have explained, by test and NIC.
    explained: HashMap<(u16, u32), RoleCounts>,
    explanations: Vec<Explanation>,
    /// The places of parts in `causes`.
    known: HashMap<Unit, usize>,
}

/// Returns the parts that explain pairs outside the limits.
pub fn search(
    evidence: &ResultStore,
    limits: &Limits,
    roster: &Roster,
    outside: Vec<Outside>,
) -> Vec<Explanation> {
    let tests = 0..evidence.tests().len() as u16;
    let mut is_judged: Vec<[bool; CLASSES]> = tests
        .map(|test| [evidence.expected(test).is_some(); CLASSES])
        .collect();
    let mut judges_retries = vec![[false; CLASSES]; is_judged.len()];
    for ((test, class), limit) in limits {
        judges_retries[*test as usize][*class as usize] = limit.retries.is_finite();
        is_judged[*test as usize][*class as usize] |= limit.cost.is_finite();
    }
    let mut search = Search {
        roster,
        evidence,
        is_judged,
        judges_retries,
        is_open: vec![true; outside.len()],
        outside,
        explained: HashMap::new(),
        explanations: Vec::new(),
        known: HashMap::new(),
    };
    for (share, partners) in [(MOST, 2), (MANY, LEAST_MEMBERS)] {
        loop {
            let best = search.best(share, partners);
            if best.is_empty() {
                break;
            }
            for (unit, candidate) in best {
                search.blame(unit, &candidate);
            }
        }
    }
    search.blame_failing();
    search.blame_paths();
    search.explanations
}

impl Search<'_> {
    /// Returns the parts that explain more pairs than any other part that their pairs touch. Of several
    /// with the same number, that with the fewest good pairs is first, and then the smallest.
    fn best(&self, share: f64, partners: usize) -> Vec<(Unit, Candidate)> {
        let tallies = self.tallies(share);
        let mut candidates: BTreeMap<Unit, Candidate> = BTreeMap::new();
        for (index, one) in self.open() {
            let class = one.class as usize;
            let mut units: Vec<(Unit, usize)> = Vec::new();
            for (role, nic) in [one.pair.initiator, one.pair.target]
                .into_iter()
                .enumerate()
            {
                for unit in parts_of_nic(self.roster, nic).into_iter().flatten() {
                    let tally = &tallies[&unit];
                    if tally.may_be_blamed(unit, partners)
                        && tally.explains(one.test, role, class, share)
                    {
                        units.push((unit, role));
                    }
                }
            }
            for (unit, role) in units {
                let candidate = candidates.entry(unit).or_default();
                candidate.in_role[role] = true;
                if candidate.pairs.last() != Some(&index) {
                    candidate.pairs.push(index);
                }
            }
        }
        for (unit, candidate) in &mut candidates {
            let tally = &tallies[unit];
            let all = tally.measured.values().flatten().flatten().sum::<u32>();
            let bad = tally.outside.values().flatten().flatten().sum::<u32>();
            candidate.good = all.saturating_sub(bad);
        }
        candidates.extend(self.group_pairs(share));
        let mut best: Vec<(Unit, Candidate)> = candidates.into_iter().collect();
        best.sort_by_key(|(unit, one)| (Reverse(one.pairs.len()), one.good, *unit));
        let mut is_touched = vec![false; self.roster.nics.len()];
        best.retain(|(unit, candidate)| {
            let pairs = candidate.pairs.iter();
            let nics: Vec<u32> = pairs
                .flat_map(|index| {
                    let Pair { initiator, target } = self.outside[*index].pair;
                    [initiator, target]
                })
                .collect();
            let is_own = |nic: u32| {
                matches!(unit, Unit::GroupPair(..))
                    || parts_of_nic(self.roster, nic).contains(&Some(*unit))
            };
            let is_first = !nics
                .iter()
                .any(|nic| is_touched[*nic as usize] && is_own(*nic));
            for nic in nics {
                is_touched[nic as usize] = true;
            }
            is_first
        });
        best
    }

    fn open(&self) -> impl Iterator<Item = (usize, &Outside)> {
        self.outside
            .iter()
            .enumerate()
            .filter(|(index, _)| self.is_open[*index])
    }

    /// Returns the tallies of all parts with pairs outside.
    fn tallies(&self, share: f64) -> HashMap<Unit, Tally> {
        let mut of_nics: BTreeMap<u32, Tally> = BTreeMap::new();
        for (_, one) in self.open() {
            let Pair { initiator, target } = one.pair;
            for (role, nic, partner) in [(0, initiator, target), (1, target, initiator)] {
                let tally = of_nics.entry(nic).or_default();
                tally.outside.entry(one.test).or_default()[role][one.class as usize] += 1;
                tally.partners.insert(partner);
            }
        }
        let tests = self.evidence.tests().len() as u16;
        // All NICs of a part count as its members: the good ones too.
        let larger: BTreeSet<Unit> = of_nics
            .keys()
            .flat_map(|nic| {
                parts_of_nic(self.roster, *nic)
                    .into_iter()
                    .skip(1)
                    .flatten()
            })
            .collect();
        let mut tallies: HashMap<Unit, Tally> = HashMap::new();
        for nic in 0..self.roster.nics.len() as u32 {
            let units = parts_of_nic(self.roster, nic);
            if !of_nics.contains_key(&nic)
                && !units
                    .iter()
                    .skip(1)
                    .flatten()
                    .any(|unit| larger.contains(unit))
            {
                continue;
            }
            let mut tally = of_nics.remove(&nic).unwrap_or_default();
            for test in 0..tests {
                let mut cells = *self.evidence.counts(test, nic);
                if let Some(gone) = self.explained.get(&(test, nic)) {
                    for (cell, gone) in cells.iter_mut().flatten().zip(gone.iter().flatten()) {
                        *cell = cell.saturating_sub(*gone);
                    }
                }
                let outside = tally.outside.get(&test).copied().unwrap_or_default();
                for class in (0..CLASSES).filter(|class| !self.is_judged[test as usize][*class]) {
                    for role in 0..2 {
                        // Retries of few of many pairs blame no NIC.
                        let has_retries =
                            outside[role][class] > 0 && self.judges_retries[test as usize][class];
                        if !has_retries {
                            cells[role][class] = outside[role][class];
                        }
                    }
                }
                tally.measured.insert(test, cells);
            }
            if tally
                .measured
                .values()
                .flatten()
                .flatten()
                .all(|count| *count == 0)
            {
                continue;
            }
            let is_bad = tally.explains_any(share);
            for unit in units
                .into_iter()
                .skip(1)
                .flatten()
                .filter(|unit| larger.contains(unit))
            {
                let sum = tallies.entry(unit).or_default();
                sum.add(&tally);
                sum.bad_members += usize::from(is_bad);
            }
            tallies.insert(Unit::Nic(nic), tally);
        }
        tallies
    }

    /// Returns the pairs of groups most of whose pairs are outside, by several NICs of both.
    fn group_pairs(&self, share: f64) -> BTreeMap<Unit, Candidate> {
        let mut crossings: BTreeMap<Unit, Vec<usize>> = BTreeMap::new();
        for (index, one) in self.open() {
            if let Some(unit) = group_pair(self.roster, one.pair) {
                crossings.entry(unit).or_default().push(index);
            }
        }
        let candidate = |(unit, pairs): (Unit, Vec<usize>)| {
            let outside = || pairs.iter().map(|index| &self.outside[*index]);
            let tests: BTreeSet<u16> = outside().map(|one| one.test).collect();
            let failed = outside().filter(|one| one.value.is_none()).count() as u64;
            let with_figures = tests
                .iter()
                .map(|test| self.evidence.crossings(*test, unit));
            let measured = with_figures.sum::<u64>() + failed;
            let initiators: BTreeSet<u32> = outside().map(|one| one.pair.initiator).collect();
            let targets: BTreeSet<u32> = outside().map(|one| one.pair.target).collect();
            let is_wide = initiators.len() >= 2 && targets.len() >= 2;
            let is_cause =
                pairs.len() >= LEAST_MEMBERS && pairs.len() as f64 > share * measured as f64;
            let good = measured.saturating_sub(pairs.len() as u64) as u32;
            (is_wide && is_cause).then_some((
                unit,
                Candidate {
                    pairs,
                    in_role: [true; 2],
                    good,
                },
            ))
        };
        crossings.into_iter().filter_map(candidate).collect()
    }

    /// Makes a part the cause of the pairs that it explains.
    fn blame(&mut self, unit: Unit, candidate: &Candidate) {
        for index in &candidate.pairs {
            self.set_aside(*index);
        }
        let direction = match candidate.in_role {
            [true, false] if self.is_measured(unit, 1, candidate) => Direction::Initiator,
            [false, true] if self.is_measured(unit, 0, candidate) => Direction::Target,
            _ => Direction::Both,
        };
        let pairs = candidate
            .pairs
            .iter()
            .map(|index| self.outside[*index])
            .collect();
        let explanation = Explanation {
            unit,
            direction,
            pairs,
        };
        match self.known.get(&unit) {
            Some(place) => self.explanations[*place].extend(explanation),
            None => {
                self.known.insert(unit, self.explanations.len());
                self.explanations.push(explanation);
            }
        }
    }

    fn is_measured(&self, unit: Unit, role: usize, candidate: &Candidate) -> bool {
        let tests: BTreeSet<u16> = candidate
            .pairs
            .iter()
            .map(|index| self.outside[*index].test)
            .collect();
        members(unit, self.roster).iter().any(|nic| {
            tests.iter().any(|test| {
                self.evidence.counts(*test, *nic)[role]
                    .iter()
                    .any(|count| *count > 0)
            })
        })
    }

    fn set_aside(&mut self, index: usize) {
        self.is_open[index] = false;
        let one = self.outside[index];
        for (role, nic) in [one.pair.initiator, one.pair.target]
            .into_iter()
            .enumerate()
        {
            self.explained.entry((one.test, nic)).or_default()[role][one.class as usize] += 1;
        }
    }

    /// Blames NICs for failures with several partners, whatever their share is, and those that are blamed
    /// for failures already for all others of theirs.
    fn blame_failing(&mut self) {
        let failing = self
            .explanations
            .iter()
            .filter(|explanation| explanation.pairs.iter().any(|one| one.value.is_none()));
        let nics: HashSet<u32> = failing
            .filter_map(|explanation| match explanation.unit {
                Unit::Nic(nic) => Some(nic),
                _ => None,
            })
            .collect();
        let mut failures: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (index, one) in self.open().filter(|(_, one)| one.value.is_none()) {
            let ends = [one.pair.initiator, one.pair.target];
            if let Some(nic) = ends.into_iter().find(|nic| nics.contains(nic)) {
                failures.entry(nic).or_default().push(index);
            }
        }
        loop {
            for (nic, pairs) in failures {
                self.blame_nic(nic, pairs);
            }
            failures = most_failing(self.open(), |nic| self.evidence.answers(nic));
            if failures.is_empty() {
                return;
            }
        }
    }

    fn blame_nic(&mut self, nic: u32, pairs: Vec<usize>) {
        let candidate = Candidate {
            pairs,
            in_role: [true; 2],
            good: 0,
        };
        self.blame(Unit::Nic(nic), &candidate);
    }

    /// Blames the paths of the pairs that are left; both directions of a pair are one path.
    fn blame_paths(&mut self) {
        let mut paths: BTreeMap<(u32, u32), Vec<Outside>> = BTreeMap::new();
        for (_, one) in self.open() {
            let Pair { initiator, target } = one.pair;
            paths
                .entry((initiator.min(target), initiator.max(target)))
                .or_default()
                .push(*one);
        }
        let measured: HashSet<Key> = self.evidence.keys().collect();
        for pairs in paths.into_values() {
            let pair = pairs[0].pair;
            let is_reversed = pairs.iter().any(|one| one.pair != pair);
            let reverse = Pair {
                initiator: pair.target,
                target: pair.initiator,
            };
            let is_loopback = pair == reverse;
            let direction =
                if !is_loopback && !is_reversed && measured.contains(&(pairs[0].test, reverse)) {
                    Direction::Initiator
                } else {
                    Direction::Both
                };
            let unit = if is_loopback {
                Unit::Nic(pair.initiator)
            } else {
                Unit::Path(pair)
            };
            self.explanations.push(Explanation {
                unit,
                direction,
                pairs,
            });
        }
    }
}
