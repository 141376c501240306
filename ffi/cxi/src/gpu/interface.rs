//! The functions that each runtime provides, and what the runtimes share.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd};

use cxi_sys::{cxi_md_hints, gpu as sys};

use crate::error::Error;

/// Alignment and granularity of the buffers in bytes. NVIDIA's peer-to-peer interface requires it;
/// it is a multiple of the page sizes of CPUs and of the other GPUs' interfaces.
pub const PAGE: usize = 1 << 16;

/// The reason why the GPUs of a type cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// The library of the runtime cannot be loaded.
    Load(sys::RuntimeLoadError),
    /// A function of the runtime failed.
    Call(Error),
}

impl From<sys::RuntimeLoadError> for OpenError {
    fn from(error: sys::RuntimeLoadError) -> Self {
        Self::Load(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

/// One allocation of a runtime. The caller checks that ranges lie inside it.
pub trait GpuMemory: Send + Sync {
    /// Its address on the GPU, a multiple of [`PAGE`].
    fn address(&self) -> u64;

    /// Copies `bytes` to `offset`, and returns after the copy has arrived.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error>;

    /// Copies the bytes from `offset` on into `bytes`.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error>;

    /// Sets the first `len` bytes to `byte`, and returns after they have been set.
    fn fill(&self, byte: u8, len: usize) -> Result<(), Error>;

    /// Exports the first `len` bytes as a dma-buf, if the runtime can.
    fn export(&self, len: usize) -> Option<DmaBuf>;

    /// Frees the memory. A second call does nothing.
    fn free(&mut self) -> Result<(), Error>;
}

/// GPU memory as a file descriptor, which drivers share.
pub struct DmaBuf {
    pub file: OwnedFd,
    /// Offset of the memory in the file.
    pub offset: u64,
}

impl DmaBuf {
    /// The hints of a mapping of the memory.
    pub fn hints(&self) -> cxi_md_hints {
        cxi_md_hints {
            page_shift: 0,
            huge_shift: 0,
            ptg_mode: 0,
            ptg_mode_valid: false,
            dmabuf_fd: self.file.as_raw_fd(),
            dmabuf_offset: self.offset,
            dmabuf_valid: true,
        }
    }
}

/// The PCI address of a GPU in the form of the kernel. `write` writes it as C text of at most this
/// length, and returns whether it did.
pub fn pci_address(write: impl FnOnce(*mut c_char, c_int) -> bool) -> Option<String> {
    // 0000:c1:00.0, or more digits of the domain.
    let mut text = [0_u8; 32];
    let is_written = write(text.as_mut_ptr().cast(), text.len() as c_int);
    let address = CStr::from_bytes_until_nul(&text).ok().filter(|_| is_written)?;
    Some(address.to_str().ok()?.to_lowercase())
}

/// The text at `text`, unless it is null.
///
/// # Safety
///
/// `text` is null or points to a string that is never freed.
pub unsafe fn static_text(text: *const c_char) -> Option<&'static CStr> {
    // SAFETY: the caller guarantees a string that is never freed.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}
