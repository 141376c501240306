//! The answers of a server to clients that come while it measures with another one.
//!
//! A thread answers them, because the measuring thread must not be disturbed. It sleeps until there
//! is a connection, runs on other CPUs where there are any, and a client costs it one name and one
//! version.

use std::io;
use std::os::unix::net::UnixStream;
use std::thread::{self, Builder};

use cxi::placement::Confined;

use super::first_client;
use super::introduction::HandshakeIntroduction;
use super::refusal_log::RefusalLog;
use facts::error::Failure;
use facts::net::listener::Listener;

/// Niceness of the thread: the measurement has a higher priority. With the lowest one, the thread,
/// and the run with it, would end seconds later on a loaded host.
const NICENESS: i32 = 5;

/// Name of the thread.
const NAME: &str = "busy";

/// Calls `serve`, while a thread on `cpus` (any if empty) turns away the clients of `listener`. The
/// thread ends when `serve` drops its argument. If it cannot be started, other clients wait.
///
/// # Errors
///
/// The errors of `serve`.
pub fn turn_away_during(
    listener: &Listener,
    us: &HandshakeIntroduction,
    cpus: &[u32],
    serve: impl FnOnce(Option<UnixStream>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Ok((running, end)) = UnixStream::pair() else {
        return serve(None);
    };
    let turn_away = || {
        // Without its own CPUs, or a lower priority, the thread answers as well.
        let _confined = Confined::to(cpus);
        let _ = rustix::process::nice(NICENESS);
        // Clients see in the answer why they are turned away: nothing is printed.
        let log = &mut io::sink();
        // An interruption ends `serve` as well. Without file descriptors, clients wait.
        let _ = first_client::turn_away(listener, us, RefusalLog::new("", log), &end);
    };
    let thread = Builder::new().name(NAME.into());
    beside(thread, turn_away, || serve(Some(running)))
}

/// Returns the result of `run`, which is called while `thread` executes `answer`, if it can be
/// started: the run matters more than the answers.
fn beside<T>(thread: Builder, answer: impl FnOnce() + Send, run: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let _ = thread.spawn_scoped(scope, answer);
        run()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_without_a_thread_that_cannot_be_started() {
        // No address space has room for this stack.
        let thread = Builder::new().stack_size(1 << 50);
        let outcome = beside(thread, || panic!("it has started"), || "measured");
        assert_eq!(outcome, "measured");
    }
}
