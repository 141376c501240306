//! Which standard streams the program was started with.
//!
//! The start-up code of Rust opens `/dev/null` in place of a closed standard descriptor, so that
//! later writes succeed and are lost. This is looked up before that code runs.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether each standard stream was closed: input, output, error.
static WERE_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Whether standard output was closed when the program started (`>&-` in a shell).
pub fn was_closed() -> bool {
    WERE_CLOSED[1].load(Ordering::Relaxed)
}

/// Closes the standard streams that were closed when the program started, in a child that is about
/// to execute another program.
pub(crate) fn close_again() {
    for (descriptor, was_closed) in (0..).zip(&WERE_CLOSED) {
        if was_closed.load(Ordering::Relaxed) {
            // SAFETY: nothing uses the stream any more in this process.
            unsafe { libc::close(descriptor) };
        }
    }
}

// SAFETY: the section holds pointers to functions without arguments that return nothing; the loader
// calls each before `main` in its only thread. This one needs nothing that `main` sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_UP: extern "C" fn() = look_up;

extern "C" fn look_up() {
    for (descriptor, was_closed) in (0..).zip(&WERE_CLOSED) {
        // SAFETY: F_GETFD takes no further argument and changes nothing.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        was_closed.store(flags == -1, Ordering::Relaxed);
    }
}
