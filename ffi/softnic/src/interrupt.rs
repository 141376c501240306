//! Interrupts: wake programs that sleep in poll(2).

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::engine::event_queue::Interrupt;

/// A descriptor that poll(2) reports as ready from a signal until it is cleared.
///
/// The descriptor of the driver is a file of sysfs, which is polled for POLLPRI. This one is a
/// socket with an out-of-band byte, which gives POLLPRI and POLLIN.
pub struct WaitObject {
    ours: OwnedFd,
    theirs: OwnedFd,
    signaled: Mutex<bool>,
}

impl WaitObject {
    /// Makes a descriptor that is not ready.
    ///
    /// # Errors
    /// The errno of socketpair(2).
    pub fn new() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(Self { ours, theirs, signaled: Mutex::new(false) })
    }

    /// Returns the descriptor to poll.
    pub fn descriptor(&self) -> RawFd {
        self.theirs.as_raw_fd()
    }

    /// Makes the descriptor not ready.
    pub fn clear(&self) {
        let mut signaled = self.lock();
        if !*signaled {
            return;
        }
        let mut byte = [0; 1];
        // After an out-of-band byte was received, an ordinary receive removes its mark from the
        // queue.
        for flags in [RecvFlags::OOB, RecvFlags::empty()] {
            while recv(&self.theirs, &mut byte, flags).is_err_and(|error| error == Errno::INTR) {}
        }
        *signaled = false;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.signaled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupt for WaitObject {
    /// Makes the descriptor ready, if it is not.
    fn signal(&self) {
        let mut signaled = self.lock();
        if !*signaled {
            *signaled = true;
            // Before Linux 5.15 local sockets have no out-of-band bytes: then an ordinary byte
            // gives POLLIN.
            if send(&self.ours, &[1], SendFlags::OOB).is_err() {
                let _ = send(&self.ours, &[1], SendFlags::empty());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn events(wait: &WaitObject) -> PollFlags {
        // SAFETY: `wait` owns the descriptor and lives until the end of this function.
        let descriptor = unsafe { BorrowedFd::borrow_raw(wait.descriptor()) };
        let mut polled = [PollFd::new(&descriptor, PollFlags::PRI | PollFlags::IN)];
        let at_once = Timespec::default();
        poll(&mut polled, Some(&at_once)).unwrap();
        polled[0].revents()
    }

    #[test]
    fn is_ready_from_signal_until_cleared() {
        let wait = WaitObject::new().unwrap();
        assert_eq!(events(&wait), PollFlags::empty());
        for _ in 0..3 {
            wait.signal();
            wait.signal();
            assert!(events(&wait).contains(PollFlags::PRI));
            wait.clear();
            assert_eq!(events(&wait), PollFlags::empty());
            wait.clear();
        }
    }
}
