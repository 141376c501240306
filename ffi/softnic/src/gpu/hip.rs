//! Memory of AMD's GPUs, through HIP.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use cxi_sys::gpu::hip::*;

use super::interface::Gpu;

struct HipOwner(Hip);

/// The runtime if the first and the last of `len` bytes at `va` are device memory of HIP.
pub fn owner(va: usize, len: usize) -> Option<&'static dyn Gpu> {
    static OWNER: OnceLock<HipOwner> = OnceLock::new();
    let owner = match OWNER.get() {
        Some(owner) => owner,
        None => {
            let table = Hip::loaded()?;
            OWNER.get_or_init(|| HipOwner(table))
        }
    };
    let owns = owner.knows(va) && owner.knows(va.wrapping_add(len) - 1);
    owns.then_some(owner)
}

/// Whether the process has loaded the runtime.
pub fn is_loaded() -> bool {
    Hip::loaded().is_some()
}

impl HipOwner {
    /// Whether an address is device memory.
    fn knows(&self, va: usize) -> bool {
        let mut attributes = HipPointerAttributes {
            kind: 0,
            device: 0,
            device_pointer: ptr::null_mut(),
            host_pointer: ptr::null_mut(),
            is_managed: 0,
            allocation_flags: 0,
        };
        let (place, at) = (&raw mut attributes, pointer(va));
        // SAFETY: the function accepts any address, and `place` has room for the attributes.
        let result = unsafe { (self.0.hipPointerGetAttributes)(place, at) };
        result == HIP_SUCCESS
            && !attributes.device_pointer.is_null()
            && attributes.host_pointer.is_null()
    }
}

/// A device address as a pointer of HIP.
fn pointer(va: usize) -> *mut c_void {
    ptr::without_provenance_mut(va)
}

impl Gpu for HipOwner {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        let copy = self.0.hipMemcpy;
        // SAFETY: the caller guarantees `to`; HIP rejects `from` unless it is device memory.
        let result = unsafe { copy(to.cast(), pointer(from), len, HIP_MEMCPY_DEVICE_TO_HOST) };
        result == HIP_SUCCESS
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        let copy = self.0.hipMemcpy;
        // SAFETY: the caller guarantees `from`; HIP rejects `to` unless it is device memory.
        let result = unsafe { copy(pointer(to), from.cast(), len, HIP_MEMCPY_HOST_TO_DEVICE) };
        if result != HIP_SUCCESS {
            return false;
        }
        // Copies from pageable memory may return before they are complete.
        // SAFETY: the function only waits.
        let result = unsafe { (self.0.hipDeviceSynchronize)() };
        result == HIP_SUCCESS
    }
}
