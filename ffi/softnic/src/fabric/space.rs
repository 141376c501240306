//! The space of the file system that holds a fabric.

use std::path::PathBuf;

use super::{Directory, FabricDirectory, port};

/// What the directory of the fabric has, and what it needs for one more NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The directory.
    pub path: PathBuf,
    /// Bytes of its file system.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that all open NICs and one more need.
    pub needed: u64,
}

impl Space {
    /// Returns the space of the fabric of the environment; `None` if it cannot be seen.
    pub fn from_environment() -> Option<Self> {
        let place = FabricDirectory::from_environment().ok()?;
        // The directory is removed with its last NIC.
        let directory = Directory::lock_existing(&place).ok();
        let needed = match &directory {
            Some(directory) => directory.needed().ok()?,
            None => port::reserved(1) as u64,
        };
        let mut ancestors = place.path.ancestors();
        let found = ancestors.find_map(|path| rustix::fs::statvfs(path).ok())?;
        Some(Self {
            size: found.f_blocks * found.f_frsize,
            free: found.f_bavail * found.f_frsize,
            needed,
            path: place.path,
        })
    }
}
