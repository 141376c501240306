//! Where the directory of a fabric is.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Gid, Uid, getegid, geteuid};

use super::file_user::FileUser;

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
    /// Returns the directory of the environment, for the effective user and group with which this
    /// process opened its first device, or for the present ones if there is no such device or the
    /// process cannot return to those. Real NICs stay the same for a process that changes its
    /// effective user, so the fabric has to (libcxi.md 1).
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

/// Returns the real, effective and saved users of the process.
fn own_users() -> [u32; 3] {
    let [mut real, mut effective, mut saved] = [0; 3];
    // SAFETY: the pointers lead to numbers that live through the call, which cannot fail then.
    unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
    [real, effective, saved]
}

/// Returns the real, effective and saved groups of the process.
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

/// Returns why the fabric is not in the default directory; `None` if it is, or the user has named
/// another one.
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

/// Returns the file system, the number and the path of the directory as one word; `None` if there
/// is no directory yet, or if the path is no short word.
pub fn identity() -> Option<String> {
    const MOST: usize = 200;
    let path = FabricDirectory::from_environment().ok()?.path;
    let found = fs::metadata(&path).ok()?;
    let path = path.to_str().filter(|path| path.len() <= MOST)?;
    let is_word = path.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| format!("{}:{}:{path}", found.dev(), found.ino()))
}

/// Returns the user id of the owner of the directory; `None` if there is none yet.
pub fn owner() -> Option<u32> {
    let place = FabricDirectory::from_environment().ok()?;
    let metadata = fs::metadata(place.path).ok()?;
    Some(metadata.uid())
}
