//! What these tests have in common: a NIC with a trigger queue.

use std::time::Instant;

use cxi::records::EventTrigOpShort;
use cxi::{Counter, EventType, Record, TriggerQueue};

use crate::rig::{PATIENCE, Rig, next};

/// A NIC that counts.
pub struct Bench {
    pub rig: Rig,
    pub trigger: TriggerQueue,
    pub counter: Counter,
}

/// A TRIGGERED_OP: its counter, threshold, and return code.
pub type Triggered = (u16, u64, &'static str);

impl Bench {
    pub fn new() -> Self {
        let rig = Rig::new();
        let trigger = TriggerQueue::new(&rig.profile, 1, &rig.events).unwrap();
        let counter = Counter::with_write_back(&rig.lni).unwrap();
        Self {
            rig,
            trigger,
            counter,
        }
    }

    /// Arms a trigger event on the counter.
    pub fn arm(&mut self, threshold: u64) {
        let mut batch = self.trigger.batch();
        batch.emit_trigger_event(&self.counter, threshold).unwrap();
        batch.commit_doorbell();
    }

    /// The next event of the initiator, which must be a trigger event.
    pub fn triggered(&mut self) -> Triggered {
        next(&mut self.rig.events, |event| {
            assert_eq!(event.event_type(), EventType::TRIGGERED_OP, "{event:?}");
            let Record::TriggeredShort(record) = event.record() else {
                panic!("{event:?}");
            };
            triggered(&record, event.return_code().name().unwrap())
        })
    }

    /// What the event says if all is well.
    pub fn at(&self, threshold: u64) -> Triggered {
        (self.counter.number(), threshold, "OK")
    }

    /// The counts, asked for by command.
    pub fn counts(&mut self) -> (u64, u8) {
        counts_of(&mut self.trigger, &self.counter)
    }

    /// Waits until the counts are these.
    pub fn wait_counts(&mut self, success: u64, failure: u8) {
        wait_for("the counts", || {
            (self.counts() == (success, failure)).then_some(())
        });
    }

    /// That there is no event, although the NIC has had its turn.
    pub fn silence(&mut self) {
        for _ in 0..3 {
            if let Some(event) = self.rig.events.poll() {
                panic!("{event:?}");
            }
        }
    }
}

pub fn triggered(record: &EventTrigOpShort, code: &'static str) -> Triggered {
    (record.ct_handle(), record.threshold(), code)
}

/// The counts of a counter, asked for by command.
pub fn counts_of(trigger: &mut TriggerQueue, counter: &Counter) -> (u64, u8) {
    counter.written_back();
    let mut batch = trigger.batch();
    batch.emit_get(counter).unwrap();
    batch.commit_doorbell();
    let counts = wait_for("counts", || counter.written_back());
    (counts.success, counts.failure)
}

/// Waits until `ready` answers; panics when it does not.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
    }
}
