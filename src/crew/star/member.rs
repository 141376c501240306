//! A process of a survey that measures: the interface of its measuring thread.
//!
//! A task that does not see the meeting point asks at the address where the coordinator may listen
//! ([`knock`]). It has no token, so the answer proves nothing: it only ends a wait.

use std::io::{Read, Write};
use std::mem;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use facts::error::Failure;
use facts::net::{Incoming, connect_first};
use facts::{limit, text};

use crate::introduction::Introduction;
use crate::star::Meeting;
use crate::star::clock::now_ns;
use crate::star::connection::MemberConnection;
use crate::star::message::{
    MAX_HELLO, MAX_MESSAGE, MemoryCopy, Message, NoWork, Order, Reply, Work, decode, frame,
};

/// How long a process looks for the coordinator at its start, unless its user wants otherwise:
/// tasks of a launcher start seconds apart (jobs.md 3.6).
pub const JOIN_LIMIT: Duration = Duration::from_secs(60);

/// A process that takes part in a survey. It has no thread of its own: it answers nothing while
/// another order is carried out.
#[derive(Debug)]
pub struct Member<W: Work> {
    connection: MemberConnection<W>,
    /// What each block is about.
    setup: Option<W::TestSetup>,
    /// The last order was a test setup, and the coordinator does not know yet that the process is
    /// prepared.
    prepares: bool,
}

impl<W: Work> Member<W> {
    /// Finds the coordinator at one of the addresses of `meeting`, within `limit`.
    ///
    /// # Errors
    ///
    /// A coordinator that does not exist or refuses this process, and an interruption.
    pub fn join(
        meeting: &Meeting,
        introduction: Introduction,
        limit: Duration,
    ) -> Result<Self, Failure> {
        if meeting.addresses.is_empty() {
            let message = "cannot join the survey: its coordinator has no address";
            return Err(Failure::environment(message));
        }
        let limit = limit::in_effect(limit);
        let connection = MemberConnection::open(meeting.clone(), introduction, limit)?;
        Ok(Self { connection, setup: None, prepares: false })
    }

    /// Waits for the next order. If the last one was a test setup, this call reports that the
    /// process is prepared for it. If the connection is lost, the process returns with another one.
    ///
    /// # Errors
    ///
    /// A coordinator that is lost or has given this process up, and an interruption.
    pub fn next_order(&mut self) -> Result<Order<W>, Failure> {
        if mem::take(&mut self.prepares) {
            self.reply(Reply::Begun);
        }
        let order = self.connection.next()?;
        if !order.is_valid(self.connection.nics(), self.setup.as_ref()) {
            return Err(Failure::peer("the coordinator sent an order that is not valid"));
        }
        if let Order::TestSetup(setup) = &order {
            self.setup = Some(setup.clone());
            self.prepares = true;
        }
        Ok(order)
    }

    /// Sends what this process has done in a block.
    pub fn report(&mut self, report: W::Report) {
        self.reply(Reply::Report(report));
    }

    /// Sends the document of the check of this node; an empty one if another process of the node
    /// sends it.
    pub fn send_check(&mut self, document: Vec<u8>) {
        self.reply(Reply::Checked(document));
    }

    /// Sends how fast this process has copied memory; nothing if that says nothing about the memory
    /// of its node.
    pub fn send_memory_copy(&mut self, copy: Option<MemoryCopy>) {
        self.reply(Reply::CopiedMemory(copy));
    }

    /// Leaves the survey, because this process cannot go on.
    pub fn fail(self, reason: &str) {
        self.connection.end(Some(reason));
    }

    /// Ends after [`Order::End`].
    pub fn end(self) {
        self.connection.end(None);
    }

    /// The instant at which the clock of the coordinator is `coordinator_ns`.
    pub fn local(&self, coordinator_ns: u64) -> Instant {
        self.connection.clock().local(coordinator_ns)
    }

    /// Returns how far the clock of the coordinator may be off here, in nanoseconds: half of the
    /// round trip to it, and the drift since then.
    pub fn clock_uncertainty_ns(&self) -> Option<u64> {
        let now_ns = now_ns();
        let best = self.connection.clock().best(now_ns);
        best.map(|offset| offset.uncertainty_ns(now_ns))
    }

    fn reply(&mut self, reply: Reply<W>) {
        self.connection.reply(reply);
    }
}

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
