//! Files of the driver that change: `cxi-softnic` shows them to its program, and the children of
//! that program, as plain files.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use cxi_sys::*;
use rustix::io::Errno;

use super::directory::Directory;
use super::link_settings::Health;
use super::place::FabricDirectory;
use super::port;
use crate::engine::{Amo, ReturnCode};

/// The file with the opcode, below the device directory of the NIC.
const FILE: &str = "properties/amo_remap_to_pcie_fadd";

/// The file with the opcode, and the PCIe above the NIC.
///
/// The atomic operation is the one that hardware executes as a fetching add of PCIe (nic.md 11.3).
///
/// On hardware root writes its opcode to a file of the driver, or -1 for none. `cxi-softnic` shows
/// such a file with -1. It applies to the processes that see it: as on hardware, to operations that
/// they receive. In other processes the planted content of the file counts. A software NIC has no
/// PCIe, so its engine executes the addition, or refuses it as a root port without completer does.
pub struct FetchAdd {
    file: Option<File>,
    /// The content that a fault plants.
    planted: Option<String>,
    has_completer: bool,
}

impl FetchAdd {
    /// Opens the file of the NIC with this number, if this process sees one.
    pub fn of(number: u32, health: &Health) -> Self {
        let path = properties(number).map(|shown| shown.join("amo_remap_to_pcie_fadd"));
        Self {
            file: path.and_then(|path| File::open(path).ok()),
            planted: health.files.get(FILE).cloned(),
            has_completer: health.has_atomic_completer,
        }
    }

    /// The opcode; `None` for -1, and for an operation that the driver does not accept.
    ///
    /// Reads the file each time: a program that has written it expects the next operation to obey.
    pub fn opcode(&self) -> Option<u8> {
        let mut text = [0; 8];
        let text = match &self.file {
            Some(file) => {
                let length = file.read_at(&mut text, 0).ok()?;
                std::str::from_utf8(&text[..length]).ok()?
            }
            None => self.planted.as_deref()?,
        };
        let opcode: u8 = text.trim().parse().ok()?;
        let is_accepted = matches!(
            u32::from(opcode),
            C_AMO_OP_MIN..=C_AMO_OP_SUM | C_AMO_OP_LOR..=C_AMO_OP_SWAP
        );
        is_accepted.then_some(opcode)
    }

    /// The operation that the NIC executes in place of `amo`.
    ///
    /// # Errors
    /// PCIE_UNSUCCESS_CMPL for an addition that nothing above the NIC executes.
    pub fn replacement(&self, amo: Amo) -> Result<Amo, ReturnCode> {
        let is_remapped = match amo.kind.into() {
            C_AMO_TYPE_UINT32_T | C_AMO_TYPE_UINT64_T => true,
            C_AMO_TYPE_INT32_T | C_AMO_TYPE_INT64_T => u32::from(amo.op) == C_AMO_OP_SUM,
            _ => false,
        };
        if !is_remapped || self.opcode() != Some(amo.op) {
            return Ok(amo);
        }
        if !self.has_completer {
            return Err(C_RC_PCIE_UNSUCCESS_CMPL);
        }
        let op = C_AMO_OP_SUM as u8;
        Ok(Amo { op, ..amo })
    }
}

/// Start of the text of links to devices that `cxi-softnic` shows. No kernel has such a class.
const TREE: &str = "../softnic/";

/// The directory of the properties of the NIC with this number; `None` unless this process sees the
/// files of `cxi-softnic`.
pub fn properties(number: u32) -> Option<PathBuf> {
    let device = PathBuf::from(format!("/sys/class/cxi/cxi{number}"));
    let is_shown = fs::read_link(&device).ok()?.to_str()?.starts_with(TREE);
    is_shown.then(|| device.join("device/properties"))
}

/// The number for a NIC without LNIs: RGID 0 is reserved.
pub const ALL: usize = C_NUM_RGIDS as usize - 1;

/// The number of RGIDs that no LNI of the NIC with the address `nid` has.
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
///
/// The number is of the RGIDs that no LNI of a NIC has (libcxi.md 4). The driver of hardware
/// computes the file whenever it is read. Each program of another `cxi-softnic` sees a file of its
/// own. So the library writes the number, which counts the LNIs of all processes of the fabric, to
/// the file of its own process when it makes or destroys an LNI. Changes by programs of another
/// `cxi-softnic` show with the next change here.
pub struct ShownGroups {
    path: PathBuf,
}

impl ShownGroups {
    /// The file of the NIC with this number; `None` unless this process sees the files of
    /// `cxi-softnic`.
    pub fn of(number: u32) -> Option<Self> {
        let properties = properties(number)?;
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
