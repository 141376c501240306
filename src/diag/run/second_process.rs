//! What the server of a loopback run knows about its client, which has started it.

use facts::child::{self, Duty};
use facts::error::{Context, Failure};
use facts::net::listener::Reach;

/// What the client tells the server: its process id.
const DUTY: Duty = Duty::LoopbackServer;

/// Returns which clients may connect to a server: only clients of this machine if the server is the
/// second process of a loopback run.
pub fn reach() -> Reach {
    if is_second() { Reach::ThisMachine } else { Reach::Everywhere }
}

/// Returns whether this process is the server of a loopback run.
pub fn is_second() -> bool {
    DUTY.environment_text().is_some()
}

/// Binds the server of a loopback run to its client: the server ends when the client has ended.
///
/// # Errors
///
/// A client that has ended already, and a system call that fails.
pub fn end_with_parent() -> Result<(), Failure> {
    let Some(parent) = DUTY.environment_text() else {
        return Ok(());
    };
    let is_there = match parent.parse() {
        Ok(parent) => {
            child::end_with(parent).environment("cannot bind the server to its client")?
        }
        Err(_) => false,
    };
    if is_there {
        Ok(())
    } else {
        Err(Failure::environment("the client of this loopback run has ended"))
    }
}
