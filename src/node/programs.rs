//! Programs of the host that show what no file shows to any user.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use facts::token::TOKEN_VARIABLE;
use facts::{limit, threads};

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Most bytes that a program may print.
const MOST_BYTES: u64 = 64 << 10;

/// Interval at which the end of a program that has closed its output is awaited.
const SLICE: Duration = Duration::from_millis(1);

/// Whether a program has not ended in time: further ones would not either.
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// Begins another report: programs may answer in time now.
pub(super) fn begin() {
    IS_LATE.store(false, Ordering::Relaxed);
}

/// The output of a program of the host; `None` if it is not installed, fails or prints too much, or
/// if it or an earlier one of the same report has not ended in time.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    if IS_LATE.load(Ordering::Relaxed) {
        return None;
    }
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").env_remove(TOKEN_VARIABLE);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let end = Instant::now() + limit::in_effect(LIMIT);
    let mut child = command.spawn().ok()?;
    let (sender, receiver) = sync_channel(1);
    let reader = child.stdout.take().and_then(|stdout| {
        let read = move || {
            let mut text = Vec::new();
            // A program that prints more loses its reader, and fails.
            if stdout.take(MOST_BYTES).read_to_end(&mut text).is_ok() {
                let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
            }
        };
        threads::start(program, read).ok()
    });
    let left = || end.saturating_duration_since(Instant::now());
    let text = reader.map(|_| receiver.recv_timeout(left()));
    let mut status = child.try_wait();
    while matches!((&text, &status), (Some(Ok(_)), Ok(None))) && !left().is_zero() {
        sleep(SLICE);
        status = child.try_wait();
    }
    let is_late = text == Some(Err(RecvTimeoutError::Timeout)) || matches!(status, Ok(None));
    IS_LATE.fetch_or(is_late, Ordering::Relaxed);
    // It has ended, or is too late.
    let _ = child.kill();
    let _ = child.wait();
    text?.ok().filter(|_| status.is_ok_and(|status| status.is_some_and(|status| status.success())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_a_program_prints() {
        assert_eq!(output("sh", &["-c", "echo 1; echo 2 >&2"]).as_deref(), Some("1\n"));
        assert_eq!(output("no-such-program", &[]), None);
        assert_eq!(output("sh", &["-c", "echo 1; exit 1"]), None);
        let much = format!("head -c {MOST_BYTES} /dev/zero");
        assert_eq!(output("sh", &["-c", &much]).map(|text| text.len()), Some(MOST_BYTES as usize));
        assert_eq!(output("sh", &["-c", "cat /dev/zero"]), None);
        // The next report asks again.
        assert_eq!(output("sleep", &["1000"]), None);
        assert_eq!(output("echo", &["1"]), None);
        begin();
        assert_eq!(output("echo", &["1"]).as_deref(), Some("1\n"));
    }
}
