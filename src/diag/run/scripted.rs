//! Stand-ins for round trips and clocks, for the tests of the loops.

use std::cell::Cell;

use crate::bench::api::{MessageKind, RoundTrip};
use facts::error::Failure;
use measure::{Clock, WaitPolicy};

/// Records its calls; its peer sends [`MessageKind::Last`] in one of the round trips.
#[derive(Default)]
pub struct Scripted {
    /// Number of messages received.
    pub round_trips: u64,
    /// The number of the round trip in which the peer's last message comes.
    pub last_comes_in: Option<u64>,
    /// Whether an event reports the failure of an answer.
    pub answer_fails: bool,
    /// The announcements, each with the number of round trips before it.
    pub announced: Vec<(u64, MessageKind)>,
    /// The messages sent and received, in order.
    pub order: Vec<&'static str>,
}

impl RoundTrip for Scripted {
    fn send<C: Clock>(&mut self, _: &C, _: &mut WaitPolicy<'_>) -> Result<(), Failure> {
        self.order.push("send");
        Ok(())
    }

    fn look(&mut self) -> Result<(), Failure> {
        if self.answer_fails { Err(Failure::nic("the answer failed")) } else { Ok(()) }
    }

    fn receive<C: Clock>(&mut self, _: &C, _: &mut WaitPolicy<'_>) -> Result<MessageKind, Failure> {
        self.order.push("receive");
        self.round_trips += 1;
        Ok(if self.last_comes_in == Some(self.round_trips) {
            MessageKind::Last
        } else {
            MessageKind::Ordinary
        })
    }

    fn acknowledge(&mut self) {}

    fn announce(&mut self, message: MessageKind) -> Result<(), Failure> {
        self.announced.push((self.round_trips, message));
        Ok(())
    }
}

/// A clock of which each reading takes 10 ns.
#[derive(Default)]
pub struct Ticking(Cell<u64>);

impl Clock for Ticking {
    fn now(&self) -> u64 {
        self.0.set(self.0.get() + 10);
        self.0.get()
    }
}
