//! Child processes inherit no open NIC.
//!
//! A child shares the open files of its parent, and with them the locks that mark its NICs as
//! alive: a killed parent with a running child would appear alive. It also has a copy of the
//! engines that run in the parent. So a child closes the files and never runs an inherited engine;
//! calls on inherited objects fail with EIO, as on a removed device.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::fs::FlockOperation;

/// The most open NICs of a process whose files children close. An array, because the fork handler
/// may neither lock nor allocate. Children do not close the files of further NICs.
const FILES: usize = 256;

const NONE: RawFd = -1;

static HELD: [AtomicI32; FILES] = [const { AtomicI32::new(NONE) }; FILES];
static GENERATION: AtomicU32 = AtomicU32::new(0);
static HANDLER: Once = Once::new();

/// The number of forks since the first process that opened a NIC.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Makes child processes close this file.
pub fn keep_from_children(file: &File) {
    HANDLER.call_once(|| {
        // SAFETY: the handler only does atomic stores and close(2), which are allowed in a child.
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

/// Unlocks and closes the file. Explicitly unlocked, because a child that was not made by fork(2)
/// may still have it open.
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
            // SAFETY: the descriptor belongs to a port of the parent, which the child never uses.
            unsafe { libc::close(number) };
        }
    }
}
