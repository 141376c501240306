//! Where translated bytes are: in memory of the CPU, or of a GPU.

use std::sync::{Mutex, PoisonError};

use cxi_sys::{C_RC_NO_TRANSLATION, C_RC_PCIE_UNSUCCESS_CMPL};

use super::bytes::{copy, update};
use super::packet::SEGMENT;
use super::return_codes::ReturnCode;
use crate::gpu::Gpu;
use crate::on_demand;

/// The return code for device memory that cannot be accessed: an unsuccessful PCIe completion
/// (nic.md 7).
const ACCESS_FAILED: ReturnCode = C_RC_PCIE_UNSUCCESS_CMPL;

/// What kind of memory is at an address.
#[derive(Clone, Copy)]
pub enum MemoryKind {
    /// Memory of the CPU that software keeps mapped.
    Pinned,
    /// Memory of the CPU that software may unmap at any time, or never had.
    OnDemand,
    /// Memory of a GPU, whose address is not valid for the CPU.
    Gpu(&'static dyn Gpu),
}

/// The memory behind a translated address.
#[derive(Clone, Copy)]
pub struct MemoryLocation {
    pub va: usize,
    pub memory: MemoryKind,
}

/// A buffer for data that is not in pinned memory, on its way into a packet.
pub struct Staging(Box<[u8; SEGMENT]>);

impl Staging {
    /// Makes an empty buffer.
    pub fn new() -> Self {
        Self(Box::new([0; SEGMENT]))
    }
}

impl MemoryLocation {
    /// Returns the location of pinned memory.
    pub fn pinned(va: usize) -> Self {
        let memory = MemoryKind::Pinned;
        Self { va, memory }
    }

    /// Copies `len` bytes to this location.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes. `len` bytes were translated at this location, and
    /// software keeps pinned memory mapped until this returns.
    #[inline]
    pub unsafe fn write(self, from: *const u8, len: usize) -> Result<(), ReturnCode> {
        let MemoryKind::Pinned = self.memory else {
            // SAFETY: the caller guarantees `from`, and that `len` bytes were translated here.
            return unsafe { self.write_elsewhere(from, len) };
        };
        let to = std::ptr::with_exposed_provenance_mut(self.va);
        // SAFETY: the caller guarantees `from`, and `len` mapped bytes at `va`.
        unsafe { copy(from, to, len) };
        Ok(())
    }

    /// Copies to memory that is not pinned. Out of line, so that the usual copy stays short.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[cold]
    unsafe fn write_elsewhere(self, from: *const u8, len: usize) -> Result<(), ReturnCode> {
        let to = std::ptr::with_exposed_provenance_mut(self.va);
        if let MemoryKind::Gpu(gpu) = self.memory {
            // SAFETY: the caller guarantees `from`.
            let done = unsafe { gpu.write(from, self.va, len) };
            return done.then_some(()).ok_or(ACCESS_FAILED);
        }
        // Programs poll aligned words of 8 bytes, so these are written in one store.
        let done = if len == 8 && self.va.is_multiple_of(8) {
            let found = on_demand::fault_in(to, len);
            if found {
                // SAFETY: the caller guarantees `from`, and `fault_in` has just found 8 bytes.
                unsafe { copy(from, to, len) };
            }
            found
        } else {
            // SAFETY: the caller guarantees `from`; the program mapped the memory at `va` for the
            // NIC.
            unsafe { on_demand::copy(from, to, len) }
        };
        done.then_some(()).ok_or(C_RC_NO_TRANSLATION)
    }

    /// Copies `len` bytes from this location.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes. `len` bytes were translated at this location, and software
    /// keeps pinned memory mapped until this returns.
    #[inline]
    pub unsafe fn read(self, to: *mut u8, len: usize) -> Result<(), ReturnCode> {
        let MemoryKind::Pinned = self.memory else {
            // SAFETY: the caller guarantees `to`, and that `len` bytes were translated here.
            return unsafe { self.read_elsewhere(to, len) };
        };
        let from = std::ptr::with_exposed_provenance(self.va);
        // SAFETY: the caller guarantees `to`, and `len` mapped bytes at `va`.
        unsafe { copy(from, to, len) };
        Ok(())
    }

    /// Copies from memory that is not pinned. Out of line, so that the usual copy stays short.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    #[cold]
    unsafe fn read_elsewhere(self, to: *mut u8, len: usize) -> Result<(), ReturnCode> {
        if let MemoryKind::Gpu(gpu) = self.memory {
            // SAFETY: the caller guarantees `to`.
            let done = unsafe { gpu.read(self.va, to, len) };
            return done.then_some(()).ok_or(ACCESS_FAILED);
        }
        let from = std::ptr::with_exposed_provenance(self.va);
        // SAFETY: the caller guarantees `to`; the program mapped the memory at `va` for the NIC.
        let done = unsafe { on_demand::copy(from, to, len) };
        done.then_some(()).ok_or(C_RC_NO_TRANSLATION)
    }

    /// Returns an address at which the CPU can read `len` bytes, at most the bytes of one packet:
    /// the location itself, or the staging buffer until its next use.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    #[inline]
    pub fn payload(self, len: u16, staging: &mut Staging) -> Result<*const u8, ReturnCode> {
        if let MemoryKind::Pinned = self.memory {
            return Ok(std::ptr::with_exposed_provenance(self.va));
        }
        let buffer = &mut staging.0[..usize::from(len)];
        // SAFETY: `buffer` is writable for its length, and the memory is not pinned.
        unsafe { self.read_elsewhere(buffer.as_mut_ptr(), buffer.len()) }?;
        Ok(buffer.as_ptr())
    }

    /// Updates `len` bytes as [`update`] does. In memory of a GPU the update is atomic for other
    /// updates by this process, not for accesses by the GPU.
    ///
    /// # Errors
    /// NO_TRANSLATION if there is no memory, PCIE_UNSUCCESS_CMPL if GPU memory cannot be accessed.
    ///
    /// # Safety
    /// `len` aligned bytes, at most 16, were translated at this location, and software keeps pinned
    /// memory mapped until this returns.
    pub unsafe fn update(
        self,
        len: usize,
        mut compute: impl FnMut(u128) -> u128,
    ) -> Result<u128, ReturnCode> {
        let place = std::ptr::with_exposed_provenance_mut(self.va);
        match self.memory {
            MemoryKind::OnDemand if !on_demand::fault_in(place, len) => {
                return Err(C_RC_NO_TRANSLATION);
            }
            MemoryKind::Pinned | MemoryKind::OnDemand => {
                // SAFETY: the caller guarantees `len` aligned bytes at `va`, which are pinned or
                // which `fault_in` has just found.
                return Ok(unsafe { update(place, len, compute) });
            }
            MemoryKind::Gpu(_) => {}
        }
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 16];
        // SAFETY: the array holds 16 bytes, and the caller guarantees `len` bytes at this location.
        unsafe { self.read(bytes.as_mut_ptr(), len) }?;
        let before = u128::from_le_bytes(bytes);
        let after = compute(before).to_le_bytes();
        // SAFETY: the array holds 16 bytes, and the caller guarantees `len` bytes at this location.
        unsafe { self.write(after.as_ptr(), len) }?;
        Ok(before)
    }
}
