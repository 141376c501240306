//! Mappings of every kind of memory, updates of mappings, huge pages behind a mapping, and fork(2)
//! (libcxi.md 1, 7).

use std::ffi::c_void;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, IntoRawFd};

use crate::driver::prelude::*;

/// Maps memory by mmap(2), at a given place if it is not null.
pub fn mmap(place: *mut u8, len: usize, rights: i32, flags: i32, file: i32) -> *mut u8 {
    // SAFETY: new memory, or at a place that is the test's own.
    let base = unsafe { libc::mmap(place.cast(), len, rights, flags, file, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    base.expose_provenance();
    base.cast()
}

pub const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
pub const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Lets the NIC write a pattern to mapped memory and read it back; returns the pattern.
pub fn round_trip(rig: &mut Rig, index: u32, mapped: &Buffer) -> Vec<u8> {
    let len = mapped.pages.len;
    let (source, back) = (rig.buffer(len), rig.buffer(len));
    let pattern: Vec<u8> = (0..len).map(|at| (at % 251) as u8 + 1).collect();
    source.pages.write(0, &pattern);
    for (from, to, index) in [(source, mapped, index), (*mapped, &back, index + 1)] {
        rig.target_with(index, to, |entry| {
            quiet(entry);
            entry.set_length(len as u64);
        });
        let put = rig.dma_put(&from, 0, len as u32, |put| _ = put.set_index_ext(index as u8));
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    assert!(back.pages.read(0, len) == pattern);
    pattern
}

/// Maps any bytes, and lets the NIC write them and read them back.
fn goes_through(rig: &mut Rig, index: u32, base: *mut u8, len: usize) {
    let mapped = Buffer::over(rig.lni, Pages { base, len }, RW);
    let pattern = round_trip(rig, index, &mapped);
    assert!(mapped.pages.read(0, len) == pattern);
    mapped.unmap();
}

#[test]
fn maps_any_memory_of_process() {
    alone!();
    let mut rig = Rig::new();
    let mut heap = vec![0_u8; 3 * PAGE + 100];
    goes_through(&mut rig, 0, heap.as_mut_ptr().wrapping_add(1), 3 * PAGE);
    let mut stack = [0_u8; 700];
    goes_through(&mut rig, 2, stack.as_mut_ptr().wrapping_add(3), 690);
    static GLOBAL: [std::sync::atomic::AtomicU64; 9] =
        [const { std::sync::atomic::AtomicU64::new(0) }; 9];
    goes_through(&mut rig, 4, GLOBAL[0].as_ptr().cast(), 72);
    // A file, shared and private.
    let path = fabric().with_extension("file");
    let file = File::create_new(&path).unwrap();
    drop(file);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(2 * PAGE as u64).unwrap();
    for (index, kind) in [(6, libc::MAP_SHARED), (8, libc::MAP_PRIVATE)] {
        let base = mmap(null_mut(), 2 * PAGE, READ_WRITE, kind, file.as_raw_fd());
        goes_through(&mut rig, index, base.wrapping_add(9), 2 * PAGE - 9);
    }
    // Across two areas with different access rights.
    let base = mmap(null_mut(), 2 * PAGE, READ_WRITE, PRIVATE, -1);
    let all = READ_WRITE | libc::PROT_EXEC;
    // SAFETY: the test's own page.
    let code = unsafe { libc::mprotect(base.wrapping_add(PAGE).cast(), PAGE, all) };
    if code == 0 {
        goes_through(&mut rig, 10, base.wrapping_add(PAGE - 100), 200);
    }
    // Huge pages: transparent, or from the pool if it has any.
    const HUGE: usize = 2 << 20;
    let base = mmap(null_mut(), 2 * HUGE, READ_WRITE, PRIVATE, -1);
    let base = base.wrapping_add(base.addr().next_multiple_of(HUGE) - base.addr());
    // SAFETY: the test's own memory; the advice may be refused.
    unsafe { libc::madvise(base.cast(), HUGE, libc::MADV_HUGEPAGE) };
    goes_through(&mut rig, 12, base.wrapping_add(HUGE - 5 * PAGE), 5 * PAGE);
    lock();
    // SAFETY: new memory, wherever the kernel likes, or none.
    let base = unsafe {
        let flags = PRIVATE | libc::MAP_HUGETLB;
        libc::mmap(null_mut(), HUGE, READ_WRITE, flags, -1, 0)
    };
    if base != libc::MAP_FAILED {
        base.expose_provenance();
        assert_eq!(call!(cxil_page_size(base)), HUGE);
        goes_through(&mut rig, 14, base.cast::<u8>().wrapping_add(77), 3 * PAGE);
    }
}

#[test]
fn returns_page_size() {
    alone!();
    let size = |place: *mut u8| call!(cxil_page_size(place.cast()));
    let mut here = 0_u8;
    assert_eq!(size(&raw mut here), PAGE);
    let two = mmap(null_mut(), 2 * PAGE, READ_WRITE, PRIVATE, -1);
    assert_eq!(size(two.wrapping_add(PAGE - 1)), PAGE);
    let second = two.wrapping_add(PAGE).cast();
    // SAFETY: the test's own page, which nothing uses.
    let code = unsafe { libc::munmap(second, PAGE) };
    assert_eq!(code, 0);
    assert_eq!(size(two.wrapping_add(PAGE - 1)), PAGE);
    assert_eq!(size(two.wrapping_add(PAGE)), 0);
    assert_eq!(size(null_mut()), 0);
}

/// Calls `cxil_update_md`; returns 0 or a positive errno.
pub fn update(md: *mut cxi_md, va: *mut u8, len: usize, flags: u32) -> i32 {
    let va: *mut c_void = va.cast();
    -call!(cxil_update_md(md, va, len, flags))
}

#[test]
fn adds_memory_to_reserved_addresses() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    source.pages.fill(9);
    let base = mmap(null_mut(), 4 * PAGE, READ_WRITE, PRIVATE, -1);
    let (len, page) = (4 * PAGE, |number: usize| base.wrapping_add(number * PAGE));
    let reserved = Buffer::over(rig.lni, Pages { base, len }, RW | CXI_MAP_ALLOC_MD);
    // SAFETY: the handle was not destroyed yet.
    let before = unsafe { *reserved.md };
    rig.target(0, &reserved);
    let mut put = |number: usize, len: u32| {
        let put =
            rig.dma_put(&source, 0, len, |put| _ = put.set_remote_offset((number * PAGE) as u64));
        rig.code(&put)
    };
    assert_eq!(put(0, 8), C_RC_NO_TRANSLATION);
    assert_eq!(update(reserved.md, page(1), 1, RW), 0, "the whole page comes");
    assert_eq!(put(1, PAGE as u32), C_RC_OK);
    for other in [0, 2, 3] {
        assert_eq!(put(other, 8), C_RC_NO_TRANSLATION);
    }
    // Another page takes the place of the mapped one.
    mmap(page(1), PAGE, READ_WRITE, PRIVATE | libc::MAP_FIXED, -1);
    assert_eq!(update(reserved.md, page(1), 2 * PAGE, RW), 0);
    assert_eq!(put(1, 100), C_RC_OK);
    assert_eq!(put(2, 8), C_RC_OK);
    let found = Pages { base, len };
    assert!(found.is(PAGE, 100, 9) && found.is(PAGE + 100, PAGE - 100, 0));
    // SAFETY: the handle was not destroyed yet.
    let after = unsafe { *reserved.md };
    let name = |md: cxi_md| (md.id, md.iova, md.va, md.len, md.lac);
    assert_eq!(name(before), name(after));
    reserved.unmap();
    assert_eq!(put(1, 8), C_RC_NO_TRANSLATION);
}

/// Pinned mappings cannot be updated, and others only with FAULT, unless they reserved addresses
/// (libcxi.md 7.7).
#[test]
fn updates_mappings_that_are_not_pinned() {
    alone!();
    let rig = Rig::new();
    let rights = CXI_MAP_READ | CXI_MAP_WRITE;
    for (how, code) in [
        (CXI_MAP_PIN, EINVAL),
        (0, 0),
        (CXI_MAP_PREFETCH, 0),
        (CXI_MAP_FAULT, 0),
        (CXI_MAP_ALLOC_MD, 0),
        (CXI_MAP_PIN | CXI_MAP_ALLOC_MD, 0),
    ] {
        let base = mmap(null_mut(), PAGE, READ_WRITE, PRIVATE, -1);
        let pages = Pages { base, len: PAGE };
        let md = Buffer::over(rig.lni, pages, rights | how).md;
        let pins = how & CXI_MAP_PIN;
        let without = if how & CXI_MAP_ALLOC_MD != 0 { 0 } else { EINVAL };
        assert_eq!(update(md, base, PAGE, rights | pins), without, "{how:#x}");
        if pins == 0 {
            let faults = rights | CXI_MAP_FAULT;
            assert_eq!(update(md, base, PAGE, faults), code, "{how:#x}");
        }
    }
}

#[test]
fn rejects_invalid_updates() {
    alone!();
    let rig = Rig::new();
    let base = mmap(null_mut(), 4 * PAGE, READ_WRITE, PRIVATE, -1);
    let page = |number: usize| base.wrapping_add(number * PAGE);
    let (inner, len) = (page(1), 2 * PAGE);
    let read = CXI_MAP_PIN | CXI_MAP_READ;
    let reserved = read | CXI_MAP_ALLOC_MD;
    let md = Buffer::over(rig.lni, Pages { base: inner, len }, reserved).md;
    assert_eq!(update(null_mut(), page(1), PAGE, read), EINVAL);
    assert_eq!(update(md, page(1), 0, read), EINVAL);
    assert_eq!(update(md, page(0), PAGE, read), EINVAL);
    assert_eq!(update(md, page(2), PAGE + 1, read), EINVAL);
    assert_eq!(update(md, page(3), PAGE, read), EINVAL);
    assert_eq!(update(md, page(1), usize::MAX, read), EOVERFLOW);
    assert_eq!(update(md, null_mut(), PAGE, read), EINVAL);
    assert_eq!(update(md, page(1), PAGE, RW), EINVAL, "a right too many");
    for on_demand in [CXI_MAP_FAULT, CXI_MAP_PREFETCH] {
        assert_eq!(update(md, page(1), PAGE, on_demand), EINVAL, "it is pinned");
    }
    assert_eq!(update(md, page(1), PAGE, read | CXI_MAP_ATS), EOPNOTSUPP);
    // SAFETY: the test's own page, which nothing uses.
    assert_eq!(unsafe { libc::munmap(page(2).cast(), PAGE) }, 0);
    assert_eq!(update(md, page(1), 2 * PAGE, read), EFAULT);
    assert_eq!(update(md, page(1), PAGE, read), 0);
}

const HUGE: usize = 2 << 20;
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Locks the pool until the process ends: its pages are free again only then.
fn lock() {
    let path = std::env::temp_dir().join("cxidiag-test-huge-pages.lock");
    let descriptor = File::create(path).unwrap().into_raw_fd();
    // SAFETY: nothing closes the descriptor.
    assert_eq!(unsafe { libc::flock(descriptor, libc::LOCK_EX) }, 0);
}

fn number(file: &str) -> Option<usize> {
    let text = fs::read_to_string(format!("{POOL}/{file}")).ok()?;
    text.trim().parse().ok()
}

fn map(len: usize, flags: i32) -> Option<Pages> {
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | flags,
    );
    // SAFETY: a new mapping without a fixed address.
    let base = unsafe { libc::mmap(null_mut(), len, rights, flags, -1, 0) };
    (base != libc::MAP_FAILED).then(|| {
        base.expose_provenance();
        let base = base.cast();
        Pages { base, len }
    })
}

/// Maps huge pages. Enlarges the pool if the kernel allows it.
fn huge(count: usize) -> Option<Pages> {
    let setting = format!("{POOL}/nr_hugepages");
    let before = number("nr_hugepages")?;
    let _ = fs::write(&setting, (before + count).to_string());
    let pages = map(count * HUGE, 0);
    if pages.is_none() {
        println!("not tested here: the kernel has no {count} huge pages");
    }
    // Pages in use stay allocated.
    let _ = fs::write(&setting, before.to_string());
    pages
}

#[test]
fn rounds_mapping_to_huge_pages_in_separate_context() {
    alone!();
    lock();
    let Some(pages) = huge(2) else { return };
    let rig = Rig::new();
    let ordinary = rig.buffer(PAGE);
    let inner = Pages { base: pages.base.wrapping_add(HUGE - PAGE), len: 2 * PAGE };
    let mapped = Buffer::over(rig.lni, inner, RW);
    // SAFETY: libcxi has just returned the handle.
    let md = unsafe { *mapped.md };
    assert_eq!((md.va, md.len), (pages.base.addr() as u64, 2 * HUGE));
    assert_eq!((md.page_shift, md.huge_shift), (12, 21));
    assert_ne!(md.lac, ordinary.lac);
    // A second mapping shares the context.
    let first = Pages { base: pages.base, len: 1 };
    let other = Buffer::over(rig.lni, first, RW);
    assert_eq!(other.lac, mapped.lac);
    other.unmap();
    mapped.unmap();
}

/// An internal file of the kernel has huge pages too.
#[test]
fn finds_page_size_of_huge_pages() {
    alone!();
    lock();
    let Some(pages) = map(2 * HUGE, libc::MAP_NORESERVE) else {
        println!("not tested here: the kernel has no huge pages");
        return;
    };
    for place in [0, PAGE, HUGE - 1, HUGE] {
        let place = pages.base.wrapping_add(place).cast();
        assert_eq!(call!(cxil_page_size(place)), HUGE);
    }
    let (rights, shared) = (libc::PROT_READ, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping without a fixed address.
    let ordinary = unsafe { libc::mmap(null_mut(), PAGE, rights, shared, -1, 0) };
    assert_eq!(call!(cxil_page_size(ordinary)), PAGE);
}

#[test]
fn passthrough_queue_fits_one_huge_page() {
    alone!();
    lock();
    let Some(pages) = huge(2) else { return };
    let rig = Rig::new();
    let at = |offset: usize| pages.base.wrapping_add(offset).cast();
    let eq = |offset, queue_len| {
        let mut attr = attributes(at(offset), queue_len);
        attr.flags = CXI_EQ_PASSTHROUGH.into();
        let (md, none, mut eq) = (null_mut(), null_mut(), null_mut());
        answered(call!(cxil_alloc_evtq(rig.lni, md, &attr, none, none, &mut eq))).map(|_| eq)
    };
    assert!(eq(PAGE, 3 * PAGE).is_ok());
    assert!(eq(HUGE, HUGE).is_ok());
    assert_eq!(eq(HUGE - PAGE, 2 * PAGE), Err(EINVAL), "two pages");
    let moving = eq(0, PAGE).unwrap();
    let to = |offset, len| -call!(cxil_evtq_resize(moving, at(offset), len, null_mut()));
    assert_eq!(to(HUGE - PAGE, 2 * PAGE), EINVAL);
    assert_eq!(to(2 * PAGE, HUGE - 2 * PAGE), 0);
    assert_eq!(call!(cxil_evtq_resize_complete(moving)), 0);
}

/// Without reservation the kernel maps more pages than it has; touching them would raise SIGBUS.
#[test]
fn rejects_mapping_without_free_huge_pages() {
    alone!();
    lock();
    let Some(free) = number("free_hugepages") else {
        println!("not tested here: the kernel has no huge pages");
        return;
    };
    let more = number("nr_overcommit_hugepages").unwrap_or(0);
    let len = (free + more + 1) * HUGE;
    let pages = map(len, libc::MAP_NORESERVE).unwrap();
    let rig = Rig::new();
    let mut md = null_mut();
    let code = call!(cxil_map(rig.lni, pages.base.cast(), len, RW, null_mut(), &mut md));
    assert_eq!(code, -EFAULT);
}

/// With ordinary pages the put would never end.
#[test]
fn huge_pages_have_no_cost() {
    alone!();
    lock();
    let Some(pages) = huge(1) else { return };
    set("CXIDIAG_FAULTS", "page-cost=3600s");
    let mut rig = Rig::new();
    let buffer = Buffer::over(rig.lni, pages, RW);
    rig.target(0, &buffer);
    let put = rig.dma_put(&buffer, HUGE / 2, 8192, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    // Misses, and requests of reads and of writes.
    let counted = ["atu_cache_miss_0", "atu_client_req_oxe", "atu_client_req_ixe"]
        .map(|name| counter(rig.dev, name));
    assert_eq!(counted, [0, 2, 2]);
}

#[test]
fn child_reads_its_copy_of_mapped_memory() {
    alone!();
    // The kernel copies on fork, so these variables hide nothing from children.
    for variable in ["CXI_FORK_SAFE", "CXI_FORK_SAFE_HP"] {
        set(variable, "1");
        let (mut rig, source, sink) = Rig::with_target();
        assert!(call!(cxil_is_copy_on_fork()));
        source.pages.fill(7);
        let put = rig.dma_put(&source, 0, 2000, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
        in_child(|| {
            let inherited = sink.pages.is(0, 2000, 7);
            sink.pages.fill(9);
            inherited && source.pages.is(0, PAGE, 7)
        });
        // The pages of the parent stay with its NIC.
        source.pages.fill(8);
        assert_eq!(rig.code(&put), C_RC_OK);
        assert!(sink.pages.is(0, 2000, 8) && sink.pages.is(2000, 96, 0));
    }
}
