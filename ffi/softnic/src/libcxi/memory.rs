//! Memory descriptors: memory mapped for the NIC (libcxi.md 7).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use super::boundary::{Handle, answer, from_c, hand_out};
use super::service::registry::{allocate, publish};
use crate::engine::location::{MemoryKind, MemoryLocation};
use crate::engine::{Engine, Full, HUGE_SHIFT_AT, Md};
use crate::fabric::Fabric;
use crate::gpu::{self, DmaBuf, GpuAddress, Import};
use crate::nic::SoftwareNic;
use crate::pages::page_size;
use crate::process_memory::{self, check_access, common_page_size, populate};

/// Handle of a mapping.
#[repr(C)]
pub struct MdHandle {
    public: cxi_md,
    pub nic: Arc<SoftwareNic>,
    pub number: usize,
    /// Memory of a GPU that was imported for the mapping.
    _import: Option<Import>,
}

// SAFETY: `cxil_map` gives out these handles, which begin with their public part.
unsafe impl Handle for cxi_md {
    type Object = MdHandle;
}

/// Maps memory of the CPU, or with `CXI_MAP_DEVICE` of a GPU: peer memory, or the dma-buf that
/// the hints name. Other hints are ignored.
///
/// With `CXI_MAP_PIN` the memory stays mapped while the NIC uses it; otherwise it is looked up in
/// each access, and need not exist. With `CXI_MAP_ALLOC_MD` addresses are reserved for memory that
/// [`cxil_update_md`] adds. EOPNOTSUPP for address translation services, as from a driver without
/// them. For memory of the CPU, [`host_memory`] lists the errors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_map(
    lni: *mut cxil_lni,
    va: *mut c_void,
    len: usize,
    flags: u32,
    hints: *mut cxi_md_hints,
    md: *mut *mut cxi_md,
) -> c_int {
    from_c!(answer_at(md, || {
        let lni = from_c!(handle(lni))?;
        check_flags(len, flags)?;
        let end = va.addr().checked_add(len).ok_or(Errno::OVERFLOW)?;
        let reserves = flags & CXI_MAP_ALLOC_MD != 0;
        let on_device = flags & CXI_MAP_DEVICE != 0;
        let hints = from_c!(optional_input(hints));
        let found =
            if on_device { Some(device_memory(&lni.nic, va.addr(), len, hints)?) } else { None };
        let page = match &found {
            Some(found) => found.page,
            None if reserves => page_size(),
            None => common_page_size(va.addr(), end),
        };
        let start = va.expose_provenance() / page * page;
        let end = end.checked_next_multiple_of(page).ok_or(Errno::OVERFLOW)?;
        let huge_shift = if page == page_size() { 0 } else { page.trailing_zeros() };
        // Huge pages have separate contexts (libcxi.md 7.4). The address space distinguishes
        // contexts by flags.
        let kind = flags & !CXI_MAP_ALLOC_MD | huge_shift << HUGE_SHIFT_AT;
        let (mut location, mut import) = (None, None);
        if let Some(found) = found {
            location = Some(MemoryLocation {
                va: found.address.wrapping_sub(va.addr() - start),
                memory: MemoryKind::Gpu(found.gpu),
            });
            import = found.import;
        } else if !reserves {
            location = Some(host_memory(start, end, flags)?);
        }
        let range = Md { lni: lni.number, lac: 0, iova: 0, va: start, len: end - start, flags };
        let map = |engine: &mut Engine<Fabric>| insert(engine, range, location, kind);
        let (number, mapped) = lni.nic.with(|engine| {
            let owner = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
            if owner.space.needs_context(kind) {
                allocate(engine, lni.number, CXI_RSRC_TYPE_AC, map)
            } else {
                map(engine)
            }
        })?;
        let public = cxi_md {
            iova: mapped.iova,
            va: start as u64,
            len: mapped.len,
            lac: mapped.lac,
            page_shift: page_size().trailing_zeros() as c_int,
            huge_shift: huge_shift as c_int,
            id: number as u32,
        };
        Ok(hand_out(MdHandle { public, nic: lni.nic.clone(), number, _import: import }))
    }))
}

/// Maps the memory of a descriptor at `location`, or reserves addresses for it, in a context of
/// this kind. Returns the number of the descriptor, and the descriptor with its context and
/// address.
fn insert(
    engine: &mut Engine<Fabric>,
    range: Md,
    location: Option<MemoryLocation>,
    kind: u32,
) -> Result<(usize, Md), Errno> {
    let space = &mut engine.lnis.get_mut(range.lni).ok_or(Errno::INVAL)?.space;
    let mapped = match location {
        Some(location) => space.map(location, range.len, kind),
        None => space.reserve(range.len, kind),
    };
    let (lac, iova) = mapped.map_err(|full| match full {
        Full::Contexts => Errno::NOSPC,
        Full::Addresses => Errno::NOMEM,
    })?;
    let md = Md { lac, iova, ..range };
    Ok((engine.mds.insert(md).ok_or(Errno::NOSPC)?, md))
}

/// Unmaps memory. EBUSY while an event queue uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_unmap(md: *mut cxi_md) -> c_int {
    from_c!(end(md, |md: &MdHandle| {
        md.nic.with(|engine| {
            if engine.eqs.iter().any(|(_, eq)| eq.uses(md.number)) {
                return Err(Errno::BUSY);
            }
            let md = engine.mds.remove(md.number).ok_or(Errno::INVAL)?;
            if let Some(lni) = engine.lnis.get_mut(md.lni) {
                lni.space.unmap(md.lac, md.iova, md.len);
            }
            publish(engine, md.lni);
            Ok(())
        })
    }))
}

/// Maps the pages of `len` bytes at `va`, which are in the range of a mapping, again: the first
/// memory of a mapping that reserved addresses only, whose memory is pinned if the mapping was made
/// with `CXI_MAP_PIN`, or the current memory of the process. EINVAL for other pinned mappings and,
/// where memory exists, without `CXI_MAP_FAULT` (libcxi.md 7.7), beyond the range, or for rights
/// that the mapping does not have; further errors as for [`cxil_map`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_update_md(
    md: *mut cxi_md,
    va: *mut c_void,
    len: usize,
    flags: u32,
) -> c_int {
    answer(|| {
        let MdHandle { nic, number, .. } = from_c!(handle(md))?;
        let end = va.addr().checked_add(len).ok_or(Errno::OVERFLOW)?;
        let page = page_size();
        let start = va.expose_provenance() / page * page;
        let end = end.checked_next_multiple_of(page).ok_or(Errno::OVERFLOW)?;
        let md = nic.with(|engine| engine.mds.get(*number).copied().ok_or(Errno::INVAL))?;
        check_flags(len, flags | md.flags & CXI_MAP_PIN)?;
        let rights = CXI_MAP_READ | CXI_MAP_WRITE;
        let inside = start >= md.va && end <= md.va + md.len;
        let device = (flags | md.flags) & CXI_MAP_DEVICE != 0;
        let has_no_memory = md.flags & CXI_MAP_ALLOC_MD != 0;
        let updatable =
            has_no_memory || (md.flags & CXI_MAP_PIN == 0 && flags & CXI_MAP_FAULT != 0);
        if !updatable || !inside || device || flags & rights & !md.flags != 0 {
            return Err(Errno::INVAL);
        }
        let how = flags & !rights | md.flags & (rights | CXI_MAP_PIN);
        let location = host_memory(start, end, how)?;
        nic.with(|engine| {
            let lni = engine.lnis.get_mut(md.lni).ok_or(Errno::INVAL)?;
            let iova = md.iova + (start - md.va) as u64;
            lni.space.place(md.lac, iova, location, end - start);
            Ok(())
        })
    })
}

/// Memory of the process for the NIC, pinned or faulted in according to the flags of its mapping.
///
/// # Errors
/// With `CXI_MAP_PIN`, EFAULT if a part of the memory cannot be had, and EINVAL if the NIC should
/// write memory that the process may only read, so that callers try again without
/// `CXI_MAP_WRITE`. Otherwise EINVAL if a part cannot be had with `CXI_MAP_FAULT`, and EOPNOTSUPP
/// if the kernel offers no access on demand.
fn host_memory(start: usize, end: usize, flags: u32) -> Result<MemoryLocation, Errno> {
    let fault_in = || {
        check_access(start, end, flags)?;
        populate(start, end - start, flags)
    };
    if flags & CXI_MAP_PIN != 0 {
        fault_in().map_err(|error| match error {
            Errno::ACCESS => Errno::INVAL,
            error => error,
        })?;
        return Ok(MemoryLocation::pinned(start));
    }
    if !process_memory::can_copy_on_demand() {
        return Err(Errno::OPNOTSUPP);
    }
    if flags & CXI_MAP_FAULT != 0 {
        fault_in().map_err(|_| Errno::INVAL)?;
    } else if flags & CXI_MAP_PREFETCH != 0 {
        // Pages that cannot be allocated here fail when they are accessed.
        let _ = populate(start, end - start, flags);
    }
    Ok(MemoryLocation { va: start, memory: MemoryKind::OnDemand })
}

/// Finds memory of a GPU in the way that the hints choose (libcxi.md 7.5).
///
/// # Errors
/// See [`gpu::find_peer`] and [`gpu::find_dma_buf`]; ENODEV and EOPNOTSUPP by faults.
fn device_memory(
    nic: &SoftwareNic,
    va: usize,
    len: usize,
    hints: Option<&cxi_md_hints>,
) -> Result<GpuAddress, Errno> {
    let (has_peer_memory, has_dma_bufs) = nic.with(|engine| {
        let health = &engine.wire.settings.health;
        Ok((health.has_peer_memory, health.has_dma_bufs))
    })?;
    match hints.and_then(dma_buf) {
        Some(_) if !has_dma_bufs => Err(Errno::OPNOTSUPP),
        Some(dma_buf) => gpu::find_dma_buf(va, len, dma_buf),
        None if !has_peer_memory => Err(Errno::NODEV),
        None => gpu::find_peer(va, len),
    }
}

fn dma_buf(hints: &cxi_md_hints) -> Option<DmaBuf> {
    hints
        .dmabuf_valid
        .then_some(DmaBuf { fd: hints.dmabuf_fd, offset: hints.dmabuf_offset as usize })
}

/// Checks the length and the flags of a mapping.
fn check_flags(len: usize, flags: u32) -> Result<(), Errno> {
    let on_demand = CXI_MAP_FAULT | CXI_MAP_PREFETCH;
    if len == 0 || (flags & CXI_MAP_PIN != 0 && flags & on_demand != 0) {
        return Err(Errno::INVAL);
    }
    let elsewhere = CXI_MAP_ATS | CXI_MAP_ATS_PT | CXI_MAP_ATS_DYN;
    let pins_device = flags & CXI_MAP_PIN != 0 && flags & CXI_MAP_ALLOC_MD == 0;
    if flags & elsewhere != 0 || (flags & CXI_MAP_DEVICE != 0 && !pins_device) {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}
