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
    let mut ended = BTreeMap::new();
    loop {
        let (others, notes) = read_new(directory, &mut ended);
        let nodes = || ended.values().chain(&others);
        let progress = Progress::of(own, nodes());
        let left = until.saturating_duration_since(Instant::now());
        if progress.is_complete || left.is_zero() {
            let is_own = nodes().any(|node| node.node == own.node);
            let mut nodes: Vec<NodeRecord> = ended.into_values().chain(others).collect();
            nodes.extend((!is_own).then(|| own.clone()));
            return NodesOfJob {
                nodes,
                missing: progress.missing,
                is_complete: progress.is_complete,
                notes,
            };
        }
        thread::sleep(pause.min(left));
        pause = (2 * pause).min(longest);
    }
}

/// Reads the files of nodes that are not among the `ended` ones, and adds those that have an end to
/// them. Returns the others, and a line for each file that cannot be read.
fn read_new(
    directory: &Path,
    ended: &mut BTreeMap<PathBuf, NodeRecord>,
) -> (Vec<NodeRecord>, Vec<String>) {
    let (mut others, mut notes) = (Vec::new(), Vec::new());
    for (name, path) in latest(directory) {
        if ended.contains_key(&name) {
            continue;
        }
        match record(&path) {
            Ok(record) if has_ended(&record) => {
                ended.insert(name, record);
            }
            Ok(record) => others.push(record),
            Err(why) => notes.push(why),
        }
    }
    (others, notes)
}

/// Which nodes of a program have left their readings.
struct Progress {
    missing: Vec<String>,
    is_complete: bool,
}

impl Progress {
    /// `own` are the readings of this node, which may not be among `nodes`.
    fn of<'a>(own: &'a NodeRecord, nodes: impl Iterator<Item = &'a NodeRecord>) -> Self {
        let mut nodes: BTreeMap<&str, &NodeRecord> =
            nodes.map(|node| (node.node.as_str(), node)).collect();
        nodes.entry(&own.node).or_insert(own);
        let step = own.step.as_ref();
        let expected = step.map_or(&[][..], |step| &step.nodes);
        let is_missing = |name: &&String| !nodes.contains_key(name.as_str());
        let missing: Vec<String> = expected.iter().filter(is_missing).cloned().collect();
        let processes = nodes.values().map(|node| node.step.as_ref()?.local_size);
        let has_all = match (processes.sum::<Option<u32>>(), step) {
            (Some(processes), Some(step)) => processes >= step.size,
            _ => missing.is_empty(),
        };
        Self {
            missing,
            is_complete: has_all && nodes.values().all(|node| has_ended(node)),
        }
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
