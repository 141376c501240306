//! Latency tools against a software NIC of known latency, as text and as JSON
//! (docs/calibration.md). The doc comments of the types are the descriptions in their schema,
//! docs/calibration.schema.json.

use std::io::{self, Write};

use serde::Serialize;

use super::outcome::LatencyResult;
use super::table::{self, Align};

/// Version of the document. It changes when a field is removed or changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// How the latency of a tool follows from that of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossings {
    /// An operation and its response cross the link.
    ThereAndBack,
    /// Half of a message and its reply.
    OneWay,
}

impl Crossings {
    fn count(self) -> f64 {
        match self {
            Self::ThereAndBack => 2.0,
            Self::OneWay => 1.0,
        }
    }
}

/// The link of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Latency of each packet, in nanoseconds.
    pub latency_ns: u64,
    /// The most by which a packet takes longer, evenly distributed, in nanoseconds.
    pub jitter_ns: u64,
}

/// The part of the jitter by which the 90th percentile of the sum of two evenly distributed delays
/// exceeds their median: the sum is below `2 - sqrt(1/5)` in 90 % of the cases, and its median is
/// 1.
const SPREAD_OF_TWO: f64 = 1.0 - 0.447_213_595_5;

/// The latencies of the tools on known links, as `cxidiag calibrate --json` writes them.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Calibration {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Name of the software NIC.
    device: String,
    /// Name of the clock that measured.
    clock: String,
    /// The tools.
    tools: Vec<ToolCalibration>,
}

/// One tool on known links.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolCalibration {
    /// Name of the tool.
    tool: &'static str,
    /// What the tool reports in addition to the latency of the link, in nanoseconds: the mean
    /// offset of the medians on links without jitter, except the link without latency.
    offset_ns: f64,
    /// By how much these offsets differ from each other, in nanoseconds.
    offset_range_ns: f64,
    /// The part of the offset that is the tool itself, in nanoseconds: median of the path in
    /// measurement_error.
    tool_ns: f64,
    /// The rest of the offset, in nanoseconds: the work of the software NIC.
    nic_ns: f64,
    /// One entry for each link.
    runs: Vec<CalibrationRun>,
}

/// One tool on one link: the least disturbed of several runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CalibrationRun {
    /// Latency of the link, in nanoseconds.
    link_latency_ns: u64,
    /// Largest additional latency of a packet, evenly distributed, in nanoseconds.
    link_jitter_ns: u64,
    /// Latency that the link causes: the truth, in nanoseconds.
    known_ns: f64,
    /// Measured median, in nanoseconds.
    median_ns: u64,
    /// Median minus truth, in nanoseconds.
    median_offset_ns: f64,
    /// Mean minus truth, in nanoseconds.
    pub mean_offset_ns: f64,
    /// Spread that the jitter causes: 90th percentile minus median, in nanoseconds.
    known_spread_ns: f64,
    /// Measured spread: 90th percentile minus median, in nanoseconds.
    spread_ns: u64,
}

impl CalibrationRun {
    /// Returns what a tool measured on `link`. `None` if a percentile is missing.
    pub fn new(link: Link, crossings: Crossings, measured: &LatencyResult) -> Option<Self> {
        let percentile = |percent: f64| {
            let mut values = measured.percentiles.iter();
            values
                .find(|value| value.percent == percent)
                .map(|value| value.value_ns)
        };
        let (median, high) = (percentile(50.0)?, percentile(90.0)?);
        let jitter = link.jitter_ns as f64;
        let known_ns = crossings.count() * (link.latency_ns as f64 + jitter / 2.0);
        Some(Self {
            link_latency_ns: link.latency_ns,
            link_jitter_ns: link.jitter_ns,
            known_ns,
            median_ns: median,
            median_offset_ns: median as f64 - known_ns,
            mean_offset_ns: measured.mean_ns - known_ns,
            known_spread_ns: crossings.count() / 2.0 * jitter * SPREAD_OF_TWO,
            spread_ns: high - median,
        })
    }
}

impl ToolCalibration {
    /// Returns the calibration of a tool. `own_ns` are the medians of its own path, one of each
    /// run.
    pub fn new(tool: &'static str, runs: Vec<CalibrationRun>, mut own_ns: Vec<u64>) -> Self {
        let counts = |run: &&CalibrationRun| run.link_jitter_ns == 0 && run.link_latency_ns > 0;
        let offsets: Vec<f64> = runs
            .iter()
            .filter(counts)
            .map(|run| run.median_offset_ns)
            .collect();
        let offset_ns = offsets.iter().sum::<f64>() / offsets.len().max(1) as f64;
        let least = offsets.iter().copied().fold(f64::INFINITY, f64::min);
        let most = offsets.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        own_ns.sort_unstable();
        let tool_ns = own_ns.get(own_ns.len() / 2).copied().unwrap_or(0) as f64;
        Self {
            tool,
            offset_ns,
            offset_range_ns: (most - least).max(0.0),
            tool_ns,
            nic_ns: offset_ns - tool_ns,
            runs,
        }
    }
}

impl Calibration {
    /// Returns the calibration of `tools` on `device`, measured with `clock`.
    pub fn new(device: String, clock: String, tools: Vec<ToolCalibration>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            device,
            clock,
            tools,
        }
    }
}

/// Writes both tables: the runs, and a summary of each tool. All times are in nanoseconds.
///
/// # Errors
///
/// `out` cannot be written.
pub fn write(out: &mut impl Write, calibration: &Calibration) -> io::Result<()> {
    writeln!(
        out,
        "Latencies on {} with known links, in ns (clock {})\n",
        calibration.device, calibration.clock
    )?;
    let titles = [
        "Tool",
        "Link",
        "Jitter",
        "Known",
        "Median",
        "Offset",
        "Mean offset",
        "Spread",
        "Known spread",
    ];
    let row = |tool: &'static str, run: &CalibrationRun| {
        vec![
            tool.to_owned(),
            run.link_latency_ns.to_string(),
            run.link_jitter_ns.to_string(),
            format!("{:.0}", run.known_ns),
            run.median_ns.to_string(),
            format!("{:.0}", run.median_offset_ns),
            format!("{:.0}", run.mean_offset_ns),
            run.spread_ns.to_string(),
            format!("{:.0}", run.known_spread_ns),
        ]
    };
    let tools = &calibration.tools;
    let runs = tools
        .iter()
        .flat_map(|of| of.runs.iter().map(|run| row(of.tool, run)));
    print(out, &titles, runs)?;
    writeln!(out)?;
    let summaries = tools.iter().map(|of| {
        vec![
            of.tool.to_owned(),
            format!("{:.0}", of.offset_ns),
            format!("{:.0}", of.offset_range_ns),
            format!("{:.0}", of.tool_ns),
            format!("{:.0}", of.nic_ns),
        ]
    });
    print(
        out,
        &["Tool", "Offset", "Range", "Tool itself", "Software NIC"],
        summaries,
    )
}

/// Writes a table whose first column has words, and the others numbers.
fn print(
    out: &mut impl Write,
    titles: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> io::Result<()> {
    let titles: Vec<String> = titles.iter().map(ToString::to_string).collect();
    let mut align = vec![Align::Right; titles.len()];
    align[0] = Align::Left;
    for line in table::lines(std::iter::once(titles).chain(rows), &align) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Detail, Extent, SizeResult};
    use measure::Recorder;

    /// Latencies of a tool that always adds `offset`, with 20 % of the samples `late`.
    fn measured(latency: u64, late: u64) -> LatencyResult {
        let mut recorder = Recorder::new(None).unwrap();
        for i in 0..1_000 {
            recorder.record(if i < 800 { latency } else { latency + late });
        }
        let result = SizeResult::of_latencies(8, &recorder, Extent::Complete, Detail::default());
        result.latency.unwrap()
    }

    fn run(crossings: Crossings, latency_ns: u64, jitter_ns: u64, got: u64) -> CalibrationRun {
        let link = Link {
            latency_ns,
            jitter_ns,
        };
        CalibrationRun::new(link, crossings, &measured(got, 100)).unwrap()
    }

    #[test]
    fn compares_with_packets_there_and_back() {
        let run = run(Crossings::ThereAndBack, 2_000, 0, 4_310);
        assert_eq!((run.known_ns, run.median_offset_ns), (4_000.0, 310.0));
        assert_eq!(run.mean_offset_ns, 330.0);
        assert_eq!((run.spread_ns, run.known_spread_ns), (100, 0.0));
    }

    #[test]
    fn compares_half_of_round_trips_with_one_way() {
        let run = run(Crossings::OneWay, 2_000, 500, 2_650);
        assert_eq!((run.known_ns, run.median_offset_ns), (2_250.0, 400.0));
        assert!((run.known_spread_ns - 138.2).abs() < 0.1);
    }

    /// The spread of two evenly distributed delays, counted.
    #[test]
    fn computes_spread_of_two_delays() {
        let steps = 1_000;
        let mut sums: Vec<u32> = (0..steps)
            .flat_map(|a| (0..steps).map(move |b| a + b))
            .collect();
        sums.sort_unstable();
        let at = |part: f64| f64::from(sums[(sums.len() as f64 * part) as usize]);
        let spread = (at(0.9) - at(0.5)) / f64::from(steps);
        assert!((spread - SPREAD_OF_TWO).abs() < 0.002, "{spread}");
    }

    #[test]
    fn summarizes_links_with_latency_and_without_jitter() {
        let of = |latency, jitter, got| run(Crossings::ThereAndBack, latency, jitter, got);
        let runs = vec![
            of(0, 0, 500),
            of(1_000, 0, 2_300),
            of(2_000, 0, 4_310),
            of(5_000, 0, 10_320),
            of(2_000, 500, 9_999),
        ];
        let summary = ToolCalibration::new("write-lat", runs, vec![44, 39, 40]);
        assert_eq!((summary.offset_ns, summary.offset_range_ns), (310.0, 20.0));
        assert_eq!((summary.tool_ns, summary.nic_ns), (40.0, 270.0));
        let calibration = Calibration::new("soft0".into(), "TSC".into(), vec![summary]);
        let mut text = Vec::new();
        write(&mut text, &calibration).unwrap();
        let expected = "\
Latencies on soft0 with known links, in ns (clock TSC)

Tool       Link  Jitter  Known  Median  Offset  Mean offset  Spread  Known spread
write-lat     0       0      0     500     500          520     100             0
write-lat  1000       0   2000    2300     300          320     100             0
write-lat  2000       0   4000    4310     310          330     100             0
write-lat  5000       0  10000   10320     320          340     100             0
write-lat  2000     500   4500    9999    5499         5519     100           276

Tool       Offset  Range  Tool itself  Software NIC
write-lat     310     20           40           270
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
