//! Memory that the NIC reads and writes.
//!
//! No reference or slice to such memory is ever handed out: the NIC may write it at any
//! time. It is reached through atomic loads and stores of the CPU, and copied.

use std::mem;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use cxi_sys::cxi_md;

use crate::backing::Backing;
use crate::error::Error;
use crate::lni::{Lni, LniHandle};
use crate::owned::{Destroy, Owned, Release, close};

/// Bytes of a page of this machine.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Whole pages of zeroed memory, owned.
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
}

impl Pages {
    /// `len` bytes, rounded up to whole pages, from the kernel. Errors of `mmap`: EINVAL
    /// for no bytes at all, ENOMEM.
    pub fn anonymous(len: usize) -> Result<Self, Error> {
        Self::of_size(len, page_size(), 0)
    }

    /// `len` bytes in whole pages of `page` bytes, which `flags` ask the kernel for.
    pub(crate) fn of_size(len: usize, page: usize, flags: i32) -> Result<Self, Error> {
        const CALL: &str = "mmap";
        let len = len
            .checked_next_multiple_of(page)
            .ok_or(Error::new(CALL, libc::ENOMEM))?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
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
        // Failure is MAP_FAILED, which is not NULL (defect T13 of the legacy tools).
        if start == libc::MAP_FAILED {
            return Err(Error::last(CALL, libc::ENOMEM));
        }
        let start = NonNull::new(start.cast()).ok_or(Error::new(CALL, libc::ENOMEM))?;
        Ok(Self { start, len })
    }

    /// Bytes, a multiple of the size of these pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: pages of no bytes cannot be made.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len);
        // SAFETY: the byte lies in these pages, and all access to them is atomic.
        unsafe { AtomicU8::from_ptr(self.as_ptr().wrapping_add(offset)) }
    }

    /// The 8 bytes at `offset`, a multiple of 8.
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.len);
        // SAFETY: the word is aligned and lies in these pages; all access to them is atomic.
        unsafe { AtomicU64::from_ptr(self.as_ptr().wrapping_add(offset).cast()) }
    }

    /// The 8 bytes at `offset`, a multiple of 8, and what was written before them (acquire).
    pub(crate) fn load(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
    }

    /// Zeroes one byte, before anything that is loaded from it later.
    pub(crate) fn clear_byte(&self, offset: usize) {
        self.byte(offset).store(0, Ordering::SeqCst);
    }

    /// Sets every byte.
    pub(crate) fn fill(&self, byte: u8) {
        let word = u64::from_ne_bytes([byte; 8]);
        for offset in (0..self.len).step_by(8) {
            self.word(offset).store(word, Ordering::Relaxed);
        }
    }

    /// Copies from `offset` on; the range lies inside.
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

    /// Copies to `offset` on; the range lies inside.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(offset.wrapping_neg() % 8));
        let (words, tail) = rest.as_chunks::<8>();
        let mut at = offset;
        for byte in head {
            self.byte(at).store(*byte, Ordering::Relaxed);
            at += 1;
        }
        for word in words {
            self.word(at)
                .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
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
        // Cannot fail: the range is a whole mapping.
        // SAFETY: the mapping is this object's, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Memory that the NIC can address. Owns it.
pub struct MemoryRegion {
    handle: Rc<RegionHandle>,
}

impl MemoryRegion {
    /// Maps memory for the NIC, with flags `CXI_MAP_*`: `CXI_MAP_PIN | CXI_MAP_READ |
    /// CXI_MAP_WRITE` is usual; `CXI_MAP_DEVICE` joins them for memory of a GPU. Errors: libcxi.md 7.4.
    pub fn map(lni: &Lni, memory: impl Into<Backing>, flags: u32) -> Result<Self, Error> {
        Ok(Self {
            handle: Rc::new(RegionHandle::map(lni.handle(), memory.into(), flags)?),
        })
    }

    /// Bytes, a multiple of the page size.
    pub fn len(&self) -> usize {
        self.handle.len
    }

    /// Never true: see [`Pages::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The NIC's address of the byte at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is beyond the end.
    pub fn iova(&self, offset: usize) -> u64 {
        assert!(offset <= self.len(), "offset {offset} beyond the region");
        self.handle.iova + offset as u64
    }

    /// The logical address context, 0 to 7, that goes with the addresses.
    pub fn lac(&self) -> u8 {
        self.handle.lac
    }

    /// Sets every byte. Fails only where a GPU does; so do the copies.
    pub fn fill(&self, byte: u8) -> Result<(), Error> {
        self.handle.memory().fill(byte)
    }

    /// Copies the bytes at `offset` out of the region.
    ///
    /// # Panics
    ///
    /// If the range is not inside.
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.handle.memory().read(offset, bytes)
    }

    /// Copies `bytes` into the region at `offset`.
    ///
    /// # Panics
    ///
    /// If the range is not inside.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.handle.memory().write(offset, bytes)
    }

    /// Takes the memory from the NIC and frees it. EBUSY while something that was told
    /// to keep it mapped exists. If the library refuses, the memory is leaked: the NIC
    /// may still write it.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    fn check_range(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "{len} bytes at {offset} are not inside the region"
        );
    }

    pub(crate) fn handle(&self) -> &Rc<RegionHandle> {
        &self.handle
    }
}

pub(crate) struct RegionHandle {
    object: Owned<cxi_md>,
    /// `None` once unmapped.
    memory: Option<Backing>,
    len: usize,
    /// The NIC's address of the first byte.
    iova: u64,
    lac: u8,
    _lni: Rc<LniHandle>,
}

impl RegionHandle {
    pub(crate) fn map(lni: &Rc<LniHandle>, memory: Backing, flags: u32) -> Result<Self, Error> {
        let api = lni.library().api();
        let va = memory.address();
        let flags = flags | memory.map_flags();
        let mut hints = memory.hints();
        let hints = hints
            .as_mut()
            .map_or(ptr::null_mut(), |hints| &raw mut *hints);
        let object = Owned::allocate(
            lni.library(),
            "cxil_map",
            Destroy {
                call: Self::CALL,
                function: api.cxil_unmap,
            },
            // SAFETY: the interface is alive, hints are there or null, `md` is there to be filled, and
            // the memory outlives the mapping (release below).
            |md| unsafe { (api.cxil_map)(lni.as_ptr(), va, memory.len(), flags, hints, md) },
        )?;
        let md = object.read();
        Ok(Self {
            object,
            len: memory.len(),
            // The kernel may have started the mapping before our memory (libcxi.md 7.3).
            iova: md.iova.wrapping_add((va as u64).wrapping_sub(md.va)),
            lac: md.lac,
            memory: Some(memory),
            _lni: Rc::clone(lni),
        })
    }

    pub(crate) fn as_ptr(&self) -> *const cxi_md {
        self.object.as_ptr()
    }

    pub(crate) fn memory(&self) -> &Backing {
        self.memory
            .as_ref()
            .expect("memory is there until the handle goes")
    }
}

impl Release for RegionHandle {
    const CALL: &'static str = "cxil_unmap";

    fn release(&mut self) -> Result<(), Error> {
        let memory = self.memory.take();
        match self.object.release() {
            Ok(()) => memory.map_or(Ok(()), Backing::free),
            Err(error) => {
                mem::forget(memory);
                Err(error)
            }
        }
    }
}

impl Drop for RegionHandle {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            self.object.library().record_failed_release(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_zero() {
        let pages = Pages::anonymous(1).unwrap();
        assert_eq!(pages.len(), page_size());
        let mut bytes = vec![1; pages.len()];
        pages.read(0, &mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_refused_mapping_is_an_error() {
        assert_eq!(
            Pages::anonymous(0).err(),
            Some(Error::new("mmap", libc::EINVAL))
        );
        assert_eq!(
            Pages::anonymous(1 << 60).err(),
            Some(Error::new("mmap", libc::ENOMEM))
        );
        assert_eq!(
            Pages::anonymous(usize::MAX).err(),
            Some(Error::new("mmap", libc::ENOMEM))
        );
    }

    #[test]
    fn copies_of_every_alignment_arrive() {
        let pages = Pages::anonymous(4096).unwrap();
        for offset in 0..9 {
            for len in 0..40 {
                let sent: Vec<u8> = (1..=len).collect();
                pages.write(offset, &sent);
                let mut seen = vec![0; sent.len()];
                pages.read(offset, &mut seen);
                assert_eq!(seen, sent);
                // One byte at a time, as a check of the word copies.
                let bytes: Vec<u8> = (offset..offset + sent.len())
                    .map(|at| pages.byte(at).load(Ordering::Relaxed))
                    .collect();
                assert_eq!(bytes, sent);
            }
        }
    }
}
