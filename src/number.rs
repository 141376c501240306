//! Numbers as users type them: strict (defect T24 of tools.md).

use std::ops::RangeInclusive;

/// Returns the number in `text`, which must consist of decimal digits: no sign, blank, prefix,
/// suffix or leading zero. A leading zero is refused because it means octal to the legacy tools.
pub fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// Returns the number in `text` if it is within `range`.
///
/// # Errors
///
/// A description of the allowed values.
pub fn within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    decimal(text)
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            if *range.end() == u64::MAX {
                format!("expected a decimal number, {} or more", range.start())
            } else {
                format!(
                    "expected a decimal number from {} to {}",
                    range.start(),
                    range.end()
                )
            }
        })
}

/// Returns a percentage in plain decimal digits: `5%`, `2.5%` or `5`.
pub fn percent(text: &str) -> Option<f64> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, parts) = number.split_once('.').unwrap_or((number, "0"));
    if !plain(whole) || !plain(parts) {
        return None;
    }
    number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
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
            within("0", 1..=u64::MAX),
            Err("expected a decimal number, 1 or more".into())
        );
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
}
