//! A counter with a threshold that triggers an event.

use cxi::{Counter, EventQueue, TransmitQueue, TriggerQueue};

use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use node::explain::Explain;

/// Slots of the trigger queue; the library rounds up to a page.
const TRIGGER_SLOTS: u32 = 1;

/// A counter, and the trigger queue whose commands wait for its threshold. Thresholds are
/// cumulative over the run.
pub struct ThresholdCounter {
    counter: Counter,
    triggers: TriggerQueue,
    threshold: u64,
}

impl ThresholdCounter {
    /// Creates a counter at zero; its triggered events arrive at `events`.
    pub fn new(endpoint: &Endpoint, events: &EventQueue) -> Result<Self, Failure> {
        let counter = Counter::new(endpoint.lni()).explain("cannot allocate a counter")?;
        counter.reset();
        let mut triggers = TriggerQueue::new(&endpoint.trigger_profile()?, TRIGGER_SLOTS, events)
            .explain("cannot allocate a trigger queue")?;
        triggers.keep_counter(&counter);
        Ok(Self { counter, triggers, threshold: 0 })
    }

    /// Returns the number of the counter in commands and list entries.
    pub fn number(&self) -> u16 {
        self.counter.number()
    }

    /// Keeps the counter alive as long as the queue whose commands count on it.
    pub fn keep_for(&self, transmit: &mut TransmitQueue) {
        transmit.keep_counter(&self.counter);
    }

    /// Requests TRIGGERED_OP after `more` counts than those requested before.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    #[inline]
    pub fn arm(&mut self, more: u64) -> Result<(), Failure> {
        self.skip(more);
        let mut batch = self.triggers.batch();
        batch.emit_trigger_event(&self.counter, self.threshold).nic("cannot wait for a counter")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// Adds `more` expected counts without requesting an event.
    #[inline]
    pub fn skip(&mut self, more: u64) {
        self.threshold += more;
    }

    /// Releases queue and counter.
    pub fn close(self) -> Result<(), Failure> {
        self.triggers.close().explain("cannot release a trigger queue")?;
        self.counter.close().explain("cannot release a counter")
    }
}
