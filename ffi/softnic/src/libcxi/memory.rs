//! Memory descriptors: memory mapped for the NIC (libcxi.md 7).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;

use super::boundary::{Handle, answer, from_c, hand_out};
use super::process_memory::{check_access, common_page_size, kernel_page_size, populate};
use super::service::registry::{allocate, publish};
use crate::engine::location::Location;
use crate::engine::{Engine, Md};
use crate::fabric::Fabric;
use crate::fork_marks;
use crate::gpu::{self, DmaBuf, Import};
use crate::nic::Nic;
use crate::pages::page_size;

/// Handle of a mapping.
#[repr(C)]
pub struct MdHandle {
    public: cxi_md,
    pub nic: Arc<Nic>,
    pub number: usize,
    /// Ranges of memory that children do not inherit.
    marked: Vec<(usize, usize)>,
    /// Memory of a GPU that was imported for the mapping.
    _import: Option<Import>,
}

// SAFETY: `cxil_map` gives out these handles, which begin with their public part.
unsafe impl Handle for cxi_md {
    type Object = MdHandle;
}

/// Maps memory of the CPU, or with `CXI_MAP_DEVICE` of a GPU. Only the dma-buf of the hints is
/// used.
///
/// Memory is pinned, or addresses are reserved for it (`CXI_MAP_ALLOC_MD`, see [`cxil_update_md`]).
/// EOPNOTSUPP for on-demand paging and address translation services, as from a driver without them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_map(
    lni: *mut cxil_lni,
    va: *mut c_void,
    len: usize,
    flags: u32,
    hints: *mut cxi_md_hints,
    md: *mut *mut cxi_md,
) -> c_int {
    answer(|| {
        let lni = from_c!(handle(lni))?;
        let place = from_c!(output(md))?;
        check_flags(len, flags)?;
        let end = va.addr().checked_add(len).ok_or(Errno::OVERFLOW)?;
        let reserves = flags & CXI_MAP_ALLOC_MD != 0;
        let on_device = flags & CXI_MAP_DEVICE != 0;
        let page = if reserves || on_device {
            page_size()
        } else {
            common_page_size(va.addr(), end)
        };
        let start = va.expose_provenance() / page * page;
        let end = end.checked_next_multiple_of(page).ok_or(Errno::OVERFLOW)?;
        let huge_shift = if page == page_size() {
            0
        } else {
            page.trailing_zeros()
        };
        // Huge pages have separate contexts (libcxi.md 7.4). The address space distinguishes
        // contexts by flags, of which these bits are otherwise unused.
        let kind = flags & !CXI_MAP_ALLOC_MD | huge_shift << 24;
        let mut location = Location::host(start);
        let (mut import, mut marked) = (None, None);
        if on_device {
            let hints = from_c!(optional_input(hints));
            let found = gpu::find(va.addr(), len, hints.and_then(dma_buf))?;
            location.va = found.address.wrapping_sub(va.addr() - start);
            location.gpu = Some(found.gpu);
            import = found.import;
        } else if !reserves {
            marked = prepare(&lni.nic, start, end, flags)?;
        }
        let map = |engine: &mut Engine<Fabric>| {
            let space = &mut engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?.space;
            let mapped = if reserves {
                space.reserve(end - start, kind)
            } else {
                space.map(location, end - start, kind)
            };
            let (lac, iova) = mapped.ok_or(Errno::NOSPC)?;
            let md = Md {
                lni: lni.number,
                lac,
                iova,
                va: start,
                len: end - start,
                flags: flags & !CXI_MAP_ALLOC_MD,
            };
            Ok((engine.mds.insert(md).ok_or(Errno::NOSPC)?, md))
        };
        let mapped = lni.nic.with(|engine| {
            let owner = engine.lnis.get(lni.number).ok_or(Errno::INVAL)?;
            if owner.space.needs_context(kind) {
                allocate(engine, lni.number, CXI_RSRC_TYPE_AC, map)
            } else {
                map(engine)
            }
        });
        let (number, mapped) = mapped.inspect_err(|_| {
            if let Some((start, end)) = marked {
                fork_marks::unmark(start, end);
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
        *place = hand_out(MdHandle {
            public,
            nic: lni.nic.clone(),
            number,
            marked: marked.into_iter().collect(),
            _import: import,
        });
        Ok(())
    })
}

/// Unmaps memory. EBUSY while an event queue uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_unmap(md: *mut cxi_md) -> c_int {
    answer(|| {
        let MdHandle {
            nic,
            number,
            marked,
            ..
        } = from_c!(handle(md))?;
        nic.with(|engine| {
            if engine.eqs.iter().any(|(_, eq)| eq.uses(*number)) {
                return Err(Errno::BUSY);
            }
            let md = engine.mds.remove(*number).ok_or(Errno::INVAL)?;
            if let Some(lni) = engine.lnis.get_mut(md.lni) {
                lni.space.unmap(md.lac, md.iova, md.len);
            }
            publish(engine, md.lni);
            Ok(())
        })?;
        for &(start, end) in marked {
            fork_marks::unmark(start, end);
        }
        from_c!(destroy(md));
        Ok(())
    })
}

/// Maps the pages of `len` bytes at `va`, which are in the range of a mapping, again: the first
/// memory of a mapping that reserved addresses only, or the current memory of the process for
/// others. EINVAL beyond the range, for rights that the mapping does not have, or for memory of a
/// GPU; EFAULT as for [`cxil_map`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_update_md(
    md: *mut cxi_md,
    va: *mut c_void,
    len: usize,
    flags: u32,
) -> c_int {
    answer(|| {
        let handle = from_c!(handle_mut(md))?;
        check_flags(len, flags)?;
        let end = va.addr().checked_add(len).ok_or(Errno::OVERFLOW)?;
        let page = page_size();
        let start = va.expose_provenance() / page * page;
        let end = end.checked_next_multiple_of(page).ok_or(Errno::OVERFLOW)?;
        let of = handle
            .nic
            .with(|engine| engine.mds.get(handle.number).copied().ok_or(Errno::INVAL))?;
        let rights = CXI_MAP_READ | CXI_MAP_WRITE;
        let inside = start >= of.va && end <= of.va + of.len;
        let device = (flags | of.flags) & CXI_MAP_DEVICE != 0;
        if !inside || device || flags & rights & !of.flags != 0 {
            return Err(Errno::INVAL);
        }
        let marked = prepare(&handle.nic, start, end, of.flags)?;
        handle.nic.with(|engine| {
            let lni = engine.lnis.get_mut(of.lni).ok_or(Errno::INVAL)?;
            let iova = of.iova + (start - of.va) as u64;
            lni.space
                .place(of.lac, iova, Location::host(start), end - start);
            Ok(())
        })?;
        handle.marked.extend(marked);
        Ok(())
    })
}

/// Checks that the process may access a range, faults its pages in, and marks them against
/// inheritance if the device does that. Returns the marked range.
fn prepare(
    nic: &Nic,
    start: usize,
    end: usize,
    flags: u32,
) -> Result<Option<(usize, usize)>, Errno> {
    check_access(start, end, flags)?;
    populate(start, end - start, flags)?;
    let marking = nic.marking;
    if !marking.pages {
        return Ok(None);
    }
    let size = kernel_page_size(start)?;
    if size > page_size() && !marking.huge_pages {
        return Ok(None);
    }
    let (start, end) = (start / size * size, end.next_multiple_of(size));
    fork_marks::mark(start, end)?;
    Ok(Some((start, end)))
}

/// Returns the dma-buf of hints, if there is one.
fn dma_buf(hints: &cxi_md_hints) -> Option<DmaBuf> {
    hints.dmabuf_valid.then_some(DmaBuf {
        fd: hints.dmabuf_fd,
        offset: hints.dmabuf_offset as usize,
    })
}

/// Checks the length and the flags of a mapping.
fn check_flags(len: usize, flags: u32) -> Result<(), Errno> {
    let on_demand = CXI_MAP_FAULT | CXI_MAP_PREFETCH;
    if len == 0 || (flags & CXI_MAP_PIN != 0 && flags & on_demand != 0) {
        return Err(Errno::INVAL);
    }
    let elsewhere = CXI_MAP_ATS | CXI_MAP_ATS_PT | CXI_MAP_ATS_DYN;
    let brings_memory = flags & (CXI_MAP_PIN | CXI_MAP_ALLOC_MD) != 0;
    let reserves_device = flags & CXI_MAP_DEVICE != 0 && flags & CXI_MAP_ALLOC_MD != 0;
    if !brings_memory || reserves_device || flags & elsewhere != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}
