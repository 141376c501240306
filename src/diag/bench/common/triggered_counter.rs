//! Counters, and what a trigger queue does with them.

use cxi::{Counter, Counts, Error, EventQueue, TransmitQueue, TriggerQueue};

use super::portals::answer;
use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use node::explain::Explain;

/// Slots of a trigger queue for one command at a time; the library rounds up to a page.
pub const TRIGGER_SLOTS: u32 = 1;

/// A counter, and the trigger queue for commands about it.
pub struct CounterQueue {
    pub counter: Counter,
    pub triggers: TriggerQueue,
}

impl CounterQueue {
    /// Creates a counter at zero, whose counts can be read; events of its commands arrive at
    /// `events`.
    pub fn new(endpoint: &Endpoint, slots: u32, events: &EventQueue) -> Result<Self, Failure> {
        Self::of(Counter::with_write_back(endpoint.lni()), endpoint, slots, events)
    }

    fn of(
        counter: Result<Counter, Error>,
        endpoint: &Endpoint,
        slots: u32,
        events: &EventQueue,
    ) -> Result<Self, Failure> {
        let counter = counter.explain("cannot allocate a counter")?;
        counter.reset();
        let mut triggers = TriggerQueue::new(&endpoint.trigger_profile()?, slots, events)
            .explain("cannot allocate a trigger queue")?;
        triggers.keep_counter(&counter);
        Ok(Self { counter, triggers })
    }

    /// The number of the counter in commands and list entries.
    pub fn number(&self) -> u16 {
        self.counter.number()
    }

    /// Reads the counter, after it has cancelled the commands that wait for it if it `cancels`.
    ///
    /// # Errors
    ///
    /// A queue without room for the commands, and a NIC that does not answer.
    pub fn read(&mut self, cancels: bool, what: &str) -> Result<Counts, Failure> {
        // Counts that the NIC has written back before the request are older.
        while self.counter.written_back().is_some() {}
        let mut batch = self.triggers.batch();
        if cancels {
            batch.emit_cancel(&self.counter).nic("cannot cancel triggered puts")?;
        }
        batch.emit_get(&self.counter).nic("cannot read a counter")?;
        batch.commit_doorbell();
        answer(what, || self.counter.written_back())
    }

    /// Releases queue and counter, after the entries that count on it.
    pub fn close(self) -> Result<(), Failure> {
        self.triggers.close().explain("cannot release a trigger queue")?;
        self.counter.close().explain("cannot release a counter")
    }
}

/// A counter whose threshold triggers an event. Thresholds are cumulative over the run.
pub struct ThresholdCounter {
    queue: CounterQueue,
    threshold: u64,
}

impl ThresholdCounter {
    /// Creates a counter at zero; its triggered events arrive at `events`.
    pub fn new(endpoint: &Endpoint, events: &EventQueue) -> Result<Self, Failure> {
        let counter = Counter::new(endpoint.lni());
        let queue = CounterQueue::of(counter, endpoint, TRIGGER_SLOTS, events)?;
        Ok(Self { queue, threshold: 0 })
    }

    /// The number of the counter in commands and list entries.
    pub fn number(&self) -> u16 {
        self.queue.number()
    }

    /// Keeps the counter alive as long as the queue whose commands count on it.
    pub fn keep_for(&self, transmit: &mut TransmitQueue) {
        transmit.keep_counter(&self.queue.counter);
    }

    /// Requests TRIGGERED_OP after `more` counts than those requested before.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    #[inline]
    pub fn arm(&mut self, more: u64) -> Result<(), Failure> {
        self.skip(more);
        let CounterQueue { counter, triggers } = &mut self.queue;
        let mut batch = triggers.batch();
        batch.emit_trigger_event(counter, self.threshold).nic("cannot wait for a counter")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// Adds `more` expected counts without requesting an event.
    #[inline]
    pub fn skip(&mut self, more: u64) {
        self.threshold += more;
    }

    /// Releases queue and counter, after the entries that count on it.
    pub fn close(self) -> Result<(), Failure> {
        self.queue.close()
    }
}
