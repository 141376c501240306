//! Counts the operations that arrive at a target, without its software.

use cxi::{CommunicationProfile, Counter, EventQueue, TriggerQueue};

use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use node::explain::Explain;

/// Slots of the trigger queue; the library rounds up to a page.
const TRIGGER_SLOTS: u32 = 1;

/// How long the NIC may take to write the counts back, in nanoseconds.
const ANSWER_TIME: u64 = 1_000_000_000;

/// A counter of the operations on a list entry, and the queue on which its counts are requested.
pub struct Arrivals {
    counter: Counter,
    triggers: TriggerQueue,
    profile: CommunicationProfile,
}

impl Arrivals {
    /// Creates a counter at zero; errors of its commands arrive at `events`.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn new(endpoint: &Endpoint, events: &EventQueue) -> Result<Self, Failure> {
        let counter =
            Counter::with_write_back(endpoint.lni()).explain("cannot allocate a counter")?;
        let profile = endpoint.default_profile()?;
        let mut triggers = TriggerQueue::new(&profile, TRIGGER_SLOTS, events)
            .explain("cannot allocate a trigger queue")?;
        triggers.keep_counter(&counter);
        counter.reset();
        Ok(Self {
            counter,
            triggers,
            profile,
        })
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
        let start = cxi::clock::now_ns();
        loop {
            if let Some(counts) = self.counter.written_back() {
                return Ok(counts.success);
            }
            if cxi::clock::now_ns() - start > ANSWER_TIME {
                return Err(Failure::nic(
                    "reading a counter: the NIC did not answer within a second",
                ));
            }
        }
    }

    /// Releases queue, counter and profile, after the entries that count on it.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn close(self) -> Result<(), Failure> {
        self.triggers
            .close()
            .explain("cannot release a trigger queue")?;
        self.counter.close().explain("cannot release a counter")?;
        self.profile
            .close()
            .explain("cannot release a communication profile")
    }
}
