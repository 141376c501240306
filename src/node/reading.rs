//! Reads files that may not answer: a FIFO in the place of a file, a file system whose server is
//! gone, a driver that hangs. A thread reads each file, and is given up after a limit. It ends with
//! the process.
//!
//! Only `check` has these limits: threads that read cost time, which other commands measure.
//!
//! A counter that is there but cannot be read, as of a NIC in reset, is remembered with the reason:
//! it differs from a file that the driver does not have.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::programs;
use facts::error::cause;
use facts::{interrupt, limit, threads};
use rustix::io::Errno;

/// How long a file may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a file may take when another one has not answered: many files of a device may hang.
const LATER_LIMIT: Duration = Duration::from_millis(500);

/// Most files that are waited for in vain.
const MOST_UNANSWERED: usize = 16;

/// Interval at which a wait looks for an interruption.
const SLICE: Duration = Duration::from_millis(20);

/// Why a file that does not answer has no value.
const NO_ANSWER: &str = "no answer";

/// The directory of the counters of a NIC (health.md 1).
const COUNTERS: &str = "telemetry";

/// Errors of the counters of a device that is in reset, failed or was removed. A sensor that a
/// board lacks may give them too.
const DEVICE_ERRORS: [Errno; 4] = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::REMOTEIO];

static IS_LIMITED: AtomicBool = AtomicBool::new(false);
static UNREADABLE: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
static UNANSWERED: AtomicUsize = AtomicUsize::new(0);

/// The files that have not answered, each with what its thread holds while it reads.
static GIVEN_UP: Mutex<BTreeMap<PathBuf, Weak<()>>> = Mutex::new(BTreeMap::new());

/// Begins another report: what could not be read for the one before may answer now.
pub fn begin() {
    unreadable_files().clear();
    UNANSWERED.store(0, Ordering::Relaxed);
    programs::begin();
}

/// Limits the time of each further reading in this process.
pub fn limit_waits() {
    IS_LIMITED.store(true, Ordering::Relaxed);
}

/// The files that have not answered, and the counters of failed devices, each with the reason.
pub fn unreadable() -> BTreeMap<PathBuf, String> {
    unreadable_files().clone()
}

fn unreadable_files() -> MutexGuard<'static, BTreeMap<PathBuf, String>> {
    UNREADABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn given_up() -> MutexGuard<'static, BTreeMap<PathBuf, Weak<()>>> {
    GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers a file that cannot be read.
fn remember(path: &Path, reason: String) {
    unreadable_files().entry(path.to_owned()).or_insert(reason);
}

/// The text of a file.
///
/// # Errors
///
/// The errors of the file system; [`ErrorKind::TimedOut`] if there is no answer, and
/// [`ErrorKind::Interrupted`] if the user has ended the run.
pub fn text(path: &Path) -> io::Result<String> {
    within_limit(path, |path| fs::read_to_string(path))
}

/// The text of a file, with a mark in place of what is not UTF-8.
///
/// # Errors
///
/// The errors of [`text`].
pub fn lossy_text(path: &Path) -> io::Result<String> {
    let bytes = within_limit(path, |path| fs::read(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names in a directory.
pub fn names(path: &Path) -> io::Result<Vec<OsString>> {
    let read = |path: &Path| {
        let entries = fs::read_dir(path)?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    };
    within_limit(path, read)
}

/// Whether there is a file or directory.
pub fn exists(path: &Path) -> bool {
    within_limit(path, |path| fs::metadata(path)).is_ok()
}

/// The path without symbolic links.
pub fn resolved(path: &Path) -> io::Result<PathBuf> {
    within_limit(path, |path| fs::canonicalize(path))
}

/// Reads within the limit, and remembers an error of a counter.
fn within_limit<T: Send + 'static>(path: &Path, read: fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let result = if IS_LIMITED.load(Ordering::Relaxed) { limited(path, read) } else { read(path) };
    if let Err(error) = &result
        && path.iter().any(|part| part == COUNTERS)
        && Errno::from_io_error(error).is_some_and(|errno| DEVICE_ERRORS.contains(&errno))
    {
        remember(path, cause(error));
    }
    result
}

fn limited<T: Send + 'static>(path: &Path, read: fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let no_answer = || io::Error::new(ErrorKind::TimedOut, NO_ANSWER);
    // Each further thread would be given up, too.
    if given_up().get(path).is_some_and(|thread| thread.strong_count() > 0) {
        remember(path, NO_ANSWER.into());
        return Err(no_answer());
    }
    let limit = match UNANSWERED.load(Ordering::Relaxed) {
        0 => limit::in_effect(LIMIT),
        1..MOST_UNANSWERED => LATER_LIMIT,
        _ => return Err(no_answer()),
    };
    let (sender, answer) = sync_channel(1);
    let file = path.to_owned();
    let held = Arc::new(());
    let thread = Arc::downgrade(&held);
    let work = move || {
        // The receiver is gone if this thread was given up.
        drop(sender.send(read(&file)));
        drop(held);
    };
    let Ok(reader) = threads::start("reading", work) else {
        // A limit of this process says nothing about the file.
        return read(path);
    };
    let until = Instant::now() + limit;
    loop {
        match answer.recv_timeout(SLICE) {
            Ok(read) => {
                // Its stack must be gone before the next thread needs one: memory may be limited.
                let _ = reader.join();
                return read;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(no_answer()),
            Err(RecvTimeoutError::Timeout) if interrupt::requested() => {
                return Err(ErrorKind::Interrupted.into());
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    UNANSWERED.fetch_add(1, Ordering::Relaxed);
    given_up().insert(path.to_owned(), thread);
    remember(path, NO_ANSWER.into());
    Err(no_answer())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    static HAS_ENDED: AtomicBool = AtomicBool::new(false);

    /// Takes a while at the end of its thread.
    struct EndsLate;

    impl Drop for EndsLate {
        fn drop(&mut self) {
            thread::sleep(SLICE);
            HAS_ENDED.store(true, Ordering::Relaxed);
        }
    }

    thread_local! {
        static END: EndsLate = const { EndsLate };
    }

    #[test]
    fn thread_that_has_read_has_ended() {
        let read = |_: &Path| END.with(|_| Ok(thread::current().id()));
        assert_ne!(limited(Path::new("file"), read).unwrap(), thread::current().id());
        assert!(HAS_ENDED.load(Ordering::Relaxed));
    }
}
