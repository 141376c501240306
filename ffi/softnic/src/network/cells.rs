//! The state of a fabric that all its NICs share: words that they change one at a time.
//!
//! A process that is killed leaves each word as it was before or after a change, and holds no lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks of the clocks for each nanosecond: bytes on a fast link take less than one.
pub const TICKS: u64 = 16;

/// The longest queue of a link, in ticks: a minute. A clock that is farther ahead is damaged, and
/// starts again.
const LONGEST_QUEUE: u64 = 60_000_000_000 * TICKS;

/// Number of traffic classes.
pub const CLASSES: usize = 4;

/// Words of a link. The first eight, which each packet uses, are one cache line.
const LINK_WORDS: usize = 16;

/// Words of a source at a target: what it sent lately, and until when it is held back.
const SOURCE_WORDS: usize = 2;

/// Where the words are: an array in tests, shared memory in programs.
pub trait Cells {
    /// Returns a word, below [`CellLayout::words`].
    fn word(&self, index: usize) -> &AtomicU64;
}

/// A count of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Bytes = 5,
    Packets = 6,
    /// Packets with a mark of congestion, counted on the link for which they waited longest.
    Marks = 7,
    /// Packets that were damaged, and sent again.
    Losses = 8,
    /// Nanoseconds for which queues behind the link blocked it.
    Blocked = 9,
    /// Of the link on which a NIC transmits: nanoseconds that its packets with data took on the
    /// slowest link of their way.
    Filled = 10,
    /// Of the link on which a NIC transmits: messages that it sent, and their delays together in
    /// nanoseconds. Of the link on which it receives: the answers to it.
    Messages = 11,
    Delay = 12,
}

/// The places of the words of a fabric.
#[derive(Clone, Copy, Debug)]
pub struct CellLayout {
    pub links: usize,
    pub nics: usize,
}

impl CellLayout {
    /// Returns the number of words.
    pub fn words(self) -> usize {
        self.links * LINK_WORDS + self.nics * self.nics * SOURCE_WORDS
    }

    /// Returns the place of the clock of a class on a link: when its last packet with data will
    /// have left, in ticks since the fabric was made.
    pub fn clock(self, link: usize, class: usize) -> usize {
        link * LINK_WORDS + class % CLASSES
    }

    /// Returns the place of the clock of packets without data.
    pub fn header_clock(self, link: usize) -> usize {
        link * LINK_WORDS + CLASSES
    }

    /// Returns the place of a count.
    pub fn count(self, link: usize, count: Count) -> usize {
        link * LINK_WORDS + count as usize
    }

    /// Returns the place of what a source sent to a target lately (`sources`).
    pub fn sent(self, target: usize, source: usize) -> usize {
        self.links * LINK_WORDS + (target * self.nics + source) * SOURCE_WORDS
    }

    /// Returns the place of the clock that holds a source back.
    pub fn pace(self, target: usize, source: usize) -> usize {
        self.sent(target, source) + 1
    }
}

/// Lets a packet that comes at the time `now` occupy the server of a clock, for `takes` ticks,
/// after the packets before it. Returns when it leaves.
pub fn occupy(clock: &AtomicU64, now: u64, takes: u64) -> u64 {
    let leaves = |clock: u64| {
        let begins = if clock > now.saturating_add(LONGEST_QUEUE) { now } else { clock.max(now) };
        begins + takes
    };
    let update = |clock| Some(leaves(clock));
    let before = clock.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    leaves(before.unwrap_or_default())
}

/// Puts a clock forward to a time, and returns by how much.
pub fn put_forward(clock: &AtomicU64, to: u64) -> u64 {
    to.saturating_sub(clock.fetch_max(to, Ordering::Relaxed))
}

/// Returns how long packets wait for a clock, at this time.
pub fn queue(clock: &AtomicU64, now: u64) -> u64 {
    let ahead = clock.load(Ordering::Relaxed).saturating_sub(now);
    if ahead > LONGEST_QUEUE { 0 } else { ahead }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_occupy_a_clock_one_after_another() {
        let clock = AtomicU64::new(0);
        assert_eq!(occupy(&clock, 100, 10), 110);
        assert_eq!(occupy(&clock, 105, 10), 120);
        assert_eq!(queue(&clock, 105), 15);
        assert_eq!(occupy(&clock, 200, 10), 210, "after an idle time");
        assert_eq!(queue(&clock, 300), 0);
        assert_eq!((put_forward(&clock, 250), put_forward(&clock, 240)), (40, 0));
    }

    #[test]
    fn clock_far_in_the_future_starts_again() {
        let clock = AtomicU64::new(u64::MAX - 5);
        assert_eq!(queue(&clock, 100), 0);
        assert_eq!(occupy(&clock, 100, 10), 110);
        assert_eq!(queue(&clock, 100), 10);
        let long = AtomicU64::new(100 + LONGEST_QUEUE);
        assert_eq!(occupy(&long, 100, 10), 110 + LONGEST_QUEUE, "as long as a queue can be");
    }
}
