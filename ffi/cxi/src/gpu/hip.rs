//! AMD's GPUs, through HIP.

use std::ffi::{CStr, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use cxi_sys::gpu::hip::*;

use super::{DmaBuf, OpenError, PAGE};
use crate::error::{Error, GpuStatus};

/// HIP, initialised, and what exports its memory, where there is such.
pub(super) struct Runtime {
    api: Hip,
    hsa: Option<Hsa>,
}

impl Runtime {
    /// Opens it and counts the GPUs.
    pub(super) fn open() -> Result<(Self, u32), OpenError> {
        let api = Hip::load()?;
        let runtime = Self {
            api,
            hsa: Hsa::load().ok(),
        };
        // SAFETY: no preconditions.
        match unsafe { (api.hipInit)(0) } {
            HIP_ERROR_NO_DEVICE => return Ok((runtime, 0)),
            result => check(&api, "hipInit", result)?,
        }
        let mut count = 0;
        // SAFETY: there is a place for the answer.
        match unsafe { (api.hipGetDeviceCount)(&raw mut count) } {
            HIP_ERROR_NO_DEVICE => count = 0,
            result => check(&api, "hipGetDeviceCount", result)?,
        }
        Ok((runtime, count.max(0) as u32))
    }

    /// `len` bytes on a GPU.
    pub(super) fn allocate(&self, index: u32, len: usize) -> Result<Memory, Error> {
        let mut memory = Memory {
            api: self.api,
            hsa: self.hsa,
            index: index as i32,
            base: ptr::null_mut(),
            start: 0,
        };
        memory.select()?;
        // SAFETY: there is a place for the answer.
        let result = unsafe { (self.api.hipMalloc)(&raw mut memory.base, len + PAGE) };
        check(&self.api, "hipMalloc", result)?;
        memory.start = (memory.base as u64).next_multiple_of(PAGE as u64);
        Ok(memory)
    }
}

/// One allocation.
pub(super) struct Memory {
    api: Hip,
    hsa: Option<Hsa>,
    /// The number of the GPU.
    index: i32,
    /// What was allocated; null if nothing was, or it is freed.
    base: *mut c_void,
    /// The first multiple of [`PAGE`] in it.
    start: u64,
}

impl Memory {
    /// Makes its GPU that of this thread.
    fn select(&self) -> Result<(), Error> {
        // SAFETY: no preconditions.
        let result = unsafe { (self.api.hipSetDevice)(self.index) };
        check(&self.api, "hipSetDevice", result)
    }

    fn at(&self, offset: usize) -> *mut c_void {
        ptr::without_provenance_mut(self.start as usize + offset)
    }
}

impl super::Memory for Memory {
    fn address(&self) -> u64 {
        self.start
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.select()?;
        let (to, from) = (self.at(offset), bytes.as_ptr().cast());
        // SAFETY: the caller keeps to the allocation, and `bytes` is readable.
        let result =
            unsafe { (self.api.hipMemcpy)(to, from, bytes.len(), HIP_MEMCPY_HOST_TO_DEVICE) };
        check(&self.api, "hipMemcpy", result)?;
        // What the NIC reads must not still be on its way.
        // SAFETY: no preconditions.
        let result = unsafe { (self.api.hipDeviceSynchronize)() };
        check(&self.api, "hipDeviceSynchronize", result)
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.select()?;
        let (to, from) = (bytes.as_mut_ptr().cast(), self.at(offset));
        // SAFETY: the caller keeps to the allocation, and `bytes` is writable.
        let result =
            unsafe { (self.api.hipMemcpy)(to, from, bytes.len(), HIP_MEMCPY_DEVICE_TO_HOST) };
        check(&self.api, "hipMemcpy", result)
    }

    fn fill(&self, byte: u8, len: usize) -> Result<(), Error> {
        self.select()?;
        // SAFETY: the caller keeps to the allocation.
        let result = unsafe { (self.api.hipMemset)(self.at(0), byte.into(), len) };
        check(&self.api, "hipMemset", result)?;
        // SAFETY: no preconditions.
        let result = unsafe { (self.api.hipDeviceSynchronize)() };
        check(&self.api, "hipDeviceSynchronize", result)
    }

    fn export(&self, len: usize) -> Option<DmaBuf> {
        let export = self.hsa?.hsa_amd_portable_export_dmabuf;
        let (mut fd, mut offset) = (-1, 0);
        // SAFETY: memory of the allocation, and places for the answers.
        let result = unsafe { export(self.at(0), len, &raw mut fd, &raw mut offset) };
        if result != HIP_SUCCESS || fd < 0 {
            return None;
        }
        // SAFETY: the runtime has just made this file for us.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Some(DmaBuf { file, offset })
    }

    fn free(&mut self) -> Result<(), Error> {
        if self.base.is_null() {
            return Ok(());
        }
        let base = std::mem::replace(&mut self.base, ptr::null_mut());
        self.select()?;
        // SAFETY: allocated here, and freed once.
        let result = unsafe { (self.api.hipFree)(base) };
        check(&self.api, "hipFree", result)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Whoever wants to know has called it.
        let _ = super::Memory::free(self);
    }
}

fn check(api: &Hip, call: &'static str, result: HipError) -> Result<(), Error> {
    if result == HIP_SUCCESS {
        return Ok(());
    }
    // SAFETY: no preconditions.
    let text = unsafe { (api.hipGetErrorString)(result) };
    let text = (!text.is_null()).then(|| {
        // SAFETY: a string of the library, which is never unloaded.
        unsafe { CStr::from_ptr(text) }
    });
    let errno = match result {
        HIP_ERROR_OUT_OF_MEMORY => libc::ENOMEM,
        HIP_ERROR_NO_DEVICE => libc::ENODEV,
        _ => libc::EIO,
    };
    let status = GpuStatus::new("HIP", result.into(), text);
    Err(Error::of_gpu(call, errno, status))
}
