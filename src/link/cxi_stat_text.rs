//! The text of HPE's cxi_stat (node-tools.md 2.3). Scripts search it: each character counts.

use std::io::{self, Write};

use health::link_rates::{LinkRates, PRIORITIES, STANDARD_PAUSE, code_words, pause};
use node::nic::counter::CounterChange;

/// The text of a value that cannot be read. HPE's program prints memory contents there.
pub const NOT_AVAILABLE: &str = "Not Available";

/// The files of PCIe errors in the order of the text, by the end of their names.
pub const AER: [&str; 3] = ["correctable", "fatal", "nonfatal"];

/// Writes the errors of PCIe, each file of the kernel as it is; `None` for a file that cannot be
/// read.
pub fn aer(out: &mut impl Write, files: &[Option<String>; AER.len()]) -> io::Result<()> {
    for (name, text) in AER.iter().zip(files) {
        writeln!(out, "    AER {}:", name.to_uppercase())?;
        for line in text.as_deref().unwrap_or("No data").lines() {
            writeln!(out, "        {line}")?;
        }
    }
    Ok(())
}

/// The lines for standard error.
#[derive(Debug)]
pub struct ErrorLines {
    /// Values that cannot be read.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

/// Writes the rates of a link whose pause mode is `mode`, counted for `seconds`.
///
/// cxi_stat computes with numbers of 32 bits, and its rates have that precision here, too.
pub fn rates(
    out: &mut impl Write,
    rates: &LinkRates,
    mode: &str,
    seconds: f64,
) -> io::Result<ErrorLines> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let mut per_second = |counter: &str| {
        let rate = rates.per_second(counter);
        if rate.is_none() {
            let what = match rates.change(counter) {
                Some(CounterChange::Reset) => "it was reset",
                Some(CounterChange::Counted { .. }) => "its time stamp stands still",
                None => "cannot be read",
            };
            errors.push(format!("Failed to read counter {counter}: {what}"));
        }
        rate
    };
    writeln!(out, "    Rates:")?;
    let mut kinds = Vec::new();
    for (label, kind) in
        [("Good", "good"), ("Corrected", "corrected"), ("Uncorrected", "uncorrected")]
    {
        let rate = per_second(&code_words(kind));
        writeln!(out, "        {label} CW: {}", text(rate, |rate| format!("{rate:.2}/s")))?;
        kinds.push((label, rate));
    }
    let smallest = exponential(rates.bit_error_rate(1.0 / seconds));
    for (label, rate) in &kinds[1..] {
        let ber = rate.map(|rate| rates.bit_error_rate(rate));
        let shown = ber.map_or(NOT_AVAILABLE.to_owned(), |ber| match ber {
            0.0 => format!("<{smallest}"),
            ber => exponential(ber),
        });
        writeln!(out, "        {label} BER: {shown}")?;
        if let (Some(mode), Some(rate)) = (rates.unknown_mode(), rate.filter(|rate| *rate > 0.0)) {
            warnings.push(format!(
                "Warning: encountered unexpected Link Mode {mode} for non-zero error rate {}",
                exponential(rate)
            ));
        }
    }
    pauses(out, mode, |counter| per_second(counter).and_then(|_| rates.share(counter)))?;
    Ok(ErrorLines { errors, warnings })
}

/// Writes the shares of time of the pauses in this mode; `share` returns the one that a counter
/// shows.
fn pauses(
    out: &mut impl Write,
    mode: &str,
    mut share: impl FnMut(&str) -> Option<f64>,
) -> io::Result<()> {
    for direction in ["TX", "RX"] {
        writeln!(out, "        {direction} Pause state: {mode}")?;
    }
    let mut percent =
        |counter: &str| text(share(counter), |share| format!("{:3.1}%", 100.0 * share));
    if mode.starts_with("pfc") {
        for priority in 0..PRIORITIES {
            for (label, direction) in [("RX", "rx"), ("TX", "tx")] {
                let share = percent(&pause(direction, priority));
                writeln!(out, "            {label} Pause PCP {priority}: {share}")?;
            }
        }
    } else if mode.starts_with("global") {
        writeln!(out, "            RX Pause: {}", percent(STANDARD_PAUSE))?;
        // No counter has the time in which the other side has paused this one.
        writeln!(out, "            TX Pause: {NOT_AVAILABLE}")?;
    }
    Ok(())
}

fn text(value: Option<f64>, form: impl Fn(f32) -> String) -> String {
    value.map_or(NOT_AVAILABLE.to_owned(), |value| form(value as f32))
}

/// Returns a number as `%.3e` of C prints it: its exponent has a sign and two digits at least.
fn exponential(number: f64) -> String {
    let text = format!("{:.3e}", number as f32);
    match text.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use node::nic::counter::CounterReading;
    use node::nic::counters::{CounterReadings, NicFacts};
    use node::nic::generation::Generation;

    /// The numbers of HPE's sample output (health.md 1.8), and pauses by the clock of each
    /// generation: cxi_stat shows 10 % too much on Cassini 2. Meanwhile the clock is set back by
    /// 2 s.
    #[test]
    fn rates_are_those_of_the_sample_output() {
        let readings = |at: u64, stamp: u64, has_counted: bool| -> CounterReadings {
            let reading = |(name, by): (&str, u64)| {
                let value = 100 + if has_counted { by } else { 0 };
                let [at, stamp] = [at, stamp].map(Duration::from_secs);
                (name.to_owned(), CounterReading { value, at, stamp: Some(stamp) })
            };
            let counts = [
                ("hni_pcs_good_cw", 156_250_001),
                ("hni_pcs_corrected_cw", 8),
                ("hni_pcs_uncorrected_cw", 0),
                ("hni_rx_paused_3", 40_000_000),
                ("hni_tx_paused_0", 4_000_000_000),
            ];
            counts.map(reading).into_iter().collect()
        };
        let (before, after) =
            (readings(50, 1_700_000_000, false), readings(54, 1_700_000_002, true));
        for (generation, mode, lines) in [
            (
                Generation::Cassini1,
                "BS_200G",
                ["Corrected BER: 9.412e-12", "RX Pause PCP 3: 1.0%", "TX Pause PCP 0: 100.0%"],
            ),
            (
                Generation::Cassini2,
                "ck400G",
                ["Corrected BER: 4.706e-12", "RX Pause PCP 3: 0.9%", "TX Pause PCP 0: 90.9%"],
            ),
        ] {
            let nic = NicFacts {
                generation: Some(generation),
                link_speed: Some(mode.into()),
                ..NicFacts::default()
            };
            let mut out = Vec::new();
            let link = LinkRates::between(nic, &before, &after);
            rates(&mut out, &link, "pfc/802.1qbb", 4.0).unwrap();
            let text = String::from_utf8(out).unwrap();
            // The number of code words has the precision of 32 bits.
            for line in ["Good CW: 39062500.00/s", "Corrected CW: 2.00/s"].iter().chain(&lines) {
                assert!(text.contains(&format!(" {line}\n")), "{line}: {text}");
            }
        }
    }

    #[test]
    fn prints_exponents_as_c_does() {
        for (number, expected) in [
            (2.5e-6, "2.500e-06"),
            (1.176_470_6e-12, "1.176e-12"),
            (0.25, "2.500e-01"),
            (1.0, "1.000e+00"),
            (2e11, "2.000e+11"),
        ] {
            assert_eq!(exponential(number), expected);
        }
    }

    #[test]
    fn aer_has_every_line_of_the_file_and_no_more() {
        let files =
            [Some("RxErr 0\nTOTAL_ERR_COR 0\n".to_owned()), Some("Undefined 0".into()), None];
        let mut text = Vec::new();
        aer(&mut text, &files).unwrap();
        let expected = "    AER CORRECTABLE:\n        RxErr 0\n        TOTAL_ERR_COR 0\n    \
                        AER FATAL:\n        Undefined 0\n    AER NONFATAL:\n        No data\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
