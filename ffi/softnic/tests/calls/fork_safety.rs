//! Mapped memory and fork(2): CXI_FORK_SAFE and CXI_FORK_SAFE_HP (libcxi.md 1).

use crate::driver::prelude::*;

/// Whether a page is mapped: msync(2) does not touch it.
fn has(page: *mut u8) -> bool {
    // SAFETY: changes nothing; an address without memory is an error, which is the question.
    unsafe { libc::msync(page.cast(), PAGE, libc::MS_ASYNC) == 0 }
}

/// Checks which pages a child inherits.
fn inherited(pages: Pages, expected: &[bool]) {
    in_child(|| {
        let found: Vec<bool> = (0..expected.len())
            .map(|number| has(pages.base.wrapping_add(number * PAGE)))
            .collect();
        if found != expected {
            eprintln!("inherited: {found:?}, expected: {expected:?}");
        }
        found == expected
    });
}

/// Whole pages from the kernel, apart from all other memory.
fn pages(count: usize, flags: i32) -> Option<Pages> {
    pages_at(null_mut(), count, flags)
}

fn pages_at(place: *mut u8, count: usize, flags: i32) -> Option<Pages> {
    let (rights, len) = (libc::PROT_READ | libc::PROT_WRITE, count * PAGE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: new memory, wherever the kernel likes or where the process has none.
    let base = unsafe { libc::mmap(place.cast(), len, rights, flags, -1, 0) };
    let base = base.cast::<u8>();
    (base.addr() != usize::MAX).then(|| {
        base.expose_provenance();
        Pages { base, len }
    })
}

#[test]
fn child_inherits_mapped_memory_by_default() {
    alone!();
    set("CXI_FORK_SAFE_HP", "1");
    let rig = Rig::new();
    let memory = pages(2, 0).unwrap();
    Buffer::over(rig.lni, memory, RW);
    inherited(memory, &[true, true]);
    assert!(call!(cxil_is_copy_on_fork()));
}

#[test]
fn hides_pages_from_child_while_any_mapping_holds_them() {
    alone!();
    set("CXI_FORK_SAFE", "1");
    let mut rig = Rig::new();
    let memory = pages(4, 0).unwrap();
    let part = |first: usize, count: usize| Pages {
        base: memory.base.wrapping_add(first * PAGE),
        len: count * PAGE,
    };
    let (t, f) = (true, false);
    let first = Buffer::over(rig.lni, part(0, 2), RW);
    inherited(memory, &[f, f, t, t]);
    let second = Buffer::over(rig.lni, part(1, 2), RW);
    inherited(memory, &[f, f, f, t]);
    first.unmap();
    inherited(memory, &[t, f, f, t]);
    // The NIC still reaches pages that a child does not have.
    let source = rig.buffer(PAGE);
    source.pages.fill(7);
    rig.target(0, &second);
    let put = rig.dma_put(&source, 0, 2000, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    assert!(memory.is(PAGE, 2000, 7));
    second.unmap();
    inherited(memory, &[t, t, t, t]);
    // A failed mapping, for want of a ninth context, hides nothing.
    let map = |flags| {
        let (base, mut md) = (memory.base.cast(), null_mut());
        call!(cxil_map(rig.lni, base, PAGE, flags, null_mut(), &mut md))
    };
    for direction in [0, CXI_MAP_READ, CXI_MAP_WRITE, CXI_MAP_READ | CXI_MAP_WRITE] {
        for cache in [0, CXI_MAP_NOCACHE] {
            let flags = CXI_MAP_PIN | direction | cache;
            Buffer::over(rig.lni, source.pages, flags);
        }
    }
    assert_eq!(map(CXI_MAP_PIN | CXI_MAP_USER_ADDR), -libc::ENOSPC);
    inherited(memory, &[t, t, t, t]);
}

/// The child does not have the parent's hidden pages, so it can map and hide others at their addresses.
#[test]
fn child_starts_without_marks() {
    alone!();
    set("CXI_FORK_SAFE", "1");
    let rig = Rig::new();
    let memory = pages(1, 0).unwrap();
    Buffer::over(rig.lni, memory, RW);
    in_child(|| {
        let was_there = has(memory.base);
        let again = pages_at(memory.base, 1, libc::MAP_FIXED).unwrap();
        let own = Rig::on(1);
        let mapped = Buffer::over(own.lni, again, RW);
        inherited(again, &[false]);
        mapped.unmap();
        inherited(again, &[true]);
        !was_there
    });
    inherited(memory, &[false]);
}

#[test]
fn hides_memory_that_update_adds() {
    alone!();
    set("CXI_FORK_SAFE", "1");
    let rig = Rig::new();
    let memory = pages(2, 0).unwrap();
    let reserved = Buffer::over(rig.lni, memory, RW | CXI_MAP_ALLOC_MD);
    inherited(memory, &[true, true]);
    let second = memory.base.wrapping_add(PAGE).cast();
    for _ in 0..2 {
        assert_eq!(call!(cxil_update_md(reserved.md, second, PAGE, RW)), 0);
        inherited(memory, &[true, false]);
    }
    reserved.unmap();
    inherited(memory, &[true, true]);
}

/// Needs a free huge page.
#[test]
fn hides_huge_pages_only_on_request() {
    alone!();
    const HUGE: usize = 2 << 20;
    let Some(memory) = pages(HUGE / PAGE, libc::MAP_HUGETLB) else {
        println!("not tested here: no huge page");
        return;
    };
    assert_eq!(call!(cxil_page_size(memory.base.cast())), HUGE);
    for (variable, kept) in [("CXI_FORK_SAFE", false), ("CXI_FORK_SAFE_HP", true)] {
        set(variable, "1");
        let rig = Rig::new();
        let part = Pages {
            base: memory.base.wrapping_add(3 * PAGE),
            len: PAGE,
        };
        let mapped = Buffer::over(rig.lni, part, RW);
        inherited(memory, &[!kept; 8]);
        mapped.unmap();
        inherited(memory, &[true; 8]);
    }
}
