//! The functions of libcxi, with the library's rules and errno values (libcxi.md).
//!
//! Each function is an `extern "C"` shell around a closure that returns a `Result` ([`boundary`]).
//! Which objects hold others (EBUSY) is looked up in the engine's tables, not counted.
//!
//! | file | concept |
//! |---|---|
//! | `boundary` | pointers, handles, results and lists of C |
//! | `device`, `lni`, `memory`, `event_queue`, `command_queue`, `counter`, `portal` | one kind of object each |
//! | `service` | who may use a NIC, and how much of it |
//! | `foreign` | functions that only other programs use |

mod boundary;
mod command_queue;
mod counter;
mod device;
mod event_queue;
mod foreign;
mod lni;
mod memory;
mod portal;
mod service;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cxi_sys::{Api, cxil_dev};

use boundary::from_c;
pub use device::{DRIVER, NAME, information};

/// The table of functions.
pub fn api() -> Api {
    Api {
        cxil_get_device_list: device::cxil_get_device_list,
        cxil_free_device_list: device::cxil_free_device_list,
        cxil_open_device: device::cxil_open_device,
        cxil_close_device: device::cxil_close_device,
        cxil_get_svc: Some(service::cxil_get_svc),
        cxil_get_svc_list: Some(service::cxil_get_svc_list),
        cxil_free_svc_list: Some(service::cxil_free_svc_list),
        cxil_get_svc_rsrc_use: Some(service::cxil_get_svc_rsrc_use),
        cxil_get_svc_lpr: Some(service::cxil_get_svc_lpr),
        cxil_alloc_trig_cp: Some(lni::cxil_alloc_trig_cp),
        cxil_pte_status: Some(portal::cxil_pte_status),
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

/// Runs the engine of a device in the calling thread.
unsafe extern "C" fn progress(dev: *mut cxil_dev) {
    let device = from_c!(optional_handle(dev));
    let run = || device.map(|device| device.nic.progress());
    // A panic poisons the engine; every later call on the device returns EIO.
    let _ = catch_unwind(AssertUnwindSafe(run));
}
