//! What a child process inherits: nothing of the NIC.
//!
//! A child shares its parent's open files, and with them the locks that say "this NIC lives": left
//! open, a parent killed with a living child would look alive. It also has the memory of
//! engines that keep running in the parent. So a child closes the files and never runs
//! an engine of before; calls on inherited objects fail with EIO, as on a device that went away.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::fs::FlockOperation;

/// Most NICs that one process has open at a time and that children are kept from. An array, since
/// the handler may neither lock nor allocate. More are possible; they only miss this service.
const FILES: usize = 256;

const NONE: RawFd = -1;

static HELD: [AtomicI32; FILES] = [const { AtomicI32::new(NONE) }; FILES];
static GENERATION: AtomicU32 = AtomicU32::new(0);
static HANDLER: Once = Once::new();

/// Number of forks between the first process and this one, as far as NICs are concerned.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Has children close this file.
pub fn keep_from_children(file: &File) {
    HANDLER.call_once(|| {
        // SAFETY: the handler does nothing but atomic stores and close(2).
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    for held in &HELD {
        if held
            .compare_exchange(NONE, file.as_raw_fd(), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
    }
}

/// Unlocks and closes the file. Unlocking is said, not left to closing: a child forked by other
/// means than fork(2) may have the file open still.
pub fn release(file: File) {
    let number = file.as_raw_fd();
    for held in &HELD {
        let _ = held.compare_exchange(number, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
    let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for held in &HELD {
        let number = held.swap(NONE, Ordering::Relaxed);
        if number != NONE {
            // SAFETY: the number stands for a port of the parent's, which the child never uses.
            unsafe { libc::close(number) };
        }
    }
}
