//! Values with units, and the places of ticks on an axis.

use survey::result::words::grouped;

/// What an axis or a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Size of an operation, in bytes.
    Size,
    /// A latency, in nanoseconds.
    Latency,
    /// A bandwidth, in bytes per second.
    Bandwidth,
    /// A rate of packets or operations per second.
    Rate,
    /// A time of a run, in seconds.
    Seconds,
    /// A number of samples or pairs.
    Count,
    /// A part of a whole, in percent.
    Percent,
}

/// Units of 1,000, with the factor of each.
const LATENCIES: &[(f64, &str)] = &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")];
const BANDWIDTHS: &[(f64, &str)] =
    &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")];
const RATES: &[(f64, &str)] = &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")];
const SIZES: &[(u64, &str)] = &[(1, "B"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB")];

/// Most labels of an axis.
const MOST_TICKS: usize = 9;

impl Quantity {
    /// The quantity of a metric by its base unit in documents.
    pub fn from_unit(unit: &str) -> Self {
        match unit {
            "ns" => Self::Latency,
            "B/s" => Self::Bandwidth,
            _ => Self::Rate,
        }
    }

    /// A value with its unit, with three significant digits.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Size => size(value as u64),
            Self::Latency => scaled(value, LATENCIES),
            Self::Bandwidth => scaled(value, BANDWIDTHS),
            Self::Rate => scaled(value, RATES),
            Self::Seconds => format!("{} s", trimmed(value, 3)),
            Self::Count => grouped(value as u64),
            Self::Percent => format!("{} %", trimmed(value, 6)),
        }
    }

    /// A value with its unit, without zeros at the end of its fraction.
    fn tick_text(self, value: f64) -> String {
        let units = match self {
            Self::Latency => LATENCIES,
            Self::Bandwidth => BANDWIDTHS,
            Self::Rate => RATES,
            Self::Size | Self::Seconds | Self::Count | Self::Percent => return self.text(value),
        };
        let (factor, unit) = unit_of(value, units);
        format!("{} {unit}", trimmed(value / factor, 3))
    }
}

/// The largest unit that leaves at least 1 of a value.
fn unit_of(value: f64, units: &'static [(f64, &'static str)]) -> (f64, &'static str) {
    let fitting = units.iter().rev().find(|(factor, _)| value >= *factor * 0.9995);
    *fitting.unwrap_or(&units[0])
}

fn scaled(value: f64, units: &'static [(f64, &'static str)]) -> String {
    let (factor, unit) = unit_of(value, units);
    let scaled = value / factor;
    let decimals = match scaled {
        _ if factor == 1.0 && scaled.fract() == 0.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$} {unit}")
}

/// A number with at most this number of decimals, without zeros at its end.
fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// A size in the largest unit that leaves a whole number.
fn size(bytes: u64) -> String {
    let fitting = SIZES.iter().rev().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    let (factor, unit) = fitting.unwrap_or(&SIZES[0]);
    format!("{} {unit}", bytes / factor)
}

/// The ticks of a logarithmic axis: powers of ten, with 2 and 5 between them or round numbers where
/// those are too few; for sizes, powers of two.
pub fn log_ticks(low: f64, high: f64, quantity: Quantity) -> Vec<(f64, String)> {
    let values = if quantity == Quantity::Size {
        let powers = (0..=40).map(|power| f64::from(power).exp2());
        powers.filter(|value| (low..=high).contains(value)).collect()
    } else {
        let decade_values = |steps: &'static [f64]| {
            let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let values =
                decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
            let inside: Vec<f64> = values.filter(|value| (low..=high).contains(value)).collect();
            inside
        };
        let fine = decade_values(&[1.0, 2.0, 5.0]);
        match fine.len() {
            ..3 => linear_values(low, high),
            3..=MOST_TICKS => fine,
            _ => decade_values(&[1.0]),
        }
    };
    let is_possible = |value: &f64| {
        quantity != Quantity::Count || (*value >= 1.0 && (value - value.round()).abs() < 1e-6)
    };
    labelled(values.into_iter().filter(is_possible).collect(), quantity)
}

/// The ticks of a linear axis, at round numbers.
pub fn linear_ticks(low: f64, high: f64, quantity: Quantity) -> Vec<(f64, String)> {
    labelled(linear_values(low, high), quantity)
}

fn linear_values(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low).max(f64::MIN_POSITIVE) / 5.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|at| at as f64 * step).collect()
}

/// Labels values, every second or third of them if they are many.
fn labelled(values: Vec<f64>, quantity: Quantity) -> Vec<(f64, String)> {
    let every = values.len().div_ceil(MOST_TICKS).max(1);
    let kept = values.into_iter().step_by(every);
    kept.map(|value| (value, quantity.tick_text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_three_digits_and_a_unit() {
        for (quantity, value, text) in [
            (Quantity::Latency, 950.0, "950 ns"),
            (Quantity::Latency, 1_904.0, "1.90 us"),
            (Quantity::Latency, 99_960.0, "100 us"),
            (Quantity::Latency, 12_345_678.0, "12.3 ms"),
            (Quantity::Bandwidth, 23.46e9, "23.5 GB/s"),
            (Quantity::Size, 4_096.0, "4 KiB"),
            (Quantity::Size, 1_500.0, "1500 B"),
            (Quantity::Count, 1_204_000.0, "1,204,000"),
            (Quantity::Seconds, 0.5, "0.5 s"),
            (Quantity::Percent, 0.0002, "0.0002 %"),
        ] {
            assert_eq!(quantity.text(value), text);
        }
    }

    #[test]
    fn places_ticks_at_round_values() {
        let texts = |ticks: Vec<(f64, String)>| -> Vec<String> {
            ticks.into_iter().map(|(_, text)| text).collect()
        };
        let latency = |low, high| texts(log_ticks(low, high, Quantity::Latency));
        assert_eq!(latency(1_500.0, 12e3), ["2 us", "5 us", "10 us"]);
        assert_eq!(latency(10.0, 2e6).len(), 6);
        assert_eq!(latency(2_010.0, 2_090.0), ["2.02 us", "2.04 us", "2.06 us", "2.08 us"]);
        assert_eq!(texts(log_ticks(0.58, 2.1, Quantity::Count)), ["1", "2"]);
        let sizes = texts(log_ticks(1.0, 4_194_304.0, Quantity::Size));
        assert_eq!(sizes[..2], ["1 B", "8 B"]);
        let seconds = texts(linear_ticks(0.0, 10.0, Quantity::Seconds));
        assert_eq!(seconds, ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]);
    }
}
