//! GPUs of NVIDIA, through the CUDA driver API.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;

use cxi_sys::gpu::cuda::*;

use super::interface::{self, DmaBuf, OpenError, PAGE, static_text};
use crate::error::{Error, GpuStatus};

/// The CUDA driver API, initialised.
pub(super) struct CudaRuntime {
    api: Cuda,
}

impl CudaRuntime {
    /// Opens the driver API and counts the GPUs.
    pub(super) fn open() -> Result<(Self, u32), OpenError> {
        let api = Cuda::load()?;
        // SAFETY: the function has no preconditions.
        match unsafe { (api.cuInit)(0) } {
            CUDA_ERROR_NO_DEVICE => return Ok((Self { api }, 0)),
            result => check(&api, "cuInit", result)?,
        }
        let mut count = 0;
        // SAFETY: cuInit succeeded; `count` is a valid out pointer.
        let result = unsafe { (api.cuDeviceGetCount)(&raw mut count) };
        check(&api, "cuDeviceGetCount", result)?;
        Ok((Self { api }, count.max(0) as u32))
    }

    /// The PCI address of GPU `index`; `None` if the API does not say.
    pub(super) fn pci_address(&self, index: u32) -> Option<String> {
        let address = self.api.cuDeviceGetPCIBusId?;
        let mut device = 0;
        // SAFETY: cuInit succeeded; `device` is a valid out pointer.
        let result = unsafe { (self.api.cuDeviceGet)(&raw mut device, index as i32) };
        check(&self.api, "cuDeviceGet", result).ok()?;
        interface::pci_address(|text, length| {
            // SAFETY: cuDeviceGet returned `device`; `text` has room for `length` bytes.
            unsafe { address(text, length, device) == CUDA_SUCCESS }
        })
    }

    /// Allocates `len` bytes on GPU `index`.
    pub(super) fn allocate(&self, index: u32, len: usize) -> Result<CudaMemory, Error> {
        let api = self.api;
        let mut device = 0;
        // SAFETY: cuInit succeeded; `device` is a valid out pointer.
        let result = unsafe { (api.cuDeviceGet)(&raw mut device, index as i32) };
        check(&api, "cuDeviceGet", result)?;
        let mut context = ptr::null_mut();
        // SAFETY: cuDeviceGet returned `device`; `context` is a valid out pointer.
        let result = unsafe { (api.cuDevicePrimaryCtxRetain)(&raw mut context, device) };
        check(&api, "cuDevicePrimaryCtxRetain", result)?;
        // Dropping `memory` releases the context.
        let mut memory = CudaMemory { api, device, context: Some(context), base: 0, start: 0 };
        let mut base = 0;
        memory.with_context(|| {
            // SAFETY: a context is current; `base` is a valid out pointer.
            let result = unsafe { (api.cuMemAlloc_v2)(&raw mut base, len + PAGE) };
            check(&api, "cuMemAlloc_v2", result)
        })?;
        memory.base = base;
        memory.start = base.next_multiple_of(PAGE as u64);
        // Otherwise copies may return before the data has arrived, and the NIC reads it next.
        let enable: u32 = 1;
        memory.with_context(|| {
            // SAFETY: `base` belongs to the current context; the attribute is a 32-bit flag.
            let result = unsafe {
                (api.cuPointerSetAttribute)(
                    (&raw const enable).cast(),
                    POINTER_ATTRIBUTE_SYNC_MEMOPS,
                    base,
                )
            };
            check(&api, "cuPointerSetAttribute", result)
        })?;
        Ok(memory)
    }
}

/// One allocation and a reference to the primary context of its GPU.
pub(super) struct CudaMemory {
    api: Cuda,
    device: CuDevice,
    /// `None` once released.
    context: Option<CuContext>,
    /// Start of the allocation; 0 before it.
    base: CuPointer,
    /// First multiple of [`PAGE`] in the allocation.
    start: CuPointer,
}

// SAFETY: the driver lets any thread use a context, which each call here makes current.
unsafe impl Send for CudaMemory {}
// SAFETY: a shared reference only copies, which the driver orders.
unsafe impl Sync for CudaMemory {}

impl CudaMemory {
    /// Runs `work` with the context of the GPU as the current one of this thread.
    fn with_context(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let context = self.context.ok_or(Error::new("cuCtxPushCurrent_v2", libc::EINVAL))?;
        // SAFETY: `self` retains the context.
        let result = unsafe { (self.api.cuCtxPushCurrent_v2)(context) };
        check(&self.api, "cuCtxPushCurrent_v2", result)?;
        let done = work();
        let mut popped = ptr::null_mut();
        // SAFETY: the context pushed above is current; `popped` is a valid out pointer.
        let result = unsafe { (self.api.cuCtxPopCurrent_v2)(&raw mut popped) };
        done.and(check(&self.api, "cuCtxPopCurrent_v2", result))
    }
}

impl interface::GpuMemory for CudaMemory {
    fn address(&self) -> u64 {
        self.start
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let to = self.start + offset as u64;
        self.with_context(|| {
            // SAFETY: `DeviceMemory` checked that the range lies in the allocation; `bytes` is
            // readable.
            let result =
                unsafe { (self.api.cuMemcpyHtoD_v2)(to, bytes.as_ptr().cast(), bytes.len()) };
            check(&self.api, "cuMemcpyHtoD_v2", result)
        })
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let from = self.start + offset as u64;
        self.with_context(|| {
            let to = bytes.as_mut_ptr().cast();
            // SAFETY: `DeviceMemory` checked that the range lies in the allocation; `bytes` is
            // writable.
            let result = unsafe { (self.api.cuMemcpyDtoH_v2)(to, from, bytes.len()) };
            check(&self.api, "cuMemcpyDtoH_v2", result)
        })
    }

    fn fill(&self, byte: u8, len: usize) -> Result<(), Error> {
        self.with_context(|| {
            // SAFETY: `DeviceMemory` passes its length, which the allocation holds from `start` on.
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
        // SAFETY: cuDeviceGet returned the device; `supported` is a valid out pointer.
        let result =
            unsafe { (self.api.cuDeviceGetAttribute)(&raw mut supported, attribute, self.device) };
        if result != CUDA_SUCCESS || supported == 0 {
            return None;
        }
        let mut fd: RawFd = -1;
        self.with_context(|| {
            let place = (&raw mut fd).cast();
            let kind = MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
            // SAFETY: the range is whole pages of the allocation; a handle of this type is an
            // `int`, for which `fd` is a valid out pointer.
            let result = unsafe { export(place, self.start, len, kind, 0) };
            check(&self.api, "cuMemGetHandleForAddressRange", result)
        })
        .ok()?;
        // SAFETY: the runtime returned a new file descriptor, which nothing else closes.
        let file = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })?;
        Some(DmaBuf { file, offset: 0 })
    }

    fn free(&mut self) -> Result<(), Error> {
        if self.context.is_none() {
            return Ok(());
        }
        let freed = match self.base {
            0 => Ok(()),
            base => self.with_context(|| {
                // SAFETY: cuMemAlloc returned `base`; without a context, a second call returns
                // above.
                let result = unsafe { (self.api.cuMemFree_v2)(base) };
                check(&self.api, "cuMemFree_v2", result)
            }),
        };
        self.context = None;
        // SAFETY: `allocate` retained the context; without a context, a second call returns above.
        let result = unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(self.device) };
        freed.and(check(&self.api, "cuDevicePrimaryCtxRelease_v2", result))
    }
}

impl Drop for CudaMemory {
    fn drop(&mut self) {
        // `DeviceMemory::free` reports failures; a drop cannot.
        let _ = interface::GpuMemory::free(self);
    }
}

fn check(api: &Cuda, call: &'static str, result: CuResult) -> Result<(), Error> {
    if result == CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = ptr::null();
    // SAFETY: `text` is a valid out pointer.
    let known = unsafe { (api.cuGetErrorString)(result, &raw mut text) } == CUDA_SUCCESS;
    let text = if known { text } else { ptr::null() };
    // SAFETY: the text is null or a constant of the library, which is never unloaded.
    let text = unsafe { static_text(text) };
    let errno = match result {
        CUDA_ERROR_OUT_OF_MEMORY => libc::ENOMEM,
        CUDA_ERROR_NO_DEVICE => libc::ENODEV,
        _ => libc::EIO,
    };
    let status = GpuStatus::new("CUDA", result.into(), text);
    Err(Error::from_gpu(call, errno, status))
}
