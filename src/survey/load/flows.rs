//! The flows of each pattern among NICs (load.md 3.2). No flow is within a node, and each function
//! returns the same flows for the same arguments.

use std::collections::BTreeMap;
use std::ops::Range;

use fastrand::Rng;

use super::roles::{LocatedNic, groups, switches};
use super::slot::LoadFlow;
use super::spec::{Distance, Pattern, Set};

/// To how many NICs each NIC sends at once in [`Pattern::AllToAll`].
const PEERS: usize = 8;

/// The flows of a slot of a pattern: none if the NICs are too few, or have no locations and the
/// pattern needs them. The order of `nics` is their order in permutations.
pub fn flows(pattern: Pattern, nics: &[LocatedNic], slot: u32, seed: u64) -> Vec<LoadFlow> {
    match pattern {
        Pattern::Quiet => quiet_flows(nics, slot),
        Pattern::Bisect { of, both_ways } => bisect(of, both_ways, nics, slot, seed),
        Pattern::Shift(distance) => one_to_one(shift(distance, nics, slot, seed)),
        Pattern::AllToAll => all_to_all(nics, slot, seed),
        Pattern::Incast(sources) => incast_flows(nics, sources.into(), slot, seed),
    }
}

type SourceAndTarget = (LocatedNic, LocatedNic);

fn one_to_one(pairs: Vec<SourceAndTarget>) -> Vec<LoadFlow> {
    let flow = |(source, target): (LocatedNic, LocatedNic)| LoadFlow {
        source: source.nic,
        peers: vec![target.nic],
    };
    pairs.into_iter().map(flow).collect()
}

/// Whether there may be a flow between two NICs.
fn are_apart(one: &LocatedNic, other: &LocatedNic) -> bool {
    one.node != other.node
}

/// Exchanges targets so that no pair is within a node. Pairs for which there is no exchange are
/// removed.
fn mended(mut pairs: Vec<SourceAndTarget>) -> Vec<SourceAndTarget> {
    for index in 0..pairs.len() {
        let (source, target) = pairs[index];
        if are_apart(&source, &target) {
            continue;
        }
        let fits =
            |other: &SourceAndTarget| are_apart(&source, &other.1) && are_apart(&other.0, &target);
        if let Some(other) = pairs.iter().position(fits) {
            pairs[index].1 = pairs[other].1;
            pairs[other].1 = target;
        }
    }
    pairs.retain(|(source, target)| are_apart(source, target));
    pairs
}

/// The flows of two halves. In one direction, successive slots have the same halves and both
/// directions, so that all NICs send equally often.
fn bisect(
    members: Set,
    both_ways: bool,
    nics: &[LocatedNic],
    slot: u32,
    seed: u64,
) -> Vec<LoadFlow> {
    let (division, is_reversed) = if both_ways { (slot, false) } else { (slot / 2, slot % 2 == 1) };
    let halves_of_each = |sets: Vec<Vec<LocatedNic>>| -> Vec<SourceAndTarget> {
        let mut rng = seeded_rng(seed, division);
        sets.iter().flat_map(|set: &Vec<LocatedNic>| halves(set, division, &mut rng)).collect()
    };
    let pairs = match members {
        Set::All => halves_of_each(vec![nics.to_vec()]),
        Set::Switch => halves_of_each(switches(nics)),
        Set::Group => halves_of_each(groups(nics)),
        Set::System => halves_of_system(nics, division, &mut seeded_rng(seed, division)),
    };
    let reversed = || pairs.iter().map(|(one, other)| (*other, *one)).collect();
    if both_ways {
        one_to_one([pairs.clone(), reversed()].concat())
    } else if is_reversed {
        one_to_one(reversed())
    } else {
        one_to_one(pairs)
    }
}

/// Returns random halves of a set, one to one. Of an odd number of NICs, another one rests each
/// time.
fn halves(set: &[LocatedNic], division: u32, rng: &mut Rng) -> Vec<SourceAndTarget> {
    let mut order = set.to_vec();
    if order.len() % 2 == 1 {
        order.remove(division as usize % set.len());
    }
    rng.shuffle(&mut order);
    let (low, high) = order.split_at(order.len() / 2);
    mended(low.iter().copied().zip(high.iter().copied()).collect())
}

/// Pairs of half of the groups with the other half: NIC q of the j-th group with NIC q of group
/// (j + q) mod h. The first division is in the order of the groups, others are random, so that
/// flows cross each pair of groups. Of an odd number of groups, another one rests each time. If
/// groups have different sizes, the NICs that find no partner change as well.
fn halves_of_system(nics: &[LocatedNic], division: u32, rng: &mut Rng) -> Vec<SourceAndTarget> {
    let mut all = groups(nics);
    if all.len() % 2 == 1 {
        all.remove(division as usize % all.len());
    }
    turn_unequal(&mut all, division);
    if division > 0 {
        rng.shuffle(&mut all);
    }
    let half = all.len() / 2;
    let (low, high) = all.split_at(half);
    let group_pairs = |(j, group): (usize, &Vec<LocatedNic>)| -> Vec<SourceAndTarget> {
        let partner = |(q, nic): (usize, &LocatedNic)| Some((*nic, *high[(j + q) % half].get(q)?));
        group.iter().enumerate().filter_map(partner).collect()
    };
    mended(low.iter().enumerate().flat_map(group_pairs).collect())
}

/// Rotates the NICs of each set if the sets have different sizes.
fn turn_unequal(sets: &mut [Vec<LocatedNic>], by: u32) {
    if sets.windows(2).any(|two| two[0].len() != two[1].len()) {
        for set in sets {
            let by = by as usize % set.len();
            set.rotate_left(by);
        }
    }
}

/// A permutation. Between sets of different sizes, only as many NICs send as the smaller set has,
/// other ones in each slot.
fn shift(distance: Distance, nics: &[LocatedNic], slot: u32, seed: u64) -> Vec<SourceAndTarget> {
    let mut sets = match distance {
        Distance::One => return mended(shifted(nics, 1)),
        Distance::Random if nics.len() < 2 => return Vec::new(),
        Distance::Random => {
            let shift = seeded_rng(seed, slot).usize(1..nics.len());
            return mended(shifted(nics, shift));
        }
        Distance::Switch => switches(nics),
        Distance::Group => groups(nics),
    };
    if sets.len() < 2 {
        return Vec::new();
    }
    turn_unequal(&mut sets, slot);
    let next = sets.iter().cycle().skip(1);
    let pairs_of_set = |(set, next): (&Vec<LocatedNic>, &Vec<LocatedNic>)| {
        mended(set.iter().copied().zip(next.iter().copied()).collect())
    };
    sets.iter().zip(next).flat_map(pairs_of_set).collect()
}

fn shifted(nics: &[LocatedNic], by: usize) -> Vec<SourceAndTarget> {
    let targets = nics.iter().cycle().skip(by);
    nics.iter().copied().zip(targets.copied()).collect()
}

/// The flows of each NIC to [`PEERS`] others, by shifts that no earlier slot had, as long as there
/// are such shifts.
fn all_to_all(nics: &[LocatedNic], slot: u32, seed: u64) -> Vec<LoadFlow> {
    let mut shifts: Vec<usize> = (1..nics.len()).collect();
    if shifts.is_empty() {
        return Vec::new();
    }
    let slots = shifts.len().div_ceil(PEERS);
    let (turn, part) = (slot as usize / slots, slot as usize % slots);
    seeded_rng(seed, turn as u32).shuffle(&mut shifts);
    let slot_shifts = shifts.iter().cycle().skip(part * PEERS);
    let slot_shifts: Vec<usize> = slot_shifts.take(PEERS.min(shifts.len())).copied().collect();
    let flow = |(index, source): (usize, &LocatedNic)| {
        let peers = slot_shifts.iter().map(|shift| &nics[(index + shift) % nics.len()]);
        let peers = peers.filter(|target| are_apart(source, target));
        LoadFlow { source: source.nic, peers: peers.map(|target| target.nic).collect() }
    };
    let flows = nics.iter().enumerate().map(flow);
    flows.filter(|flow| !flow.peers.is_empty()).collect()
}

/// Returns as many disjoint stars as there is room for, each with this number of sources. NICs that
/// were sources, and targets, least often in the slots before come first.
pub fn incast_flows(nics: &[LocatedNic], sources: usize, slot: u32, seed: u64) -> Vec<LoadFlow> {
    let count = nics.len() / (sources + 1);
    if count == 0 {
        return Vec::new();
    }
    let mut rng = seeded_rng(seed, 0);
    let (mut received, mut sent) = (vec![0_u32; nics.len()], vec![0_u32; nics.len()]);
    let mut order: Vec<usize> = (0..nics.len()).collect();
    let mut stars = Vec::new();
    // The counts follow from the slots before, which are few.
    for _ in 0..=slot {
        rng.shuffle(&mut order);
        order.sort_by_key(|index| received[*index]);
        let (targets, others) = order.split_at_mut(count);
        others.sort_by_key(|index| sent[*index]);
        targets.iter().for_each(|index| received[*index] += 1);
        stars = assigned(nics, targets, others, sources);
        stars.iter().for_each(|(source, _)| sent[*source] += 1);
    }
    let flow = |(source, target): (usize, usize)| LoadFlow {
        source: nics[source].nic,
        peers: vec![nics[target].nic],
    };
    stars.into_iter().map(flow).collect()
}

/// A target for each source: first sources at other switches, by `others`; then, where these do not
/// suffice, sources in other nodes.
fn assigned(
    nics: &[LocatedNic],
    targets: &[usize],
    others: &[usize],
    sources: usize,
) -> Vec<(usize, usize)> {
    let mut open: Vec<(usize, usize)> = targets.iter().map(|target| (*target, 0)).collect();
    let mut assigned = Vec::with_capacity(targets.len() * sources);
    let mut is_used = vec![false; nics.len()];
    for must_be_remote in [true, false] {
        for (turn, &source) in others.iter().enumerate() {
            let fits = |target: usize| {
                let (source, target) = (&nics[source], &nics[target]);
                let is_remote = source.switch.is_none() || source.switch != target.switch;
                source.node != target.node && (is_remote || !must_be_remote)
            };
            let mut places = (0..open.len()).map(|offset| (turn + offset) % open.len());
            let place = places.find(|place| fits(open[*place].0));
            let Some(place) = place.filter(|_| !is_used[source]) else {
                continue;
            };
            is_used[source] = true;
            assigned.push((source, open[place].0));
            open[place].1 += 1;
            if open[place].1 == sources {
                open.swap_remove(place);
            }
        }
    }
    assigned
}

/// Least number of slots: a NIC that waits for its CPU in one slot has others on small fabrics.
const LEAST_SLOTS: usize = 8;

/// Without switches, one of this number of NICs sends at a time.
const SENDING_PART: usize = 8;

/// The number of slots in which each NIC sends at least once.
pub fn quiet_slots(nics: &[LocatedNic]) -> u32 {
    let cycle = NicsBySwitch::new(nics).slots(0).len();
    if cycle == 0 {
        return 0;
    }
    (cycle * LEAST_SLOTS.div_ceil(cycle)) as u32
}

/// The flows of a slot: of each two switches, one NIC of one sends to one NIC of the other one.
/// Switches of one group come first, because each two have a link of their own.
pub fn quiet_flows(nics: &[LocatedNic], slot: u32) -> Vec<LoadFlow> {
    let plan = NicsBySwitch::new(nics);
    let cycle = plan.slots(0).len();
    if cycle == 0 {
        return Vec::new();
    }
    let turn = slot as usize / cycle;
    plan.slots(turn).swap_remove(slot as usize % cycle)
}

/// The NICs by switch. Without at least two switches, each NIC counts as a switch.
struct NicsBySwitch<'a> {
    nics: &'a [LocatedNic],
    /// The NICs of each switch, as indices.
    units: Vec<Vec<usize>>,
    /// The switches of the group of each switch.
    groups: Vec<Range<usize>>,
    /// The switch of each NIC.
    unit_of: Vec<usize>,
    /// Most NICs that send at a time.
    most: usize,
}

impl<'a> NicsBySwitch<'a> {
    fn new(nics: &'a [LocatedNic]) -> Self {
        let has_switches = switches(nics).len() > 1;
        let key = |index: usize| match nics[index].switch.filter(|_| has_switches) {
            Some((group, switch)) => (Some(group), u32::from(switch)),
            None => (None, nics[index].nic.0),
        };
        let mut by_key: BTreeMap<(Option<u16>, u32), Vec<usize>> = BTreeMap::new();
        for index in 0..nics.len() {
            by_key.entry(key(index)).or_default().push(index);
        }
        let group_of: Vec<Option<u16>> = by_key.keys().map(|(group, _)| *group).collect();
        let range = |group: &Option<u16>| {
            let first = group_of.partition_point(|other| other < group);
            first..group_of.partition_point(|other| other <= group)
        };
        let groups = group_of.iter().map(range).collect();
        let units: Vec<Vec<usize>> = by_key.into_values().collect();
        let mut unit_of = vec![0; nics.len()];
        for (unit, members) in units.iter().enumerate() {
            members.iter().for_each(|index| unit_of[*index] = unit);
        }
        let most = if has_switches { usize::MAX } else { (nics.len() / SENDING_PART).max(1) };
        Self { nics, units, groups, unit_of, most }
    }

    /// Returns slots in which each NIC sends once. Other turns have other targets.
    fn slots(&self, turn: usize) -> Vec<Vec<LoadFlow>> {
        let mut slots = Vec::new();
        let mut open: Vec<usize> = (0..self.nics.len()).collect();
        loop {
            let mut is_busy = vec![false; self.units.len()];
            let (mut flows, mut later) = (Vec::new(), Vec::new());
            for source in open {
                let unit = self.unit_of[source];
                let target = if flows.len() == self.most || is_busy[unit] {
                    None
                } else {
                    self.target(source, turn, &is_busy)
                };
                let Some(target) = target else {
                    later.push(source);
                    continue;
                };
                is_busy[unit] = true;
                is_busy[self.unit_of[target]] = true;
                flows.push(LoadFlow {
                    source: self.nics[source].nic,
                    peers: vec![self.nics[target].nic],
                });
            }
            // NICs that are left have no partner in another node.
            if flows.is_empty() {
                return slots;
            }
            slots.push(flows);
            open = later;
        }
    }

    /// A NIC of another node at the next switch without a flow: of the same group if there is one.
    fn target(&self, source: usize, turn: usize, is_busy: &[bool]) -> Option<usize> {
        let (unit, count) = (self.unit_of[source], self.units.len());
        let group = &self.groups[unit];
        let after = (unit + 1..group.end).chain(group.start..unit);
        let mut units = after.chain(group.end..count).chain(0..group.start);
        units.find_map(|other| {
            let members = &self.units[other];
            let is_apart = |index: &&usize| self.nics[**index].node != self.nics[source].node;
            let ordinal = self.units[unit].iter().position(|own| *own == source)?;
            let from = members.iter().cycle().skip((ordinal + turn) % members.len());
            let found = from.take(members.len()).find(is_apart).copied();
            found.filter(|_| !is_busy[other])
        })
    }
}

/// The random numbers of the `number`-th part of a sequence.
pub fn seeded_rng(seed: u64, number: u32) -> Rng {
    // The golden ratio in 64 bits spreads the numbers over all seeds.
    Rng::with_seed(seed ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::super::roles::reordered;
    use super::super::spec::{Distance, Pattern, Set};
    use super::super::testing::{VECTOR_9, all_placed, d4, fabric, fabric_of_wide_nodes};
    use super::{PEERS, flows};
    use crate::slot::LoadFlow;
    use campaign::quiet::roster::{NicId, Pair, Roster};
    use crew::location::Class;

    fn bisect(set: Set, both_ways: bool) -> Pattern {
        Pattern::Bisect { of: set, both_ways }
    }

    /// Returns sources and targets by their numbers.
    fn numbers(flows: &[LoadFlow]) -> BTreeSet<(u32, u32)> {
        let pairs =
            flows.iter().flat_map(|flow| flow.peers.iter().map(|peer| (flow.source, *peer)));
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
        assert_eq!(super::quiet_slots(&nics), 8);
        for slot in 0..super::quiet_slots(&nics) {
            let found = numbers(&flows(Pattern::Quiet, &nics, slot, 5));
            assert_eq!(found.len(), 4);
            let ends: BTreeSet<u32> =
                found.iter().flat_map(|(one, other)| [one / 2, other / 2]).collect();
            assert_eq!(ends.len(), 8);
            assert!(found.iter().all(|(one, other)| one / 4 == other / 4));
        }
        let unplaced = all_placed(&fabric([0, 0, 40, 1]));
        assert_eq!(flows(Pattern::Quiet, &unplaced, 0, 5).len(), 5);
        assert_eq!(super::quiet_slots(&unplaced), 8);
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
            (Pattern::Quiet, super::quiet_slots(&nics), 0),
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
            regular.prop_map(|(groups, switches, nodes, nics)| fabric([
                groups, switches, nodes, nics
            ])),
            (1..5_u16, 1..5_u16, 1..4_u16).prop_map(|(groups, switches, nodes)| {
                fabric_of_wide_nodes(groups, switches, nodes)
            }),
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
}
