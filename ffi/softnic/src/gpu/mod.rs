//! Memory of GPUs, which the CPU must not touch: whoever has mapped it for the NIC has its runtime in this
//! process, and the engine copies through that.
//!
//! CUDA and HIP know their memory by its address. Level Zero knows an address in one context only, so its memory is
//! reached through the dma-buf that comes with the mapping; on hardware it cannot be reached without one either.

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{Errno, fcntl_getfd};

mod cuda;
mod hip;
mod level_zero;

pub use level_zero::Import;

/// Who copies for the engine. False is a failure: the memory is gone, or the runtime broke down.
pub trait Gpu: Send + Sync {
    /// Copies `len` bytes of device memory.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool;

    /// Copies `len` bytes into device memory, and returns when they are there.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool;
}

/// A dma-buf, and where in it the memory begins.
#[derive(Clone, Copy)]
pub struct DmaBuf {
    pub fd: RawFd,
    pub offset: usize,
}

/// Device memory under the address by which its runtime knows it here.
pub struct Found {
    pub gpu: &'static dyn Gpu,
    pub address: usize,
    /// What is given back when it is unmapped.
    pub import: Option<Import>,
}

/// Whose memory `len` bytes at `va` are. EBADF if the dma-buf is no open file; EINVAL if it is no device memory
/// that a runtime of this process knows.
pub fn find(va: usize, len: usize, dma_buf: Option<DmaBuf>) -> Result<Found, Errno> {
    if let Some(DmaBuf { fd, .. }) = dma_buf {
        if fd < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: the caller of the C function lends it for the call; one that is not open is found out.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        fcntl_getfd(file)?;
    }
    if let Some(gpu) = cuda::owner(va, len).or_else(|| hip::owner(va, len)) {
        return Ok(Found {
            gpu,
            address: va,
            import: None,
        });
    }
    let (gpu, address, import) = dma_buf
        .and_then(|dma_buf| level_zero::import(dma_buf, len))
        .ok_or(Errno::INVAL)?;
    Ok(Found {
        gpu,
        address,
        import: Some(import),
    })
}
