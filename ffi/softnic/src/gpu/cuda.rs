//! Memory of NVIDIA's GPUs, through the CUDA driver API.

use std::ptr;
use std::sync::OnceLock;

use cxi_sys::gpu::cuda::*;

use super::Gpu;

struct Owner(Cuda);

/// Who copies, if all of this is device memory of CUDA.
pub fn owner(va: usize, len: usize) -> Option<&'static dyn Gpu> {
    static OWNER: OnceLock<Owner> = OnceLock::new();
    let owner = match OWNER.get() {
        Some(owner) => owner,
        None => {
            let table = Cuda::loaded()?;
            OWNER.get_or_init(|| Owner(table))
        }
    };
    owner.owns(va, len).then_some(owner)
}

impl Owner {
    fn owns(&self, va: usize, len: usize) -> bool {
        let mut kind: u32 = 0;
        let place = (&raw mut kind).cast();
        // SAFETY: any address may be asked for; there is a place for an answer of this type.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_MEMORY_TYPE, va as u64)
        };
        if result != CUDA_SUCCESS || kind != MEMORYTYPE_DEVICE {
            return false;
        }
        // Asked for as attributes: cuMemGetAddressRange needs a current context, and there is none.
        let mut base: CuPointer = 0;
        let place = (&raw mut base).cast();
        // SAFETY: as above.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_RANGE_START_ADDR, va as u64)
        };
        if result != CUDA_SUCCESS {
            return false;
        }
        let mut size: usize = 0;
        let place = (&raw mut size).cast();
        // SAFETY: as above.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_RANGE_SIZE, va as u64)
        };
        let skipped = (va as u64).wrapping_sub(base) as usize;
        result == CUDA_SUCCESS && skipped <= size && len <= size - skipped
    }

    /// Does `copy` in the context that the memory at `va` belongs to: engines run in any thread.
    fn in_context(&self, va: usize, copy: impl FnOnce() -> CuResult) -> bool {
        let mut context: CuContext = ptr::null_mut();
        let place = (&raw mut context).cast();
        // SAFETY: any address may be asked for; there is a place for an answer of this type.
        let result =
            unsafe { (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_CONTEXT, va as u64) };
        if result != CUDA_SUCCESS {
            return false;
        }
        // SAFETY: the context has memory, so it is alive.
        if unsafe { (self.0.cuCtxPushCurrent_v2)(context) } != CUDA_SUCCESS {
            return false;
        }
        let copied = copy();
        let mut popped = ptr::null_mut();
        // SAFETY: takes off what was pushed above; there is a place for the answer.
        let result = unsafe { (self.0.cuCtxPopCurrent_v2)(&raw mut popped) };
        copied == CUDA_SUCCESS && result == CUDA_SUCCESS
    }
}

impl Gpu for Owner {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        self.in_context(from, || {
            // SAFETY: the caller vouches for `to`; CUDA knows its own memory, and refuses other.
            unsafe { (self.0.cuMemcpyDtoH_v2)(to.cast(), from as u64, len) }
        })
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        self.in_context(to, || {
            // SAFETY: the caller vouches for `from`; CUDA knows its own memory, and refuses other.
            let result = unsafe { (self.0.cuMemcpyHtoD_v2)(to as u64, from.cast(), len) };
            if result != CUDA_SUCCESS {
                return result;
            }
            // Copies from ordinary memory return before their end.
            // SAFETY: a context is current.
            unsafe { (self.0.cuCtxSynchronize)() }
        })
    }
}
