//! The atomic operation that hardware executes as a fetching add of PCIe (nic.md 11.3).
//!
//! On hardware root writes its opcode to a file of the driver, or -1 for none. `cxi-softnic` shows
//! such a file with -1. It applies to the processes that see it: as on hardware, to operations that
//! they receive. A software NIC has no PCIe, so its engine executes the addition.

use std::fs::File;
use std::os::unix::fs::FileExt;

use cxi_sys::*;

use super::shown;
use crate::engine::Amo;

/// The largest opcode: commands have 4 bits for it.
const MOST: u8 = 15;

/// The file with the opcode.
pub struct FetchAdd {
    file: Option<File>,
}

impl FetchAdd {
    /// Opens the file of the NIC with this number, if this process sees one.
    pub fn of(number: u32) -> Self {
        let path = shown::properties(number).map(|shown| shown.join("amo_remap_to_pcie_fadd"));
        Self {
            file: path.and_then(|path| File::open(path).ok()),
        }
    }

    /// Returns the opcode; `None` for -1, and for what is no opcode.
    ///
    /// Reads the file each time: a program that has written it expects the next operation to obey.
    pub fn opcode(&self) -> Option<u8> {
        let mut text = [0; 8];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        text.trim().parse().ok().filter(|opcode| *opcode <= MOST)
    }

    /// Returns the operation that the NIC executes in place of `amo`. Only unsigned integers of 32
    /// and 64 bits have atomic operations of PCIe.
    pub fn replacement(&self, amo: Amo) -> Amo {
        let has_pcie = matches!(amo.kind.into(), C_AMO_TYPE_UINT32_T | C_AMO_TYPE_UINT64_T);
        if has_pcie && self.opcode() == Some(amo.op) {
            let op = C_AMO_OP_SUM as u8;
            return Amo { op, ..amo };
        }
        amo
    }
}
