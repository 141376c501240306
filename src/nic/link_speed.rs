//! The modes of a link, with the rates and limits of its code words (health.md 1.7, 2.1).

/// The mode of a link at one speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// The name of the mode in `port/speed` or `port/0/link/speed`, in lower case.
    pub name: &'static str,
    /// Speed for data, in Gb/s.
    pub gigabits_per_s: f64,
    /// Bit rate on the cable with FEC, in bits per second, by which bit error rates are computed.
    pub bits_per_s: f64,
    /// Uncorrected code words per second above which the driver takes the link for failed.
    pub max_uncorrected_per_s: Option<f64>,
    /// Corrected code words per second above which the driver takes the link for failed.
    pub max_corrected_per_s: Option<f64>,
    /// Code words per second of a healthy link, busy or idle.
    pub code_words_per_s: Option<f64>,
}

/// Limits of health.md 1.7: uncorrected code words of Cassini 1 at 21, 11 and 5 a second (those of
/// the driver), of Cassini 2 at 42.5; corrected ones at a bit error rate of 1e-4.
const SPEEDS: [LinkSpeed; 6] = [
    LinkSpeed {
        name: "ck400g",
        gigabits_per_s: 400.0,
        bits_per_s: 425e9,
        max_uncorrected_per_s: Some(42.5),
        max_corrected_per_s: None,
        code_words_per_s: None,
    },
    LinkSpeed {
        name: "ck200g",
        gigabits_per_s: 200.0,
        bits_per_s: 212.5e9,
        max_uncorrected_per_s: None,
        max_corrected_per_s: None,
        code_words_per_s: None,
    },
    LinkSpeed {
        name: "bs200g",
        gigabits_per_s: 200.0,
        bits_per_s: 212.5e9,
        max_uncorrected_per_s: Some(21.0),
        max_corrected_per_s: Some(21_250_000.0),
        code_words_per_s: Some(39_062_500.0),
    },
    LinkSpeed {
        name: "bj100g",
        gigabits_per_s: 100.0,
        bits_per_s: 103.125e9,
        max_uncorrected_per_s: Some(11.0),
        max_corrected_per_s: Some(10_312_500.0),
        code_words_per_s: Some(19_531_250.0),
    },
    LinkSpeed {
        name: "cd100g",
        gigabits_per_s: 100.0,
        bits_per_s: 106.25e9,
        max_uncorrected_per_s: Some(11.0),
        max_corrected_per_s: Some(10_625_000.0),
        code_words_per_s: None,
    },
    LinkSpeed {
        name: "cd50g",
        gigabits_per_s: 50.0,
        bits_per_s: 53.125e9,
        max_uncorrected_per_s: Some(5.0),
        max_corrected_per_s: Some(5_312_500.0),
        code_words_per_s: None,
    },
];

impl LinkSpeed {
    /// Returns the mode that the driver shows as `text`: `BS_200G` of Cassini 1, `bs200G` of
    /// Cassini 2. `None` for a mode without known rates.
    pub fn of(text: &str) -> Option<Self> {
        let name = text.trim().replace('_', "").to_lowercase();
        SPEEDS.into_iter().find(|speed| speed.name == name)
    }

    /// Returns the bit error rate of this many code words per second, as cxi_stat computes it.
    pub fn bit_error_rate(&self, code_words_per_s: f64) -> f64 {
        code_words_per_s / self.bits_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_names_of_both_generations() {
        for (text, bits) in [
            ("BS_200G", 212.5e9),
            ("bs200G\n", 212.5e9),
            ("ck400G", 425e9),
            ("CD_50G", 53.125e9),
        ] {
            assert_eq!(LinkSpeed::of(text).unwrap().bits_per_s, bits, "{text}");
        }
        for text in ["NA", "no-link", "", "invalid"] {
            assert_eq!(LinkSpeed::of(text), None);
        }
    }

    /// The numbers of HPE's sample output (health.md 1.8): code words in 4 s.
    #[test]
    fn computes_bit_error_rates() {
        let speed = LinkSpeed::of("BS_200G").unwrap();
        for (code_words, expected) in [(1.0, 1.176e-12), (8.0, 9.412e-12), (32.0, 3.765e-11)] {
            let rate = speed.bit_error_rate(code_words / 4.0);
            assert_eq!(format!("{rate:.3e}"), format!("{expected:.3e}"));
        }
    }
}
