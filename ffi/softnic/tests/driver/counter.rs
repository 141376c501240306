//! A counter as libcxi returns it (nic.md 9).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::*;

use super::call;
use super::rig::answered;

#[derive(Clone, Copy)]
pub struct Counter {
    pub handle: *mut cxi_ct,
    pub number: u16,
    doorbells: *mut u64,
}

impl Counter {
    /// A counter with this write-back word, or an errno.
    pub fn alloc(lni: *mut cxil_lni, wb: *mut u8) -> Result<Self, i32> {
        let mut handle = null_mut();
        answered(call!(cxil_alloc_ct(lni, wb.cast(), &mut handle)))?;
        // SAFETY: `cxil_alloc_ct` has just returned the handle.
        let public = unsafe { *handle };
        assert_eq!(public.wb.cast(), wb);
        Ok(Self { handle, number: public.ctn as u16, doorbells: public.doorbell })
    }

    /// A counter without a write-back word.
    pub fn new(lni: *mut cxil_lni) -> Self {
        Self::alloc(lni, null_mut()).expect("cxil_alloc_ct")
    }

    /// Stores to the doorbell at byte `offset`.
    pub fn ring(&self, offset: usize, value: u64) {
        let word = self.doorbells.wrapping_byte_add(offset);
        // SAFETY: the word lies in the doorbell page, is aligned and lives as long as the counter.
        unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Release);
    }

    pub fn destroy(self) {
        assert_eq!(call!(cxil_destroy_ct(self.handle)), 0);
    }
}
