//! The lengths of slots in which a pair is measured by itself.

use std::time::Duration;

/// Shortest slot: clocks compared over the network are good enough for it (jobs.md 3.6).
pub const SHORTEST_SLOT: Duration = Duration::from_millis(50);

/// One of this many parts of a slot lies before the operations, for set-up, and one after them, for
/// release.
pub const MARGIN: u32 = 8;

/// Returns the length of a slot whose operations may take five times as long as a pair is measured,
/// the time `pair`; at least the shortest slot.
pub fn longest(pair: Duration) -> Duration {
    with_window(longest_window(pair)).max(SHORTEST_SLOT)
}

/// Returns the time for operations in the [`longest`] slot.
pub fn longest_window(pair: Duration) -> Duration {
    pair + 2 * most_beyond(pair)
}

/// Returns the time beyond the measurement of a pair from which on [`sufficient`] returns the
/// length of the [`longest`] slot.
pub fn most_beyond(pair: Duration) -> Duration {
    2 * pair
}

/// Returns the length of a slot in which a pair is measured for the time `pair`, if sides have
/// needed the time `beyond` for other work. The window is `pair` plus the larger of `2 * beyond`
/// and `pair / 2`. The target of a two-sided tool sets up and releases in the margins alone: the
/// margin at the end of this slot and the margin at the begin of the next slot are together as long
/// as `beyond`.
pub fn sufficient(pair: Duration, beyond: Duration) -> Duration {
    let window = pair + (2 * beyond).max(pair / 2);
    let margins = beyond * (MARGIN / 2);
    with_window(window).max(margins).min(longest(pair))
}

/// Returns the length of a slot with this time for operations.
pub(super) fn with_window(window: Duration) -> Duration {
    window * MARGIN / (MARGIN - 2)
}
