//! The part that explains most of the rows that are outside their limits.

use std::collections::BTreeMap;

use super::limits::LARGER_SHARE;

/// The rows of a part, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All of them.
    pub rows: Vec<usize>,
    /// Those outside their limits.
    pub outside: Vec<usize>,
}

impl Share {
    /// Returns whether at least this part of the rows is outside.
    pub fn is_at_least(&self, part: f64) -> bool {
        self.outside.len() as f64 >= part * self.rows.len() as f64
    }

    /// Returns whether enough rows are outside for a part with members.
    pub fn explains_larger_part(&self) -> bool {
        self.is_at_least(LARGER_SHARE)
    }
}

/// The rows of each part. A part in a role is a part of its own.
pub struct PartShares<P>(BTreeMap<P, Share>);

impl<P: Copy + Ord> PartShares<P> {
    /// Counts rows: the parts that a row passes, and whether it is outside its limit.
    pub fn new<I: IntoIterator<Item = P>>(rows: impl Iterator<Item = (I, bool)>) -> Self {
        let mut shares: BTreeMap<P, Share> = BTreeMap::new();
        for (row, (parts, is_outside)) in rows.enumerate() {
            for part in parts {
                let share = shares.entry(part).or_default();
                // Both ends of a row may be at the part.
                if share.rows.last() != Some(&row) {
                    share.rows.push(row);
                    share.outside.extend(is_outside.then_some(row));
                }
            }
        }
        Self(shares)
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        self.0.len()
    }

    /// Returns the rows of a part.
    pub fn get(&self, part: P) -> Option<&Share> {
        self.0.get(&part)
    }

    /// Returns the part that explains most rows, of those that may be a cause. Of equals, the first
    /// one counts.
    pub fn best(&self, may_be_cause: impl Fn(P, &Share) -> bool) -> Option<(P, &Share)> {
        let shares = self.0.iter().rev().map(|(part, share)| (*part, share));
        let causes = shares.filter(|(part, share)| may_be_cause(*part, share));
        causes.max_by_key(|(_, share)| share.outside.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_most_rows_by_the_first_of_equal_parts() {
        let rows = [([1, 2], true), ([1, 3], true), ([2, 3], false), ([4, 4], true)];
        let shares = PartShares::new(rows.into_iter());
        assert_eq!(shares.get(4), Some(&Share { rows: vec![3], outside: vec![3] }));
        let best = |least: f64| shares.best(|_, share| share.is_at_least(least)).map(|best| best.0);
        assert_eq!((best(0.5), best(1.0)), (Some(1), Some(1)));
        assert_eq!(shares.best(|part, _| part > 1).map(|best| best.0), Some(2));
        assert!(shares.best(|_, _| false).is_none());
    }
}
