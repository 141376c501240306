//! Percentiles by nearest rank.

use std::fmt;
use std::str::FromStr;

/// Parts of a percent: the resolution of a percentile.
const PARTS: u64 = 1_000_000;

/// All samples, in parts of a percent.
const WHOLE: u64 = 100 * PARTS;

/// Number of samples above a percentile that makes it reliable.
const ENOUGH_ABOVE: u64 = 10;

/// A percentage of the samples, above 0 and up to 100, exact to a millionth of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile(u64);

impl Percentile {
    pub const MEDIAN: Self = Self(50 * PARTS);
    /// The 5th percentile.
    pub const P5: Self = Self(5 * PARTS);
    /// The 90th percentile.
    pub const P90: Self = Self(90 * PARTS);
    /// The 99th percentile.
    pub const P99: Self = Self(99 * PARTS);
    /// The maximum.
    pub const MAX: Self = Self(WHOLE);

    /// The percentiles of each output, the maximum last.
    pub const STANDARD: [Self; 6] = [
        Self::MEDIAN,
        Self::P90,
        Self::P99,
        Self(99 * PARTS + 9 * PARTS / 10),
        Self(99 * PARTS + 99 * PARTS / 100),
        Self::MAX,
    ];

    /// Returns its rank among `count` samples in ascending order: 1 to `count`, for at least one
    /// sample.
    pub fn rank(self, count: u64) -> u64 {
        (u128::from(count) * u128::from(self.0)).div_ceil(u128::from(WHOLE)) as u64
    }

    /// Whether at least ten of `count` samples are above the percentile.
    pub fn is_supported_by(self, count: u64) -> bool {
        self == Self::MAX || count - self.rank(count) >= ENOUGH_ABOVE
    }

    /// The percentage as a number.
    pub fn percent(self) -> f64 {
        self.0 as f64 / PARTS as f64
    }
}

impl FromStr for Percentile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = "expected a percentile above 0 and up to 100, such as p99.9";
        let (whole, parts) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(parts) || whole.len() > 3 || parts.len() > 6 {
            return Err(allowed);
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| allowed);
        let percentile = number(whole)? * PARTS + number(&format!("{parts:0<6}"))?;
        match percentile {
            1..=WHOLE => Ok(Self(percentile)),
            _ => Err(allowed),
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.percent())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn percentile(text: &str) -> Percentile {
        text.parse().unwrap()
    }

    #[test]
    fn uses_nearest_rank() {
        for (text, count, rank) in [
            ("50", 1, 1),
            ("50", 2, 1),
            ("50", 3, 2),
            ("99", 100, 99),
            ("99", 101, 100),
            ("99.9", 1_000, 999),
            ("99.99", 10_000, 9_999),
            ("99.99", 100, 100),
            ("0.000001", 100, 1),
            ("100", 7, 7),
            ("100", u64::MAX, u64::MAX),
        ] {
            assert_eq!(percentile(text).rank(count), rank, "{text} of {count}");
        }
    }

    #[test]
    fn ten_samples_above_make_it_reliable() {
        for (text, least) in [("50", 20), ("90", 100), ("99", 1_000), ("99.99", 100_000)] {
            assert!(percentile(text).is_supported_by(least), "{text}");
            assert!(!percentile(text).is_supported_by(least - 1), "{text}");
        }
        assert!(Percentile::MAX.is_supported_by(1));
    }

    #[test]
    fn parses_and_prints_names() {
        let names: Vec<String> = Percentile::STANDARD.iter().map(Percentile::to_string).collect();
        assert_eq!(names, ["p50", "p90", "p99", "p99.9", "p99.99", "p100"]);
    }

    #[test]
    fn t24_refuses_malformed_percentiles() {
        for text in [
            "",
            ".",
            "0",
            "0.0",
            "100.1",
            "101",
            "1000",
            "-1",
            "+5",
            "5.",
            ".5",
            "1e1",
            "99.9999999",
            " 5",
            "5 ",
            "1.2.3",
            "\u{661}",
        ] {
            assert!(text.parse::<Percentile>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_rank_is_that_of_a_sample(parts in 1..=WHOLE, count in 1..u64::MAX) {
            let rank = Percentile(parts).rank(count);
            prop_assert!((1..=count).contains(&rank));
            // The smallest rank that covers this part of the samples.
            prop_assert!(u128::from(rank) * u128::from(WHOLE) >= u128::from(parts) * u128::from(count));
            prop_assert!(u128::from(rank - 1) * u128::from(WHOLE) < u128::from(parts) * u128::from(count));
        }
    }
}
