//! Services: who may use a NIC, with which VNIs, and how much of it (libcxi.md 3).
//!
//! As with the driver, services belong to the NIC: a change by an administrator applies to all
//! current and later processes of the fabric, until it is changed back.

pub mod record;
pub mod registry;
mod text;

use std::ffi::{c_int, c_uint};
use std::mem::offset_of;

use cxi_sys::*;
use rustix::io::Errno;

use super::boundary::{answer, answer_number, from_c};
use super::device::OpenDevice;
use super::list;
use record::Service;
use registry::ServiceRegistry;

/// Describes a service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    svc_desc: *mut cxi_svc_desc,
) -> c_int {
    answer(|| {
        let desc = from_c!(output(svc_desc))?;
        *desc = with_services(from_c!(handle(dev))?, |registry| {
            Ok(registry.service(svc_id)?.describe())
        })?;
        Ok(())
    })
}

/// Lists the services, and since the driver after 14.0.1 all resource groups (libcxi.md 3.1), in
/// one block that [`cxil_free_svc_list`] frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_list(
    dev: *mut cxil_dev,
    svc_list: *mut *mut cxil_svc_list,
) -> c_int {
    from_c!(answer_at(svc_list, || {
        let found: Vec<cxi_svc_desc> = with_services(from_c!(handle(dev))?, |registry| {
            Ok(registry.groups().iter().map(Service::describe).collect())
        })?;
        list::hand_out(&found, offset_of!(cxil_svc_list, descs))
    }))
}

/// Frees a list of [`cxil_get_svc_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_free_svc_list(svc_list: *mut cxil_svc_list) {
    // SAFETY: the caller passes null or a list of `cxil_get_svc_list`, which it frees once.
    unsafe { list::free::<cxi_svc_desc, _>(svc_list, offset_of!(cxil_svc_list, descs)) };
}

/// Returns the resources that a resource group uses, over all processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_rsrc_use(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    rsrcs: *mut cxi_rsrc_use,
) -> c_int {
    from_c!(answer_at(rsrcs, || {
        with_services(from_c!(handle(dev))?, |registry| {
            Ok(use_of(registry, &registry.group(svc_id)?))
        })
    }))
}

/// Returns the resources in use by a resource group.
pub fn use_of(registry: &ServiceRegistry, group: &Service) -> cxi_rsrc_use {
    cxi_rsrc_use {
        svc_id: group.id,
        tle_pool_id: group.triggered_pool.into(),
        in_use: std::array::from_fn(|kind| registry.reported(group, kind)),
    }
}

/// Returns how many LNIs share an RGID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_lpr(dev: *mut cxil_dev, svc_id: c_uint) -> c_int {
    answer_number(|| {
        with_services(from_c!(handle(dev))?, |registry| {
            Ok(registry.group(svc_id)?.lnis_per_rgid as c_int)
        })
    })
}

/// Returns the VNI range of a service; 0 and 0 while no range is set. EINVAL for a service with a
/// list of VNIs, about which the reference is silent. EOPNOTSUPP for a resource group that is no
/// service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_get_vni_range(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    vni_min: *mut u16,
    vni_max: *mut u16,
) -> c_int {
    answer(|| {
        let min = from_c!(output(vni_min))?;
        let max = from_c!(output(vni_max))?;
        (*min, *max) = with_services(from_c!(handle(dev))?, |registry| {
            let Ok(service) = registry.service(svc_id) else {
                registry.group(svc_id)?;
                return Err(Errno::OPNOTSUPP);
            };
            if service.restricted_vnis {
                return Err(Errno::INVAL);
            }
            Ok(service.range_bounds())
        })?;
        Ok(())
    })
}

/// Calls `work` with the services of a device.
pub fn with_services<T>(
    device: &OpenDevice,
    work: impl FnOnce(&mut ServiceRegistry) -> Result<T, Errno>,
) -> Result<T, Errno> {
    device.nic.with(|engine| {
        let own: Vec<usize> = engine.lnis.iter().map(|(number, _)| number).collect();
        // List entries and triggered operations are made and released without a call.
        own.iter().for_each(|&lni| registry::publish(engine, lni));
        work(&mut ServiceRegistry::open(&engine.wire)?)
    })
}
