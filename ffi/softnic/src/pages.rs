//! Memory from the kernel that others write too: queue memory, launch pages, ports.

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// Size of a page of the CPU. The NIC's rules for queues and mappings speak of this one.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// A mapping of whole pages, zero at first, unmapped when dropped unless it was lent.
///
/// Other threads and processes write it at any time, so that it is reached only through
/// atomics, or by copies through raw pointers; never through a reference to plain bytes.
pub struct Pages {
    base: NonNull<u8>,
    len: usize,
    /// Somebody else's, who unmaps it.
    lent: bool,
}

// SAFETY: the mapping belongs to no thread, and every access goes through atomics or raw copies.
unsafe impl Send for Pages {}
// SAFETY: as for Send.
unsafe impl Sync for Pages {}

impl Pages {
    /// Private memory of `len` bytes.
    pub fn anonymous(len: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so the kernel picks a range that nothing else uses.
        let base = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE)
        }?;
        Ok(Self::new(base.cast(), len))
    }

    /// The first `len` bytes of a file, shared with everyone who maps it.
    ///
    /// The file must be that long, now and later: touching pages beyond its end kills the process.
    pub fn shared(file: impl AsFd, len: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `anonymous`; `Pages` allows for writes by others.
        let base = unsafe {
            rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)
        }?;
        Ok(Self::new(base.cast(), len))
    }

    fn new(base: *mut u8, len: usize) -> Self {
        let base = NonNull::new(base).expect("mmap never returns a null mapping");
        Self {
            base,
            len,
            lent: false,
        }
    }

    /// Memory of somebody else's.
    ///
    /// # Safety
    /// It stays mapped and writable for `len` bytes while this lives.
    pub unsafe fn lent(base: *mut u8, len: usize) -> Self {
        // Changed, not made out of another, which would unmap the memory at its end.
        let mut pages = Self::new(base, len);
        pages.lent = true;
        pages
    }

    /// Address of byte `offset`, from which `len` bytes are inside the mapping.
    #[inline]
    pub fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset);
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The aligned 64-bit word at byte `offset`.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8));
        let word = self.at(offset, 8).cast();
        // SAFETY: inside the mapping, aligned, and only ever accessed atomically or by raw copies.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// The aligned 32-bit word at byte `offset`.
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4));
        let word = self.at(offset, 4).cast();
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(word) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.lent {
            return;
        }
        // SAFETY: this mapping was made by `anonymous` or `shared` and is used by nobody else.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
