//! The values of words. Each function returns `None` for a text that is no such value.

use crate::description::{MOST_GROUPS, MOST_SWITCHES, Outage, SwitchName};
use crate::grammar::{self, Value, whole};

/// The values of words, as errors name them.
pub const RATE: Value = Value("RATE", "a number followed by MB/s or GB/s, from 1MB/s to 1000GB/s");
pub const SHARE: Value = Value("SHARE", "a number from 1 to 100 followed by %");

/// Parses the rate of a link in bytes per second.
pub fn rate(text: &str) -> Option<f64> {
    grammar::bandwidth(text).filter(|rate| (1e6..=1e12).contains(rate))
}

/// Parses a number of bytes.
pub fn size(text: &str) -> Option<u64> {
    let size = grammar::with_unit(text, &[("KiB", 1024.0), ("MiB", 1_048_576.0)])?;
    (size <= 1e9).then_some(size.round() as u64)
}

/// Parses a share of more than nothing, in percent.
pub fn share(text: &str) -> Option<f64> {
    let percent = grammar::number_in(1.0..=100.0, text.strip_suffix('%')?)?;
    Some(percent / 100.0)
}

/// Parses the time from which a part is down, with or without the time for which it is; without
/// any, it is always down.
pub fn outage(text: &str) -> Option<Outage> {
    let (from, length) = if text.is_empty() { (0, None) } else { grammar::outage(text)? };
    Some(Outage { from, to: length.map(|length| from + length) })
}

/// Parses the name of a switch.
pub fn switch(text: &str) -> Option<SwitchName> {
    let (group, switch) = text.split_once('.')?;
    let number = |text: &str, end: u16| {
        let number = whole(text).and_then(|number| u16::try_from(number).ok());
        number.filter(|number| *number < end)
    };
    Some(SwitchName { group: number(group, MOST_GROUPS)?, switch: number(switch, MOST_SWITCHES)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::nanoseconds;

    #[test]
    fn reads_values_with_units() {
        assert_eq!(rate("50MB/s"), Some(5e7));
        assert_eq!(rate("2.5GB/s"), Some(2.5e9));
        assert_eq!(nanoseconds("20us"), Some(20_000));
        assert_eq!(nanoseconds("1.5s"), Some(1_500_000_000));
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(share("25%"), Some(0.25));
        let name = switch("3.31").map(|name| name.to_string());
        assert_eq!(name.as_deref(), Some("3.31"));
        let outage = outage("2s:500ms").unwrap();
        let states = [1, 2, 2_499_999_999, 2_500_000_000].map(|time| outage.is_at(time));
        assert_eq!(states, [false, false, true, false]);
    }

    #[test]
    fn rejects_other_texts() {
        for text in ["", "5", "MB/s", "-5MB/s", "0.5MB/s", "5mb/s", "2000GB/s", "1e3MB/s"] {
            assert_eq!(rate(text), None, "{text}");
        }
        for text in ["", "5", "us", "-5us", "5 us", "2h", "3601s", "1..2us", ".5us", "5.us"] {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
        for text in ["0%", "101%", "50", "%", "-1%"] {
            assert_eq!(share(text), None, "{text}");
        }
        for text in ["1", "1.32", "512.0", "a.b", "1.2.3", "", "."] {
            assert_eq!(switch(text), None, "{text}");
        }
        for text in ["64", "KiB", "-1KiB", "2000MiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
