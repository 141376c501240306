//! The pairs that load.md 5 names, and properties of the flows of all patterns.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::flows::{PEERS, flows};
use super::pattern::{Distance, Pattern, Set};
use super::quiet;
use super::testing::{VECTOR_9, all_placed, d4, fabric, fabric_of_wide_nodes};
use crate::located::reordered;
use crate::slot::LoadFlow;
use campaign::quiet::answer::Pair;
use campaign::quiet::ids::NicId;
use campaign::quiet::roster::Roster;
use crew::location::Class;

fn bisect(set: Set, both_ways: bool) -> Pattern {
    Pattern::Bisect { of: set, both_ways }
}

/// Returns sources and targets by their numbers.
fn numbers(flows: &[LoadFlow]) -> BTreeSet<(u32, u32)> {
    let pairs = flows.iter().flat_map(|flow| flow.peers.iter().map(|peer| (flow.source, *peer)));
    pairs.map(|(source, target)| (source.0, target.0)).collect()
}

#[test]
fn halves_of_system_are_those_of_vector_9() {
    let nics = all_placed(&d4());
    let expected = VECTOR_9;
    let one_way = |slot| numbers(&flows(bisect(Set::System, false), &nics, slot, 5));
    let reversed = expected.map(|(one, other)| (other, one));
    assert_eq!(one_way(0), expected.into());
    assert_eq!(one_way(1), reversed.into());
    let both = numbers(&flows(bisect(Set::System, true), &nics, 0, 5));
    assert_eq!(both, expected.into_iter().chain(reversed).collect());
}

#[test]
fn halves_of_system_cross_each_pair_of_groups() {
    let nics = all_placed(&d4());
    for (both_ways, slots) in [(false, 16), (true, 8)] {
        let slot_flows = |slot| flows(bisect(Set::System, both_ways), &nics, slot, 5);
        let all: Vec<LoadFlow> = (0..slots).flat_map(slot_flows).collect();
        let pairs = numbers(&all);
        let pairs: BTreeSet<_> = pairs.iter().map(|(from, to)| (from / 4, to / 4)).collect();
        assert_eq!(pairs.len(), 12, "{both_ways}");
    }
}

#[test]
fn shifts_are_those_of_vectors_11_and_12() {
    let nics = all_placed(&d4());
    for (distance, by) in [(Distance::One, 1), (Distance::Switch, 2), (Distance::Group, 4)] {
        let expected = (0..16).map(|source| (source, (source + by) % 16)).collect();
        for slot in [0, 7] {
            let found = numbers(&flows(Pattern::Shift(distance), &nics, slot, 5));
            assert_eq!(found, expected, "{distance:?}");
        }
    }
    let shifts: BTreeSet<u32> = (0..40)
        .map(|slot| {
            let found = numbers(&flows(Pattern::Shift(Distance::Random), &nics, slot, 5));
            let by = found.first().unwrap().1;
            assert_eq!(found, (0..16).map(|source| (source, (source + by) % 16)).collect());
            by
        })
        .collect();
    assert!(shifts.len() > 8, "{shifts:?}");
}

#[test]
fn retests_of_the_system_load_the_same_groups_with_other_pairs() {
    let nics = all_placed(&d4());
    let again = reordered(&nics, &mut fastrand::Rng::with_seed(1));
    let [first, second] =
        [&nics, &again].map(|nics| numbers(&flows(bisect(Set::System, false), nics, 0, 5)));
    assert_ne!(first, second);
    let by_group = |pairs: &BTreeSet<(u32, u32)>| {
        let mut counts = BTreeMap::new();
        for (source, target) in pairs {
            *counts.entry((source / 4, target / 4)).or_insert(0) += 1;
        }
        counts
    };
    assert_eq!(by_group(&first), by_group(&second));
    assert!(by_group(&first).values().all(|count| *count == 2));
}

#[test]
fn all_to_all_uses_each_shift_before_it_repeats_one() {
    let nics = all_placed(&fabric([3, 4, 2, 1]));
    let count = nics.len() as u32;
    let pattern = Pattern::AllToAll;
    let mut seen = BTreeSet::new();
    for slot in 0..(count - 1).div_ceil(PEERS as u32) {
        let found = flows(pattern, &nics, slot, 5);
        assert!(found.iter().all(|flow| flow.peers.len() == PEERS));
        seen.extend(numbers(&found));
    }
    assert_eq!(seen.len() as u32, count * (count - 1));
}

#[test]
fn quiet_slots_share_no_switch() {
    let nics = all_placed(&d4());
    assert_eq!(quiet::slots(&nics), 8);
    for slot in 0..quiet::slots(&nics) {
        let found = numbers(&flows(Pattern::Quiet, &nics, slot, 5));
        assert_eq!(found.len(), 4);
        let ends: BTreeSet<u32> =
            found.iter().flat_map(|(one, other)| [one / 2, other / 2]).collect();
        assert_eq!(ends.len(), 8);
        assert!(found.iter().all(|(one, other)| one / 4 == other / 4));
    }
    let unplaced = all_placed(&fabric([0, 0, 40, 1]));
    assert_eq!(flows(Pattern::Quiet, &unplaced, 0, 5).len(), 5);
    assert_eq!(quiet::slots(&unplaced), 8);
}

#[test]
fn sources_of_a_star_are_at_other_switches() {
    let roster = fabric([2, 4, 3, 1]);
    let nics = all_placed(&roster);
    for slot in 0..8 {
        let found = flows(Pattern::Incast(8), &nics, slot, 5);
        assert_eq!(found.len(), 16);
        for (source, target) in numbers(&found) {
            let pair = Pair { initiator: NicId(source), target: NicId(target) };
            assert!(matches!(roster.class(pair), Class::Group | Class::Fabric));
        }
    }
    // Without other switches, all sources are at the switch of the target.
    let one_switch = all_placed(&fabric([1, 1, 9, 1]));
    assert_eq!(flows(Pattern::Incast(8), &one_switch, 0, 5).len(), 8);
    assert_eq!(flows(Pattern::Incast(9), &one_switch, 0, 5).len(), 0);
}

#[test]
fn all_nics_send_equally_often() {
    let nics = all_placed(&fabric([4, 3, 4, 1]));
    for (pattern, slots, most_unequal) in [
        (Pattern::Quiet, quiet::slots(&nics), 0),
        (bisect(Set::All, false), 16, 0),
        (bisect(Set::Switch, false), 16, 0),
        (bisect(Set::Group, false), 16, 0),
        (bisect(Set::System, false), 16, 0),
        (bisect(Set::Group, true), 8, 0),
        (bisect(Set::System, true), 8, 0),
        (Pattern::Shift(Distance::One), 8, 0),
        (Pattern::Shift(Distance::Group), 8, 0),
        (Pattern::Shift(Distance::Random), 8, 0),
        (Pattern::AllToAll, 16, 0),
        (Pattern::Incast(8), 16, 1),
        (Pattern::Incast(32), 16, 1),
    ] {
        let mut counts: BTreeMap<NicId, u32> = nics.iter().map(|nic| (nic.nic, 0)).collect();
        for slot in 0..slots {
            for flow in flows(pattern, &nics, slot, 5) {
                *counts.get_mut(&flow.source).unwrap() += 1;
            }
        }
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert!(*least > 0 && most - least <= most_unequal, "{pattern:?}: {least} to {most}");
    }
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let sets = prop::sample::select(vec![Set::All, Set::Switch, Set::Group, Set::System]);
    let distances = prop::sample::select(vec![
        Distance::One,
        Distance::Switch,
        Distance::Group,
        Distance::Random,
    ]);
    prop_oneof![
        Just(Pattern::Quiet),
        Just(Pattern::AllToAll),
        (sets, any::<bool>()).prop_map(|(of, both_ways)| Pattern::Bisect { of, both_ways }),
        distances.prop_map(Pattern::Shift),
        (2..12_u16).prop_map(Pattern::Incast),
    ]
}

fn any_fabric() -> impl Strategy<Value = Roster> {
    let regular = (0..5_u16, 1..4_u16, 1..5_u16, 1..4_u16);
    prop_oneof![
        regular.prop_map(|(groups, switches, nodes, nics)| fabric([groups, switches, nodes, nics])),
        (1..5_u16, 1..5_u16, 1..4_u16)
            .prop_map(|(groups, switches, nodes)| fabric_of_wide_nodes(groups, switches, nodes)),
    ]
}

proptest! {
    #[test]
    fn flows_keep_the_rules_of_their_pattern(
        roster in any_fabric(),
        absent in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        pattern in any_pattern(),
        slot in 0..40_u32,
        seed in any::<u64>(),
    ) {
        let mut nics = all_placed(&roster);
        for index in absent {
            if !nics.is_empty() {
                nics.remove(index.index(nics.len()));
            }
        }
        let found = flows(pattern, &nics, slot, seed);
        let usable: BTreeSet<NicId> = nics.iter().map(|nic| nic.nic).collect();
        let sources: BTreeSet<NicId> = found.iter().map(|flow| flow.source).collect();
        prop_assert_eq!(sources.len(), found.len());
        let mut received: BTreeMap<NicId, usize> = BTreeMap::new();
        for flow in &found {
            prop_assert!(!flow.peers.is_empty() && flow.peers.len() <= PEERS);
            let peers: BTreeSet<&NicId> = flow.peers.iter().collect();
            prop_assert_eq!(peers.len(), flow.peers.len());
            for peer in &flow.peers {
                *received.entry(*peer).or_default() += 1;
                prop_assert!(usable.contains(peer) && usable.contains(&flow.source));
                let class = roster.class(Pair { initiator: flow.source, target: *peer });
                let is_allowed = match pattern {
                    Pattern::Bisect { of: Set::Switch, .. } => class == Class::Switch,
                    Pattern::Bisect { of: Set::Group, .. } => {
                        matches!(class, Class::Switch | Class::Group)
                    }
                    Pattern::Bisect { of: Set::System, .. }
                    | Pattern::Shift(Distance::Group) => class == Class::Fabric,
                    Pattern::Shift(Distance::Switch) => {
                        matches!(class, Class::Group | Class::Fabric)
                    }
                    _ => !matches!(class, Class::Loopback | Class::Node),
                };
                prop_assert!(is_allowed, "{:?}: {:?}", pattern, class);
            }
        }
        let is_disjoint = received.keys().all(|target| !sources.contains(target));
        match pattern {
            Pattern::Incast(count) => {
                prop_assert!(is_disjoint);
                prop_assert!(received.values().all(|count_received| *count_received <= count.into()));
            }
            Pattern::AllToAll => {}
            _ => {
                prop_assert!(received.values().all(|count_received| *count_received == 1));
                let is_one_way = matches!(
                    pattern,
                    Pattern::Quiet | Pattern::Bisect { both_ways: false, .. }
                );
                prop_assert!(is_disjoint || !is_one_way);
            }
        }
        prop_assert_eq!(found, flows(pattern, &nics, slot, seed));
    }
}
