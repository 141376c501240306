//! Memory of GPUs, which the CPU must not access. A program that maps it for the NIC has the
//! runtime of the GPU in its process, and the engine copies through that runtime.
//!
//! CUDA and HIP identify their memory by its address. In Level Zero an address is valid in one
//! context only, so its memory is imported through the dma-buf of the mapping, which hardware
//! requires too.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, fcntl_getfd};

mod cuda;
mod hip;
mod interface;
mod level_zero;

pub use interface::{DmaBuf, Gpu};
pub use level_zero::Import;

/// Device memory with the address that its runtime uses in this process.
pub struct Found {
    pub gpu: &'static dyn Gpu,
    pub address: usize,
    /// The import to be released when the memory is unmapped.
    pub import: Option<Import>,
}

/// Finds the runtime of `len` bytes of device memory at `va`.
///
/// # Errors
/// EBADF if the dma-buf is not an open file; EINVAL if no runtime of this process knows the memory.
pub fn find(va: usize, len: usize, dma_buf: Option<DmaBuf>) -> Result<Found, Errno> {
    if let Some(DmaBuf { fd, .. }) = dma_buf {
        if fd < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: the caller of `cxil_map` keeps the descriptor open during the call; if it is not
        // open, `fcntl_getfd` fails.
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
