//! The atomic operation that hardware executes as a fetching add of PCIe (nic.md 11.3).
//!
//! On hardware root writes its opcode to a file of the driver, or -1 for none. `cxi-softnic` shows
//! such a file with -1. It applies to the processes that see it: as on hardware, to operations that
//! they receive. In other processes the planted content of the file counts. A software NIC has no
//! PCIe, so its engine executes the addition, or refuses it as a root port without completer does.

use std::fs::File;
use std::os::unix::fs::FileExt;

use cxi_sys::*;

use super::health::Health;
use super::shown;
use crate::engine::{Amo, ReturnCode};

/// The file with the opcode, below the device directory of the NIC.
const FILE: &str = "properties/amo_remap_to_pcie_fadd";

/// The file with the opcode, and the PCIe above the NIC.
pub struct FetchAdd {
    file: Option<File>,
    /// The content that a fault plants.
    planted: Option<String>,
    has_completer: bool,
}

impl FetchAdd {
    /// Opens the file of the NIC with this number, if this process sees one.
    pub fn of(number: u32, health: &Health) -> Self {
        let path = shown::properties(number).map(|shown| shown.join("amo_remap_to_pcie_fadd"));
        Self {
            file: path.and_then(|path| File::open(path).ok()),
            planted: health.files.get(FILE).cloned(),
            has_completer: health.has_atomic_completer,
        }
    }

    /// Returns the opcode; `None` for -1, and for an operation that the driver does not accept.
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

    /// Returns the operation that the NIC executes in place of `amo`.
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
