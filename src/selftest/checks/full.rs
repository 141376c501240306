//! What happens on full event queues, and on command queues that are used up to their limits.

use std::time::{Duration, Instant};

use cxi::records::FullDmaCmd;
use cxi::sys::*;
use cxi::{Counter, EventQueue, EventType, ObjectState, TransmitQueue, TriggerQueue};

use super::portals::by_nic;
use crate::bench::{Bench, Checked, LIMIT, Portal, differs, ensure, equal, next, skipped};
use crate::table::{CheckGroup, FactCheck, assumed, stated};
use facts::error_flag::ErrorFlag;

pub static GROUP: CheckGroup = CheckGroup { name: "full", checks: CHECKS };

/// An event that has not come after this time was dropped. A NIC delivers within microseconds.
const DROPPED_AFTER: Duration = Duration::from_millis(200);

const CHECKS: &[FactCheck] = &[
    stated("target-event-queue", "nic.md 5.6", |bench| {
        let (mut portal, accepted) = fill(bench, 0, C_RC_ENTRY_NOT_FOUND)?;
        for number in 0..accepted {
            let put = bench.expect_at(&mut portal, EventType::PUT, C_RC_OK)?.target()?;
            equal("header_data", put.header_data, number)?;
        }
        bench.put(8, C_RC_OK, |_| {})?;
        bench.expect_at(&mut portal, EventType::PUT, C_RC_OK).map(drop)
    })
    .shows(
        "a message without room for its event is refused with ENTRY_NOT_FOUND, and nothing is \
         lost",
    )
    .provokes(&[(ErrorFlag::EQ_OVERFLOW_RESERVATION, 1)]),
    stated("target-event-queue-with-flow-control", "nic.md 5.6", |bench| {
        let (mut portal, accepted) = fill(bench, 1, C_RC_PT_DISABLED)?;
        for _ in 0..accepted {
            bench.expect_at(&mut portal, EventType::PUT, C_RC_OK)?;
        }
        let change = bench.expect_at(&mut portal, EventType::STATE_CHANGE, C_RC_OK)?;
        by_nic(&change, C_SC_FC_EQ_FULL)
    })
    .shows(
        "with flow control the message is refused with PT_DISABLED, and the NIC disables the \
         portal with reason FC_EQ_FULL",
    )
    .provokes(&[(ErrorFlag::EQ_OVERFLOW_RESERVATION, 1)]),
    stated("dropped-events", "nic.md 5.6", |bench| {
        let slots = cxi::page_size() / 64;
        let (delivered, has_dropped) = overfill(bench, 4 * slots)?;
        ensure(
            (slots - 3..4 * slots).contains(&delivered),
            format_args!("{} to {} events", slots - 3, 4 * slots - 1),
            delivered,
        )?;
        ensure(has_dropped, "unackd_dropped_event 1", "0")
    })
    .shows("completions without room are dropped, and the status block says so")
    .provokes(&[(ErrorFlag::EQ_OVERFLOW, 1)]),
    assumed("small-events-share-a-slot", "nic.md 15", |bench| {
        let capacity = 4 * (cxi::page_size() / 64 - 2);
        let (delivered, _) = overfill(bench, capacity)?;
        equal("events without a gap", delivered, capacity)
    })
    .shows("with EC_DISABLE, events of 16 bytes follow each other in a slot, four to each")
    .provokes(&[(ErrorFlag::EQ_OVERFLOW, 1)]),
    stated("event-queue-wraps", "nic.md 5.2", |bench| {
        let _portal = bench.plain()?;
        let mut events = EventQueue::new(&bench.lni, 60, CXI_EQ_EC_DISABLE.into())?;
        let mut queue = TransmitQueue::new(&bench.profile, 64, &events, None)?;
        let mut put = bench.dma(C_CMD_PUT, 8);
        put.set_eq(events.number());
        let laps = 10 * 64 * 4;
        let mut number = 0;
        while number < laps {
            for step in 0..10 {
                put.set_user_ptr(number + step);
                let mut batch = queue.batch();
                batch.emit_dma(&put)?;
                batch.commit_doorbell();
            }
            let mut seen = Vec::new();
            for _ in 0..10 {
                let ack = next(&mut events, &mut bench.trace)?;
                equal("type", ack.kind, EventType::ACK)?;
                seen.push(ack.user_ptr());
            }
            seen.sort_unstable();
            let expected = format_args!("{number} to {}", number + 9).to_string();
            let is_whole = (number..number + 10).eq(seen.iter().copied());
            ensure(is_whole, expected, format_args!("{seen:?}"))?;
            number += 10;
        }
        Ok(())
    })
    .shows("over ten laps of an event queue no event is lost, repeated or torn"),
    stated("largest-command-queue", "nic.md 2.1", |bench| {
        let _portal = bench.plain()?;
        let events = &bench.events;
        let mut queue = match TransmitQueue::new(&bench.profile, 65536, events, None) {
            Err(error) if error.errno() == libc::ENOMEM => {
                return skipped("no 4 MiB of contiguous memory");
            }
            queue => queue?,
        };
        equal("slots", queue.slots(), 65536)?;
        let put = bench.nomatch(C_CMD_NOMATCH_PUT, 8);
        let mut batch = queue.batch();
        batch.emit_nomatch_dma(&put)?;
        batch.commit_doorbell();
        bench.expect(EventType::ACK, C_RC_OK).map(drop)
    })
    .shows("a command queue of 65536 slots executes its commands"),
];

/// Puts to a portal with an event queue of one page until a put ends with `code`. Returns how many
/// were accepted before.
fn fill(bench: &mut Bench, flow_control: u32, code: u32) -> Checked<(Portal, u64)> {
    // Long events take a slot each. The STATE_CHANGE of flow control needs slots that messages may
    // not use.
    let flags = CXI_EQ_EC_DISABLE | CXI_EQ_TGT_LONG;
    let reserved = 8 * flow_control;
    let events = EventQueue::with_reserved_slots(&bench.lni, 60, flags.into(), reserved)?;
    let mut portal = bench.portal_on(events, 0, |options| {
        options.set_en_flowctrl(flow_control.into());
    })?;
    bench.set_state(&mut portal, C_PTLTE_ENABLED, 0, C_RC_OK)?;
    bench.append(&mut portal, |_| {})?;
    let slots = (cxi::page_size() / 64) as u64;
    bench.provoke(ErrorFlag::EQ_OVERFLOW_RESERVATION)?;
    for number in 0..slots {
        let mut put = bench.dma(C_CMD_PUT, 8);
        put.set_header_data(number);
        bench.send(|batch| batch.emit_dma(&put))?;
        let ack = bench.event()?;
        match u32::from(ack.code.0) {
            C_RC_OK => {}
            seen if seen == code && number >= slots / 2 => return Ok((portal, number)),
            _ => return Err(differs("OK until the queue is full", ack.code)),
        }
    }
    Err(differs(format_args!("less than {slots} events"), "more"))
}

/// Puts until an event is missing, at most `most` times, without giving room back: one event is
/// dropped at most. The wrapper keeps room for each operation, so the commands go in as bytes.
/// Returns the number of events that were delivered, and whether the status block says that one was
/// dropped.
fn overfill(bench: &mut Bench, most: usize) -> Checked<(usize, bool)> {
    let _portal = bench.plain()?;
    let mut events = EventQueue::new(&bench.lni, 1, CXI_EQ_EC_DISABLE.into())?;
    let mut trigger = TriggerQueue::new(&bench.profile, 64, &bench.events)?;
    let counter = Counter::new(&bench.lni)?;
    let mut put: FullDmaCmd = bench.dma(C_CMD_PUT, 8);
    put.set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_cmd_size(C_CMD_SIZE_64B as u8)
        .set_eq(events.number())
        .set_event_ct_ack(true)
        .set_ct(counter.number());
    bench.provoke(ErrorFlag::EQ_OVERFLOW)?;
    for delivered in 0..most {
        bench.send(|batch| batch.emit_bytes(put.bytes()))?;
        let mut batch = trigger.batch();
        batch.emit_trigger_event(&counter, delivered as u64 + 1)?;
        batch.commit_doorbell();
        bench.expect(EventType::TRIGGERED_OP, C_RC_OK)?;
        let Some(event) = unacknowledged(&mut events) else {
            // The status block is written apart from events.
            let until = Instant::now() + LIMIT;
            let mut has_dropped = false;
            while !has_dropped && Instant::now() < until {
                let states = bench.lni.observer().states();
                has_dropped = states.iter().any(|state| {
                    matches!(state, ObjectState::EventQueue { number, has_dropped: true }
                        if *number == events.number())
                });
            }
            return Ok((delivered, has_dropped));
        };
        equal("type", event, EventType::ACK)?;
    }
    Ok((most, false))
}

/// Waits for the next event of a queue, for longer than an event takes, and leaves its room in use.
fn unacknowledged(events: &mut EventQueue) -> Option<EventType> {
    let until = Instant::now() + DROPPED_AFTER;
    loop {
        // The last look at the queue is after the time: the process may have had no CPU before.
        let is_late = Instant::now() >= until;
        if let Some(event) = events.poll() {
            return Some(event.event_type());
        }
        if is_late {
            return None;
        }
        std::hint::spin_loop();
    }
}
