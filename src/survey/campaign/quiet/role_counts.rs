//! Numbers of pairs by role and class.

use std::ops::{Index, IndexMut};

use super::ids::Role;
use crew::location::Class;

/// The number of pairs of each role and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleCounts([[u32; Class::ALL.len()]; 2]);

impl RoleCounts {
    /// Returns the number of pairs in a role.
    pub fn pairs_in_role(&self, role: Role) -> u32 {
        self.0[role.index()].iter().sum()
    }

    /// Returns the number of pairs of a class.
    pub fn pairs_in_class(&self, class: Class) -> u32 {
        self.0.iter().map(|counts| counts[class as usize]).sum()
    }

    /// Returns the number of all pairs.
    pub fn total(&self) -> u32 {
        self.0.iter().flatten().sum()
    }

    /// Adds the numbers of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u32::saturating_add);
    }

    /// Subtracts the numbers of `other`, down to zero.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, u32::saturating_sub);
    }

    fn combine(&mut self, other: &Self, operation: fn(u32, u32) -> u32) {
        let others = other.0.iter().flatten();
        for (count, other) in self.0.iter_mut().flatten().zip(others) {
            *count = operation(*count, *other);
        }
    }
}

impl Index<(Role, Class)> for RoleCounts {
    type Output = u32;

    fn index(&self, (role, class): (Role, Class)) -> &u32 {
        &self.0[role.index()][class as usize]
    }
}

impl IndexMut<(Role, Class)> for RoleCounts {
    fn index_mut(&mut self, (role, class): (Role, Class)) -> &mut u32 {
        &mut self.0[role.index()][class as usize]
    }
}
