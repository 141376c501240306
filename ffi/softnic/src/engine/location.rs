//! Where translated bytes are: in memory of the CPU, or of a GPU.

use std::sync::{Mutex, PoisonError};

use cxi_sys::C_RC_PCIE_UNSUCCESS_CMPL;

use super::bytes::{copy, update};
use super::packet::SEGMENT;
use super::return_codes::ReturnCode;
use crate::gpu::Gpu;

/// The return code for device memory that cannot be accessed: that of an unsuccessful PCIe
/// completion (nic.md 7).
const ACCESS_FAILED: ReturnCode = C_RC_PCIE_UNSUCCESS_CMPL;

/// The memory behind a translated address. The address of memory of a GPU is not valid for the CPU.
#[derive(Clone, Copy)]
pub struct Location {
    pub va: usize,
    pub gpu: Option<&'static dyn Gpu>,
}

/// A buffer for data read from a GPU on its way into a packet.
pub struct Staging(Box<[u8; SEGMENT]>);

impl Staging {
    /// Makes an empty buffer.
    pub fn new() -> Self {
        Self(Box::new([0; SEGMENT]))
    }
}

impl Location {
    /// Returns the location of memory of the CPU.
    pub fn host(va: usize) -> Self {
        Self { va, gpu: None }
    }

    /// Copies `len` bytes to this location.
    ///
    /// # Errors
    /// PCIE_UNSUCCESS_CMPL if the memory of a GPU cannot be accessed.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes. `len` bytes were translated at this location, and
    /// software keeps them mapped until this returns.
    #[inline]
    pub unsafe fn write(self, from: *const u8, len: usize) -> Result<(), ReturnCode> {
        match self.gpu {
            None => {
                let to = std::ptr::with_exposed_provenance_mut(self.va);
                // SAFETY: the caller guarantees `from`, and `len` mapped bytes at `va`.
                unsafe { copy(from, to, len) };
                Ok(())
            }
            Some(gpu) => {
                // SAFETY: the caller guarantees `from`.
                let done = unsafe { gpu.write(from, self.va, len) };
                done.then_some(()).ok_or(ACCESS_FAILED)
            }
        }
    }

    /// Copies `len` bytes from this location.
    ///
    /// # Errors
    /// PCIE_UNSUCCESS_CMPL if the memory of a GPU cannot be accessed.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes. `len` bytes were translated at this location, and software
    /// keeps them mapped until this returns.
    #[inline]
    pub unsafe fn read(self, to: *mut u8, len: usize) -> Result<(), ReturnCode> {
        match self.gpu {
            None => {
                let from = std::ptr::with_exposed_provenance(self.va);
                // SAFETY: the caller guarantees `to`, and `len` mapped bytes at `va`.
                unsafe { copy(from, to, len) };
                Ok(())
            }
            Some(gpu) => {
                // SAFETY: the caller guarantees `to`.
                let done = unsafe { gpu.read(self.va, to, len) };
                done.then_some(()).ok_or(ACCESS_FAILED)
            }
        }
    }

    /// Returns an address at which the CPU can read `len` bytes, at most one packet's: the location
    /// itself, or the staging buffer until its next use.
    ///
    /// # Errors
    /// PCIE_UNSUCCESS_CMPL if the memory of a GPU cannot be accessed.
    #[inline]
    pub fn payload(self, len: u16, staging: &mut Staging) -> Result<*const u8, ReturnCode> {
        let Some(gpu) = self.gpu else {
            return Ok(std::ptr::with_exposed_provenance(self.va));
        };
        let buffer = &mut staging.0[..usize::from(len)];
        // SAFETY: `buffer` is writable for its length.
        let done = unsafe { gpu.read(self.va, buffer.as_mut_ptr(), buffer.len()) };
        done.then_some(buffer.as_ptr()).ok_or(ACCESS_FAILED)
    }

    /// Updates `len` bytes as [`update`] does. In memory of a GPU the update is atomic for other
    /// updates by this process, not for accesses by the GPU.
    ///
    /// # Errors
    /// PCIE_UNSUCCESS_CMPL if the memory of a GPU cannot be accessed.
    ///
    /// # Safety
    /// `len` aligned bytes, at most 16, were translated at this location, and software keeps them
    /// mapped until this returns.
    pub unsafe fn update(
        self,
        len: usize,
        mut compute: impl FnMut(u128) -> u128,
    ) -> Result<u128, ReturnCode> {
        if self.gpu.is_none() {
            let place = std::ptr::with_exposed_provenance_mut(self.va);
            // SAFETY: the caller guarantees `len` aligned and mapped bytes at `va`.
            return Ok(unsafe { update(place, len, compute) });
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
