//! Memory of NVIDIA's GPUs, through the CUDA driver API.

use std::ptr;
use std::sync::OnceLock;

use cxi_sys::gpu::cuda::*;

use super::interface::Gpu;

struct CudaOwner(Cuda);

/// The runtime if all `len` bytes at `va` are device memory of CUDA.
pub fn owner(va: usize, len: usize) -> Option<&'static dyn Gpu> {
    static OWNER: OnceLock<CudaOwner> = OnceLock::new();
    let owner = match OWNER.get() {
        Some(owner) => owner,
        None => {
            let table = Cuda::loaded()?;
            OWNER.get_or_init(|| CudaOwner(table))
        }
    };
    owner.owns(va, len).then_some(owner)
}

/// Whether the process has loaded the runtime.
pub fn is_loaded() -> bool {
    Cuda::loaded().is_some()
}

impl CudaOwner {
    fn owns(&self, va: usize, len: usize) -> bool {
        let mut kind: u32 = 0;
        let place = (&raw mut kind).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_MEMORY_TYPE, va as u64)
        };
        if result != CUDA_SUCCESS || kind != MEMORYTYPE_DEVICE {
            return false;
        }
        // Queried as attributes, because cuMemGetAddressRange needs a current context.
        let mut base: CuPointer = 0;
        let place = (&raw mut base).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_RANGE_START_ADDR, va as u64)
        };
        if result != CUDA_SUCCESS {
            return false;
        }
        let mut size: usize = 0;
        let place = (&raw mut size).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_RANGE_SIZE, va as u64)
        };
        let skipped = (va as u64).wrapping_sub(base) as usize;
        result == CUDA_SUCCESS && skipped <= size && len <= size - skipped
    }

    /// Calls `copy` in the context of the memory at `va`, because engines run in any thread.
    fn in_context(&self, va: usize, copy: impl FnOnce() -> CuResult) -> bool {
        let mut context: CuContext = ptr::null_mut();
        let place = (&raw mut context).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result =
            unsafe { (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_CONTEXT, va as u64) };
        if result != CUDA_SUCCESS {
            return false;
        }
        // SAFETY: the context has memory, so it exists.
        if unsafe { (self.0.cuCtxPushCurrent_v2)(context) } != CUDA_SUCCESS {
            return false;
        }
        let copied = copy();
        let mut popped = ptr::null_mut();
        // SAFETY: the context pushed above is current, and `popped` has room for it.
        let result = unsafe { (self.0.cuCtxPopCurrent_v2)(&raw mut popped) };
        copied == CUDA_SUCCESS && result == CUDA_SUCCESS
    }
}

impl Gpu for CudaOwner {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        self.in_context(from, || {
            // SAFETY: the caller guarantees `to`; CUDA rejects `from` unless it is device memory.
            unsafe { (self.0.cuMemcpyDtoH_v2)(to.cast(), from as u64, len) }
        })
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        self.in_context(to, || {
            // SAFETY: the caller guarantees `from`; CUDA rejects `to` unless it is device memory.
            let result = unsafe { (self.0.cuMemcpyHtoD_v2)(to as u64, from.cast(), len) };
            if result != CUDA_SUCCESS {
                return result;
            }
            // Copies from pageable memory may return before they are complete.
            // SAFETY: the context pushed by `in_context` is current.
            unsafe { (self.0.cuCtxSynchronize)() }
        })
    }
}
