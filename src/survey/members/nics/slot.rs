//! The slots of the timetable: when operations run in them, and what an attempt in a slot says.

use std::time::{Duration, Instant};

use crate::targets::{Attempt, Window};
use campaign::slots::lengths::{MARGIN, longest_window};

/// Returns the window of a slot of this `length`. The set-up may begin before the slot.
pub fn window(begins: Instant, length: Duration) -> Window {
    let margin = length / MARGIN;
    Window { ready: begins + margin, ends: begins + (length - margin) }
}

/// Returns whether an operation of `attempt` had no answer that it may have in a longer slot: the
/// longest one, or one of pairs that are measured for longer than the time `pair`.
pub fn is_too_short(attempt: &Attempt, pair: Duration) -> bool {
    let is_longest = attempt.time_for_operations() >= longest_window(pair);
    attempt.lacks_answer() && !(is_longest && attempt.has_waited_long())
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::slots::lengths::{longest, sufficient};
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
