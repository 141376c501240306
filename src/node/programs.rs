//! Programs of the host that show what no file shows to any user.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use facts::{limit, threads};

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns the output of a program of the host; `None` if it is not installed or does not end in
/// time.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
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
    let text = reader.and_then(|_| receiver.recv_timeout(limit::in_effect(LIMIT)).ok());
    // It has ended its output, or is too late.
    let _ = child.kill();
    let _ = child.wait();
    text
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
