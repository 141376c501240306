//! Failures that are not noise: the operations of a NIC failed with several partners. Most retests
//! of a NIC that loses packets now and then pass, so passed retests do not clear such a NIC.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::answer::Pair;
use super::ids::NicId;
use super::outside::{Outside, RetestOutcome};
use crate::blame::limits::LEAST_PARTNERS;

/// Returns each NIC that failed with at least two partners and more than any of these partners did,
/// with the indices of its failures. Ties: the NIC with the fewest `answers`.
pub fn most_failing<'a>(
    open: impl Iterator<Item = (usize, &'a Outside)>,
    answers: impl Fn(NicId) -> u32,
) -> BTreeMap<NicId, Vec<usize>> {
    let mut failures: BTreeMap<NicId, (BTreeSet<NicId>, Vec<usize>)> = BTreeMap::new();
    for (index, one) in open.filter(|(_, one)| one.value.is_none()) {
        if one.pair.is_loopback() {
            continue;
        }
        let Pair { initiator, target } = one.pair;
        for (nic, partner) in [(initiator, target), (target, initiator)] {
            let (partners, indices) = failures.entry(nic).or_default();
            partners.insert(partner);
            indices.push(index);
        }
    }
    failures.retain(|_, (partners, _)| partners.len() >= LEAST_PARTNERS);
    let mut ranked: Vec<_> = failures.into_iter().collect();
    ranked.sort_by_key(|(nic, (partners, _))| {
        (Reverse(partners.len()), answers(*nic), Reverse(*nic))
    });
    let mut touched: BTreeSet<NicId> = BTreeSet::new();
    let mut most = BTreeMap::new();
    for (nic, (partners, indices)) in ranked {
        if !touched.contains(&nic) {
            most.insert(nic, indices);
        }
        touched.extend(partners);
    }
    most
}

/// Keeps retests from clearing a NIC that failed with several partners. Its failures are confirmed
/// if an operation of the NIC has failed in a retest or in a swap too.
pub fn keep_failures(outside: &mut [Outside], answers: impl Fn(NicId) -> u32) {
    let mut is_open = vec![true; outside.len()];
    loop {
        let open = outside.iter().enumerate().filter(|(index, _)| is_open[*index]);
        let failing = most_failing(open, &answers);
        if failing.is_empty() {
            return;
        }
        for failures in failing.into_values() {
            let fails_again = failures.iter().any(|index| outside[*index].fails_again);
            for index in failures {
                is_open[index] = false;
                let outcome = &mut outside[index].outcome;
                if fails_again {
                    *outcome = RetestOutcome::Confirmed;
                } else if *outcome == RetestOutcome::Transient {
                    *outcome = RetestOutcome::Open;
                }
            }
        }
    }
}
