//! Counters: doorbells, write-backs, what they count, and triggered operations.

use std::time::{Duration, Instant};

use cxi::sys::*;
use cxi::{Counter, Counts, EventRecord, EventType, MAX_SUCCESSES, TriggerBatch, TriggerQueue};

use crate::bench::{Bench, Checked, Portal, differs, equal, has};
use crate::table::{CheckGroup, FactCheck, assumed, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "counters", checks: CHECKS };

const TRIGGERED: EventType = EventType::TRIGGERED_OP;

const CHECKS: &[FactCheck] = &[
    stated("reset-writes-back", "nic.md 9.1", |bench| {
        let counter = Counter::with_write_back(&bench.lni)?;
        counter.reset();
        written(bench, &counter, 0, 0)
    })
    .shows("a reset doorbell sets its count to 0 and writes both back"),
    stated("doorbells-add", "nic.md 9.1", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        for _ in 0..10 {
            counter.add_success(10);
        }
        counter.add_success(7);
        tell(bench, &mut trigger, |batch| batch.emit_get(&counter))?;
        written(bench, &counter, 107, 0)
    })
    .shows("each store to a doorbell adds once, however close it follows the one before it"),
    stated("failure-writes-back", "nic.md 9.1", |bench| {
        let counter = Counter::with_write_back(&bench.lni)?;
        counter.reset();
        written(bench, &counter, 0, 0)?;
        counter.add_success(5);
        bench.quiet()?;
        equal("write-back after a success", counter.written_back(), None)?;
        counter.add_failure(2);
        written(bench, &counter, 5, 2)
    })
    .shows("an addition to the failures writes back, an addition to the successes does not"),
    stated("counts-acks", "nic.md 9.2", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let _portal = bench.plain()?;
        let mut put = bench.dma(C_CMD_PUT, 100);
        put.set_event_success_disable(true).set_event_ct_ack(true).set_ct(counter.number());
        trigger_at(bench, &mut trigger, &counter, 3)?;
        for _ in 0..3 {
            bench.send(|batch| batch.emit_dma(&put))?;
        }
        bench.expect(TRIGGERED, C_RC_OK)?;
        bench.quiet()?;
        tell(bench, &mut trigger, |batch| batch.emit_get(&counter))?;
        written(bench, &counter, 3, 0)
    })
    .shows("event_ct_ack counts each ACK, also without event"),
    stated("counts-replies", "nic.md 9.2", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let _portal = bench.plain()?;
        let mut get = bench.nomatch(C_CMD_NOMATCH_GET, 100);
        get.set_event_success_disable(true).set_event_ct_reply(true).set_ct(counter.number());
        trigger_at(bench, &mut trigger, &counter, 2)?;
        for _ in 0..2 {
            bench.send(|batch| batch.emit_nomatch_dma(&get))?;
        }
        bench.expect(TRIGGERED, C_RC_OK)?;
        bench.quiet()
    })
    .shows("event_ct_reply counts each REPLY"),
    stated("counts-bytes", "nic.md 9.2", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let _portal = bench.plain()?;
        let mut put = bench.dma(C_CMD_PUT, 5000);
        put.set_event_ct_ack(true).set_event_ct_bytes(true).set_ct(counter.number());
        bench.send(|batch| batch.emit_dma(&put))?;
        bench.expect(EventType::ACK, C_RC_OK)?;
        tell(bench, &mut trigger, |batch| batch.emit_get(&counter))?;
        written(bench, &counter, 5000, 0)
    })
    .shows("event_ct_bytes counts the bytes instead of one"),
    stated("counts-at-target", "nic.md 9.2", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let mut portal = counting_portal(bench, &counter)?;
        bench.put(8, C_RC_OK, |_| {})?;
        bench.put(5000, C_RC_OK, |_| {})?;
        tell(bench, &mut trigger, |batch| batch.emit_get(&counter))?;
        written(bench, &counter, 2, 0)?;
        bench.quiet_at(&mut portal)
    })
    .shows("event_ct_comm counts each operation at the entry, also without event"),
    assumed("counts-packets-of-restricted-put-once", "nic.md 15", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let _portal = counting_portal(bench, &counter)?;
        bench.put(6000, C_RC_OK, |put| _ = put.set_restricted(true))?;
        tell(bench, &mut trigger, |batch| batch.emit_get(&counter))?;
        written(bench, &counter, 1, 0)
    })
    .shows("a restricted put of several packets counts once at the target"),
    inferred("counts-failures", "nic.md 9.2", |bench| {
        let counter = Counter::with_write_back(&bench.lni)?;
        let mut put = bench.dma(C_CMD_PUT, 5000);
        put.set_event_ct_ack(true).set_event_ct_bytes(true).set_ct(counter.number());
        bench.send(|batch| batch.emit_dma(&put))?;
        bench.expect(EventType::ACK, C_RC_PTLTE_NOT_FOUND)?;
        written(bench, &counter, 0, 1)
    })
    .shows("a failed operation adds one to the failures instead")
    .provokes(&[]),
    inferred("failures-reach-no-threshold", "nic.md 9.3", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        trigger_at(bench, &mut trigger, &counter, 2)?;
        counter.add_failure(5);
        written(bench, &counter, 0, 5)?;
        counter.add_success(1);
        bench.quiet()?;
        counter.add_success(1);
        bench.expect(TRIGGERED, C_RC_OK).map(drop)
    })
    .shows("failures do not count towards a threshold"),
    assumed("failures-saturate", "nic.md 15", |bench| {
        let counter = Counter::with_write_back(&bench.lni)?;
        counter.add_failure(120);
        written(bench, &counter, 0, 120)?;
        counter.add_failure(20);
        written(bench, &counter, 0, 127)
    })
    .shows("the failure count stays at 127"),
    assumed("successes-wrap", "nic.md 15", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        counter.add_success(MAX_SUCCESSES);
        counter.add_success(3);
        tell(bench, &mut trigger, |batch| batch.emit_get(&counter))?;
        written(bench, &counter, 2, 0)
    })
    .shows("the success count wraps after 48 bits"),
    stated("set-by-command", "nic.md 3.12", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        tell(bench, &mut trigger, |batch| {
            batch.emit_set(&counter, Some(77), Some(5))?;
            batch.emit_set(&counter, Some(78), None)?;
            batch.emit_get(&counter)
        })?;
        last_written(bench, &counter, 78, 5)
    })
    .shows("CT_SET overwrites the counts that its flags name"),
    assumed("set-writes-back", "nic.md 15", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        tell(bench, &mut trigger, |batch| batch.emit_set(&counter, Some(77), None))?;
        written(bench, &counter, 77, 0)
    })
    .shows("CT_SET writes the counts back"),
    inferred("increment-by-command", "nic.md 3.12", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let increment = Counts { success: 3, failure: 0 };
        tell(bench, &mut trigger, |batch| {
            batch.emit_set(&counter, Some(77), None)?;
            batch.emit_increment(&counter, increment)?;
            batch.emit_get(&counter)
        })?;
        last_written(bench, &counter, 80, 0)
    })
    .shows("CT_INC adds to the counts that its flags name"),
    stated("trigger-event", "nic.md 9.3", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        trigger_at(bench, &mut trigger, &counter, 5)?;
        counter.add_success(4);
        bench.quiet()?;
        counter.add_success(1);
        let event = bench.expect(TRIGGERED, C_RC_OK)?;
        let EventRecord::TriggeredShort(record) = event.record else {
            return Err(differs("an event of 16 bytes", event.bytes.len()));
        };
        let seen = (record.ct_handle(), record.threshold());
        equal("ct_handle, threshold", seen, (counter.number(), 5))?;
        counter.add_success(5);
        bench.quiet()
    })
    .shows("TRIG_EVENT reports its counter and threshold once, when the successes reach it"),
    inferred("trigger-at-once", "nic.md 9.3", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        counter.add_success(5);
        trigger_at(bench, &mut trigger, &counter, 5)?;
        bench.expect(TRIGGERED, C_RC_OK).map(drop)
    })
    .shows("a triggered command whose threshold was reached before is executed at once"),
    stated("trigger-order", "nic.md 9.3", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        for threshold in [30, 10, 20] {
            trigger_at(bench, &mut trigger, &counter, threshold)?;
        }
        counter.add_success(15);
        threshold(bench, 10)?;
        bench.quiet()?;
        counter.add_success(15);
        threshold(bench, 20)?;
        threshold(bench, 30)
    })
    .shows("of several triggered commands, the lower threshold comes first"),
    stated("trigger-event-writes-back", "nic.md 9.1", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        trigger_at(bench, &mut trigger, &counter, 4)?;
        counter.add_success(4);
        bench.expect(TRIGGERED, C_RC_OK)?;
        written(bench, &counter, 4, 0)
    })
    .shows("a TRIG_EVENT writes the counts back"),
    stated("cancel", "nic.md 9.3", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        trigger_at(bench, &mut trigger, &counter, 4)?;
        tell(bench, &mut trigger, |batch| batch.emit_cancel(&counter))?;
        bench.expect(TRIGGERED, C_RC_CANCELED)?;
        counter.add_success(4);
        bench.quiet()
    })
    .shows("CT_CANCEL ends what waits for a counter: TRIGGERED_OP with CANCELED"),
    stated("cancel-by-destruction", "libcxi.md 8.4", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        trigger_at(bench, &mut trigger, &counter, 4)?;
        bench.quiet()?;
        counter.close()?;
        bench.expect(TRIGGERED, C_RC_CANCELED).map(drop)
    })
    .shows("destroying a counter cancels what waits for it"),
    stated("triggered-put", "nic.md 3.12", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let _portal = bench.plain()?;
        let pattern = bench.fill()?;
        let put = bench.dma(C_CMD_PUT, 3000);
        let plain = bench.nomatch(C_CMD_NOMATCH_PUT, 64);
        tell(bench, &mut trigger, |batch| {
            batch.emit_trigger_dma(&counter, 2, &put)?;
            batch.emit_trigger_nomatch_dma(&counter, 3, &plain)
        })?;
        counter.add_success(1);
        bench.quiet()?;
        has("memory", &bench.remote, 0, &[0xee; 64])?;
        counter.add_success(1);
        bench.expect(EventType::ACK, C_RC_OK)?;
        has("data", &bench.remote, 0, &pattern[..3000])?;
        bench.quiet()?;
        counter.add_success(1);
        bench.expect(EventType::ACK, C_RC_OK).map(drop)
    })
    .shows("TRIG_DMA executes its put when the threshold is reached, not before"),
    stated("triggered-atomic", "nic.md 3.12", |bench| {
        let (mut trigger, counter) = counted(bench)?;
        let _portal = bench.plain()?;
        bench.local.fill(2)?;
        bench.remote.fill(3)?;
        let amo = bench.dma_amo(C_AMO_OP_SUM as u8, C_AMO_TYPE_UINT8_T as u8);
        tell(bench, &mut trigger, |batch| batch.emit_trigger_dma_amo(&counter, 1, &amo, false))?;
        counter.add_success(1);
        bench.expect(EventType::ACK, C_RC_OK)?;
        has("target", &bench.remote, 0, &[5, 3])
    })
    .shows("TRIG_DMA executes an atomic operation"),
    stated("triggered-counter", "nic.md 3.12", |bench| {
        let (mut trigger, first) = counted(bench)?;
        let second = Counter::with_write_back(&bench.lni)?;
        let third = Counter::with_write_back(&bench.lni)?;
        let increment = Counts { success: 7, failure: 0 };
        tell(bench, &mut trigger, |batch| {
            batch.emit_trigger_increment(&first, 1, &second, increment)?;
            batch.emit_trigger_set(&second, 7, &third, Some(9), None)?;
            batch.emit_trigger_event(&third, 9)
        })?;
        first.add_success(1);
        threshold(bench, 9)
    })
    .shows("TRIG_INC adds to another counter, and TRIG_SET sets it, in a chain"),
];

/// Allocates a trigger queue and a counter.
fn counted(bench: &Bench) -> Checked<(TriggerQueue, Counter)> {
    let trigger = TriggerQueue::new(&bench.profile, 64, &bench.events)?;
    Ok((trigger, Counter::with_write_back(&bench.lni)?))
}

/// Opens a portal with an entry that counts on `counter` and reports nothing.
fn counting_portal(bench: &mut Bench, counter: &Counter) -> Checked<Portal> {
    let portal = bench.open_silent(
        |_| {},
        |entry| {
            entry.set_event_comm_disable(false);
            entry.set_event_ct_comm(true).set_ct(counter.number());
        },
    )?;
    Ok(portal)
}

/// Emits counter commands by `emit` and rings the doorbell.
fn tell(
    bench: &mut Bench,
    queue: &mut TriggerQueue,
    emit: impl FnOnce(&mut TriggerBatch<'_>) -> Result<(), cxi::EmitError>,
) -> Checked {
    let mut batch = queue.batch();
    emit(&mut batch)?;
    bench.trace.command = batch.bytes();
    batch.commit_doorbell();
    Ok(())
}

/// Requests a TRIGGERED_OP, and waits until the NIC has read the command: what follows travels
/// through another queue.
fn trigger_at(
    bench: &mut Bench,
    queue: &mut TriggerQueue,
    counter: &Counter,
    threshold: u64,
) -> Checked {
    let status = queue.status().rd_ptr();
    tell(bench, queue, |batch| batch.emit_trigger_event(counter, threshold))?;
    let until = Instant::now() + Duration::from_millis(100);
    // A queue that stands still shows in the missing event.
    while queue.status().rd_ptr() == status && Instant::now() < until {
        counter.written_back();
    }
    Ok(())
}

fn threshold(bench: &mut Bench, expected: u64) -> Checked {
    let event = bench.expect(TRIGGERED, C_RC_OK)?;
    match event.record {
        EventRecord::TriggeredShort(record) => equal("threshold", record.threshold(), expected),
        _ => Err(differs("an event of 16 bytes", event.bytes.len())),
    }
}

/// Waits for the next write-back, which has these counts.
fn written(bench: &mut Bench, counter: &Counter, success: u64, failure: u8) -> Checked {
    let seen = write_back(bench, counter)?;
    equal("counts", seen, Counts { success, failure })
}

/// Waits for a write-back with these counts; others may come before it.
fn last_written(bench: &mut Bench, counter: &Counter, success: u64, failure: u8) -> Checked {
    let expected = Counts { success, failure };
    let mut seen = write_back(bench, counter)?;
    for _ in 0..3 {
        if seen != expected {
            seen = write_back(bench, counter)?;
        }
    }
    equal("counts", seen, expected)
}

fn write_back(bench: &mut Bench, counter: &Counter) -> Checked<Counts> {
    let until = Instant::now() + crate::bench::LIMIT;
    loop {
        if let Some(counts) = counter.written_back() {
            return Ok(counts);
        }
        if Instant::now() >= until {
            bench.trace.event.clear();
            return Err(differs("a write-back", "none"));
        }
        std::hint::spin_loop();
    }
}
