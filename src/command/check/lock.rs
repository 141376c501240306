//! One check with traffic at a time: two would measure each other.
//!
//! Root locks a file in `/run`, where no other user can. Others lock a file of their own, so that no
//! user can hold up the checks of another one: these may meet those of root.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::error::{Context, Failure};
use crate::interrupt;
use crate::machine::Machine;
use crate::number::time_text;

/// How long a check waits for another one, which takes 10 s at most.
const LIMIT: Duration = Duration::from_secs(12);

/// Interval at which it tries again.
const INTERVAL: Duration = Duration::from_millis(50);

/// Name of the file.
const NAME: &str = "cxidiag-check";

/// The right to use the NICs; it ends when this value is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the lock; waits for another check of this user.
///
/// # Errors
///
/// Another check that does not end, a file that cannot be opened, and an interruption.
pub fn take(machine: &Machine) -> Result<Lock, Failure> {
    take_within(LIMIT, machine)
}

fn take_within(limit: Duration, machine: &Machine) -> Result<Lock, Failure> {
    let file = open(machine)?;
    let end = Instant::now() + limit;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // The number is for the message of another check.
                let _ = write_number(&file);
                return Ok(Lock { _file: file });
            }
            Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                interrupt::wait_for_any(&mut Vec::new(), Some(INTERVAL))?;
            }
            Err(Errno::WOULDBLOCK) => return Err(still_running(&file)),
            Err(error) => return Err(error).environment("cannot lock a file for the check"),
        }
    }
}

fn write_number(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", process::id())
}

fn still_running(mut file: &File) -> Failure {
    let mut number = String::new();
    let _ = file.read_to_string(&mut number);
    let process = match number.trim() {
        "" => String::new(),
        number => format!(" (process {number})"),
    };
    let limit = time_text(LIMIT);
    Failure::environment(format!(
        "another cxidiag check{process} has not ended within {limit}"
    ))
}

/// Opens the file of this user.
fn open(machine: &Machine) -> Result<File, Failure> {
    let user = rustix::process::geteuid().as_raw();
    let of_system = machine.root().join("run").join(format!("{NAME}.lock"));
    let of_user = || {
        let directory = env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        let directory = directory.map_or_else(env::temp_dir, PathBuf::from);
        directory.join(format!("{NAME}-{user}.lock"))
    };
    let (path, opened) = match create(&of_system) {
        Ok(file) => (of_system, Ok(file)),
        Err(_) => {
            let path = of_user();
            let opened = create(&path);
            (path, opened)
        }
    };
    let what = || format!("cannot lock {}", path.display());
    let file = opened.environment(what())?;
    let owner = file.metadata().environment(what())?.uid();
    if owner != user {
        return Err(
            Failure::environment(format!("{}: the file belongs to user {owner}", what()))
                .with_hint("remove it, or name another directory with TMPDIR"),
        );
    }
    Ok(file)
}

/// Creates the file, or opens it if it exists; a symbolic link is refused.
fn create(path: &Path) -> io::Result<File> {
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::MadeUp;

    #[test]
    fn locks_file_in_run_and_names_the_process() {
        let host = MadeUp::new(&[("run/other", "")]);
        let machine = host.machine();
        let lock = take(&machine).unwrap();
        let path = machine.root().join("run/cxidiag-check.lock");
        let number = fs::read_to_string(&path).unwrap();
        assert_eq!(number.trim(), process::id().to_string());
        let refused = take_within(Duration::ZERO, &machine).unwrap_err();
        let message = format!(
            "another cxidiag check (process {}) has not ended within 12s",
            process::id()
        );
        assert_eq!(refused.message(), message);
        drop(lock);
        take_within(Duration::ZERO, &machine).unwrap();
    }

    #[test]
    fn refuses_symbolic_link() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path().join("file"), &link).unwrap();
        assert!(create(&link).is_err());
        assert!(!directory.path().join("file").exists());
    }
}
