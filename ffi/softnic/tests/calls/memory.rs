//! Memory of every kind behind a mapping, and memory that comes after it (libcxi.md 7).

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use cxi_sys::*;
use libc::{EFAULT, EINVAL, EOPNOTSUPP, EOVERFLOW};

use crate::driver::alone::{alone, fabric};
use crate::driver::memory::{Buffer, PAGE, Pages, RW};
use crate::driver::rig::Rig;
use crate::driver::{call, export};

/// Memory of mmap(2), wherever the kernel likes or at a given place.
fn mmap(place: *mut u8, len: usize, rights: i32, flags: i32, file: i32) -> *mut u8 {
    // SAFETY: new memory, or at a place that is the test's own.
    let base = unsafe { libc::mmap(place.cast(), len, rights, flags, file, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    base.expose_provenance();
    base.cast()
}

const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Maps any bytes, and lets the NIC write them and read them back.
fn goes_through(rig: &mut Rig, index: u32, place: *mut u8, len: usize) {
    let mut md = null_mut();
    let code = call!(cxil_map(
        rig.lni,
        place.cast(),
        len,
        RW,
        null_mut(),
        &mut md
    ));
    assert_eq!(code, 0);
    // SAFETY: just made.
    let public = unsafe { *md };
    assert!(public.va <= place.addr() as u64);
    assert!(public.va + public.len as u64 >= (place.addr() + len) as u64);
    let mapped = Buffer {
        pages: Pages { base: place, len },
        md,
        lac: public.lac,
        first: public.iova + (place.addr() as u64 - public.va),
    };
    let (source, back) = (rig.buffer(len), rig.buffer(len));
    let pattern: Vec<u8> = (0..len).map(|at| (at % 251) as u8 + 1).collect();
    source.pages.write(0, &pattern);
    let portals = [(index, &mapped), (index + 1, &back)];
    for (index, to) in portals {
        let quiet = |entry: &mut records::TargetCmd| {
            entry.set_length(len as u64);
            entry
                .set_event_success_disable(true)
                .set_event_comm_disable(true);
        };
        rig.target_with(index, to, quiet);
    }
    for (from, (index, to)) in [source, mapped].into_iter().zip(portals) {
        let put = rig.dma_put(&from, 0, len as u32, |put| {
            put.set_index_ext(index as u8);
        });
        assert_eq!(rig.code(&put), C_RC_OK);
        assert!(to.pages.read(0, len) == pattern);
    }
    assert_eq!(call!(cxil_unmap(md)), 0);
}

#[test]
fn any_memory_of_the_process() {
    alone(|| {
        let mut rig = Rig::new();
        let mut heap = vec![0_u8; 3 * PAGE + 100];
        goes_through(&mut rig, 0, heap.as_mut_ptr().wrapping_add(1), 3 * PAGE);
        let mut stack = [0_u8; 700];
        goes_through(&mut rig, 2, stack.as_mut_ptr().wrapping_add(3), 690);
        static GLOBAL: [std::sync::atomic::AtomicU64; 9] =
            [const { std::sync::atomic::AtomicU64::new(0) }; 9];
        goes_through(&mut rig, 4, GLOBAL[0].as_ptr().cast(), 72);
        // Of a file, shared and private.
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
        // Over the border of two areas with other rights.
        let base = mmap(null_mut(), 2 * PAGE, READ_WRITE, PRIVATE, -1);
        let all = READ_WRITE | libc::PROT_EXEC;
        // SAFETY: the test's own page.
        let code = unsafe { libc::mprotect(base.wrapping_add(PAGE).cast(), PAGE, all) };
        if code == 0 {
            goes_through(&mut rig, 10, base.wrapping_add(PAGE - 100), 200);
        }
        // Huge pages: given by the kernel if it likes, or from its pool if that has any.
        const HUGE: usize = 2 << 20;
        let base = mmap(null_mut(), 2 * HUGE, READ_WRITE, PRIVATE, -1);
        let base = base.wrapping_add(base.addr().next_multiple_of(HUGE) - base.addr());
        // SAFETY: the test's own memory; the advice may be refused.
        unsafe { libc::madvise(base.cast(), HUGE, libc::MADV_HUGEPAGE) };
        goes_through(&mut rig, 12, base.wrapping_add(HUGE - 5 * PAGE), 5 * PAGE);
        // SAFETY: new memory, wherever the kernel likes, or none.
        let base = unsafe {
            let flags = PRIVATE | libc::MAP_HUGETLB;
            libc::mmap(null_mut(), HUGE, READ_WRITE, flags, -1, 0)
        };
        if base != libc::MAP_FAILED {
            base.expose_provenance();
            assert_eq!(export!(cxil_page_size(base)), HUGE);
            goes_through(&mut rig, 14, base.cast::<u8>().wrapping_add(77), 3 * PAGE);
        }
    });
}

#[test]
fn sizes_of_pages() {
    alone(|| {
        let size = |place: *mut u8| export!(cxil_page_size(place.cast()));
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
    });
}

fn update(md: *mut cxi_md, va: *mut u8, len: usize, flags: u32) -> i32 {
    let va: *mut c_void = va.cast();
    -export!(cxil_update_md(md, va, len, flags))
}

#[test]
fn memory_behind_reserved_addresses() {
    alone(|| {
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        source.pages.fill(9);
        let base = mmap(null_mut(), 4 * PAGE, READ_WRITE, PRIVATE, -1);
        let (len, page) = (4 * PAGE, |number: usize| base.wrapping_add(number * PAGE));
        let reserved = Buffer::over(rig.lni, Pages { base, len }, RW | CXI_MAP_ALLOC_MD);
        // SAFETY: alive.
        let before = unsafe { *reserved.md };
        rig.target(0, &reserved);
        let mut put = |number: usize, len: u32| {
            let put = rig.dma_put(&source, 0, len, |put| {
                put.set_remote_offset((number * PAGE) as u64);
            });
            rig.code(&put)
        };
        assert_eq!(put(0, 8), C_RC_NO_TRANSLATION);
        assert_eq!(
            update(reserved.md, page(1), 1, RW),
            0,
            "the whole page comes"
        );
        assert_eq!(put(1, PAGE as u32), C_RC_OK);
        for other in [0, 2, 3] {
            assert_eq!(put(other, 8), C_RC_NO_TRANSLATION);
        }
        // What lies there is another page meanwhile.
        mmap(page(1), PAGE, READ_WRITE, PRIVATE | libc::MAP_FIXED, -1);
        assert_eq!(update(reserved.md, page(1), 2 * PAGE, RW), 0);
        assert_eq!(put(1, 100), C_RC_OK);
        assert_eq!(put(2, 8), C_RC_OK);
        let found = Pages { base, len };
        assert!(found.is(PAGE, 100, 9) && found.is(PAGE + 100, PAGE - 100, 0));
        // SAFETY: alive.
        let after = unsafe { *reserved.md };
        let name = |md: cxi_md| (md.id, md.iova, md.va, md.len, md.lac);
        assert_eq!(name(before), name(after));
        assert_eq!(call!(cxil_unmap(reserved.md)), 0);
        assert_eq!(put(1, 8), C_RC_NO_TRANSLATION);
    });
}

#[test]
fn updates_that_are_refused() {
    alone(|| {
        let rig = Rig::new();
        let base = mmap(null_mut(), 4 * PAGE, READ_WRITE, PRIVATE, -1);
        let page = |number: usize| base.wrapping_add(number * PAGE);
        let (inner, len) = (page(1), 2 * PAGE);
        let read = CXI_MAP_PIN | CXI_MAP_READ;
        let md = Buffer::over(rig.lni, Pages { base: inner, len }, read).md;
        assert_eq!(update(null_mut(), page(1), PAGE, read), EINVAL);
        assert_eq!(update(md, page(1), 0, read), EINVAL);
        assert_eq!(update(md, page(0), PAGE, read), EINVAL);
        assert_eq!(update(md, page(2), PAGE + 1, read), EINVAL);
        assert_eq!(update(md, page(3), PAGE, read), EINVAL);
        assert_eq!(update(md, page(1), usize::MAX, read), EOVERFLOW);
        assert_eq!(update(md, null_mut(), PAGE, read), EINVAL);
        assert_eq!(update(md, page(1), PAGE, RW), EINVAL, "a right too many");
        let on_demand = CXI_MAP_READ | CXI_MAP_FAULT;
        assert_eq!(update(md, page(1), PAGE, on_demand), EOPNOTSUPP);
        assert_eq!(update(md, page(1), PAGE, on_demand | read), EINVAL);
        // SAFETY: the test's own page, which nothing uses.
        assert_eq!(unsafe { libc::munmap(page(2).cast(), PAGE) }, 0);
        assert_eq!(update(md, page(1), 2 * PAGE, read), EFAULT);
        assert_eq!(update(md, page(1), PAGE, read), 0);
    });
}
