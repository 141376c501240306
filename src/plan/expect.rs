//! Expectations: bounds on the metrics of each size, as typed after `--expect`.
//!
//! ```text
//! p99<4us,mean<2.2us            of a latency tool
//! bw>=23GB/s,bw<=25.5GB/s       of a bandwidth tool
//! ```

use std::fmt;
use std::str::FromStr;

use crate::measure::Percentile;
use crate::tool::Tool;

/// A metric of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Smallest latency.
    Min,
    /// Largest latency.
    Max,
    /// Mean latency.
    Mean,
    /// Standard deviation of the latency.
    Deviation,
    /// Latency at a percentile.
    Percentile(Percentile),
    /// Bandwidth.
    Bandwidth,
    /// Packet rate.
    PacketRate,
}

/// The base unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes per second.
    Bytes,
    /// Packets per second.
    Packets,
}

/// Units as typed, with their power of ten in the base unit.
const LATENCIES: &[(&str, u32)] = &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
const BANDWIDTHS: &[(&str, u32)] = &[("B/s", 0), ("kB/s", 3), ("MB/s", 6), ("GB/s", 9)];
const PACKET_RATES: &[(&str, u32)] = &[("pkt/s", 0), ("kpkt/s", 3), ("Mpkt/s", 6)];

impl Unit {
    /// Name of the base unit.
    pub fn name(self) -> &'static str {
        self.scales()[0].0
    }

    fn scales(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::Nanoseconds => LATENCIES,
            Self::Bytes => BANDWIDTHS,
            Self::Packets => PACKET_RATES,
        }
    }

    /// Returns the unit in which values are printed, and its number of base units.
    pub fn readable(self) -> (&'static str, f64) {
        match self {
            Self::Nanoseconds => ("us", 1e3),
            Self::Bytes => ("MB/s", 1e6),
            Self::Packets => ("Mpkt/s", 1e6),
        }
    }
}

impl Metric {
    /// Returns the base unit.
    pub fn unit(self) -> Unit {
        match self {
            Self::Bandwidth => Unit::Bytes,
            Self::PacketRate => Unit::Packets,
            _ => Unit::Nanoseconds,
        }
    }

    /// Returns whether `tool` measures the metric.
    pub fn belongs_to(self, tool: &Tool) -> bool {
        let of_latency = self.unit() == Unit::Nanoseconds;
        of_latency != tool.defaults.lists.is_some()
    }

    /// Returns the names of the metrics of `tool`, for messages.
    pub fn names(tool: &Tool) -> &'static str {
        match tool.defaults.lists {
            Some(_) => "bw and rate",
            None => "min, max, mean, stddev and percentiles such as p99.9",
        }
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "min" => Self::Min,
            "max" => Self::Max,
            "mean" => Self::Mean,
            "stddev" => Self::Deviation,
            "bw" => Self::Bandwidth,
            "rate" => Self::PacketRate,
            _ => match name.strip_prefix('p') {
                Some(percent) => Self::Percentile(percent.parse()?),
                None => return Err(format!("unknown metric '{name}'")),
            },
        })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Mean => f.write_str("mean"),
            Self::Deviation => f.write_str("stddev"),
            Self::Percentile(percentile) => percentile.fmt(f),
            Self::Bandwidth => f.write_str("bw"),
            Self::PacketRate => f.write_str("rate"),
        }
    }
}

/// The sign of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// Longer signs first: `<=` begins with `<`.
const RELATIONS: [(&str, Relation); 4] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("<", Relation::Below),
    (">", Relation::Above),
];

/// One bound on one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// As typed.
    pub text: String,
    /// The metric.
    pub metric: Metric,
    /// The bound, in the base unit of the metric.
    pub limit: f64,
    relation: Relation,
}

impl Expectation {
    /// Returns whether a value, in the base unit of the metric, is within the bound.
    pub fn is_met_by(&self, figure: f64) -> bool {
        match self.relation {
            Relation::Below => figure < self.limit,
            Relation::AtMost => figure <= self.limit,
            Relation::Above => figure > self.limit,
            Relation::AtLeast => figure >= self.limit,
        }
    }
}

/// Parses a list of expectations, separated by commas.
///
/// # Errors
///
/// The first entry that is not a bound, with an unknown metric, or with a wrong unit.
pub fn parse(text: &str) -> Result<Vec<Expectation>, String> {
    text.split(',').map(str::trim).map(expectation).collect()
}

fn expectation(text: &str) -> Result<Expectation, String> {
    let shape =
        || format!("'{text}' is not a bound (expected, for example, p99<4us or bw>=23GB/s)");
    let (at, sign, relation) = RELATIONS
        .iter()
        .find_map(|(sign, relation)| text.find(sign).map(|at| (at, sign, *relation)))
        .ok_or_else(shape)?;
    let metric: Metric = text[..at].trim_end().parse()?;
    let quantity = text[at + sign.len()..].trim_start();
    let digits = quantity.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = quantity[digits.len()..].trim_start();
    let scales = metric.unit().scales();
    let Some((_, power)) = scales.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<&str> = scales.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "'{text}' needs a number and a unit of {metric}: {}",
            names.join(", ")
        ));
    };
    let (whole, parts) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(parts) {
        return Err(shape());
    }
    // Digits and power of ten are parsed together: 2.2us is 2200 ns, not 2200.0000000000005.
    let limit: f64 = format!("{digits}e{power}").parse().map_err(|_| shape())?;
    if !limit.is_finite() {
        return Err(shape());
    }
    Ok(Expectation {
        text: text.to_owned(),
        metric,
        limit,
        relation,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Expectation {
        let [expectation] = parse(text).unwrap().try_into().unwrap();
        expectation
    }

    #[test]
    fn parses_lists_and_units() {
        let list = parse("p99<4us,mean<2.2us").unwrap();
        let facts: Vec<_> = list
            .iter()
            .map(|one| (one.metric.to_string(), one.limit))
            .collect();
        assert_eq!(
            facts,
            [("p99".to_owned(), 4000.0), ("mean".to_owned(), 2200.0)]
        );
        assert_eq!(one("max<=1s").limit, 1e9);
        assert_eq!(one("min>700ns").limit, 700.0);
        assert_eq!(one("stddev<0.05ms").limit, 50_000.0);
        assert_eq!(one("bw<=25.5GB/s").limit, 25.5e9);
        assert_eq!(one("rate>=11.5Mpkt/s").limit, 11.5e6);
    }

    #[test]
    fn checks_both_sides_of_each_bound() {
        for (text, met) in [
            ("max<2us", [true, false, false]),
            ("max<=2us", [true, true, false]),
            ("max>2us", [false, false, true]),
            ("max>=2us", [false, true, true]),
        ] {
            let verdicts = [1999.0, 2000.0, 2001.0].map(|ns| one(text).is_met_by(ns));
            assert_eq!(verdicts, met, "{text}");
        }
        assert!(!one("max>=2us").is_met_by(f64::NAN));
    }

    #[test]
    fn t24_refuses_malformed_expectations() {
        for (text, why) in [
            ("", "is not a bound"),
            ("p99", "is not a bound"),
            ("p99=4us", "is not a bound"),
            ("p99<4us,", "is not a bound"),
            ("p99<4", "ns, us, ms, s"),
            ("p99<us", "is not a bound"),
            ("p99<4GB/s", "ns, us, ms, s"),
            ("bw<4us", "B/s, kB/s, MB/s, GB/s"),
            ("bw<4gb/s", "B/s, kB/s, MB/s, GB/s"),
            ("p99<-4us", "is not a bound"),
            ("p99<4e3us", "is not a bound"),
            ("p99<.5us", "is not a bound"),
            ("p99<5.us", "needs a number"),
            ("p99<1.2.3us", "is not a bound"),
            ("p99<<4us", "is not a bound"),
            ("p101<4us", "percentile"),
            ("p<4us", "percentile"),
            ("avg<4us", "unknown metric 'avg'"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
        let endless = format!("max<{}s", "9".repeat(400));
        assert!(parse(&endless).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[pbmw0-9.<>=,usGB/ e-]{0,24}") {
            if let Ok(list) = parse(&text) {
                prop_assert!(list.iter().all(|one| one.limit.is_finite() && one.limit >= 0.0));
            }
        }
    }
}
