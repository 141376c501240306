//! The libcxi functions, with the library's rules and errno values (libcxi.md).
//!
//! Each function is a thin `extern "C"` shell around one that returns a `Result`. A handle is a
//! heap object whose public part comes first; the NIC's side of the object is in the engine's tables.
//! What holds what (EBUSY) is asked of those tables, so that there is no count to go wrong.

mod command_queue;
mod counter;
mod device;
mod event_queue;
mod lni;
mod memory;
mod platform;
mod portal;
mod registers;
mod service;
mod telemetry;
mod wait;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cxi_sys::{Api, cxil_dev};
use rustix::io::Errno;

/// The table of functions.
pub fn api() -> Api {
    Api {
        cxil_get_device_list: device::cxil_get_device_list,
        cxil_free_device_list: device::cxil_free_device_list,
        cxil_open_device: device::cxil_open_device,
        cxil_close_device: device::cxil_close_device,
        cxil_get_svc: service::cxil_get_svc,
        cxil_get_svc_list: Some(service::cxil_get_svc_list),
        cxil_free_svc_list: Some(service::cxil_free_svc_list),
        cxil_get_svc_rsrc_use: Some(service::cxil_get_svc_rsrc_use),
        cxil_alloc_trig_cp: Some(lni::cxil_alloc_trig_cp),
        cxil_svc_get_vni_range: Some(service::cxil_svc_get_vni_range),
        cxil_alloc_lni: lni::cxil_alloc_lni,
        cxil_destroy_lni: lni::cxil_destroy_lni,
        cxil_alloc_cp: lni::cxil_alloc_cp,
        cxil_destroy_cp: lni::cxil_destroy_cp,
        cxil_alloc_domain: lni::cxil_alloc_domain,
        cxil_destroy_domain: lni::cxil_destroy_domain,
        cxil_map: memory::cxil_map,
        cxil_unmap: memory::cxil_unmap,
        cxil_alloc_evtq: event_queue::cxil_alloc_evtq,
        cxil_destroy_evtq: event_queue::cxil_destroy_evtq,
        cxil_alloc_cmdq: command_queue::cxil_alloc_cmdq,
        cxil_destroy_cmdq: command_queue::cxil_destroy_cmdq,
        cxil_alloc_ct: counter::cxil_alloc_ct,
        cxil_ct_wb_update: counter::cxil_ct_wb_update,
        cxil_destroy_ct: counter::cxil_destroy_ct,
        cxil_alloc_pte: portal::cxil_alloc_pte,
        cxil_destroy_pte: portal::cxil_destroy_pte,
        cxil_map_pte: portal::cxil_map_pte,
        cxil_unmap_pte: portal::cxil_unmap_pte,
        progress: Some(progress),
    }
}

/// Runs the engine of the device in the calling thread.
unsafe extern "C" fn progress(dev: *mut cxil_dev) {
    // SAFETY: the caller passes a device of `cxil_open_device`, or null.
    let device = unsafe { dev.cast::<device::Device>().as_ref() };
    let run = || device.map(|device| device.nic.progress());
    // A panic has poisoned the engine; every later call on the device answers EIO.
    let _ = catch_unwind(AssertUnwindSafe(run));
}

/// Turns a result into what C expects: 0 or a negative errno. A panic becomes EIO.
fn answer(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => -error.raw_os_error(),
        Err(_) => -Errno::IO.raw_os_error(),
    }
}

/// The object behind a handle; EINVAL for null.
///
/// # Safety
/// The handle is null or of the library, of this kind, and not yet destroyed.
unsafe fn handle<'a, Object, Public>(handle: *const Public) -> Result<&'a Object, Errno> {
    // SAFETY: the caller's promise; the public part is the first field of the object.
    unsafe { handle.cast::<Object>().as_ref() }.ok_or(Errno::INVAL)
}

/// Where to store a new handle; EINVAL for null.
///
/// # Safety
/// The pointer is null or writable.
unsafe fn place<'a, Public>(place: *mut *mut Public) -> Result<&'a mut *mut Public, Errno> {
    // SAFETY: the caller's promise.
    unsafe { place.as_mut() }.ok_or(Errno::INVAL)
}

/// Gives an object away as a handle.
fn hand_out<Object, Public>(object: Object) -> *mut Public {
    Box::into_raw(Box::new(object)).cast()
}

/// Ends a handle.
///
/// # Safety
/// The handle comes from `hand_out` with the same object type, and is not used again.
unsafe fn take_back<Object, Public>(handle: *mut Public) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(handle.cast::<Object>()) });
}
