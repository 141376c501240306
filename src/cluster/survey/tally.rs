//! What the pairs of a part of the cluster are: counts by test, role and class.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Unit;
use super::result_store::{CLASSES, RoleCounts};
use crate::location::Class;

const LOOPBACK: usize = Class::Loopback as usize;

/// Fewest members of a part that is blamed for them (jobs.md 3.3), and fewest pairs between two groups.
pub const LEAST_MEMBERS: usize = 3;

/// What the pairs of a part are so far: counts by test, role and class.
#[derive(Debug, Default)]
pub struct Tally {
    /// Pairs outside the limits.
    pub outside: BTreeMap<u16, RoleCounts>,
    /// Pairs with an answer that can be outside.
    pub measured: BTreeMap<u16, RoleCounts>,
    /// The other NICs of the pairs outside.
    pub partners: BTreeSet<u32>,
    /// NICs of the part.
    pub members: usize,
    /// NICs of the part most of whose pairs in a role are outside.
    pub bad_members: usize,
}

impl Tally {
    /// Adds the counts of a NIC.
    pub fn add(&mut self, other: &Self) {
        for (test, cells) in &other.outside {
            add_cells(self.outside.entry(*test).or_default(), cells);
        }
        for (test, cells) in &other.measured {
            add_cells(self.measured.entry(*test).or_default(), cells);
        }
        self.partners.extend(&other.partners);
        self.members += 1;
    }

    /// Returns whether most pairs in a role are outside: those in loopback, or those with other NICs of all
    /// classes together.
    pub fn explains(&self, test: u16, role: usize, class: usize, share: f64) -> bool {
        let sum = |counts: &BTreeMap<u16, RoleCounts>| {
            counts.get(&test).map_or(0, |cells| match class {
                LOOPBACK => cells[role][LOOPBACK],
                _ => cells[role].iter().sum::<u32>() - cells[role][LOOPBACK],
            })
        };
        let (outside, measured) = (sum(&self.outside), sum(&self.measured));
        outside > 0 && f64::from(outside) > share * f64::from(measured)
    }

    /// Returns whether this holds for any test, role and class.
    pub fn explains_any(&self, share: f64) -> bool {
        self.outside.keys().any(|test| {
            (0..2 * CLASSES).any(|cell| self.explains(*test, cell / CLASSES, cell % CLASSES, share))
        })
    }

    /// Returns whether the part has been measured enough.
    pub fn may_be_blamed(&self, unit: Unit, partners: usize) -> bool {
        match unit {
            Unit::Nic(_) => self.partners.len() >= partners,
            Unit::Node(_) => self.members >= 2 && self.bad_members == self.members,
            _ => self.members >= LEAST_MEMBERS && self.bad_members * 2 > self.members,
        }
    }
}

fn add_cells(sum: &mut RoleCounts, cells: &RoleCounts) {
    for (sum, cells) in sum.iter_mut().flatten().zip(cells.iter().flatten()) {
        *sum += cells;
    }
}
