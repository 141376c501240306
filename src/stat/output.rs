//! Where the report goes, and two of its forms.
//!
//! * Comma-separated values: a row for each counter of each NIC, whether the NIC has it or not.
//! * Counters over time as a trace: JSON trace events, which Perfetto and chrome://tracing open. A
//!   node is a process. Each counter of a NIC that has counted is a track with its rate.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use cli::output::or_failure;
use facts::error::Failure;
use page::csv::document;
use page::destination::{Destination, Place};
use page::documents::{Documents, Places};
use page::json;
use page::openmetrics::MetricsFile;
use page::table::TextStyle;
use serde_json::{Value, json};

use crate::job::{JobStat, StatCounter};
use crate::note::note;
use crate::options::{StatAction, StatRequest};
use crate::record::NodeRecord;
use crate::series::NodeSeries;
use crate::step_directory::node_name;
use crate::{metrics, text};

/// The documents of a report, opened before the command starts. The default has none: the report
/// goes to standard error.
#[derive(Default)]
pub struct ReportFiles {
    documents: Documents,
    /// `--output`: the text.
    text: Option<Destination>,
    trace: Option<Destination>,
}

/// Opens the documents. With `node`, the name of each file contains the name of this node.
///
/// # Errors
///
/// A file that cannot be written, and two documents in one place.
pub fn open(request: &StatRequest, node: Option<&str>) -> Result<ReportFiles, Failure> {
    let path = |path: &Path| match node {
        Some(node) => node_path(path, node),
        None => path.to_owned(),
    };
    let mut metrics = request.metrics.file_with(metrics::SERIES)?;
    if let Some(file) = &mut metrics {
        file.path = path(&file.path);
        // The files of other nodes are no neighbours on the same host.
        file.series = file.series.filter(|_| node.is_none());
    }
    if matches!(request.form, StatAction::Run(_))
        && let Some(Err(failure)) = metrics.as_ref().map(MetricsFile::check_neighbours)
    {
        // The command runs all the same.
        note(&failure.message());
        metrics = None;
    }
    let mut places = [&request.json, &request.csv].into_iter().flatten();
    if places.any(|place| *place == Place::Stdout) && cxi::inherited::was_standard_output_closed() {
        return Err(page::no_standard_output());
    }
    let place = |place: &Place| match place {
        Place::Stdout => Place::Stdout,
        Place::File(file) => Place::File(path(file)),
    };
    let documents = Documents::open(&Places {
        json: request.json.as_ref().map(place),
        csv: request.csv.as_ref().map(place),
        metrics,
        ..Places::default()
    })?;
    let text = request.output.as_deref().map(path).as_deref().map(Destination::file).transpose()?;
    let trace = request.trace.as_deref().map(path).as_deref().map(Destination::file).transpose()?;
    documents.check_distinct_from(text.iter().chain(&trace))?;
    Ok(ReportFiles { documents, text, trace })
}

impl ReportFiles {
    /// Returns `outcome`; a failure is written to the document of `--json`, too.
    pub fn or_failure<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        or_failure(&self.documents, outcome)
    }
}

/// The path of the file of one node, for a path that all nodes have: `stat.nid1.json` for
/// `stat.json`.
fn node_path(path: &Path, node: &str) -> PathBuf {
    let Some(name) = path.file_stem() else {
        return path.to_owned();
    };
    let mut name = name.to_owned();
    name.push(format!(".{}", node_name(node)));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Reports what one node has read. What cannot be written is said on standard error: the command
/// has ended, and its exit status counts.
pub fn report_node(
    request: &StatRequest,
    record: &NodeRecord,
    series: Vec<NodeSeries>,
    outputs: &ReportFiles,
) {
    let job = JobStat::of(vec![record.clone()], Vec::new()).with_series(series);
    report(request, &job, outputs);
}

/// Reports a job after its command.
pub fn report(request: &StatRequest, job: &JobStat, outputs: &ReportFiles) {
    if let Err(failure) = outputs.write(job) {
        note(&failure.message());
    }
    // A document on standard output is in place of the text, which may have a file of its own.
    let has_place = outputs.text.is_some() || !outputs.documents.has_stdout();
    if !has_place || request.is_quiet && !job.is_unusual() {
        return;
    }
    let text = text::page(job, request.level).text(TextStyle::Plain);
    if let Some(to) = &outputs.text {
        if let Err(failure) = to.write(text.as_bytes()) {
            note(&failure.message());
        }
        return;
    }
    let mut stderr = io::stderr();
    // The output of the command may have ended in the middle of a line.
    if stderr.is_terminal() {
        let _ = writeln!(stderr);
    }
    let _ = stderr.write_all(text.as_bytes());
}

/// Prints a report on standard output, or writes it to the file of `--output`.
///
/// # Errors
///
/// What cannot be written.
pub fn print(request: &StatRequest, job: &JobStat, outputs: &ReportFiles) -> Result<(), Failure> {
    outputs.write(job)?;
    if request.is_quiet && !job.is_unusual() {
        return Ok(());
    }
    let text = text::page(job, request.level).text(TextStyle::Plain);
    match &outputs.text {
        Some(to) => to.write(text.as_bytes()),
        None => outputs.documents.print(|bytes| bytes.write_all(text.as_bytes())),
    }
}

impl ReportFiles {
    fn write(&self, job: &JobStat) -> Result<(), Failure> {
        self.documents.write_json(job)?;
        if let Some(to) = &self.documents.csv {
            to.write(&csv(job)?)?;
        }
        if let Some(to) = &self.trace {
            to.write(&trace(job)?)?;
        }
        self.documents.write_metrics(|| metrics::families(job))
    }
}

/// Checks that nothing was found that `--fail-on` names.
///
/// # Errors
///
/// What was found.
pub fn check(request: &StatRequest, job: &JobStat) -> Result<(), Failure> {
    let mut found = job.findings.iter();
    match found.find(|finding| request.fail_on.contains(&finding.code.as_str())) {
        Some(finding) => Err(Failure::unmet(format!("{}: {}", finding.code, finding.text))),
        None => Ok(()),
    }
}

/// The rows.
///
/// # Errors
///
/// None in practice: the rows are made in memory.
pub fn csv(job: &JobStat) -> Result<Vec<u8>, Failure> {
    let titles = ["host", "device", "counter", "before", "after", "delta", "seconds"];
    let rows = job.counters().map(|(nic, name, counter)| {
        let number = |value: fn(&StatCounter) -> Option<u64>| {
            counter.and_then(value).map_or(String::new(), |value| value.to_string())
        };
        let seconds = counter.and_then(|counter| counter.seconds);
        [
            nic.host.clone(),
            nic.device.clone(),
            name.to_owned(),
            number(|counter| Some(counter.before)),
            number(|counter| counter.after),
            number(|counter| counter.delta),
            seconds.map_or(String::new(), |seconds| seconds.to_string()),
        ]
    });
    document([titles.map(str::to_owned)].into_iter().chain(rows))
}

/// The trace of a job.
///
/// # Errors
///
/// None in practice: the trace is made in memory.
fn trace(job: &JobStat) -> Result<Vec<u8>, Failure> {
    let program = job.program.first().map_or("the command", String::as_str);
    let whole = job.seconds.map(|seconds| {
        json!({
            "ph": "X", "pid": 0, "tid": 0, "name": program,
            "ts": micros(job.started_unix_ms), "dur": (seconds * 1e6).round(),
        })
    });
    let name = |pid: usize, name: &str| json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}});
    let software = if job.is_software() { " (software NICs)" } else { "" };
    let own = name(0, &format!("cxidiag stat{software}"));
    let mut events: Vec<Value> = [own].into_iter().chain(whole).collect();
    for (pid, series) in (1..).zip(&job.series) {
        events.push(name(pid, &series.host));
        for (nic, device) in series.devices.iter().enumerate() {
            add_gaps(&mut events, series, pid, nic, device);
            for (column, counter) in series.counters.iter().enumerate() {
                let track = format!("{device} {counter} per s");
                add_track(&mut events, series, pid, [nic, column], &track);
            }
        }
    }
    json::line(&json!({"displayTimeUnit": "ms", "traceEvents": events}))
}

fn micros(unix_ms: u64) -> u64 {
    unix_ms.saturating_mul(1000)
}

/// Adds the rate of a counter in each interval, from its start on. Nothing is added if it has not
/// counted. An interval without a reading shows 0, and a mark says why.
fn add_track(
    events: &mut Vec<Value>,
    series: &NodeSeries,
    pid: usize,
    [nic, column]: [usize; 2],
    track: &str,
) {
    let counts = || series.intervals.iter().map(|interval| interval.counts[nic][column]);
    if counts().all(|count| count.unwrap_or(0) == 0) {
        return;
    }
    let mut event = |unix_ms: u64, rate: f64| {
        events.push(json!({
            "ph": "C", "pid": pid, "name": track, "ts": micros(unix_ms), "args": {"per s": rate},
        }));
    };
    let mut began = series.started_unix_ms;
    for (interval, count) in series.intervals.iter().zip(counts()) {
        let ms = interval.unix_ms.saturating_sub(began);
        if ms > 0 {
            event(began, count.unwrap_or(0) as f64 * 1e3 / ms as f64);
        }
        began = interval.unix_ms;
    }
    event(began, 0.0);
}

/// Marks the intervals without any reading of a NIC.
fn add_gaps(events: &mut Vec<Value>, series: &NodeSeries, pid: usize, nic: usize, device: &str) {
    let empty = series.intervals.iter().filter(|interval| {
        let counts = &interval.counts[nic];
        counts.iter().all(Option::is_none)
    });
    events.extend(empty.map(|interval| {
        json!({
            "ph": "i", "s": "p", "pid": pid, "tid": 0, "ts": micros(interval.unix_ms),
            "name": format!("{device}: no readings"),
        })
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::SeriesInterval;
    use crate::testing::node;

    #[test]
    fn files_of_nodes_have_their_names_before_the_ending() {
        for (path, expected) in [
            ("stat.json", "stat.nid1.json"),
            ("a.b/stat", "a.b/stat.nid1"),
            ("/x/.prom", "/x/.prom.nid1"),
            ("..", ".."),
        ] {
            assert_eq!(node_path(Path::new(path), "nid1"), Path::new(expected));
        }
        assert_eq!(node_path(Path::new("a.csv"), "../b"), Path::new("a..._b.csv"));
    }

    #[test]
    fn tracks_have_rates_from_the_start_of_each_interval() {
        let interval = |ms: u64, counts: [Option<u64>; 2]| SeriesInterval {
            unix_ms: 1_700_000_000_000 + ms,
            counts: vec![counts.to_vec()],
        };
        let series = NodeSeries {
            host: "nid1".into(),
            counters: vec!["hni_sts_tx_ok_octets".into(), "pct_retry_srb_requests".into()],
            devices: vec!["cxi0".into()],
            started_unix_ms: 1_700_000_000_000,
            intervals: vec![
                interval(500, [Some(1000), Some(0)]),
                interval(1500, [None, None]),
                interval(1500, [Some(5), Some(0)]),
                interval(2500, [Some(300), Some(0)]),
            ],
        };
        let job = JobStat::of(vec![node("nid1", &[("cxi0", &[("a", 1)])])], Vec::new());
        let trace: Value =
            serde_json::from_slice(&trace(&job.with_series(vec![series])).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let by_kind = |kind: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["ph"] == kind).collect()
        };
        let tracks: Vec<(u64, f64)> = by_kind("C")
            .into_iter()
            .map(|event| {
                assert_eq!(
                    (&event["pid"], &event["name"]),
                    (&json!(1), &json!("cxi0 hni_sts_tx_ok_octets per s"))
                );
                let ms = event["ts"].as_u64().unwrap() / 1000 - 1_700_000_000_000;
                (ms, event["args"]["per s"].as_f64().unwrap())
            })
            .collect();
        assert_eq!(tracks, [(0, 2000.0), (500, 0.0), (1500, 300.0), (2500, 0.0)]);
        let names: Vec<&Value> = by_kind("M").iter().map(|event| &event["args"]["name"]).collect();
        assert_eq!(names, [&json!("cxidiag stat"), &json!("nid1")]);
        let [gap] = by_kind("i")[..] else { panic!("{trace}") };
        assert_eq!(gap["name"], "cxi0: no readings");
        let [command] = by_kind("X")[..] else { panic!("{trace}") };
        assert_eq!((&command["name"], command["dur"].as_f64()), (&json!("./app"), Some(10e6)));
    }
}
