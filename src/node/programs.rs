//! Programs of the host that show what no file shows to any user.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use facts::token::TOKEN_VARIABLE;
use facts::{limit, threads};

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Whether a program has not ended in time: further ones would not either.
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// Returns the output of a program of the host; `None` if it is not installed, or if it or an
/// earlier one has not ended in time.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    if IS_LATE.load(Ordering::Relaxed) {
        return None;
    }
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").env_remove(TOKEN_VARIABLE);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let (sender, receiver) = sync_channel(1);
    let reader = child.stdout.take().and_then(|mut stdout| {
        let read = move || {
            let mut text = Vec::new();
            if stdout.read_to_end(&mut text).is_ok() {
                let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
            }
        };
        threads::start(program, read).ok()
    });
    let text = reader.map(|_| receiver.recv_timeout(limit::in_effect(LIMIT)));
    IS_LATE.fetch_or(text == Some(Err(RecvTimeoutError::Timeout)), Ordering::Relaxed);
    // It has ended its output, or is too late.
    let _ = child.kill();
    let _ = child.wait();
    text?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_a_program_prints() {
        assert_eq!(output("sh", &["-c", "echo 1; echo 2 >&2"]).as_deref(), Some("1\n"));
        assert_eq!(output("no-such-program", &[]), None);
    }
}
