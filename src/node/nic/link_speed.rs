//! The modes of a link, with the rates of its code words, and the limits of the driver and of
//! cxidiag for them (health.md 1.7, 2.1).

use super::files::Files;

/// The mode of a link at one speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// Speed for data, in Gb/s.
    pub gigabits_per_s: f64,
    /// Bit rate on the cable with FEC, in bits per second, by which bit error rates are computed.
    pub bits_per_s: f64,
    /// Code words per second of a healthy link, busy or idle.
    pub code_words_per_s: Option<f64>,
    /// Uncorrected code words per second above which the driver takes the link for failed.
    pub max_uncorrected_per_s: f64,
    /// Limits that only the driver of Cassini 1 has.
    pub cassini_1: Option<Corrected>,
}

/// Limits of corrected errors per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrected {
    /// Code words above which the driver takes the link for failed.
    pub max_per_s: f64,
    /// Errors of a lane above which the driver warns.
    pub max_of_lane_per_s: f64,
}

/// A mode, as either generation has it.
struct Mode {
    /// The name in `port/speed` or `port/0/link/speed`, in lower case without `_`.
    name: &'static str,
    gigabits_per_s: f64,
    bits_per_s: f64,
    code_words_per_s: Option<f64>,
    /// Limits of Cassini 1: uncorrected code words per second, corrected code words per second, and
    /// the number of lanes by which the driver divides the limit of corrected ones.
    cassini_1: Option<(f64, f64, f64)>,
}

/// Bit rate that cxi_stat assumes for a mode that it does not know, in bits per second.
const ASSUMED_BIT_RATE: f64 = 212.5e9;

/// Bit error rate of uncorrected code words above which the driver of Cassini 2 declares a link
/// failed. Cassini 1 has this limit too, rounded.
const MAX_UNCORRECTED: f64 = 1e-10;

const MODES: [Mode; 7] = [
    mode("ck400g", 400.0, 425e9, None, None),
    mode("ck200g", 200.0, 212.5e9, None, None),
    mode("ck100g", 100.0, 106.25e9, None, None),
    mode("bs200g", 200.0, 212.5e9, Some(39_062_500.0), Some((21.0, 21_250_000.0, 8.0))),
    mode("bj100g", 100.0, 103.125e9, Some(19_531_250.0), Some((11.0, 10_312_500.0, 8.0))),
    mode("cd100g", 100.0, 106.25e9, None, Some((11.0, 10_625_000.0, 4.0))),
    mode("cd50g", 50.0, 53.125e9, None, Some((5.0, 5_312_500.0, 2.0))),
];

const fn mode(
    name: &'static str,
    gigabits_per_s: f64,
    bits_per_s: f64,
    code_words_per_s: Option<f64>,
    cassini_1: Option<(f64, f64, f64)>,
) -> Mode {
    Mode { name, gigabits_per_s, bits_per_s, code_words_per_s, cassini_1 }
}

impl LinkSpeed {
    /// The mode that the driver shows as `text`: `BS_200G` of Cassini 1, `bs200G` of Cassini 2.
    /// `None` for a mode without known rates.
    pub fn of(text: &str) -> Option<Self> {
        let name = text.trim().replace('_', "").to_lowercase();
        let mode = MODES.into_iter().find(|mode| mode.name == name)?;
        let limits = mode.cassini_1.filter(|_| text.contains('_'));
        let corrected =
            |(_, max_per_s, lanes)| Corrected { max_per_s, max_of_lane_per_s: max_per_s / lanes };
        Some(Self {
            gigabits_per_s: mode.gigabits_per_s,
            bits_per_s: mode.bits_per_s,
            code_words_per_s: mode.code_words_per_s,
            max_uncorrected_per_s: limits
                .map_or(MAX_UNCORRECTED * mode.bits_per_s, |(uncorrected, ..)| uncorrected),
            cassini_1: limits.map(corrected),
        })
    }

    /// Whether `text` is a word of Cassini 1 in place of a mode: by its name, the link has none [I:
    /// health.md 2.1].
    pub fn is_none(text: &str) -> bool {
        matches!(text, "NA" | "invalid")
    }
}

/// Bit error rate of corrected errors above which a link is marginal: healthy links have 1e-12 to
/// 1e-9, a documented bad one 2.5e-6.
const MARGINAL: f64 = 1e-6;

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

    /// The limits that exist, with the names of their files.
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
    /// The limits of corrected code words of a link in this mode.
    pub fn corrected(driver: DriverLimits, speed: Option<LinkSpeed>) -> Self {
        let [warning, down, ..] = driver.0;
        let failed = speed.and_then(|speed| speed.cassini_1);
        Self {
            suspect: warning.unwrap_or(MARGINAL * bit_rate(speed)),
            is_of_driver: warning.is_some(),
            bad: down.or(failed.map(|limits| limits.max_per_s)),
        }
    }

    /// The limits of uncorrected code words of a link in this mode. A healthy link has none of
    /// them.
    pub fn uncorrected(driver: DriverLimits, speed: Option<LinkSpeed>) -> Self {
        let [.., warning, down] = driver.0;
        Self {
            suspect: warning.unwrap_or(0.0),
            is_of_driver: warning.is_some(),
            bad: down.or(speed.map(|speed| speed.max_uncorrected_per_s)),
        }
    }
}

/// The bit rate of a mode, in bits per second.
pub fn bit_rate(speed: Option<LinkSpeed>) -> f64 {
    speed.map_or(ASSUMED_BIT_RATE, |speed| speed.bits_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_names_of_both_generations() {
        for (text, gigabits, bits) in [
            ("BS_200G", 200.0, 212.5e9),
            ("bs200G\n", 200.0, 212.5e9),
            ("ck400G", 400.0, 425e9),
            ("ck100G", 100.0, 106.25e9),
            ("CD_50G", 50.0, 53.125e9),
        ] {
            let speed = LinkSpeed::of(text).unwrap();
            assert_eq!((speed.gigabits_per_s, speed.bits_per_s), (gigabits, bits));
        }
        for text in ["NA", "no-link", "", "invalid"] {
            assert_eq!(LinkSpeed::of(text), None);
        }
    }

    #[test]
    fn only_cassini_1_fails_by_corrected_errors() {
        let value_for = |text| {
            let speed = LinkSpeed::of(text).unwrap();
            let corrected = speed.cassini_1;
            let lane_value = corrected.map(|limits| limits.max_of_lane_per_s);
            (speed.max_uncorrected_per_s, lane_value)
        };
        assert_eq!(value_for("BS_200G"), (21.0, Some(2_656_250.0)));
        assert_eq!(value_for("CD_100G"), (11.0, Some(2_656_250.0)));
        assert_eq!(value_for("CD_50G"), (5.0, Some(2_656_250.0)));
        assert_eq!(value_for("ck400G"), (42.5, None));
        assert_eq!(value_for("bs200G"), (21.25, None));
    }

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
