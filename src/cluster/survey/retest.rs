//! What is measured after the sweep: suspects again, and their NICs with other partners (jobs.md 3.3).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use fastrand::Rng;

use super::answer::{Pair, Stage};
use super::findings::{Certainty, Unit};
use super::limits::Limits;
use super::outside::Outside;
use super::result_store::{Key, ResultStore};
use super::roster::Roster;
use super::rounds::NicOrder;
use super::search::Explanation;
use super::timetable::Round;
use super::units::members;
use crate::location::Class;

/// Pairs of a NIC, of a larger part or of a path that are retested at a time.
const PAIRS_OF_NIC: usize = 4;
const PAIRS_OF_LARGER: usize = 8;

/// Fewest partners of a suspected NIC in each role, if there are as many.
const LEAST_PARTNERS: usize = 3;

/// Pairs that are measured in disjoint rounds.
#[derive(Debug, Default)]
pub struct Queue {
    pending: VecDeque<Key>,
    stage: Option<Stage>,
    most_active: usize,
}

impl Queue {
    /// Creates a queue whose rounds have at most `most_active` pairs.
    pub fn new(pending: Vec<Key>, stage: Stage, most_active: usize) -> Self {
        Self {
            pending: pending.into(),
            stage: Some(stage),
            most_active: most_active.max(1),
        }
    }

    /// Returns the pairs of the sweep that no round has yet.
    pub fn of_sweep(&self) -> impl Iterator<Item = Pair> {
        let is_of_sweep = self.stage == Some(Stage::Sweep);
        let pending = self.pending.iter().filter(move |_| is_of_sweep);
        pending.map(|(_, pair)| *pair)
    }

    /// Removes the pairs that `is_wanted` refuses, and returns them.
    pub fn refuse(&mut self, is_wanted: impl Fn(Pair) -> bool) -> Vec<Key> {
        let mut refused = Vec::new();
        self.pending.retain(|key| {
            let is_kept = is_wanted(key.1);
            if !is_kept {
                refused.push(*key);
            }
            is_kept
        });
        refused
    }

    /// Returns the next round. In turn, each node occurs once in a round, otherwise each NIC does.
    pub fn next(&mut self, roster: &Roster, order: NicOrder) -> Option<Round> {
        let test = self.pending.front()?.0;
        let mut busy = HashSet::new();
        let mut pairs = Vec::new();
        let part = |nic: u32| match order {
            NicOrder::InTurn => roster.nics[nic as usize].node,
            NicOrder::AtOnce => nic,
        };
        self.pending.retain(|(of, pair)| {
            let (one, other) = (part(pair.initiator), part(pair.target));
            let fits = *of == test
                && pairs.len() < self.most_active
                && !busy.contains(&one)
                && !busy.contains(&other);
            if fits {
                busy.extend([one, other]);
                pairs.push(*pair);
            }
            !fits
        });
        Some(Round {
            test,
            stage: self.stage?,
            pairs,
        })
    }
}

/// Returns the suspects that decide about the causes which retests have not confirmed yet: some pairs of
/// each, with different partners.
pub fn suspects(
    explanations: &[Explanation],
    evidence: &ResultStore,
    limits: &Limits,
    roster: &Roster,
) -> Vec<Key> {
    let mut chosen = BTreeSet::new();
    for explanation in explanations
        .iter()
        .filter(|explanation| explanation.certainty() == Certainty::Suspect)
    {
        let most = match explanation.unit {
            Unit::Nic(_) | Unit::Node(_) | Unit::Path(_) => PAIRS_OF_NIC,
            _ => PAIRS_OF_LARGER,
        };
        let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
        let mut keys: Vec<Key> = explanation
            .pairs
            .iter()
            .map(|one| (one.test, one.pair))
            .collect();
        keys.retain(|key| evidence.needs_retest(*key, limits, roster));
        for _ in 0..most.min(keys.len()) {
            // The pair whose NICs were chosen least is next.
            let uses_of = |key: &Key| {
                let of_nic = |nic: &u32| uses.get(nic).copied().unwrap_or(0);
                of_nic(&key.1.initiator) + of_nic(&key.1.target)
            };
            let Some(next) = (0..keys.len()).min_by_key(|index| uses_of(&keys[*index])) else {
                break;
            };
            let key = keys.swap_remove(next);
            for nic in [key.1.initiator, key.1.target] {
                *uses.entry(nic).or_default() += 1;
            }
            chosen.insert(key);
        }
    }
    chosen.into_iter().collect()
}

/// Partners of a NIC among which the best is chosen, from a random one on.
const MOST_PARTNERS: usize = 256;

/// The choice of other partners for suspected NICs.
struct Swaps<'a> {
    roster: &'a Roster,
    evidence: &'a ResultStore,
    /// NICs of parts that are blamed.
    blamed: HashSet<u32>,
    /// NICs of pairs outside the limits.
    involved: HashSet<u32>,
    measured: HashSet<Key>,
    chosen: BTreeSet<Key>,
    /// Number of partners that were chosen, by test, NIC and its role.
    partners: HashMap<(u16, u32), [usize; 2]>,
    /// How often a NIC was chosen.
    uses: BTreeMap<u32, usize>,
}

/// Returns pairs of the suspected NICs with other partners and in the other role, so that each has been
/// measured with some partners in each role. Partners beyond suspicion come first, of the same class as
/// the partner of the suspect pair, but not of its switch or group, so that these are cleared too.
pub fn swaps(
    explanations: &[Explanation],
    evidence: &ResultStore,
    roster: &Roster,
    is_usable: impl Fn(u32) -> bool,
    rng: &mut Rng,
) -> Vec<Key> {
    let lasting = || {
        explanations
            .iter()
            .filter(|explanation| explanation.certainty() != Certainty::Transient)
    };
    let pairs = || lasting().flat_map(|explanation| &explanation.pairs);
    let mut swaps = Swaps {
        roster,
        evidence,
        blamed: lasting()
            .flat_map(|explanation| members(explanation.unit, roster))
            .collect(),
        involved: pairs()
            .flat_map(|one| [one.pair.initiator, one.pair.target])
            .collect(),
        measured: evidence.keys().collect(),
        chosen: BTreeSet::new(),
        partners: HashMap::new(),
        uses: BTreeMap::new(),
    };
    for explanation in lasting() {
        let suspected: Vec<(u32, &Outside)> = match explanation.unit {
            Unit::Nic(nic) => vec![(nic, &explanation.pairs[0])],
            Unit::Node(_) => continue,
            _ => {
                let some = explanation.pairs.iter().take(PAIRS_OF_NIC);
                some.flat_map(|one| [(one.pair.initiator, one), (one.pair.target, one)])
                    .collect()
            }
        };
        let tests: BTreeSet<u16> = explanation.pairs.iter().map(|one| one.test).collect();
        for (nic, one) in suspected {
            for test in &tests {
                swaps.choose(*test, nic, one, &is_usable, rng);
            }
        }
    }
    swaps.chosen.into_iter().collect()
}

impl Swaps<'_> {
    /// Chooses the partners that a NIC lacks in each role.
    fn choose(
        &mut self,
        test: u16,
        nic: u32,
        suspect: &Outside,
        is_usable: impl Fn(u32) -> bool,
        rng: &mut Rng,
    ) {
        let nics = self.roster.nics.len() as u32;
        for role in 0..2 {
            let pair = |partner| match role {
                0 => Pair {
                    initiator: nic,
                    target: partner,
                },
                _ => Pair {
                    initiator: partner,
                    target: nic,
                },
            };
            let measured: u32 = self.evidence.counts(test, nic)[role].iter().sum();
            let chosen = self
                .partners
                .get(&(test, nic))
                .map_or(0, |count| count[role]);
            for _ in measured as usize + chosen..LEAST_PARTNERS {
                let start = rng.u32(..nics);
                let possible = (0..nics)
                    .map(|offset| (start + offset) % nics)
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
                self.partners.entry((test, nic)).or_default()[role] += 1;
                self.partners.entry((test, partner)).or_default()[1 - role] += 1;
                *self.uses.entry(partner).or_default() += 1;
            }
        }
    }

    /// Returns what speaks against a partner, the most important first.
    fn rank(&self, nic: u32, partner: u32, suspect: &Outside) -> Objections {
        let Pair { initiator, target } = suspect.pair;
        let other = if initiator == nic { target } else { initiator };
        let place = |nic: u32| self.roster.nics[nic as usize].location;
        let is_near = match (suspect.class, place(partner), place(other)) {
            (Class::Group, Some(one), Some(other)) => one.switch == other.switch,
            (Class::Fabric, Some(one), Some(other)) => one.group == other.group,
            _ => false,
        };
        Objections {
            suspicion: u8::from(self.involved.contains(&partner))
                + u8::from(self.blamed.contains(&partner)),
            is_of_other_class: self.roster.class(nic, partner) != suspect.class,
            is_near,
            uses: self.uses.get(&partner).copied().unwrap_or(0),
        }
    }
}

/// What speaks against a partner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Objections {
    suspicion: u8,
    is_of_other_class: bool,
    is_near: bool,
    uses: usize,
}

/// Returns whether two NICs have the same number on different nodes.
fn is_partner(roster: &Roster, one: u32, other: u32) -> bool {
    let number = |nic: u32| {
        let node = roster.nics[nic as usize].node;
        roster.nics[..nic as usize]
            .iter()
            .rev()
            .take_while(|nic| nic.node == node)
            .count()
    };
    roster.nics[one as usize].node != roster.nics[other as usize].node
        && number(one) == number(other)
}
