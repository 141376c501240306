//! Early ends of a run: signals, and standard output whose reader has ended.
//!
//! | event | effect on the run |
//! |---|---|
//! | SIGINT, SIGTERM, SIGHUP | ends after the current iteration or wait, sends an interrupt notice, prints the results so far; exit status 130, or 0 for SIGTERM to a server with `--persist` |
//! | SIGINT, SIGTERM after [`end_when_stopped`] | ends its size regularly ([`is_stopped`]); once |
//! | another signal, `SAME` or more later | ends at once: only releases the NIC |
//! | a third signal, or `GRACE` after the second | the process exits immediately |
//! | the reader of standard output ends | ends as after the first signal, without a message; exit status 1 |
//!
//! A signal that was ignored when the program started stays ignored: `nohup` and scripts with
//! background jobs rely on it. ctrlc handles SIGINT, signal-hook the others. A thread waits for all
//! of these events. The measuring loops read one number ([`requested`]), and each wait ([`wait`])
//! also waits for a request of that thread.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::error::{Context, Failure, INTERRUPTED, Kind, not_started};
use crate::threads;

/// The signals that end a run.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// Time limit for the release of the NIC after the second signal.
const GRACE: Duration = Duration::from_secs(2);

/// Signals within this time after another one count as one signal: `timeout` signals its child and
/// then the process group, and a terminal that is closed may send two signals.
const SAME: Duration = Duration::from_millis(300);

/// Time limit for writing results after the first signal, if their reader does not read.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// Interval at which a wait for the reader of standard output checks for requests.
const SLICE: Duration = Duration::from_millis(50);

/// Number of requests to end the run.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The first signal, or 0 if the reader of the output ended first.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The next SIGINT or SIGTERM stops the run.
static ENDS_WHEN_STOPPED: AtomicBool = AtomicBool::new(false);

/// A signal has stopped the run.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Becomes readable with the first request, and stays readable.
static WOKEN: OnceLock<UnixStream> = OnceLock::new();

/// Starts the thread that handles signals as described above.
///
/// # Errors
///
/// A thread, socket or signal handler that the system refuses.
pub fn watch() -> Result<(), Failure> {
    start().environment("cannot wait for signals")
}

fn start() -> io::Result<()> {
    let (wake, woken) = UnixStream::pair()?;
    let ignored = ignored();
    let mut signals = Vec::new();
    for (signal, _) in SIGNALS {
        if ignored >> (signal - 1) & 1 == 0 {
            let (received, raised) = UnixStream::pair()?;
            if signal == SIGINT {
                if !watch_sigint(raised)? {
                    continue;
                }
            } else {
                low_level::pipe::register(signal, raised)?;
            }
            signals.push((signal, received));
        }
    }
    let listen = move || listen(&signals, &wake);
    thread::Builder::new().name("signals".into()).spawn(listen).map_err(not_started)?;
    // An error means that it is set already: the process has one run.
    let _ = WOKEN.set(woken);
    Ok(())
}

/// Writes a byte to `raised` for each SIGINT. Returns false if the parent ignores SIGINT.
fn watch_sigint(mut raised: UnixStream) -> io::Result<bool> {
    let handler = move || {
        // The reader is the thread of `listen`, which lives as long as the process.
        let _ = raised.write(&[0]);
    };
    // Unlike `set_handler`, it replaces no handler and no ignored disposition.
    match ctrlc::try_set_handler(handler) {
        Ok(()) => Ok(true),
        // Without /proc, `ignored` does not know that the parent ignores SIGINT.
        Err(ctrlc::Error::MultipleHandlers) => Ok(false),
        Err(ctrlc::Error::System(error)) => Err(not_started(error)),
        Err(other) => Err(io::Error::other(other)),
    }
}

/// The signals that this process ignores: signal n is bit n - 1.
pub fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// The loop of the thread.
fn listen(signals: &[(i32, UnixStream)], wake: &UnixStream) {
    let stdout = io::stdout();
    // A terminal that is closed sends SIGHUP.
    let mut read_by = (!stdout.is_terminal()).then_some(&stdout);
    let mut deadline = None;
    let mut last: Option<Instant> = None;
    loop {
        let mut polled: Vec<PollFd> =
            signals.iter().map(|(_, received)| PollFd::new(received, PollFlags::IN)).collect();
        // poll always reports errors and a closed peer.
        polled.extend(read_by.map(|stdout| PollFd::new(stdout, PollFlags::empty())));
        let left = deadline.map(|end: Instant| end.saturating_duration_since(Instant::now()));
        let limit = left.and_then(|left| Timespec::try_from(left).ok());
        if poll(&mut polled, limit.as_ref()).is_err() {
            continue;
        }
        let happened: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        for ((signal, received), _) in signals.iter().zip(&happened).filter(|(_, yes)| **yes) {
            let mut bytes = [0; 64];
            let is_another = last.is_none_or(|last| last.elapsed() >= SAME);
            if (&*received).read(&mut bytes).unwrap_or(0) > 0 && is_another {
                last = Some(Instant::now());
                if !stop(*signal) {
                    request(*signal, wake);
                }
            }
        }
        if happened.get(signals.len()) == Some(&true) {
            read_by = None;
            if !requested() {
                request(0, wake);
            }
        }
        if hurried() {
            let end = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
            if REQUESTS.load(Ordering::Relaxed) > 2 || Instant::now() >= end {
                low_level::exit(INTERRUPTED.into());
            }
        }
    }
}

/// Stops the run, if it ends regularly with this signal. Returns whether it does.
fn stop(signal: i32) -> bool {
    let stops = signal != SIGHUP && ENDS_WHEN_STOPPED.swap(false, Ordering::Relaxed);
    STOPPED.fetch_or(stops, Ordering::Relaxed);
    stops
}

/// Lets the next SIGINT or SIGTERM end the measurement regularly. Further signals interrupt.
pub fn end_when_stopped() {
    ENDS_WHEN_STOPPED.store(true, Ordering::Relaxed);
}

/// Whether a signal has stopped the run, which ends its measurement regularly.
#[inline(always)]
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

fn request(signal: i32, mut wake: &UnixStream) {
    if !requested() {
        SIGNAL.store(signal, Ordering::Relaxed);
    }
    REQUESTS.fetch_add(1, Ordering::Release);
    let _ = wake.write(&[0]);
}

/// Whether the end of the run was requested.
#[inline(always)]
pub fn requested() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 0
}

/// Whether SIGTERM was the first request to end the run.
pub fn is_terminated() -> bool {
    requested() && SIGNAL.load(Ordering::Relaxed) == SIGTERM
}

/// Whether the run must end at once, without output.
pub fn hurried() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 1
}

/// Checks whether the end of the run was requested.
///
/// # Errors
///
/// The failure that ends the run.
#[inline(always)]
pub fn check() -> Result<(), Failure> {
    if requested() { Err(failure()) } else { Ok(()) }
}

#[cold]
fn failure() -> Failure {
    // The signal is stored before the request is counted.
    let _ = REQUESTS.load(Ordering::Acquire);
    let signal = SIGNAL.load(Ordering::Relaxed);
    match SIGNALS.iter().find(|(number, _)| *number == signal) {
        Some((_, name)) => Failure::interrupted(name),
        None => output_failed(ErrorKind::BrokenPipe.into()),
    }
}

/// Waits until `fd` is ready for `wanted`. Returns false if it is not ready `within` this time.
///
/// # Errors
///
/// A request to end the run, and an error of `poll(2)`.
pub fn wait(fd: impl AsFd, wanted: PollFlags, within: Option<Duration>) -> Result<bool, Failure> {
    let mut polled = [PollFd::new(&fd, wanted)].into();
    wait_for_any(&mut polled, within)
}

/// Waits until any of `fds` is ready, as [`wait`] does; their `revents` show which.
pub fn wait_for_any<'fd>(
    fds: &mut Vec<PollFd<'fd>>,
    within: Option<Duration>,
) -> Result<bool, Failure> {
    let end = within.map(|within| Instant::now() + within);
    let count = fds.len();
    let woken: Option<&'fd UnixStream> = WOKEN.get();
    fds.extend(woken.map(|woken| PollFd::new(woken, PollFlags::IN)));
    let ready = loop {
        check()?;
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let limit = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(fds, limit.as_ref()) {
            Ok(0) => break false,
            Ok(_) if fds[..count].iter().any(|fd| !fd.revents().is_empty()) => break true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).environment("cannot wait"),
        }
    };
    fds.truncate(count);
    Ok(ready)
}

/// Makes a blocking call, which cannot be interrupted, in another thread.
///
/// # Errors
///
/// A request to end the run, which abandons the call, and a thread that cannot be started.
///
/// # Panics
///
/// If the call panics.
pub fn aside<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    const WHAT: &str = "cannot start a thread";
    let (ended, end) = UnixStream::pair().environment(WHAT)?;
    let call = move || {
        let result = call();
        drop(end);
        result
    };
    let thread = threads::start("aside", call)?;
    wait(&ended, PollFlags::IN, None)?;
    match thread.join() {
        Ok(result) => Ok(result),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Waits until bytes can be written to `fd`. Returns false if the run must end at once, or if a
/// request to end it is `OUTPUT_LIMIT` old and the reader has not read since.
pub fn wait_for_reader(fd: impl AsFd) -> bool {
    let mut since = None;
    let slice = Timespec::try_from(SLICE).ok();
    loop {
        let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
        // The write itself reports an error of poll.
        if hurried() {
            return false;
        }
        if !matches!(poll(&mut polled, slice.as_ref()), Ok(0) | Err(Errno::INTR)) {
            return true;
        }
        if requested() && since.get_or_insert_with(Instant::now).elapsed() >= OUTPUT_LIMIT {
            return false;
        }
    }
}

/// The failure for an error of standard output.
pub fn output_failed(error: io::Error) -> Failure {
    // After a request to end the run, a time-out of the writer is an interruption.
    if error.kind() == ErrorKind::TimedOut
        && let Err(interrupted) = check()
    {
        return interrupted;
    }
    // A write to a terminal that has gone away fails with EIO, and isatty no longer recognises it.
    let lost_terminal = error.raw_os_error() == Some(libc::EIO) && stdout_is_a_device();
    let kind = if error.kind() == ErrorKind::BrokenPipe || lost_terminal {
        Kind::OutputClosed
    } else {
        Kind::Environment
    };
    Failure::new(kind, error).context("cannot write to standard output")
}

/// Whether standard output is, or was, a terminal or another character device.
fn stdout_is_a_device() -> bool {
    let metadata =
        io::stdout().as_fd().try_clone_to_owned().and_then(|stdout| File::from(stdout).metadata());
    metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_closed_output_from_failing_output() {
        let closed = output_failed(ErrorKind::BrokenPipe.into());
        assert_eq!(closed.kind, Kind::OutputClosed);
        let full = output_failed(io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(full.kind, Kind::Environment);
        assert_eq!(full.message(), "cannot write to standard output: No space left on device");
    }
}
