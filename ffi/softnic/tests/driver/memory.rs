//! Memory of a test, mapped for the NIC.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use cxi_sys::*;

use super::call;

pub const PAGE: usize = 4096;

/// What the tools map with.
pub const RW: u32 = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;

/// Zeroed pages that live to the end of the process. Every byte is accessed atomically, for the
/// NIC writes them in other threads.
#[derive(Clone, Copy)]
pub struct Pages {
    pub base: *mut u8,
    pub len: usize,
}

impl Pages {
    pub fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.next_multiple_of(PAGE), PAGE).unwrap();
        // SAFETY: the layout is not empty in any test.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        base.expose_provenance();
        Self { base, len: layout.size() }
    }

    pub fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len);
        // SAFETY: inside the allocation, which is never freed.
        unsafe { AtomicU8::from_ptr(self.base.wrapping_add(offset)) }
    }

    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= self.len && offset.is_multiple_of(8));
        // SAFETY: inside the allocation, which is never freed, and aligned.
        unsafe { AtomicU64::from_ptr(self.base.wrapping_add(offset).cast()) }
    }

    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        (offset..offset + len).map(|at| self.byte(at).load(Ordering::Acquire)).collect()
    }

    pub fn write(&self, offset: usize, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            self.byte(offset + at).store(*byte, Ordering::Release);
        }
    }

    /// Whether all bytes of a range have this value.
    pub fn is(&self, offset: usize, len: usize, value: u8) -> bool {
        self.read(offset, len).iter().all(|byte| *byte == value)
    }

    pub fn fill(&self, byte: u8) {
        for at in 0..self.len {
            self.byte(at).store(byte, Ordering::Release);
        }
    }
}

/// Pages and their mapping.
#[derive(Clone, Copy)]
pub struct Buffer {
    pub pages: Pages,
    pub md: *mut cxi_md,
    pub lac: u8,
    pub first: u64,
}

impl Buffer {
    pub fn new(lni: *mut cxil_lni, len: usize, flags: u32) -> Self {
        Self::over(lni, Pages::new(len), flags)
    }

    pub fn over(lni: *mut cxil_lni, pages: Pages, flags: u32) -> Self {
        let (base, mut md) = (pages.base.cast(), null_mut());
        let code = call!(cxil_map(lni, base, pages.len, flags, null_mut(), &mut md));
        assert_eq!(code, 0, "cxil_map");
        Self::mapped(pages, md)
    }

    /// The buffer of a mapping that libcxi has just returned.
    pub fn mapped(pages: Pages, md: *mut cxi_md) -> Self {
        // SAFETY: the caller has just received the mapping from libcxi.
        let public = unsafe { *md };
        let (base, end) = (pages.base.addr() as u64, public.va + public.len as u64);
        assert!(public.va <= base && base + pages.len as u64 <= end);
        Self { pages, md, lac: public.lac, first: public.iova + (base - public.va) }
    }

    pub fn unmap(&self) {
        assert_eq!(call!(cxil_unmap(self.md)), 0);
    }

    pub fn iova(&self, offset: usize) -> u64 {
        self.first + offset as u64
    }
}
