//! The parts of the cluster whose pairs differ from good pairs: forward selection on the residuals
//! of a test. The candidate that explains most is next; its effect is subtracted. A candidate is a
//! part in a role. Its effect is the median of its pairs, and it explains as much as it lessens the
//! sum of their absolute residuals: a part with few bad members explains little.
//!
//! At the end, all effects must be significant: the pairs of a part are higher than chance allows,
//! with all other effects subtracted, and NICs without an effect differ much less.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::fit::{PairResidual, has_effect, spread};
use super::roster::{self, NicId, Pair, Role, Roster, Unit, crossing, parts_of_nic};
use super::routes::{PairsByRoute, SwitchId};
use crate::blame::{
    FALSE_ALARM, LARGER_SHARE, LEAST_ERROR, LEAST_PARTNERS, binomial_tail, error_of_median,
    score_limit,
};
use facts::robust::{lower_median, sorted};

/// Fewest members of a larger part that is a cause, and fewest pairs between two groups.
pub const LEAST_MEMBERS: usize = 3;

/// Members of a switch that is a cause only if all of its pairs have its effect and no other pair
/// has.
const MEMBERS_OF_SMALL: usize = 2;

/// Part of the limit from which an effect is selected, so that it disturbs no other one.
const SELECTED: f64 = 0.5;

/// Part of the pairs of a candidate that other parts may explain in the same pass.
const MOST_SHARED: f64 = 0.25;

const MOST_PASSES: usize = 256;

/// The effect of a part in a role.
#[derive(Clone, Debug)]
pub struct PartEffect {
    pub unit: Unit,
    /// The role; both if `None`.
    pub role: Option<Role>,
    /// The effect on the logarithm of the cost: positive if the part is slow.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Indices of the pairs.
    pub pairs: Vec<u32>,
    /// The pairs of groups whose links end at the part, a switch, and have its effect.
    pub links: Vec<Unit>,
}

impl PartEffect {
    /// Creates a candidate, whose effect is not known yet.
    fn new(unit: Unit, role: Option<Role>, pairs: Vec<u32>, links: Vec<Unit>) -> Self {
        Self { unit, role, value: 0.0, error: 0.0, pairs, links }
    }
}

/// The result of the selection.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    /// The significant effects, the largest parts first.
    pub effects: Vec<PartEffect>,
    /// What the effects leave of each residual.
    pub rest: Vec<f64>,
    /// Which pairs have an effect.
    pub is_explained: Vec<bool>,
    /// Robust deviation of `rest`.
    pub spread: f64,
    /// Robust deviation of the effects of NICs in no selected part.
    pub spread_of_nics: f64,
    /// Number of NICs with pairs.
    pub nics: usize,
    /// Number of candidates.
    pub candidates: usize,
}

/// A part and the indices of its pairs by role.
struct PartCandidate {
    unit: Unit,
    pairs: [Vec<u32>; 2],
}

impl PartCandidate {
    /// The indices of the pairs in a role, or in both.
    fn pair_indices(&self, role: Option<Role>) -> Vec<u32> {
        let [initiator, target] = &self.pairs;
        match role {
            Some(role) => self.pairs[role.index()].clone(),
            None => {
                let both: BTreeSet<u32> = initiator.iter().chain(target).copied().collect();
                both.into_iter().collect()
            }
        }
    }
}

/// Selects the parts that explain residuals of at least about `limit`.
pub fn select(pairs: &[PairResidual], limit: f64, roster: &Roster) -> Selected {
    let mut rest: Vec<f64> = pairs.iter().map(|one| one.value).collect();
    let candidates = candidates(pairs, roster);
    let routes = PairsByRoute::new(pairs, roster);
    let open = large_effects(&candidates, &routes, &rest, limit);
    let mut selected: Vec<PartEffect> = Vec::new();
    for _ in 0..MOST_PASSES {
        let mut best: Vec<(f64, usize, f64)> = Vec::new();
        for (index, one) in open.iter().enumerate() {
            let (value, gain) = effect(&one.pairs, &rest);
            if gain > 0.0
                && value.abs() >= SELECTED * limit
                && is_possible(one, value, pairs, &rest, roster)
                && is_told_apart(one, value, &rest, &routes, &selected)
            {
                best.push((gain, index, value));
            }
        }
        if best.is_empty() {
            break;
        }
        // Of equal gains, both roles come first, and the smaller part.
        best.sort_by(|one, other| {
            let gain_order = other.0.total_cmp(&one.0);
            gain_order.then_with(|| open[one.1].unit.cmp(&open[other.1].unit))
        });
        let mut is_touched = vec![false; pairs.len()];
        for (_, index, value) in best {
            let PartEffect { unit, pairs: own, .. } = &open[index];
            let touched = own.iter().filter(|pair| is_touched[**pair as usize]).count();
            let is_shared = touched as f64 > MOST_SHARED * own.len() as f64;
            if is_shared || !is_told_apart(&open[index], value, &rest, &routes, &selected) {
                continue;
            }
            for pair in own {
                is_touched[*pair as usize] = true;
                rest[*pair as usize] -= value;
            }
            if let Some(switch) = slow_end(&mut selected, *unit, value) {
                let known: BTreeSet<u32> = switch.pairs.iter().chain(own).copied().collect();
                switch.pairs = known.into_iter().collect();
                switch.links.push(*unit);
                continue;
            }
            selected.push(PartEffect { value, ..open[index].clone() });
        }
    }
    let nics: BTreeSet<NicId> = pairs.iter().flat_map(|one| one.pair.nics()).collect();
    keep_significant(pairs, selected, rest, nics.len(), 3 * candidates.len())
}

/// The candidates, in each role, with effects on `rest` that are large enough to be selected. A
/// switch is also a candidate with the links that end at it.
fn large_effects(
    candidates: &[PartCandidate],
    routes: &PairsByRoute,
    rest: &[f64],
    limit: f64,
) -> Vec<PartEffect> {
    let roles = [None, Some(Role::Initiator), Some(Role::Target)];
    let mut large: Vec<PartEffect> = Vec::new();
    for candidate in candidates {
        for role in roles {
            let own = candidate.pair_indices(role);
            let (value, _) = effect(&own, rest);
            if value.abs() < SELECTED * limit {
                continue;
            }
            let unit = candidate.unit;
            if let (Unit::Switch { group, switch }, None) = (unit, role)
                && let Some(gateway) = routes.gateway((group, switch), &own, value, rest)
            {
                large.push(PartEffect::new(unit, role, gateway.pairs, gateway.links));
            }
            large.push(PartEffect::new(unit, role, own, Vec::new()));
        }
    }
    large
}

/// The candidates: all parts with pairs, and the pairs of groups.
fn candidates(pairs: &[PairResidual], roster: &Roster) -> Vec<PartCandidate> {
    let mut indices: HashMap<Unit, usize> = HashMap::new();
    let mut candidates: Vec<PartCandidate> = Vec::new();
    let mut add = |unit: Unit, role: Role, pair: u32| {
        let index = *indices.entry(unit).or_insert_with(|| {
            candidates.push(PartCandidate { unit, pairs: [Vec::new(), Vec::new()] });
            candidates.len() - 1
        });
        candidates[index].pairs[role.index()].push(pair);
    };
    for (index, one) in pairs.iter().enumerate() {
        for (role, nic) in one.pair.roles() {
            for unit in parts_of_nic(roster, nic).into_iter().flatten() {
                add(unit, role, index as u32);
            }
        }
        if let Some((unit, role)) = crossing(roster, one.pair) {
            add(unit, role, index as u32);
        }
    }
    candidates.retain(|one| {
        let role_nics = |role: Role| {
            let own = one.pairs[role.index()].iter();
            own.map(move |index| pairs[*index as usize].pair.nics()[role.index()])
        };
        let nics: BTreeSet<NicId> = Role::BOTH.into_iter().flat_map(role_nics).collect();
        match one.unit {
            Unit::Nic(_) => one.pairs[0].len() + one.pairs[1].len() >= 2,
            Unit::Node(_) => nics.len() >= 2,
            Unit::GroupPair(..) => one.pairs[0].len() + one.pairs[1].len() >= LEAST_MEMBERS,
            Unit::Switch { .. } => nics.len() >= MEMBERS_OF_SMALL,
            _ => nics.len() >= LEAST_MEMBERS,
        }
    });
    candidates
}

/// The effect of pairs on their residuals, and by how much it lessens the sum of these: the median,
/// of an even number of pairs the one nearer to 0.
fn effect(own: &[u32], rest: &[f64]) -> (f64, f64) {
    if own.is_empty() {
        return (0.0, 0.0);
    }
    let mut values: Vec<f64> = own.iter().map(|pair| rest[*pair as usize]).collect();
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    let low = *values.select_nth_unstable_by(low, f64::total_cmp).1;
    let high = *values.select_nth_unstable_by(high, f64::total_cmp).1;
    let value = low.max(0.0) + high.min(0.0);
    let gain = values.iter().map(|residual| residual.abs() - (residual - value).abs()).sum();
    (value, gain)
}

/// Whether enough pairs and members of a part have its effect (jobs.md 3.3).
fn is_possible(
    candidate: &PartEffect,
    value: f64,
    pairs: &[PairResidual],
    rest: &[f64],
    roster: &Roster,
) -> bool {
    let (unit, role, own) = (candidate.unit, candidate.role, &candidate.pairs);
    let with_effect = || {
        let map = own.iter().map(|index| *index as usize);
        map.filter(|index| has_effect(rest[*index], value))
    };
    // A larger part makes all of its pairs equally slow; pairs of two bad NICs are slower.
    let is_even = |index: &usize| has_effect(2.0 * value - rest[*index], value);
    let share = || with_effect().filter(is_even).count() as f64 / own.len() as f64;
    let count = |nics: &dyn Fn(Pair) -> NicId| {
        let nics = with_effect().map(|index| nics(pairs[index].pair));
        nics.collect::<BTreeSet<NicId>>().len()
    };
    match unit {
        Unit::Path(_) => return false,
        Unit::Nic(nic) => {
            return count(&|pair| pair.partner(nic)) >= LEAST_PARTNERS;
        }
        Unit::GroupPair(..) => {
            let slow: Vec<Pair> = with_effect().map(|index| pairs[index].pair).collect();
            return own.len() >= LEAST_MEMBERS
                && have_several_ends(&slow)
                && share() >= LARGER_SHARE;
        }
        _ => {}
    }
    if share() < LARGER_SHARE {
        return false;
    }
    let mut members: BTreeMap<NicId, Vec<f64>> = BTreeMap::new();
    for index in own {
        let residual = rest[*index as usize] * value.signum();
        for (nic_role, nic) in pairs[*index as usize].pair.roles() {
            let is_of_role = role.is_none_or(|role| role == nic_role);
            if is_of_role && parts_of_nic(roster, nic).contains(&Some(unit)) {
                members.entry(nic).or_default().push(residual);
            }
        }
    }
    let count = members.len();
    let bad = members.into_values().filter_map(|rests| lower_median(&rests));
    let bad = bad.filter(|median| *median >= value.abs() / 2.0).count();
    match unit {
        Unit::Node(_) => count >= 2 && bad == count,
        Unit::Switch { .. } if count == MEMBERS_OF_SMALL => {
            let has_all = role.is_none() && value > 0.0 && with_effect().count() == own.len();
            let is_complete = roster::members(unit, roster).len() == count;
            let own: BTreeSet<u32> = own.iter().copied().collect();
            let mut others = (0..).zip(rest).filter(|(index, _)| !own.contains(index));
            has_all && is_complete && !others.any(|(_, rest)| has_effect(*rest, value))
        }
        _ => count >= LEAST_MEMBERS && bad * 2 > count,
    }
}

/// Whether pairs between two groups are enough to find that their links are slow.
pub fn are_enough_of_links(pairs: &[Pair]) -> bool {
    pairs.len() >= LEAST_MEMBERS && have_several_ends(pairs)
}

/// Whether pairs have several initiators and several targets.
fn have_several_ends(pairs: &[Pair]) -> bool {
    Role::BOTH.into_iter().all(|role| {
        let ends = pairs.iter().map(|pair| pair.nics()[role.index()]);
        ends.collect::<BTreeSet<NicId>>().len() >= LEAST_PARTNERS
    })
}

/// Whether the pairs of a candidate tell it apart from what they pass on their route.
fn is_told_apart(
    candidate: &PartEffect,
    value: f64,
    rest: &[f64],
    routes: &PairsByRoute<'_>,
    selected: &[PartEffect],
) -> bool {
    let own = &candidate.pairs;
    let slow_switches = || {
        let switches = selected.iter().filter_map(|one| match one.unit {
            Unit::Switch { group, switch } if one.value > 0.0 => Some((group, switch)),
            _ => None,
        });
        switches.collect::<Vec<SwitchId>>()
    };
    match candidate.unit {
        Unit::Nic(nic) => {
            routes.is_of_nic((nic, candidate.role), own, value, rest, &slow_switches())
        }
        Unit::Switch { group, switch } => {
            let own_name = (group, switch);
            !routes.is_mirrored(own_name, own, value, rest)
                && !routes.is_behind(own_name, own, value, rest, &slow_switches())
        }
        Unit::Group(group) => routes.is_of_group(group, own, value, rest),
        Unit::Node(_) | Unit::GroupPair(..) | Unit::Path(_) => true,
    }
}

/// The slow switch at which links between groups may end, and whose effect they then have: one of
/// either group that is about as slow as they are.
fn slow_end(selected: &mut [PartEffect], links: Unit, value: f64) -> Option<&mut PartEffect> {
    let Unit::GroupPair(one, other) = links else {
        return None;
    };
    selected.iter_mut().find(|effect| {
        let is_end = match effect.unit {
            Unit::Switch { group, .. } => group == one || group == other,
            _ => false,
        };
        is_end && effect.role.is_none() && has_effect(value, effect.value)
    })
}

/// The residuals without the effects: what chance alone does.
struct Noise<'a> {
    rest: &'a [f64],
    /// The residuals in ascending order.
    sorted: Vec<f64>,
    /// Robust deviation of the residuals.
    spread: f64,
    /// Robust deviation of the effects of NICs in no selected part.
    spread_of_nics: f64,
    nics: usize,
    candidates: usize,
}

impl Noise<'_> {
    /// Whether an effect is larger than chance allows.
    fn is_exceeded(&self, effect: &PartEffect) -> bool {
        let half = effect.value.abs() / 2.0;
        let by_chance = if effect.value > 0.0 {
            self.sorted.len() - self.sorted.partition_point(|rest| *rest < half)
        } else {
            self.sorted.partition_point(|rest| *rest <= -half)
        };
        let own = effect.pairs.iter().map(|pair| self.rest[*pair as usize]);
        let (mut own_by_chance, mut hits) = (0, 0);
        for rest in own {
            own_by_chance += usize::from(rest * effect.value.signum() >= half);
            hits += usize::from(has_effect(rest + effect.value, effect.value));
        }
        let others = self.rest.len() - effect.pairs.len();
        let part = ((by_chance - own_by_chance) as f64 + 0.5) / (others as f64 + 1.0);
        let by_chance = binomial_tail(effect.pairs.len(), hits, part.min(0.999));
        let error = error_of_median(self.spread, effect.pairs.len());
        let error_of_centre = error_of_median(self.spread, others);
        by_chance * (self.candidates as f64) < FALSE_ALARM
            && effect.value.abs() > score_limit(self.candidates) * error.hypot(error_of_centre)
            && effect.value.abs() > score_limit(self.nics) * self.spread_of_nics
    }
}

/// Keeps the significant effects, and adds the others to the residuals again.
fn keep_significant(
    pairs: &[PairResidual],
    mut effects: Vec<PartEffect>,
    mut rest: Vec<f64>,
    nics: usize,
    candidates: usize,
) -> Selected {
    loop {
        let mut is_explained = vec![false; pairs.len()];
        for effect in &effects {
            for pair in &effect.pairs {
                is_explained[*pair as usize] = true;
            }
        }
        let spread_of_rest = spread(&rest);
        let mut nic_lists: BTreeMap<NicId, Vec<f64>> = BTreeMap::new();
        for ((one, rest), is_explained) in pairs.iter().zip(&rest).zip(&is_explained) {
            for nic in one.pair.nics().into_iter().filter(|_| !is_explained) {
                nic_lists.entry(nic).or_default().push(*rest);
            }
        }
        let medians = nic_lists.into_values().filter_map(|rests| lower_median(&rests));
        let spread_of_nics = spread(&medians.collect::<Vec<f64>>());
        let noise = Noise {
            rest: &rest,
            sorted: sorted(&rest),
            spread: spread_of_rest,
            spread_of_nics,
            nics,
            candidates,
        };
        let is_significant = |effect: &PartEffect| noise.is_exceeded(effect);
        let (kept, gone): (Vec<_>, Vec<_>) = effects.into_iter().partition(is_significant);
        effects = kept;
        for pair in gone.iter().flat_map(|effect| {
            let value = effect.value;
            effect.pairs.iter().map(move |pair| (*pair, value))
        }) {
            rest[pair.0 as usize] += pair.1;
        }
        if gone.is_empty() {
            for effect in &mut effects {
                let error = error_of_median(spread_of_rest, effect.pairs.len());
                effect.error = error.max(LEAST_ERROR);
            }
            return Selected {
                effects,
                rest,
                is_explained,
                spread: spread_of_rest,
                spread_of_nics,
                nics,
                candidates,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Cluster, pair};
    use super::*;

    /// The parts that explain why these pairs of three groups with four NICs are slow.
    fn slow_parts(slow: &[Pair]) -> Vec<Unit> {
        let roster = Cluster::new([3, 1, 4, 1], &["write-lat"], 1).roster;
        let all = (0..12).flat_map(|one| (0..12).map(move |other| pair(one, other)));
        let is_between = |pair: &Pair| pair.initiator.0 / 4 == 0 && pair.target.0 / 4 == 1;
        // The groups 0 and 1 have these pairs with each other, and no further one.
        let others = all.filter(|pair| !pair.is_loopback());
        let others = others.filter(|pair| !is_between(pair) && !is_between(&pair.reversed()));
        let good = others.map(|pair| PairResidual { pair, value: 0.0 });
        let slow = slow.iter().map(|pair| PairResidual { pair: *pair, value: 1.0 });
        let pairs: Vec<PairResidual> = good.chain(slow).collect();
        select(&pairs, 0.3, &roster).effects.iter().map(|effect| effect.unit).collect()
    }

    #[test]
    fn links_are_slow_if_several_nics_on_both_sides_are_late() {
        let links = [Unit::GroupPair(0, 1)];
        assert_eq!(slow_parts(&[pair(0, 4), pair(1, 5), pair(2, 6), pair(3, 7)]), links);
        let one_nic_pairs = [pair(0, 4), pair(0, 5), pair(0, 6), pair(0, 7)];
        assert!(!slow_parts(&one_nic_pairs).contains(&links[0]));
        assert!(!slow_parts(&one_nic_pairs.map(Pair::reversed)).contains(&links[0]));
    }
}
