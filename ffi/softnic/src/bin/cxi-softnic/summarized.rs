//! Runs a program in a child, and says how many packets the software NICs sent for it.

use std::convert::Infallible;
use std::ffi::{OsStr, c_int, c_void};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, exit};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{MemfdFlags, memfd_create};
use softnic::summary::{self, SentPackets};

/// Signals that end the program, or mean something to it.
const PASSED_ON: [c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// The process of the program; 0 before there is one.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// A signal that came before the process of the program was known; 0 for none.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Runs the program, prints the summary, and ends as the program ended.
///
/// # Errors
/// The program cannot be run.
pub fn run(mut command: Command, program: &OsStr) -> io::Result<Infallible> {
    // Processes of the program open it by this path while this process exists. A program that kills
    // both leaves no file behind.
    let file = memfd_create("cxi-softnic-summary", MemfdFlags::CLOEXEC)?;
    let descriptor = file.as_raw_fd();
    let path = format!("/proc/{}/fd/{descriptor}", std::process::id());
    command.env(summary::VARIABLE, &path);
    PASSED_ON.into_iter().for_each(pass_on);
    let mut child = command.spawn()?;
    CHILD.store(child.id().cast_signed(), Ordering::Relaxed);
    let early = EARLY.load(Ordering::Relaxed);
    if early != 0 {
        // SAFETY: the child was not waited for, so that no other process has its id.
        unsafe { libc::kill(child.id().cast_signed(), early) };
    }
    let status = child.wait()?;
    let sent = SentPackets::read(&fs::read_to_string(&path).unwrap_or_default());
    let program = program.display();
    eprintln!("cxi-softnic: note: the software NICs sent {sent} for {program}");
    if let Some(signal) = status.signal() {
        // SAFETY: the default action needs nothing of this program.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: the signal is one that ends a process.
        unsafe { libc::raise(signal) };
    }
    exit(status.code().unwrap_or(1))
}

/// Has a signal passed on to the program, unless this process ignores it: then the program does,
/// too.
fn pass_on(signal: c_int) {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the place is writable.
    unsafe { libc::sigaction(signal, null_mut(), before.as_mut_ptr()) };
    // SAFETY: all fields are integers or an optional function, for which zero is a value.
    let mut action = unsafe { before.assume_init() };
    if action.sa_sigaction == libc::SIG_IGN {
        return;
    }
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler calls only functions that may interrupt any other.
    unsafe { libc::sigaction(signal, &action, null_mut()) };
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid description of the signal.
    let is_of_terminal = unsafe { (*info).si_code } > 0;
    let child = CHILD.load(Ordering::Relaxed);
    // The terminal sends its signals to the program, too.
    if child == 0 && !is_of_terminal {
        EARLY.store(signal, Ordering::Relaxed);
    } else if !is_of_terminal {
        // SAFETY: the child was not waited for, so that no other process has its id.
        unsafe { libc::kill(child, signal) };
    }
}
