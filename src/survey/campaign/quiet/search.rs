//! The search for the parts that explain the pairs outside the limits (jobs.md 3.3). The fit has
//! found the parts that are slow; this search finds those whose pairs fail, need many retries, or
//! do not meet --expect.
//!
//! A part explains pairs in a role if more than half of its pairs in this role are outside. The
//! part that explains most pairs is a cause. The search sets the pairs of this cause aside, because
//! they say nothing about the partners of the part, and begins again. A pair that no part explains
//! has the path between its two NICs as its cause, unless one of them is bad and nothing tells the
//! path from it.
//!
//! Each pass finds all parts that explain more pairs than any other part that their pairs touch:
//! the order among these parts does not matter. So the number of passes hardly grows with the
//! number of causes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::findings::{Certainty, Direction, LimitSource};
use super::fit::{PairFigures, has_effect};
use super::outside::{Outside, RetestOutcome, most_failing};
use super::result_store::{ResultStore, RoleCounts};
use super::roster::{
    NicId, Pair, Role, Roster, TestId, TestPair, Unit, crossing, group_pair, members, parts_of_nic,
};
use super::selection::{LEAST_MEMBERS, are_enough_of_links};
use super::slow_parts::{Judgement, SlowPart};
use crate::blame::LEAST_PARTNERS;
use crew::location::Class;

/// Share of its pairs outside the limits above which a part explains them, in the first search.
const MOST: f64 = 0.5;

/// The same share in the second search, which asks for more partners: it finds a part that is bad
/// now and then, or a little.
const OFTEN: f64 = 0.2;

/// A part of the cluster with the pairs that it explains.
#[derive(Clone, Debug)]
pub struct PartExplanation {
    /// The part.
    pub unit: Unit,
    /// The role of the part in these pairs.
    pub direction: Direction,
    /// How sure the survey is.
    pub certainty: Certainty,
    /// The pairs that the part explains.
    pub pairs: Vec<Outside>,
}

impl PartExplanation {
    /// Adds the pairs of another explanation with the same part.
    fn extend(&mut self, other: Self) {
        if self.direction != other.direction {
            self.direction = Direction::Both;
        }
        self.certainty = self.certainty.max(other.certainty);
        self.pairs.extend(other.pairs);
    }
}

/// Returns how sure the survey is about a part with these pairs.
fn certainty_of(pairs: &[Outside]) -> Certainty {
    let has = |outcome| pairs.iter().any(|one| one.outcome == outcome);
    if has(RetestOutcome::Confirmed) {
        Certainty::Bad
    } else if has(RetestOutcome::Open) {
        Certainty::Suspect
    } else {
        Certainty::Transient
    }
}

/// Whether a part is a path that only looks slow: processes waited for CPUs in each of its
/// measurements, and no retest has confirmed it.
pub fn waited_for_cpus(part: &PartExplanation, results: &ResultStore) -> bool {
    let is_disturbed = |one: &Outside| {
        let mut all = results.observations(one.test).iter().filter(|own| own.pair == one.pair);
        let is_judged_by_others = one.value.is_some() && one.source == LimitSource::Population;
        is_judged_by_others && all.all(|own| own.is_disturbed)
    };
    matches!(part.unit, Unit::Path(_))
        && part.certainty == Certainty::Suspect
        && part.pairs.iter().all(is_disturbed)
}

/// A part that may be a cause, with the pairs that it would explain.
#[derive(Debug, Default)]
struct Candidate {
    /// Indices of pairs outside the limits.
    pairs: Vec<usize>,
    roles: BTreeSet<Role>,
    /// Number of pairs of the part inside the limits.
    good: u32,
}

/// The search for causes among pairs outside the limits.
struct CauseSearch<'a> {
    roster: &'a Roster,
    results: &'a ResultStore,
    judgement: &'a Judgement,
    outside: Vec<Outside>,
    /// Whether a pair has no cause yet.
    is_open: Vec<bool>,
    /// Number of pairs with a cause, by test and NIC.
    explained: HashMap<(TestId, NicId), RoleCounts>,
    explanations: Vec<PartExplanation>,
    /// Index of each part in `explanations`.
    positions: HashMap<Unit, usize>,
}

/// The parts that explain pairs outside the limits.
pub fn search(
    results: &ResultStore,
    judgement: &Judgement,
    roster: &Roster,
    outside: Vec<Outside>,
) -> Vec<PartExplanation> {
    let mut search = CauseSearch {
        roster,
        results,
        judgement,
        is_open: vec![true; outside.len()],
        outside,
        explained: HashMap::new(),
        explanations: Vec::new(),
        positions: HashMap::new(),
    };
    for (index, part) in judgement.parts.iter().enumerate() {
        search.explain_slow(index, part);
    }
    for (share, partners) in [(MOST, LEAST_PARTNERS), (OFTEN, LEAST_MEMBERS)] {
        loop {
            let best = search.best(share, partners);
            if best.is_empty() {
                break;
            }
            for (unit, candidate) in best {
                search.explain(unit, &candidate, None);
            }
        }
    }
    search.explain_failures();
    search.explain_paths();
    search.explanations
}

impl CauseSearch<'_> {
    /// The parts that explain more pairs than any other part that their pairs touch. Ties: the part
    /// with the fewest good pairs, and then the smallest part.
    fn best(&self, share: f64, partners: usize) -> Vec<(Unit, Candidate)> {
        let tallies = self.tallies(share);
        let mut candidates: BTreeMap<Unit, Candidate> = BTreeMap::new();
        for (index, one) in self.with_faults() {
            for (role, nic) in one.pair.roles() {
                for unit in parts_of_nic(self.roster, nic).into_iter().flatten() {
                    let tally = &tallies[&unit];
                    if tally.may_be_cause(unit, partners)
                        && tally.explains(one.test, role, one.class, share)
                    {
                        let candidate = candidates.entry(unit).or_default();
                        candidate.roles.insert(role);
                        if candidate.pairs.last() != Some(&index) {
                            candidate.pairs.push(index);
                        }
                    }
                }
            }
        }
        for (unit, candidate) in &mut candidates {
            let tally = &tallies[unit];
            let measured: u32 = tally.measured.values().map(RoleCounts::total).sum();
            let outside: u32 = tally.outside.values().map(RoleCounts::total).sum();
            candidate.good = measured.saturating_sub(outside);
        }
        candidates.extend(self.group_pairs(share));
        let mut best: Vec<(Unit, Candidate)> = candidates.into_iter().collect();
        best.sort_by_key(|(unit, one)| (Reverse(one.pairs.len()), one.good, *unit));
        let mut is_touched = vec![false; self.roster.nics.len()];
        best.retain(|(unit, candidate)| {
            let pairs = candidate.pairs.iter();
            let nics: Vec<NicId> =
                pairs.flat_map(|index| self.outside[*index].pair.nics()).collect();
            let is_own = |nic: NicId| {
                matches!(unit, Unit::GroupPair(..))
                    || parts_of_nic(self.roster, nic).contains(&Some(*unit))
            };
            let is_first = !nics.iter().any(|nic| is_touched[nic.index()] && is_own(*nic));
            for nic in nics {
                is_touched[nic.index()] = true;
            }
            is_first
        });
        best
    }

    /// The pairs without a cause, with their indices.
    fn open(&self) -> impl Iterator<Item = (usize, &Outside)> {
        self.outside.iter().enumerate().filter(|(index, _)| self.is_open[*index])
    }

    /// The pairs without a cause that are not only slow, with their indices.
    fn with_faults(&self) -> impl Iterator<Item = (usize, &Outside)> {
        let open = self.open();
        open.filter(|(_, one)| one.source != LimitSource::Population)
    }

    /// The tallies of all parts with pairs outside the limits.
    fn tallies(&self, share: f64) -> HashMap<Unit, PartTally> {
        let mut nic_tallies: BTreeMap<NicId, PartTally> = BTreeMap::new();
        for (_, one) in self.with_faults() {
            for (role, nic) in one.pair.roles() {
                let tally = nic_tallies.entry(nic).or_default();
                tally.outside.entry(one.test).or_default()[(role, one.class)] += 1;
                tally.partners.insert(one.pair.partner(nic));
            }
        }
        // All NICs of a part count as its members: the good ones too.
        let larger: BTreeSet<Unit> =
            nic_tallies.keys().flat_map(|nic| larger_parts(self.roster, *nic)).collect();
        let mut tallies: HashMap<Unit, PartTally> = HashMap::new();
        for nic in self.roster.nic_ids() {
            let own_larger = || larger_parts(self.roster, nic).filter(|unit| larger.contains(unit));
            if !nic_tallies.contains_key(&nic) && own_larger().next().is_none() {
                continue;
            }
            let mut tally = nic_tallies.remove(&nic).unwrap_or_default();
            self.add_measured(nic, &mut tally);
            if tally.measured.values().all(|counts| counts.total() == 0) {
                continue;
            }
            let is_bad = tally.explains_any(share);
            for unit in own_larger() {
                let sum = tallies.entry(unit).or_default();
                sum.add(&tally);
                sum.bad_members += usize::from(is_bad);
            }
            tallies.insert(Unit::Nic(nic), tally);
        }
        tallies
    }

    /// Adds the numbers of measured pairs of a NIC that can be outside the limits, and have no
    /// cause.
    fn add_measured(&self, nic: NicId, tally: &mut PartTally) {
        for test in TestId::first(self.results.tests().len()) {
            let mut counts = *self.results.counts(test, nic);
            if let Some(explained) = self.explained.get(&(test, nic)) {
                counts.subtract(explained);
            }
            let outside = tally.outside.get(&test).copied().unwrap_or_default();
            // Any pair can miss --expect.
            if self.results.expected(test).is_some() {
                tally.measured.insert(test, counts);
                continue;
            }
            for class in Class::ALL {
                let limit = self.judgement.limits.get(&(test, class));
                let has_retry_limit = limit.is_some_and(|limit| limit.retries.is_finite());
                for role in Role::BOTH {
                    // A NIC is no cause of the retries of few of its many pairs.
                    let outside = outside[(role, class)];
                    if outside == 0 || !has_retry_limit {
                        counts[(role, class)] = outside;
                    }
                }
            }
            tally.measured.insert(test, counts);
        }
    }

    /// The pairs of groups that have most of their pairs outside the limits, by several NICs of
    /// both groups.
    fn group_pairs(&self, share: f64) -> BTreeMap<Unit, Candidate> {
        let mut crossings: BTreeMap<Unit, Vec<usize>> = BTreeMap::new();
        for (index, one) in self.with_faults() {
            if let Some(unit) = group_pair(self.roster, one.pair) {
                crossings.entry(unit).or_default().push(index);
            }
        }
        let mut candidates = BTreeMap::new();
        for (unit, pairs) in crossings {
            let outside = || pairs.iter().map(|index| &self.outside[*index]);
            let tests: BTreeSet<TestId> = outside().map(|one| one.test).collect();
            let failed = outside().filter(|one| one.value.is_none()).count() as u64;
            let with_figures = tests.iter().map(|test| self.results.crossings(*test, unit));
            let measured = with_figures.sum::<u64>() + failed;
            let slow: Vec<Pair> = outside().map(|one| one.pair).collect();
            if are_enough_of_links(&slow) && slow.len() as f64 > share * measured as f64 {
                let candidate = Candidate {
                    good: measured.saturating_sub(pairs.len() as u64) as u32,
                    pairs,
                    roles: Role::BOTH.into(),
                };
                candidates.insert(unit, candidate);
            }
        }
        candidates
    }

    /// Makes a part the cause of the pairs that it explains.
    fn explain(&mut self, unit: Unit, candidate: &Candidate, certainty: Option<Certainty>) {
        for index in &candidate.pairs {
            self.set_aside(*index);
        }
        let roles: Vec<Role> = candidate.roles.iter().copied().collect();
        let direction = match roles[..] {
            // A role of links is selected only if both directions are measured.
            [Role::Initiator] if matches!(unit, Unit::GroupPair(..)) => Direction::Initiator,
            [Role::Target] if matches!(unit, Unit::GroupPair(..)) => Direction::Target,
            [Role::Initiator] if self.is_measured(unit, Role::Target, candidate) => {
                Direction::Initiator
            }
            [Role::Target] if self.is_measured(unit, Role::Initiator, candidate) => {
                Direction::Target
            }
            _ => Direction::Both,
        };
        let pairs = candidate.pairs.iter().map(|index| self.outside[*index]);
        let pairs: Vec<Outside> = pairs.collect();
        self.add(PartExplanation {
            unit,
            direction,
            certainty: certainty.unwrap_or_else(|| certainty_of(&pairs)),
            pairs,
        });
    }

    /// Adds an explanation to an earlier one of the same part.
    fn add(&mut self, explanation: PartExplanation) {
        let unit = explanation.unit;
        match self.positions.get(&unit) {
            Some(position) => self.explanations[*position].extend(explanation),
            None => {
                self.positions.insert(unit, self.explanations.len());
                self.explanations.push(explanation);
            }
        }
    }

    /// Whether a NIC of the part has measured pairs in this role, in a test of the candidate.
    fn is_measured(&self, unit: Unit, role: Role, candidate: &Candidate) -> bool {
        let pairs = candidate.pairs.iter();
        let tests: BTreeSet<TestId> = pairs.map(|index| self.outside[*index].test).collect();
        members(unit, self.roster).iter().any(|nic| {
            let mut tests = tests.iter();
            tests.any(|test| self.results.counts(*test, *nic).pairs_in_role(role) > 0)
        })
    }

    /// Makes a slow part the cause of its measured pairs outside the limits. A transient part is
    /// not the cause of pairs that retests have not found inside them.
    fn explain_slow(&mut self, index: usize, part: &SlowPart) {
        let is_own = |one: &Outside| {
            let is_transient = one.outcome == RetestOutcome::Transient;
            one.test == part.test
                && (part.certainty != Certainty::Transient || is_transient)
                && one.value.is_some()
                && self.judgement.covering(one.test, one.pair, self.roster).contains(&index)
        };
        let all = 0..self.outside.len();
        let candidate = Candidate {
            pairs: all.filter(|pair| is_own(&self.outside[*pair])).collect(),
            roles: match part.role {
                Some(role) => [role].into(),
                None => Role::BOTH.into(),
            },
            good: 0,
        };
        if !candidate.pairs.is_empty() {
            self.explain(part.unit, &candidate, Some(part.certainty));
        }
    }

    /// Marks a pair as explained.
    fn set_aside(&mut self, index: usize) {
        if !std::mem::take(&mut self.is_open[index]) {
            return;
        }
        let one = self.outside[index];
        for (role, nic) in one.pair.roles() {
            self.explained.entry((one.test, nic)).or_default()[(role, one.class)] += 1;
        }
    }

    /// Explains failures by NICs. A NIC that is the cause of a failure is the cause of all of its
    /// failures. A NIC whose operations fail with several partners is a cause, whatever the share
    /// of its failures is.
    fn explain_failures(&mut self) {
        let failing = self
            .explanations
            .iter()
            .filter(|one| one.pairs.iter().any(|pair| pair.value.is_none()));
        let nics: HashSet<NicId> = failing
            .filter_map(|one| match one.unit {
                Unit::Nic(nic) => Some(nic),
                _ => None,
            })
            .collect();
        let mut failures: BTreeMap<NicId, Vec<usize>> = BTreeMap::new();
        for (index, one) in self.open().filter(|(_, one)| one.value.is_none()) {
            if let Some(nic) = one.pair.nics().into_iter().find(|nic| nics.contains(nic)) {
                failures.entry(nic).or_default().push(index);
            }
        }
        loop {
            for (nic, pairs) in failures {
                let candidate = Candidate { pairs, roles: Role::BOTH.into(), good: 0 };
                self.explain(Unit::Nic(nic), &candidate, None);
            }
            failures = most_failing(self.open(), |nic| self.results.answers(nic));
            if failures.is_empty() {
                return;
            }
        }
    }

    /// The links between two groups as the suspect of a path that has not failed, if every measured
    /// pair in its direction between these groups is slow: then nothing tells the path from the
    /// links, and its NICs are not to blame.
    fn links_of_path(&self, pairs: &[Outside]) -> Option<PartExplanation> {
        let (unit, role) = crossing(self.roster, pairs[0].pair)?;
        // Packets between groups may pass a slow switch of theirs.
        let is_end = |one: &PartExplanation| match (one.unit, unit) {
            (Unit::Switch { group, .. } | Unit::Group(group), Unit::GroupPair(first, second)) => {
                group == first || group == second
            }
            _ => false,
        };
        if self.explanations.iter().any(is_end) {
            return None;
        }
        let is_slow = |one: &Outside| {
            let is_own = crossing(self.roster, one.pair) == Some((unit, role));
            is_own && one.source == LimitSource::Population && one.test == pairs[0].test
        };
        if !pairs.iter().all(is_slow) || certainty_of(pairs) == Certainty::Transient {
            return None;
        }
        let slow: HashSet<Pair> =
            (self.outside.iter().filter(|one| is_slow(one))).map(|one| one.pair).collect();
        let across = |role| {
            let all = self.results.observations(pairs[0].test).iter();
            all.filter(move |one| crossing(self.roster, one.pair) == Some((unit, role)))
        };
        let has_reverse = across(role.other()).next().is_some();
        let is_whole = across(role).all(|one| slow.contains(&one.pair));
        is_whole.then(|| PartExplanation {
            unit,
            direction: match role {
                Role::Initiator if has_reverse => Direction::Initiator,
                Role::Target if has_reverse => Direction::Target,
                _ => Direction::Both,
            },
            certainty: Certainty::Suspect,
            pairs: pairs.to_vec(),
        })
    }

    /// The explanation of a NIC at an end of a path that explains its slow pairs as well: the NIC
    /// is bad because of other pairs, and all pairs like these that say something are about as
    /// slow. Then nothing tells the path from the NIC.
    fn bad_end(&self, pairs: &[Outside]) -> Option<usize> {
        pairs[0].pair.nics().into_iter().find_map(|nic| {
            let position = *self.positions.get(&Unit::Nic(nic))?;
            let PartExplanation { certainty, direction, .. } = self.explanations[position];
            let are_own = certainty == Certainty::Bad
                && pairs.iter().all(|one| self.are_all_as_slow(nic, direction, one));
            are_own.then_some(position)
        })
    }

    /// Whether all pairs of a NIC in its role in a slow pair, of the test and class of this pair,
    /// are about as slow. `direction` has the roles that count.
    fn are_all_as_slow(&self, nic: NicId, direction: Direction, one: &Outside) -> bool {
        let mut roles = one.pair.roles().into_iter();
        let own = roles.find(|(role, end)| *end == nic && direction.has(*role));
        let limit = self.judgement.limits.get(&(one.test, one.class));
        let (Some(own), Some(limit)) = (own, limit.filter(|limit| limit.has_costs())) else {
            return false;
        };
        let is_like = |observed: &&PairFigures| {
            observed.class == one.class && observed.pair.roles().contains(&own)
        };
        let like = || self.results.observations(one.test).iter().filter(is_like);
        let residual = |observed: &PairFigures| Some((observed.pair, limit.residual(observed)?));
        let effect = like().filter_map(residual).find(|(pair, _)| *pair == one.pair);
        effect.is_some_and(|(_, effect)| {
            one.source == LimitSource::Population
                && like().filter_map(residual).all(|(_, value)| has_effect(value, effect))
        })
    }

    /// Explains the remaining pairs by their paths. Both directions of a pair are one path.
    fn explain_paths(&mut self) {
        let mut paths: BTreeMap<(NicId, NicId), Vec<Outside>> = BTreeMap::new();
        for (_, one) in self.open() {
            let Pair { initiator, target } = one.pair;
            paths.entry((initiator.min(target), initiator.max(target))).or_default().push(*one);
        }
        let measured: HashSet<TestPair> = self.results.keys().collect();
        for pairs in paths.into_values() {
            let Outside { test, pair, .. } = pairs[0];
            let has_both_directions = pairs.iter().any(|one| one.pair != pair);
            let reverse_is_good = !pair.is_loopback()
                && !has_both_directions
                && measured.contains(&(test, pair.reversed()));
            if let Some(links) = self.links_of_path(&pairs) {
                self.add(links);
                continue;
            }
            if let Some(nic) = self.bad_end(&pairs) {
                self.explanations[nic].pairs.extend(pairs);
                continue;
            }
            self.explanations.push(PartExplanation {
                certainty: certainty_of(&pairs),
                unit: if pair.is_loopback() { Unit::Nic(pair.initiator) } else { Unit::Path(pair) },
                direction: if reverse_is_good { Direction::Initiator } else { Direction::Both },
                pairs,
            });
        }
    }
}

/// The parts that a NIC belongs to, without the NIC itself.
fn larger_parts(roster: &Roster, nic: NicId) -> impl Iterator<Item = Unit> {
    parts_of_nic(roster, nic).into_iter().skip(1).flatten()
}

/// The pairs of a part so far, counted by test, role and class.
#[derive(Debug, Default)]
struct PartTally {
    /// Pairs outside the limits.
    pub outside: BTreeMap<TestId, RoleCounts>,
    /// Pairs with an answer that can be outside the limits.
    pub measured: BTreeMap<TestId, RoleCounts>,
    /// The partners of the part in pairs outside the limits.
    pub partners: BTreeSet<NicId>,
    /// Number of NICs of the part.
    pub members: usize,
    /// Number of NICs of the part with most of their pairs in a role outside the limits.
    pub bad_members: usize,
}

impl PartTally {
    /// Adds the counts of a NIC.
    pub fn add(&mut self, other: &Self) {
        for (test, counts) in &other.outside {
            self.outside.entry(*test).or_default().add(counts);
        }
        for (test, counts) in &other.measured {
            self.measured.entry(*test).or_default().add(counts);
        }
        self.partners.extend(&other.partners);
        self.members += 1;
    }

    /// Whether more than the part `share` of the pairs in a role are outside the limits: of the
    /// pairs in loopback, or of all other pairs together.
    pub fn explains(&self, test: TestId, role: Role, class: Class, share: f64) -> bool {
        let sum = |counts: &BTreeMap<TestId, RoleCounts>| {
            counts.get(&test).map_or(0, |counts| {
                let in_loopback = counts[(role, Class::Loopback)];
                match class {
                    Class::Loopback => in_loopback,
                    _ => counts.pairs_in_role(role) - in_loopback,
                }
            })
        };
        let (outside, measured) = (sum(&self.outside), sum(&self.measured));
        outside > 0 && f64::from(outside) > share * f64::from(measured)
    }

    /// Whether [`Self::explains`] holds for any test, role and class.
    pub fn explains_any(&self, share: f64) -> bool {
        self.outside.keys().any(|test| {
            Role::BOTH.into_iter().any(|role| {
                let mut classes = Class::ALL.into_iter();
                classes.any(|class| self.explains(*test, role, class, share))
            })
        })
    }

    /// Whether enough pairs of the part have been measured for a cause.
    pub fn may_be_cause(&self, unit: Unit, partners: usize) -> bool {
        match unit {
            Unit::Nic(_) => self.partners.len() >= partners,
            Unit::Node(_) => self.members >= 2 && self.bad_members == self.members,
            _ => self.members >= LEAST_MEMBERS && self.bad_members * 2 > self.members,
        }
    }
}
