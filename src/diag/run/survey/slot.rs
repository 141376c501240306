//! The slots of the timetable: their lengths, and what an attempt in a slot says.

use std::time::{Duration, Instant};

use crate::targets::{Attempt, NotMeasured, Window};
use cluster::survey::untested::Untested;
use facts::error::Failure;

/// One of this many parts of a slot lies before the operations, for set-up, and one after them, for
/// release.
const MARGIN: u32 = 8;

/// Returns the window of a slot of this `length`. The set-up may begin before the slot.
pub fn window(begins: Instant, length: Duration) -> Window {
    let margin = length / MARGIN;
    Window { ready: begins + margin, ends: begins + (length - margin) }
}

/// Returns the length of a slot whose operations may take five times as long as a pair is measured,
/// the time `pair`.
pub fn longest(pair: Duration) -> Duration {
    with_window(longest_window(pair))
}

fn longest_window(pair: Duration) -> Duration {
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
fn with_window(window: Duration) -> Duration {
    window * MARGIN / (MARGIN - 2)
}

/// Returns whether an operation of `attempt` had no answer that it may have in a longer slot: the
/// longest one, or one of pairs that are measured for longer than the time `pair`.
pub fn is_too_short(attempt: &Attempt, pair: Duration) -> bool {
    let is_longest = attempt.time_for_operations() >= longest_window(pair);
    attempt.lacks_answer() && !(is_longest && attempt.has_waited_long())
}

/// Returns the reason why a process that has failed did not measure its pair.
pub fn reason(failure: &Failure) -> Untested {
    match failure.error.downcast_ref() {
        Some(NotMeasured::Late) => Untested::Late,
        Some(NotMeasured::NoCpu) => Untested::NoCpu,
        None => failure.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Supervisor;
    use plan::run_options::Side;

    #[test]
    fn length_of_slot_follows_from_needs() {
        let milliseconds = Duration::from_millis;
        let pair = milliseconds(30);
        let now = Instant::now();
        let times = window(now, longest(pair));
        assert_eq!(times.ready - now, milliseconds(25));
        assert_eq!(times.length(), 5 * pair);
        for (beyond, length) in [(0, 60), (7, 60), (15, 80), (60, 200), (900, 200)] {
            assert_eq!(sufficient(pair, milliseconds(beyond)), milliseconds(length));
        }
    }

    #[test]
    fn two_margins_suffice_for_a_target() {
        let (pair, beyond) = (Duration::from_millis(10), Duration::from_millis(15));
        let length = sufficient(pair, beyond);
        let now = Instant::now();
        let [one, next] = [now, now + length].map(|begins| window(begins, length));
        assert_eq!(next.ready - one.ends, beyond);
    }

    #[test]
    fn slot_that_is_too_short_for_bytes_does_not_decide_that_an_answer_is_missing() {
        let pair = Duration::from_millis(20);
        let is_too_short = |bytes, waited| {
            let attempt = Attempt::new(window(Instant::now(), longest(pair)), Side::Client);
            attempt.note_bytes(bytes);
            attempt.no_answer("list of operations", Duration::from_millis(waited));
            super::is_too_short(&attempt, pair)
        };
        assert!(is_too_short(16 << 20, 100));
        assert!(is_too_short(1_000_000, 99));
        assert!(!is_too_short(1_000_000, 100));
    }

    #[test]
    fn short_slot_does_not_decide_that_an_answer_is_missing() {
        let pair = Duration::from_millis(30);
        let is_too_short = |length, waited| {
            let attempt = Attempt::new(window(Instant::now(), length), Side::Client);
            assert!(!super::is_too_short(&attempt, pair));
            attempt.no_answer("write", Duration::from_millis(waited));
            super::is_too_short(&attempt, pair)
        };
        assert!(is_too_short(sufficient(pair, Duration::ZERO), 45));
        // Earlier operations have taken half of a window of 150 ms.
        assert!(is_too_short(longest(pair), 74));
        assert!(!is_too_short(longest(pair), 75));
    }
}
