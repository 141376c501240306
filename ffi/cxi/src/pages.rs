//! Pages of host memory that the NIC reads and writes.
//!
//! No function returns a reference or a slice to these pages, because the NIC may write them at any
//! time. The CPU accesses them by atomic loads and stores and copies their contents.

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::error::Error;

/// The size of a page of this machine in bytes.
pub fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Whole pages of private memory, initially zero.
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, and its bytes are accessed through atomics only.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives access to the bytes through atomics only.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    ///
    /// The errors of `mmap`: EINVAL if `len` is 0, ENOMEM.
    pub fn anonymous(len: usize) -> Result<Self, Error> {
        Self::from_size(len, page_size(), 0)
    }

    /// Allocates `len` bytes in whole pages of `page` bytes. `flags` are `MAP_*` of `mmap`.
    pub(crate) fn from_size(len: usize, page: usize, flags: i32) -> Result<Self, Error> {
        const CALL: &str = "mmap";
        let len = len.checked_next_multiple_of(page).ok_or(Error::new(CALL, libc::ENOMEM))?;
        // SAFETY: the kernel chooses the address, so the new mapping replaces no other.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        // A failure returns MAP_FAILED, which is not NULL (defect T13 of the legacy tools).
        if start == libc::MAP_FAILED {
            return Err(Error::last(CALL, libc::ENOMEM));
        }
        let start = NonNull::new(start.cast()).ok_or(Error::new(CALL, libc::ENOMEM))?;
        Ok(Self { start, len })
    }

    /// The size in bytes, a multiple of the page size.
    pub fn len(&self) -> usize {
        self.len
    }

    /// False: [`anonymous`](Self::anonymous) rejects empty memory.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Changes what the process may do with the pages: `PROT_*` of `mprotect`. Accesses that are
    /// not permitted any more end the process.
    pub(crate) fn protect(&self, rights: i32) -> Result<(), Error> {
        const CALL: &str = "mprotect";
        // SAFETY: the range is exactly one mapping, which `self` owns.
        match unsafe { libc::mprotect(self.start.as_ptr().cast(), self.len, rights) } {
            0 => Ok(()),
            _ => Err(Error::last(CALL, libc::EACCES)),
        }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len);
        // SAFETY: the byte lies in these pages, which `self` keeps mapped; the CPU accesses them
        // only through atomics.
        unsafe { AtomicU8::from_ptr(self.as_ptr().wrapping_add(offset)) }
    }

    /// The 8 bytes at `offset`, a multiple of 8.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.len);
        // SAFETY: the word is aligned and lies in these pages, which `self` keeps mapped; the CPU
        // accesses them only through atomics.
        unsafe { AtomicU64::from_ptr(self.as_ptr().wrapping_add(offset).cast()) }
    }

    /// Loads the 8 bytes at `offset`, a multiple of 8, with acquire ordering.
    pub(crate) fn load(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
    }

    /// Zeroes one byte. Later loads are not moved before the store.
    pub(crate) fn clear_byte(&self, offset: usize) {
        self.byte(offset).store(0, Ordering::SeqCst);
    }

    /// Sets every byte to `byte`.
    pub(crate) fn fill(&self, byte: u8) {
        let word = u64::from_ne_bytes([byte; 8]);
        for offset in (0..self.len).step_by(8) {
            self.word(offset).store(word, Ordering::Relaxed);
        }
    }

    /// Copies the bytes from `offset` on into `bytes`. Panics if the range exceeds the pages.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        let (head, rest) = bytes.split_at_mut(bytes.len().min(offset.wrapping_neg() % 8));
        let (words, tail) = rest.as_chunks_mut::<8>();
        let mut at = offset;
        for byte in head {
            *byte = self.byte(at).load(Ordering::Relaxed);
            at += 1;
        }
        for word in words {
            *word = self.word(at).load(Ordering::Relaxed).to_ne_bytes();
            at += 8;
        }
        for byte in tail {
            *byte = self.byte(at).load(Ordering::Relaxed);
            at += 1;
        }
    }

    /// Copies `bytes` to `offset`. Panics if the range exceeds the pages.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(offset.wrapping_neg() % 8));
        let (words, tail) = rest.as_chunks::<8>();
        let mut at = offset;
        for byte in head {
            self.byte(at).store(*byte, Ordering::Relaxed);
            at += 1;
        }
        for word in words {
            self.word(at).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            at += 8;
        }
        for byte in tail {
            self.byte(at).store(*byte, Ordering::Relaxed);
            at += 1;
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // munmap cannot fail: the range is exactly one mapping.
        // SAFETY: `self` owns the mapping, and references into it cannot outlive `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Size of a huge page. The kernel has one pool for each size, which the administrator fills
/// (`/sys/kernel/mm/hugepages`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePage {
    /// 2 MiB.
    Mib2,
    /// 1 GiB.
    Gib1,
}

impl HugePage {
    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Mib2 => 2 << 20,
            Self::Gib1 => 1 << 30,
        }
    }

    const fn flags(self) -> i32 {
        libc::MAP_HUGETLB
            | match self {
                Self::Mib2 => libc::MAP_HUGE_2MB,
                Self::Gib1 => libc::MAP_HUGE_1GB,
            }
    }
}

impl fmt::Display for HugePage {
    /// The name that users type: `2M` or `1G`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mib2 => "2M",
            Self::Gib1 => "1G",
        })
    }
}

impl Pages {
    /// Allocates `len` bytes, rounded up to whole huge pages. The call reserves the pages in the
    /// pool.
    ///
    /// A control group or the memory policy may still refuse a reserved page at its first use. Then
    /// pinning the pages ([`MemoryRegion::map`](crate::MemoryRegion::map)) fails with EFAULT or
    /// ENOMEM, and writing to them raises SIGBUS.
    ///
    /// # Errors
    ///
    /// The errors of `mmap`: ENOMEM if the pool has too few pages, EINVAL if `len` is 0 or the
    /// machine has no huge pages of this size.
    pub fn huge(len: usize, page: HugePage) -> Result<Self, Error> {
        Self::from_size(len, page.bytes() as usize, page.flags())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocates_whole_zeroed_pages() {
        let pages = Pages::anonymous(1).unwrap();
        assert_eq!(pages.len(), page_size());
        let mut bytes = vec![1; pages.len()];
        pages.read(0, &mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn t13_reports_refused_mapping() {
        assert_eq!(Pages::anonymous(0).err(), Some(Error::new("mmap", libc::EINVAL)));
        assert_eq!(Pages::anonymous(1 << 60).err(), Some(Error::new("mmap", libc::ENOMEM)));
        assert_eq!(Pages::anonymous(usize::MAX).err(), Some(Error::new("mmap", libc::ENOMEM)));
    }

    #[test]
    fn copies_ranges_of_any_alignment() {
        let pages = Pages::anonymous(4096).unwrap();
        for offset in 0..9 {
            for len in 0..40 {
                let sent: Vec<u8> = (1..=len).collect();
                pages.write(offset, &sent);
                let mut seen = vec![0; sent.len()];
                pages.read(offset, &mut seen);
                assert_eq!(seen, sent);
                // Read back byte by byte, to check the copies of whole words.
                let bytes: Vec<u8> = (offset..offset + sent.len())
                    .map(|at| pages.byte(at).load(Ordering::Relaxed))
                    .collect();
                assert_eq!(bytes, sent);
            }
        }
    }

    #[test]
    fn reports_more_pages_than_the_pool_has() {
        // More memory than any machine has.
        let error = Pages::huge(1 << 52, HugePage::Mib2).err();
        assert_eq!(error, Some(Error::new("mmap", libc::ENOMEM)));
        for page in [HugePage::Mib2, HugePage::Gib1] {
            let error = Pages::huge(usize::MAX, page).err();
            assert_eq!(error, Some(Error::new("mmap", libc::ENOMEM)));
        }
    }

    #[test]
    fn names_sizes_as_users_type_them() {
        assert_eq!(HugePage::Mib2.bytes(), 2 * 1024 * 1024);
        assert_eq!(HugePage::Gib1.bytes(), 1024 * 1024 * 1024);
        assert_eq!([HugePage::Mib2, HugePage::Gib1].map(|page| page.to_string()), ["2M", "1G"]);
    }
}
