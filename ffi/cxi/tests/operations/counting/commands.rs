//! Commands and doorbells of counters, and the order in which triggered operations happen.

use cxi::records::EventCmdFail;
use cxi::sys::*;
use cxi::{Counter, Counts, EventType, MAX_FAILURES, MAX_SUCCESSES, Record, TriggerBatch};

use super::tools::{Bench, Triggered, counts_of};
use crate::rig::next;

fn by(success: u64, failure: u8) -> Counts {
    Counts { success, failure }
}

impl Bench {
    fn command(&mut self, emit: impl FnOnce(&mut TriggerBatch<'_>, &Counter)) {
        let mut batch = self.trigger.batch();
        emit(&mut batch, &self.counter);
        batch.commit_doorbell();
    }

    fn cancelled(&self, threshold: u64) -> Triggered {
        (self.counter.number(), threshold, "CANCELED")
    }
}

#[test]
fn a_fresh_counter_is_at_zero_and_silent() {
    let mut bench = Bench::new();
    assert_eq!(bench.counter.written_back(), None);
    assert_eq!(bench.counts(), (0, 0));
}

#[test]
fn doorbells_add_and_reset() {
    let mut bench = Bench::new();
    bench.counter.add_success(5);
    bench.counter.add_success(6);
    assert_eq!(bench.counter.written_back(), None, "not for a success");
    bench.counter.add_failure(3);
    assert_eq!(bench.counter.written_back(), Some(by(11, 3)));
    bench.counter.add_failure(4);
    assert_eq!(bench.counter.written_back(), Some(by(11, 7)));
    bench.counter.reset();
    assert_eq!(bench.counter.written_back(), Some(by(0, 0)));
    bench.counter.add_success(MAX_SUCCESSES);
    bench.counter.add_success(2);
    bench.counter.add_failure(MAX_FAILURES);
    bench.counter.add_failure(2);
    assert_eq!(bench.counts(), (1, MAX_FAILURES));
}

#[test]
fn a_doorbell_sets_off_what_waits() {
    let mut bench = Bench::new();
    bench.arm(10);
    bench.counter.add_success(9);
    bench.silence();
    bench.counter.add_failure(100);
    bench.silence();
    bench.counter.add_success(1);
    assert_eq!(bench.triggered(), bench.at(10));
    assert_eq!(bench.counter.written_back(), Some(by(10, 100)));
    bench.counter.add_success(100);
    bench.silence();
}

#[test]
fn set_overwrites_what_is_flagged() {
    let mut bench = Bench::new();
    bench.counter.add_success(1);
    bench.counter.add_failure(1);
    bench.counter.written_back();
    bench.command(|batch, ct| batch.emit_set(ct, Some(70), None).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(70, 1)));
    bench.command(|batch, ct| batch.emit_set(ct, None, Some(7)).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(70, 7)));
    bench.command(|batch, ct| batch.emit_set(ct, Some(MAX_SUCCESSES), Some(127)).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(MAX_SUCCESSES, 127)));
    bench.command(|batch, ct| batch.emit_set(ct, None, None).unwrap());
    assert_eq!(bench.counts(), (MAX_SUCCESSES, 127));
    bench.command(|batch, ct| batch.emit_set(ct, Some(0), Some(0)).unwrap());
    bench.arm(3);
    bench.silence();
    bench.command(|batch, ct| batch.emit_set(ct, Some(3), None).unwrap());
    assert_eq!(bench.triggered(), bench.at(3));
}

#[test]
fn increments_by_command() {
    let mut bench = Bench::new();
    bench.arm(8);
    bench.command(|batch, ct| batch.emit_increment(ct, by(7, 0)).unwrap());
    assert_eq!(bench.counter.written_back(), None);
    bench.command(|batch, ct| batch.emit_increment(ct, by(0, 2)).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(7, 2)));
    bench.silence();
    bench.command(|batch, ct| batch.emit_increment(ct, by(1, 1)).unwrap());
    assert_eq!(bench.triggered(), bench.at(8));
    assert_eq!(bench.counts(), (8, 3));
}

#[test]
fn lower_thresholds_first_and_equal_ones_in_order() {
    let mut bench = Bench::new();
    let other = Counter::with_write_back(&bench.rig.lni).unwrap();
    for threshold in [7, 3, 5, 3, 9] {
        bench.arm(threshold);
    }
    // Between two of one threshold: the counts that the word tells are those of the moment.
    bench.counter.add_success(8);
    for threshold in [3, 3, 5, 7] {
        assert_eq!(bench.triggered(), bench.at(threshold));
    }
    bench.silence();
    // The order of two on one threshold is seen in what they leave: set, then add.
    bench.command(|batch, ct| {
        batch
            .emit_trigger_set(ct, 20, &other, Some(100), Some(1))
            .unwrap();
        batch
            .emit_trigger_increment(ct, 20, &other, by(5, 1))
            .unwrap();
    });
    bench.counter.add_success(12);
    assert_eq!(bench.triggered(), bench.at(9));
    assert_eq!(counts_of(&mut bench.trigger, &other), (105, 2));
}

#[test]
fn counters_change_counters_that_change_counters() {
    let mut bench = Bench::new();
    let chain: Vec<Counter> = (0..20)
        .map(|_| Counter::with_write_back(&bench.rig.lni).unwrap())
        .collect();
    let mut before = &bench.counter;
    let mut batch = bench.trigger.batch();
    for counter in &chain {
        batch
            .emit_trigger_increment(before, 1, counter, by(1, 0))
            .unwrap();
        before = counter;
    }
    batch.emit_trigger_event(before, 1).unwrap();
    // And a counter that sets itself back to zero.
    batch
        .emit_trigger_set(&bench.counter, 1, &bench.counter, Some(0), None)
        .unwrap();
    batch.commit_doorbell();
    bench.silence();
    bench.counter.add_success(1);
    let last = chain.last().unwrap().number();
    assert_eq!(bench.triggered(), (last, 1, "OK"));
    assert_eq!(bench.counts(), (0, 0));
    for counter in &chain {
        assert_eq!(counts_of(&mut bench.trigger, counter), (1, 0));
    }
}

#[test]
fn cancelled_operations_do_not_happen_and_their_events_say_so() {
    let mut bench = Bench::new();
    let other = Counter::with_write_back(&bench.rig.lni).unwrap();
    bench.arm(5);
    bench.arm(2);
    bench.command(|batch, ct| {
        batch.emit_trigger_event(&other, 1).unwrap();
        batch
            .emit_trigger_increment(ct, 1, &other, by(1, 0))
            .unwrap();
        batch.emit_cancel(ct).unwrap();
    });
    assert_eq!(bench.triggered(), bench.cancelled(2));
    assert_eq!(bench.triggered(), bench.cancelled(5));
    bench.counter.add_success(10);
    bench.silence();
    assert_eq!(counts_of(&mut bench.trigger, &other), (0, 0));
    // The counter itself is none the worse, nor are others.
    assert_eq!(bench.counts(), (10, 0));
    bench.arm(10);
    assert_eq!(bench.triggered(), bench.at(10));
    other.add_success(1);
    assert_eq!(bench.triggered(), (other.number(), 1, "OK"));
}

#[test]
fn a_counter_that_goes_cancels_what_waits_for_it() {
    let mut bench = Bench::new();
    let fresh = Counter::with_write_back(&bench.rig.lni).unwrap();
    bench.arm(1);
    let old = std::mem::replace(&mut bench.counter, fresh);
    let number = old.number();
    old.close().unwrap();
    assert_eq!(bench.triggered(), (number, 1, "CANCELED"));
    // The next one of its number starts afresh.
    let next = Counter::with_write_back(&bench.rig.lni).unwrap();
    assert_eq!(next.number(), number);
    next.add_success(1);
    bench.silence();
    assert_eq!(counts_of(&mut bench.trigger, &next), (1, 0));
}

#[test]
fn a_trigger_too_many_is_refused() {
    const LIMIT: u64 = 512;
    let mut bench = Bench::new();
    let other = Counter::new(&bench.rig.lni).unwrap();
    let arm = |bench: &mut Bench, threshold| {
        bench.command(|batch, ct| {
            batch
                .emit_trigger_increment(ct, threshold, &other, by(1, 0))
                .unwrap();
        });
    };
    for threshold in 1..=LIMIT {
        arm(&mut bench, threshold);
    }
    // Room for one again, and one that need not wait.
    bench.counter.add_success(1);
    arm(&mut bench, LIMIT + 1);
    arm(&mut bench, 1);
    assert_eq!(u32::from(bench.trigger.status().return_code()), C_RC_OK);
    arm(&mut bench, LIMIT + 2);
    let (kind, code, record) = next(&mut bench.rig.events, |event| {
        (event.event_type(), event.return_code(), event.record())
    });
    assert_eq!(kind, EventType::COMMAND_FAILURE);
    assert_eq!(code.name(), Some("RESOURCE_BUSY"));
    let Record::CommandFailure(failure) = record else {
        panic!("{record:?}");
    };
    let failure: EventCmdFail = failure;
    assert_eq!(u32::from(failure.opcode()), C_CMD_CT_TRIG_INC);
    assert_eq!(u32::from(failure.cmd_type()), C_CMD_TYPE_CT);
    let status = bench.trigger.status();
    assert_eq!(u32::from(status.return_code()), C_RC_RESOURCE_BUSY);
    assert_eq!(status.rd_ptr(), failure.fail_loc());
}
