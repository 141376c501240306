//! Mapped memory and fork(2): CXI_FORK_SAFE and CXI_FORK_SAFE_HP (libcxi.md 1).

use std::ptr::null_mut;

use cxi_sys::*;

use crate::driver::alone::alone;
use crate::driver::memory::{Buffer, PAGE, Pages, RW};
use crate::driver::rig::Rig;
use crate::driver::{call, export};

/// Lets a child made by fork(2) look at something; it must find it true.
pub fn in_child(look: impl FnOnce() -> bool) {
    // SAFETY: the thread of the test is the only one of ours that holds locks.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: no requirements; the alarm of the parent is not inherited, and this one ends a child that hangs.
        unsafe { libc::alarm(30) };
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
        // SAFETY: no requirements.
        unsafe { libc::_exit(i32::from(!seen.unwrap_or(false))) };
    }
    let mut status = 0;
    // SAFETY: a child of ours, and a place for the answer.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child saw otherwise");
}

/// Whether a page is there at all: msync(2) asks without touching it.
fn has(page: *mut u8) -> bool {
    // SAFETY: changes nothing; an address without memory is an error, which is the question.
    unsafe { libc::msync(page.cast(), PAGE, libc::MS_ASYNC) == 0 }
}

/// Which pages a child would have.
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

fn ask(variable: &str) {
    // SAFETY: nothing in this process reads the environment meanwhile.
    unsafe { std::env::set_var(variable, "1") };
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
fn memory_is_inherited_unless_asked_otherwise() {
    alone(|| {
        ask("CXI_FORK_SAFE_HP");
        let rig = Rig::new();
        let memory = pages(2, 0).unwrap();
        Buffer::over(rig.lni, memory, RW);
        inherited(memory, &[true, true]);
        assert!(export!(cxil_is_copy_on_fork()));
    });
}

#[test]
fn pages_are_kept_from_children_while_any_mapping_holds_them() {
    alone(|| {
        ask("CXI_FORK_SAFE");
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
        assert_eq!(call!(cxil_unmap(first.md)), 0);
        inherited(memory, &[t, f, f, t]);
        // The NIC goes on, also to pages that a child does not have.
        let source = rig.buffer(PAGE);
        source.pages.fill(7);
        rig.target(0, &second);
        let put = rig.dma_put(&source, 0, 2000, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
        assert!(memory.is(PAGE, 2000, 7));
        assert_eq!(call!(cxil_unmap(second.md)), 0);
        inherited(memory, &[t, t, t, t]);
        // What fails leaves no mark: there is no ninth context.
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
    });
}

/// What the parent marked, a child does not even have, so nothing of that holds what the child maps at the same place.
#[test]
fn a_child_begins_without_marks() {
    alone(|| {
        ask("CXI_FORK_SAFE");
        let rig = Rig::new();
        let memory = pages(1, 0).unwrap();
        Buffer::over(rig.lni, memory, RW);
        in_child(|| {
            let was_there = has(memory.base);
            let again = pages_at(memory.base, 1, libc::MAP_FIXED).unwrap();
            let own = Rig::on(1);
            let mapped = Buffer::over(own.lni, again, RW);
            inherited(again, &[false]);
            assert_eq!(call!(cxil_unmap(mapped.md)), 0);
            inherited(again, &[true]);
            !was_there
        });
        inherited(memory, &[false]);
    });
}

#[test]
fn memory_that_comes_later_is_kept_too() {
    alone(|| {
        ask("CXI_FORK_SAFE");
        let rig = Rig::new();
        let memory = pages(2, 0).unwrap();
        let reserved = Buffer::over(rig.lni, memory, RW | CXI_MAP_ALLOC_MD);
        inherited(memory, &[true, true]);
        let second = memory.base.wrapping_add(PAGE).cast();
        for _ in 0..2 {
            assert_eq!(export!(cxil_update_md(reserved.md, second, PAGE, RW)), 0);
            inherited(memory, &[true, false]);
        }
        assert_eq!(call!(cxil_unmap(reserved.md)), 0);
        inherited(memory, &[true, true]);
    });
}

/// Needs a huge page; where there is none, the test has nothing to say.
#[test]
fn huge_pages_are_kept_on_request_alone() {
    alone(|| {
        const HUGE: usize = 2 << 20;
        let Some(memory) = pages(HUGE / PAGE, libc::MAP_HUGETLB) else {
            println!("not tested here: no huge page");
            return;
        };
        assert_eq!(export!(cxil_page_size(memory.base.cast())), HUGE);
        for (variable, kept) in [("CXI_FORK_SAFE", false), ("CXI_FORK_SAFE_HP", true)] {
            ask(variable);
            let rig = Rig::new();
            let part = Pages {
                base: memory.base.wrapping_add(3 * PAGE),
                len: PAGE,
            };
            let mapped = Buffer::over(rig.lni, part, RW);
            inherited(memory, &[!kept; 8]);
            assert_eq!(call!(cxil_unmap(mapped.md)), 0);
            inherited(memory, &[true; 8]);
        }
    });
}
