//! The directory of one parallel program: each node leaves its readings there, so that they
//! survive the death of any process (monitoring.md 1.4).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use report::stat::record::{NodeRecord, StepRecord};

/// Beginning of the names of these directories.
const PREFIX: &str = "cxidiag-stat.";

/// Endings of the files of a node: its first reading, and all of it.
const START: &str = "start";
const END: &str = "json";

/// End of the name of the file with the series of a node.
const SERIES: &str = ".series.jsonl";

/// Names of files are at most this long, so a name of a node is shortened.
const LONGEST_NAME: usize = 200;

/// Nodes above which their files are in directories below it, and how many each of these has.
const MOST_FILES: usize = 512;
const FILES: u32 = 256;

/// The directory, with the files of this node.
#[derive(Debug)]
pub struct StepDirectory {
    path: PathBuf,
    /// Where the files of this node are: the directory itself, or one below it.
    of_node: PathBuf,
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
        let path = parent.join(format!("{PREFIX}{}", safe(key)));
        make_directory(&path)?;
        let index = step.filter(|step| step.nodes.len() > MOST_FILES);
        let index = index.and_then(|step| step.node_index);
        let of_node = match index {
            Some(index) => path.join((index / FILES).to_string()),
            None => path.clone(),
        };
        make_directory(&of_node)?;
        Ok(Self {
            path,
            of_node,
            node: safe(node),
        })
    }

    /// Writes the first reading of this node.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_start(&self, record: &NodeRecord) -> io::Result<()> {
        self.write(START, record)
    }

    /// Writes both readings of this node, in place of an earlier file.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_end(&self, record: &NodeRecord) -> io::Result<()> {
        self.write(END, record)
    }

    fn write(&self, ending: &str, record: &NodeRecord) -> io::Result<()> {
        replace(&self.file(ending), &record.bytes())
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.of_node.join(format!("{}.{ending}", self.node))
    }

    /// Returns the path of the file with the series of this node.
    pub fn series(&self) -> PathBuf {
        self.of_node.join(format!("{}{SERIES}", self.node))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the files of this node, and the directory if it is empty then.
    pub fn remove(&self) {
        for ending in [START, END] {
            let _ = fs::remove_file(self.file(ending));
        }
        let _ = fs::remove_file(self.series());
        // Other nodes may still have files in it.
        let _ = fs::remove_dir(&self.of_node);
        let _ = fs::remove_dir(&self.path);
    }

    /// Removes the files of all nodes.
    pub fn remove_all(&self) {
        for path in files(&self.path).into_iter().chain(series(&self.path)) {
            let _ = fs::remove_file(&path);
            if let Some(directory) = path.parent().filter(|of| *of != self.path) {
                let _ = fs::remove_dir(directory);
            }
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Returns the files of nodes, by their endings.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = all_files(directory);
    let is_of_node = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| [START, END].contains(&ending))
    };
    files.retain(is_of_node);
    files
}

/// Returns the files with series of nodes.
pub fn series(directory: &Path) -> Vec<PathBuf> {
    let mut files = all_files(directory);
    files.retain(|path| path.to_string_lossy().ends_with(SERIES));
    files
}

/// Returns all files in a directory, and in directories below it, in order.
fn all_files(directory: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let (below, mut files): (Vec<PathBuf>, Vec<PathBuf>) = entries(directory)
        .into_iter()
        .partition(|path| path.is_dir());
    files.extend(below.iter().flat_map(|path| entries(path)));
    files.sort();
    files
}

/// Returns the files of all nodes: the last one of each.
pub fn latest(directory: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let mut latest = BTreeMap::new();
    // `.json` comes before `.start`.
    for path in files(directory) {
        latest.entry(path.with_extension("")).or_insert(path);
    }
    latest
}

/// Writes a file whole or not at all: under another name first.
///
/// # Errors
///
/// A file that cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Returns a text as a part of the name of a file.
fn safe(text: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || ".-".contains(c) {
            c
        } else {
            '_'
        }
    };
    text.chars().take(LONGEST_NAME).map(safe).collect()
}
