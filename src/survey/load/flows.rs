//! The flows of each pattern among NICs (load.md 3.2). No flow is within a node, and each function
//! returns the same flows for the same arguments.

use fastrand::Rng;

use super::pattern::{Distance, Pattern, Set};
use super::{incasts, quiet};
use crate::located::{LocatedNic, groups, switches};
use crate::seeded_rng::seeded_rng;
use crate::slot::LoadFlow;

/// To how many NICs each NIC sends at once in [`Pattern::AllToAll`].
pub const PEERS: usize = 8;

/// Returns the flows of a slot of a pattern: none if the NICs are too few, or have no locations and
/// the pattern needs them. The order of `nics` is their order in permutations.
pub fn flows(pattern: Pattern, nics: &[LocatedNic], slot: u32, seed: u64) -> Vec<LoadFlow> {
    match pattern {
        Pattern::Quiet => quiet::flows(nics, slot),
        Pattern::Bisect { of, both_ways } => bisect(of, both_ways, nics, slot, seed),
        Pattern::Shift(distance) => one_to_one(shift(distance, nics, slot, seed)),
        Pattern::AllToAll => all_to_all(nics, slot, seed),
        Pattern::Incast(sources) => incasts::flows(nics, sources.into(), slot, seed),
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

/// Returns whether there may be a flow between two NICs.
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

/// Returns the flows of two halves. In one direction, successive slots have the same halves and
/// both directions, so that all NICs send equally often.
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

/// Returns pairs of half of the groups with the other half: NIC q of the j-th group with NIC q of
/// group (j + q) mod h. The first division is in the order of the groups, others are random, so
/// that flows cross each pair of groups. Of an odd number of groups, another one rests each time.
/// If groups have different sizes, the NICs that find no partner change as well.
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

/// Returns a permutation. Between sets of different sizes, only as many NICs send as the smaller
/// set has, other ones in each slot.
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

/// Returns the flows of each NIC to [`PEERS`] others, by shifts that no earlier slot had, as long
/// as there are such shifts.
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
