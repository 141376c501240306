//! Both sides in one command: the server is a second process, on a free port of this machine.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::driver;
use facts::child::{self, Duty};
use facts::error::{Context, Failure, Kind, SEE_PEER};
use facts::net::loopback;
use facts::{advice, interrupt};
use plan::{Plan, Role};
use session::{LISTENING, is_reason_of_peer};

/// How long a server may run after its client has ended.
const SERVER_END_LIMIT: Duration = Duration::from_secs(2);

/// Starts a server for `plan` and runs `client`, the client's part, against it.
///
/// # Errors
///
/// A server that cannot be started, and the first failure of either side.
pub fn run(
    plan: &Plan,
    client: impl FnOnce(&Plan, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let server = LoopbackServer::start(plan)?;
    let address = loopback().to_string();
    let plan =
        Plan { role: Role::Client { address: address.clone() }, port: server.port, ..plan.clone() };
    match client(&plan, &address) {
        Ok(()) => server.finish(),
        Err(failure) => Err(server.explain(failure)),
    }
}

/// The failure if the server ends without a message before it listens.
const SERVER_NOT_STARTED: &str = "the server of the loopback run did not start";

/// The failure if the server fails after it has begun to listen.
const SERVER_FAILED: &str = "the server of the loopback run failed";

/// The second process. It ends when this value is dropped.
struct LoopbackServer {
    child: Child,
    /// Kept open: a server ends if its standard output is closed.
    stdout: BufReader<ChildStdout>,
    port: u16,
}

impl LoopbackServer {
    fn start(plan: &Plan) -> Result<Self, Failure> {
        let own = getpid().as_raw_nonzero().to_string();
        let token = plan.admission.token.as_ref();
        let mut child = child::start(
            child::command_with(Duty::LoopbackServer, &own, token)
                .args(plan.server_arguments())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        )?;
        let stdout = child.stdout.take().map(BufReader::new);
        let stdout = stdout
            .ok_or_else(|| Failure::environment("the server of the loopback run has no output"))?;
        let mut server = Self { child, stdout, port: 0 };
        let mut line = String::new();
        // The server prints the line with one write.
        interrupt::wait(server.stdout.get_ref(), PollFlags::IN, None)?;
        let read = server.stdout.read_line(&mut line);
        read.environment("cannot start the server of the loopback run")?;
        match port(&line) {
            Some(port) => server.port = port,
            None => {
                let failure = server.explain(Failure::environment(SERVER_NOT_STARTED));
                if matches!(failure.kind, Kind::Interrupted | Kind::OutputClosed) {
                    return Err(failure);
                }
                // This process meets the same failure, and knows more of it than the printed text.
                return Err(driver::open(plan).err().unwrap_or(failure));
            }
        }
        Ok(server)
    }

    /// Waits until the server has ended.
    fn finish(mut self) -> Result<(), Failure> {
        let messages = self.messages();
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(server_failed(&messages, status).context(SERVER_FAILED)),
            Err(error) => Err(error).environment(SERVER_FAILED),
        }
    }

    /// The client's failure, or the server's if that has caused it.
    fn explain(mut self, failure: Failure) -> Failure {
        if matches!(failure.kind, Kind::Interrupted | Kind::OutputClosed) {
            return failure;
        }
        // A server notices the end of its client, and then releases its NIC and ends.
        let is_killed = !failure.is_of_peer() && !self.ends_within(SERVER_END_LIMIT);
        if is_killed {
            let _ = self.child.kill();
        }
        let messages = self.messages();
        let Ok(status) = self.child.wait() else {
            return failure;
        };
        // A server that was killed or has lost its client adds nothing to the client's failure.
        if status.success() || is_killed && status.signal().is_some() {
            return failure;
        }
        if self.port == 0 {
            // The server has met what this process would have met itself.
            return said(&messages, status)
                .unwrap_or_else(|| child::silent_end(status).context(SERVER_NOT_STARTED));
        }
        let last = messages.lines().next_back().unwrap_or_default();
        if last == format!("hint: {SEE_PEER}") || is_reason_of_peer(last) {
            return failure;
        }
        server_failed(&messages, status).context(SERVER_FAILED)
    }

    fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while Instant::now() < end && !interrupt::hurried() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    fn messages(&mut self) -> String {
        let mut messages = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut messages);
        }
        messages
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // SIGTERM leaves time to release the NIC. These calls fail only if the process has
            // ended.
            if let Some(server) = Pid::from_raw(self.child.id() as i32) {
                let _ = kill_process(server, Signal::TERM);
            }
            if !self.ends_within(SERVER_END_LIMIT) {
                let _ = self.child.kill();
            }
        }
        let _ = self.child.wait();
    }
}

/// The port in the line that a server prints when it listens.
fn port(line: &str) -> Option<u16> {
    line.strip_prefix(LISTENING)?.split(' ').next()?.parse().ok()
}

/// The failure of a server that has written `messages` to its standard error and has ended with
/// `status`.
fn server_failed(messages: &str, status: ExitStatus) -> Failure {
    said(messages, status).unwrap_or_else(|| child::silent_end(status))
}

/// The failure in the `messages` of a server, if there is one. Warnings and notes come before it.
fn said(messages: &str, status: ExitStatus) -> Option<Failure> {
    if status.signal().is_some() {
        return None;
    }
    let last = messages.lines().rfind(|line| !line.starts_with("hint: "))?;
    let message = last.split_once(": ").map_or(last, |(_program, message)| message);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let hint = messages.lines().find_map(|line| line.strip_prefix("hint: "));
    let failure = Failure::environment(message).with_hint_if(hint.map(str::to_owned));
    Some(match hint.and_then(advice::situation_with) {
        Some(situation) => failure.in_situation(situation),
        None => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::advice::Situation;

    #[test]
    fn reads_port_from_line_of_server() {
        assert_eq!(port("Listening on port 49194 for client to connect...\n"), Some(49194));
        assert_eq!(port(""), None);
        assert_eq!(port("Listening on port x for client\n"), None);
    }

    #[test]
    fn passes_on_failure_of_server() {
        let failed = |messages: &str| server_failed(messages, ExitStatus::from_raw(1 << 8));
        let failure =
            failed("cxidiag write-lat: error: cannot open device soft0: full\nhint: look\n");
        assert_eq!(failure.message(), "cannot open device soft0: full");
        assert_eq!((failure.hint.as_deref(), failure.situation), (Some("look"), None));
        for hint in [advice::remedy(Situation::WrongData), &advice::hint(Situation::WrongData)] {
            let failure = failed(&format!("cxidiag write-lat: error: byte 6\nhint: {hint}\n"));
            assert_eq!(failure.situation, Some(Situation::WrongData));
        }
        let failure = failed("x: warning: slow\nx: full\n");
        assert_eq!(failure.message(), "full");
        assert_eq!(failed("").message(), "its process ended without a message (exit status 1)");
    }

    #[test]
    fn names_signal_that_ended_the_server() {
        let failure = server_failed("x: warning: slow\n", ExitStatus::from_raw(9));
        assert_eq!(failure.message(), "signal 9 ended its process");
    }
}
