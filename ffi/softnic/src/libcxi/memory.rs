//! Memory for the NIC (libcxi.md 7).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cxi_sys::*;
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use super::lni::LniHandle;
use super::platform::kernel_page_size;
use super::service::books::{allocate, publish};
use super::{answer, hand_out, handle, place, take_back};
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
    /// Ranges of memory kept from children.
    marked: Vec<(usize, usize)>,
    /// Memory of a GPU that was taken over for the mapping; given back with it.
    _import: Option<Import>,
}

/// Maps memory: of the CPU, or with `CXI_MAP_DEVICE` of a GPU. Of the hints, the dma-buf counts.
///
/// Only pinned memory, as the benchmarks use it, and addresses reserved for it (`CXI_MAP_ALLOC_MD`, see
/// [`cxil_update_md`]): on-demand paging and address translation services answer EOPNOTSUPP, as a driver without
/// them does.
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
        // SAFETY: C contract.
        let lni: &LniHandle = unsafe { handle(lni) }?;
        // SAFETY: C contract.
        let place = unsafe { place(md) }?;
        check_flags(len, flags)?;
        let end = va.addr().checked_add(len).ok_or(Errno::OVERFLOW)?;
        let reserves = flags & CXI_MAP_ALLOC_MD != 0;
        let on_device = flags & CXI_MAP_DEVICE != 0;
        let page = match reserves || on_device {
            true => page_size(),
            false => common_page_size(va.addr(), end),
        };
        let start = va.expose_provenance() / page * page;
        let end = end.checked_next_multiple_of(page).ok_or(Errno::OVERFLOW)?;
        let huge_shift = match page == page_size() {
            true => 0,
            false => page.trailing_zeros(),
        };
        // Huge pages have contexts of their own (libcxi.md 7.4): the space tells contexts apart by flags, of
        // which these bits mean nothing else.
        let kind = flags & !CXI_MAP_ALLOC_MD | huge_shift << 24;
        let mut location = Location::host(start);
        let (mut import, mut marked) = (None, None);
        if on_device {
            // SAFETY: C contract: null or hints.
            let hints = unsafe { hints.as_ref() };
            let found = gpu::find(va.addr(), len, hints.and_then(dma_buf))?;
            location.va = found.address.wrapping_sub(va.addr() - start);
            location.gpu = Some(found.gpu);
            import = found.import;
        } else if !reserves {
            marked = provide(&lni.nic, start, end, flags)?;
        }
        let map = |engine: &mut Engine<Fabric>| {
            let space = &mut engine.lnis.get_mut(lni.number).ok_or(Errno::INVAL)?.space;
            let given = match reserves {
                true => space.reserve(end - start, kind),
                false => space.map(location, end - start, kind),
            };
            let (lac, iova) = given.ok_or(Errno::NOSPC)?;
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
            match owner.space.needs_context(kind) {
                true => allocate(engine, lni.number, CXI_RSRC_TYPE_AC, map),
                false => map(engine),
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_unmap(md: *mut cxi_md) -> c_int {
    answer(|| {
        // SAFETY: C contract.
        let MdHandle {
            nic,
            number,
            marked,
            ..
        } = unsafe { handle(md) }?;
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
        // SAFETY: made by `cxil_map`; gone by C contract once this succeeds.
        unsafe { take_back::<MdHandle, _>(md) };
        Ok(())
    })
}

/// Puts memory behind part of a mapping: the pages of `len` bytes at `va`, which lie in its range. For a mapping that only
/// reserved addresses this is the first memory; for others, what the process has there now is looked at again.
/// EINVAL beyond the range, for rights that the mapping does not have, or for memory of a GPU; EFAULT as in [`cxil_map`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cxil_update_md(
    md: *mut cxi_md,
    va: *mut c_void,
    len: usize,
    flags: u32,
) -> c_int {
    answer(|| {
        // SAFETY: C contract: null or a mapping, used by this thread alone.
        let handle = unsafe { md.cast::<MdHandle>().as_mut() }.ok_or(Errno::INVAL)?;
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
        let marked = provide(&handle.nic, start, end, of.flags)?;
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

/// Looks whether the process can access a range in the way that the NIC is to, brings its pages in, and keeps them from
/// children if the device does that: the range that was marked then.
fn provide(
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

/// The dma-buf of hints, if there is one.
fn dma_buf(hints: &cxi_md_hints) -> Option<DmaBuf> {
    hints.dmabuf_valid.then_some(DmaBuf {
        fd: hints.dmabuf_fd,
        offset: hints.dmabuf_offset as usize,
    })
}

/// Size of the pages from `start` to `end`: that of huge pages if the range begins and ends in such, or of ordinary
/// ones.
fn common_page_size(start: usize, end: usize) -> usize {
    let size = |address| kernel_page_size(address).unwrap_or(page_size());
    match size(start) {
        huge if huge > page_size() && size(end - 1) == huge => huge,
        _ => page_size(),
    }
}

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

/// EFAULT unless the process itself could access all of the range in the way that the NIC is to.
pub fn check_access(start: usize, end: usize, flags: u32) -> Result<(), Errno> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Errno::NOMEM)?;
    let mut reached = start;
    for line in maps.lines() {
        let Some((from, to, rights)) = parse(line) else {
            continue;
        };
        if to <= reached {
            continue;
        }
        let missing = (flags & CXI_MAP_READ != 0 && !rights.contains('r'))
            || (flags & CXI_MAP_WRITE != 0 && !rights.contains('w'));
        if from > reached || missing {
            return Err(Errno::FAULT);
        }
        reached = to;
        if reached >= end {
            return Ok(());
        }
    }
    Err(Errno::FAULT)
}

/// Start, end and rights of a line of `/proc/self/maps`.
fn parse(line: &str) -> Option<(usize, usize, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
        rights,
    ))
}

/// Brings the pages in, as pinning does, so that the first puts meet no page faults. EFAULT where one is
/// not to be had, as a huge page beyond the limit of a control group: whoever touched it would get SIGBUS.
/// Kernels before 5.14 cannot; there the faults come when they come.
fn populate(start: usize, len: usize, flags: u32) -> Result<(), Errno> {
    let advice = if flags & CXI_MAP_WRITE != 0 {
        Advice::LinuxPopulateWrite
    } else {
        Advice::LinuxPopulateRead
    };
    // SAFETY: populating changes no contents; the range was found mapped.
    match unsafe { madvise(std::ptr::with_exposed_provenance_mut(start), len, advice) } {
        Err(Errno::FAULT | Errno::NOMEM | Errno::HWPOISON) => Err(Errno::FAULT),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Pages;

    #[test]
    fn ranges_must_be_mapped_without_a_hole() {
        let page = page_size();
        let pages = Pages::anonymous(3 * page).unwrap();
        let start = pages.at(0, 0).addr();
        let rights = CXI_MAP_READ | CXI_MAP_WRITE;
        assert_eq!(check_access(start, start + 3 * page, rights), Ok(()));
        // SAFETY: the page is inside `pages` and nobody uses it.
        unsafe { rustix::mm::munmap(pages.at(page, page).cast(), page) }.unwrap();
        assert_eq!(check_access(start, start + page, rights), Ok(()));
        assert_eq!(
            check_access(start, start + 3 * page, rights),
            Err(Errno::FAULT)
        );
        assert_eq!(check_access(page, 2 * page, rights), Err(Errno::FAULT));
    }

    #[test]
    fn rights_must_suffice() {
        static CONSTANT: [u8; 64] = [1; 64];
        let start = CONSTANT.as_ptr().addr();
        assert_eq!(check_access(start, start + 64, CXI_MAP_READ), Ok(()));
        assert_eq!(
            check_access(start, start + 64, CXI_MAP_WRITE),
            Err(Errno::FAULT)
        );
    }
}
