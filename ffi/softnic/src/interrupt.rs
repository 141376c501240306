//! Interrupts: how a program that sleeps in poll(2) learns of events.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// A descriptor that poll(2) shows as ready from a signal on until it is cleared.
///
/// That of a driver is a file of sysfs, which is polled for POLLPRI. So this one is a socket with a byte out of
/// band in it: POLLPRI and POLLIN.
pub struct WaitObject {
    ours: OwnedFd,
    theirs: OwnedFd,
    signaled: Mutex<bool>,
}

impl WaitObject {
    pub fn new() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(Self {
            ours,
            theirs,
            signaled: Mutex::new(false),
        })
    }

    /// The descriptor to poll.
    pub fn descriptor(&self) -> RawFd {
        self.theirs.as_raw_fd()
    }

    /// Whether the descriptor is ready.
    #[cfg(test)]
    pub fn is_signaled(&self) -> bool {
        *self.lock()
    }

    /// Makes the descriptor ready, if it is not.
    pub fn signal(&self) {
        let mut signaled = self.lock();
        if !*signaled {
            *signaled = true;
            // A kernel before 5.15 knows no such byte in local sockets: there it is an ordinary one, and POLLIN.
            if send(&self.ours, &[1], SendFlags::OOB).is_err() {
                let _ = send(&self.ours, &[1], SendFlags::empty());
            }
        }
    }

    /// Makes the descriptor not ready.
    pub fn clear(&self) {
        let mut signaled = self.lock();
        if !*signaled {
            return;
        }
        let mut byte = [0; 1];
        // A byte taken out of band leaves its place in the queue, which an ordinary look cleans up.
        for flags in [RecvFlags::OOB, RecvFlags::empty()] {
            while recv(&self.theirs, &mut byte, flags).is_err_and(|error| error == Errno::INTR) {}
        }
        *signaled = false;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, bool> {
        self.signaled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn events(wait: &WaitObject) -> PollFlags {
        // SAFETY: the object lives to the end of this function.
        let descriptor = unsafe { BorrowedFd::borrow_raw(wait.descriptor()) };
        let mut polled = [PollFd::new(&descriptor, PollFlags::PRI | PollFlags::IN)];
        let at_once = Timespec::default();
        poll(&mut polled, Some(&at_once)).unwrap();
        polled[0].revents()
    }

    #[test]
    fn ready_from_a_signal_until_cleared() {
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
