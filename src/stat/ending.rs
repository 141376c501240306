//! How the leader ends: as its command has ended (monitoring.md 1.3).

use std::os::unix::process::ExitStatusExt;
use std::process::{self, ExitStatus};
use std::time::Duration;
use std::{io, thread};

use crate::record::EndStatus;
use cxi::signals::raise_with_default_action;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Exit statuses for a command that does not exist or cannot be executed, as shells have them.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// The status for a command whose status the system does not show.
pub const UNKNOWN: EndStatus = EndStatus::Exit(1);

/// What shells add to the number of a signal.
const SIGNAL: i32 = 128;

/// Time for a launcher to read the report before a signal ends this process: srun drops what it has
/// not read by then.
const LAST_LINES: Duration = Duration::from_millis(100);

/// Returns how a command has ended.
pub fn status(status: ExitStatus) -> EndStatus {
    match status.signal() {
        Some(signal) => EndStatus::Signal(signal),
        None => EndStatus::Exit(status.code().unwrap_or_default()),
    }
}

/// Returns the exit status for a command that could not be executed.
pub fn not_executed(error: &io::Error) -> i32 {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR) => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

/// Ends this process as the command has ended: with its exit status, or by its signal, so that a
/// launcher sees the same. Writes no core: the command has.
pub fn end_as(status: EndStatus) -> ! {
    let signal = match status {
        EndStatus::Exit(code) => process::exit(code),
        EndStatus::Signal(signal) => signal,
    };
    thread::sleep(LAST_LINES);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // A program that the kernel starts for cores gets one whatever the limit is.
    let is_dumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err();
    if setrlimit(Resource::Core, none).is_ok() && !is_dumpable {
        // Returns only if the signal is unknown or does not end a process.
        let _ = raise_with_default_action(signal);
    }
    process::exit(SIGNAL + signal)
}
