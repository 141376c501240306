//! Services: who may use a NIC, with which VNIs, and how much of it (libcxi.md 3), and their
//! administration (libcxi.md 3.3).
//!
//! As with the driver, services belong to the NIC: a change by an administrator applies to all
//! current and later processes of the fabric, until it is changed back. Only root may change
//! services, by the effective user (libcxi.md speaks of CAP_SYS_ADMIN). In a user namespace every
//! user can be root, on a fabric of that namespace.

pub mod record;
pub mod registry;

use std::ffi::{c_int, c_uint};
use std::mem::offset_of;

use cxi_sys::*;
use rustix::io::Errno;

use super::boundary::{self, answer, answer_number, from_c, require_root};
use super::device::OpenDevice;
use crate::engine::VniRange;
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
        boundary::hand_out_list(&found, offset_of!(cxil_svc_list, descs))
    }))
}

/// Frees a list of [`cxil_get_svc_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_free_svc_list(svc_list: *mut cxil_svc_list) {
    // SAFETY: the caller passes null or a list of `cxil_get_svc_list`, which it frees once.
    unsafe { boundary::free_list::<cxi_svc_desc, _>(svc_list, offset_of!(cxil_svc_list, descs)) };
}

/// The resources that a resource group uses, over all processes.
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

/// The resources in use by a resource group.
fn use_of(registry: &ServiceRegistry, group: &Service) -> cxi_rsrc_use {
    cxi_rsrc_use {
        svc_id: group.id,
        tle_pool_id: group.triggered_pool.into(),
        in_use: std::array::from_fn(|kind| registry.reported(group, kind)),
    }
}

/// How many LNIs share an RGID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_lpr(dev: *mut cxil_dev, svc_id: c_uint) -> c_int {
    answer_number(|| {
        with_services(from_c!(handle(dev))?, |registry| {
            Ok(registry.group(svc_id)?.lnis_per_rgid as c_int)
        })
    })
}

/// The VNI range of a service; 0 and 0 while no range is set. EINVAL for a service with a list of
/// VNIs, about which the reference is silent. EOPNOTSUPP for a resource group that is no service.
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

/// Lists the resources that resource groups use, in one block, which
/// [`cxil_free_svc_rsrc_list`] frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_rsrc_list(
    dev: *mut cxil_dev,
    rsrc_list: *mut *mut cxil_svc_rsrc_list,
) -> c_int {
    from_c!(answer_at(rsrc_list, || {
        let found: Vec<cxi_rsrc_use> = with_services(from_c!(handle(dev))?, |registry| {
            let groups = registry.groups();
            Ok(groups.iter().map(|group| use_of(registry, group)).collect())
        })?;
        boundary::hand_out_list(&found, offset_of!(cxil_svc_rsrc_list, rsrcs))
    }))
}

/// Frees a list of [`cxil_get_svc_rsrc_list`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_free_svc_rsrc_list(rsrc_list: *mut cxil_svc_rsrc_list) {
    let offset = offset_of!(cxil_svc_rsrc_list, rsrcs);
    // SAFETY: the caller passes null or a list of `cxil_get_svc_rsrc_list`, which it frees once.
    unsafe { boundary::free_list::<cxi_rsrc_use, _>(rsrc_list, offset) };
}

/// Makes a service and returns its number. With `restricted_vnis` 0 the service has no VNIs and is
/// disabled; it can be enabled after its range is set. Otherwise it is enabled, whatever `enable`
/// of the description says (libcxi.md 3.3). ENOSPC if it reserves more resources than are left, or
/// list entries or triggered operations while no pool is left: `fail_info`, which may be null, then
/// has what is left. EEXIST for a VNI of another service that the release refuses (libcxi.md 3.3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_svc(
    dev: *mut cxil_dev,
    desc: *const cxi_svc_desc,
    fail_info: *mut cxi_svc_fail_info,
) -> c_int {
    answer_number(|| {
        let desc = from_c!(input(desc))?;
        let fail_info = from_c!(optional_output(fail_info));
        with_services(from_c!(handle(dev))?, |registry| {
            require_root()?;
            let service = Service::described(registry.free_id()?, desc)?;
            let service = with_resources(registry, service, fail_info)?;
            let id = service.id;
            let mut services = registry.services().to_vec();
            services.push(service);
            services.sort_by_key(|service| service.id);
            registry.set_services(services)?;
            Ok(id as c_int)
        })
    })
}

/// Replaces the service that the description names by the one that [`cxil_alloc_svc`] would make,
/// enabled or disabled as `enable` says. Its range, LNIs per RGID and exclusive profiles remain.
/// EBUSY while it has users; EINVAL if `resource_limits` differs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_update_svc(
    dev: *mut cxil_dev,
    desc: *const cxi_svc_desc,
    fail_info: *mut cxi_svc_fail_info,
) -> c_int {
    answer(|| {
        let desc = from_c!(input(desc))?;
        let fail_info = from_c!(optional_output(fail_info));
        with_services(from_c!(handle(dev))?, |registry| {
            require_root()?;
            let before = unused(registry, desc.svc_id)?;
            let described = Service::described(desc.svc_id, desc)?;
            if described.resource_limits != before.resource_limits {
                return Err(Errno::INVAL);
            }
            let range = before.range.filter(|_| !described.restricted_vnis);
            let service = Service {
                is_system: before.is_system,
                range,
                enabled: desc.enable() != 0 && (described.restricted_vnis || range.is_some()),
                lnis_per_rgid: before.lnis_per_rgid,
                exclusive_profiles: before.exclusive_profiles,
                ..described
            };
            let service = with_resources(registry, service, fail_info)?;
            replace(registry, service)
        })
    })
}

/// Destroys a service. EBUSY while it has users; EINVAL for the default service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_svc(dev: *mut cxil_dev, svc_id: c_uint) -> c_int {
    answer(|| {
        with_services(from_c!(handle(dev))?, |registry| {
            require_root()?;
            if svc_id == CXI_DEFAULT_SVC_ID {
                return Err(Errno::INVAL);
            }
            unused(registry, svc_id)?;
            let others = registry.services().iter().filter(|each| each.id != svc_id);
            let others = others.cloned().collect();
            registry.set_services(others)
        })
    })
}

/// Sets how many LNIs share an RGID, of which the NIC has 255. EINVAL for 0 and above 8, the number
/// of address contexts of an RGID; the reference names the function only. LNIs that share an
/// RGID count as one, but each has its own profiles and contexts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_set_svc_lpr(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    lnis_per_rgid: c_uint,
) -> c_int {
    answer(|| {
        change(from_c!(handle(dev))?, svc_id, |_, service| {
            if !record::can_share(lnis_per_rgid) {
                return Err(Errno::INVAL);
            }
            service.lnis_per_rgid = lnis_per_rgid;
            Ok(())
        })
    })
}

/// Enables or disables a service. EINVAL to enable a service without a VNI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_enable(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    enable: bool,
) -> c_int {
    answer(|| {
        change(from_c!(handle(dev))?, svc_id, |_, service| {
            if enable && !service.restricted_vnis && service.range.is_none() {
                return Err(Errno::INVAL);
            }
            service.enabled = enable;
            Ok(())
        })
    })
}

/// Sets whether LNIs of the service get a new communication profile for each request, also for the
/// VNI and class of an existing one. The specification names the function only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_set_exclusive_cp(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    exclusive_cp: bool,
) -> c_int {
    answer(|| {
        change(from_c!(handle(dev))?, svc_id, |_, service| {
            service.exclusive_profiles = exclusive_cp;
            Ok(())
        })
    })
}

/// Reads the setting of [`cxil_svc_set_exclusive_cp`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_get_exclusive_cp(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    exclusive_cp: *mut bool,
) -> c_int {
    from_c!(answer_at(exclusive_cp, || {
        with_services(from_c!(handle(dev))?, |registry| {
            Ok(registry.service(svc_id)?.exclusive_profiles)
        })
    }))
}

/// Sets the VNI range of a service. EINVAL for a service with a list of VNIs, and for a range that
/// begins at 0, whose size is not a power of two, or that is not aligned to its size; EBUSY while
/// the service is enabled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_set_vni_range(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    vni_min: u16,
    vni_max: u16,
) -> c_int {
    answer(|| {
        change(from_c!(handle(dev))?, svc_id, |registry, service| {
            let range = VniRange::new(vni_min, vni_max).ok_or(Errno::INVAL)?;
            if service.restricted_vnis {
                return Err(Errno::INVAL);
            }
            if service.enabled {
                return Err(Errno::BUSY);
            }
            service.range = Some(range);
            registry.check_overlap(service)
        })
    })
}

/// Makes a network namespace, by its inode number, the member of a service with restricted members.
/// EEXIST if members are not restricted, or users or groups are members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_set_netns(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    netns: c_uint,
) -> c_int {
    answer(|| {
        change(from_c!(handle(dev))?, svc_id, |_, service| service.set_network_namespace(netns))
    })
}

/// The network namespace that is a member of a service. EINVAL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_get_netns(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    netns: *mut c_uint,
) -> c_int {
    from_c!(answer_at(netns, || {
        with_services(from_c!(handle(dev))?, |registry| {
            let service = registry.service(svc_id)?;
            service.network_namespace().ok_or(Errno::INVAL)
        })
    }))
}

/// Changes a service without users.
fn change(
    device: &OpenDevice,
    svc_id: c_uint,
    change: impl FnOnce(&ServiceRegistry, &mut Service) -> Result<(), Errno>,
) -> Result<(), Errno> {
    with_services(device, |registry| {
        require_root()?;
        let mut service = unused(registry, svc_id)?;
        change(registry, &mut service)?;
        replace(registry, service)
    })
}

/// A service that is to be changed: EINVAL if there is none, EBUSY if it has users.
fn unused(registry: &ServiceRegistry, svc_id: u32) -> Result<Service, Errno> {
    let service = registry.service(svc_id)?;
    if registry.users(svc_id) > 0 {
        return Err(Errno::BUSY);
    }
    Ok(service.clone())
}

fn replace(registry: &mut ServiceRegistry, service: Service) -> Result<(), Errno> {
    let mut services = registry.services().to_vec();
    for each in services.iter_mut().filter(|each| each.id == service.id) {
        *each = service.clone();
    }
    registry.set_services(services)
}

/// A service with its pools. EEXIST if another one has its VNI and the release refuses that; ENOSPC
/// if the resources that it reserves, or pools for them, are not left.
fn with_resources(
    registry: &ServiceRegistry,
    service: Service,
    fail_info: Option<&mut cxi_svc_fail_info>,
) -> Result<Service, Errno> {
    registry.check_overlap(&service)?;
    let mut service = service.with_triggered(registry.release);
    let [no_le_pools, no_tle_pools] = registry.set_pools(&mut service);
    let available = registry.available(service.id);
    let is_short = (0..available.len()).any(|kind| service.limit(kind).1 > available[kind]);
    if !(is_short || no_le_pools || no_tle_pools) {
        return Ok(service);
    }
    if let Some(fail_info) = fail_info {
        *fail_info = cxi_svc_fail_info {
            rsrc_avail: available,
            no_le_pools,
            no_tle_pools,
            no_cntr_pools: false,
        };
    }
    Err(Errno::NOSPC)
}
