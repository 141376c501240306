//! Properties of roles and of victim pairs.

use std::collections::BTreeSet;

use fastrand::Rng;
use proptest::prelude::*;

use super::findings::Spread;
use super::roles::{RoleRules, Roles, VICTIMS_PERCENT, assign_roles, victim_pairs};
use super::testing::{all_placed, d4, fabric, fabric_of_wide_nodes};
use crate::located::{LocatedNic, groups, switches};
use campaign::quiet::ids::NodeId;
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
        for shape in [[0, 0, count, 1], [1, 1, count, 1], [1, count, 1, 1], [count / 4, 2, 2, 1]] {
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
