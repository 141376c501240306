//! The socket that a service manager has opened for this process (sd_listen_fds(3)).

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
