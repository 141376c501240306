//! One check with traffic through hardware at a time: two would measure each other. Software NICs
//! have no limits of latency and bandwidth, so that their checks need no lock.
//!
//! Root locks a file in `/run`, where no other user can create one. Others lock a file of their
//! own, so that no user can hold up the checks of another one. A check of root and one of another
//! user can therefore run at the same time, and measure each other.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, process};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::note::note;
use facts::error::{Context, Failure};
use facts::interrupt;
use facts::number::time_text;
use node::machine::Machine;

/// How long a check waits for another one, which takes 10 s at most.
const LIMIT: Duration = Duration::from_secs(12);

/// Interval at which it tries again.
const INTERVAL: Duration = Duration::from_millis(50);

/// Start of the names of files and directories.
const NAME: &str = "cxidiag-check";

/// The right to use the NICs; it ends when this value is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the lock; waits for another check of this user. Returns `None` if there is no file that is
/// safe from other users.
///
/// # Errors
///
/// Another check still runs at the end of the wait; the file cannot be locked; an interruption.
pub fn take(machine: &Machine) -> Result<Option<Lock>, Failure> {
    take_within(LIMIT, machine)
}

fn take_within(limit: Duration, machine: &Machine) -> Result<Option<Lock>, Failure> {
    let Some(file) = open(machine) else {
        note("cannot create a file to lock: another check at the same time disturbs this one");
        return Ok(None);
    };
    let mut is_waiting = false;
    let end = Instant::now() + limit;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // The number is for the message of another check.
                let _ = write_number(&file);
                return Ok(Some(Lock { _file: file }));
            }
            Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                if !is_waiting {
                    note("waiting for another check of this user");
                    is_waiting = true;
                }
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
    Failure::environment(format!("another cxidiag check{process} has not ended within {limit}"))
}

/// Opens the file of this user: for root in `/run`, else in the directory of the user's session,
/// else below the directory of temporary files. Returns `None` if none of these places is safe from
/// other users.
fn open(machine: &Machine) -> Option<File> {
    let user = rustix::process::geteuid().as_raw();
    let system_path = machine.root().join("run").join(format!("{NAME}.lock"));
    let session_file = || {
        let directory = env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
        create(&Path::new(&directory).join(format!("{NAME}.lock")), user)
    };
    create(&system_path, user)
        .or_else(session_file)
        .or_else(|| create_below(&env::temp_dir(), user))
}

/// Opens the file in the user's directory below `parent`, where any user may create files.
fn create_below(parent: &Path, user: u32) -> Option<File> {
    let directory = parent.join(format!("{NAME}-{user}"));
    // It may exist, and belong to anyone.
    let _ = fs::DirBuilder::new().mode(0o700).create(&directory);
    let found = fs::symlink_metadata(&directory).ok()?;
    let is_private = found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
    is_private.then(|| create(&directory.join("lock"), user))?
}

/// Creates the file, or opens it if it exists and belongs to the user. A symbolic link is not
/// followed.
fn create(path: &Path, user: u32) -> Option<File> {
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow)
        .open(path)
        .ok()?;
    let is_own = file.metadata().ok()?.uid() == user;
    is_own.then_some(file)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use node::machine::testing::MadeUp;

    #[test]
    fn locks_file_in_run_and_names_the_process() {
        let host = MadeUp::new(&[("run/other", "")]);
        let machine = host.machine();
        let lock = take(&machine).unwrap().unwrap();
        let path = machine.root().join("run/cxidiag-check.lock");
        let number = fs::read_to_string(&path).unwrap();
        assert_eq!(number.trim(), process::id().to_string());
        let refused = take_within(Duration::ZERO, &machine).unwrap_err();
        let message =
            format!("another cxidiag check (process {}) has not ended within 12s", process::id());
        assert_eq!(refused.message(), message);
        drop(lock);
        take_within(Duration::ZERO, &machine).unwrap();
    }

    #[test]
    fn uses_no_file_that_another_user_can_open() {
        let user = rustix::process::geteuid().as_raw();
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join(format!("cxidiag-check-{user}"));
        let is_usable = || create_below(parent.path(), user).is_some();
        assert!(is_usable());
        assert!(directory.join("lock").exists());
        assert!(create_below(parent.path(), user).is_some(), "it exists");
        assert!(create(&directory.join("lock"), user + 1).is_none());
        fs::set_permissions(&directory, Permissions::from_mode(0o770)).unwrap();
        assert!(!is_usable(), "open to a group");
        fs::remove_dir_all(&directory).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), &directory).unwrap();
        assert!(!is_usable(), "a link");
        let link = parent.path().join("link");
        symlink(elsewhere.path().join("file"), &link).unwrap();
        assert!(create(&link, user).is_none());
        assert!(!elsewhere.path().join("file").exists());
    }
}
