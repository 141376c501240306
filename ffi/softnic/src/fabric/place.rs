//! The directory of a fabric: where it is, who shares it, and its lock.

use std::io::ErrorKind;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs, iter, thread};

use rustix::fs::{FlockOperation, Mode, Stat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getegid, geteuid};

/// The environment variable that names the directory. The default is `/dev/shm/cxidiag-<uid>`, or
/// the first of `/dev/shm/cxidiag-<uid>.1` to `.16` that no other user has made.
const VARIABLE: &str = "CXIDIAG_FABRIC_DIR";

const MOST_TAKEN: u32 = 16;

/// The user and the group with which this process opened its first device.
static FIRST: OnceLock<(Uid, Gid)> = OnceLock::new();

/// The absolute path of the directory, and the user and group as whom this process accesses it.
#[derive(Clone)]
pub struct FabricDirectory {
    pub path: PathBuf,
    pub user: Uid,
    group: Gid,
}

impl FabricDirectory {
    /// The directory of the environment, for the effective user and group with which this process
    /// opened its first device, or for the present ones if there is no such device or the process
    /// cannot return to those. Real NICs stay the same for a process that changes its effective
    /// user, so the fabric has to (libcxi.md 1).
    ///
    /// # Errors
    /// ENOENT without a current directory.
    pub fn from_environment() -> Result<Self, Errno> {
        let (mut user, mut group) = (geteuid(), getegid());
        if let Some((first_user, first_group)) = FIRST.get() {
            if own_users().contains(&first_user.as_raw()) {
                user = *first_user;
            }
            if own_groups().contains(&first_group.as_raw()) {
                group = *first_group;
            }
        }
        let path = match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => std::path::absolute(value).map_err(|_| Errno::NOENT)?,
            None => default_paths(user)
                .find(|path| !is_taken(path, user))
                .unwrap_or_else(|| default_path(user)),
        };
        Ok(Self { path, user, group })
    }

    /// Makes the calling thread access files as the user and the group of the directory.
    pub fn become_user(&self) -> FileUser {
        FileUser::become_user(self.user, self.group)
    }

    /// Makes later devices of this process use the fabric as this device does.
    pub fn keep(&self) {
        FIRST.get_or_init(|| (self.user, self.group));
    }
}

/// The real, effective and saved users of the process.
fn own_users() -> [u32; 3] {
    let [mut real, mut effective, mut saved] = [0; 3];
    // SAFETY: the pointers lead to numbers that live through the call, which cannot fail then.
    unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
    [real, effective, saved]
}

/// The real, effective and saved groups of the process.
fn own_groups() -> [u32; 3] {
    let [mut real, mut effective, mut saved] = [0; 3];
    // SAFETY: the pointers lead to numbers that live through the call, which cannot fail then.
    unsafe { libc::getresgid(&raw mut real, &raw mut effective, &raw mut saved) };
    [real, effective, saved]
}

fn default_path(user: Uid) -> PathBuf {
    PathBuf::from(format!("/dev/shm/cxidiag-{}", user.as_raw()))
}

fn default_paths(user: Uid) -> impl Iterator<Item = PathBuf> {
    let numbered = (1..=MOST_TAKEN).map(move |number| {
        let path = default_path(user);
        PathBuf::from(format!("{}.{number}", path.display()))
    });
    iter::once(default_path(user)).chain(numbered)
}

/// Whether another user has made this file: anybody may, in a directory that all users share.
fn is_taken(path: &Path, user: Uid) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| stat.st_uid != user.as_raw())
}

/// Why the fabric is not in the default directory; `None` if it is, or the user has named another
/// one.
pub fn fallback() -> Option<String> {
    let place = FabricDirectory::from_environment().ok()?;
    let usual = default_path(place.user);
    (default_paths(place.user).skip(1).any(|path| path == place.path)).then(|| {
        format!(
            "{} belongs to another user: software NICs meet in {}",
            usual.display(),
            place.path.display()
        )
    })
}

/// Checks that a directory that the user has named can be made: its parent exists.
///
/// # Errors
/// One line that names the path and its parent.
pub fn check() -> Result<(), String> {
    let Ok(FabricDirectory { path, .. }) = FabricDirectory::from_environment() else {
        return Ok(());
    };
    if env::var_os(VARIABLE).is_none_or(|value| value.is_empty()) {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(&path);
    let why = match fs::metadata(parent).map_err(|error| error.kind()) {
        Ok(found) if !found.is_dir() => "is not a directory",
        Err(ErrorKind::NotFound) => "does not exist",
        Err(ErrorKind::NotADirectory) => "is below a file",
        _ => return Ok(()),
    };
    let (own, parent) = (path.display(), parent.display());
    Err(format!(
        "{VARIABLE}={own}: {parent} {why}; expected an existing directory, or a new one in it"
    ))
}

/// The file system, the number and the path of the directory as one word; `None` if there is no
/// directory yet, or if the path is no short word.
pub fn identity() -> Option<String> {
    const MOST: usize = 200;
    let path = FabricDirectory::from_environment().ok()?.path;
    let found = fs::metadata(&path).ok()?;
    let path = path.to_str().filter(|path| path.len() <= MOST)?;
    let is_word = path.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| format!("{}:{}:{path}", found.dev(), found.ino()))
}

/// The user id of the owner of the directory; `None` if there is none yet.
pub fn owner() -> Option<u32> {
    let place = FabricDirectory::from_environment().ok()?;
    let metadata = fs::metadata(place.path).ok()?;
    Some(metadata.uid())
}

/// Makes the calling thread access files as another user and group until it is dropped.
///
/// An open device stays usable when its program changes its effective user or group (libcxi.md 1).
/// The kernel checks accesses to files by the file system user and group of the thread, which
/// seteuid(2) and setegid(2) change as well, and which a thread may set back to its real, effective
/// or saved ones.
pub struct FileUser {
    group: IdChange,
    user: IdChange,
    /// The file system user belongs to the thread.
    thread: PhantomData<*const ()>,
}

impl FileUser {
    /// Becomes `user` and `group` for accesses to files. Without effect if the thread may not: a
    /// process that gave up a user for good then meets the errors of its present one.
    pub fn become_user(user: Uid, group: Gid) -> Self {
        Self {
            group: IdChange::to(group.as_raw(), effective_group, set_group),
            user: IdChange::to(user.as_raw(), effective_user, set_user),
            thread: PhantomData,
        }
    }
}

impl Drop for FileUser {
    fn drop(&mut self) {
        self.user.undo();
        self.group.undo();
    }
}

/// A change of the file system user or group of a thread.
struct IdChange {
    to: u32,
    /// The file system id before the change.
    before: u32,
    /// The effective id before the change.
    effective: u32,
    read_effective: fn() -> u32,
    set: fn(u32) -> u32,
}

impl IdChange {
    fn to(to: u32, read_effective: fn() -> u32, set: fn(u32) -> u32) -> Self {
        Self { to, effective: read_effective(), before: set(to), read_effective, set }
    }

    fn undo(&self) {
        let effective = (self.read_effective)();
        if effective != self.effective {
            // Another thread changed the effective id, and thereby the file system id.
            (self.set)(effective);
        } else if self.before != self.to {
            (self.set)(self.before);
        }
    }
}

fn effective_user() -> u32 {
    geteuid().as_raw()
}

fn effective_group() -> u32 {
    getegid().as_raw()
}

/// Sets the file system user of the thread, and returns the one before.
fn set_user(user: u32) -> u32 {
    // SAFETY: setfsuid(2) has no requirements.
    let before = unsafe { libc::setfsuid(user) };
    before.cast_unsigned()
}

/// Sets the file system group of the thread, and returns the one before.
fn set_group(group: u32) -> u32 {
    // SAFETY: setfsgid(2) has no requirements.
    let before = unsafe { libc::setfsgid(group) };
    before.cast_unsigned()
}

/// Who shares a directory. A user who can write to a port can write to the memory that its owner
/// exposes, and can end the owner by truncating the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One user, who owns it and alone can write to it.
    Private,
    /// A group. Its set-group-ID bit and the write permission of the group mark it; other users
    /// have no permission. Root or the user owns it.
    Group,
}

impl Sharing {
    /// The users who share a directory with these properties; EACCES if others can write to it.
    pub fn of(stat: &Stat, user: Uid) -> Result<Self, Errno> {
        let mode = Mode::from_raw_mode(stat.st_mode);
        let is_own = stat.st_uid == user.as_raw();
        if mode.contains(Mode::SGID | Mode::WGRP) {
            let is_closed = !mode.intersects(Mode::RWXO);
            return if is_closed && (is_own || stat.st_uid == 0) {
                Ok(Self::Group)
            } else {
                Err(Errno::ACCESS)
            };
        }
        if is_own && !mode.intersects(Mode::WGRP | Mode::WOTH) {
            Ok(Self::Private)
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// The permissions of the files in the directory.
    pub fn file_mode(self) -> Mode {
        let own = Mode::RUSR | Mode::WUSR;
        match self {
            Self::Private => own,
            Self::Group => own | Mode::RGRP | Mode::WGRP,
        }
    }
}

/// A holder that is stopped for this long is not waited for.
const STOPPED_LIMIT: Duration = Duration::from_secs(2);

/// Other holders work, for less than a millisecond, but may wait for a CPU.
const LIMIT: Duration = Duration::from_secs(30);

/// Interval at which a waiting process looks for the holder of the lock. Reading /proc/locks blocks
/// all flock calls of the machine.
const LOOK: Duration = Duration::from_millis(250);

const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// Locks an open directory, with a time limit: a process that is stopped while it holds the lock
/// must not stop the others.
///
/// # Errors
/// EBUSY if another process holds the lock for too long, ENOLCK on a file system without locks.
pub fn lock(directory: impl AsFd) -> Result<(), Errno> {
    let start = Instant::now();
    let mut looked = start;
    let mut stopped_since = None;
    let mut pause = FIRST_PAUSE;
    loop {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {}
            Err(Errno::INTR) => continue,
            // File systems without locks have many numbers for that, such as 524 of NFS.
            Err(_) => return Err(Errno::NOLCK),
            Ok(()) => return Ok(()),
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let is_stopped = holder(&directory).is_some_and(|holder| holder.is_stopped);
            let since = stopped_since.filter(|_| is_stopped);
            stopped_since = since.or(is_stopped.then(Instant::now));
        }
        let is_over = |since: Instant, limit| since.elapsed() >= limit;
        if is_over(start, LIMIT) || stopped_since.is_some_and(|at| is_over(at, STOPPED_LIMIT)) {
            return Err(Errno::BUSY);
        }
        thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// A process that holds the lock.
struct Holder {
    pid: u32,
    name: String,
    is_stopped: bool,
}

/// The process that holds the lock of a file; `None` if no process holds it, or if /proc does not
/// show the holder because it is in another PID namespace.
fn holder(file: impl AsFd) -> Option<Holder> {
    let inode = rustix::fs::fstat(file).ok()?.st_ino;
    let pid = lock_owner(&fs::read_to_string("/proc/locks").ok()?, inode)?;
    // The name of a program may contain parentheses.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some(Holder { pid, name: name.to_owned(), is_stopped: rest.starts_with(['T', 't']) })
}

/// The process that locked the file with this inode exclusively, in the text of /proc/locks: `1:
/// FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF`. The device is not compared: some file systems
/// report another one here than in stat(2).
fn lock_owner(locks: &str, inode: u64) -> Option<u32> {
    let inode = inode.to_string();
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, "WRITE", pid, file, ..] if file.rsplit(':').next() == Some(&inode) => {
                pid.parse().ok()
            }
            _ => None,
        }
    })
}

/// Describes the process that holds the fabric now: "process 4711 (cxidiag, stopped)".
pub fn describe_holder() -> Option<String> {
    let place = FabricDirectory::from_environment().ok()?;
    let directory = {
        let _user = place.become_user();
        fs::File::open(&place.path).ok()?
    };
    let holder = holder(directory)?;
    let state = if holder.is_stopped { ", stopped" } else { "" };
    Some(format!("process {} ({}{state})", holder.pid, holder.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_owner_of_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:1a:77 0 EOF\n\
                     2: FLOCK  ADVISORY  READ  12 00:1a:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 00:1a:770 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 00:1a:77 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 15 00:1a:78 0 EOF\n";
        assert_eq!(lock_owner(locks, 77), Some(14));
        assert_eq!(lock_owner(locks, 78), None);
    }
}
