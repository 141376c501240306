//! GPUs of AMD, through HIP.

use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use cxi_sys::gpu::hip::*;

use super::interface::{self, DmaBuf, OpenError, PAGE, static_text};
use crate::error::{Error, GpuStatus};

/// HIP, initialised, and the ROCm runtime below it, which exports memory, if it is loaded.
pub(super) struct HipRuntime {
    api: Hip,
    hsa: Option<Hsa>,
}

impl HipRuntime {
    /// Opens HIP and counts the GPUs.
    pub(super) fn open() -> Result<(Self, u32), OpenError> {
        let api = Hip::load()?;
        let runtime = Self { api, hsa: Hsa::load().ok() };
        // SAFETY: the function has no preconditions.
        match unsafe { (api.hipInit)(0) } {
            HIP_ERROR_NO_DEVICE => return Ok((runtime, 0)),
            result => check(&api, "hipInit", result)?,
        }
        let mut count = 0;
        // SAFETY: `count` is a valid out pointer.
        match unsafe { (api.hipGetDeviceCount)(&raw mut count) } {
            HIP_ERROR_NO_DEVICE => count = 0,
            result => check(&api, "hipGetDeviceCount", result)?,
        }
        Ok((runtime, count.max(0) as u32))
    }

    /// The PCI address of GPU `index`; `None` if the API does not say.
    pub(super) fn pci_address(&self, index: u32) -> Option<String> {
        let address = self.api.hipDeviceGetPCIBusId?;
        interface::pci_address(|text, length| {
            // SAFETY: `text` has room for `length` bytes.
            unsafe { address(text, length, index as i32) == HIP_SUCCESS }
        })
    }

    /// Allocates `len` bytes on GPU `index`.
    pub(super) fn allocate(&self, index: u32, len: usize) -> Result<HipMemory, Error> {
        let mut memory = HipMemory {
            api: self.api,
            hsa: self.hsa,
            index: index as i32,
            base: ptr::null_mut(),
            start: 0,
        };
        memory.select()?;
        // SAFETY: `base` is a valid out pointer.
        let result = unsafe { (self.api.hipMalloc)(&raw mut memory.base, len + PAGE) };
        check(&self.api, "hipMalloc", result)?;
        memory.start = (memory.base as u64).next_multiple_of(PAGE as u64);
        Ok(memory)
    }
}

/// One allocation.
pub(super) struct HipMemory {
    api: Hip,
    hsa: Option<Hsa>,
    /// Index of the GPU.
    index: i32,
    /// Start of the allocation; null before it and after `free`.
    base: *mut c_void,
    /// First multiple of [`PAGE`] in the allocation.
    start: u64,
}

// SAFETY: the runtime lets any thread use the memory of the GPU that each call here selects.
unsafe impl Send for HipMemory {}
// SAFETY: a shared reference only copies, which the runtime orders.
unsafe impl Sync for HipMemory {}

impl HipMemory {
    /// Makes its GPU the current one of this thread.
    fn select(&self) -> Result<(), Error> {
        // SAFETY: the function has no preconditions.
        let result = unsafe { (self.api.hipSetDevice)(self.index) };
        check(&self.api, "hipSetDevice", result)
    }

    fn at(&self, offset: usize) -> *mut c_void {
        ptr::without_provenance_mut(self.start as usize + offset)
    }
}

impl interface::GpuMemory for HipMemory {
    fn address(&self) -> u64 {
        self.start
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.select()?;
        let (to, from) = (self.at(offset), bytes.as_ptr().cast());
        // SAFETY: `DeviceMemory` checked that the range lies in the allocation; `bytes` is
        // readable.
        let result =
            unsafe { (self.api.hipMemcpy)(to, from, bytes.len(), HIP_MEMCPY_HOST_TO_DEVICE) };
        check(&self.api, "hipMemcpy", result)?;
        // hipMemcpy may return before the data has arrived, and the NIC reads it next.
        // SAFETY: the function has no preconditions.
        let result = unsafe { (self.api.hipDeviceSynchronize)() };
        check(&self.api, "hipDeviceSynchronize", result)
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.select()?;
        let (to, from) = (bytes.as_mut_ptr().cast(), self.at(offset));
        // SAFETY: `DeviceMemory` checked that the range lies in the allocation; `bytes` is
        // writable.
        let result =
            unsafe { (self.api.hipMemcpy)(to, from, bytes.len(), HIP_MEMCPY_DEVICE_TO_HOST) };
        check(&self.api, "hipMemcpy", result)
    }

    fn fill(&self, byte: u8, len: usize) -> Result<(), Error> {
        self.select()?;
        // SAFETY: `DeviceMemory` passes its length, which the allocation holds from `start` on.
        let result = unsafe { (self.api.hipMemset)(self.at(0), byte.into(), len) };
        check(&self.api, "hipMemset", result)?;
        // SAFETY: the function has no preconditions.
        let result = unsafe { (self.api.hipDeviceSynchronize)() };
        check(&self.api, "hipDeviceSynchronize", result)
    }

    fn export(&self, len: usize) -> Option<DmaBuf> {
        let export = self.hsa?.hsa_amd_portable_export_dmabuf;
        let (mut fd, mut offset) = (-1, 0);
        // SAFETY: the range lies in the allocation; `fd` and `offset` are valid out pointers.
        let result = unsafe { export(self.at(0), len, &raw mut fd, &raw mut offset) };
        if result != HIP_SUCCESS || fd < 0 {
            return None;
        }
        // SAFETY: the runtime returned a new file descriptor, which nothing else closes.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Some(DmaBuf { file, offset })
    }

    fn free(&mut self) -> Result<(), Error> {
        if self.base.is_null() {
            return Ok(());
        }
        let base = std::mem::replace(&mut self.base, ptr::null_mut());
        self.select()?;
        // SAFETY: hipMalloc returned `base`, and `replace` lets it be freed only once.
        let result = unsafe { (self.api.hipFree)(base) };
        check(&self.api, "hipFree", result)
    }
}

impl Drop for HipMemory {
    fn drop(&mut self) {
        // `DeviceMemory::free` reports failures; a drop cannot.
        let _ = interface::GpuMemory::free(self);
    }
}

fn check(api: &Hip, call: &'static str, result: HipError) -> Result<(), Error> {
    if result == HIP_SUCCESS {
        return Ok(());
    }
    // SAFETY: the function has no preconditions.
    let text = unsafe { (api.hipGetErrorString)(result) };
    // SAFETY: the text is null or a constant of the library, which is never unloaded.
    let text = unsafe { static_text(text) };
    let errno = match result {
        HIP_ERROR_OUT_OF_MEMORY => libc::ENOMEM,
        HIP_ERROR_NO_DEVICE => libc::ENODEV,
        _ => libc::EIO,
    };
    let status = GpuStatus::new("HIP", result.into(), text);
    Err(Error::from_gpu(call, errno, status))
}
