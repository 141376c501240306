//! Huge pages behind a mapping (libcxi.md 7.3 and 7.4).

use crate::driver::prelude::*;
use std::fs::{self, File};
use std::os::fd::IntoRawFd;

const HUGE: usize = 2 << 20;
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Locks the pool until the process ends: its pages are free again only then.
pub fn lock() {
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
