//! Counts the operations that arrive at a target, without its software.

use cxi::{Counter, EventQueue, TriggerQueue};

use super::answer::answer;
use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use node::explain::Explain;

/// Slots of the trigger queue; the library rounds up to a page.
const TRIGGER_SLOTS: u32 = 1;

/// A counter of the operations on a list entry, and the queue on which its counts are requested.
pub struct Arrivals {
    counter: Counter,
    triggers: TriggerQueue,
}

impl Arrivals {
    /// Creates a counter at zero; errors of its commands arrive at `events`.
    pub fn new(endpoint: &Endpoint, events: &EventQueue) -> Result<Self, Failure> {
        let counter =
            Counter::with_write_back(endpoint.lni()).explain("cannot allocate a counter")?;
        let mut triggers = TriggerQueue::new(&endpoint.trigger_profile()?, TRIGGER_SLOTS, events)
            .explain("cannot allocate a trigger queue")?;
        triggers.keep_counter(&counter);
        counter.reset();
        Ok(Self { counter, triggers })
    }

    /// Returns the number of the counter, for list entries.
    pub fn number(&self) -> u16 {
        self.counter.number()
    }

    /// Returns the number of operations that have arrived.
    ///
    /// # Errors
    ///
    /// A NIC that does not answer.
    pub fn count(&mut self) -> Result<u64, Failure> {
        // What the NIC has written back before the request is older.
        while self.counter.written_back().is_some() {}
        let mut batch = self.triggers.batch();
        batch.emit_get(&self.counter).nic("cannot read a counter")?;
        batch.commit_doorbell();
        let counts = answer("reading a counter", || self.counter.written_back())?;
        Ok(counts.success)
    }

    /// Releases queue and counter, after the entries that count on it.
    pub fn close(self) -> Result<(), Failure> {
        self.triggers.close().explain("cannot release a trigger queue")?;
        self.counter.close().explain("cannot release a counter")
    }
}
