//! What is measured after the sweep: suspects again, and their NICs with other partners (jobs.md 3.3).

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use fastrand::Rng;

use super::answer::{Pair, Stage};
use super::blame::{Cause, members};
use super::evidence::{Evidence, Key, Limits};
use super::roster::Roster;
use super::rounds::NicOrder;
use super::timetable::Round;
use super::verdict::{Unit, Word};

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

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the next round of the pairs that `is_wanted` accepts. In turn, each node occurs once in a
    /// round, otherwise each NIC does.
    pub fn next(
        &mut self,
        roster: &Roster,
        order: NicOrder,
        is_wanted: impl Fn(Pair) -> bool,
    ) -> Option<Round> {
        self.pending.retain(|(_, pair)| is_wanted(*pair));
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
    causes: &[Cause],
    evidence: &Evidence,
    limits: &Limits,
    roster: &Roster,
) -> Vec<Key> {
    let mut chosen = BTreeSet::new();
    for cause in causes.iter().filter(|cause| cause.word() == Word::Suspect) {
        let most = match cause.unit {
            Unit::Nic(_) | Unit::Node(_) | Unit::Path(_) => PAIRS_OF_NIC,
            _ => PAIRS_OF_LARGER,
        };
        let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
        let mut keys: Vec<Key> = cause.pairs.iter().map(|one| (one.test, one.pair)).collect();
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

/// Returns pairs of the suspected NICs with other partners and in the other role, so that each has been
/// measured with some partners in each role. Partners that are beyond suspicion, of the same class as
/// the partner of the suspect pair, come first.
pub fn swaps(
    causes: &[Cause],
    evidence: &Evidence,
    roster: &Roster,
    is_usable: impl Fn(u32) -> bool,
    rng: &mut Rng,
) -> Vec<Key> {
    let lasting = || {
        causes
            .iter()
            .filter(|cause| cause.word() != Word::Transient)
    };
    let blamed: HashSet<u32> = lasting()
        .flat_map(|cause| members(cause.unit, roster))
        .collect();
    let involved: HashSet<u32> = lasting()
        .flat_map(|cause| &cause.pairs)
        .flat_map(|one| [one.pair.initiator, one.pair.target])
        .collect();
    let mut chosen: BTreeSet<Key> = BTreeSet::new();
    let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
    let measured: HashSet<Key> = evidence.keys().collect();
    for cause in lasting() {
        let nics: Vec<u32> = match cause.unit {
            Unit::Nic(nic) => vec![nic],
            Unit::Path(pair) => vec![pair.initiator, pair.target],
            _ => continue,
        };
        let tests: BTreeSet<u16> = cause.pairs.iter().map(|one| one.test).collect();
        let class = cause.pairs[0].class;
        for (nic, test) in nics
            .iter()
            .flat_map(|nic| tests.iter().map(move |test| (*nic, *test)))
        {
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
                let count: u32 = evidence.counts(test, nic)[role].iter().sum();
                let is_new = |partner: u32, chosen: &BTreeSet<Key>| {
                    let key = (test, pair(partner));
                    !measured.contains(&key) && !chosen.contains(&key)
                };
                let already = chosen
                    .iter()
                    .filter(|(of, pair)| *of == test && [pair.initiator, pair.target][role] == nic)
                    .count();
                for _ in count as usize + already..LEAST_PARTNERS {
                    let rank = |partner: u32| {
                        let suspicion = usize::from(involved.contains(&partner))
                            + usize::from(blamed.contains(&partner));
                        let is_other = roster.class(nic, partner) != class;
                        (
                            suspicion,
                            is_other,
                            uses.get(&partner).copied().unwrap_or(0),
                        )
                    };
                    let start = rng.usize(..roster.nics.len());
                    let all = (0..roster.nics.len())
                        .map(|offset| ((start + offset) % roster.nics.len()) as u32);
                    let mut possible = all.filter(|partner| {
                        is_partner(roster, nic, *partner)
                            && is_usable(*partner)
                            && is_new(*partner, &chosen)
                    });
                    let mut best: Option<(u32, (usize, bool, usize))> = None;
                    for partner in &mut possible {
                        let rank = rank(partner);
                        if best.is_none_or(|(_, least)| rank < least) {
                            best = Some((partner, rank));
                        }
                        if rank == (0, false, 0) {
                            break;
                        }
                    }
                    let Some((partner, _)) = best else {
                        break;
                    };
                    chosen.insert((test, pair(partner)));
                    *uses.entry(partner).or_default() += 1;
                }
            }
        }
    }
    chosen.into_iter().collect()
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
