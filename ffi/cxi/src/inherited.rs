//! What this process inherited: the socket that a service manager has opened for it
//! (sd_listen_fds(3)), and which standard streams it was started with.
//!
//! The start-up code of Rust opens `/dev/null` in place of a closed standard descriptor, so that
//! later writes succeed and are lost. This is looked up before that code runs.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, process};

/// The first descriptor that the service manager passes.
const FIRST: i32 = 3;

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// How many sockets the service manager has passed to this process.
pub fn count() -> u32 {
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") == Some(process::id()) { number("LISTEN_FDS").unwrap_or(0) } else { 0 }
}

/// The first socket that the service manager has passed to this process, once.
pub fn socket() -> Option<OwnedFd> {
    if count() == 0 || IS_TAKEN.swap(true, Ordering::Relaxed) {
        return None;
    }
    // SAFETY: F_SETFD changes only the flag of the descriptor, if there is one.
    let result = unsafe { libc::fcntl(FIRST, libc::F_SETFD, libc::FD_CLOEXEC) };
    if result == -1 {
        return None;
    }
    // SAFETY: the descriptor is open (`fcntl` above). The service manager opened it for this
    // process (LISTEN_PID) before `main`, so nothing else in it owns the descriptor; `IS_TAKEN`
    // lets one caller have it.
    Some(unsafe { OwnedFd::from_raw_fd(FIRST) })
}

/// Whether each standard stream was closed: input, output, error.
static WERE_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Whether standard output was closed when the program started (`>&-` in a shell).
pub fn was_standard_output_closed() -> bool {
    WERE_CLOSED[1].load(Ordering::Relaxed)
}

/// Closes the standard streams that were closed when the program started, in a child that is about
/// to execute another program.
pub(crate) fn close_standard_streams() {
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
