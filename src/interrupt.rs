//! What ends a run early: signals, and an output that nobody reads any more.
//!
//! | what comes | what the run does |
//! |---|---|
//! | SIGINT, SIGTERM, SIGHUP | ends at the next iteration or in its wait, tells the peer, prints what it has; exit status 130 |
//! | another one, [`SAME`] or more later | ends at once: releases the NIC, and nothing else |
//! | a third, or [`GRACE`] after the second | the process ends, wherever it is |
//! | the reader of standard output ends | the same as the first, but silently; exit status 1 |
//!
//! A signal that was ignored when the program started stays ignored: `nohup` and background jobs of
//! scripts mean it. A thread waits for all of these. The measuring loops look at one number
//! ([`requested`]), and every wait ([`wait`]) also waits for the thread to have heard something.

use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

use crate::error::{Context, Failure, INTERRUPTED, Kind};

/// The signals that end a run.
const SIGNALS: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// How long a run may take to release the NIC after the second signal.
const GRACE: Duration = Duration::from_secs(2);

/// Signals that come so soon after another one mean the same: `timeout` signals its child and then
/// the whole process group, and a terminal that goes away may say so twice.
const SAME: Duration = Duration::from_millis(300);

/// How long results may take to be written after the first signal, where nobody reads them.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often a wait for the reader of standard output looks at the requests.
const SLICE: Duration = Duration::from_millis(50);

/// How often the end was requested.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The first signal, or 0 if the reader of the output ended first.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Readable, for ever, once the end was requested.
static WOKEN: OnceLock<UnixStream> = OnceLock::new();

/// From now on, signals end the run as the table above says.
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
            low_level::pipe::register(signal, raised)?;
            signals.push((signal, received));
        }
    }
    let listen = move || listen(&signals, &wake);
    thread::Builder::new()
        .name("signals".into())
        .spawn(listen)?;
    // Set before: the process has one run.
    let _ = WOKEN.set(woken);
    Ok(())
}

/// The signals that this process ignores: signal n is bit n - 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// The thread.
fn listen(signals: &[(i32, UnixStream)], wake: &UnixStream) {
    let stdout = io::stdout();
    // A terminal that goes away sends SIGHUP.
    let mut read_by = (!stdout.is_terminal()).then_some(&stdout);
    let mut deadline = None;
    let mut last: Option<Instant> = None;
    loop {
        let mut polled: Vec<PollFd> = signals
            .iter()
            .map(|(_, received)| PollFd::new(received, PollFlags::IN))
            .collect();
        // Errors and the other end's closing are always told.
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
                request(*signal, wake);
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

fn request(signal: i32, mut wake: &UnixStream) {
    if !requested() {
        SIGNAL.store(signal, Ordering::Relaxed);
    }
    REQUESTS.fetch_add(1, Ordering::Release);
    let _ = io::Write::write(&mut wake, &[0]);
}

/// Whether the run is to end.
#[inline(always)]
pub fn requested() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 0
}

/// Whether it is to end without another word.
pub fn hurried() -> bool {
    REQUESTS.load(Ordering::Relaxed) > 1
}

/// Fails if the run is to end.
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

/// Waits until `fd` is ready for what is `wanted`. False if it is not `within` this time; a failure
/// if the run is to end.
pub fn wait(fd: impl AsFd, wanted: PollFlags, within: Option<Duration>) -> Result<bool, Failure> {
    let mut polled = [PollFd::new(&fd, wanted)].into();
    wait_for_any(&mut polled, within)
}

/// The same until any of `fds` is ready, which then says so.
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

/// Makes a call that blocks, and cannot be woken, in another thread. A failure if the run is to
/// end: the call is then left to itself.
pub fn aside<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    const WHAT: &str = "cannot start a thread";
    let (ended, end) = UnixStream::pair().environment(WHAT)?;
    let call = move || {
        let result = call();
        drop(end);
        result
    };
    let thread = thread::Builder::new().spawn(call).environment(WHAT)?;
    wait(&ended, PollFlags::IN, None)?;
    match thread.join() {
        Ok(result) => Ok(result),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Waits until bytes can be written to `fd`, where a run that is to end has last words. False when
/// nobody has read for [`LAST_WORDS`] since then, or when there is no time for them.
pub fn wait_for_reader(fd: impl AsFd) -> bool {
    let mut since = None;
    let slice = Timespec::try_from(SLICE).ok();
    loop {
        let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
        // An error is the writer's to meet.
        if hurried() {
            return false;
        }
        if !matches!(poll(&mut polled, slice.as_ref()), Ok(0) | Err(Errno::INTR)) {
            return true;
        }
        if requested() && since.get_or_insert_with(Instant::now).elapsed() >= LAST_WORDS {
            return false;
        }
    }
}

/// The failure to write standard output.
pub fn output_failed(error: io::Error) -> Failure {
    // A run that is to end does not wait for its reader.
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
    let metadata = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|stdout| File::from(stdout).metadata());
    metadata.is_ok_and(|metadata| metadata.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_closed_output_from_output_that_fails() {
        let closed = output_failed(ErrorKind::BrokenPipe.into());
        assert_eq!(closed.kind, Kind::OutputClosed);
        let full = output_failed(io::Error::from_raw_os_error(libc::ENOSPC));
        assert_eq!(full.kind, Kind::Environment);
        assert_eq!(
            full.message(),
            "cannot write to standard output: No space left on device"
        );
    }
}
