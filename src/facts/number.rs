//! Numbers as users type them: strict (defect T24 of tools.md). Sizes of operations, in bytes.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The number in `text`, which must consist of decimal digits: no sign, blank, prefix, suffix or
/// leading zero. A leading zero is refused because it means octal to the legacy tools.
pub fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// The number in `text` if it is within `range`.
pub fn within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    decimal(text).filter(|number| range.contains(number)).ok_or_else(|| {
        format!("expected a decimal number from {} to {}", range.start(), range.end())
    })
}

/// Units of sizes with their bytes. Capital and small letters are equal.
const SIZES: [(&str, u64); 6] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

/// The bytes in `text`: a decimal number, and `K` or `KiB` (1024), `M` or `MiB` (1024 K), `G` or
/// `GiB` (1024 M). Without a unit, it is in bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let scale = match unit {
        "" => 1,
        unit => SIZES.iter().find(|(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit))?.1,
    };
    decimal(number)?.checked_mul(scale)
}

/// The bytes in `text` if they are within `range`.
pub fn bytes_within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    bytes(text).filter(|bytes| range.contains(bytes)).ok_or_else(|| {
        format!(
            "expected bytes from {} to {}, such as 4096, 64K or 1GiB",
            range.start(),
            range.end()
        )
    })
}

/// A percentage in plain decimal digits: `5%`, `2.5%` or `5`.
pub fn percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, parts) = number.split_once('.').unwrap_or((number, "0"));
    if !plain(whole) || !plain(parts) {
        return None;
    }
    number.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Units of times with their nanoseconds, the longest first.
const TIMES: [(&str, u64); 5] =
    [("m", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// The time in `text` if it is within `range`: a decimal number, which may have a fraction, and one
/// of the units `ns`, `us`, `ms`, `s` and `m` (minutes). Without a unit, it is in seconds.
pub fn time(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    nanoseconds(text, "s")
        .map(Duration::from_nanos)
        .filter(|time| range.contains(time))
        .ok_or_else(|| {
            let (least, most) = (time_text(*range.start()), time_text(*range.end()));
            format!("expected a time from {least} to {most}: a number such as 0.5 with ns, us, ms, s or m (minutes)")
        })
}

/// The microseconds in `text`, as [`time`] reads it, but in microseconds without a unit.
///
/// # Errors
///
/// A description of the allowed values: whole microseconds up to `most`.
pub fn microseconds(text: &str, most: u64) -> Result<u64, String> {
    nanoseconds(text, "us")
        .filter(|ns| ns.is_multiple_of(1000))
        .map(|ns| ns / 1000)
        .filter(|us| *us <= most)
        .ok_or_else(|| {
            format!(
                "expected a time from 0 to {most}us, in whole microseconds, such as 100, 100us or 0.5ms"
            )
        })
}

/// A time in the longest unit in which it is a whole number.
pub fn time_text(time: Duration) -> String {
    let ns = time.as_nanos();
    let fits = |(_, scale): &&(&str, u64)| ns.is_multiple_of(u128::from(*scale));
    match TIMES.iter().find(fits) {
        Some((unit, scale)) if ns > 0 => format!("{}{unit}", ns / u128::from(*scale)),
        _ => "0s".into(),
    }
}

/// The time in `text` in nanoseconds, if it is a whole number of them. Without a unit, it is in
/// `default`.
fn nanoseconds(text: &str, default: &str) -> Option<u64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = if unit.is_empty() { default } else { unit };
    let scale = TIMES.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || fraction.len() > 18 {
        return None;
    }
    let parts = 10_u128.pow(fraction.len() as u32);
    let number = u128::from(decimal(whole)?) * parts + fraction.parse::<u128>().ok()?;
    let ns = number.checked_mul(scale.into())?;
    if ns.is_multiple_of(parts) { (ns / parts).try_into().ok() } else { None }
}

/// A number with what it counts: `1 NIC`, `1,204 NICs`, `2 pairs of groups`.
pub fn counted(number: u64, what: &str) -> String {
    let number_text = grouped(number);
    let (noun, rest) = what.split_once(' ').unwrap_or((what, ""));
    let ending = match noun {
        _ if number == 1 => "",
        "switch" => "es",
        _ => "s",
    };
    format!("{number_text} {noun}{ending} {rest}").trim_end().to_owned()
}

/// The first `most` names, and how many follow: `n1, n2 and 3 more`.
pub fn listed(names: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    shown.join(", ") + &and_more(names.len() - shown.len())
}

/// Returns how many there are beside those that are named: ` and 3 more`; nothing for none.
pub fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {} more", grouped(count as u64)) }
}

/// A number with a comma before each three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Largest size of one operation in bytes (tools.md 2.2).
pub const MAX_SIZE: u64 = u32::MAX as u64;

/// Whether an operation can have `size` bytes.
pub fn is_size(size: u64) -> bool {
    (1..=MAX_SIZE).contains(&size)
}

/// Whether sizes can double from `min` to `max`.
pub fn is_range(min: u64, max: u64) -> bool {
    let is_end = |size: u64| is_size(size) && size.is_power_of_two();
    is_end(min) && is_end(max) && min <= max
}

/// The least and the greatest power of two from `min` to `max`, if there is one.
pub fn powers_within(min: u64, max: u64) -> Option<(u64, u64)> {
    if !is_size(min) || !is_size(max) {
        return None;
    }
    let (least, greatest) = (min.next_power_of_two(), 1 << max.ilog2());
    (least <= greatest).then_some((least, greatest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn t24_accepts_only_decimal_digits() {
        for text in [
            "",
            " ",
            "8x",
            "x8",
            "0x8",
            "+8",
            "-8",
            " 8",
            "8 ",
            "8\n",
            "08",
            "00",
            "1e3",
            "1_000",
            "1,000",
            "1.0",
            "\u{661}",
            "18446744073709551616",
            "99999999999999999999999",
        ] {
            assert_eq!(decimal(text), None, "{text:?}");
        }
        assert_eq!(decimal("0"), Some(0));
        assert_eq!(decimal("18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(within("1", 1..=65535), Ok(1));
        assert_eq!(within("65535", 1..=65535), Ok(65535));
        assert_eq!(
            within("65536", 1..=65535),
            Err("expected a decimal number from 1 to 65535".into())
        );
        assert_eq!(
            within("18446744073709551616", 1..=u64::MAX),
            Err("expected a decimal number from 1 to 18446744073709551615".into())
        );
    }

    #[test]
    fn reads_bytes_with_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4095", 4095),
            ("8K", 8192),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("1M", 1 << 20),
            ("3mib", 3 << 20),
            ("4G", 1 << 32),
            ("1GiB", 1 << 30),
            ("17179869183G", 17_179_869_183 << 30),
        ] {
            assert_eq!(super::bytes(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn t24_refuses_malformed_bytes_and_those_out_of_range() {
        for text in [
            "",
            "K",
            "0x8",
            "8KB",
            "8Kb",
            "8kB",
            "8B",
            "8 K",
            " 8K",
            "8K ",
            "1.5K",
            "08K",
            "-8K",
            "8KK",
            "8T",
            "8Ki",
            "17179869184G",
            "\u{661}K",
            "8\u{212a}",
        ] {
            assert_eq!(bytes(text), None, "{text:?}");
        }
        let allowed = "expected bytes from 1 to 4096, such as 4096, 64K or 1GiB";
        for text in ["0", "5K", "4097", "x"] {
            assert_eq!(bytes_within(text, 1..=4096), Err(allowed.into()), "{text}");
        }
        assert_eq!(bytes_within("4K", 1..=4096), Ok(4096));
    }

    #[test]
    fn says_how_many_are_not_named() {
        assert_eq!([0, 1, 12].map(and_more), ["", " and 1 more", " and 12 more"]);
    }

    proptest! {
        #[test]
        fn a_number_is_read_only_as_it_is_written(text in "\\PC{0,24}") {
            if let Some(number) = decimal(&text) {
                prop_assert_eq!(number.to_string(), text);
            }
        }

        #[test]
        fn every_number_is_read(number: u64) {
            prop_assert_eq!(decimal(&number.to_string()), Some(number));
        }
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn reads_microseconds_with_units() {
        for (text, us) in [("0", 0), ("100", 100), ("0.5ms", 500), ("2000ns", 2), ("1s", 1_000_000)]
        {
            assert_eq!(microseconds(text, 1_000_000), Ok(us), "{text}");
        }
        for text in ["", "0.5", "1500ns", "2s", "1000001", "x", "1 us"] {
            let refused = microseconds(text, 1_000_000).unwrap_err();
            assert!(refused.contains("0 to 1000000us, in whole microseconds"), "{refused}");
        }
    }

    #[test]
    fn reads_times_with_units_and_fractions() {
        for (text, ns) in [
            ("1", 1_000_000_000),
            ("0.5", 500_000_000),
            ("100ms", 100_000_000),
            ("1.25ms", 1_250_000),
            ("1s", 1_000_000_000),
            ("2m", 120_000_000_000),
            ("0.5m", 30_000_000_000),
            ("250us", 250_000),
            ("7ns", 7),
            ("0.000000001", 1),
            ("0", 0),
            ("60m", 3_600_000_000_000),
        ] {
            let time = time(text, Duration::ZERO..=HOUR);
            assert_eq!(time, Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn t24_refuses_malformed_times_and_those_out_of_range() {
        for text in [
            "",
            " ",
            "s",
            "ms",
            ".5",
            "5.",
            "05",
            "1.s",
            "-1",
            "+1",
            "1 s",
            " 1",
            "1e3",
            "1h",
            "1S",
            "1.2.3",
            "1ms2",
            "0.5ns",
            "0x1",
            "1,5",
            "\u{661}",
            "1\u{661}",
            "0.999ms",
            "0",
            "3600.1",
            "61m",
            "18446744073709551616",
            "0.0000000000000000000001",
        ] {
            let allowed = "expected a time from 1ms to 60m: a number such as 0.5 with ns, us, ms, s or m (minutes)";
            let read = time(text, Duration::from_millis(1)..=HOUR);
            assert_eq!(read, Err(allowed.into()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_is_written(ns in 0..=3_600_000_000_000_u64, digits in 0_u32..4) {
            // Few digits that are not zero, for all units.
            let written = Duration::from_nanos(ns / 1_000_u64.pow(digits) * 1_000_u64.pow(digits));
            prop_assert_eq!(time(&time_text(written), Duration::ZERO..=HOUR), Ok(written));
            let seconds = format!("{:.9}", ns as f64 / 1e9);
            let expected = Ok(Duration::from_nanos(ns));
            prop_assert_eq!(time(&seconds, Duration::ZERO..=HOUR), expected);
        }

        #[test]
        fn reads_only_times_in_range_from_random_text(text in "[0-9.nums]{0,12}") {
            if let Ok(time) = time(&text, Duration::from_millis(1)..=HOUR) {
                prop_assert!((Duration::from_millis(1)..=HOUR).contains(&time));
            }
        }
    }

    #[test]
    fn finds_powers_of_two_in_a_range() {
        for (min, max, found) in [
            (3, 20, Some((4, 16))),
            (1, 8, Some((1, 8))),
            (5, 8, Some((8, 8))),
            (5, 7, None),
            (8, 4, None),
            (0, 4, None),
            (1, MAX_SIZE, Some((1, 1 << 31))),
            (MAX_SIZE, MAX_SIZE, None),
            (1, MAX_SIZE + 1, None),
        ] {
            assert_eq!(powers_within(min, max), found, "{min}:{max}");
        }
    }
}
