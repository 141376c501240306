//! Data -> JSON, and back (docs/output-formats.md, docs/*.schema.json). All documents and lines are
//! written here.
//!
//! `--jsonl` appends one line for each run to a file that other programs may append to as well. A
//! lock keeps the lines of several writers apart, also on NFS, where appending is not atomic. A
//! writer that is killed may leave a part of a line; the next one then begins a new line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{iter, thread};

use facts::error::{Context, Failure};
use facts::{interrupt, text};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::destination::cannot_write;
use crate::stream::Stream;

/// Largest number of a result: no NIC can show as much, in any unit.
pub const LARGEST: f64 = 1e21;

/// What a failure is about.
const WHAT: &str = "cannot write JSON";

/// How values are laid out. With one type for both ways, each document is compiled once.
enum JsonLayout {
    /// With a line for each field and each entry.
    Lines(PrettyFormatter<'static>),
    Line(CompactFormatter),
}

/// Passes each call to the formatter of the layout.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $ty:ty)?)),*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, to: &mut W $(, $argument: $ty)?) -> io::Result<()> {
            match self {
                Self::Lines(formatter) => formatter.$name(to $(, $argument)?),
                Self::Line(formatter) => formatter.$name(to $(, $argument)?),
            }
        })*
    };
}

impl Formatter for JsonLayout {
    passed_on! {
        begin_array(), begin_array_value(is_first: bool), end_array_value(), end_array(),
        begin_object(), begin_object_key(is_first: bool), begin_object_value(),
        end_object_value(), end_object()
    }

    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        CompactFormatter.write_f64(to, value.clamp(-LARGEST, LARGEST))
    }
}

/// A document as a type, or a reason that names the key of what is wrong.
pub fn read<T: DeserializeOwned>(document: &[u8]) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_slice(document);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let key = match error.path().to_string().as_str() {
            "." => String::new(),
            key => format!("{key}: "),
        };
        // Without the place in the document, whose lines people do not read.
        let error = error.into_inner();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let why = error.to_string();
        let why = why.strip_suffix(&place).unwrap_or(&why);
        let mut what = format!("{key}{why}");
        text::accept(&mut what);
        what
    })
}

/// A value as a document of many lines.
///
/// # Errors
///
/// None in practice: the document is made in memory.
pub fn document(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    write_document(&mut bytes, value).environment(WHAT)?;
    Ok(bytes)
}

/// Writes a value as a document of many lines.
///
/// # Errors
///
/// Errors of `to`.
pub fn write_document(to: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(to, value, JsonLayout::Lines(PrettyFormatter::new()))
}

/// A value as a document of one line.
///
/// # Errors
///
/// None in practice: the line is made in memory.
pub fn line(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    write(&mut bytes, value, JsonLayout::Line(CompactFormatter)).environment(WHAT)?;
    Ok(bytes)
}

fn write(to: &mut dyn Write, value: &impl Serialize, layout: JsonLayout) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *to, layout))?;
    to.write_all(b"\n")
}

/// Longest wait for other writers, each of which takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two attempts to lock the file.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// A file to which a line can be appended.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    /// The path without symbolic links, of a regular file.
    target: PathBuf,
    /// A pipe or a device, which stays open: the reader of a pipe leaves when the last writer does.
    device: Option<File>,
}

impl JsonLines {
    /// Checks that lines can be appended to `path`, which is created if it does not exist.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let opened = || {
            let file = open(path)?;
            // A pipe of this process has no name.
            let (target, device) = if file.metadata()?.is_file() {
                (path.canonicalize()?, None)
            } else {
                (path.into(), Some(file))
            };
            Ok(Self { path: path.into(), target, device })
        };
        opened().map_err(|error| cannot_write(path, &error))
    }

    /// The file that is written.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Appends one line with the document.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or another program keeps it locked.
    pub fn append(&self, document: &impl Serialize) -> Result<(), Failure> {
        self.append_all(iter::once(document))
    }

    /// Appends one line for each document, in one write.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or another program keeps it locked.
    pub fn append_all(
        &self,
        documents: impl IntoIterator<Item = impl Serialize>,
    ) -> Result<(), Failure> {
        let mut lines = Vec::new();
        for document in documents {
            lines.extend(line(&document)?);
        }
        let written = match &self.device {
            Some(device) => Stream::to(device).write_all(&lines),
            None => open(&self.path).and_then(|mut file| append(&mut file, lines, LOCK_TIMEOUT)),
        };
        written.map_err(|error| cannot_write(&self.path, &error))
    }
}

/// Opens the file. A regular file is opened anew for each line: a rotated file gets no further
/// ones.
fn open(path: &Path) -> io::Result<File> {
    // A pipe is not opened for reading: it has a reader of its own.
    let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
    let is_missing = fs::symlink_metadata(path).is_err();
    OpenOptions::new().append(true).create(true).read(is_file || is_missing).open(path)
}

/// Appends lines in one write, under a lock.
fn append(file: &mut File, mut lines: Vec<u8>, longest: Duration) -> io::Result<()> {
    let is_locked = lock(file, longest)?;
    let length = file.seek(SeekFrom::End(0))?;
    if !ends_with_newline(file, length)? {
        lines.insert(0, b'\n');
    }
    // The lock ends with the file.
    file.write_all(&lines).inspect_err(|_| {
        // A full disk: the part that was written is of no use. Without the lock, lines of others
        // may follow it.
        if is_locked {
            let _ = file.set_len(length);
        }
    })
}

fn ends_with_newline(file: &mut File, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

/// Locks the file. Returns false on a file system without locks, where only the kernel keeps
/// appended lines apart.
fn lock(file: &File, longest: Duration) -> io::Result<bool> {
    let end = Instant::now() + longest;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK | Errno::INTR)
                if Instant::now() < end && !interrupt::hurried() =>
            {
                thread::sleep(LOCK_INTERVAL);
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                let seconds = longest.as_secs();
                return Err(io::Error::other(format!(
                    "another program has locked it for {seconds} s"
                )));
            }
            // File systems without locks have many numbers for that, such as 524 of NFS.
            Err(_) => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn lays_values_out_as_serde_json_does() {
        let value = serde_json::json!({"a": [1, {}, []], "b": {"c": null, "d": [[0.5], "x"]}});
        let expected = serde_json::to_string_pretty(&value).unwrap() + "\n";
        assert_eq!(document(&value).unwrap(), expected.as_bytes());
        assert_eq!(line(&value).unwrap(), format!("{value}\n").as_bytes());
    }

    #[test]
    fn bounds_numbers_as_readers_do() {
        let numbers = [1e308, 1e21, -0.5, -1e22, 1e-320];
        assert_eq!(line(&numbers).unwrap(), b"[1e+21,1e+21,-0.5,-1e+21,1e-320]\n");
    }

    #[test]
    fn appends_one_line_for_each_document() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        for number in 1..=2 {
            let lines = JsonLines::open(&path).unwrap();
            lines.append(&serde_json::json!({"text": "a\nb", "n": number})).unwrap();
        }
        let expected = "{\"n\":1,\"text\":\"a\\nb\"}\n{\"n\":2,\"text\":\"a\\nb\"}\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn appends_lines_of_several_documents() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let lines = JsonLines::open(&path).unwrap();
        lines.append_all([1, 2]).unwrap();
        lines.append_all([0; 0]).unwrap();
        lines.append_all(vec![3]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n3\n");
    }

    #[test]
    fn begins_a_line_after_a_partial_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        fs::write(&path, "{\"n\":").unwrap();
        JsonLines::open(&path).unwrap().append(&1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":\n1\n");
    }

    #[test]
    fn fails_on_a_file_that_stays_locked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let other = open(&path).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        let result = append(&mut open(&path).unwrap(), b"1\n".to_vec(), Duration::ZERO);
        assert!(result.unwrap_err().to_string().contains("locked"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    /// The reader of a pipe reads to the end of the last writer: it stays until all runs have
    /// ended.
    #[test]
    fn keeps_a_pipe_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let reader = thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        let lines = JsonLines::open(&path).unwrap();
        lines.append(&1).unwrap();
        lines.append(&2).unwrap();
        drop(lines);
        assert_eq!(reader.join().unwrap(), "1\n2\n");
    }

    /// `/dev/stdout` in a pipe
    #[test]
    fn writes_to_a_pipe_without_a_name() {
        let (reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let lines = JsonLines::open(Path::new(&path)).unwrap();
        lines.append(&1).unwrap();
        drop((lines, writer));
        assert_eq!(io::read_to_string(reader).unwrap(), "1\n");
    }

    #[test]
    fn writes_to_devices() {
        JsonLines::open(Path::new("/dev/null")).unwrap().append(&1).unwrap();
        let full = JsonLines::open(Path::new("/dev/full")).unwrap();
        let failure = full.append(&1).unwrap_err();
        assert!(failure.message().contains("No space left"), "{}", failure.message());
    }

    #[test]
    fn refuses_unwritable_paths_at_once() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().to_owned(), directory.path().join("no/such")] {
            let failure = JsonLines::open(&path).unwrap_err();
            assert!(failure.message().starts_with("cannot write "), "{}", failure.message());
        }
    }
}
