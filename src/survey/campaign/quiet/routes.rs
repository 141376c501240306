//! What pairs pass on their route, as far as their locations tell it: two NICs of different groups
//! a link between these groups, two NICs of different switches of a group a link between these
//! switches. A slow link looks like a slow NIC, and a slow switch at which links to other groups
//! end like a slow group, unless other pairs on the same route, or the same part on other routes,
//! tell them apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::fit::{PairResidual, has_effect};
use super::roster::{NicId, Pair, Role, Roster, Unit, group_pair};
use crate::blame::LARGER_SHARE;

/// Fewest pairs on a route that tell whether it is slow, and the part of the routes of a group from
/// which routes without the effect show that the group does not have it.
const LEAST_PAIRS: usize = 2;
const MOST_CLEAN: f64 = 0.25;

/// A group, and a switch of it.
pub type SwitchId = (u16, u16);

/// The route between two NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// Within a switch.
    Switch(SwitchId),
    /// Between two switches of a group, the smaller one first.
    Local(SwitchId, SwitchId),
    /// Between two groups, the smaller one first.
    Global(u16, u16),
}

/// The pairs of a test by their routes.
pub struct PairsByRoute<'a> {
    pairs: &'a [PairResidual],
    roster: &'a Roster,
    by_route: HashMap<Route, Vec<u32>>,
    /// The pairs of each group with others, by the other group.
    group_lists: HashMap<u16, BTreeMap<u16, Vec<u32>>>,
}

/// A switch with the links to other groups that seem to end at it.
pub struct Gateway {
    /// The pairs of the switch, and those on these links.
    pub pairs: Vec<u32>,
    /// The pairs of groups whose links these are.
    pub links: Vec<Unit>,
}

/// The switch of a NIC, if its location is known.
fn switch(roster: &Roster, nic: NicId) -> Option<SwitchId> {
    let location = roster.location(nic)?;
    Some((location.group, location.switch))
}

/// The route of a pair, if the locations of its NICs are known.
pub fn route(roster: &Roster, pair: Pair) -> Option<Route> {
    let (one, other) = (switch(roster, pair.initiator)?, switch(roster, pair.target)?);
    Some(if one.0 != other.0 {
        Route::Global(one.0.min(other.0), one.0.max(other.0))
    } else if one != other {
        Route::Local(one.min(other), one.max(other))
    } else {
        Route::Switch(one)
    })
}

impl<'a> PairsByRoute<'a> {
    /// The routes of these pairs.
    pub fn new(pairs: &'a [PairResidual], roster: &'a Roster) -> Self {
        let mut routes =
            Self { pairs, roster, by_route: HashMap::new(), group_lists: HashMap::new() };
        for (index, one) in (0..).zip(pairs) {
            let Some(route) = routes.route(one.pair) else {
                continue;
            };
            routes.by_route.entry(route).or_default().push(index);
            if let Route::Global(one, other) = route {
                for (own, other) in [(one, other), (other, one)] {
                    let group_lists = routes.group_lists.entry(own).or_default();
                    group_lists.entry(other).or_default().push(index);
                }
            }
        }
        routes
    }

    fn switch(&self, nic: NicId) -> Option<SwitchId> {
        switch(self.roster, nic)
    }

    fn route(&self, pair: Pair) -> Option<Route> {
        route(self.roster, pair)
    }

    fn pair(&self, index: u32) -> Pair {
        self.pairs[index as usize].pair
    }

    fn is_at(&self, index: u32, switch: SwitchId) -> bool {
        let nics = self.pair(index).nics();
        nics.into_iter().any(|nic| self.switch(nic) == Some(switch))
    }

    /// Whether a NIC with the effect in these pairs, `own`, is likelier to have it than the route
    /// of the pairs. It is if they have several routes, or if other pairs on their only route do
    /// not have the effect, whatever explains them. Beside a slow switch of its group, some of its
    /// pairs are within the group: others may pass the switch.
    pub fn is_of_nic(
        &self,
        (nic, role): (NicId, Option<Role>),
        own: &[u32],
        effect: f64,
        rest: &[f64],
        slow_switches: &[SwitchId],
    ) -> bool {
        let has = |index: &u32| has_effect(rest[*index as usize], effect);
        let slow = own.iter().filter(|index| has(index));
        let routes: BTreeSet<Option<Route>> =
            slow.map(|index| self.route(self.pair(*index))).collect();
        let is_beside = |(group, switch): &SwitchId| {
            let own = self.switch(nic);
            own.is_some_and(|own| own.0 == *group && own.1 != *switch)
        };
        let is_global = |route: &Option<Route>| matches!(route, Some(Route::Global(..)));
        if slow_switches.iter().any(is_beside) && routes.iter().all(is_global) {
            return false;
        }
        let mut routes = routes.into_iter();
        let (Some(Some(route)), None) = (routes.next(), routes.next()) else {
            return true;
        };
        if matches!(route, Route::Switch(_)) {
            return true;
        }
        let group = self.switch(nic).map(|(group, _)| group);
        let is_beside = |index: &&u32| {
            let pair = self.pair(**index);
            let is_other = !pair.nics().contains(&nic);
            // In one role, pairs in the other direction have another link.
            let is_same_way = role.is_none_or(|role| {
                let own = pair.nics()[role.index()];
                match route {
                    Route::Global(..) => self.switch(own).map(|(group, _)| group) == group,
                    _ => self.switch(own) == self.switch(nic),
                }
            });
            is_other && is_same_way
        };
        let beside: Vec<&u32> = self.by_route[&route].iter().filter(is_beside).collect();
        if beside.is_empty() {
            return own.iter().all(has);
        }
        let had = |index: &&&u32| has_effect(self.pairs[***index as usize].value, effect);
        let hits = beside.iter().filter(had).count();
        2 * hits <= beside.len()
    }

    /// Whether all pairs of a switch that have the effect lead to the same other switch, which may
    /// then have it as well.
    pub fn is_mirrored(&self, switch: SwitchId, own: &[u32], effect: f64, rest: &[f64]) -> bool {
        let slow = own.iter().filter(|index| has_effect(rest[**index as usize], effect));
        let others: BTreeSet<Option<SwitchId>> = slow
            .map(|index| {
                let [one, other] = self.pair(*index).nics().map(|nic| self.switch(nic));
                if one == Some(switch) { other } else { one }
            })
            .collect();
        others.len() == 1 && !others.contains(&Some(switch))
    }

    /// Whether another switch of the group is slow, and may be why the pairs of a switch have an
    /// effect: no pair within the group has it that does not touch the other switch.
    pub fn is_behind(
        &self,
        switch: SwitchId,
        own: &[u32],
        effect: f64,
        rest: &[f64],
        slow_switches: &[SwitchId],
    ) -> bool {
        let is_beside = |slow: &&SwitchId| slow.0 == switch.0 && slow.1 != switch.1;
        slow_switches.iter().filter(is_beside).any(|slow| {
            let is_own = |index: &&u32| {
                has_effect(rest[**index as usize], effect)
                    && group_pair(self.roster, self.pair(**index)).is_none()
                    && !self.is_at(**index, *slow)
            };
            !own.iter().any(|index| is_own(&index))
        })
    }

    /// Whether the pairs of a group have an effect that no switch of it has alone: the links to
    /// most other groups have it for the other switches too.
    pub fn is_of_group(&self, group: u16, own: &[u32], effect: f64, rest: &[f64]) -> bool {
        let switches = self.switches(group, own);
        if switches.len() < 2 {
            return true;
        }
        switches.iter().all(|switch| {
            let others = || own.iter().filter(|index| !self.is_at(**index, *switch));
            if others().next().is_none() {
                return false;
            }
            let (mut known, mut clean) = (0, 0);
            for (hits, count) in self.beside(group, *switch, effect, rest).into_values() {
                if count >= LEAST_PAIRS {
                    known += 1;
                    clean += usize::from(hits == 0);
                }
            }
            clean == 0 || (clean as f64) < MOST_CLEAN * f64::from(known)
        })
    }

    /// The switches of a group that these pairs have.
    fn switches(&self, group: u16, own: &[u32]) -> BTreeSet<SwitchId> {
        let nics = own.iter().flat_map(|index| self.pair(*index).nics());
        nics.filter_map(|nic| self.switch(nic)).filter(|switch| switch.0 == group).collect()
    }

    /// Returns how many pairs of the other switches of a group have an effect, and how many there
    /// are, by the other group.
    fn beside(
        &self,
        group: u16,
        switch: SwitchId,
        effect: f64,
        rest: &[f64],
    ) -> BTreeMap<u16, (usize, usize)> {
        let group_pairs = self.group_lists.get(&group).into_iter().flatten();
        let counts = group_pairs.filter_map(|(other, pairs)| {
            let beside = pairs.iter().filter(|index| !self.is_at(**index, switch));
            let (mut hits, mut count) = (0, 0);
            for index in beside {
                count += 1;
                hits += usize::from(has_effect(rest[*index as usize], effect));
            }
            (count > 0).then_some((*other, (hits, count)))
        });
        counts.collect()
    }

    /// The links to other groups that end at a switch, if the switch has the effect on its other
    /// pairs too, and the links to some groups have it, for the other switches of the group as
    /// well. Links to all groups do not end at one switch: then it is the group that has the
    /// effect.
    pub fn gateway(
        &self,
        switch: SwitchId,
        own: &[u32],
        effect: f64,
        rest: &[f64],
    ) -> Option<Gateway> {
        let group = switch.0;
        let has = |index: &u32| has_effect(rest[*index as usize], effect);
        let beside = self.beside(group, switch, effect, rest);
        let has_clean = beside.values().any(|(hits, _)| *hits == 0);
        if beside.len() > 1 && !has_clean {
            return None;
        }
        let is_slow = |(hits, count): &(usize, usize)| *hits as f64 >= LARGER_SHARE * *count as f64;
        let slow = beside.iter().filter(|(_, entry)| is_slow(entry));
        let slow: Vec<u16> = slow.map(|(other, _)| *other).collect();
        let links = slow.iter().map(|other| Unit::GroupPair(group.min(*other), group.max(*other)));
        let links: Vec<Unit> = links.collect();
        // Links explain the pairs that cross them; only a switch explains its others.
        let crosses = |index: u32| {
            let crossed = group_pair(self.roster, self.pair(index));
            crossed.is_some_and(|unit| links.contains(&unit))
        };
        let others: Vec<&u32> = own.iter().filter(|index| !crosses(**index)).collect();
        let hits = others.iter().filter(|index| has(index)).count();
        if links.is_empty()
            || others.is_empty()
            || (hits as f64) < LARGER_SHARE * others.len() as f64
        {
            return None;
        }
        let on_links = slow.iter().flat_map(|other| &self.group_lists[&group][other]);
        let pairs: BTreeSet<u32> = own.iter().chain(on_links).copied().collect();
        Some(Gateway { pairs: pairs.into_iter().collect(), links })
    }
}
