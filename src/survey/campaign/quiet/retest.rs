//! The pairs that a survey measures after the sweep (jobs.md 3.3): suspect pairs again, their NICs
//! with other partners, good pairs beside retests for comparison, and the pairs of a class that
//! judges nothing because they differ too much.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use fastrand::Rng;

use super::answer::Stage;
use super::coverage::why_unusable;
use super::explanation::{FEW_NICS, FEW_SUSPECTS};
use super::findings::Certainty;
use super::outside::Outside;
use super::result_store::ResultStore;
use super::roster::{NicId, Pair, PopulationKey, Role, Roster, TestId, TestPair, Unit, members};
use super::rounds::{NicOrder, Round};
use super::search::PartExplanation;
use super::slow_parts::Judgement;
use crew::location::Class;

/// Pairs of a NIC, of a larger part or of a path that are retested at a time.
const PAIRS_OF_NIC: usize = 4;
const PAIRS_OF_LARGER: usize = 8;

/// Rounds between two comparisons: what slows the cluster down for a while lasts longer.
const ROUNDS_BETWEEN: usize = 4;

/// Number of partners of a suspect NIC in each role, if the cluster has as many.
const LEAST_PARTNERS: usize = 3;

/// Pairs that are measured in disjoint rounds.
#[derive(Debug, Default)]
pub struct Queue {
    /// The pairs of each stage. All rounds of one stage end before the next stage begins.
    parts: VecDeque<(Stage, VecDeque<TestPair>)>,
    most_active: usize,
}

impl Queue {
    /// Creates a queue whose rounds have at most `most_active` pairs.
    pub fn new(pairs: Vec<TestPair>, stage: Stage, most_active: usize) -> Self {
        Self { parts: VecDeque::from([(stage, pairs.into())]), most_active: most_active.max(1) }
    }

    /// Adds a pair of each class of a test for comparison before all pairs of the test, after them,
    /// and between parts of them.
    pub fn compare(mut self, good: &mut GoodPairs) -> Self {
        let mut compared = |test| (Stage::Comparison, good.take(test).into());
        let most = self.most_active.saturating_mul(ROUNDS_BETWEEN);
        let mut parts = VecDeque::new();
        let mut last = None;
        for (stage, mut pairs) in self.parts {
            while let Some((test, _)) = pairs.front().copied() {
                let same = pairs.iter().take_while(|pair| pair.0 == test).count();
                let rest = pairs.split_off(same.min(most));
                if last.replace(test) != Some(test) {
                    parts.push_back(compared(test));
                }
                parts.extend([(stage, pairs), compared(test)]);
                pairs = rest;
            }
        }
        self.parts = parts;
        self
    }

    /// The pairs of the sweep that no round has yet.
    pub fn sweep_pairs(&self) -> impl Iterator<Item = TestPair> {
        let sweep_pairs = self.parts.iter().filter(|(stage, _)| *stage == Stage::Sweep);
        sweep_pairs.flat_map(|(_, pairs)| pairs).copied()
    }

    /// Removes the pairs that `is_wanted` refuses. Returns the removed pairs.
    pub fn refuse(&mut self, is_wanted: impl Fn(Pair) -> bool) -> Vec<TestPair> {
        let mut refused = Vec::new();
        for (_, pairs) in &mut self.parts {
            pairs.retain(|key| {
                let is_kept = is_wanted(key.1);
                if !is_kept {
                    refused.push(*key);
                }
                is_kept
            });
        }
        refused
    }

    /// The next round. No node occurs twice in it if the NICs of a node measure in turn; otherwise
    /// no NIC does.
    pub fn next(&mut self, roster: &Roster, order: NicOrder) -> Option<Round> {
        while self.parts.front().is_some_and(|(_, pairs)| pairs.is_empty()) {
            self.parts.pop_front();
        }
        let (stage, pending) = self.parts.front_mut()?;
        let test = pending.front()?.0;
        let mut busy = HashSet::new();
        let mut pairs = Vec::new();
        let part = |nic: NicId| match order {
            NicOrder::InTurn => Unit::Node(roster.nic(nic).node),
            NicOrder::AtOnce => Unit::Nic(nic),
        };
        pending.retain(|(pending_test, pair)| {
            let (one, other) = (part(pair.initiator), part(pair.target));
            let fits = *pending_test == test
                && pairs.len() < self.most_active
                && !busy.contains(&one)
                && !busy.contains(&other);
            if fits {
                busy.extend([one, other]);
                pairs.push(*pair);
            }
            !fits
        });
        Some(Round { test, stage: *stage, pairs })
    }
}

/// The suspect pairs whose retests decide about causes: some pairs of each cause that retests have
/// not confirmed yet, with different partners.
pub fn suspects(
    explanations: &[PartExplanation],
    results: &ResultStore,
    judgement: &Judgement,
    roster: &Roster,
) -> Vec<TestPair> {
    let mut chosen = BTreeSet::new();
    for explanation in
        explanations.iter().filter(|explanation| explanation.certainty == Certainty::Suspect)
    {
        let most = match explanation.unit {
            Unit::Nic(_) | Unit::Node(_) | Unit::Path(_) => PAIRS_OF_NIC,
            _ => PAIRS_OF_LARGER,
        };
        let mut uses: BTreeMap<NicId, usize> = BTreeMap::new();
        let mut keys: Vec<TestPair> =
            explanation.pairs.iter().map(|one| (one.test, one.pair)).collect();
        keys.retain(|key| results.needs_retest(*key, judgement, roster));
        for _ in 0..most.min(keys.len()) {
            // The pair whose NICs were chosen least is next.
            let uses_of = |key: &TestPair| {
                let nic_uses = |nic: &NicId| uses.get(nic).copied().unwrap_or(0);
                nic_uses(&key.1.initiator) + nic_uses(&key.1.target)
            };
            let Some(next) = (0..keys.len()).min_by_key(|index| uses_of(&keys[*index])) else {
                break;
            };
            let key = keys.swap_remove(next);
            for nic in key.1.nics() {
                *uses.entry(nic).or_default() += 1;
            }
            chosen.insert(key);
        }
    }
    chosen.into_iter().collect()
}

/// Number of partners of a NIC that are compared, from a random partner on.
const MOST_PARTNERS: usize = 256;

/// The choice of other partners for suspected NICs.
struct Swaps<'a> {
    roster: &'a Roster,
    results: &'a ResultStore,
    /// NICs of parts that are causes.
    cause_nics: HashSet<NicId>,
    /// NICs of pairs outside the limits.
    involved: HashSet<NicId>,
    measured: HashSet<TestPair>,
    chosen: BTreeSet<TestPair>,
    /// Number of partners that were chosen, by test, NIC and its role.
    partners: HashMap<(TestId, NicId, Role), usize>,
    /// How often a NIC was chosen.
    uses: BTreeMap<NicId, usize>,
}

/// Pairs of the suspect NICs with other partners and in the other role, so that each suspect NIC
/// has been measured with some partners in each role. A partner that is not suspect comes first. It
/// has the same class as the partner of the suspect pair, but another switch or group, so that the
/// results say something about switches and groups too.
pub fn swaps(
    explanations: &[PartExplanation],
    results: &ResultStore,
    roster: &Roster,
    is_usable: impl Fn(NicId) -> bool,
    rng: &mut Rng,
) -> Vec<TestPair> {
    let lasting =
        || explanations.iter().filter(|explanation| explanation.certainty != Certainty::Transient);
    let pairs = || lasting().flat_map(|explanation| &explanation.pairs);
    let mut swaps = Swaps {
        roster,
        results,
        cause_nics: lasting().flat_map(|explanation| members(explanation.unit, roster)).collect(),
        involved: pairs().flat_map(|one| one.pair.nics()).collect(),
        measured: results.keys().collect(),
        chosen: BTreeSet::new(),
        partners: HashMap::new(),
        uses: BTreeMap::new(),
    };
    for explanation in lasting() {
        let suspected: Vec<(NicId, &Outside)> = match explanation.unit {
            Unit::Nic(nic) => vec![(nic, &explanation.pairs[0])],
            Unit::Node(_) => continue,
            _ => {
                let some = explanation.pairs.iter().take(PAIRS_OF_NIC);
                some.flat_map(|one| [(one.pair.initiator, one), (one.pair.target, one)]).collect()
            }
        };
        let tests: BTreeSet<TestId> = explanation.pairs.iter().map(|one| one.test).collect();
        for (nic, one) in suspected {
            for test in &tests {
                swaps.choose(*test, nic, one, &is_usable, rng);
            }
        }
    }
    swaps.chosen.into_iter().collect()
}

impl Swaps<'_> {
    /// Chooses the missing partners of a NIC in each role.
    fn choose(
        &mut self,
        test: TestId,
        nic: NicId,
        suspect: &Outside,
        is_usable: impl Fn(NicId) -> bool,
        rng: &mut Rng,
    ) {
        let nics = self.roster.nics.len() as u32;
        for role in Role::BOTH {
            let pair = |partner| Pair::with_role(role, nic, partner);
            let measured = self.results.counts(test, nic).pairs_in_role(role);
            let chosen = self.partners.get(&(test, nic, role)).copied().unwrap_or(0);
            for _ in measured as usize + chosen..LEAST_PARTNERS {
                let start = rng.u32(..nics);
                let possible = (0..nics)
                    .map(|offset| NicId((start + offset) % nics))
                    .filter(|partner| {
                        let key = (test, pair(*partner));
                        is_partner(self.roster, nic, *partner)
                            && is_usable(*partner)
                            && !self.measured.contains(&key)
                            && !self.chosen.contains(&key)
                    })
                    .take(MOST_PARTNERS);
                let mut best = None;
                for partner in possible {
                    let rank = self.rank(nic, partner, suspect);
                    if best.is_none_or(|(_, least)| rank < least) {
                        best = Some((partner, rank));
                    }
                    if rank == Objections::default() {
                        break;
                    }
                }
                let Some((partner, _)) = best else {
                    break;
                };
                self.chosen.insert((test, pair(partner)));
                *self.partners.entry((test, nic, role)).or_default() += 1;
                let partner_key = (test, partner, role.other());
                *self.partners.entry(partner_key).or_default() += 1;
                *self.uses.entry(partner).or_default() += 1;
            }
        }
    }

    fn rank(&self, nic: NicId, partner: NicId, suspect: &Outside) -> Objections {
        let Pair { initiator, target } = suspect.pair;
        let other = if initiator == nic { target } else { initiator };
        let is_near =
            match (suspect.class, self.roster.location(partner), self.roster.location(other)) {
                (Class::Group, Some(one), Some(other)) => one.switch == other.switch,
                (Class::Fabric, Some(one), Some(other)) => one.group == other.group,
                _ => false,
            };
        Objections {
            suspicion: u8::from(self.involved.contains(&partner))
                + u8::from(self.cause_nics.contains(&partner)),
            is_of_other_class: self.roster.class(Pair::with_role(Role::Initiator, nic, partner))
                != suspect.class,
            is_near,
            uses: self.uses.get(&partner).copied().unwrap_or(0),
        }
    }
}

/// The objections to a partner, the most important first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Objections {
    suspicion: u8,
    is_of_other_class: bool,
    is_near: bool,
    uses: usize,
}

/// Whether two NICs have the same number on different nodes.
fn is_partner(roster: &Roster, one: NicId, other: NicId) -> bool {
    let number = |nic: NicId| {
        let node = roster.nic(nic).node;
        roster.nics[..nic.index()].iter().rev().take_while(|nic| nic.node == node).count()
    };
    roster.nic(one).node != roster.nic(other).node && number(one) == number(other)
}

/// The pairs of classes that judge nothing because their pairs differ too much, if there are few
/// pairs and NICs. Where CPUs are not busy, pairs whose processes slept differ by chance: the
/// better one of two results is the true one. All pairs are measured equally often, so that better
/// results of some do not make the others look slow.
pub fn pairs_of_unclear_classes(
    results: &ResultStore,
    judgement: &Judgement,
    roster: &Roster,
) -> Vec<TestPair> {
    if results.nics >= FEW_NICS {
        return Vec::new();
    }
    let is_unclear = |key: &PopulationKey| judgement.differs_too_much(results, *key);
    let keys = judgement.limits.keys().copied();
    let unclear: BTreeSet<PopulationKey> = keys.filter(is_unclear).collect();
    let tests = TestId::first(results.tests().len());
    let all = tests.flat_map(|test| {
        let own = results.observations(test).iter().filter(move |one| one.is_of_sweep);
        own.map(move |one| ((test, one.class), (test, one.pair)))
    });
    let again: Vec<TestPair> = all
        .filter(|(key, (_, pair))| unclear.contains(key) && why_unusable(roster, *pair).is_none())
        .map(|(_, test_pair)| test_pair)
        .collect();
    if again.len() <= FEW_SUSPECTS { again } else { Vec::new() }
}

/// The good pairs that may be measured beside the retests of suspects, by class. The last ones
/// share the fewest NICs with the suspects.
pub struct GoodPairs {
    class_lists: BTreeMap<PopulationKey, Vec<TestPair>>,
}

impl GoodPairs {
    /// The good pairs of the classes of `suspects`.
    pub fn beside(
        suspects: &[TestPair],
        results: &ResultStore,
        judgement: &Judgement,
        roster: &Roster,
    ) -> Self {
        let nics: HashSet<NicId> = suspects.iter().flat_map(|(_, pair)| pair.nics()).collect();
        let keys = suspects.iter().map(|(test, pair)| (*test, roster.class(*pair)));
        let keys: BTreeSet<PopulationKey> = keys.collect();
        let suspects: HashSet<&TestPair> = suspects.iter().collect();
        let good = |key: PopulationKey| {
            let limit = judgement.limits.get(&key).filter(|limit| limit.has_costs());
            let own = results.observations(key.0).iter();
            let own = own.filter(|one| {
                one.is_of_sweep && one.class == key.1 && why_unusable(roster, one.pair).is_none()
            });
            let mut good: Vec<(usize, f64, TestPair)> = own
                .filter_map(|one| {
                    let shared = one.pair.nics().iter().filter(|nic| nics.contains(nic)).count();
                    let distance = limit?.residual(one)?.abs();
                    Some((shared, distance, (key.0, one.pair)))
                })
                .filter(|(_, distance, test_pair)| {
                    *distance < results.ratio(key.0) && !suspects.contains(test_pair)
                })
                .collect();
            good.sort_by(|one, other| (other.0.cmp(&one.0)).then(other.1.total_cmp(&one.1)));
            good.into_iter().map(|(_, _, test_pair)| test_pair).collect()
        };
        Self { class_lists: keys.into_iter().map(|key| (key, good(key))).collect() }
    }

    /// Takes a pair of each class of a test that has one left.
    pub fn take(&mut self, test: TestId) -> Vec<TestPair> {
        let classes = self.class_lists.iter_mut().filter(|(key, _)| key.0 == test);
        classes.filter_map(|(_, pairs)| pairs.pop()).collect()
    }
}
