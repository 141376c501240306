//! What the pairs of a part of the cluster are: counts by test, role and class.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Unit;
use super::ids::{NicId, Role, TestId};
use super::role_counts::RoleCounts;
use crate::location::Class;

/// Fewest members of a part that is blamed for them (jobs.md 3.3), and fewest pairs between two groups.
pub const LEAST_MEMBERS: usize = 3;

/// What the pairs of a part are so far: counts by test, role and class.
#[derive(Debug, Default)]
pub struct Tally {
    /// Pairs outside the limits.
    pub outside: BTreeMap<TestId, RoleCounts>,
    /// Pairs with an answer that can be outside.
    pub measured: BTreeMap<TestId, RoleCounts>,
    /// The other NICs of the pairs outside.
    pub partners: BTreeSet<NicId>,
    /// NICs of the part.
    pub members: usize,
    /// NICs of the part most of whose pairs in a role are outside.
    pub bad_members: usize,
}

impl Tally {
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

    /// Returns whether most pairs in a role are outside: those in loopback, or those with other NICs of all
    /// classes together.
    pub fn explains(&self, test: TestId, role: Role, class: Class, share: f64) -> bool {
        let sum = |counts: &BTreeMap<TestId, RoleCounts>| {
            counts.get(&test).map_or(0, |counts| {
                let in_loopback = counts[(role, Class::Loopback)];
                match class {
                    Class::Loopback => in_loopback,
                    _ => counts.of_role(role) - in_loopback,
                }
            })
        };
        let (outside, measured) = (sum(&self.outside), sum(&self.measured));
        outside > 0 && f64::from(outside) > share * f64::from(measured)
    }

    /// Returns whether this holds for any test, role and class.
    pub fn explains_any(&self, share: f64) -> bool {
        self.outside.keys().any(|test| {
            Role::BOTH.into_iter().any(|role| {
                let mut classes = Class::ALL.into_iter();
                classes.any(|class| self.explains(*test, role, class, share))
            })
        })
    }

    /// Returns whether the part has been measured enough.
    pub fn may_be_cause(&self, unit: Unit, partners: usize) -> bool {
        match unit {
            Unit::Nic(_) => self.partners.len() >= partners,
            Unit::Node(_) => self.members >= 2 && self.bad_members == self.members,
            _ => self.members >= LEAST_MEMBERS && self.bad_members * 2 > self.members,
        }
    }
}
