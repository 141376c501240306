//! Files of metrics, read by the programs that users read them with.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use super::{Command, stderr};

/// A program that reads OpenMetrics, and fails if there are only a few families.
const PARSE: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
assert len(list(text_string_to_metric_families(sys.stdin.read()))) >= int(sys.argv[1])";

/// What promtool says about the style of a name that monitoring.md 1.5 has.
const STYLE: &str = "cxidiag_stat_counter_total metric name should not include type 'counter'";

/// Fails if Prometheus' own readers refuse the file for node exporter or the one in OpenMetrics, or
/// if there are fewer families than this. A reader that is not installed is left out.
#[track_caller]
pub fn assert_accepted(node_exporter: &Path, openmetrics: &Path, families: usize) {
    let mut promtool = Command::new("promtool");
    accepted(promtool.args(["check", "metrics"]), node_exporter);
    let mut python = Command::new("python3");
    let count = families.to_string();
    accepted(python.args(["-c", PARSE, &count]), openmetrics);
}

#[track_caller]
fn accepted(reader: &mut Command, file: &Path) {
    let input = File::open(file).expect("a file");
    let reader = reader.stdin(input).stderr(Stdio::piped()).stdout(Stdio::piped());
    match reader.output() {
        Err(error) => println!("not tested: {reader:?}: {error}"),
        Ok(output) => {
            let errors = stderr(&output);
            if errors.contains("No module named") {
                println!("not tested: {errors}");
            } else {
                let is_style = !errors.is_empty() && errors.lines().all(|line| line == STYLE);
                assert!(output.status.success() || is_style, "{}: {errors}", file.display());
            }
        }
    }
}
