//! Both sides in one command: the server is a second process, on a free port of this machine.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal,
};

use super::driver;
use crate::session::{LISTENING, is_reason_of_peer};
use facts::error::{Context, Failure, Kind, SEE_PEER};
use facts::host::OWN_EXECUTABLE;
use facts::interrupt;
use facts::net::listener::Reach;
use facts::token::TOKEN_VARIABLE;
use plan::tool::PROGRAM;
use plan::{Plan, Role};

/// Environment variable that marks the server of a loopback run: the process id of its client.
const PARENT: &str = "CXIDIAG_LOOPBACK_PARENT";

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
    let server = Server::start(plan)?;
    let address = Ipv4Addr::LOCALHOST.to_string();
    let plan = Plan {
        role: Role::Client {
            address: address.clone(),
        },
        port: server.port,
        ..plan.clone()
    };
    match client(&plan, &address) {
        Ok(()) => server.finish(),
        Err(failure) => Err(server.explain(failure)),
    }
}

/// Returns which clients may connect to a server: only those of this machine if [`run`] started it.
pub fn reach() -> Reach {
    match env::var_os(PARENT) {
        Some(_) => Reach::ThisMachine,
        None => Reach::Everywhere,
    }
}

/// Returns whether this process is a server that [`run`] started.
pub fn is_second() -> bool {
    env::var_os(PARENT).is_some()
}

/// Binds a server that [`run`] started to its client: the server ends when the client has ended.
///
/// # Errors
///
/// A client that has ended already, and a system call that fails.
pub fn end_with_parent() -> Result<(), Failure> {
    let Ok(parent) = env::var(PARENT) else {
        return Ok(());
    };
    // SIGTERM leaves time to release the NIC.
    set_parent_process_death_signal(Some(Signal::TERM))
        .environment("cannot bind the server to its client")?;
    // The client may have ended before the call above.
    if getppid()
        .map(Pid::as_raw_nonzero)
        .map(|pid| pid.to_string())
        != Some(parent)
    {
        return Err(Failure::environment(
            "the client of this loopback run has ended",
        ));
    }
    Ok(())
}

/// What has failed if the server fails after it has begun to listen.
const SERVER_FAILED: &str = "the server of the loopback run failed";

/// The second process. It ends when this value is dropped.
struct Server {
    child: Child,
    /// Kept open: a server ends if its standard output is closed.
    stdout: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start(plan: &Plan) -> Result<Self, Failure> {
        const WHAT: &str = "cannot start the server of the loopback run";
        let mut server = Command::new(OWN_EXECUTABLE);
        if let Some(token) = &plan.admission.token {
            // Arguments are visible to other users.
            server.env(TOKEN_VARIABLE, token.text());
        }
        let mut child = server
            // The arguments name the tool, independent of the name of the executable file.
            .arg0(PROGRAM)
            .args(plan.server_arguments())
            .env(PARENT, getpid().as_raw_nonzero().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Signals of a terminal go to the client, which notifies its server.
            .process_group(0)
            .spawn()
            .environment(WHAT)?;
        let stdout = child.stdout.take().map(BufReader::new);
        let stdout = stdout
            .ok_or_else(|| Failure::environment("the server of the loopback run has no output"))?;
        let mut server = Self {
            child,
            stdout,
            port: 0,
        };
        let mut line = String::new();
        // The server prints the line with one write.
        interrupt::wait(server.stdout.get_ref(), PollFlags::IN, None)?;
        server.stdout.read_line(&mut line).environment(WHAT)?;
        match port(&line) {
            Some(port) => server.port = port,
            None => {
                let failure = server.explain(Failure::environment(
                    "the server of the loopback run did not start",
                ));
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
            _ => Err(server_failed(&messages).context(SERVER_FAILED)),
        }
    }

    /// Returns the client's failure, or the server's if that has caused it.
    fn explain(mut self, failure: Failure) -> Failure {
        if matches!(failure.kind, Kind::Interrupted | Kind::OutputClosed) {
            return failure;
        }
        // A server notices the end of its client, and then releases its NIC and ends.
        if !failure.is_of_peer() && !self.ends_within(SERVER_END_LIMIT) {
            let _ = self.child.kill();
        }
        let messages = self.messages();
        // The failure of a server that was killed or has lost its client says nothing new.
        let last = messages.lines().next_back().unwrap_or_default();
        let missed_client = last == format!("hint: {SEE_PEER}") || is_reason_of_peer(last);
        match self.child.wait().ok().and_then(|status| status.code()) {
            // A server that did not listen yet has met what this process would have met itself.
            Some(status) if status != 0 && self.port == 0 => server_failed(&messages),
            Some(status) if status != 0 && !missed_client => {
                server_failed(&messages).context(SERVER_FAILED)
            }
            _ => failure,
        }
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

impl Drop for Server {
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

/// Returns the port in the line that a server prints when it listens.
fn port(line: &str) -> Option<u16> {
    line.strip_prefix(LISTENING)?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

/// Returns the failure of a server, from its stderr.
fn server_failed(messages: &str) -> Failure {
    // Warnings and notes come before the failure.
    let hint = messages
        .lines()
        .find_map(|line| line.strip_prefix("hint: "));
    let mut lines = messages.lines().filter(|line| !line.starts_with("hint: "));
    let last = lines.next_back().unwrap_or("no message");
    let message = last
        .split_once(": ")
        .map_or(last, |(_program, message)| message);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let failure = Failure::environment(message);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_port_from_line_of_server() {
        assert_eq!(
            port("Listening on port 49194 for client to connect...\n"),
            Some(49194)
        );
        assert_eq!(port(""), None);
        assert_eq!(port("Listening on port x for client\n"), None);
    }

    #[test]
    fn passes_on_failure_of_server() {
        let failure =
            server_failed("cxidiag write-lat: error: cannot open device soft0: full\nhint: look\n");
        assert_eq!(failure.message(), "cannot open device soft0: full");
        assert_eq!(failure.hint.as_deref(), Some("look"));
        let failure = server_failed("x: warning: slow\nx: full\n");
        assert_eq!(failure.message(), "full");
        assert_eq!(server_failed("").message(), "no message");
    }
}
