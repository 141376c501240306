//! Reads files that may not answer: a FIFO in the place of a file, a file system whose server is
//! gone, a driver that hangs. A thread reads each file, and is given up after a limit. It ends with
//! the process.
//!
//! Only `check` has these limits: threads that read cost time, which other commands measure.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use facts::{interrupt, limit, threads};

/// How long a file may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a file may take when another one has not answered: many files of a device may hang.
const LATER_LIMIT: Duration = Duration::from_millis(500);

/// Most files that are waited for in vain.
const MOST_UNANSWERED: usize = 16;

/// Interval at which a wait looks for an interruption.
const SLICE: Duration = Duration::from_millis(20);

/// Why a file that does not answer has no value.
pub const NO_ANSWER: &str = "unreadable: no answer";

static IS_LIMITED: AtomicBool = AtomicBool::new(false);
static UNANSWERED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Limits the time of each further reading in this process.
pub fn limit_waits() {
    IS_LIMITED.store(true, Ordering::Relaxed);
}

/// Returns the files that have not answered.
pub fn unanswered() -> Vec<PathBuf> {
    unanswered_files().clone()
}

fn unanswered_files() -> MutexGuard<'static, Vec<PathBuf>> {
    UNANSWERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the text of a file.
///
/// # Errors
///
/// The errors of the file system; [`ErrorKind::TimedOut`] if there is no answer, and
/// [`ErrorKind::Interrupted`] if the user has ended the run.
pub fn text(path: &Path) -> io::Result<String> {
    within_limit(path, |path| fs::read_to_string(path))
}

/// Returns the names in a directory.
///
/// # Errors
///
/// The errors of [`text`].
pub fn names(path: &Path) -> io::Result<Vec<OsString>> {
    let read = |path: &Path| {
        let entries = fs::read_dir(path)?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    };
    within_limit(path, read)
}

/// Returns whether there is a file or directory.
pub fn exists(path: &Path) -> bool {
    within_limit(path, |path| fs::metadata(path)).is_ok()
}

/// Returns the path without symbolic links.
///
/// # Errors
///
/// The errors of [`text`].
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    within_limit(path, |path| fs::canonicalize(path))
}

fn within_limit<T: Send + 'static>(path: &Path, read: fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if !IS_LIMITED.load(Ordering::Relaxed) {
        return read(path);
    }
    let no_answer = || io::Error::new(ErrorKind::TimedOut, NO_ANSWER);
    let limit = match unanswered_files().len() {
        0 => limit::in_effect(LIMIT),
        1..MOST_UNANSWERED => LATER_LIMIT,
        _ => return Err(no_answer()),
    };
    let (sender, answer) = sync_channel(1);
    let file = path.to_owned();
    // The receiver is gone if this thread was given up.
    let work = move || drop(sender.send(read(&file)));
    if threads::start("reading", work).is_err() {
        // A limit of this process says nothing about the file.
        return read(path);
    }
    let until = Instant::now() + limit;
    loop {
        match answer.recv_timeout(SLICE) {
            Ok(read) => return read,
            Err(RecvTimeoutError::Disconnected) => return Err(no_answer()),
            Err(RecvTimeoutError::Timeout) if interrupt::requested() => {
                return Err(ErrorKind::Interrupted.into());
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    unanswered_files().push(path.to_owned());
    Err(no_answer())
}
