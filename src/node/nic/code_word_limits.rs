//! Limits of code words with errors per second, of the driver and of cxidiag (health.md 1.7).

use super::files::Files;
use super::link_speed::{ASSUMED_BIT_RATE, LinkSpeed};

/// Bit error rate of corrected errors above which a link is marginal: healthy links have 1e-12 to
/// 1e-9, a documented bad one 2.5e-6.
pub const MARGINAL: f64 = 1e-6;

/// Directory of the limits that the driver of Cassini 2 shows.
const DIRECTORY: &str = "port/0/link/fec/monitor_check";

/// Names of these limits.
const NAMES: [&str; 4] = ["ccw_warn_limit", "ccw_down_limit", "ucw_warn_limit", "ucw_down_limit"];

/// The limits in the files of the driver of Cassini 2, in code words per second: for a warning and
/// for taking the link down, of corrected and of uncorrected code words. 0 in a file means none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DriverLimits([Option<f64>; NAMES.len()]);

impl DriverLimits {
    /// Reads the limits of a NIC.
    pub fn read(files: &Files) -> Self {
        Self(NAMES.map(|name| limit(&files.text(&format!("{DIRECTORY}/{name}"))?)))
    }

    /// Returns the limits that exist, with the names of their files.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let named = NAMES.into_iter().zip(self.0);
        named.filter_map(|(name, limit)| Some((name, limit?)))
    }

    /// Sets the limit whose file has this name. Returns `None` for another name, and for a value
    /// that is no limit.
    pub fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let at = NAMES.iter().position(|known| *known == name)?;
        self.0[at] = Some(limit(value)?);
        Some(())
    }
}

fn limit(text: &str) -> Option<f64> {
    let limit: f64 = text.parse().ok()?;
    (limit > 0.0 && limit.is_finite()).then_some(limit)
}

/// Limits of one kind of code words per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodeWordLimits {
    /// Above it, the link is suspect.
    pub suspect: f64,
    /// Whether the driver shows that limit.
    pub is_of_driver: bool,
    /// Above it, the link has failed.
    pub bad: Option<f64>,
}

impl CodeWordLimits {
    /// Returns the limits of corrected code words of a link in this mode.
    pub fn corrected(driver: DriverLimits, speed: Option<LinkSpeed>) -> Self {
        let [warning, down, ..] = driver.0;
        let failed = speed.and_then(|speed| speed.cassini_1);
        Self {
            suspect: warning.unwrap_or(MARGINAL * bit_rate(speed)),
            is_of_driver: warning.is_some(),
            bad: down.or(failed.map(|limits| limits.max_per_s)),
        }
    }

    /// Returns the limits of uncorrected code words of a link in this mode. A healthy link has none
    /// of them.
    pub fn uncorrected(driver: DriverLimits, speed: Option<LinkSpeed>) -> Self {
        let [.., warning, down] = driver.0;
        Self {
            suspect: warning.unwrap_or(0.0),
            is_of_driver: warning.is_some(),
            bad: down.or(speed.map(|speed| speed.max_uncorrected_per_s)),
        }
    }
}

/// Returns the bit rate of a mode, in bits per second.
pub fn bit_rate(speed: Option<LinkSpeed>) -> f64 {
    speed.map_or(ASSUMED_BIT_RATE, |speed| speed.bits_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_driver_come_before_those_of_the_mode() {
        let speed = LinkSpeed::of("ck400G");
        let pairs = |driver| {
            let (corrected, uncorrected) = (
                CodeWordLimits::corrected(driver, speed),
                CodeWordLimits::uncorrected(driver, speed),
            );
            [(corrected.suspect, corrected.bad), (uncorrected.suspect, uncorrected.bad)]
        };
        let mut driver = DriverLimits::default();
        assert_eq!(pairs(driver), [(425_000.0, None), (0.0, Some(42.5))]);
        for (name, value) in
            [("ccw_warn_limit", "4250000"), ("ucw_warn_limit", "21"), ("ucw_down_limit", "40")]
        {
            driver.set(name, value).unwrap();
        }
        assert_eq!(pairs(driver), [(4_250_000.0, None), (21.0, Some(40.0))]);
        for (name, value) in [("ccw_down_limit", "0"), ("ccw_down_limit", "NaN"), ("x", "1")] {
            assert_eq!(driver.set(name, value), None, "{name}={value}");
        }
        assert_eq!(driver.iter().count(), 3);
    }

    /// The numbers of HPE's sample output (health.md 1.8): code words in 4 s.
    #[test]
    fn bit_rates_give_documented_bit_error_rates() {
        let bits = bit_rate(LinkSpeed::of("BS_200G"));
        for (code_words, expected) in [(1.0, "1.176e-12"), (8.0, "9.412e-12"), (32.0, "3.765e-11")]
        {
            assert_eq!(format!("{:.3e}", code_words / 4.0 / bits), expected);
        }
        assert_eq!(bit_rate(None), 212.5e9);
    }
}
