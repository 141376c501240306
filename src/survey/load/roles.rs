//! The NICs that take part in the load, ordered by where they are; who makes load and who is judged
//! (load.md 3.5). Roles are dealt to nodes, because the NICs of a node share its memory and CPUs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;

use super::findings::Spread;
use campaign::quiet::roster::{NicId, NodeId, Pair, Roster};
use crew::location::Class;

/// Part of the nodes that are victims by default, in percent.
pub const VICTIMS_PERCENT: u8 = 20;

/// Small fabrics have at least this number of victims, for two pairs, if half of the nodes are
/// enough.
const LEAST_VICTIMS: usize = 4;

/// The NICs by role, each list in the order of the locations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// They make load.
    pub aggressors: Vec<LocatedNic>,
    /// They are judged.
    pub victims: Vec<LocatedNic>,
}

/// How many NICs have which role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleRules {
    /// Part of the nodes that are victims, in percent.
    pub victims_percent: u8,
    pub most_aggressors: usize,
}

type NodeNics = Vec<LocatedNic>;

/// Nodes that have the same role.
type RoleUnit = Vec<usize>;

/// Deals roles: a part of the nodes are victims, as far as the spread allows. `None` if the NICs
/// are too few, or have no locations and the spread needs them.
pub fn assign_roles(
    nics: &[LocatedNic],
    spread: Spread,
    rules: RoleRules,
    rng: &mut Rng,
) -> Option<Roles> {
    let nodes: Vec<NodeNics> = sets(nics, |nic| Some(nic.node));
    let home = |node: usize| nodes[node][0].switch;
    let parents: Vec<Vec<RoleUnit>> = match spread {
        Spread::Mixed => {
            let units = (0..nodes.len()).map(|node| vec![node]);
            by_key(units, |unit| home(unit[0])).collect()
        }
        Spread::Switches => {
            let units = joined(&nodes, |nic| nic.switch);
            by_key(units, |unit: &RoleUnit| home(unit[0]).map(|(group, _)| group)).collect()
        }
        Spread::Groups => vec![joined(&nodes, |nic| nic.group().map(|group| (group, 0)))],
    };
    // Otherwise it would be the same as whole groups.
    if spread == Spread::Switches && parents.iter().all(|units| units.len() < 2) {
        return None;
    }
    let is_victim = victims_of(&parents, nodes.len(), rules.victims_percent, rng);
    let mut role_of: HashMap<NodeId, bool> = HashMap::new();
    for node in parents.iter().flatten().flatten() {
        role_of.insert(nodes[*node][0].node, is_victim[*node]);
    }
    let role_nics = |wanted| -> Vec<LocatedNic> {
        let has_role = |nic: &&LocatedNic| role_of.get(&nic.node) == Some(&wanted);
        nics.iter().filter(has_role).copied().collect()
    };
    let mut roles = Roles { aggressors: role_nics(false), victims: role_nics(true) };
    if roles.aggressors.len() > rules.most_aggressors {
        roles.aggressors = part(&roles.aggressors, rules.most_aggressors, rng);
    }
    let nodes = |nics: &[LocatedNic]| sets(nics, |nic| Some(nic.node)).len();
    let is_enough = nodes(&roles.aggressors) >= 2 && nodes(&roles.victims) >= 2;
    is_enough.then_some(roles)
}

/// The items of each value of `key`, by value.
fn by_key<T, K: Ord>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = Vec<T>> {
    let mut by_key: BTreeMap<K, Vec<T>> = BTreeMap::new();
    for item in items {
        by_key.entry(key(&item)).or_default().push(item);
    }
    by_key.into_values()
}

/// The nodes that `place` joins: nodes with NICs at the same place are in one unit. Nodes without a
/// place are left out.
fn joined(nodes: &[NodeNics], place: impl Fn(&LocatedNic) -> Option<(u16, u16)>) -> Vec<RoleUnit> {
    let mut first: BTreeMap<(u16, u16), usize> = BTreeMap::new();
    let mut above: Vec<usize> = (0..nodes.len()).collect();
    let top = |above: &[usize], mut node: usize| {
        while above[node] != node {
            node = above[node];
        }
        node
    };
    for (node, nics) in nodes.iter().enumerate() {
        for place in nics.iter().filter_map(&place) {
            let (one, other) = (*first.entry(place).or_insert(node), node);
            let (one, other) = (top(&above, one), top(&above, other));
            above[one.max(other)] = one.min(other);
        }
    }
    let has_place = |node: &usize| nodes[*node].iter().all(|nic| place(nic).is_some());
    by_key((0..nodes.len()).filter(has_place), |node| top(&above, *node)).collect()
}

/// Returns which nodes are victims: a part of the units of each parent, at least one and not all.
fn victims_of(parents: &[Vec<RoleUnit>], nodes: usize, percent: u8, rng: &mut Rng) -> Vec<bool> {
    let part = |count: usize| (count * usize::from(percent) + 50) / 100;
    let mut is_victim = vec![false; nodes];
    let mut single = Vec::new();
    let mut others = Vec::new();
    for parent in parents {
        let mut units: Vec<&RoleUnit> = parent.iter().collect();
        if units.len() < 2 {
            single.extend(units);
            continue;
        }
        rng.shuffle(&mut units);
        let count = part(units.len()).clamp(1, units.len() - 1);
        units[..count].iter().for_each(|unit| mark(&mut is_victim, unit));
        // The last one stays, so that each parent keeps both roles.
        others.extend_from_slice(&units[count + 1..]);
    }
    rng.shuffle(&mut single);
    let count = part(single.len());
    single[..count].iter().for_each(|unit| mark(&mut is_victim, unit));
    rng.shuffle(&mut others);
    others.extend_from_slice(&single[count..]);
    let all: usize = parents.iter().flatten().map(Vec::len).sum();
    for unit in others {
        let victims = is_victim.iter().filter(|is_victim| **is_victim).count();
        if victims >= LEAST_VICTIMS {
            break;
        }
        if 2 * (victims + unit.len()) <= all {
            mark(&mut is_victim, unit);
        }
    }
    is_victim
}

fn mark(is_victim: &mut [bool], unit: &RoleUnit) {
    unit.iter().for_each(|node| is_victim[*node] = true);
}

/// Classes of victim pairs, in turn.
const CLASSES: [Class; 3] = [Class::Switch, Class::Group, Class::Fabric];

/// Returns disjoint pairs of victims, as equally many of each class as locations allow. Each
/// repetition begins with another class, so that few victims are in pairs of each class in turn.
pub fn victim_pairs(victims: &[LocatedNic], repetition: u32, rng: &mut Rng) -> Vec<Pair> {
    let mut open = victims.to_vec();
    rng.shuffle(&mut open);
    let most_of_class = (open.len() / 2).div_ceil(CLASSES.len());
    let mut pairs = Vec::new();
    // Equal parts first. Then the victims that are left, once more for those whose first partner
    // was in their own node.
    for turn in 0..3 * CLASSES.len() {
        let class = CLASSES[(turn + repetition as usize) % CLASSES.len()];
        let most = if turn < CLASSES.len() { most_of_class } else { usize::MAX };
        pairs.extend(pairs_of_class(&mut open, class, most, rng));
    }
    pairs.extend(pairs_of_class(&mut open, Class::Unknown, usize::MAX, rng));
    pairs
}

/// Returns at most this number of pairs of a class, and removes their NICs from `open`.
fn pairs_of_class(
    open: &mut Vec<LocatedNic>,
    wanted: Class,
    most: usize,
    rng: &mut Rng,
) -> Vec<Pair> {
    // Sorted by the next smaller part, the halves of a set differ in it.
    let mut sets = match wanted {
        Class::Switch => sets(open, |nic| nic.switch),
        Class::Group => sets(open, LocatedNic::group),
        _ => vec![open.clone()],
    };
    let smaller = |nic: &LocatedNic| match wanted {
        Class::Group => (nic.switch, NodeId(0)),
        Class::Fabric => (nic.group().map(|group| (group, 0)), NodeId(0)),
        _ => (None, nic.node),
    };
    let mut pairs = Vec::new();
    for set in &mut sets {
        set.sort_by_key(smaller);
        let mut high = set.split_off(set.len() / 2);
        for one in set {
            // The first one, except if nodes have NICs in many places.
            let Some(place) = high.iter().position(|other| class(one, other) == wanted) else {
                continue;
            };
            let other = high.remove(place);
            let (initiator, target) = if rng.bool() { (*one, other) } else { (other, *one) };
            pairs.push(Pair { initiator: initiator.nic, target: target.nic });
        }
    }
    rng.shuffle(&mut pairs);
    pairs.truncate(most);
    let used: BTreeSet<NicId> = pairs.iter().flat_map(|pair| pair.nics()).collect();
    open.retain(|nic| !used.contains(&nic.nic));
    pairs
}

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
    /// The group, if it is known.
    pub fn group(&self) -> Option<u16> {
        self.switch.map(|(group, _)| group)
    }
}

/// The NICs by group, switch and port. NICs without a location follow: the first NIC of each node,
/// then the second one of each node, so that neighbours are NICs of different nodes.
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

/// The NICs of each value of `key`, by value. NICs keep their order; NICs without a value are left
/// out.
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

/// The smallest part of the fabric that two NICs share.
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

/// The NICs with the switches of each group and the NICs of each switch in random order: patterns
/// among them load the same groups, and have other pairs of NICs.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fastrand::Rng;
    use proptest::prelude::*;

    use super::super::findings::Spread;
    use super::super::testing::{all_placed, d4, fabric, fabric_of_wide_nodes};
    use super::{
        LocatedNic, RoleRules, Roles, VICTIMS_PERCENT, assign_roles, groups, switches, victim_pairs,
    };
    use campaign::quiet::roster::NodeId;
    use crew::location::Class;

    const SPREADS: [Spread; 3] = [Spread::Mixed, Spread::Switches, Spread::Groups];

    fn rules(victims_percent: u8) -> RoleRules {
        RoleRules { victims_percent, most_aggressors: usize::MAX }
    }

    fn dealt(nics: &[LocatedNic], spread: Spread, seed: u64) -> Option<Roles> {
        assign_roles(nics, spread, rules(VICTIMS_PERCENT), &mut Rng::with_seed(seed))
    }

    fn nodes(nics: &[LocatedNic]) -> BTreeSet<NodeId> {
        nics.iter().map(|nic| nic.node).collect()
    }

    #[test]
    fn mixed_spread_has_both_roles_at_each_switch() {
        let nics = all_placed(&fabric([3, 4, 10, 1]));
        let roles = dealt(&nics, Spread::Mixed, 1).unwrap();
        assert_eq!(switches(&roles.victims).len(), 12);
        for switch_nics in switches(&roles.victims) {
            assert_eq!(switch_nics.len(), 2);
        }
        for switch_nics in switches(&roles.aggressors) {
            assert_eq!(switch_nics.len(), 8);
        }
    }

    #[test]
    fn whole_switches_have_one_role_in_each_group() {
        let nics = all_placed(&fabric([3, 5, 4, 1]));
        let roles = dealt(&nics, Spread::Switches, 1).unwrap();
        let switch_set =
            |nics: &[LocatedNic]| -> BTreeSet<_> { nics.iter().map(|nic| nic.switch).collect() };
        assert!(switch_set(&roles.victims).is_disjoint(&switch_set(&roles.aggressors)));
        assert_eq!(switch_set(&roles.victims).len(), 3);
        assert_eq!(groups(&roles.victims).len(), 3);
    }

    #[test]
    fn whole_groups_have_one_role() {
        let nics = all_placed(&fabric([10, 2, 2, 1]));
        let roles = dealt(&nics, Spread::Groups, 1).unwrap();
        assert_eq!(groups(&roles.victims).len(), 2);
        assert_eq!(groups(&roles.aggressors).len(), 8);
    }

    #[test]
    fn spreads_without_enough_parts_have_no_roles() {
        let is_match = |shape, spread| dealt(&all_placed(&fabric(shape)), spread, 1).is_some();
        let (one_switch, one_group, no_locations) = ([1, 1, 12, 1], [1, 4, 3, 1], [0, 0, 12, 1]);
        assert_eq!(SPREADS.map(|spread| is_match(one_switch, spread)), [true, false, false]);
        assert_eq!(SPREADS.map(|spread| is_match(one_group, spread)), [true, true, false]);
        assert_eq!(SPREADS.map(|spread| is_match(no_locations, spread)), [true, false, false]);
        // Each node has a NIC at each switch: no switch can have one role.
        let wide = all_placed(&fabric_of_wide_nodes(2, 4, 6));
        let found = SPREADS.map(|spread| dealt(&wide, spread, 1).is_some());
        assert_eq!(found, [true, false, true]);
    }

    #[test]
    fn small_fabrics_have_two_victim_pairs() {
        for count in 8..=32_u16 {
            for shape in
                [[0, 0, count, 1], [1, 1, count, 1], [1, count, 1, 1], [count / 4, 2, 2, 1]]
            {
                let nics = all_placed(&fabric(shape));
                for spread in SPREADS {
                    let Some(roles) = dealt(&nics, spread, count.into()) else {
                        assert_ne!(spread, Spread::Mixed);
                        continue;
                    };
                    for repetition in 0..4 {
                        let mut rng = Rng::with_seed(repetition.into());
                        let pairs = victim_pairs(&roles.victims, repetition, &mut rng);
                        assert!(pairs.len() >= 2, "{shape:?} {spread:?}: {pairs:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn victims_are_in_pairs_of_each_class() {
        let roster = fabric([4, 4, 10, 1]);
        let roles = dealt(&all_placed(&roster), Spread::Mixed, 1).unwrap();
        let pairs = victim_pairs(&roles.victims, 0, &mut Rng::with_seed(1));
        assert_eq!(pairs.len(), 16);
        for wanted in [Class::Switch, Class::Group, Class::Fabric] {
            let class_pairs = pairs.iter().filter(|pair| roster.class(**pair) == wanted);
            assert!(class_pairs.count() >= 4, "{wanted:?}: {pairs:?}");
        }
    }

    #[test]
    fn cap_leaves_out_aggressors_only() {
        let capped = RoleRules { victims_percent: 50, most_aggressors: 3 };
        let nics = all_placed(&d4());
        let roles = assign_roles(&nics, Spread::Mixed, capped, &mut Rng::with_seed(1)).unwrap();
        assert_eq!((roles.aggressors.len(), roles.victims.len()), (3, 8));
    }

    proptest! {
        #[test]
        fn roles_share_no_node_and_pairs_share_no_nic(
            shape in (0..5_u16, 1..5_u16, 1..6_u16, 1..4_u16),
            is_wide in any::<bool>(),
            spread in prop::sample::select(SPREADS.to_vec()),
            percent in 1..90_u8,
            seed in any::<u64>(),
        ) {
            let (groups, switches, nodes_of_switch, nics_of_node) = shape;
            let roster = if is_wide {
                fabric_of_wide_nodes(groups.max(1), switches, nodes_of_switch)
            } else {
                fabric([groups, switches, nodes_of_switch, nics_of_node])
            };
            let nics = all_placed(&roster);
            let mut rng = Rng::with_seed(seed);
            if let Some(roles) = assign_roles(&nics, spread, rules(percent), &mut rng) {
                prop_assert!(nodes(&roles.aggressors).is_disjoint(&nodes(&roles.victims)));
                prop_assert_eq!(roles.aggressors.len() + roles.victims.len(), nics.len());
                let pairs = victim_pairs(&roles.victims, 1, &mut rng);
                let ends: BTreeSet<_> = pairs.iter().flat_map(|pair| pair.nics()).collect();
                prop_assert_eq!(ends.len(), 2 * pairs.len());
                let victims: BTreeSet<_> = roles.victims.iter().map(|nic| nic.nic).collect();
                prop_assert!(ends.is_subset(&victims));
                for pair in &pairs {
                    prop_assert!(!matches!(roster.class(*pair), Class::Loopback | Class::Node));
                }
                prop_assert!(4 * pairs.len() >= roles.victims.len(), "{:?}", pairs);
            }
        }
    }
}
