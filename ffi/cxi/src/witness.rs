//! A child process that shows which signals its whole process group has got.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr;

use libc::{c_int, sigset_t};

/// Descriptors that the child closes one by one where the kernel has no `close_range(2)`.
const MOST_DESCRIPTORS: c_int = 4096;

/// A child of this process, in its process group, that blocks all signals and does nothing else.
/// So a signal to the group is pending there. It ends with this value and with this process.
#[derive(Debug)]
pub struct Witness {
    child: libc::pid_t,
    stream: UnixStream,
}

impl Witness {
    /// Starts the child.
    ///
    /// # Errors
    ///
    /// A socket or a process that the system refuses.
    pub fn start() -> io::Result<Self> {
        let (stream, child_stream) = UnixStream::pair()?;
        // SAFETY: the child calls only async-signal-safe functions, and never returns from
        // `attend`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => attend(child_stream.as_raw_fd()),
            child => Ok(Self { child, stream }),
        }
    }

    /// The signals that the child has got since the last call: signal n is bit n - 1.
    ///
    /// # Errors
    ///
    /// The child has ended.
    pub fn take(&mut self) -> io::Result<u64> {
        self.stream.write_all(&[0])?;
        let mut signals = [0; 8];
        self.stream.read_exact(&mut signals)?;
        Ok(u64::from_ne_bytes(signals))
    }
}

/// Whether a process is in the group of this process. A group of another PID namespace is 0 here.
pub fn shares_group(process: i32) -> bool {
    // SAFETY: the call only reads the number of a group.
    let group = unsafe { libc::getpgid(process) };
    // SAFETY: the call reads or closes nothing that this process still uses.
    group == unsafe { libc::getpgrp() }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // SAFETY: the child has not been waited for, so that no other process has its number.
        unsafe { libc::kill(self.child, libc::SIGKILL) };
        // SAFETY: without a place for the status, the call writes nothing.
        unsafe { libc::waitpid(self.child, ptr::null_mut(), 0) };
    }
}

/// The whole life of the child: answers each byte with the pending signals.
fn attend(stream: c_int) -> ! {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `set` has room for a set, which the call initializes.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: sigfillset has initialized `set`; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut()) };
    // SAFETY: this process has one thread and uses no other descriptor after this call.
    unsafe { libc::dup2(stream, 0) };
    // SAFETY: this process uses none of these descriptors. The child must not hold pipes and locks
    // of its parent.
    if unsafe { libc::syscall(libc::SYS_close_range, 1, c_int::MAX, 0) } != 0 {
        for descriptor in 1..MOST_DESCRIPTORS {
            // SAFETY: the call reads or closes nothing that this process still uses.
            unsafe { libc::close(descriptor) };
        }
    }
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        let mut byte = 0_u8;
        // SAFETY: `byte` has room for the byte that is read.
        if unsafe { libc::read(0, (&raw mut byte).cast(), 1) } != 1 {
            // SAFETY: the call ends the process and runs no code of it.
            unsafe { libc::_exit(0) };
        }
        let mut signals = 0_u64;
        loop {
            // SAFETY: `set` is initialized and `now` valid; no information is asked for.
            let signal =
                unsafe { libc::sigtimedwait(set.as_ptr(), ptr::null_mut(), &raw const now) };
            if !(1..=64).contains(&signal) {
                break;
            }
            signals |= 1 << (signal - 1);
        }
        // SAFETY: `signals` has the bytes that are written. A parent that has ended reads nothing,
        // and the next read ends this process.
        unsafe { libc::write(0, (&raw const signals).cast(), size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_each_signal_of_the_group_once() {
        let mut witness = Witness::start().unwrap();
        assert_eq!(witness.take().unwrap(), 0);
        for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGTERM] {
            // SAFETY: the signal goes to the child, which blocks it.
            assert_eq!(unsafe { libc::kill(witness.child, signal) }, 0);
        }
        let both = 1 << (libc::SIGTERM - 1) | 1 << (libc::SIGUSR1 - 1);
        assert_eq!(witness.take().unwrap(), both);
        assert_eq!(witness.take().unwrap(), 0);
    }

    #[test]
    fn child_ends_with_its_parent() {
        let witness = Witness::start().unwrap();
        let child = witness.child;
        drop(witness);
        // SAFETY: signal 0 only looks for the process, which has been waited for.
        assert_eq!(unsafe { libc::kill(child, 0) }, -1);
    }
}
