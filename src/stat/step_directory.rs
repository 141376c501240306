//! The directory of one parallel program: each node leaves its readings there, so that they
//! survive the death of any process (monitoring.md 1.4).

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::record::{NodeRecord, StepRecord};
use facts::user_file;
use rustix::process::getuid;

/// Beginning of the names of these directories.
const PREFIX: &str = "cxidiag-stat.";

/// Endings of the files of a node: its first reading, and all of it.
const START: &str = "start";
const END: &str = "json";

/// End of the name of the file with the series of a node.
const SERIES: &str = ".series.jsonl";

/// Names of files are at most this long, so a name of a node is shortened.
const LONGEST_NAME: usize = 200;

/// Files of nodes have fewer bytes: a series of a day with the shortest interval has half of them.
const LARGEST_FILE: u64 = 1 << 30;

/// Nodes above which their files are in directories below it, and how many each of these has.
const MOST_FILES: usize = 512;
const FILES: u32 = 256;

/// The directory, with the files of this node.
#[derive(Debug)]
pub struct StepDirectory {
    path: PathBuf,
    /// Where the files of this node are: the directory itself, or one below it.
    node_path: PathBuf,
    node: String,
}

impl StepDirectory {
    /// Makes the directory of the program `key` in `parent`, if another node has not made it yet.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made.
    pub fn make(
        parent: &Path,
        key: &str,
        node: &str,
        step: Option<&StepRecord>,
    ) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", shortened(key, LONGEST_NAME)));
        make_directory(&path)?;
        let index = step.filter(|step| step.nodes.len() > MOST_FILES);
        let index = index.and_then(|step| step.node_index);
        let node_path = match index {
            Some(index) => path.join((index / FILES).to_string()),
            None => path.clone(),
        };
        make_directory(&node_path)?;
        Ok(Self { path, node_path, node: node_name(node) })
    }

    /// The number of the next command of this node in its step, from 1 on. Files of earlier
    /// commands exist if the user kept them, or if a node was missing.
    pub fn next_run(&self) -> u32 {
        let last = [END, START].iter().find_map(|ending| {
            let bytes = read(&self.file(ending)).ok()?;
            Some(NodeRecord::read(&bytes).ok()?.run)
        });
        last.unwrap_or(0).saturating_add(1)
    }

    /// Writes the first reading of this node. Removes what an earlier command has left.
    pub fn write_start(&self, record: &NodeRecord) -> io::Result<()> {
        for old in [self.file(END), self.series()] {
            remove_if_there(&old)?;
        }
        self.write(START, record)
    }

    /// Writes both readings of this node, in place of an earlier file.
    pub fn write_end(&self, record: &NodeRecord) -> io::Result<()> {
        self.write(END, record)
    }

    /// Writes a file whole or not at all: under another name first, which is always the same. So
    /// the next command removes what a killed one has left.
    fn write(&self, ending: &str, record: &NodeRecord) -> io::Result<()> {
        let temporary = temporary(&self.node_path, &self.node, ending);
        remove_if_there(&temporary)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = options.open(&temporary)?;
        let written = file
            .write_all(&record.bytes())
            .and_then(|()| fs::rename(&temporary, self.file(ending)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.node_path.join(format!("{}.{ending}", self.node))
    }

    /// The path of the file with the series of this node.
    pub fn series(&self) -> PathBuf {
        self.node_path.join(format!("{}{SERIES}", self.node))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the files of this node, and the directory if it is empty then.
    pub fn remove(&self) {
        remove_files(&self.node_path, &self.node);
        // Other nodes may still have files in it.
        let _ = fs::remove_dir(&self.node_path);
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes the files of this node and of `others`, as [`latest`] names them, and the directory
    /// if it is empty then. The user may have put something there.
    pub fn remove_all(&self, others: &[PathBuf]) {
        for node in others {
            let name = node.file_name().and_then(|name| name.to_str());
            if let (Some(directory), Some(name)) = (node.parent(), name) {
                remove_files(directory, name);
                let _ = fs::remove_dir(directory);
            }
        }
        self.remove();
    }
}

fn remove_files(directory: &Path, node: &str) {
    for ending in [START, END] {
        let _ = fs::remove_file(directory.join(format!("{node}.{ending}")));
        let _ = fs::remove_file(temporary(directory, node, ending));
    }
    let _ = fs::remove_file(directory.join(format!("{node}{SERIES}")));
}

/// The name of a file of a node until it is complete.
fn temporary(directory: &Path, node: &str, ending: &str) -> PathBuf {
    directory.join(format!(".{node}.{ending}.new"))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    // For this user alone, whatever the umask is.
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Others may write to the parent: what they have put there is not used.
            let found = fs::symlink_metadata(path)?;
            if !found.is_dir() {
                return Err(ErrorKind::NotADirectory.into());
            }
            if found.uid() != getuid().as_raw() {
                return Err(ErrorKind::PermissionDenied.into());
            }
            Ok(())
        }
        made => made,
    }
}

/// The files of nodes, by their endings.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = all_files(directory);
    let is_of_node = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| [START, END].contains(&ending))
    };
    files.retain(is_of_node);
    files
}

/// The files with series of nodes.
pub fn series(directory: &Path) -> Vec<PathBuf> {
    let mut files = all_files(directory);
    files.retain(|path| path.to_string_lossy().ends_with(SERIES));
    files
}

/// All files in a directory, and in directories below it, in order. Follows no symlinks.
fn all_files(directory: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some((entry.path(), entry.file_type().ok()?)))
    };
    let mut files = Vec::new();
    for (path, kind) in entries(directory) {
        if kind.is_dir() {
            let below = entries(&path).filter(|(_, kind)| kind.is_file());
            files.extend(below.map(|(path, _)| path));
        } else if kind.is_file() {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The files of all nodes: the last one of each.
pub fn latest(directory: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let mut latest = BTreeMap::new();
    // `.json` comes before `.start`.
    for path in files(directory) {
        latest.entry(path.with_extension("")).or_insert(path);
    }
    latest
}

/// Writes a file whole or not at all: under another name first.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".cxidiag-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Reads a file that others may have written.
///
/// # Errors
///
/// What is not a regular file, such as a pipe, and a file of any size that `stat` does not write.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe without a writer would block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    user_file::bytes(path, LARGEST_FILE)
}

/// The name of the files of a node, without their endings.
pub fn node_name(node: &str) -> String {
    shortened(node, LONGEST_NAME)
}

/// The file with the first reading of a node that has left `file`; `None` if that is the one.
pub fn start_of(file: &Path) -> Option<PathBuf> {
    let start = file.with_extension(START);
    (start != file).then_some(start)
}

/// Makes a text safe for the name of a file: at most `longest` characters, and none with a meaning
/// in paths.
pub fn shortened(text: &str, longest: usize) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' }
    };
    text.chars().take(longest).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::fs::symlink;

    use crate::record::FORMAT;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn replaces_a_file_and_not_what_a_symlink_names() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("other"), "other").unwrap();
        symlink(at("other"), at("file")).unwrap();
        replace(&at("file"), b"new").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"new");
        assert_eq!(fs::read(at("other")).unwrap(), b"other");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn reads_regular_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe.json");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(read(&pipe).unwrap_err().to_string(), "not a regular file");
        assert!(read(Path::new("/dev/zero")).is_err());
        let file = directory.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(read(&file).unwrap(), b"text");
        let huge = fs::File::create(&file).unwrap();
        huge.set_len(LARGEST_FILE + 1).unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("1024 MiB"), "{error}");
    }

    #[test]
    fn refuses_directories_that_others_have_made() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        symlink(&other, directory.path().join("cxidiag-stat.1.0")).unwrap();
        let made = |key: &str| StepDirectory::make(directory.path(), key, "nid1", None);
        assert_eq!(made("1.0").unwrap_err().kind(), ErrorKind::NotADirectory);
        made("1.1").unwrap();
        made("1.1").unwrap();
    }

    #[test]
    fn removes_files_of_its_nodes_only() {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("x.json"), "").unwrap();
        let step = StepDirectory::make(directory.path(), "1.0", "nid1.a", None).unwrap();
        symlink(&other, step.path().join("0")).unwrap();
        let files = |node: &str| {
            for ending in [".start", ".json", ".series.jsonl"] {
                fs::write(step.path().join(format!("{node}{ending}")), "").unwrap();
            }
            fs::write(step.path().join(format!(".{node}.json.new")), "").unwrap();
        };
        ["nid1.a", "nid2.a", "other.a"].into_iter().for_each(files);
        let nodes = latest(step.path()).into_keys();
        let nodes: Vec<PathBuf> = nodes.filter(|name| name.ends_with("nid2.a")).collect();
        step.remove_all(&nodes);
        assert!(other.join("x.json").exists());
        let left = all_files(step.path());
        assert_eq!(left.len(), 4, "{left:?}");
        let is_of_other = |path: &PathBuf| path.to_string_lossy().contains("other.a");
        assert!(left.iter().all(is_of_other), "{left:?}");
    }

    #[test]
    fn counts_the_commands_of_a_node() {
        let directory = tempfile::tempdir().unwrap();
        let step = StepDirectory::make(directory.path(), "1.0", "nid1", None).unwrap();
        assert_eq!(step.next_run(), 1);
        let mut record = record();
        record.run = 4;
        fs::write(step.path().join(".nid1.start.new"), "of a killed command").unwrap();
        step.write_start(&record).unwrap();
        assert_eq!(step.next_run(), 5);
        record.run = 7;
        step.write_end(&record).unwrap();
        assert_eq!(step.next_run(), 8);
        step.write_start(&record).unwrap();
        assert!(!step.file(END).exists());
        step.remove();
        assert!(!step.path().exists());
    }

    fn record() -> NodeRecord {
        NodeRecord {
            stat_format: FORMAT,
            cxidiag_version: String::new(),
            node: "nid1".into(),
            boot_id: None,
            step: None,
            job_nodes: None,
            run: 1,
            command: Vec::new(),
            set: "job".into(),
            counters: Vec::new(),
            started_unix_ns: 0,
            started_ns: 0,
            end: None,
            nics: Vec::new(),
        }
    }

    #[test]
    fn nodes_of_large_programs_have_directories_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let step = |index, count: usize| StepRecord {
            name: "step".into(),
            node_index: Some(index),
            nodes: (0..count).map(|node| node.to_string()).collect(),
            local_size: Some(1),
            size: 513,
        };
        let series = |index, count| {
            let step = step(index, count);
            StepDirectory::make(directory.path(), "1.0", "nid", Some(&step)).unwrap()
        };
        let path = |index, count| {
            let path = series(index, count).series();
            let below = path.strip_prefix(directory.path().join("cxidiag-stat.1.0"));
            below.unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(path(511, 512), "nid.series.jsonl");
        assert_eq!(path(255, 513), "0/nid.series.jsonl");
        assert_eq!(path(256, 513), "1/nid.series.jsonl");
        let node_directory = series(512, 513);
        fs::write(node_directory.node_path.join("nid.json"), "").unwrap();
        assert_eq!(latest(node_directory.path()).len(), 1);
        node_directory.remove_all(&[]);
        assert!(!node_directory.node_path.exists());
    }
}
