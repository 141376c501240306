//! Expectations: bounds on the metrics of each size, as typed after `--expect`.
//!
//! ```text
//! p99<4us,mean<2.2us            of a latency tool
//! 8:p50<2us,64K:p99<9us         of single sizes
//! bw>=23GB/s,bw<=200Gb/s        of a bandwidth tool
//! ```
//!
//! A profile has expectations as data: published figures of a kind of NIC, as files. The packages
//! install them, and the program contains them. A site adds files of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::{env, fmt, fs};

use crate::error::cause;
use crate::number::{bytes, is_size};
use crate::percentile::Percentile;
use crate::user_file;

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
    Bandwidth,
    PacketRate,
}

/// The base unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    Nanoseconds,
    /// Bytes per second.
    Bytes,
    /// Packets per second.
    Packets,
}

/// A unit as typed: its name, its power of ten in the base unit, and a factor beside it.
type Scale = (&'static str, u32, f64);

const LATENCIES: &[Scale] = &[("ns", 0, 1.0), ("us", 3, 1.0), ("ms", 6, 1.0), ("s", 9, 1.0)];

const BANDWIDTHS: &[Scale] = &[
    ("B/s", 0, 1.0),
    ("kB/s", 3, 1.0),
    ("MB/s", 6, 1.0),
    ("GB/s", 9, 1.0),
    ("KiB/s", 0, 1024.0),
    ("MiB/s", 0, 1_048_576.0),
    ("GiB/s", 0, 1_073_741_824.0),
    ("Mb/s", 6, 0.125),
    ("Gb/s", 9, 0.125),
];

/// A packet of an atomic operation is an operation.
const PACKET_RATES: &[Scale] = &[
    ("pkt/s", 0, 1.0),
    ("kpkt/s", 3, 1.0),
    ("Mpkt/s", 6, 1.0),
    ("op/s", 0, 1.0),
    ("kop/s", 3, 1.0),
    ("Mop/s", 6, 1.0),
    ("/s", 0, 1.0),
    ("k/s", 3, 1.0),
    ("M/s", 6, 1.0),
];

impl MetricUnit {
    /// Name of the base unit.
    pub fn name(self) -> &'static str {
        self.scales()[0].0
    }

    fn scales(self) -> &'static [Scale] {
        match self {
            Self::Nanoseconds => LATENCIES,
            Self::Bytes => BANDWIDTHS,
            Self::Packets => PACKET_RATES,
        }
    }

    /// The unit in which values are printed, and its number of base units.
    pub fn readable(self) -> (&'static str, f64) {
        match self {
            Self::Nanoseconds => ("us", 1e3),
            Self::Bytes => ("MB/s", 1e6),
            Self::Packets => ("Mpkt/s", 1e6),
        }
    }
}

impl Metric {
    /// The base unit.
    pub fn unit(self) -> MetricUnit {
        match self {
            Self::Bandwidth => MetricUnit::Bytes,
            Self::PacketRate => MetricUnit::Packets,
            _ => MetricUnit::Nanoseconds,
        }
    }

    /// The metric with this name, for an option of the bandwidth tools or of the latency tools.
    ///
    /// # Errors
    ///
    /// An unknown name; the message lists the metrics of these tools.
    pub fn named(name: &str, is_bandwidth: bool) -> Result<Self, String> {
        name.parse()
            .map_err(|why: String| format!("{why}: the metrics are {}", Self::names(is_bandwidth)))
    }

    /// Whether the bandwidth tools measure the metric, and not the latency tools.
    pub fn is_of_bandwidth(self) -> bool {
        self.unit() != MetricUnit::Nanoseconds
    }

    /// The names of the metrics of the bandwidth tools or of the latency tools, for messages.
    pub fn names(is_bandwidth: bool) -> &'static str {
        if is_bandwidth {
            "bw and rate"
        } else {
            "min, max, mean, stddev and percentiles such as p99.9"
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
                Some(percent) if percent.starts_with(|c: char| c.is_ascii_digit()) => {
                    Self::Percentile(percent.parse()?)
                }
                _ => return Err(format!("unknown metric '{name}'")),
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
    /// The tool or program to which it applies, as far as its size was measured; `None` for all.
    pub tool: Option<String>,
    /// The size in bytes to which it applies; `None` for all sizes.
    pub size: Option<u64>,
    pub metric: Metric,
    /// The bound, in the base unit of the metric.
    pub limit: f64,
    relation: Relation,
}

impl Expectation {
    /// Whether the bound applies to `size`.
    pub fn applies_to(&self, size: u64) -> bool {
        self.size.is_none_or(|own| own == size)
    }

    /// Whether a value, in the base unit of the metric, is within the bound.
    pub fn is_met_by(&self, figure: f64) -> bool {
        match self.relation {
            Relation::Below => figure < self.limit,
            Relation::AtMost => figure <= self.limit,
            Relation::Above => figure > self.limit,
            Relation::AtLeast => figure >= self.limit,
        }
    }
}

/// Parses a list of expectations, separated by commas, of a bandwidth tool or of a latency tool.
///
/// # Errors
///
/// The first entry that is not a bound, with an unknown metric, or with a wrong unit.
pub fn parse(text: &str, is_bandwidth: bool) -> Result<Vec<Expectation>, String> {
    text.split(',').map(|text: &str| expectation(text.trim(), is_bandwidth)).collect()
}

/// Parses the text of a file of expectations: a list on each line, which may begin with the name of
/// the tool or program that it is for. A comment begins with `#`. Without `is_bandwidth`, the
/// metrics of a line say whether it is for bandwidth tools.
///
/// # Errors
///
/// The first line with an error, by its number, or a text without expectations.
pub fn parse_lines(text: &str, is_bandwidth: Option<bool>) -> Result<Vec<Expectation>, String> {
    let mut expectations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        // No metric and no size has such a name.
        let is_tool = |name: &str| name.contains(['-', '_']) && !name.contains(['<', '>', ':']);
        let (own, bounds) = match line.split_once(char::is_whitespace) {
            Some((name, bounds)) if is_tool(name) => (Some(name), bounds),
            _ => (None, line),
        };
        let by_metric = bounds.contains("bw") || bounds.contains("rate");
        let parsed = parse(bounds, is_bandwidth.unwrap_or(by_metric));
        let parsed = parsed.map_err(|why| format!("line {}: {why}", index + 1))?;
        let with_tool = |bound| Expectation { tool: own.map(str::to_owned), ..bound };
        expectations.extend(parsed.into_iter().map(with_tool));
    }
    if expectations.is_empty() {
        return Err("the file has no bounds (expected one on a line, such as p99<4us)".into());
    }
    Ok(expectations)
}

fn expectation(text: &str, is_bandwidth: bool) -> Result<Expectation, String> {
    let shape = || {
        let example =
            if is_bandwidth { "bw>=23GB/s or 64K:bw>=20GB/s" } else { "p99<4us or 8:p50<2us" };
        format!("'{text}' is not a bound (expected, for example, {example})")
    };
    let (size, bound) = match text.split_once(':') {
        Some((size, bound)) => (Some(bound_size(size.trim()).ok_or_else(shape)?), bound),
        None => (None, text),
    };
    let (at, sign, relation) = RELATIONS
        .iter()
        .find_map(|(sign, relation)| bound.find(sign).map(|at| (at, sign, *relation)))
        .ok_or_else(shape)?;
    let name = bound[..at].trim();
    let metric = Metric::named(name, is_bandwidth)?;
    let quantity = bound[at + sign.len()..].trim();
    let digits = quantity.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = quantity[digits.len()..].trim_start();
    let scales = metric.unit().scales();
    let Some((_, power, factor)) = scales.iter().find(|(name, ..)| *name == unit) else {
        let names: Vec<&str> = scales.iter().map(|(name, ..)| *name).collect();
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
    let limit = limit * factor;
    if !limit.is_finite() {
        return Err(shape());
    }
    Ok(Expectation { text: text.to_owned(), tool: None, size, metric, limit, relation })
}

/// The size in front of a bound.
fn bound_size(text: &str) -> Option<u64> {
    bytes(text).filter(|size| is_size(*size))
}

/// Where a site puts its own files.
const OF_SITE: &str = "/etc/cxidiag/expect";

macro_rules! profile {
    ($name:literal) => {
        ($name, include_str!(concat!("../../packaging/expect/", $name)))
    };
}

/// Two NICs of one switch on Slingshot 200.
pub const SAME_SWITCH: (&str, &str) = profile!("slingshot200-same-switch");

/// Two NICs of different groups on Slingshot 200.
pub const ACROSS_GROUPS: (&str, &str) = profile!("slingshot200-across-groups");

/// The profiles of this release, with their texts.
const PROFILES: [(&str, &str); 3] = [SAME_SWITCH, ACROSS_GROUPS, profile!("slingshot200-loopback")];

/// The text of the expectations that were typed as `@FILE` or by name. `None` if bounds were typed.
///
/// # Errors
///
/// The file cannot be read, or no profile has this name; the message lists those that exist.
pub fn profile_text(typed: &str) -> Result<Option<String>, String> {
    let read = |path: PathBuf| {
        let failure = |error| format!("cannot read {}: {}", path.display(), cause(&error));
        user_file::text(&path).map(Some).map_err(failure)
    };
    if let Some(path) = typed.strip_prefix('@') {
        let failure = |error| format!("cannot read the file: {}", cause(&error));
        return user_file::text(path.as_ref()).map(Some).map_err(failure);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !typed.contains('-') || !typed.chars().all(is_name) {
        return Ok(None);
    }
    if let Some(path) = directories().map(|place| place.join(typed)).find(|path| path.is_file()) {
        return read(path);
    }
    let own = PROFILES.iter().find(|(name, _)| *name == typed);
    match own {
        Some((_, text)) => Ok(Some((*text).to_owned())),
        None => {
            Err(format!("no expectations have this name; there are {}", profile_names().join(", ")))
        }
    }
}

pub fn profile_names() -> Vec<String> {
    let files = directories().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let own = PROFILES.iter().map(|(name, _)| (*name).to_owned());
    own.chain(names).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The directories of installed profiles: of the site, and beside this program.
fn directories() -> impl Iterator<Item = PathBuf> {
    let program = env::current_exe().ok();
    let installed =
        program.and_then(|path| Some(path.parent()?.parent()?.join("share/cxidiag/expect")));
    [Some(PathBuf::from(OF_SITE)), installed].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Expectation {
        let is_bandwidth = text.contains("/s");
        let [expectation] = parse(text, is_bandwidth).unwrap().try_into().unwrap();
        expectation
    }

    #[test]
    fn parses_lists_and_units() {
        let list = parse("p99<4us,mean<2.2us", false).unwrap();
        let facts: Vec<_> = list.iter().map(|one| (one.metric.to_string(), one.limit)).collect();
        assert_eq!(facts, [("p99".to_owned(), 4000.0), ("mean".to_owned(), 2200.0)]);
        assert_eq!(one("max<=1s").limit, 1e9);
        assert_eq!(one("min>700ns").limit, 700.0);
        assert_eq!(one("stddev<0.05ms").limit, 50_000.0);
        assert_eq!(one("bw<=25.5GB/s").limit, 25.5e9);
        assert_eq!(one("rate>=11.5Mpkt/s").limit, 11.5e6);
        assert_eq!(one("rate>=7.5Mop/s").limit, 7.5e6);
        assert_eq!(one("rate>=20M/s").limit, 20e6);
        assert_eq!(one("rate>=500k/s").limit, 500e3);
        assert_eq!(one("bw>=200Gb/s").limit, 25e9);
        assert_eq!(one("bw>=800Mb/s").limit, 1e8);
        assert_eq!(one("bw>1.5MiB/s").limit, 1_572_864.0);
        assert_eq!(one("bw>2GiB/s").limit, 2_147_483_648.0);
    }

    #[test]
    fn applies_to_one_size_or_to_all() {
        let list = parse("8:p50<2us, 64K : p99 < 9us,max<1s", false).unwrap();
        let sizes: Vec<_> = list.iter().map(|one| one.size).collect();
        assert_eq!(sizes, [Some(8), Some(65_536), None]);
        assert_eq!(list[0].text, "8:p50<2us");
        assert!(list[0].applies_to(8) && !list[0].applies_to(16) && list[2].applies_to(16));
    }

    #[test]
    fn reads_lines_with_comments() {
        let text = "# node type A\n\n8:p50<2us  # small\n  p99<9us,max<1s\n";
        let list = parse_lines(text, Some(false)).unwrap();
        assert_eq!(list, parse("8:p50<2us,p99<9us,max<1s", false).unwrap());
        for (text, why) in [
            ("", "has no bounds"),
            ("# nothing\n", "has no bounds"),
            ("p50<2us\n\nbad\n", "line 3: 'bad' is not a bound"),
            ("avg<2us", "line 1: unknown metric 'avg': the metrics are min, max,"),
        ] {
            let message = parse_lines(text, Some(false)).unwrap_err();
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn lines_may_be_for_one_tool() {
        let text = "write-lat 8:mean<3us,max<1ms\nosu_bw\tbw>1GB/s\nrate > 1M/s\n";
        let bounds = parse_lines(text, None).unwrap().into_iter();
        let bounds = bounds.map(|bound| (bound.tool, bound.metric.to_string()));
        let tool = |name: &str| Some(name.to_owned());
        let expected = [
            (tool("write-lat"), "mean".to_owned()),
            (tool("write-lat"), "max".to_owned()),
            (tool("osu_bw"), "bw".to_owned()),
            (None, "rate".to_owned()),
        ];
        assert_eq!(bounds.collect::<Vec<_>>(), expected);
        // The lines of a tool that is not the one in question are read too.
        assert_eq!(parse_lines("write-lat 8:mean<3us", Some(true)).unwrap().len(), 1);
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
            ("bw<4us", "B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s, Mb/s, Gb/s"),
            ("bw<4gb/s", "B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s, Mb/s, Gb/s"),
            ("p99<-4us", "is not a bound"),
            ("p99<4e3us", "is not a bound"),
            ("p99<.5us", "is not a bound"),
            ("p99<5.us", "needs a number"),
            ("p99<1.2.3us", "is not a bound"),
            ("p99<<4us", "is not a bound"),
            ("p101<4us", "percentile"),
            ("p<4us", "unknown metric 'p'"),
            ("peak<4us", "unknown metric 'peak': the metrics are min, max, mean, stddev"),
            ("avg<4us", "unknown metric 'avg': the metrics are min, max, mean, stddev"),
            ("0:p50<4us", "is not a bound"),
            ("4G:p50<4us", "is not a bound"),
            (":p50<4us", "is not a bound"),
            ("8:16:p50<4us", "unknown metric"),
        ] {
            let message = parse(text, false).unwrap_err();
            assert!(message.contains(why), "{text:?}: {message}");
        }
        let endless = format!("max<{}s", "9".repeat(400));
        assert!(parse(&endless, false).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[pbmw0-9.<>=,:usGB/ e-]{0,24}", is_bandwidth: bool) {
            if let Ok(list) = parse(&text, is_bandwidth) {
                prop_assert!(list.iter().all(|one| one.limit.is_finite() && one.limit >= 0.0));
            }
        }
    }

    fn all(text: &str) -> Vec<Expectation> {
        parse_lines(text, None).unwrap()
    }

    /// Each bound has a tool, a size and a source.
    #[test]
    fn profiles_are_complete() {
        for (name, text) in PROFILES {
            assert_eq!(profile_text(name).unwrap().as_deref(), Some(text));
            let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            assert!(lines().all(|line| line.contains("  # ") && line.contains('(')), "{name}");
            let bounds = all(text);
            assert_eq!(bounds.len(), lines().count());
            assert!(bounds.iter().all(|bound| bound.tool.is_some() && bound.size.is_some()));
        }
    }

    /// The figures of figures.md, section 1: each is within its bound, and 0.8 of it is not far.
    #[test]
    fn published_figures_meet_their_bounds() {
        for (tool, size, figure) in [
            ("send-lat", 8, 3.4e3),
            ("write-lat", 8, 2.82e3),
            ("read-lat", 8, 2.69e3),
            ("atomic-lat", 8, 2.5e3),
            ("write-bw", 65_536, 22.1e9),
            ("write-bw", 4 << 20, 24.25e9),
            ("read-bw", 65_536, 24.0e9),
            ("send-bw", 65_536, 20.9e9),
            ("send-bw", 4 << 20, 15.7e9),
            ("osu_latency", 256, 3.75e3),
            ("osu_bw", 4 << 20, 24e9 * 0.85),
        ] {
            let bounds = all(SAME_SWITCH.1);
            let own = |bound: &&Expectation| {
                bound.tool.as_deref() == Some(tool) && bound.size == Some(size)
            };
            let bound = bounds.iter().find(own).unwrap();
            assert!(bound.is_met_by(figure), "{tool}");
            let far = if bound.metric.is_of_bandwidth() { figure * 0.5 } else { figure * 2.0 };
            assert!(!bound.is_met_by(far), "{tool}");
        }
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        assert_eq!(profile_text("bw>=20GB/s"), Ok(None));
        assert_eq!(profile_text("p99"), Ok(None));
        let why = profile_text("slingshot-200").unwrap_err();
        assert!(why.contains("there are ") && why.contains("slingshot200-same-switch"), "{why}");
        assert!(profile_text("@/nonexistent").unwrap_err().contains("cannot read the file"));
    }
}
