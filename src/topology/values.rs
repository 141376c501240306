//! The values of words. Each function returns `None` for a text that is no such value.

use crate::description::{Outage, SwitchName};

/// The slowest and the fastest link, in bytes per second.
const RATES: std::ops::RangeInclusive<f64> = 1e6..=1e12;

/// The longest time: an hour, in nanoseconds.
const LONGEST: f64 = 3600e9;

/// The forms of values, as errors name them.
pub const RATE: &str = "a number followed by MB/s or GB/s, from 1MB/s to 1000GB/s";
pub const TIME: &str = "a number followed by ns, us, ms or s, at most an hour";
pub const SHARE: &str = "a number from 1 to 100 followed by %";

/// Parses a whole number without sign.
pub fn whole(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

fn number(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain.then(|| text.parse().ok()).flatten()
}

fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(unit, factor)| {
        let number = number(text.strip_suffix(unit)?)?;
        Some(number * factor)
    })
}

/// Parses bytes per second.
pub fn rate(text: &str) -> Option<f64> {
    let rate = with_unit(text, &[("MB/s", 1e6), ("GB/s", 1e9)])?;
    RATES.contains(&rate).then_some(rate)
}

/// Parses a time, and returns it in nanoseconds.
pub fn time(text: &str) -> Option<u64> {
    // "s" last: each of the others ends with it.
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let time = with_unit(text, &units)?;
    (time <= LONGEST).then_some(time.round() as u64)
}

/// Parses a number of bytes.
pub fn size(text: &str) -> Option<u64> {
    let size = with_unit(text, &[("KiB", 1024.0), ("MiB", 1_048_576.0)])?;
    (size <= 1e9).then_some(size.round() as u64)
}

/// Parses a share of more than nothing, in percent.
pub fn share(text: &str) -> Option<f64> {
    let percent = number(text.strip_suffix('%')?)?;
    (1.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Parses a probability below 1: with 1, a packet would never arrive.
pub fn loss(text: &str) -> Option<f64> {
    number(text).filter(|loss| (0.0..=0.9).contains(loss))
}

/// Parses the time from which a part is down, with or without the time for which it is.
pub fn outage(text: &str) -> Option<Outage> {
    let (from, length) = match text.split_once(':') {
        Some((from, length)) => (time(from)?, Some(time(length)?)),
        None => (time(text)?, None),
    };
    let to = length.map(|length| from + length);
    Some(Outage { from, to })
}

/// Parses the name of a switch.
pub fn switch(text: &str) -> Option<SwitchName> {
    let (group, switch) = text.split_once('.')?;
    let number = |text: &str, end: u16| {
        let number = whole(text).and_then(|number| u16::try_from(number).ok());
        number.filter(|number| *number < end)
    };
    Some(SwitchName {
        group: number(group, crate::description::MOST_GROUPS)?,
        switch: number(switch, crate::description::MOST_SWITCHES)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_values_with_units() {
        assert_eq!(rate("50MB/s"), Some(5e7));
        assert_eq!(rate("2.5GB/s"), Some(2.5e9));
        assert_eq!(time("20us"), Some(20_000));
        assert_eq!(time("1.5s"), Some(1_500_000_000));
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(share("25%"), Some(0.25));
        assert_eq!(loss("0.001"), Some(0.001));
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
        for text in ["", "5", "us", "-5us", "5 us", "2h", "3601s", "1..2us"] {
            assert_eq!(time(text), None, "{text}");
        }
        for text in ["0%", "101%", "50", "%", "-1%"] {
            assert_eq!(share(text), None, "{text}");
        }
        for text in ["1", "-0.1", "x", "", "0.95"] {
            assert_eq!(loss(text), None, "{text}");
        }
        for text in ["1", "1.32", "512.0", "a.b", "1.2.3", "", "."] {
            assert_eq!(switch(text), None, "{text}");
        }
        for text in ["64", "KiB", "-1KiB", "2000MiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
