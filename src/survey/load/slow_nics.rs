//! NICs and switches that are slow although their flows share nothing but the switch.
//!
//! A flow is as fast as the slower one of its ends. So one fast flow shows that a NIC is not the
//! cause in this role, and a slow flow shows its cause only if the other end has a fast one.

use std::collections::{BTreeMap, BTreeSet};

use super::culprit::Culprit;
use super::findings::LoadUnit;
use super::limits::{EqualParts, GradeLimits, LEAST_EQUAL, NIC, SET};
use super::rates::SlotRates;
use super::spec::{Pattern, Set};
use campaign::blame::{LARGER_SHARE, LEAST_PARTNERS};
use campaign::quiet::answer::Pair;
use campaign::quiet::findings::Direction;
use campaign::quiet::ids::{NicId, Role};
use campaign::quiet::roster::Roster;
use facts::robust::{median, quantile, sorted};

/// The quantile of rates that other rates are compared with: a fault may slow two thirds of them.
const FAST: f64 = 0.75;

type NicRole = (NicId, Role);

/// What the flows say about NICs.
#[derive(Clone, Debug, Default)]
pub struct SlowNics {
    /// Slow NICs and switches.
    pub culprits: Vec<Culprit>,
    /// All NICs that may be slow: their flows say nothing about links.
    pub doubtful: BTreeSet<NicId>,
}

/// The rates of NICs as ratios to fast flows that share nothing but the switch.
#[derive(Default)]
struct NicRates {
    /// Ratios of the flows between NICs of a switch.
    within: BTreeMap<Pair, Vec<f64>>,
    /// The largest ratio of each NIC to NICs of other switches.
    best: BTreeMap<NicRole, f64>,
    /// Partners at other switches to whom the flow was slow, although it had all links for itself.
    slow_alone: BTreeMap<NicRole, BTreeSet<NicId>>,
}

impl NicRates {
    /// Returns the largest ratio of each NIC to any other, and its partners in slow flows.
    fn best_and_slow_partners(
        self,
        pairs: &BTreeMap<Pair, f64>,
        slow: &BTreeMap<Pair, f64>,
    ) -> (BTreeMap<NicRole, f64>, BTreeMap<NicRole, BTreeSet<NicId>>) {
        let Self { mut best, slow_alone: mut partners, .. } = self;
        for (pair, ratio) in pairs {
            for (role, nic) in pair.roles() {
                let known = best.entry((nic, role)).or_default();
                *known = known.max(*ratio);
            }
        }
        for pair in slow.keys() {
            for (role, nic) in pair.roles() {
                partners.entry((nic, role)).or_default().insert(pair.partner(nic));
            }
        }
        (best, partners)
    }
}

/// Returns the slow NICs and switches. Nobody is named if two parts explain the flows equally well.
pub fn find(roster: &Roster, rates: &BTreeMap<Pattern, Vec<SlotRates>>) -> SlowNics {
    let nic_rates = gather(roster, rates);
    let pairs: BTreeMap<Pair, f64> = nic_rates
        .within
        .iter()
        .filter_map(|(pair, ratios)| Some((*pair, median(ratios)?)))
        .collect();
    if pairs.len() < LEAST_EQUAL {
        return SlowNics::default();
    }
    let is_fast = |ratio: f64| ratio >= NIC.good;
    let fast: Vec<f64> = pairs.values().copied().filter(|ratio| is_fast(*ratio)).collect();
    let usual = EqualParts::new(&fast);
    let slow: BTreeMap<Pair, f64> = pairs
        .iter()
        .map(|(pair, ratio)| (*pair, *ratio))
        .filter(|(_, ratio)| !is_fast(*ratio) && usual.is_far_below(*ratio))
        .collect();
    let (best, partners) = nic_rates.best_and_slow_partners(&pairs, &slow);
    let is_suspect = |role: NicRole| !is_fast(best.get(&role).copied().unwrap_or(0.0));
    let (mut suspects, mut named) = accused(&slow, is_suspect);
    let several = |nic_role: NicRole| {
        partners.get(&nic_role).is_some_and(|partner| partner.len() >= LEAST_PARTNERS)
    };
    named.retain(|entry, ratios| {
        several(*entry) || median(ratios).is_some_and(|ratio| ratio < SET.slow)
    });
    // For a switch, the partners in both roles count.
    let partners_of_nic = |nic: NicId| {
        let role_sets = Role::BOTH.into_iter().filter_map(|role| partners.get(&(nic, role)));
        role_sets.flatten().collect::<BTreeSet<_>>().len()
    };
    suspects.retain(|suspect, _| {
        partners_of_nic(suspect.0) >= LEAST_PARTNERS || named.contains_key(suspect)
    });
    let mut found = SlowNics {
        culprits: slow_switches(roster, &pairs, &suspects),
        doubtful: slow
            .keys()
            .flat_map(|pair| pair.roles())
            .filter(|(role, nic)| is_suspect((*nic, *role)))
            .map(|(_, nic)| nic)
            .collect(),
    };
    let switch_units: BTreeSet<LoadUnit> =
        found.culprits.iter().map(|culprit| culprit.unit).collect();
    named.retain(|(nic, _), _| {
        let switch = switch_of(roster, *nic);
        switch.is_none_or(|switch| !switch_units.contains(&switch))
    });
    let nics: BTreeSet<NicId> = named.keys().map(|(nic, _)| *nic).collect();
    for nic in nics {
        let roles = Role::BOTH.map(|role| named.get(&(nic, role)).cloned());
        found.culprits.extend(culprit(LoadUnit::Nic(nic), roles, NIC));
    }
    found
}

/// The ratios of slow pairs, by the NIC and its role that may explain them.
type Accused = BTreeMap<NicRole, Vec<f64>>;

/// Returns which NICs the `slow` pairs may be due to, and which of them alone: the partner is no
/// suspect.
fn accused(slow: &BTreeMap<Pair, f64>, is_suspect: impl Fn(NicRole) -> bool) -> (Accused, Accused) {
    let (mut suspects, mut named) = (Accused::new(), Accused::new());
    for (pair, ratio) in slow {
        let ends = pair.roles().map(|(role, nic)| (nic, role));
        let are_suspect = ends.map(&is_suspect);
        let is_one = are_suspect[0] != are_suspect[1];
        for (end, _) in ends.into_iter().zip(are_suspect).filter(|(_, is_suspect)| *is_suspect) {
            suspects.entry(end).or_default().push(*ratio);
            if is_one {
                named.entry(end).or_default().push(*ratio);
            }
        }
    }
    (suspects, named)
}

/// The pattern that shows slow NICs.
const WITHIN: Pattern = Pattern::Bisect { of: Set::Switch, both_ways: false };

/// Returns a slow part, with the ratios of its flows in each role in which it is slow; `None` if it
/// is slow in none.
fn culprit(unit: LoadUnit, roles: [Option<Vec<f64>>; 2], limits: GradeLimits) -> Option<Culprit> {
    let direction = match roles {
        [None, None] => return None,
        [Some(_), None] => Direction::Initiator,
        [None, Some(_)] => Direction::Target,
        _ => Direction::Both,
    };
    let ratios: Vec<f64> = roles.into_iter().flatten().flatten().collect();
    let ratio = median(&ratios).unwrap_or(0.0);
    let direction = Some(direction);
    Some(Culprit { unit, pattern: WITHIN, ratio, limits, direction, evidence: Vec::new() })
}

fn switch_of(roster: &Roster, nic: NicId) -> Option<LoadUnit> {
    let place = roster.location(nic)?;
    Some(LoadUnit::Switch { group: place.group, switch: place.switch })
}

/// Returns the switches of which at least two thirds of the NICs, and at least two, may be slow in
/// one role.
fn slow_switches(
    roster: &Roster,
    pairs: &BTreeMap<Pair, f64>,
    suspects: &BTreeMap<NicRole, Vec<f64>>,
) -> Vec<Culprit> {
    let mut members: BTreeMap<LoadUnit, BTreeSet<NicId>> = BTreeMap::new();
    for nic in pairs.keys().flat_map(|pair| pair.nics()) {
        let switch = switch_of(roster, nic);
        if let Some(switch) = switch {
            members.entry(switch).or_default().insert(nic);
        }
    }
    let mut culprits = Vec::new();
    for (switch, nics) in members {
        let role_values = |role: Role| {
            let nic_rows = nics.iter().filter_map(|nic| suspects.get(&(*nic, role)));
            let ratios: Vec<&Vec<f64>> = nic_rows.collect();
            // Flows inside a switch have two NICs of it, so two thirds of them are two at least.
            let is_most = ratios.len() as f64 >= LARGER_SHARE * nics.len() as f64;
            is_most.then(|| ratios.into_iter().flatten().copied().collect::<Vec<f64>>())
        };
        let roles = Role::BOTH.map(role_values);
        culprits.extend(culprit(switch, roles, SET));
    }
    culprits
}

/// Returns whether each NIC sends to one other at most, and receives from one at most.
fn is_one_to_one(pattern: Pattern) -> bool {
    matches!(pattern, Pattern::Quiet | Pattern::Bisect { .. } | Pattern::Shift(_))
}

/// Returns the rates of NICs as ratios.
fn gather(roster: &Roster, rates: &BTreeMap<Pattern, Vec<SlotRates>>) -> NicRates {
    let one_to_one = || rates.iter().filter(|(pattern, _)| is_one_to_one(**pattern));
    let is_within = |source: NicId, target: NicId| {
        let switch = switch_of(roster, source);
        source != target && switch.is_some() && switch == switch_of(roster, target)
    };
    let fast_within = |slots: &[SlotRates]| {
        let flows = slots.iter().flat_map(SlotRates::flows);
        let within = flows.filter(|(source, target, _)| is_within(*source, *target));
        let rates: Vec<f64> = within.map(|(.., rate)| rate).collect();
        let is_enough = rates.len() >= LEAST_EQUAL;
        let fast = is_enough.then(|| quantile(&sorted(&rates), FAST));
        fast.filter(|fast| *fast > 0.0)
    };
    let mut nic_rates = NicRates::default();
    let mut alone: Vec<(Pair, f64)> = Vec::new();
    let any = one_to_one().find_map(|(_, slots)| fast_within(slots));
    for (pattern, slots) in one_to_one() {
        let Some(fast) = fast_within(slots).or(any) else {
            continue;
        };
        for slot in slots {
            let lonely = lonely_flows(roster, slot);
            for (initiator, target, rate) in slot.flows() {
                let pair = Pair { initiator, target };
                let ratio = rate / fast;
                if is_within(initiator, target) {
                    nic_rates.within.entry(pair).or_default().push(ratio);
                    continue;
                }
                for (role, nic) in pair.roles() {
                    let best = nic_rates.best.entry((nic, role)).or_default();
                    *best = best.max(ratio);
                }
                let is_of_groups = matches!(pattern, Pattern::Bisect { of: Set::Group, .. });
                if is_of_groups && lonely.contains(&pair) {
                    alone.push((pair, ratio));
                }
            }
        }
    }
    let ratios: Vec<f64> = alone.iter().map(|(_, ratio)| *ratio).collect();
    // Links that are narrower than NICs slow even a flow that has them for itself.
    if quantile(&sorted(&ratios), FAST) >= NIC.good {
        for (pair, _) in alone.iter().filter(|(_, ratio)| *ratio < NIC.good) {
            for (role, nic) in pair.roles() {
                let partners = nic_rates.slow_alone.entry((nic, role)).or_default();
                partners.insert(pair.partner(nic));
            }
        }
    }
    nic_rates
}

/// Returns the flows between two switches of a group that share the links with no other one.
fn lonely_flows(roster: &Roster, slot: &SlotRates) -> BTreeSet<Pair> {
    let known = slot.flows().map(|(source, target, _)| (source, target));
    let mut link_lists: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    for (initiator, target) in known.chain(slot.unknown_flows()) {
        let ends = [initiator, target].map(|nic| switch_of(roster, nic));
        let pair = Pair { initiator, target };
        link_lists.entry(ends).or_default().push(pair);
    }
    let lonely = link_lists.into_values().filter(|pairs| pairs.len() == 1);
    lonely.flatten().collect()
}
