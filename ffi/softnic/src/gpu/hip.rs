//! Memory of AMD's GPUs, through HIP.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use cxi_sys::gpu::hip::*;

use super::Gpu;

struct Owner(Hip);

/// Who copies, if this is device memory of HIP at both ends.
pub fn owner(va: usize, len: usize) -> Option<&'static dyn Gpu> {
    static OWNER: OnceLock<Owner> = OnceLock::new();
    let owner = match OWNER.get() {
        Some(owner) => owner,
        None => {
            let table = Hip::loaded()?;
            OWNER.get_or_init(|| Owner(table))
        }
    };
    let owns = owner.knows(va) && owner.knows(va.wrapping_add(len) - 1);
    owns.then_some(owner)
}

impl Owner {
    /// Whether this is memory of a device alone.
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
        // SAFETY: any address may be asked for; there is a place for the answer.
        let result = unsafe { (self.0.hipPointerGetAttributes)(place, at) };
        result == HIP_SUCCESS
            && !attributes.device_pointer.is_null()
            && attributes.host_pointer.is_null()
    }
}

/// A device address as HIP takes it.
fn pointer(va: usize) -> *mut c_void {
    ptr::without_provenance_mut(va)
}

impl Gpu for Owner {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        let copy = self.0.hipMemcpy;
        // SAFETY: the caller vouches for `to`; HIP knows its own memory, and refuses other.
        let result = unsafe { copy(to.cast(), pointer(from), len, HIP_MEMCPY_DEVICE_TO_HOST) };
        result == HIP_SUCCESS
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        let copy = self.0.hipMemcpy;
        // SAFETY: the caller vouches for `from`; HIP knows its own memory, and refuses other.
        let result = unsafe { copy(pointer(to), from.cast(), len, HIP_MEMCPY_HOST_TO_DEVICE) };
        if result != HIP_SUCCESS {
            return false;
        }
        // Copies from ordinary memory may return before their end.
        // SAFETY: waits, and touches nothing.
        let result = unsafe { (self.0.hipDeviceSynchronize)() };
        result == HIP_SUCCESS
    }
}
