//! Incasts: many sources for each target.

use crate::located::LocatedNic;
use crate::seeded_rng::seeded_rng;
use crate::slot::LoadFlow;

/// Returns as many disjoint stars as there is room for, each with this number of sources. NICs that
/// were sources, and targets, least often in the slots before come first.
pub fn flows(nics: &[LocatedNic], sources: usize, slot: u32, seed: u64) -> Vec<LoadFlow> {
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

/// Returns a target for each source: first sources at other switches, by `others`; then, where
/// these do not suffice, sources in other nodes.
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
