//! Where the directory of a fabric is.

use std::fs;
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::Uid;

use super::file_user::FileUser;

/// The environment variable that names the directory. The default is `/dev/shm/cxidiag-<uid>`, or
/// the first of `/dev/shm/cxidiag-<uid>.1` to `.16` that no other user has made.
const VARIABLE: &str = "CXIDIAG_FABRIC_DIR";

const MOST_TAKEN: u32 = 16;

/// The absolute path of the directory, and the user as whom this process accesses it.
#[derive(Clone)]
pub struct Place {
    pub path: PathBuf,
    pub user: Uid,
}

impl Place {
    /// Returns the directory of the environment, for the present effective user.
    ///
    /// # Errors
    /// ENOENT without a current directory.
    pub fn from_environment() -> Result<Self, Errno> {
        let user = rustix::process::geteuid();
        let path = match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => std::path::absolute(value).map_err(|_| Errno::NOENT)?,
            None => default_paths(user)
                .find(|path| !is_taken(path, user))
                .unwrap_or_else(|| default_path(user)),
        };
        Ok(Self { path, user })
    }

    /// Makes the calling thread access files as the user of the directory.
    pub fn become_user(&self) -> FileUser {
        FileUser::become_user(self.user)
    }
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
    let place = Place::from_environment().ok()?;
    let usual = default_path(place.user);
    (default_paths(place.user)
        .skip(1)
        .any(|path| path == place.path))
    .then(|| {
        format!(
            "{} belongs to another user: software NICs meet in {}",
            usual.display(),
            place.path.display()
        )
    })
}

/// Returns the user id of the owner of the directory; `None` if there is none yet.
pub fn owner() -> Option<u32> {
    let place = Place::from_environment().ok()?;
    let metadata = fs::metadata(place.path).ok()?;
    Some(metadata.uid())
}
