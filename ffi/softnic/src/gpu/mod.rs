//! Memory of GPUs, which the CPU must not access. A program that maps it for the NIC has the
//! runtime of the GPU in its process, and the engine copies through that runtime.
//!
//! CUDA and HIP identify their memory by its address. In Level Zero an address is valid in one
//! context only, so its memory is imported through the dma-buf of the mapping, which hardware
//! requires too.

use std::os::fd::BorrowedFd;

use rustix::fs::fstat;
use rustix::io::Errno;

use crate::pages::page_size;

mod cuda;
mod hip;
mod interface;
mod level_zero;

pub use interface::{DmaBuf, Gpu};
pub use level_zero::Import;

/// Bytes of a page of NVIDIA's peer memory (libcxi.md 7.5).
const PEER_PAGE: usize = 1 << 16;

/// Device memory with the address that its runtime uses in this process.
pub struct GpuAddress {
    pub gpu: &'static dyn Gpu,
    pub address: usize,
    /// Bytes of a page of the mapping.
    pub page: usize,
    /// The import to be released when the memory is unmapped.
    pub import: Option<Import>,
}

/// Finds the runtime of `len` bytes of peer memory at `va`. Memory of CUDA is mapped in pages of 64
/// KiB, which must be device memory throughout (libcxi.md 7.5).
///
/// # Errors
/// ENODEV if no runtime of this process has peer memory; for other memory EINVAL, as from NVIDIA's
/// module, or ENOENT, as from AMD's.
pub fn find_peer(va: usize, len: usize) -> Result<GpuAddress, Errno> {
    let start = va / PEER_PAGE * PEER_PAGE;
    let end = va.checked_add(len).ok_or(Errno::OVERFLOW)?;
    let end = end.checked_next_multiple_of(PEER_PAGE).ok_or(Errno::OVERFLOW)?;
    let cuda = cuda::owner(start, end - start).map(|gpu| (gpu, PEER_PAGE));
    let (gpu, page) = cuda
        .or_else(|| hip::owner(va, len).map(|gpu| (gpu, page_size())))
        .ok_or_else(|| match (cuda::is_loaded(), hip::is_loaded()) {
            (true, _) => Errno::INVAL,
            (false, true) => Errno::NOENT,
            (false, false) => Errno::NODEV,
        })?;
    Ok(GpuAddress { gpu, address: va, page, import: None })
}

/// Finds the runtime of `len` bytes of a dma-buf. CUDA and HIP know them by the address `va`.
///
/// # Errors
/// EBADF if the dma-buf is not an open file; EFAULT if the bytes exceed it; EINVAL if no runtime of
/// this process knows the memory.
pub fn find_dma_buf(va: usize, len: usize, dma_buf: DmaBuf) -> Result<GpuAddress, Errno> {
    if dma_buf.fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the caller of `cxil_map` keeps the descriptor open during the call; if it is not
    // open, `fstat` fails.
    let file = unsafe { BorrowedFd::borrow_raw(dma_buf.fd) };
    let size = fstat(file)?.st_size as u64;
    let end = dma_buf.offset.checked_add(len).ok_or(Errno::INVAL)?;
    // Files that are no dma-bufs, such as terminals, have no size.
    if size > 0 && end as u64 > size {
        return Err(Errno::FAULT);
    }
    let page = page_size();
    if let Some(gpu) = cuda::owner(va, len).or_else(|| hip::owner(va, len)) {
        return Ok(GpuAddress { gpu, address: va, page, import: None });
    }
    let (gpu, address, import) = level_zero::import(dma_buf, len).ok_or(Errno::INVAL)?;
    Ok(GpuAddress { gpu, address, page, import: Some(import) })
}
