//! The report of all nodes, from their files (monitoring.md 1.4).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::note::note;
use super::options::StatRequest;
use super::output;
use super::step_directory::{self, latest};
use crate::job::JobStat;
use crate::record::NodeRecord;
use crate::series::NodeSeries;
use cli::output::or_early_failure;
use facts::error::{Failure, cause};
use facts::host::HostIndex;

/// Pauses of the first node while it waits for the others.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// What the nodes of a program have left.
pub struct NodesOfJob {
    /// The readings of the nodes.
    pub nodes: Vec<NodeRecord>,
    /// The names of the files of the other nodes that have an end, without endings.
    pub files: Vec<PathBuf>,
    /// Nodes that have left nothing, as far as their names are known.
    pub missing: Vec<String>,
    /// Whether all nodes have an end.
    pub is_complete: bool,
    /// Files that cannot be read, a line each.
    pub notes: Vec<String>,
}

/// The default time that the first node waits for the others: this, and a part of the time of the
/// command, because nodes of a long run end further apart.
const GATHER: Duration = Duration::from_secs(10);
const PART_OF_RUN: u32 = 20;
/// The longest of these times.
const LONGEST_GATHER: Duration = Duration::from_secs(300);

/// How many times longer the first node waits for nodes whose command has begun and not ended.
const LONGER_FOR_STARTED: u32 = 3;

/// Returns how long the first node waits for the others after a run of this length.
pub fn default_wait(elapsed: Duration) -> Duration {
    (GATHER + elapsed / PART_OF_RUN).min(LONGEST_GATHER)
}

/// Waits until all nodes of a program have left their readings, at most for this long, and longer
/// while the command of another node runs. `own` are the readings of this node. `pause_for` pauses
/// for a time, and returns whether to go on waiting.
pub fn all_nodes(
    directory: &Path,
    own: &NodeRecord,
    at_most: Duration,
    mut pause_for: impl FnMut(Duration) -> bool,
) -> NodesOfJob {
    let begun = Instant::now();
    let [mut pause, longest] = PAUSES;
    let mut ended = BTreeMap::new();
    loop {
        let (others, notes) = read_new(directory, own, &mut ended);
        let nodes: Vec<&NodeRecord> = ended.values().chain(&others).chain([own]).collect();
        let missing = missing(&nodes);
        let is_complete = is_complete(&nodes, &missing);
        let at_most = if others.is_empty() { at_most } else { at_most * LONGER_FOR_STARTED };
        let left = at_most.saturating_sub(begun.elapsed());
        if is_complete || left.is_zero() || !pause_for(pause.min(left)) {
            let (files, ended): (Vec<PathBuf>, Vec<NodeRecord>) = ended.into_iter().unzip();
            let nodes = ended.into_iter().chain(others).chain([own.clone()]);
            return NodesOfJob { nodes: nodes.collect(), files, missing, is_complete, notes };
        }
        pause = (2 * pause).min(longest);
    }
}

/// Reads the files of other nodes, except for the nodes in `ended` and for files of an earlier
/// command. Adds the nodes whose command has ended to `ended`. Returns the records of the others,
/// and a line for each unreadable file. The record of this node is known already: its file may be
/// missing or old.
fn read_new(
    directory: &Path,
    own: &NodeRecord,
    ended: &mut BTreeMap<PathBuf, NodeRecord>,
) -> (Vec<NodeRecord>, Vec<String>) {
    let (mut others, mut notes) = (Vec::new(), Vec::new());
    let own_name = step_directory::node_name(&own.node);
    let is_own =
        |name: &Path| name.file_name().is_some_and(|file_name| file_name == own_name.as_str());
    for (name, path) in latest(directory) {
        if is_own(&name) || ended.contains_key(&name) {
            continue;
        }
        match record_or_start(&path, &mut notes) {
            Some(record) if record.is_before(own) => {}
            Some(record) if has_ended(&record) => {
                ended.insert(name, record);
            }
            found => others.extend(found),
        }
    }
    (others, notes)
}

/// Whether all nodes of a program have an end, as far as is known.
fn is_complete(nodes: &[&NodeRecord], missing: &[String]) -> bool {
    let has_names = || {
        let mut steps = nodes.iter().filter_map(|node| node.step.as_ref());
        steps.all(|step| !step.nodes.is_empty())
    };
    // Without names, nothing shows how many nodes there are.
    let has_all = has_all_processes(nodes).unwrap_or_else(|| missing.is_empty() && has_names());
    has_all && nodes.iter().all(|node| has_ended(node))
}

/// Whether the nodes have all processes of their program; `None` if they do not show it.
fn has_all_processes(nodes: &[&NodeRecord]) -> Option<bool> {
    let processes = nodes.iter().map(|node| node.step.as_ref()?.local_size);
    let size = nodes.iter().find_map(|node| node.step.as_ref())?.size;
    Some(processes.sum::<Option<u32>>()? >= size)
}

/// The names of the nodes that have left nothing. A launcher may name nodes on which the program
/// has no processes.
fn missing(nodes: &[&NodeRecord]) -> Vec<String> {
    if has_all_processes(nodes) == Some(true) {
        return Vec::new();
    }
    let present = HostIndex::new(nodes.iter().map(|node| node.node.as_str()));
    let expected = nodes.iter().filter_map(|node| node.step.as_ref());
    let expected: BTreeSet<&String> = expected.flat_map(|step| &step.nodes).collect();
    let missing = expected.into_iter().filter(|name| present.find(name).is_none());
    missing.cloned().collect()
}

/// Reads the record of a node. If its file is unreadable, reads the file that the node wrote before
/// its command. Adds a line to `notes` for each unreadable file.
fn record_or_start(path: &Path, notes: &mut Vec<String>) -> Option<NodeRecord> {
    let start = step_directory::start_of(path);
    [Some(path), start.as_deref()]
        .into_iter()
        .flatten()
        .find_map(|path| record(path).map_err(|why| notes.push(why)).ok())
}

fn has_ended(record: &NodeRecord) -> bool {
    record.end.as_ref().is_some_and(|end| !end.is_interim)
}

fn record(path: &Path) -> Result<NodeRecord, String> {
    let bytes = step_directory::read(path).map_err(|error| cause(&error));
    let record = bytes.and_then(|bytes| NodeRecord::read(&bytes));
    record.map_err(|why| format!("cannot read {}: {why}", path.display()))
}

/// Returns what some counters of the nodes in a directory did over time.
pub fn series(directory: &Path) -> Vec<NodeSeries> {
    let files = step_directory::series(directory);
    files.iter().filter_map(|path| one_series(path)).collect()
}

/// The series in a file. One that cannot be read costs a line.
pub fn one_series(path: &Path) -> Option<NodeSeries> {
    let bytes = step_directory::read(path).map_err(|error| cause(&error));
    let series = bytes.and_then(|bytes| NodeSeries::read(&String::from_utf8_lossy(&bytes)));
    series.map_err(|why| note(&format!("cannot read {}: {why}", path.display()))).ok()
}

/// Reports what the nodes in `directories` have read.
///
/// # Errors
///
/// A directory without files, a file that cannot be read, a finding of `--fail-on`.
pub fn merge(request: &StatRequest, directories: &[PathBuf]) -> Result<(), Failure> {
    let outputs = or_early_failure(request.json.as_ref(), output::open(request, None))?;
    let job = outputs.or_failure(merged(directories))?;
    output::print(request, &job, &outputs)?;
    output::check(request, &job)
}

/// Returns what the nodes in `directories` have read.
fn merged(directories: &[PathBuf]) -> Result<JobStat, Failure> {
    let (mut nodes, mut notes) = (Vec::new(), Vec::new());
    let mut known = BTreeSet::new();
    for directory in directories {
        let files = latest(directory);
        if directory.canonicalize().is_ok_and(|path| !known.insert(path)) {
            let why = format!("--merge: {} is named twice", directory.display());
            return Err(Failure::usage(why));
        }
        if files.is_empty() {
            let why = format!("--merge: no files of stat in {}", directory.display());
            return Err(Failure::usage(why));
        }
        for path in files.values() {
            nodes.extend(record_or_start(path, &mut notes));
        }
    }
    if nodes.is_empty() {
        let why = notes.first().map_or("no directory", String::as_str);
        return Err(Failure::usage(format!("--merge: {why}")));
    }
    notes.extend(leave_out_earlier(&mut nodes));
    for line in &notes {
        note(line);
    }
    let missing = missing(&nodes.iter().collect::<Vec<_>>());
    let series = directories.iter().flat_map(|directory| series(directory));
    Ok(JobStat::of(nodes, missing).with_series(series.collect()))
}

/// Removes the records of commands before the last one. Returns a line about them.
fn leave_out_earlier(nodes: &mut Vec<NodeRecord>) -> Option<String> {
    let last = nodes.iter().max_by_key(|node| node.run)?.clone();
    let is_earlier = |node: &NodeRecord| node.is_before(&last);
    let earlier = nodes.extract_if(.., |node| is_earlier(node));
    let names: Vec<String> = earlier.map(|node| node.node).collect();
    (!names.is_empty())
        .then(|| format!("left out, because they are of an earlier command: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    use crate::record::{EndRecord, EndStatus, FORMAT, StepRecord};

    /// The readings of a node of a program with three processes.
    fn node(name: &str, local_size: Option<u32>, nodes: &[&str]) -> NodeRecord {
        NodeRecord {
            stat_format: FORMAT,
            cxidiag_version: String::new(),
            node: name.into(),
            boot_id: None,
            run: 1,
            step: Some(StepRecord {
                name: "step".into(),
                node_index: None,
                nodes: nodes.iter().map(|&name| name.to_owned()).collect(),
                local_size,
                size: 3,
            }),
            job_nodes: None,
            command: Vec::new(),
            set: "job".into(),
            counters: Vec::new(),
            started_unix_ns: 0,
            started_ns: 0,
            end: Some(EndRecord {
                unix_ns: 1,
                ns: 1,
                status: Some(EndStatus::Exit(0)),
                is_interim: false,
                still_running: 0,
            }),
            nics: Vec::new(),
        }
    }

    #[test]
    fn help_states_the_time_to_wait() {
        let options = crate::usage().options;
        let gather = options.iter().find(|option| option.long == "gather").expect("an option");
        let default = gather.default().expect("a default");
        assert!(default.starts_with(&humantime::format_duration(GATHER).to_string()), "{default}");
    }

    #[test]
    fn waits_longer_for_nodes_whose_command_runs() {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        assert_eq!(default_wait(Duration::ZERO), Duration::from_secs(10));
        assert_eq!(default_wait(minutes(60)), Duration::from_secs(190));
        assert_eq!(default_wait(minutes(6000)), LONGEST_GATHER);
        // The time is up for a node without a file, not for one whose command has begun.
        let directory = tempfile::tempdir().unwrap();
        let own = node("a", Some(1), &["a", "b"]);
        let mut pauses = 0;
        let mut wait = |at_most| {
            pauses = 0;
            let found = all_nodes(directory.path(), &own, at_most, |_| {
                pauses += 1;
                false
            });
            (found.is_complete, pauses)
        };
        assert_eq!(wait(Duration::ZERO), (false, 0));
        let mut other = node("b", Some(2), &["a", "b"]);
        other.end = None;
        fs::write(directory.path().join("b.start"), other.bytes()).unwrap();
        assert_eq!(wait(minutes(1)), (false, 1));
    }

    fn gather(directory: &Path, own: &NodeRecord) -> NodesOfJob {
        all_nodes(directory, own, Duration::ZERO, |_| unreachable!())
    }

    #[test]
    fn own_readings_come_from_memory() {
        let directory = tempfile::tempdir().unwrap();
        let own = node("a", Some(3), &["a"]);
        let mut old = own.clone();
        old.end = None;
        fs::write(directory.path().join("a.start"), old.bytes()).unwrap();
        let found = gather(directory.path(), &own);
        assert_eq!(found.nodes, [own]);
        assert!(found.is_complete);
    }

    #[test]
    fn program_is_complete_when_the_processes_add_up() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["a", "b", "unused"];
        let own = node("a", Some(2), &names);
        let before = gather(directory.path(), &own);
        assert_eq!(before.missing, ["b", "unused"]);
        assert!(!before.is_complete);
        let other = node("b", Some(1), &names);
        fs::write(directory.path().join("b.json"), other.bytes()).unwrap();
        let all = gather(directory.path(), &own);
        assert!(all.missing.is_empty() && all.is_complete);
    }

    /// The file of PBS has full names, which the hosts themselves do not use.
    #[test]
    fn node_is_not_missing_under_another_form_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let own = node("a", Some(1), &["A.cluster.example", "b.cluster.example"]);
        let found = gather(directory.path(), &own);
        assert_eq!(found.missing, ["b.cluster.example"]);
    }

    #[test]
    fn program_without_names_and_numbers_is_never_complete() {
        let directory = tempfile::tempdir().unwrap();
        let found = gather(directory.path(), &node("a", None, &[]));
        assert!(found.missing.is_empty() && !found.is_complete);
        assert!(gather(directory.path(), &node("a", None, &["a"])).is_complete);
    }

    /// The first node runs a second command, and another node has not begun it yet.
    #[test]
    fn readings_of_an_earlier_command_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let mut own = node("a", Some(1), &["a", "b"]);
        (own.run, own.started_unix_ns) = (2, 10);
        let mut other = node("b", Some(2), &["a", "b"]);
        let file = directory.path().join("b.json");
        fs::write(&file, other.bytes()).unwrap();
        let found = gather(directory.path(), &own);
        assert_eq!(found.nodes, [own.clone()]);
        assert_eq!((&*found.missing, &*found.files), (&["b".to_owned()][..], &[][..]));
        let mut nodes = vec![other.clone(), own.clone()];
        let line = leave_out_earlier(&mut nodes).unwrap();
        assert!(line.ends_with(": b"), "{line}");
        assert_eq!(nodes, [own.clone()]);
        other.run = 2;
        fs::write(&file, other.bytes()).unwrap();
        let found = gather(directory.path(), &own);
        assert_eq!(found.nodes, [other, own]);
        assert_eq!(found.files, [directory.path().join("b")]);
    }

    #[test]
    fn first_reading_takes_the_place_of_a_torn_file() {
        let directory = tempfile::tempdir().unwrap();
        let own = node("a", Some(1), &["a", "b"]);
        let other = node("b", Some(2), &["a", "b"]);
        let bytes = other.bytes();
        fs::write(directory.path().join("b.json"), &bytes[..bytes.len() / 2]).unwrap();
        fs::write(directory.path().join("b.start"), bytes).unwrap();
        let found = gather(directory.path(), &own);
        assert_eq!(found.nodes, [other, own]);
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    }
}
