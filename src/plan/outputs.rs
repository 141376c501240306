//! The outputs beside the text: formats, files, expectations.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::run_options::{MAX_REPORT_ALL, RunOptions};
use crate::tool::Tool;
use facts::bandwidth_unit::BandwidthUnit;
use facts::error::invalid;
use facts::expect::{Expectation, Metric};
use facts::percentile::Percentile;
use node::nic::counter_table::Preset;
use page::destination::Place;

/// Bounds of `--interval`.
pub const INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

/// The requested outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// A line about what the tool itself adds to a latency, after the table.
    pub show_error: bool,
    /// The percentiles of the block after the table, in ascending order; empty for no block.
    pub percentiles: Vec<Percentile>,
    /// A histogram of the latencies of each size, after the table.
    pub histogram: bool,
    /// The unit of bandwidths in the text.
    pub unit: BandwidthUnit,
    /// A row for each interval of this length while a size is measured.
    pub interval: Option<Duration>,
    /// The counters of the NIC that are shown beside the results.
    pub counters: Option<Preset>,
    /// A JSON document.
    pub json: Option<Place>,
    /// A file to which a line of JSON is appended.
    pub jsonl: Option<PathBuf>,
    /// A table of comma-separated values.
    pub csv: Option<Place>,
    /// A log of histograms.
    pub hdr_log: Option<PathBuf>,
    /// A table of all samples.
    pub samples: Option<PathBuf>,
    /// Keys and values that the documents repeat.
    pub labels: BTreeMap<String, String>,
    /// Bounds on the metrics of each size.
    pub expectations: Vec<Expectation>,
    /// The text has neither summary nor progress, and there are no notes.
    pub quiet: bool,
}

impl Outputs {
    /// The outputs if `tool` supports them in a run with these options.
    ///
    /// # Errors
    ///
    /// Metrics of other tools, sizes of other runs, more samples than can be kept, and two
    /// documents for standard output.
    pub fn checked(mut self, tool: &Tool, run: &RunOptions) -> Result<Self, String> {
        let is_measured = |size: u64| run.sizes().any(|own| own == size);
        // A profile has bounds of more tools and sizes.
        let applies = |bound: &Expectation| {
            bound
                .tool
                .as_ref()
                .is_none_or(|name| name == tool.name && bound.size.is_none_or(is_measured))
        };
        if !self.expectations.is_empty() && !self.expectations.iter().any(applies) {
            let sizes = run.sizes().map(|size| size.to_string()).collect::<Vec<_>>().join(", ");
            return Err(format!("--expect: it has no bounds of {} for {sizes} bytes", tool.name));
        }
        self.expectations.retain(applies);
        if let Some(other) = self
            .expectations
            .iter()
            .find(|expectation| expectation.metric.is_of_bandwidth() != tool.measures_bandwidth())
        {
            return Err(format!(
                "--expect '{}': not a metric of {} (expected {})",
                other.text,
                tool.name,
                Metric::names(tool.measures_bandwidth())
            ));
        }
        for expectation in &self.expectations {
            if let Some(other) = expectation.size.filter(|size| !is_measured(*size)) {
                let sizes: Vec<String> = run.sizes().map(|size| size.to_string()).collect();
                return Err(format!(
                    "--expect '{}': the run does not measure {other} bytes, only {}",
                    expectation.text,
                    sizes.join(", ")
                ));
            }
        }
        if self.samples.is_some() && run.duration_s.is_some() {
            return Err(
                "--samples needs a number of iterations: leave out --duration, --until and --until-stopped"
                    .into(),
            );
        }
        if self.samples.is_some() && run.iters > MAX_REPORT_ALL {
            let allowed = format!("at most {MAX_REPORT_ALL} with --samples");
            return Err(invalid("iters", run.iters, allowed).into());
        }
        if self.json == Some(Place::Stdout) && self.csv == Some(Place::Stdout) {
            return Err(
                "--json and --csv cannot both go to standard output: name a file for one of them, --json=FILE"
                    .into(),
            );
        }
        Ok(self)
    }

    /// The outputs of a server: its documents, its counters, and the unit of its text.
    pub fn server(self) -> Self {
        Self {
            json: self.json,
            jsonl: self.jsonl,
            csv: self.csv,
            labels: self.labels,
            counters: self.counters,
            unit: self.unit,
            quiet: self.quiet,
            ..Self::default()
        }
    }

    /// Whether standard output holds a document instead of the text.
    pub fn take_stdout(&self) -> bool {
        [&self.json, &self.csv].contains(&&Some(Place::Stdout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::TOOLS;
    use facts::expect;

    fn tool(name: &str) -> &'static Tool {
        TOOLS.iter().find(|tool| tool.name == name).unwrap()
    }

    #[test]
    fn refuses_metrics_of_other_tools() {
        for (name, right, wrong) in [
            ("write-lat", "p99<4us,max<1s", "mean<1us,bw>1GB/s"),
            ("send-lat", "stddev<1us", "rate>1pkt/s"),
            ("send-bw", "bw>=23GB/s,rate>1Mpkt/s", "p50<1us"),
        ] {
            let tool = tool(name);
            let checked = |text| {
                let outputs = Outputs {
                    expectations: expect::parse(text, tool.measures_bandwidth()).unwrap(),
                    ..Outputs::default()
                };
                outputs.checked(tool, &tool.defaults)
            };
            assert!(checked(right).is_ok());
            let message = checked(wrong).unwrap_err();
            let last = wrong.split(',').next_back().unwrap();
            assert!(message.contains(last) && message.contains(name), "{message}");
        }
    }

    #[test]
    fn refuses_bounds_on_sizes_of_other_runs() {
        let tool = tool("write-lat");
        let run = RunOptions { min_size: 4, max_size: 16, ..tool.defaults };
        let checked = |text| {
            let outputs =
                Outputs { expectations: expect::parse(text, false).unwrap(), ..Outputs::default() };
            outputs.checked(tool, &run)
        };
        assert!(checked("4:p50<2us,16:p50<2us").is_ok());
        let message = checked("4:p50<2us,12:p50<2us").unwrap_err();
        let expected = "--expect '12:p50<2us': the run does not measure 12 bytes, only 4, 8, 16";
        assert_eq!(message, expected);
    }

    #[test]
    fn refuses_two_documents_on_stdout() {
        let file = |name: &str| Some(Place::File(name.into()));
        let to = |json, csv, hdr_log: Option<&str>| Outputs {
            json,
            csv,
            hdr_log: hdr_log.map(PathBuf::from),
            ..Outputs::default()
        };
        let tool = tool("write-lat");
        for fine in [
            to(Some(Place::Stdout), file("a"), Some("b")),
            to(file("a"), Some(Place::Stdout), Some("b")),
            to(file("a"), file("b"), None),
        ] {
            assert!(fine.checked(tool, &tool.defaults).is_ok());
        }
        let clash = to(Some(Place::Stdout), Some(Place::Stdout), None);
        assert!(clash.checked(tool, &tool.defaults).is_err());
    }

    #[test]
    fn finds_owner_of_stdout() {
        assert!(!Outputs::default().take_stdout());
        let csv = Outputs { csv: Some(Place::Stdout), ..Outputs::default() };
        assert!(csv.take_stdout());
        let file = Outputs { json: Some(Place::File("a".into())), ..Outputs::default() };
        assert!(!file.take_stdout());
    }
}
