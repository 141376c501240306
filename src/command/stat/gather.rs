//! The report of all nodes, from their files (monitoring.md 1.4).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::note::note;
use super::output;
use super::request::StatRequest;
use super::step_directory::{self, latest};
use facts::error::{Failure, cause};
use report::stat::JobStat;
use report::stat::record::NodeRecord;
use report::stat::series::NodeSeries;

/// Pauses of the first node while it waits for the others.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// What the nodes of a program have left.
pub struct NodesOfJob {
    /// The readings of the nodes.
    pub nodes: Vec<NodeRecord>,
    /// Nodes that have left nothing, as far as their names are known.
    pub missing: Vec<String>,
    /// Whether all nodes have an end.
    pub is_complete: bool,
    /// Files that cannot be read, a line each.
    pub notes: Vec<String>,
}

/// Waits until all nodes of a program have left their readings, at most for this long. `own` are
/// the readings of this node.
pub fn all_nodes(directory: &Path, own: &NodeRecord, at_most: Duration) -> NodesOfJob {
    let until = Instant::now() + at_most;
    let [mut pause, longest] = PAUSES;
    let mut read = BTreeMap::new();
    loop {
        let gathered = gathered(directory, own, &mut read);
        let left = until.saturating_duration_since(Instant::now());
        if gathered.is_complete || left.is_zero() {
            return gathered;
        }
        thread::sleep(pause.min(left));
        pause = (2 * pause).min(longest);
    }
}

/// Returns what the nodes have left until now. `read` has the complete readings so far.
fn gathered(
    directory: &Path,
    own: &NodeRecord,
    read: &mut BTreeMap<PathBuf, NodeRecord>,
) -> NodesOfJob {
    let (mut nodes, mut notes) = (Vec::new(), Vec::new());
    for (name, path) in latest(directory) {
        if let Some(record) = read.get(&name) {
            nodes.push(record.clone());
            continue;
        }
        match record(&path) {
            Ok(record) => {
                if has_ended(&record) {
                    read.insert(name, record.clone());
                }
                nodes.push(record);
            }
            Err(why) => notes.push(why),
        }
    }
    if !nodes.iter().any(|node| node.node == own.node) {
        nodes.push(own.clone());
    }
    let step = own.step.as_ref();
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
    let expected = step.map_or(&[][..], |step| &step.nodes);
    let missing = expected
        .iter()
        .filter(|name| !names.contains(name.as_str()));
    let missing: Vec<String> = missing.cloned().collect();
    let processes = nodes.iter().map(|node| node.step.as_ref()?.local_size);
    let processes = processes.sum::<Option<u32>>();
    let has_all = match (processes, step) {
        (Some(processes), Some(step)) => processes >= step.size,
        _ => missing.is_empty(),
    };
    NodesOfJob {
        is_complete: has_all && nodes.iter().all(has_ended),
        nodes,
        missing,
        notes,
    }
}

fn has_ended(record: &NodeRecord) -> bool {
    record.end.as_ref().is_some_and(|end| !end.is_interim)
}

fn record(path: &Path) -> Result<NodeRecord, String> {
    let bytes = fs::read(path).map_err(|error| cause(&error));
    let record = bytes.and_then(|bytes| NodeRecord::read(&bytes));
    record.map_err(|why| format!("cannot read {}: {why}", path.display()))
}

/// Returns what some counters of the nodes in a directory did over time.
pub fn series(directory: &Path) -> Vec<NodeSeries> {
    let files = step_directory::series(directory);
    files.iter().filter_map(|path| one_series(path)).collect()
}

/// Returns the series in a file. One that cannot be read costs a line.
pub fn one_series(path: &Path) -> Option<NodeSeries> {
    let text = fs::read_to_string(path).map_err(|error| cause(&error));
    let series = text.and_then(|text| NodeSeries::read(&text));
    let refused = |why| note(&format!("cannot read {}: {why}", path.display()));
    series.map_err(refused).ok()
}

/// Reports what the nodes in `directories` have read.
///
/// # Errors
///
/// A directory without files, a file that cannot be read, a finding of `--fail-on`.
pub fn merge(request: &StatRequest, directories: &[PathBuf]) -> Result<(), Failure> {
    let outputs = output::open(request)?;
    let mut nodes = Vec::new();
    for directory in directories {
        let files = latest(directory);
        if files.is_empty() {
            let why = format!("--merge: no files of stat in {}", directory.display());
            return Err(Failure::usage(why));
        }
        for path in files.values() {
            nodes.push(record(path).map_err(|why| Failure::usage(format!("--merge: {why}")))?);
        }
    }
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
    let expected = nodes.iter().filter_map(|node| node.step.as_ref());
    let expected: BTreeSet<&String> = expected.flat_map(|step| &step.nodes).collect();
    let missing = expected
        .into_iter()
        .filter(|name| !names.contains(name.as_str()));
    let missing: Vec<String> = missing.cloned().collect();
    let series = directories.iter().flat_map(|directory| series(directory));
    let job = JobStat::of(nodes, missing).with_series(series.collect());
    output::print(request, &job, &outputs)?;
    output::check(request, &job)
}
