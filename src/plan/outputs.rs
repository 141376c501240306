//! The outputs beside the text: formats, files, expectations.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::plan::expect::{Expectation, Metric};
use crate::tool::Tool;

/// The destination of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Standard output, which then holds nothing else.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// Bounds of `--interval`.
pub const INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);

impl Place {
    /// Returns the file, if the destination is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::File(path) => Some(path),
        }
    }
}

/// The requested outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outputs {
    /// A line about what the tool itself adds to a latency, after the table.
    pub show_error: bool,
    /// A block of percentiles after the table.
    pub percentiles: bool,
    /// A row for each interval of this length while a size is measured.
    pub interval: Option<Duration>,
    /// A JSON document.
    pub json: Option<Place>,
    /// A file to which a line of JSON is appended.
    pub jsonl: Option<PathBuf>,
    /// A table of comma-separated values.
    pub csv: Option<Place>,
    /// A log of histograms.
    pub hdr_log: Option<PathBuf>,
    /// Bounds on the metrics of each size.
    pub expectations: Vec<Expectation>,
    /// Only errors are printed to stderr.
    pub quiet: bool,
}

impl Outputs {
    /// Returns the outputs if `tool` supports them.
    ///
    /// # Errors
    ///
    /// Metrics of other tools, and two documents for standard output.
    pub fn checked(self, tool: &Tool) -> Result<Self, String> {
        if let Some(other) = self
            .expectations
            .iter()
            .find(|expectation| !expectation.metric.belongs_to(tool))
        {
            return Err(format!(
                "--expect '{}': not a metric of {} (expected {})",
                other.text,
                tool.name,
                Metric::names(tool)
            ));
        }
        if self.json == Some(Place::Stdout) && self.csv == Some(Place::Stdout) {
            return Err(
                "--json and --csv cannot both go to standard output: name a file for one of them, --json=FILE"
                    .into(),
            );
        }
        Ok(self)
    }

    /// Returns whether standard output holds a document instead of the text.
    pub fn take_stdout(&self) -> bool {
        [&self.json, &self.csv].contains(&&Some(Place::Stdout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::expect;
    use crate::tools::TOOLS;

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
            let of = |text| Outputs {
                expectations: expect::parse(text).unwrap(),
                ..Outputs::default()
            };
            assert!(of(right).checked(tool(name)).is_ok());
            let message = of(wrong).checked(tool(name)).unwrap_err();
            let last = wrong.split(',').next_back().unwrap();
            assert!(
                message.contains(last) && message.contains(name),
                "{message}"
            );
        }
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
            assert!(fine.checked(tool).is_ok());
        }
        let clash = to(Some(Place::Stdout), Some(Place::Stdout), None);
        assert!(clash.checked(tool).is_err());
    }

    #[test]
    fn finds_owner_of_stdout() {
        assert!(!Outputs::default().take_stdout());
        let csv = Outputs {
            csv: Some(Place::Stdout),
            ..Outputs::default()
        };
        assert!(csv.take_stdout());
        let file = Outputs {
            json: Some(Place::File("a".into())),
            ..Outputs::default()
        };
        assert!(!file.take_stdout());
    }
}
