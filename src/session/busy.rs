//! The answers of a server to clients that come while it measures with another one.
//!
//! A thread answers them, because the measuring thread must not be disturbed. It sleeps until there
//! is a connection, runs on other CPUs where there are any, and a client costs it one name and one
//! version.

use std::io;
use std::os::unix::net::UnixStream;
use std::thread;

use cxi::placement::Confined;

use super::handshake::Introduction;
use super::listener::Listener;
use super::reception::Reception;
use super::refusal_log::RefusalLog;
use crate::error::Failure;

/// Niceness of the thread: the lowest priority.
const NICENESS: i32 = 19;

/// Name of the thread.
const NAME: &str = "busy";

/// Calls `serve`, while a thread on `cpus` (any if empty) turns away the clients of `listener`. The
/// thread ends when `serve` drops its argument. If it cannot be started, other clients wait.
///
/// # Errors
///
/// Those of `serve`.
pub fn turn_away_during(
    listener: &Listener,
    us: &Introduction,
    cpus: &[u32],
    serve: impl FnOnce(Option<UnixStream>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Ok((running, end)) = UnixStream::pair() else {
        return serve(None);
    };
    thread::scope(|scope| {
        let turn_away = || {
            // Without its own CPUs, or a lower priority, the thread answers as well.
            let _confined = Confined::to(cpus);
            let _ = rustix::process::nice(NICENESS);
            // Clients see in the answer why they are turned away: nothing is printed.
            let log = &mut io::sink();
            // An interruption ends `serve` as well. Without file descriptors, clients wait.
            let _ = Reception::new(listener, us, RefusalLog::new("", log)).turn_away(&end);
        };
        let thread = thread::Builder::new().name(NAME.into());
        // The run matters more than the answers.
        let _ = thread.spawn_scoped(scope, turn_away);
        serve(Some(running))
    })
}
