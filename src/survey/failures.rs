//! Failures that are no noise: operations of a NIC that failed with several partners. Retests of a NIC
//! that loses packets now and then pass more often than not, so that they clear nobody here.

use std::collections::{BTreeMap, BTreeSet};

use super::outside::{Outside, Standing};

/// Partners with which the operations of a NIC fail if the partners are not to blame.
pub const FAILING_PARTNERS: usize = 2;

/// Returns the NIC whose operations failed with most partners, if these are several, and the indices of
/// its failures. Of several such NICs, `answers` decides: that with fewest pairs is meant.
pub fn most_failing<'a>(
    open: impl Iterator<Item = (usize, &'a Outside)>,
    answers: impl Fn(u32) -> u32,
) -> Option<(u32, Vec<usize>)> {
    let mut failures: BTreeMap<u32, (BTreeSet<u32>, Vec<usize>)> = BTreeMap::new();
    for (index, one) in open.filter(|(_, one)| one.value.is_none()) {
        let (initiator, target) = (one.pair.initiator, one.pair.target);
        if initiator == target {
            continue;
        }
        for (nic, partner) in [(initiator, target), (target, initiator)] {
            let (partners, indices) = failures.entry(nic).or_default();
            partners.insert(partner);
            indices.push(index);
        }
    }
    let rank = |(nic, (partners, _)): &(u32, (BTreeSet<u32>, Vec<usize>))| {
        (partners.len(), std::cmp::Reverse(answers(*nic)))
    };
    failures
        .into_iter()
        .filter(|(_, (partners, _))| partners.len() >= FAILING_PARTNERS)
        .max_by_key(rank)
        .map(|(nic, (_, indices))| (nic, indices))
}

/// Keeps retests from clearing the failures of a NIC with several partners. They are confirmed if an
/// operation of the NIC has failed in a retest or with another partner too.
pub fn keep_failures(outside: &mut [Outside], answers: impl Fn(u32) -> u32) {
    let mut is_open = vec![true; outside.len()];
    loop {
        let open = outside
            .iter()
            .enumerate()
            .filter(|(index, _)| is_open[*index]);
        let Some((_, failures)) = most_failing(open, &answers) else {
            return;
        };
        let fails_again = failures.iter().any(|index| outside[*index].fails_again);
        for index in failures {
            is_open[index] = false;
            let standing = &mut outside[index].standing;
            if fails_again {
                *standing = Standing::Confirmed;
            } else if *standing == Standing::Transient {
                *standing = Standing::Open;
            }
        }
    }
}
