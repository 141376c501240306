//! Signals: the signals of this process, with who has sent each, and what it has inherited about
//! them; and a child process that shows which signals its whole process group has got.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, siginfo_t, sigset_t};

use crate::inherited;

/// Bytes of one signal in the stream: its number, and the process that sent it.
const RECORD: usize = 8;

/// The number of no process: stands for the kernel in a record.
const KERNEL: i32 = -1;

/// A disposition that this program needs, and whether the program was started with its signal
/// ignored.
struct Needed {
    signal: i32,
    action: libc::sighandler_t,
    was_ignored: AtomicBool,
}

/// With SIGCHLD ignored, the kernel keeps no exit status of a child. SIGXFSZ and SIGPIPE end a
/// process whose write would fail with an error.
static NEEDED: [Needed; 3] = [
    needed(libc::SIGCHLD, libc::SIG_DFL),
    needed(libc::SIGXFSZ, libc::SIG_IGN),
    needed(libc::SIGPIPE, libc::SIG_IGN),
];

const fn needed(signal: i32, action: libc::sighandler_t) -> Needed {
    Needed { signal, action, was_ignored: AtomicBool::new(false) }
}

// SAFETY: the section holds pointers to functions without arguments that return nothing; the loader
// calls each before `main` in its only thread. This one needs nothing that `main` sets up.
// Miri does not know `sigaction`.
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static LOOK_UP: extern "C" fn() = look_up;

/// Notes which signals are ignored. The start-up code of Rust ignores SIGPIPE after that.
extern "C" fn look_up() {
    for needed in &NEEDED {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call changes nothing and fills in `action`, which has room for it.
        unsafe { libc::sigaction(needed.signal, ptr::null(), action.as_mut_ptr()) };
        // SAFETY: zeroed, and perhaps filled in by the call; all bytes form valid values.
        let action = unsafe { action.assume_init() }.sa_sigaction;
        let was_ignored = action == libc::SIG_IGN;
        needed.was_ignored.store(was_ignored, Ordering::Relaxed);
    }
}

/// Replaces inherited dispositions that the program cannot work with. To be called before threads
/// and handlers exist.
pub fn set_needed_dispositions() {
    for needed in &NEEDED {
        // SAFETY: default action and ignoring run no code of this process.
        unsafe { libc::signal(needed.signal, needed.action) };
    }
}

/// Unblocks all signals in the calling thread, and so in the threads that it starts later.
pub fn unblock_all() {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `set` has room for a set, which the call initializes.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: sigemptyset has initialized `set`; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut()) };
}

/// Lets `command` begin with the dispositions and the closed standard streams that this process has
/// inherited. The mask of the calling thread becomes the mask of the command.
pub fn restore_inherited(command: &mut Command) {
    let restore = || {
        inherited::close_standard_streams();
        for needed in &NEEDED {
            let action = if needed.was_ignored.load(Ordering::Relaxed) {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            };
            // SAFETY: default action and ignoring run no code of this process.
            unsafe { libc::signal(needed.signal, action) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure loads atomics and calls close(2) and signal(2),
    // which are async-signal-safe; it allocates nothing, takes no lock and cannot panic.
    unsafe { command.pre_exec(restore) };
}

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Its number.
    pub signal: i32,
    /// The process that sent it, 0 if that is in a PID namespace outside this one. `None` for the
    /// kernel, as with Ctrl-C at a terminal.
    pub sender: Option<i32>,
}

/// Receives signals. Their default actions are off from now on, until this process executes another
/// program.
#[derive(Debug)]
pub struct Signals {
    received: UnixStream,
    watched: Vec<i32>,
}

impl Signals {
    /// Watches signals. An earlier handler of a signal keeps working beside this one.
    ///
    /// # Errors
    ///
    /// A signal that cannot be handled, such as SIGKILL, and errors of the system.
    pub fn watch(signals: &[i32]) -> io::Result<Self> {
        let (received, raised) = UnixStream::pair()?;
        // A handler must not wait, least of all for the thread that it interrupts.
        raised.set_nonblocking(true)?;
        for &signal in signals {
            if signal_hook_registry::FORBIDDEN.contains(&signal) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let raised = raised.try_clone()?;
            let handler = move |info: &siginfo_t| {
                let mut record = [0; RECORD];
                record[..4].copy_from_slice(&signal.to_ne_bytes());
                record[4..].copy_from_slice(&sender(info).to_ne_bytes());
                // With thousands of unread signals, another one is lost.
                let _ = (&raised).write(&record);
            };
            // SAFETY: the handler copies bytes on its stack and calls write(2), which are
            // async-signal-safe; it allocates nothing, takes no lock and cannot panic.
            unsafe { signal_hook_registry::register_sigaction(signal, handler) }?;
        }
        Ok(Self { received, watched: signals.to_vec() })
    }

    /// Unblocks the watched signals in the calling thread. A process may start with signals
    /// blocked, and its handlers run in a thread that does not block them.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn unblock(&self) -> io::Result<()> {
        unblock(&self.watched)
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn receive(&mut self) -> io::Result<ReceivedSignal> {
        let mut record = [0; RECORD];
        self.received.read_exact(&mut record)?;
        let [a, b, c, d, e, f, g, h] = record;
        let sender = i32::from_ne_bytes([e, f, g, h]);
        Ok(ReceivedSignal {
            signal: i32::from_ne_bytes([a, b, c, d]),
            sender: (sender != KERNEL).then_some(sender),
        })
    }
}

/// Unblocks signals in the calling thread.
fn unblock(signals: &[i32]) -> io::Result<()> {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: `set` has room for a set, which the call initializes.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: sigemptyset has initialized it.
    let mut set = unsafe { set.assume_init() };
    for &signal in signals {
        // SAFETY: `set` is an initialized set of this function; other numbers are refused.
        if unsafe { libc::sigaddset(&raw mut set, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: `set` is an initialized set of this function; the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Sends a signal to this process, with its default action, whatever handlers it has. Returns if
/// that action does not end the process.
///
/// # Errors
///
/// A signal that does not exist.
pub fn raise_with_default_action(signal: i32) -> io::Result<()> {
    if !matches!(signal, libc::SIGKILL | libc::SIGSTOP) {
        // SAFETY: the default action runs no code of this process.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    unblock(&[signal])?;
    // SAFETY: the signal has its default action, which runs no code of this process.
    match unsafe { libc::raise(signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The process that has sent a signal, or [`KERNEL`].
fn sender(info: &siginfo_t) -> i32 {
    if !matches!(info.si_code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL) {
        return KERNEL;
    }
    // SAFETY: the kernel fills in the sender of signals with these codes.
    unsafe { info.si_pid() }
}

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
    fn names_the_process_that_sent_a_signal() {
        let mut signals = Signals::watch(&[libc::SIGUSR2]).unwrap();
        let own = std::process::id() as i32;
        // SAFETY: the signal has a handler of this process.
        assert_eq!(unsafe { libc::kill(own, libc::SIGUSR2) }, 0);
        let received = ReceivedSignal { signal: libc::SIGUSR2, sender: Some(own) };
        assert_eq!(signals.receive().unwrap(), received);
    }

    #[test]
    fn takes_signals_of_the_kernel_for_no_process() {
        let mut signals = Signals::watch(&[libc::SIGCHLD]).unwrap();
        let child = std::process::Command::new("true").status().unwrap();
        assert!(child.success());
        assert_eq!(
            signals.receive().unwrap(),
            ReceivedSignal { signal: libc::SIGCHLD, sender: None }
        );
    }

    #[test]
    fn refuses_signals_that_cannot_be_handled() {
        for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 0, 4000] {
            assert!(Signals::watch(&[signal]).is_err(), "{signal}");
        }
    }

    #[test]
    fn default_action_takes_the_place_of_a_handler() {
        // The default action of SIGURG is none.
        let mut signals = Signals::watch(&[libc::SIGURG, libc::SIGIO]).unwrap();
        raise_with_default_action(libc::SIGURG).unwrap();
        // SAFETY: the signal has a handler of this process.
        assert_eq!(unsafe { libc::raise(libc::SIGIO) }, 0);
        assert_eq!(signals.receive().unwrap().signal, libc::SIGIO);
        assert!(raise_with_default_action(4000).is_err());
    }

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
