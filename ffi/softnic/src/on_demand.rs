//! Memory that is mapped for the NIC on demand: the kernel looks it up in each access, as hardware
//! does after a page fault. The program may unmap it at any time, so the NIC copies it by a system
//! call, which fails where a load or a store would kill the process.

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use rustix::thread::gettid;

use crate::pages::page_size;
use crate::process_memory::check_writable;

/// Whether the kernel offers the system call to this process: a sandbox may withhold it.
pub fn is_available() -> bool {
    let (from, mut to) = ([1_u8], [0_u8]);
    // SAFETY: both arrays have one byte.
    unsafe { copy(from.as_ptr(), to.as_mut_ptr(), 1) }
}

/// Copies `len` bytes, of which one side is memory mapped on demand. Returns false if a part of
/// either side has no memory, or the process lacks the right to access it; other parts may be
/// copied then.
///
/// The source is the remote side of the system call, because memcheck reports uninitialised bytes
/// of the local side.
///
/// # Safety
/// The program gave both sides to the NIC, or they belong to the caller.
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
    let local = libc::iovec { iov_base: to.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: len };
    // A thread, because the first one of the process may have ended.
    let process = gettid().as_raw_pid();
    // SAFETY: both vectors have one element; the kernel checks the memory, which the caller may
    // change.
    let copied =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(copied) == Ok(len)
}

/// Faults the pages of `len` bytes in for writing. Returns false if there is no memory that the
/// process may read and write.
pub fn fault_in(start: *mut u8, len: usize) -> bool {
    let (start, end) = (start.addr(), start.addr() + len);
    let first = start / page_size() * page_size();
    let place = std::ptr::with_exposed_provenance_mut(first);
    // SAFETY: populating changes no contents, and the kernel checks the range.
    match unsafe { madvise(place, end - first, Advice::LinuxPopulateWrite) } {
        // The process may not write it, or the kernel is older than Linux 5.14.
        Err(Errno::INVAL) => check_writable(start, end).is_ok(),
        populated => populated.is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Pages;
    use rustix::mm::{MprotectFlags, mprotect};

    #[test]
    fn fails_where_access_would_kill() {
        let page = page_size();
        let pages = Pages::anonymous(3 * page).unwrap();
        let at = |number: usize| pages.at(number * page, page);
        // SAFETY: the page is inside `pages`, and nothing uses it.
        unsafe { mprotect(at(1).cast(), page, MprotectFlags::empty()) }.unwrap();
        // SAFETY: the page is inside `pages`, and nothing uses it.
        unsafe { mprotect(at(2).cast(), page, MprotectFlags::READ) }.unwrap();
        // The kernel maps nothing there, not even for other threads.
        let hole = std::ptr::without_provenance_mut(page);
        let mut bytes = [7; 16];
        let buffer = bytes.as_mut_ptr();
        let to = |place| {
            // SAFETY: the array has 16 bytes, and the pages belong to the test.
            unsafe { copy(buffer, place, 16) }
        };
        let from = |place| {
            // SAFETY: the array has 16 bytes, and the pages belong to the test.
            unsafe { copy(place, buffer, 16) }
        };
        assert!(is_available());
        assert!(to(at(0)) && from(at(0)) && fault_in(at(0), 16));
        assert!(!to(hole) && !from(hole) && !fault_in(hole, 16));
        assert!(!to(at(1)) && !from(at(1)) && !fault_in(at(1), 16));
        assert!(!to(at(2)) && from(at(2)) && !fault_in(at(2), 16));
        let end = at(1).wrapping_sub(8);
        assert!(!to(end) && !from(end) && !fault_in(end, 16));
    }
}
