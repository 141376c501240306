//! Mappings without pinned pages: memory that may come and go (libcxi.md 7.8).

use crate::driver::prelude::*;
use crate::memory::{PRIVATE, READ_WRITE, mmap, round_trip, update};

const ON_DEMAND: u32 = CXI_MAP_READ | CXI_MAP_WRITE;

/// Pages of the test in their own area of memory.
fn area(pages: usize) -> Pages {
    let len = pages * PAGE;
    let base = mmap(null_mut(), len, READ_WRITE, PRIVATE, -1);
    Pages { base, len }
}

fn unmap(base: *mut u8) {
    // SAFETY: a page of the test, which it uses no more.
    assert_eq!(unsafe { libc::munmap(base.cast(), PAGE) }, 0);
}

fn protect(base: *mut u8, rights: i32) {
    // SAFETY: a page of the test.
    assert_eq!(unsafe { libc::mprotect(base.cast(), PAGE, rights) }, 0);
}

fn restore(base: *mut u8) {
    mmap(base, PAGE, READ_WRITE, PRIVATE | libc::MAP_FIXED, -1);
}

/// A DMA get from index `index` to `buffer`.
fn get(rig: &mut Rig, index: u8, buffer: &Buffer, len: u32) -> u32 {
    let get =
        rig.dma_put(buffer, 0, len, |get| _ = get.set_opcode(C_CMD_GET as u8).set_index_ext(index));
    let event = rig.run(&get);
    assert_eq!(event.kind(), C_EVENT_REPLY);
    event.code()
}

/// A SUM of one UINT64 at the beginning of index 0.
fn sum(rig: &mut Rig, operand: &Buffer) -> u32 {
    let amo = dma_amo(false, |amo| {
        amo.set_dfa(rig.dfa(0))
            .set_lac(operand.lac)
            .set_local_read_addr(operand.iova(0))
            .set_eq(rig.eq.number);
    });
    rig.code(&amo)
}

/// A target at index 0 for puts, gets and atomic operations on a mapping.
fn open_to_all(rig: &mut Rig, buffer: &Buffer) {
    rig.target_with(0, buffer, |entry| {
        quiet(entry);
        entry.set_op_get(true);
    });
}

#[test]
fn moves_data_of_every_size() {
    alone!();
    let mut rig = Rig::new();
    for (index, len) in [(0, 1), (2, 8), (4, 100), (6, 5 * PAGE)] {
        let area = area(8);
        let pages = Pages { len, ..area };
        let mapped = Buffer::over(rig.lni, pages, ON_DEMAND);
        let pattern = round_trip(&mut rig, index, &mapped);
        assert!(mapped.pages.read(0, len) == pattern, "{len}");
        assert!(area.is(len, area.len - len, 0), "{len}");
        mapped.unmap();
    }
}

#[test]
fn fails_operations_without_memory() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(2 * PAGE);
    source.pages.fill(1);
    let area = area(2);
    let mapped = Buffer::over(rig.lni, area, ON_DEMAND);
    open_to_all(&mut rig, &mapped);
    let mut codes = |lens: [u32; 3]| {
        let mut codes = Vec::new();
        for len in lens {
            let put = rig.dma_put(&source, 0, len, |_| {});
            codes.push(rig.code(&put));
            codes.push(get(&mut rig, 0, &source, len));
            // The initiator now reads and writes this memory as well.
            let put = rig.dma_put(&mapped, 0, len, |_| {});
            codes.push(rig.code(&put));
            codes.push(get(&mut rig, 0, &mapped, len));
        }
        codes.extend([sum(&mut rig, &source), sum(&mut rig, &mapped)]);
        codes
    };
    let lens = [8, 100, PAGE as u32];
    assert_eq!(codes(lens), [C_RC_OK; 14]);
    let whole = 2 * PAGE as u32;
    for take in [unmap, |page| protect(page, libc::PROT_NONE)] {
        take(area.base);
        assert_eq!(codes(lens), [C_RC_NO_TRANSLATION; 14]);
        restore(area.base);
        assert_eq!(codes(lens), [C_RC_OK; 14]);
        take(area.base.wrapping_add(PAGE));
        assert_eq!(codes([whole; 3])[..12], [C_RC_NO_TRANSLATION; 12]);
        restore(area.base.wrapping_add(PAGE));
        assert_eq!(codes([whole; 3]), [C_RC_OK; 14]);
    }
}

/// Puts like the last one take a shorter way through the NIC.
#[test]
fn repeated_puts_notice_missing_memory() {
    alone!();
    let mut rig = Rig::new();
    let (source, area) = (rig.buffer(PAGE), area(1));
    let mapped = Buffer::over(rig.lni, area, ON_DEMAND);
    rig.target(0, &mapped);
    let put = rig.dma_put(&source, 0, 100, |_| {});
    for _ in 0..3 {
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    protect(area.base, libc::PROT_NONE);
    assert_eq!(rig.code(&put), C_RC_NO_TRANSLATION);
}

#[test]
fn reads_but_does_not_write_protected_memory() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    source.pages.fill(1);
    let area = area(1);
    let mapped = Buffer::over(rig.lni, area, ON_DEMAND);
    open_to_all(&mut rig, &mapped);
    protect(area.base, libc::PROT_READ);
    for len in [8, 9] {
        let put = rig.dma_put(&source, 0, len, |_| {});
        assert_eq!(rig.code(&put), C_RC_NO_TRANSLATION);
        assert_eq!(get(&mut rig, 0, &source, len), C_RC_OK);
    }
    source.pages.fill(1);
    assert_eq!(sum(&mut rig, &source), C_RC_NO_TRANSLATION);
    assert!(area.is(0, PAGE, 0));
    // The rights of the mapping count first.
    let readable = Buffer::over(rig.lni, area, CXI_MAP_READ);
    let writable = Buffer::over(rig.lni, area, CXI_MAP_WRITE);
    assert_eq!(get(&mut rig, 0, &readable, 8), C_RC_PAGE_PERM_ERROR);
    let put = rig.dma_put(&writable, 0, 8, |_| {});
    assert_eq!(rig.code(&put), C_RC_PAGE_PERM_ERROR);
}

#[test]
fn maps_addresses_before_there_is_memory() {
    alone!();
    let mut rig = Rig::new();
    let area = area(1);
    unmap(area.base);
    let mapped = Buffer::over(rig.lni, area, ON_DEMAND);
    let ahead = Buffer::over(rig.lni, area, ON_DEMAND | CXI_MAP_PREFETCH);
    restore(area.base);
    round_trip(&mut rig, 0, &mapped);
    round_trip(&mut rig, 2, &ahead);
}

#[test]
fn maps_whole_address_space() {
    alone!();
    let mut rig = Rig::new();
    let (source, area) = (rig.buffer(PAGE), area(1));
    source.pages.fill(5);
    let all = Pages { base: null_mut(), len: 1 << 47 };
    let all = Buffer::over(rig.lni, all, ON_DEMAND);
    rig.target(0, &all);
    let mut put = |place: usize| {
        let put = rig.dma_put(&source, 0, 100, |put| _ = put.set_remote_offset(place as u64));
        rig.code(&put)
    };
    assert_eq!(put(area.base.addr() + 3), C_RC_OK);
    assert!(area.is(3, 100, 5) && area.is(103, PAGE - 103, 0));
    assert_eq!(put(0), C_RC_NO_TRANSLATION);
}

/// Whether the process has the page in memory.
fn is_resident(page: *mut u8) -> bool {
    let mut state = 0;
    // SAFETY: a page of the test, and `state` has room for it.
    let code = unsafe { libc::mincore(page.cast(), PAGE, &raw mut state) };
    assert_eq!(code, 0);
    state & 1 != 0
}

#[test]
fn brings_pages_in_on_request_only() {
    alone!();
    let rig = Rig::new();
    for (how, resident) in [(0, false), (CXI_MAP_PREFETCH, true), (CXI_MAP_FAULT, true)] {
        let area = area(2);
        // A huge page would bring its neighbours in.
        // SAFETY: the test's own memory; the advice may be refused.
        unsafe { libc::madvise(area.base.cast(), area.len, libc::MADV_NOHUGEPAGE) };
        let second = area.base.wrapping_add(PAGE);
        let first = Pages { len: PAGE, ..area };
        let mapped = Buffer::over(rig.lni, first, ON_DEMAND | how);
        assert_eq!(is_resident(area.base), resident, "{how:#x}");
        mapped.unmap();
        let reserved = Buffer::over(rig.lni, area, ON_DEMAND | CXI_MAP_ALLOC_MD);
        assert_eq!(update(reserved.md, second, PAGE, ON_DEMAND | how), 0);
        assert_eq!(is_resident(second), resident, "{how:#x}");
    }
    // An update of a pinned mapping pins memory without CXI_MAP_PIN too.
    let area = area(1);
    let pinned = Buffer::over(rig.lni, area, RW | CXI_MAP_ALLOC_MD);
    assert!(!is_resident(area.base));
    assert_eq!(update(pinned.md, area.base, PAGE, ON_DEMAND), 0);
    assert!(is_resident(area.base));
}

#[test]
fn refuses_to_fault_in_what_is_missing() {
    alone!();
    let rig = Rig::new();
    let area = area(2);
    let (md, second) =
        (Buffer::over(rig.lni, area, ON_DEMAND | CXI_MAP_FAULT).md, area.base.wrapping_add(PAGE));
    let map = |flags| {
        let (base, len, mut md) = (area.base.cast(), area.len, null_mut());
        -call!(cxil_map(rig.lni, base, len, flags, null_mut(), &mut md))
    };
    assert_eq!(map(ON_DEMAND | CXI_MAP_FAULT), 0);
    for take in [unmap, |page| protect(page, libc::PROT_READ)] {
        take(second);
        assert_eq!(map(ON_DEMAND | CXI_MAP_FAULT), EINVAL);
        assert_eq!(map(ON_DEMAND | CXI_MAP_PREFETCH), 0);
        assert_eq!(update(md, second, PAGE, CXI_MAP_FAULT), EINVAL);
        assert_eq!(update(md, area.base, PAGE, CXI_MAP_FAULT), 0);
        assert_eq!(update(md, second, PAGE, CXI_MAP_PREFETCH), EINVAL);
        restore(second);
    }
    assert_eq!(map(ON_DEMAND | CXI_MAP_DEVICE), EOPNOTSUPP);
    assert_eq!(map(ON_DEMAND | CXI_MAP_ATS), EOPNOTSUPP);
}

#[test]
fn adds_memory_to_reserved_addresses_on_demand() {
    alone!();
    let mut rig = Rig::new();
    let (source, area) = (rig.buffer(PAGE), area(2));
    let reserved = Buffer::over(rig.lni, area, ON_DEMAND | CXI_MAP_ALLOC_MD);
    rig.target(0, &reserved);
    let put = rig.dma_put(&source, 0, 8, |_| {});
    assert_eq!(rig.code(&put), C_RC_NO_TRANSLATION);
    assert_eq!(update(reserved.md, area.base, PAGE, ON_DEMAND), 0);
    assert_eq!(rig.code(&put), C_RC_OK);
    unmap(area.base);
    assert_eq!(rig.code(&put), C_RC_NO_TRANSLATION);
    // An update may pin what the mapping left to demand.
    restore(area.base);
    assert_eq!(update(reserved.md, area.base, PAGE, RW), 0);
    assert_eq!(rig.code(&put), C_RC_OK);
}

/// A thread of the program drops a page and maps it again while operations use it.
#[test]
fn survives_memory_that_comes_and_goes() {
    alone!();
    let mut rig = Rig::new();
    let (source, area) = (rig.buffer(2 * PAGE), area(2));
    let base = area.base.addr();
    let mapped = Buffer::over(rig.lni, area, ON_DEMAND);
    open_to_all(&mut rig, &mapped);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut seen = [0; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let page = std::ptr::with_exposed_provenance_mut(base);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // In place, so that no other memory takes the addresses.
                mmap(page, PAGE, libc::PROT_NONE, PRIVATE | libc::MAP_FIXED, -1);
                restore(page);
            }
        });
        let start = std::time::Instant::now();
        while seen.contains(&0) && start.elapsed().as_secs() < 30 {
            let put = rig.dma_put(&source, 0, 2 * PAGE as u32, |_| {});
            let codes = [rig.code(&put), get(&mut rig, 0, &source, 2 * PAGE as u32)];
            for code in codes {
                assert!(matches!(code, C_RC_OK | C_RC_NO_TRANSLATION), "{code}");
                seen[usize::from(code == C_RC_OK)] += 1;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(!seen.contains(&0), "{seen:?}");
}

#[test]
fn refuses_event_queue_without_memory() {
    alone!();
    let rig = Rig::new();
    let area = area(1);
    for flags in [ON_DEMAND, RW | CXI_MAP_ALLOC_MD] {
        let md = Buffer::over(rig.lni, area, flags).md;
        let alloc = || {
            let attr = attributes(area.base.cast(), PAGE);
            let (none, mut eq) = (null_mut(), null_mut());
            -call!(cxil_alloc_evtq(rig.lni, md, &attr, none, none, &mut eq))
        };
        assert_eq!(alloc(), 0);
        protect(area.base, libc::PROT_READ);
        assert_eq!(alloc(), EFAULT);
        protect(area.base, READ_WRITE);
    }
}
