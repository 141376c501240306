//! The directory of one parallel program: each node leaves its readings there, so that they
//! survive the death of any process (monitoring.md 1.4).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use report::stat::record::NodeRecord;

/// Beginning of the names of these directories.
const PREFIX: &str = "cxidiag-stat.";

/// Endings of the files of a node: its first reading, and all of it.
pub const START: &str = "start";
pub const END: &str = "json";

/// Names of files are at most this long, so a name of a node is shortened.
const LONGEST_NAME: usize = 200;

/// The directory, with the files of this node.
#[derive(Debug)]
pub struct StepDirectory {
    path: PathBuf,
    node: String,
}

impl StepDirectory {
    /// Makes the directory of the program `key` in `parent`, if another node has not made it yet.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made.
    pub fn make(parent: &Path, key: &str, node: &str) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", safe(key)));
        match fs::create_dir(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let node = safe(node);
        Ok(Self { path, node })
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
        self.path.join(format!("{}.{ending}", self.node))
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
        // Other nodes may still have files in it.
        let _ = fs::remove_dir(&self.path);
    }
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
