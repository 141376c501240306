//! Where the directory of a fabric is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::Uid;

use super::file_user::FileUser;

/// The environment variable that names the directory. The default is `/dev/shm/cxidiag-<uid>`.
const VARIABLE: &str = "CXIDIAG_FABRIC_DIR";

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
            None => PathBuf::from(format!("/dev/shm/cxidiag-{}", user.as_raw())),
        };
        Ok(Self { path, user })
    }

    /// Makes the calling thread access files as the user of the directory.
    pub fn become_user(&self) -> FileUser {
        FileUser::become_user(self.user)
    }
}

/// Returns the user id of the owner of the directory; `None` if there is none yet.
pub fn owner() -> Option<u32> {
    let place = Place::from_environment().ok()?;
    let metadata = fs::metadata(place.path).ok()?;
    Some(metadata.uid())
}
