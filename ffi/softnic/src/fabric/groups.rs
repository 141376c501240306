//! The RGIDs that no LNI of a NIC has (libcxi.md 4), and the file with their number.
//!
//! The driver of hardware computes the file whenever it is read. `cxi-softnic` shows a plain file
//! to its program and to the children of that program, and each program of another `cxi-softnic`
//! sees a file of its own. So the library writes the number, which counts the LNIs of all processes
//! of the fabric, to the file of its own process when it makes or destroys an LNI. Changes by
//! programs of another `cxi-softnic` show with the next change here.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use cxi_sys::C_NUM_RGIDS;
use rustix::io::Errno;

use super::directory::Directory;
use super::place::FabricDirectory;
use super::port;
use super::shown;

/// The number for a NIC without LNIs: RGID 0 is reserved.
pub const ALL: usize = C_NUM_RGIDS as usize - 1;

/// Returns the number of RGIDs that no LNI of the NIC with the address `nid` has.
///
/// # Errors
/// Errors of the directory.
pub fn available(directory: &Directory, nid: u32) -> Result<usize, Errno> {
    let ports = directory.ports(nid)?;
    let uses = ports.iter().flat_map(|(_, file, _)| port::read_uses(file));
    let taken: HashSet<u16> = uses.map(|used| used.rgid).collect();
    Ok(ALL.saturating_sub(taken.len()))
}

/// As [`available`], for a fabric that need not exist.
pub fn available_in(place: &FabricDirectory, nid: u32) -> usize {
    Directory::lock_existing(place).and_then(|directory| available(&directory, nid)).unwrap_or(ALL)
}

/// The file that shows the number to this process.
pub struct ShownGroups {
    path: PathBuf,
}

impl ShownGroups {
    /// Returns the file of the NIC with this number; `None` unless this process sees the files of
    /// `cxi-softnic`.
    pub fn of(number: u32) -> Option<Self> {
        let properties = shown::properties(number)?;
        Some(Self { path: properties.join("rgids_avail") })
    }

    /// Shows the number. Readers see the old one or the new one. The directory of the fabric must
    /// be locked.
    ///
    /// # Errors
    /// Errors of the file system, for example if a container shows the files read-only.
    pub fn write(&self, number: usize) -> io::Result<()> {
        let new = self.path.with_extension("new");
        fs::write(&new, format!("{number}\n"))?;
        fs::rename(new, &self.path)
    }
}
