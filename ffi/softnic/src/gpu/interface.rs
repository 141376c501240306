//! The functions that each runtime provides.

use std::os::fd::RawFd;

/// Copies memory of a GPU. The functions return false if the memory was freed or the runtime
/// failed.
pub trait Gpu: Send + Sync {
    /// Copies `len` bytes from device memory.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool;

    /// Copies `len` bytes to device memory, and returns when the copy is complete.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool;
}

/// A dma-buf, and the offset of the memory in it.
#[derive(Clone, Copy)]
pub struct DmaBuf {
    pub fd: RawFd,
    pub offset: usize,
}
