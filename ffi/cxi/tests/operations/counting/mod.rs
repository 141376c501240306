//! Counters and triggered operations: a software NIC with a trigger queue and a counter.

mod commands;
mod initiator;
mod target;
mod triggered;

use std::time::Instant;

use cxi::records::EventTrigOpShort;
use cxi::sys::CXI_EQ_EC_DISABLE;
use cxi::{Counter, EventRecord, EventType, TriggerQueue};

use crate::rig::{Rig, TIME_LIMIT, next};

/// A rig with a trigger queue that reports to its initiator, and a counter.
pub struct Bench {
    pub rig: Rig,
    pub trigger: TriggerQueue,
    pub counter: Counter,
}

/// Counter, threshold and return code of a TRIGGERED_OP.
pub type Triggered = (u16, u64, &'static str);

impl Bench {
    pub fn new() -> Self {
        Self::on(0)
    }

    /// A bench on the NIC with this number.
    pub fn on(number: u32) -> Self {
        let rig = Rig::on(number, CXI_EQ_EC_DISABLE);
        let trigger = TriggerQueue::new(&rig.profile, 1, &rig.events).unwrap();
        let counter = Counter::with_write_back(&rig.lni).unwrap();
        Self { rig, trigger, counter }
    }

    /// Emits a trigger event on the counter.
    pub fn arm(&mut self, threshold: u64) {
        let mut batch = self.trigger.batch();
        batch.emit_trigger_event(&self.counter, threshold).unwrap();
        batch.commit_doorbell();
    }

    /// Waits for the next event of the initiator, which must be a trigger event.
    pub fn triggered(&mut self) -> Triggered {
        next(&mut self.rig.events, |event| {
            assert_eq!(event.event_type(), EventType::TRIGGERED_OP, "{event:?}");
            let EventRecord::TriggeredShort(record) = event.record() else {
                panic!("{event:?}");
            };
            triggered(&record, event.return_code().name().unwrap())
        })
    }

    /// The expected trigger event at `threshold`.
    pub fn at(&self, threshold: u64) -> Triggered {
        (self.counter.number(), threshold, "OK")
    }

    /// The counts, written back by command.
    pub fn counts(&mut self) -> (u64, u8) {
        counts_of(&mut self.trigger, &self.counter)
    }

    /// Waits until the counts are these.
    pub fn wait_counts(&mut self, success: u64, failure: u8) {
        wait_for("the counts", || (self.counts() == (success, failure)).then_some(()));
    }

    /// Runs the NIC and expects no event of the initiator.
    pub fn expect_no_event(&mut self) {
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

/// The counts of a counter, written back by command.
pub fn counts_of(trigger: &mut TriggerQueue, counter: &Counter) -> (u64, u8) {
    counter.written_back();
    let mut batch = trigger.batch();
    batch.emit_get(counter).unwrap();
    batch.commit_doorbell();
    let counts = wait_for("counts", || counter.written_back());
    (counts.success, counts.failure)
}

/// Waits until `ready` returns a value, at most `TIME_LIMIT`.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < deadline, "time limit exceeded while waiting for {what}");
    }
}
