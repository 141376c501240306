//! Where the bytes behind an address are: in memory of the CPU, or of a GPU.

use std::sync::{Mutex, PoisonError};

use cxi_sys::C_RC_PCIE_UNSUCCESS_CMPL;

use super::ReturnCode;
use super::memory::{copy, update};
use super::packet::MTU;
use crate::gpu::Gpu;

/// Device memory that does not answer: what the NIC reports of a completion that a PCIe device refuses (nic.md 7).
const NO_ANSWER: ReturnCode = C_RC_PCIE_UNSUCCESS_CMPL;

/// Memory behind an address that was translated. That of a GPU has an address that means nothing to the CPU.
#[derive(Clone, Copy)]
pub struct Location {
    pub va: usize,
    pub gpu: Option<&'static dyn Gpu>,
}

/// Room for what is read from a GPU on its way into a packet.
pub struct Staging(Box<[u8; MTU]>);

impl Staging {
    pub fn new() -> Self {
        Self(Box::new([0; MTU]))
    }
}

impl Location {
    /// Memory of the CPU.
    pub fn host(va: usize) -> Self {
        Self { va, gpu: None }
    }

    /// Copies to it.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes; so many were translated, in memory that software keeps mapped meanwhile.
    #[inline]
    pub unsafe fn write(self, from: *const u8, len: usize) -> Result<(), ReturnCode> {
        match self.gpu {
            None => {
                let to = std::ptr::with_exposed_provenance_mut(self.va);
                // SAFETY: the caller's promise.
                unsafe { copy(from, to, len) };
                Ok(())
            }
            Some(gpu) => {
                // SAFETY: the caller vouches for `from`.
                let done = unsafe { gpu.write(from, self.va, len) };
                done.then_some(()).ok_or(NO_ANSWER)
            }
        }
    }

    /// Copies from it.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes; the rest as for `write`.
    #[inline]
    pub unsafe fn read(self, to: *mut u8, len: usize) -> Result<(), ReturnCode> {
        match self.gpu {
            None => {
                let from = std::ptr::with_exposed_provenance(self.va);
                // SAFETY: the caller's promise.
                unsafe { copy(from, to, len) };
                Ok(())
            }
            Some(gpu) => {
                // SAFETY: the caller vouches for `to`.
                let done = unsafe { gpu.read(self.va, to, len) };
                done.then_some(()).ok_or(NO_ANSWER)
            }
        }
    }

    /// Where `len` bytes, at most one packet's, can be read: here, or in the staging room until it is used again.
    #[inline]
    pub fn payload(self, len: u16, staging: &mut Staging) -> Result<*const u8, ReturnCode> {
        let Some(gpu) = self.gpu else {
            return Ok(std::ptr::with_exposed_provenance(self.va));
        };
        let room = &mut staging.0[..usize::from(len)];
        // SAFETY: the room has that length.
        let done = unsafe { gpu.read(self.va, room.as_mut_ptr(), room.len()) };
        done.then_some(room.as_ptr()).ok_or(NO_ANSWER)
    }

    /// As [`update`]; on a GPU nobody else's update by this process falls between, but a write of the GPU may.
    ///
    /// # Safety
    /// `len` aligned bytes, at most 16, were translated, in memory that software keeps mapped meanwhile.
    pub unsafe fn update(
        self,
        len: usize,
        mut compute: impl FnMut(u128) -> u128,
    ) -> Result<u128, ReturnCode> {
        if self.gpu.is_none() {
            let place = std::ptr::with_exposed_provenance_mut(self.va);
            // SAFETY: the caller's promise.
            return Ok(unsafe { update(place, len, compute) });
        }
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 16];
        // SAFETY: the array holds any length.
        unsafe { self.read(bytes.as_mut_ptr(), len) }?;
        let before = u128::from_le_bytes(bytes);
        let after = compute(before).to_le_bytes();
        // SAFETY: as above.
        unsafe { self.write(after.as_ptr(), len) }?;
        Ok(before)
    }
}
