//! The time of day without steps: a clock that somebody sets while this process runs must not
//! change a duration or a rate.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

/// Smallest difference that is a step. The kernel slews both clocks alike.
const STEP: Duration = Duration::from_secs(1);

/// The first reading of both clocks.
static FIRST: LazyLock<(Duration, Instant)> = LazyLock::new(|| (shown_by_clock(), Instant::now()));

/// Reads both clocks for the first time. Called at the start of the program: a step before that
/// would make stamps from before and after it differ.
pub fn start() {
    LazyLock::force(&FIRST);
}

/// Returns a time in whole milliseconds.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time in milliseconds since 1970-01-01 (UTC); 0 before.
pub fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, milliseconds)
}

/// Returns the time since 1970-01-01 (UTC): the time of day at the first call, and what has passed
/// since then.
pub fn since_1970() -> Duration {
    let (first, clock) = *FIRST;
    first.saturating_add(clock.elapsed())
}

/// Returns a time that the machine's clock has just shown, without the steps of the clock.
pub fn without_steps(stamp: Duration) -> Duration {
    let before = since_1970();
    let shown = shown_by_clock();
    corrected(stamp, shown, [before, since_1970()])
}

/// Returns `stamp` as a clock without steps shows it. The clock of the machine shows `shown`, the
/// one without steps an earlier and a later time: this thread may have waited in between.
fn corrected(stamp: Duration, shown: Duration, [earlier, later]: [Duration; 2]) -> Duration {
    let without_step = if shown > later.saturating_add(STEP) {
        stamp.saturating_sub(shown - later)
    } else if shown.saturating_add(STEP) < earlier {
        stamp.saturating_add(earlier - shown)
    } else {
        stamp
    };
    // The stamp may be from just before the step.
    if without_step.abs_diff(later) < stamp.abs_diff(later) { without_step } else { stamp }
}

/// Returns what the clock of the machine shows; zero before 1970.
fn shown_by_clock() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_do_not_follow_steps_of_the_clock() {
        let at = Duration::from_secs;
        let hours = at(3 * 3600);
        let now = at(1_700_000_000);
        let corrected = |shown| corrected(shown, shown, [now, now]);
        for shown in [now, now + STEP, now - STEP] {
            assert_eq!(corrected(shown), shown, "no step");
        }
        for shown in [now + hours, now - hours, Duration::ZERO] {
            assert_eq!(corrected(shown), now);
        }
        let just_before = super::corrected(now, now + hours, [now, now]);
        assert_eq!(just_before, now);
        // A thread that waits between the readings sees no step.
        let waited = super::corrected(now, now, [now - hours, now + hours]);
        assert_eq!(waited, now);
    }

    #[test]
    fn time_of_day_goes_on() {
        let first = since_1970();
        let stamp = Duration::from_secs(1_700_000_000);
        assert!(since_1970() >= first);
        assert_eq!(without_steps(stamp), stamp);
    }
}
