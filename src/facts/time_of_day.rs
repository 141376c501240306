//! The time of day, and a clock without steps: a clock that somebody sets while this process runs
//! must not change a duration or a rate.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Smallest difference that is a step, in seconds. Slewing changes the pace of both clocks alike.
const SMALLEST_STEP: f64 = 0.01;

/// How often both clocks are read: the thread may wait in between.
const TRIES: usize = 3;

/// The first reading of both clocks.
static FIRST: LazyLock<Clocks> = LazyLock::new(Clocks::now);

/// Two clocks at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    /// The monotonic clock, which all processes of this machine share until it starts anew.
    pub monotonic: Duration,
    /// The time of day, since 1970-01-01 (UTC).
    pub of_day: Duration,
}

impl Clocks {
    /// Reads both clocks.
    pub fn now() -> Self {
        let read = |_| {
            let clocks = Self { monotonic: monotonic(), of_day: shown_by_clock() };
            (monotonic() - clocks.monotonic, clocks)
        };
        let readings = (0..TRIES).map(read).min_by_key(|(between, _)| *between);
        readings.map_or_else(Self::default, |(_, clocks)| clocks)
    }

    /// The monotonic time of `stamp`, a time of day at which something was read since this moment.
    /// A stamp from before it, or from later than now, is from another clock or beside a step.
    pub fn time_of(self, stamp: Option<Duration>) -> Duration {
        self.time_until(stamp, monotonic())
    }

    fn time_until(self, stamp: Option<Duration>, end: Duration) -> Duration {
        let since = stamp.map_or(Duration::ZERO, |stamp| stamp.saturating_sub(self.of_day));
        self.monotonic.saturating_add(since).min(end)
    }

    /// The time that has passed since `before`.
    pub fn since(self, before: Self) -> Duration {
        self.monotonic.saturating_sub(before.monotonic)
    }

    /// Returns by how many seconds the time of day was stepped since `before`, if it was.
    pub fn step_since(self, before: Self) -> Option<f64> {
        let shown = self.of_day.as_secs_f64() - before.of_day.as_secs_f64();
        let step = shown - self.since(before).as_secs_f64();
        (step.abs() >= SMALLEST_STEP).then_some(step)
    }
}

/// A time as RFC 3339 writes it in UTC: `2026-11-22T11:42:00Z`. The year 9999 is the last one with
/// four digits.
pub fn rfc3339(unix_ms: u64) -> String {
    let seconds = (unix_ms / 1000).min(253_402_300_799);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Returns what is said about a step of the clock of `host`.
pub fn step_text(host: &str, seconds: f64) -> String {
    format!(
        "the clock of {host} was stepped by {seconds:+.3} s meanwhile: rates use the monotonic clock"
    )
}

/// A time in whole milliseconds.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A time in milliseconds since 1970-01-01 (UTC); 0 before.
pub fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, milliseconds)
}

/// The time since 1970-01-01 (UTC): the time of day at the first call, and what has passed since
/// then.
pub fn since_1970() -> Duration {
    let first = *FIRST;
    first.of_day.saturating_add(monotonic().saturating_sub(first.monotonic))
}

fn monotonic() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
    fn writes_years_of_four_digits() {
        assert_eq!(rfc3339(1_700_000_000_999), "2023-11-14T22:13:20Z");
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59Z");
    }

    const DAY: Duration = Duration::from_secs(1_700_000_000);

    fn clocks(monotonic_ms: u64, of_day_ms: u64) -> Clocks {
        let after = Duration::from_millis;
        Clocks { monotonic: after(monotonic_ms), of_day: DAY + after(of_day_ms) }
    }

    #[test]
    fn steps_are_what_the_time_of_day_does_beside_the_other_clock() {
        let before = clocks(500, 0);
        for (of_day_ms, expected) in [
            (5_000, None),
            (5_009, None),
            (5_300, Some("+0.300")),
            (3_000, Some("-2.000")),
            (10_805_000, Some("+10800.000")),
        ] {
            let step = clocks(5_500, of_day_ms).step_since(before);
            let text = step.map(|step| format!("{step:+.3}"));
            assert_eq!(text.as_deref(), expected, "{of_day_ms}");
        }
    }

    #[test]
    fn stamps_place_a_read_between_the_readings_of_the_other_clock() {
        let (before, end) = (clocks(700, 100), Duration::from_millis(740));
        for (stamp_ms, expected_ms) in [(100, 700), (130, 730), (400, 740), (0, 700)] {
            let stamp = Some(DAY + Duration::from_millis(stamp_ms));
            let time = before.time_until(stamp, end);
            assert_eq!(time, Duration::from_millis(expected_ms), "{stamp_ms}");
        }
        assert_eq!(before.time_until(None, end), Duration::from_millis(700));
    }

    #[test]
    fn time_of_day_goes_on() {
        let first = since_1970();
        assert!(since_1970() >= first);
    }
}
