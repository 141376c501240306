//! A task that does not see the meeting point asks at the address where the coordinator may listen.
//! It has no token, so the answer proves nothing: it only ends a wait.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use super::message::{MAX_HELLO, MAX_MESSAGE, Message, decode, frame};
use super::work::NoWork;
use facts::net::framing::Incoming;
use facts::net::race::connect_first;
use facts::text;

/// How long each step of a knock may take.
const LIMIT: Duration = Duration::from_secs(1);

/// The answer of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnockAnswer {
    /// It waits for tasks at its meeting point.
    Waits,
    /// The survey has failed, for this reason.
    Failed(String),
}

/// Asks the coordinator at one of `addresses`, as the task with this `rank`. Returns `None` if no
/// coordinator answers.
pub fn knock(addresses: &[SocketAddr], rank: u32) -> Option<KnockAnswer> {
    let (mut stream, _) = connect_first(addresses, LIMIT).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let knock = frame(&Message::<NoWork>::Knock { rank });
    debug_assert!(knock.len() <= MAX_HELLO);
    stream.write_all(&knock).ok()?;
    let mut incoming = Incoming::new(MAX_MESSAGE);
    loop {
        let count = match stream.read(incoming.room()).ok()? {
            0 => return None,
            count => count,
        };
        if let Some(bytes) = incoming.advance(count).ok()? {
            return match decode::<Message<NoWork>>(&bytes)? {
                Message::Waits => Some(KnockAnswer::Waits),
                Message::Abort(mut reason) => {
                    text::accept(&mut reason);
                    Some(KnockAnswer::Failed(reason))
                }
                _ => None,
            };
        }
    }
}
