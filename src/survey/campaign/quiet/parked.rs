//! NICs that the sweep leaves out, because their operations fail with several partners.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Pair;
use super::ids::NicId;
use crate::blame::limits::LEAST_PARTNERS;

/// NICs that the sweep leaves out.
#[derive(Debug, Default)]
pub struct ExcludedNics {
    /// The partners with which the operations of a NIC failed.
    partners: BTreeMap<NicId, BTreeSet<NicId>>,
    parked: BTreeSet<NicId>,
}

impl ExcludedNics {
    /// Creates the set after these pairs have failed.
    pub fn new(failed: impl Iterator<Item = Pair>) -> Self {
        let mut parked = Self::default();
        failed.for_each(|pair| parked.add_failure(pair));
        parked
    }

    /// Returns the first NIC of a pair that the sweep leaves out.
    pub fn find(&self, pair: Pair) -> Option<NicId> {
        let mut nics = pair.nics().into_iter();
        nics.find(|nic| self.parked.contains(nic))
    }

    /// Notes a pair that failed. Leaves a NIC of the pair out if its operations fail with several
    /// partners, and with more partners than the operations of the other NIC.
    pub fn add_failure(&mut self, pair: Pair) {
        if pair.is_loopback() || self.find(pair).is_some() {
            return;
        }
        let Pair { initiator, target } = pair;
        self.partners.entry(initiator).or_default().insert(target);
        self.partners.entry(target).or_default().insert(initiator);
        let [one, other] = pair.nics().map(|nic| self.partners[&nic].len());
        if one.max(other) >= LEAST_PARTNERS && one != other {
            let nic = if one > other { initiator } else { target };
            self.parked.insert(nic);
            for partner in self.partners.remove(&nic).unwrap_or_default() {
                if let Some(partners) = self.partners.get_mut(&partner) {
                    partners.remove(&nic);
                }
            }
        }
    }
}
