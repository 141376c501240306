//! Services: who may use a NIC, with which VNIs, and how much of it (libcxi.md 3).
//!
//! As with the driver, services belong to the NIC: what an administrator changes, all processes of the fabric see,
//! also later ones, until it is changed back. Who may change them is told by the effective user: root (libcxi.md
//! speaks of CAP_SYS_ADMIN), which a user namespace gives anybody on a fabric of their own.

pub mod books;
pub mod record;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_uint};
use std::mem::offset_of;

use cxi_sys::*;
use rustix::io::Errno;

use super::{answer, device::Device, handle, place};
use books::Books;
use record::Service;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    svc_desc: *mut cxi_svc_desc,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let desc = unsafe { svc_desc.as_mut() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract.
        *desc = unsafe { with_books(dev, |books| Ok(books.service(svc_id)?.describe())) }?;
        Ok(())
    })
}

/// Freed by [`cxil_free_svc_list`], as one block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_list(
    dev: *mut cxil_dev,
    svc_list: *mut *mut cxil_svc_list,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let place = unsafe { place(svc_list) }?;
        let describe = |books: &mut Books| -> Result<Vec<cxi_svc_desc>, Errno> {
            Ok(books.services().iter().map(Service::describe).collect())
        };
        // SAFETY: C contract.
        let found = unsafe { with_books(dev, describe) }?;
        *place = give_list(&found, offset_of!(cxil_svc_list, descs))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_free_svc_list(svc_list: *mut cxil_svc_list) {
    // SAFETY: C contract: null, or a list of `cxil_get_svc_list`, freed once.
    unsafe { free_list::<cxi_svc_desc>(svc_list.cast(), offset_of!(cxil_svc_list, descs)) };
}

/// What a service uses, over all processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_rsrc_use(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    rsrcs: *mut cxi_rsrc_use,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let place = unsafe { rsrcs.as_mut() }.ok_or(Errno::INVAL)?;
        let find = |books: &mut Books| {
            books.service(svc_id)?;
            Ok(use_of(books, svc_id))
        };
        // SAFETY: C contract.
        *place = unsafe { with_books(dev, find) }?;
        Ok(())
    })
}

/// Freed by [`cxil_free_svc_rsrc_list`], as one block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_rsrc_list(
    dev: *mut cxil_dev,
    rsrc_list: *mut *mut cxil_svc_rsrc_list,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let place = unsafe { place(rsrc_list) }?;
        let find = |books: &mut Books| {
            let ids: Vec<u32> = books.services().iter().map(|service| service.id).collect();
            Ok(ids.iter().map(|&id| use_of(books, id)).collect::<Vec<_>>())
        };
        // SAFETY: C contract.
        let found = unsafe { with_books(dev, find) }?;
        *place = give_list(&found, offset_of!(cxil_svc_rsrc_list, rsrcs))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_free_svc_rsrc_list(rsrc_list: *mut cxil_svc_rsrc_list) {
    let offset = offset_of!(cxil_svc_rsrc_list, rsrcs);
    // SAFETY: C contract: null, or a list of `cxil_get_svc_rsrc_list`, freed once.
    unsafe { free_list::<cxi_rsrc_use>(rsrc_list.cast(), offset) };
}

/// The pools of trigger list entries that hardware keeps apart are one here: pool 0.
fn use_of(books: &Books, svc_id: u32) -> cxi_rsrc_use {
    cxi_rsrc_use {
        svc_id,
        tle_pool_id: 0,
        in_use: std::array::from_fn(|kind| books.in_use(svc_id, kind)),
    }
}

/// Makes a service and answers its number. A description with `restricted_vnis` 0 makes one with no VNIs, disabled, for
/// which a range is set and which is enabled then (libcxi.md 3.3). ENOSPC where more is to be kept for it than is left:
/// `fail_info`, which may be null, says how much is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_alloc_svc(
    dev: *mut cxil_dev,
    desc: *const cxi_svc_desc,
    fail_info: *mut cxi_svc_fail_info,
) -> c_int {
    let mut id = 0;
    let code = answer(|| {
        // SAFETY: C contract.
        let desc = unsafe { desc.as_ref() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract: null or writable.
        let fail_info = unsafe { fail_info.as_mut() };
        let make = |books: &mut Books| {
            must_be_administrator()?;
            let service = Service::described(books.free_id()?, desc)?;
            keep(books, &service, fail_info)?;
            id = service.id;
            let mut services = books.services().to_vec();
            services.push(service);
            services.sort_by_key(|service| service.id);
            books.set_services(services)
        };
        // SAFETY: C contract.
        unsafe { with_books(dev, make) }
    });
    if code == 0 { id as c_int } else { code }
}

/// Changes the service that the description names, as [`cxil_alloc_svc`] would make it. Its range, its LNIs for an RGID
/// and the rest that has calls of its own stay. EBUSY while it has users.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_update_svc(
    dev: *mut cxil_dev,
    desc: *const cxi_svc_desc,
    fail_info: *mut cxi_svc_fail_info,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let desc = unsafe { desc.as_ref() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract: null or writable.
        let fail_info = unsafe { fail_info.as_mut() };
        let change = |books: &mut Books| {
            must_be_administrator()?;
            let before = unused(books, desc.svc_id)?;
            let described = Service::described(desc.svc_id, desc)?;
            let keeps_range = !described.restricted_vnis && before.range != (0, 0);
            let service = Service {
                is_system: before.is_system,
                range: if keeps_range { before.range } else { (0, 0) },
                enabled: desc.enable() != 0 && (described.restricted_vnis || keeps_range),
                lnis_per_rgid: before.lnis_per_rgid,
                exclusive_profiles: before.exclusive_profiles,
                netns: before.netns,
                ..described
            };
            keep(books, &service, fail_info)?;
            replace(books, service)
        };
        // SAFETY: C contract.
        unsafe { with_books(dev, change) }
    })
}

/// EBUSY while it has users; EINVAL for the default service, which stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_destroy_svc(dev: *mut cxil_dev, svc_id: c_uint) -> c_int {
    answer(|| {
        let remove = |books: &mut Books| {
            must_be_administrator()?;
            if svc_id == CXI_DEFAULT_SVC_ID {
                return Err(Errno::INVAL);
            }
            unused(books, svc_id)?;
            let others = books.services().iter().filter(|each| each.id != svc_id);
            let others = others.cloned().collect();
            books.set_services(others)
        };
        // SAFETY: C contract.
        unsafe { with_books(dev, remove) }
    })
}

/// Sets how many LNIs share an RGID, of which the NIC has 255. EINVAL for 0 and above 8, the address contexts of an RGID;
/// the specification names the function only. LNIs that share count as one RGID; each has profiles and contexts of
/// its own all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_set_svc_lpr(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    lnis_per_rgid: c_uint,
) -> c_int {
    // SAFETY: C contract, the same.
    unsafe {
        change(dev, svc_id, |service| {
            if !record::can_share(lnis_per_rgid) {
                return Err(Errno::INVAL);
            }
            service.lnis_per_rgid = lnis_per_rgid;
            Ok(())
        })
    }
}

/// Answers how many LNIs share an RGID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_get_svc_lpr(dev: *mut cxil_dev, svc_id: c_uint) -> c_int {
    let mut answered = 0;
    let code = answer(|| {
        // SAFETY: C contract.
        answered = unsafe { with_books(dev, |books| Ok(books.service(svc_id)?.lnis_per_rgid)) }?;
        Ok(())
    });
    if code == 0 { answered as c_int } else { code }
}

/// EINVAL to enable a service that has no VNI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_enable(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    enable: bool,
) -> c_int {
    // SAFETY: C contract, the same.
    unsafe {
        change(dev, svc_id, |service| {
            if enable && !service.restricted_vnis && service.range == (0, 0) {
                return Err(Errno::INVAL);
            }
            service.enabled = enable;
            Ok(())
        })
    }
}

/// Sets whether each communication profile of the service's LNIs is one of its own, also where VNI and class are
/// those of another. The specification names the function only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_set_exclusive_cp(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    exclusive_cp: bool,
) -> c_int {
    // SAFETY: C contract, the same.
    unsafe {
        change(dev, svc_id, |service| {
            service.exclusive_profiles = exclusive_cp;
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_get_exclusive_cp(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    exclusive_cp: *mut bool,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let place = unsafe { exclusive_cp.as_mut() }.ok_or(Errno::INVAL)?;
        let find = |books: &mut Books| Ok(books.service(svc_id)?.exclusive_profiles);
        // SAFETY: C contract.
        *place = unsafe { with_books(dev, find) }?;
        Ok(())
    })
}

/// EINVAL for a service that has a list, not a range, and for a range that is empty or begins at 0; EBUSY while the
/// service is enabled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_set_vni_range(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    vni_min: u16,
    vni_max: u16,
) -> c_int {
    // SAFETY: C contract, the same.
    unsafe {
        change(dev, svc_id, |service| {
            if service.restricted_vnis || vni_min == 0 || vni_min > vni_max {
                return Err(Errno::INVAL);
            }
            if service.enabled {
                return Err(Errno::BUSY);
            }
            service.range = (vni_min, vni_max);
            Ok(())
        })
    }
}

/// EINVAL for a service that has a list, not a range; the specification is silent about those. 0 and 0 while no range
/// is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_get_vni_range(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    vni_min: *mut u16,
    vni_max: *mut u16,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let min = unsafe { vni_min.as_mut() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract.
        let max = unsafe { vni_max.as_mut() }.ok_or(Errno::INVAL)?;
        let find = |books: &mut Books| {
            let service = books.service(svc_id)?;
            if service.restricted_vnis {
                return Err(Errno::INVAL);
            }
            Ok(service.range)
        };
        // SAFETY: C contract.
        (*min, *max) = unsafe { with_books(dev, find) }?;
        Ok(())
    })
}

/// Sets the network namespace that the service is for, by its number; 0 is all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_set_netns(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    netns: c_uint,
) -> c_int {
    // SAFETY: C contract, the same.
    unsafe {
        change(dev, svc_id, |service| {
            service.netns = netns;
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_svc_get_netns(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    netns: *mut c_uint,
) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let place = unsafe { netns.as_mut() }.ok_or(Errno::INVAL)?;
        // SAFETY: C contract.
        *place = unsafe { with_books(dev, |books| Ok(books.service(svc_id)?.netns)) }?;
        Ok(())
    })
}

/// Works on the services of a device.
///
/// # Safety
/// `dev` is null or an open device.
unsafe fn with_books<T>(
    dev: *mut cxil_dev,
    work: impl FnOnce(&mut Books) -> Result<T, Errno>,
) -> Result<T, Errno> {
    // SAFETY: the caller's promise.
    let device: &Device = unsafe { handle(dev) }?;
    device.nic.with(|engine| {
        let own: Vec<usize> = engine.lnis.iter().map(|(number, _)| number).collect();
        // Entries and triggers come and go without a call.
        own.iter().for_each(|&lni| books::publish(engine, lni));
        work(&mut Books::open(&engine.wire)?)
    })
}

/// Changes a service that nobody uses.
///
/// # Safety
/// `dev` is null or an open device.
unsafe fn change(
    dev: *mut cxil_dev,
    svc_id: c_uint,
    change: impl FnOnce(&mut Service) -> Result<(), Errno>,
) -> c_int {
    answer(|| {
        let work = |books: &mut Books| {
            must_be_administrator()?;
            let mut service = unused(books, svc_id)?;
            change(&mut service)?;
            replace(books, service)
        };
        // SAFETY: the caller's promise.
        unsafe { with_books(dev, work) }
    })
}

fn must_be_administrator() -> Result<(), Errno> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

/// A service to be changed: EINVAL if there is none, EBUSY if it has users.
fn unused(books: &Books, svc_id: u32) -> Result<Service, Errno> {
    let service = books.service(svc_id)?;
    if books.users(svc_id) > 0 {
        return Err(Errno::BUSY);
    }
    Ok(service.clone())
}

fn replace(books: &mut Books, service: Service) -> Result<(), Errno> {
    let mut services = books.services().to_vec();
    for each in services.iter_mut().filter(|each| each.id == service.id) {
        *each = service.clone();
    }
    books.set_services(services)
}

/// Whether as much as a service wants for itself is left.
fn keep(
    books: &Books,
    service: &Service,
    fail_info: Option<&mut cxi_svc_fail_info>,
) -> Result<(), Errno> {
    let available = books.available(service.id);
    let short = (0..available.len()).any(|kind| service.limit(kind).1 > available[kind]);
    if !short {
        return Ok(());
    }
    if let Some(fail_info) = fail_info {
        *fail_info = cxi_svc_fail_info {
            rsrc_avail: available,
            no_le_pools: false,
            no_tle_pools: false,
            no_cntr_pools: false,
        };
    }
    Err(Errno::NOSPC)
}

fn list_layout<T>(offset: usize, count: usize) -> Layout {
    Layout::from_size_align(offset + count * size_of::<T>(), align_of::<u64>())
        .expect("some thousand services at most")
}

/// A list for C: its length, and from `offset` on its elements.
fn give_list<T: Copy, List>(elements: &[T], offset: usize) -> Result<*mut List, Errno> {
    // SAFETY: the layout is not empty.
    let list = unsafe { alloc_zeroed(list_layout::<T>(offset, elements.len())) };
    if list.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: the block begins with the length, and is aligned for it.
    unsafe { list.cast::<c_uint>().write(elements.len() as c_uint) };
    let first: *mut T = list.wrapping_add(offset).cast();
    // SAFETY: the block has room for all of them behind the length, aligned as in the list's type in C.
    unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), first, elements.len()) };
    Ok(list.cast())
}

/// # Safety
/// `list` is null, or of `give_list` with the same element type and offset, and freed once.
unsafe fn free_list<T>(list: *mut u8, offset: usize) {
    if list.is_null() {
        return;
    }
    // SAFETY: the caller's promise; the length comes first.
    let count = unsafe { list.cast::<c_uint>().read() };
    // SAFETY: allocated with this layout.
    unsafe { dealloc(list, list_layout::<T>(offset, count as usize)) };
}
