//! Where the report goes, also as comma-separated values: a row for each counter of each NIC,
//! whether the NIC has it or not.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::job::{JobStat, StatCounter};
use super::note::note;
use super::options::{StatAction, StatRequest};
use super::record::NodeRecord;
use super::series::NodeSeries;
use super::step_directory::node_name;
use super::{metrics, text, trace};
use cli::output::or_failure;
use facts::error::Failure;
use page::csv::document;
use page::destination::{Destination, Place};
use page::documents::{Documents, Places};
use page::openmetrics::MetricsFile;
use page::table::TextStyle;

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

/// Returns the path of the file of one node, for a path that all nodes have: `stat.nid1.json` for
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
            to.write(&trace::trace(job)?)?;
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

/// Returns the rows.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
