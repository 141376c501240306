//! Outcome -> comma-separated values (RFC 4180): a header, and a row for each size of the run.
//!
//! What concerns the run as a whole stands in every row. A run that failed before its sizes were
//! known has one row without figures.

use super::Outcome;
use super::outcome::SizeResult;
use crate::error::Failure;

/// One column: its title, and its field in the row of a result.
type Column = (&'static str, fn(&Outcome, &SizeResult) -> String);

const COLUMNS: &[Column] = &[
    ("tool", |run, _| run.tool.clone()),
    ("host", |run, _| run.host.name.clone()),
    ("device", |run, _| {
        text(run.device.as_ref().map(|of| of.name.clone()))
    }),
    ("software_nic", |run, _| {
        text(run.device.as_ref().and_then(|of| of.is_software))
    }),
    ("started_unix_ms", |run, _| run.started_unix_ms.to_string()),
    ("status", |run, _| name(run.status)),
    ("size_bytes", |_, of| {
        if of.size_bytes == 0 {
            String::new()
        } else {
            of.size_bytes.to_string()
        }
    }),
    ("extent", |_, of| name(of.extent)),
    ("count", |_, of| of.count.to_string()),
    ("min_ns", |_, of| {
        text(of.latency.as_ref().map(|of| of.min_ns))
    }),
    ("max_ns", |_, of| {
        text(of.latency.as_ref().map(|of| of.max_ns))
    }),
    ("mean_ns", |_, of| {
        text(of.latency.as_ref().map(|of| of.mean_ns))
    }),
    ("standard_deviation_ns", |_, of| {
        text(of.latency.as_ref().map(|of| of.standard_deviation_ns))
    }),
    ("p50_ns", |_, of| percentile(of, 50.0)),
    ("p90_ns", |_, of| percentile(of, 90.0)),
    ("p99_ns", |_, of| percentile(of, 99.0)),
    ("p99.9_ns", |_, of| percentile(of, 99.9)),
    ("p99.99_ns", |_, of| percentile(of, 99.99)),
    ("bandwidth_bytes_per_s", |_, of| {
        text(of.bandwidth.map(|of| of.bandwidth_bytes_per_s))
    }),
    ("packet_rate_packets_per_s", |_, of| {
        text(of.bandwidth.map(|of| of.packet_rate_packets_per_s))
    }),
    ("expectations_met", |run, of| expectations(run, of)),
    ("error", |run, _| {
        text(run.error.as_ref().map(|of| of.message.clone()))
    }),
    ("hint", |run, _| {
        text(run.error.as_ref().and_then(|of| of.hint.clone()))
    }),
];

/// The table.
pub fn document(outcome: &Outcome) -> Result<Vec<u8>, Failure> {
    let none = [SizeResult::none(0)];
    let results = match outcome.results.as_slice() {
        [] => &none,
        results => results,
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cannot = |error: csv::Error| Failure::environment(format!("cannot make CSV: {error}"));
    let titles = COLUMNS.iter().map(|(title, _)| title);
    writer.write_record(titles).map_err(cannot)?;
    for result in results {
        let fields = COLUMNS.iter().map(|(_, field)| field(outcome, result));
        writer.write_record(fields).map_err(cannot)?;
    }
    writer
        .into_inner()
        .map_err(|error| Failure::environment(format!("cannot make CSV: {error}")))
}

/// A value, or nothing where it does not apply.
fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The name that a value has in the JSON document.
fn name(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

fn percentile(result: &SizeResult, percent: f64) -> String {
    let values = result.latency.iter().flat_map(|of| &of.percentiles);
    text(
        values
            .clone()
            .find(|of| of.percent == percent)
            .map(|of| of.value_ns),
    )
}

/// Whether all of them are met; nothing where there are none.
fn expectations(outcome: &Outcome, result: &SizeResult) -> String {
    let mut of_size = outcome
        .expectations
        .iter()
        .filter(|verdict| verdict.size_bytes == result.size_bytes)
        .peekable();
    match of_size.peek() {
        None => String::new(),
        Some(_) => of_size.all(|verdict| verdict.met).to_string(),
    }
}
