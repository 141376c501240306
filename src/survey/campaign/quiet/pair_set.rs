//! A set of pairs of NICs: a bit for each target, so that all pairs of a large cluster fit into
//! memory.

use std::collections::HashMap;

use super::answer::Pair;
use super::ids::NicId;

const BITS: u32 = u64::BITS;

#[derive(Clone, Debug, Default)]
pub struct PairSet {
    /// The targets of each initiator.
    targets: HashMap<NicId, Vec<u64>>,
}

impl PairSet {
    /// Adds a pair. Returns whether it was missing.
    pub fn insert(&mut self, pair: Pair) -> bool {
        let words = self.targets.entry(pair.initiator).or_default();
        let (word, bit) = place(pair.target);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        is_new
    }

    /// Removes a pair. Returns whether the set had it.
    pub fn remove(&mut self, pair: Pair) -> bool {
        let had = self.contains(pair);
        if let (true, Some(words)) = (had, self.targets.get_mut(&pair.initiator)) {
            let (word, bit) = place(pair.target);
            words[word] &= !bit;
        }
        had
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> u64 {
        let words = self.targets.values().flatten();
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    pub fn contains(&self, pair: Pair) -> bool {
        let (word, bit) = place(pair.target);
        let words = self.targets.get(&pair.initiator);
        words.is_some_and(|words| words.get(word).is_some_and(|own| own & bit != 0))
    }
}

/// Returns the word of a target, and its bit there.
fn place(target: NicId) -> (usize, u64) {
    ((target.0 / BITS) as usize, 1 << (target.0 % BITS))
}

#[cfg(test)]
mod tests {
    use super::super::testing::pair;
    use super::*;

    #[test]
    fn has_each_pair_once_in_its_direction() {
        let mut set = PairSet::default();
        assert!(set.insert(pair(1, 200)) && set.insert(pair(1, 3)));
        assert!(!set.insert(pair(1, 200)));
        assert!(set.contains(pair(1, 200)) && set.contains(pair(1, 3)));
        assert_eq!(set.len(), 2);
        assert!(set.remove(pair(1, 3)) && !set.remove(pair(1, 3)));
        assert!(!set.contains(pair(1, 3)) && set.contains(pair(1, 200)));
        assert!(!set.contains(pair(200, 1)) && !set.contains(pair(1, 72)));
    }
}
