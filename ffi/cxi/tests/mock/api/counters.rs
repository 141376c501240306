//! Counters of the mock.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;

use super::*;

/// Value of a doorbell without a store.
pub const UNTOUCHED: u64 = u64::MAX;

/// Offsets of the four doorbells (nic.md 9.1) and of the word after them.
pub const PLACES: [usize; 5] = [0, 64, 128, 192, 256];

thread_local! {
    /// Doorbell page and write-back word of each counter, in order of allocation.
    static COUNTERS: RefCell<Vec<(*mut u8, *mut u8)>> = const { RefCell::new(Vec::new()) };
}

/// Forgets the counters of earlier tests of this thread.
pub(super) fn reset() {
    COUNTERS.take();
}

fn page() -> Layout {
    Layout::from_size_align(4096, 4096).unwrap()
}

/// The values stored to the doorbells of counter `index` since the last call.
pub fn take_doorbells(index: usize) -> [u64; 5] {
    let (page, _) = COUNTERS.with_borrow(|counters| counters[index]);
    PLACES.map(|offset| {
        let word: *mut u64 = page.wrapping_add(offset).cast();
        // SAFETY: the tests keep the counter, and thus its doorbell page, allocated.
        let word = unsafe { AtomicU64::from_ptr(word) };
        word.swap(UNTOUCHED, Ordering::AcqRel)
    })
}

/// The write-back word of counter `index`, if it has one.
pub fn write_back_word(index: usize) -> Option<&'static AtomicU64> {
    let (_, word) = COUNTERS.with_borrow(|counters| counters[index]);
    // SAFETY: the word is aligned; the tests keep it allocated and access it only atomically.
    (!word.is_null()).then(|| unsafe { AtomicU64::from_ptr(word.cast()) })
}

pub(super) unsafe extern "C" fn alloc_ct(
    lni: *mut cxil_lni,
    wb: *mut c_ct_writeback,
    out: *mut *mut cxi_ct,
) -> c_int {
    // SAFETY: the layout has a nonzero size.
    let doorbells = unsafe { alloc_zeroed(page()) };
    let counter = cxi_ct {
        doorbell: if with(|state| state.omit_pointers) {
            ptr::null_mut()
        } else {
            doorbells.cast()
        },
        ctn: COUNTERS.with_borrow(Vec::len) as u32 + 5,
        wb,
    };
    let result = allocate(Kind::Counter, counter, &[lni as usize], &[], out);
    if result != 0 {
        // SAFETY: `alloc_zeroed` returned the memory for this layout.
        unsafe { dealloc(doorbells, page()) };
        return result;
    }
    COUNTERS.with_borrow_mut(|counters| counters.push((doorbells, wb.cast())));
    take_doorbells(COUNTERS.with_borrow(Vec::len) - 1);
    0
}

pub(super) unsafe extern "C" fn ct_wb_update(_: *mut cxi_ct, _: *mut c_ct_writeback) -> c_int {
    -libc::ENOSYS
}

pub(super) unsafe extern "C" fn destroy_ct(counter: *mut cxi_ct) -> c_int {
    // SAFETY: the wrapper passes a counter that it has not released; `release` reports a violation.
    let ct = unsafe { counter.read() };
    let result = release(Kind::Counter, counter);
    if !ct.wb.is_null() && !is_mapped(ct.wb as usize) {
        let violation = "freed a write-back word before its counter was released".into();
        with(|state| state.violations.push(violation));
    }
    if result == 0 && !ct.doorbell.is_null() {
        // SAFETY: `alloc_zeroed` returned the memory for this layout.
        unsafe { dealloc(ct.doorbell.cast(), page()) };
    }
    result
}

/// Allocates a profile with LCID 0 if `cp_type` requests it, else with LCID 9.
pub unsafe extern "C" fn alloc_trig_cp(
    lni: *mut cxil_lni,
    vni: c_uint,
    tc: cxi_traffic_class,
    _: cxi_traffic_class_type,
    cp_type: cxi_trig_cp,
    out: *mut *mut cxi_cp,
) -> c_int {
    let profile = cxi_cp {
        __bindgen_anon_1: cxi_cp__bindgen_ty_1 { vni },
        tc,
        tc_type: CXI_TC_TYPE_DEFAULT,
        lcid: if cp_type == TRIG_LCID { 0 } else { 9 },
    };
    allocate(Kind::Profile, profile, &[lni as usize], &[], out)
}
