//! The pairs of a part of the cluster, counted by test, role and class.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Unit;
use super::ids::{NicId, Role, TestId};
use super::role_counts::RoleCounts;
use super::selection::LEAST_MEMBERS;
use crew::location::Class;

/// The pairs of a part so far, counted by test, role and class.
#[derive(Debug, Default)]
pub struct PartTally {
    /// Pairs outside the limits.
    pub outside: BTreeMap<TestId, RoleCounts>,
    /// Pairs with an answer that can be outside the limits.
    pub measured: BTreeMap<TestId, RoleCounts>,
    /// The partners of the part in pairs outside the limits.
    pub partners: BTreeSet<NicId>,
    /// Number of NICs of the part.
    pub members: usize,
    /// Number of NICs of the part with most of their pairs in a role outside the limits.
    pub bad_members: usize,
}

impl PartTally {
    /// Adds the counts of a NIC.
    pub fn add(&mut self, other: &Self) {
        for (test, counts) in &other.outside {
            self.outside.entry(*test).or_default().add(counts);
        }
        for (test, counts) in &other.measured {
            self.measured.entry(*test).or_default().add(counts);
        }
        self.partners.extend(&other.partners);
        self.members += 1;
    }

    /// Returns whether more than the part `share` of the pairs in a role are outside the limits: of
    /// the pairs in loopback, or of all other pairs together.
    pub fn explains(&self, test: TestId, role: Role, class: Class, share: f64) -> bool {
        let sum = |counts: &BTreeMap<TestId, RoleCounts>| {
            counts.get(&test).map_or(0, |counts| {
                let in_loopback = counts[(role, Class::Loopback)];
                match class {
                    Class::Loopback => in_loopback,
                    _ => counts.pairs_in_role(role) - in_loopback,
                }
            })
        };
        let (outside, measured) = (sum(&self.outside), sum(&self.measured));
        outside > 0 && f64::from(outside) > share * f64::from(measured)
    }

    /// Returns whether [`Self::explains`] holds for any test, role and class.
    pub fn explains_any(&self, share: f64) -> bool {
        self.outside.keys().any(|test| {
            Role::BOTH.into_iter().any(|role| {
                let mut classes = Class::ALL.into_iter();
                classes.any(|class| self.explains(*test, role, class, share))
            })
        })
    }

    /// Returns whether enough pairs of the part have been measured for a cause.
    pub fn may_be_cause(&self, unit: Unit, partners: usize) -> bool {
        match unit {
            Unit::Nic(_) => self.partners.len() >= partners,
            Unit::Node(_) => self.members >= 2 && self.bad_members == self.members,
            _ => self.members >= LEAST_MEMBERS && self.bad_members * 2 > self.members,
        }
    }
}
