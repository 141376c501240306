//! The NICs that send to the same target, which are held back to equal shares of its port
//! (load.md 4.4).
//!
//! The bytes that a NIC sent to another lately are one word: the number of a period in 24 bits, and
//! the bytes of the period before it and of that period in 20 bits each, in units of 16 bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::clocks::{CellLayout, Cells, TICKS, queue};

const UNIT: u64 = 16;
const BYTES_BITS: u32 = 20;
const MOST: u64 = (1 << BYTES_BITS) - 1;
const PERIOD_MASK: u64 = (1 << 24) - 1;

/// The shortest period: 2 ms.
const SHORTEST_PERIOD: u64 = 2_000_000 * TICKS;

/// The length of a period in round trips without load.
const ROUND_TRIPS: u64 = 20;

/// How often a NIC counts the sources of a target in a period.
const COUNTS_IN_PERIOD: u64 = 32;

/// A source counts when it sends more than this part of the rate of the port.
const LEAST_SHARE: f64 = 0.01;

/// Who sends to a target, as one NIC sees it.
#[derive(Clone, Copy, Default)]
pub struct Rivals {
    /// Number of sources, and until when it holds, in ticks.
    count: u64,
    valid_until: u64,
}

/// The sources of targets.
#[derive(Clone, Copy)]
pub struct TargetSources {
    /// In ticks.
    period: u64,
}

impl TargetSources {
    /// The sources on a fabric with this longest round trip, in nanoseconds.
    pub fn new(round_trip: u64) -> Self {
        Self { period: (ROUND_TRIPS * round_trip * TICKS).max(SHORTEST_PERIOD) }
    }

    /// Notes that `source` sends bytes to `target`, whose port takes this many ticks for a byte.
    /// Returns the number of sources among which the port is shared; `None` if this one sends too
    /// little to be held back.
    pub fn note(
        self,
        (cells, layout): (&impl Cells, CellLayout),
        (target, source): (usize, usize),
        (bytes, ticks_per_byte): (u64, f64),
        rivals: &mut Rivals,
        now: u64,
    ) -> Option<u64> {
        let own = cells.word(layout.sent(target, source));
        self.add(own, bytes, now);
        let rate = self.period as f64 / ticks_per_byte;
        let least = ((rate * LEAST_SHARE) as u64).min(UNIT * (MOST - 1));
        let counts = |source| {
            let sent = cells.word(layout.sent(target, source));
            let pace = cells.word(layout.pace(target, source));
            self.recent(sent, now) > least || queue(pace, now) > 0
        };
        if !counts(source) {
            return None;
        }
        if now >= rivals.valid_until {
            rivals.count = (0..layout.nics).filter(|source| counts(*source)).count() as u64;
            rivals.valid_until = now + self.period / COUNTS_IN_PERIOD;
        }
        Some(rivals.count.max(1))
    }

    fn add(self, word: &AtomicU64, bytes: u64, now: u64) {
        let period = now / self.period;
        let update = |word: u64| {
            let (before, current) = parts(word, period);
            let current = (current + bytes.div_ceil(UNIT)).min(MOST);
            Some((period & PERIOD_MASK) << (2 * BYTES_BITS) | before << BYTES_BITS | current)
        };
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// The bytes in the time of one period up to now, as if the source had sent evenly in the
    /// period before.
    fn recent(self, word: &AtomicU64, now: u64) -> u64 {
        let (before, current) = parts(word.load(Ordering::Relaxed), now / self.period);
        let left = self.period - now % self.period;
        let before = u128::from(before) * u128::from(left) / u128::from(self.period);
        (before as u64 + current) * UNIT
    }
}

/// The bytes of the period before this one and of this one, in units.
fn parts(word: u64, period: u64) -> (u64, u64) {
    let (before, current) = (word >> BYTES_BITS & MOST, word & MOST);
    let age = period.wrapping_sub(word >> (2 * BYTES_BITS)) & PERIOD_MASK;
    match age {
        0 => (before, current),
        1 => (current, 0),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_last_period_fade() {
        let sources = TargetSources::new(0);
        let (word, half) = (AtomicU64::new(0), SHORTEST_PERIOD / 2);
        sources.add(&word, 1600, 10);
        assert_eq!(sources.recent(&word, 20), 1600);
        assert_eq!(sources.recent(&word, SHORTEST_PERIOD + half), 800);
        sources.add(&word, 160, SHORTEST_PERIOD + half);
        assert_eq!(sources.recent(&word, SHORTEST_PERIOD + half), 960);
        assert_eq!(sources.recent(&word, 2 * SHORTEST_PERIOD), 160);
        assert_eq!(sources.recent(&word, 3 * SHORTEST_PERIOD), 0);
        sources.add(&word, u64::MAX / 2, 9 * SHORTEST_PERIOD);
        assert_eq!(sources.recent(&word, 9 * SHORTEST_PERIOD), MOST * UNIT);
    }
}
