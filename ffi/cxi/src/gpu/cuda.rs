//! NVIDIA's GPUs, through the CUDA driver API.

use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use cxi_sys::gpu::cuda::*;

use super::{DmaBuf, OpenError, PAGE};
use crate::error::{Error, GpuStatus};

/// The API, initialised.
pub(super) struct Runtime {
    api: Cuda,
}

impl Runtime {
    /// Opens it and counts the GPUs.
    pub(super) fn open() -> Result<(Self, u32), OpenError> {
        let api = Cuda::load()?;
        // SAFETY: no preconditions.
        match unsafe { (api.cuInit)(0) } {
            CUDA_ERROR_NO_DEVICE => return Ok((Self { api }, 0)),
            result => check(&api, "cuInit", result)?,
        }
        let mut count = 0;
        // SAFETY: initialised, and there is a place for the answer.
        let result = unsafe { (api.cuDeviceGetCount)(&raw mut count) };
        check(&api, "cuDeviceGetCount", result)?;
        Ok((Self { api }, count.max(0) as u32))
    }

    /// `len` bytes on a GPU.
    pub(super) fn allocate(&self, index: u32, len: usize) -> Result<Memory, Error> {
        let api = self.api;
        let mut device = 0;
        // SAFETY: initialised, and there is a place for the answer.
        let result = unsafe { (api.cuDeviceGet)(&raw mut device, index as i32) };
        check(&api, "cuDeviceGet", result)?;
        let mut context = ptr::null_mut();
        // SAFETY: the device exists, and there is a place for the answer.
        let result = unsafe { (api.cuDevicePrimaryCtxRetain)(&raw mut context, device) };
        check(&api, "cuDevicePrimaryCtxRetain", result)?;
        // From here on, dropping it gives the context back.
        let mut memory = Memory {
            api,
            device,
            context: Some(context),
            base: 0,
            start: 0,
        };
        let mut base = 0;
        memory.current(|| {
            // SAFETY: the context is current, and there is a place for the answer.
            let result = unsafe { (api.cuMemAlloc_v2)(&raw mut base, len + PAGE) };
            check(&api, "cuMemAlloc_v2", result)
        })?;
        memory.base = base;
        memory.start = base.next_multiple_of(PAGE as u64);
        // What the NIC reads must not still be on its way: copies return before their end otherwise.
        let yes: u32 = 1;
        memory.current(|| {
            // SAFETY: memory of this context, and an attribute of this type.
            let result = unsafe {
                (api.cuPointerSetAttribute)(
                    (&raw const yes).cast(),
                    POINTER_ATTRIBUTE_SYNC_MEMOPS,
                    base,
                )
            };
            check(&api, "cuPointerSetAttribute", result)
        })?;
        Ok(memory)
    }
}

/// One allocation, and a reference to the context of its GPU.
pub(super) struct Memory {
    api: Cuda,
    device: CuDevice,
    /// `None` once given back.
    context: Option<CuContext>,
    /// What was allocated; 0 if nothing was.
    base: CuPointer,
    /// The first multiple of [`PAGE`] in it.
    start: CuPointer,
}

impl Memory {
    /// Does `work` with the GPU's context as that of this thread.
    fn current(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let context = self
            .context
            .ok_or(Error::new("cuCtxPushCurrent_v2", libc::EINVAL))?;
        // SAFETY: the context is retained.
        let result = unsafe { (self.api.cuCtxPushCurrent_v2)(context) };
        check(&self.api, "cuCtxPushCurrent_v2", result)?;
        let done = work();
        let mut popped = ptr::null_mut();
        // SAFETY: takes off what was pushed above; there is a place for the answer.
        let result = unsafe { (self.api.cuCtxPopCurrent_v2)(&raw mut popped) };
        done.and(check(&self.api, "cuCtxPopCurrent_v2", result))
    }
}

impl super::Memory for Memory {
    fn address(&self) -> u64 {
        self.start
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let to = self.start + offset as u64;
        self.current(|| {
            // SAFETY: the caller keeps to the allocation, and `bytes` is readable.
            let result =
                unsafe { (self.api.cuMemcpyHtoD_v2)(to, bytes.as_ptr().cast(), bytes.len()) };
            check(&self.api, "cuMemcpyHtoD_v2", result)
        })
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let from = self.start + offset as u64;
        self.current(|| {
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: the caller keeps to the allocation, and `bytes` is writable.
            let result = unsafe { (self.api.cuMemcpyDtoH_v2)(to, from, bytes.len()) };
            check(&self.api, "cuMemcpyDtoH_v2", result)
        })
    }

    fn fill(&self, byte: u8, len: usize) -> Result<(), Error> {
        self.current(|| {
            // SAFETY: the caller keeps to the allocation.
            let result = unsafe { (self.api.cuMemsetD8_v2)(self.start, byte, len) };
            check(&self.api, "cuMemsetD8_v2", result)?;
            // SAFETY: a context is current.
            let result = unsafe { (self.api.cuCtxSynchronize)() };
            check(&self.api, "cuCtxSynchronize", result)
        })
    }

    fn export(&self, len: usize) -> Option<DmaBuf> {
        let export = self.api.cuMemGetHandleForAddressRange?;
        let mut supported = 0;
        let attribute = DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;
        // SAFETY: the device exists, and there is a place for the answer.
        let result =
            unsafe { (self.api.cuDeviceGetAttribute)(&raw mut supported, attribute, self.device) };
        if result != CUDA_SUCCESS || supported == 0 {
            return None;
        }
        let mut fd: RawFd = -1;
        self.current(|| {
            let place = (&raw mut fd).cast();
            let kind = MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
            // SAFETY: whole pages of the allocation, and a place for an answer of this type.
            let result = unsafe { export(place, self.start, len, kind, 0) };
            check(&self.api, "cuMemGetHandleForAddressRange", result)
        })
        .ok()?;
        // SAFETY: the runtime has just made this file for us.
        let file = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
        Some(DmaBuf { file, offset: 0 })
    }

    fn free(&mut self) -> Result<(), Error> {
        if self.context.is_none() {
            return Ok(());
        }
        let freed = match self.base {
            0 => Ok(()),
            base => self.current(|| {
                // SAFETY: allocated here, and freed once.
                let result = unsafe { (self.api.cuMemFree_v2)(base) };
                check(&self.api, "cuMemFree_v2", result)
            }),
        };
        self.context = None;
        // SAFETY: retained in `allocate`, and given back once.
        let result = unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(self.device) };
        freed.and(check(&self.api, "cuDevicePrimaryCtxRelease_v2", result))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Whoever wants to know has called it.
        let _ = super::Memory::free(self);
    }
}

fn check(api: &Cuda, call: &'static str, result: CuResult) -> Result<(), Error> {
    if result == CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = ptr::null();
    // SAFETY: there is a place for the answer.
    let known = unsafe { (api.cuGetErrorString)(result, &raw mut text) } == CUDA_SUCCESS;
    let text = (known && !text.is_null()).then(|| {
        // SAFETY: a string of the library, which is never unloaded.
        unsafe { CStr::from_ptr(text) }
    });
    let errno = match result {
        CUDA_ERROR_OUT_OF_MEMORY => libc::ENOMEM,
        CUDA_ERROR_NO_DEVICE => libc::ENODEV,
        _ => libc::EIO,
    };
    let status = GpuStatus::new("CUDA", result.into(), text);
    Err(Error::of_gpu(call, errno, status))
}
