//! The NICs that take part in the load, ordered by where they are.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use campaign::quiet::ids::{NicId, NodeId};
use campaign::quiet::roster::Roster;
use crew::location::Class;

/// A NIC that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocatedNic {
    /// Group and switch; `None` if they are not known.
    pub switch: Option<(u16, u16)>,
    /// Index in the roster.
    pub nic: NicId,
    pub node: NodeId,
}

impl LocatedNic {
    /// Returns the group, if it is known.
    pub fn group(&self) -> Option<u16> {
        self.switch.map(|(group, _)| group)
    }
}

/// Returns the NICs by group, switch and port. NICs without a location follow: the first NIC of
/// each node, then the second one of each node, so that neighbours are NICs of different nodes.
pub fn placed(roster: &Roster, usable: &[NicId]) -> Vec<LocatedNic> {
    let mut nics_by_node: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut keyed: Vec<_> = usable
        .iter()
        .map(|nic| {
            let (node, location) = (roster.nic(*nic).node, roster.location(*nic));
            let ordinal = nics_by_node.entry(node).or_default();
            *ordinal += 1;
            let key = match location {
                Some(at) => (0, at.port, 0),
                None => (1, None, *ordinal),
            };
            let placed =
                LocatedNic { switch: location.map(|at| (at.group, at.switch)), nic: *nic, node };
            (key.0, placed.switch, key.1, key.2, placed)
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(.., placed)| placed).collect()
}

/// Returns the NICs of each value of `key`, by value. NICs keep their order; NICs without a value
/// are left out.
pub fn sets<K: Ord>(
    nics: &[LocatedNic],
    key: impl Fn(&LocatedNic) -> Option<K>,
) -> Vec<Vec<LocatedNic>> {
    let mut sets: BTreeMap<K, Vec<LocatedNic>> = BTreeMap::new();
    for nic in nics {
        if let Some(key) = key(nic) {
            sets.entry(key).or_default().push(*nic);
        }
    }
    sets.into_values().collect()
}

pub fn switches(nics: &[LocatedNic]) -> Vec<Vec<LocatedNic>> {
    sets(nics, |nic| nic.switch)
}

pub fn groups(nics: &[LocatedNic]) -> Vec<Vec<LocatedNic>> {
    sets(nics, LocatedNic::group)
}

/// Returns the smallest part of the fabric that two NICs share.
pub fn class(one: &LocatedNic, other: &LocatedNic) -> Class {
    match (one.switch, other.switch) {
        _ if one.nic == other.nic => Class::Loopback,
        _ if one.node == other.node => Class::Node,
        (Some(one), Some(other)) if one == other => Class::Switch,
        (Some(one), Some(other)) if one.0 == other.0 => Class::Group,
        (Some(_), Some(_)) => Class::Fabric,
        _ => Class::Unknown,
    }
}

/// Returns the NICs with the switches of each group and the NICs of each switch in random order:
/// patterns among them load the same groups, and have other pairs of NICs.
pub fn reordered(nics: &[LocatedNic], rng: &mut Rng) -> Vec<LocatedNic> {
    let mut order = Vec::with_capacity(nics.len());
    for group in groups(nics) {
        let mut group_lists = switches(&group);
        rng.shuffle(&mut group_lists);
        for mut switch_nics in group_lists {
            rng.shuffle(&mut switch_nics);
            order.extend(switch_nics);
        }
    }
    let mut unplaced = sets(nics, |nic| nic.switch.is_none().then_some(())).concat();
    rng.shuffle(&mut unplaced);
    order.extend(unplaced);
    order
}

/// Most groups of a part of the fabric.
const GROUPS_OF_PART: usize = 4;

/// Returns at most `most` NICs, in their order. They are a small fabric of their own: NICs of up to
/// four random groups, from several switches of each, so that each pattern finds flows of each kind
/// in it.
pub fn part(nics: &[LocatedNic], most: usize, rng: &mut Rng) -> Vec<LocatedNic> {
    if most >= nics.len() {
        return nics.to_vec();
    }
    let mut all = sets(nics, |nic| Some(nic.group()));
    rng.shuffle(&mut all);
    // Groups of four NICs each, two groups at least.
    let groups = (most / 4).clamp(2, GROUPS_OF_PART).min(all.len());
    let most_of_group = most.div_ceil(groups);
    let most_of_switch = (most_of_group / 4).max(2);
    let (mut chosen, mut spare) = (Vec::new(), Vec::new());
    for (index, group) in all.iter().enumerate() {
        let mut switches = sets(group, |nic| Some(nic.switch));
        rng.shuffle(&mut switches);
        let room = if index < groups { most_of_group } else { 0 };
        let mut taken = 0;
        for mut switch in switches {
            rng.shuffle(&mut switch);
            let count = switch.len().min(most_of_switch).min(room - taken);
            taken += count;
            chosen.extend_from_slice(&switch[..count]);
            spare.extend_from_slice(&switch[count..]);
        }
    }
    // Switches with few NICs may leave room; NICs of the same groups come first.
    chosen.extend(spare);
    chosen.truncate(most);
    let chosen: BTreeSet<NicId> = chosen.iter().map(|nic| nic.nic).collect();
    nics.iter().filter(|nic: &&LocatedNic| chosen.contains(&nic.nic)).copied().collect()
}
