//! A reading of one counter, and the difference of two (health.md 1.1 to 1.3).

use std::time::Duration;

use facts::number::decimal;

/// Width of nearly all counters, in bits.
pub const WIDTH: u32 = 56;

/// The value of a counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReading {
    pub value: u64,
    /// When it was read, by a clock without steps.
    pub at: Duration,
    /// The stamp of the driver, since 1970-01-01 (UTC), if the file has one.
    pub stamp: Option<Duration>,
}

/// Value and stamp of a line such as `48213907@1717171717.000123456`; the stamp may be missing.
pub fn parse(line: &str) -> Option<(u64, Option<Duration>)> {
    let line = line.trim_end();
    let Some((value, stamp)) = line.split_once('@') else {
        return Some((decimal(line)?, None));
    };
    let (seconds, nanoseconds) = stamp.split_once('.')?;
    let nanoseconds = u32::try_from(digits(nanoseconds)?).ok()?;
    let stamp = Duration::from_secs(digits(seconds)?)
        .checked_add(Duration::from_nanos(nanoseconds.into()))?;
    Some((decimal(value)?, Some(stamp)))
}

/// A number of decimal digits, which may begin with zeros.
fn digits(text: &str) -> Option<u64> {
    let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().ok())?
}

/// What a counter did between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChange {
    /// It counted this much.
    Counted {
        /// The difference.
        by: u64,
        /// The time between the readings, if it is known; zero if the driver's stamp stands still.
        within: Option<Duration>,
    },
    /// It went back to the beginning: the driver was loaded, or someone reset it.
    Reset,
}

impl CounterChange {
    /// The change of a counter with [`WIDTH`] bits.
    pub fn between(before: CounterReading, after: CounterReading) -> Self {
        // The time of day may be stepped: stamps only tell whether the second value is new.
        let stands_still = before.stamp.is_some() && before.stamp == after.stamp;
        let within =
            if stands_still { Some(Duration::ZERO) } else { after.at.checked_sub(before.at) };
        let counted = |by| Self::Counted { by, within };
        if after.value >= before.value {
            counted(after.value - before.value)
        } else if before.value > 1 << (WIDTH - 1) && before.value < 1 << WIDTH {
            counted((1 << WIDTH) - before.value + after.value)
        } else {
            Self::Reset
        }
    }

    /// Returns by how much the counter has grown; `None` after a reset.
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Counted { by, .. } => Some(by),
            Self::Reset => None,
        }
    }

    /// The time between the readings, if it is known.
    pub fn within(self) -> Option<Duration> {
        match self {
            Self::Counted { within, .. } => within,
            Self::Reset => None,
        }
    }

    /// The counts per second, if the time is known.
    pub fn per_second(self) -> Option<f64> {
        match self {
            Self::Counted { by, within: Some(within) } if !within.is_zero() => {
                Some(by as f64 / within.as_secs_f64())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: u64) -> CounterReading {
        CounterReading { value, at: Duration::ZERO, stamp: None }
    }

    /// The vectors of health.md 1.8.
    #[test]
    fn reads_lines_with_and_without_stamp() {
        let stamp = Duration::new(1_700_000_000, 1);
        for (line, expected) in [
            ("12@1700000000.000000001\n", Some((12, Some(stamp)))),
            ("12", Some((12, None))),
            ("0@0.000000000", Some((0, Some(Duration::ZERO)))),
            ("", None),
            ("x@1.0", None),
            ("12@", None),
            ("12@1", None),
            ("-1@1.0", None),
            ("+1", None),
            ("12@+1.000000000", None),
            ("18446744073709551616", None),
            (
                "1@18446744073709551615.999999999",
                Some((1, Some(Duration::new(u64::MAX, 999_999_999)))),
            ),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn counts_across_wrap_and_notices_reset() {
        for (before, after, expected) in [
            (72_057_594_037_927_900, 100, Some(136)),
            (5000, 100, None),
            (100, 5000, Some(4900)),
            (7, 7, Some(0)),
            (u64::MAX, 1, None),
        ] {
            let change = CounterChange::between(reading(before), reading(after));
            assert_eq!(change.count(), expected, "{before} {after}");
        }
    }

    /// The last vector of health.md 1.8. The time of day steps by 0.3 s, and by -2 s.
    #[test]
    fn rates_use_the_times_of_both_reads_whatever_the_stamps_show() {
        let reading = |value, ms, stamp_ms: Option<u64>| CounterReading {
            value,
            at: Duration::from_millis(ms),
            stamp: stamp_ms.map(Duration::from_millis),
        };
        let before = reading(10, 1000, Some(9000));
        for (stamp_ms, rate) in [
            (Some(13_000), Some(5.0)),
            (Some(13_300), Some(5.0)),
            (Some(11_000), Some(5.0)),
            (Some(8_500), Some(5.0)),
            (None, Some(5.0)),
            (Some(9_000), None),
        ] {
            let change = CounterChange::between(before, reading(30, 5000, stamp_ms));
            assert_eq!((change.count(), change.per_second()), (Some(20), rate), "{stamp_ms:?}");
        }
        let at_once = CounterChange::between(before, reading(30, 1000, Some(9001)));
        assert_eq!(at_once.per_second(), None);
        let backwards = CounterChange::between(before, reading(30, 900, None));
        assert_eq!((backwards.within(), backwards.per_second()), (None, None));
    }
}
