//! Pairs that were not measured, and why.

use std::collections::BTreeMap;

use super::answer::Pair;
use super::evidence::Key;
use super::roster::Roster;
use super::verdict::{Unit, Untested};

/// Most pairs without an answer that are tried again, or named one by one.
const MOST_UNANSWERED: usize = 4096;

/// Pairs of the sweep that were not measured.
#[derive(Debug, Default)]
pub struct Gaps {
    /// Pairs without an answer, which may be tried again.
    unanswered: BTreeMap<Key, String>,
    /// Numbers of pairs that will not be measured.
    left_out: BTreeMap<(Unit, String), u64>,
}

impl Gaps {
    /// Notes that a pair is not measured because of a part.
    pub fn leave_out(&mut self, part: Unit, reason: String) {
        *self.left_out.entry((part, reason)).or_default() += 1;
    }

    /// Notes that a pair has no answer.
    pub fn add(&mut self, key: Key, reason: &str, roster: &Roster) {
        if let Some((part, reason)) = why_unusable(roster, key.1) {
            self.leave_out(part, reason);
        } else if self.unanswered.len() < MOST_UNANSWERED {
            self.unanswered.insert(key, reason.to_owned());
        } else {
            self.leave_out(Unit::Nic(key.1.initiator), reason.to_owned());
        }
    }

    /// Removes the pairs that may be tried again.
    pub fn take_unanswered(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.unanswered).into_keys().collect()
    }

    /// Returns the number of pairs.
    pub fn pairs(&self) -> u64 {
        self.left_out.values().sum::<u64>() + self.unanswered.len() as u64
    }

    /// Returns the parts that were not measured, with nodes and NICs that are absent in any case.
    pub fn untested(&self, roster: &Roster) -> Vec<Untested> {
        let mut pairs = self.left_out.clone();
        for ((_, pair), reason) in &self.unanswered {
            *pairs
                .entry((Unit::Path(*pair), reason.clone()))
                .or_default() += 1;
        }
        for (index, node) in roster.nodes.iter().enumerate() {
            if let Some(reason) = &node.absent {
                pairs
                    .entry((Unit::Node(index as u32), reason.clone()))
                    .or_default();
            }
        }
        for (index, nic) in roster.nics.iter().enumerate() {
            if let Some(reason) = &nic.failure {
                pairs
                    .entry((Unit::Nic(index as u32), reason.clone()))
                    .or_default();
            }
        }
        let untested = |((unit, reason), pairs)| Untested {
            unit,
            reason,
            pairs,
        };
        pairs.into_iter().map(untested).collect()
    }
}

/// Returns the part that prevents the measurement of a pair, and why.
pub fn why_unusable(roster: &Roster, pair: Pair) -> Option<(Unit, String)> {
    [pair.initiator, pair.target].into_iter().find_map(|index| {
        let nic = &roster.nics[index as usize];
        let of_node = roster.nodes[nic.node as usize].absent.clone();
        let of_nic = || match &nic.failure {
            None if nic.nid.is_none() => Some("it has no address".to_owned()),
            failure => failure.clone(),
        };
        let of_node = of_node.map(|reason| (Unit::Node(nic.node), reason));
        of_node.or_else(|| of_nic().map(|reason| (Unit::Nic(index), reason)))
    })
}
