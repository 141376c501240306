//! A counter that is waited for by thresholds.

use cxi::{Counter, EventQueue, TransmitQueue, TriggerQueue};

use super::Initiator;
use crate::advice::Explain;
use crate::endpoint::Endpoint;
use crate::error::{Context, Failure};

/// Slots of its trigger queue; the library rounds up to a page.
const TRIGGER_SLOTS: u32 = 1;

/// A counter, and the queue whose commands wait for it. Thresholds are cumulative over the run.
pub struct TriggeredCounter {
    counter: Counter,
    triggers: TriggerQueue,
    threshold: u64,
}

impl TriggeredCounter {
    /// A counter at zero; what it triggers is reported to `events`.
    pub fn new(
        endpoint: &Endpoint,
        initiator: &Initiator,
        events: &EventQueue,
    ) -> Result<Self, Failure> {
        let counter = Counter::new(endpoint.lni()).explain("cannot allocate a counter")?;
        counter.reset();
        let mut triggers = TriggerQueue::new(&initiator.profile, TRIGGER_SLOTS, events)
            .explain("cannot allocate a trigger queue")?;
        triggers.keep_counter(&counter);
        Ok(Self {
            counter,
            triggers,
            threshold: 0,
        })
    }

    /// The number by which commands and entries name the counter.
    pub fn number(&self) -> u16 {
        self.counter.number()
    }

    /// Keeps the counter as long as the queue whose commands count on it.
    pub fn keep_for(&self, transmit: &mut TransmitQueue) {
        transmit.keep_counter(&self.counter);
    }

    /// Asks for TRIGGERED_OP when so many more have been counted, those asked for before apart.
    #[inline]
    pub fn arm(&mut self, more: u64) -> Result<(), Failure> {
        self.skip(more);
        let mut batch = self.triggers.batch();
        batch
            .emit_trigger_event(&self.counter, self.threshold)
            .nic("cannot wait for a counter")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// So many more will be counted, and nobody asks.
    #[inline]
    pub fn skip(&mut self, more: u64) {
        self.threshold += more;
    }

    /// Releases queue and counter.
    pub fn close(self) -> Result<(), Failure> {
        self.triggers
            .close()
            .explain("cannot release a trigger queue")?;
        self.counter.close().explain("cannot release a counter")
    }
}
