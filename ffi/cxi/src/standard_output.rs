//! Whether the program was started with a standard output.
//!
//! The start-up code of Rust opens `/dev/null` in place of a closed standard descriptor, so that
//! later writes succeed and are lost. This is looked up before that code runs.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns whether standard output was closed when the program started (`>&-` in a shell).
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

// SAFETY: the section holds pointers to functions without arguments that return nothing; the loader
// calls each before `main` in its only thread. This one needs nothing that `main` sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_UP: extern "C" fn() = look_up;

extern "C" fn look_up() {
    // SAFETY: F_GETFD takes no further argument and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}
