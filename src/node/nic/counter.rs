//! A reading of one counter, and the difference of two (health.md 1.1 to 1.3).

use std::time::Duration;

use facts::number::decimal;

/// Width of nearly all counters, in bits.
pub const WIDTH: u32 = 56;

/// The value of a counter at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub value: u64,
    /// When it was read, since 1970-01-01 (UTC), if the file has a stamp.
    pub at: Option<Duration>,
}

impl Reading {
    /// Reads a line such as `48213907@1717171717.000123456`; the stamp may be missing.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim_end();
        let Some((value, stamp)) = line.split_once('@') else {
            let value = decimal(line)?;
            return Some(Self { value, at: None });
        };
        let (seconds, nanoseconds) = stamp.split_once('.')?;
        let nanoseconds = u32::try_from(digits(nanoseconds)?).ok()?;
        let at = Duration::from_secs(digits(seconds)?)
            .checked_add(Duration::from_nanos(nanoseconds.into()))?;
        Some(Self { value: decimal(value)?, at: Some(at) })
    }
}

/// Returns a number of decimal digits, which may begin with zeros.
fn digits(text: &str) -> Option<u64> {
    let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().ok())?
}

/// What a counter did between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It counted this much, in this time if both readings have a stamp.
    Counted {
        /// The difference.
        by: u64,
        /// The time between the readings.
        within: Option<Duration>,
    },
    /// It went back to the beginning: the driver was loaded, or someone reset it.
    Reset,
}

impl Change {
    /// Returns the change of a counter with [`WIDTH`] bits.
    pub fn between(before: Reading, after: Reading) -> Self {
        let within = match (before.at, after.at) {
            (Some(before), Some(after)) => after.checked_sub(before),
            _ => None,
        };
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

    /// Returns the time between the readings, if it is known.
    pub fn within(self) -> Option<Duration> {
        match self {
            Self::Counted { within, .. } => within,
            Self::Reset => None,
        }
    }

    /// Returns the counts per second, if the time is known.
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

    fn reading(value: u64) -> Reading {
        Reading { value, at: None }
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
            let expected = expected.map(|(value, at)| Reading { value, at });
            assert_eq!(Reading::parse(line), expected, "{line:?}");
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
            let change = Change::between(reading(before), reading(after));
            let expected =
                expected.map_or(Change::Reset, |by| Change::Counted { by, within: None });
            assert_eq!(change, expected, "{before} {after}");
        }
    }

    #[test]
    fn rates_use_the_stamps_of_both_readings() {
        let at = |value, ms| Reading { value, at: Some(Duration::from_millis(ms)) };
        let change = Change::between(at(10, 1000), at(30, 5000));
        assert_eq!(change.per_second(), Some(5.0));
        let backwards = Change::between(at(10, 5000), at(30, 1000));
        assert_eq!(backwards.per_second(), None);
        let at_once = Change::between(at(10, 1000), at(30, 1000));
        assert_eq!(at_once.per_second(), None);
        assert_eq!(Change::between(reading(1), at(3, 1)).per_second(), None);
    }
}
