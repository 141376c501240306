//! The time that a NIC takes to translate the addresses of pages.

use std::time::Duration;

use super::link_time::nanoseconds;

/// The translation of addresses for the reads or the writes of a NIC: one page after another.
#[derive(Default)]
pub struct Translation {
    /// For each ordinary page, in nanoseconds. Huge pages are so few that their translations stay
    /// in the cache.
    cost: u64,
    /// When the last page will have been translated, in nanoseconds.
    busy_until: u64,
    /// Pages that were asked for, and those that were not in the cache.
    pub requests: u64,
    pub misses: u64,
}

impl Translation {
    /// Makes a translation that takes this time for each ordinary page.
    pub fn new(cost: Duration) -> Self {
        Self { cost: nanoseconds(cost), ..Self::default() }
    }

    /// Whether translations take time.
    pub fn takes_time(&self) -> bool {
        self.cost > 0
    }

    /// Returns when pages are translated that are asked for at the time `begin`.
    pub fn translate(&mut self, pages: u64, is_huge: bool, begin: u64) -> u64 {
        if self.cost == 0 {
            return begin;
        }
        self.requests += pages;
        if is_huge || pages == 0 {
            return begin;
        }
        self.misses += pages;
        self.busy_until = self.busy_until.max(begin) + pages * self.cost;
        self.busy_until
    }

    /// Returns when the last page will have been translated.
    pub fn ends_at(&self) -> u64 {
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_pages_take_time_one_after_another() {
        let mut translation = Translation::new(Duration::from_nanos(300));
        assert_eq!(translation.translate(2, false, 1000), 1600);
        assert_eq!(translation.translate(1, false, 1000), 1900);
        assert_eq!(translation.translate(0, false, 1000), 1000);
        assert_eq!(translation.translate(512, true, 1000), 1000);
        assert_eq!(translation.translate(1, false, 5000), 5300);
        assert_eq!((translation.requests, translation.misses), (516, 4));
        assert_eq!(translation.ends_at(), 5300);
    }

    #[test]
    fn counts_nothing_without_fault() {
        let mut translation = Translation::new(Duration::ZERO);
        assert!(!translation.takes_time());
        assert_eq!(translation.translate(2, false, 1000), 1000);
        assert_eq!((translation.requests, translation.misses), (0, 0));
    }
}
