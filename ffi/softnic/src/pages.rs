//! Memory shared with other threads and processes: queue memory, launch pages, ports.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// The page size of the CPU, which the rules for queues and mappings refer to.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// A mapping of whole pages, initially zero, unmapped when dropped unless it was lent.
///
/// Other threads and processes write it at any time, so it is accessed only through atomics, or by
/// copies through raw pointers; never through a reference to plain bytes.
pub struct Pages {
    base: NonNull<u8>,
    len: usize,
    /// The memory belongs to the program, which unmaps it.
    lent: bool,
}

// SAFETY: the mapping is not bound to a thread, and every access is atomic or a raw copy.
unsafe impl Send for Pages {}
// SAFETY: every access is atomic or a raw copy, so threads may access the mapping at the same time.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes of private memory.
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub fn anonymous(len: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a requested address the kernel selects a range that nothing else uses.
        let base = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE)
        }?;
        Ok(Self::new(base.cast(), len))
    }

    /// Maps the first `len` bytes of a file, shared with all processes that map it.
    ///
    /// The file must be that long while it is mapped: an access beyond its end kills the process.
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub fn shared(file: impl AsFd, len: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a requested address the kernel selects a range that nothing else uses.
        // `Pages` permits writes by other processes.
        let base = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)
        }?;
        Ok(Self::new(base.cast(), len))
    }

    fn new(base: *mut u8, len: usize) -> Self {
        let base = NonNull::new(base).expect("mmap never returns a null mapping");
        Self { base, len, lent: false }
    }

    /// Wraps memory of the program.
    ///
    /// # Safety
    /// `len` bytes at `base` are page aligned, and stay mapped and writable while the result
    /// exists.
    pub unsafe fn lent(base: *mut u8, len: usize) -> Self {
        // Modified in place: a temporary `Pages` would unmap the memory when dropped.
        let mut pages = Self::new(base, len);
        pages.lent = true;
        pages
    }

    /// The address of byte `offset`.
    ///
    /// # Panics
    /// Unless `len` bytes from there are inside the mapping.
    #[inline]
    pub fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset);
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The 64-bit word at byte `offset`.
    ///
    /// # Panics
    /// Unless it is aligned and inside the mapping.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        let word = self.at(offset, 8).cast();
        // SAFETY: the word is inside the mapping and aligned; every other access is atomic or a raw
        // copy.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// The 32-bit word at byte `offset`.
    ///
    /// # Panics
    /// Unless it is aligned and inside the mapping.
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        let word = self.at(offset, 4).cast();
        // SAFETY: the word is inside the mapping and aligned; every other access is atomic or a raw
        // copy.
        unsafe { AtomicU32::from_ptr(word) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        // SAFETY: `anonymous` or `shared` made this mapping, and no reference into it outlives
        // `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
