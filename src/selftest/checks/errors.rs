//! Return codes of provoked errors, and the formats of events.

use cxi::sys::*;
use cxi::{EventQueue, EventRecord, EventType, MemoryRegion, Pages};

use facts::error_flag::ErrorFlag;

use crate::bench::{Checked, differs, ensure, equal, has, matching, silent, skipped};
use crate::table::{CheckGroup, FactCheck, assumed, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "errors", checks: CHECKS };

const CHECKS: &[FactCheck] = &[
    stated("no-portal", "nic.md 4.3", |bench| {
        let dfa = bench.dfa(64);
        bench.put(8, C_RC_PTLTE_NOT_FOUND, |put| _ = put.set_dfa(dfa))?;
        bench.get(8, C_RC_PTLTE_NOT_FOUND, |get| _ = get.set_dfa(dfa)).map(drop)
    })
    .shows("an operation to an index without portal ends with PTLTE_NOT_FOUND")
    .provokes(&[]),
    stated("other-vni", "nic.md 4.3", |bench| {
        let other = bench.on_other_vni()?;
        let _portal = bench.plain()?;
        let put = bench.dma(C_CMD_PUT, 8);
        bench.send(|batch| {
            batch.emit_lcid(&other.profile)?;
            batch.emit_dma(&put)
        })?;
        bench.expect(EventType::ACK, C_RC_PTLTE_NOT_FOUND).map(drop)
    })
    .shows("on the own NIC, an operation on a VNI without portal ends with PTLTE_NOT_FOUND")
    .provokes(&[]),
    stated("no-entry", "nic.md 8.3", |bench| {
        let _portal = bench.portal(0, |_| {})?;
        bench.put(8, C_RC_ENTRY_NOT_FOUND, |_| {})?;
        bench.get(8, C_RC_ENTRY_NOT_FOUND, |_| {}).map(drop)
    })
    .shows(
        "an operation to a portal without entry and without flow control ends with \
         ENTRY_NOT_FOUND",
    )
    .provokes(&[]),
    inferred("put-not-permitted", "nic.md 7", |bench| {
        let _portal = bench.open_silent(|_| {}, |entry| _ = entry.set_op_put(false))?;
        bench.put(8, C_RC_OP_VIOLATION, |_| {}).map(drop)
    })
    .shows("a put to an entry without op_put ends with OP_VIOLATION")
    .provokes(&[(ErrorFlag::OP_VIOLATION, 1)]),
    inferred("get-not-permitted", "nic.md 7", |bench| {
        let _portal = bench.open_silent(|_| {}, |entry| _ = entry.set_op_get(false))?;
        bench.get(8, C_RC_OP_VIOLATION, |_| {}).map(drop)
    })
    .shows("a get from an entry without op_get ends with OP_VIOLATION")
    .provokes(&[(ErrorFlag::OP_VIOLATION, 1)]),
    inferred("restricted-to-matching-portal", "nic.md 7", |bench| {
        let _portal = bench.open(matching, silent)?;
        bench.put(8, C_RC_INVALID_ENDPOINT, |put| _ = put.set_restricted(true)).map(drop)
    })
    .shows("a restricted operation to a matching portal ends with INVALID_ENDPOINT")
    .provokes(&[(ErrorFlag::INVALID_ENDPOINT, 1)]),
    inferred("restricted-to-local-entry", "nic.md 3.10.1", |bench| {
        for (allowed, code) in [(0, C_RC_RESTRICTED_UNICAST), (1, C_RC_OK)] {
            let portal = bench.open_silent(
                |options| options.set_en_restricted_unicast_lm(allowed),
                |entry| _ = entry.set_manage_local(true),
            )?;
            bench.put(8, code, |put| _ = put.set_restricted(true))?;
            portal.entry.close()?;
        }
        Ok(())
    })
    .shows(
        "a restricted put to a locally managed entry ends with RESTRICTED_UNICAST, unless the \
         portal has en_restricted_unicast_lm",
    )
    .provokes(&[(ErrorFlag::RESTRICTED_UNICAST, 1)]),
    stated("beyond-entry", "nic.md 7.1", |bench| {
        let mut portal = bench.open(|_| {}, |entry| _ = entry.set_length(3000))?;
        bench.fill()?;
        let mut put = bench.dma(C_CMD_PUT, 3000);
        put.set_remote_offset(1);
        bench.provoke_code(C_RC_NO_SPACE)?;
        bench.send(|batch| batch.emit_dma(&put))?;
        let ack = bench.event()?;
        fails(&ack, EventType::ACK)?;
        let event = bench.event_at(&mut portal)?;
        fails(&event, EventType::PUT)?;
        has("memory", &bench.remote, 0, &[0xee; 3100])
    })
    .shows(
        "an access beyond an entry whose offset the initiator chooses fails on both sides and \
         moves nothing",
    )
    .provokes(&[(ErrorFlag::NO_SPACE, 1)]),
    assumed("beyond-entry-code", "nic.md 15", |bench| {
        let _portal = bench.open_silent(|_| {}, |entry| _ = entry.set_length(3000))?;
        bench.put(3001, C_RC_NO_SPACE, |_| {})?;
        bench.get(1, C_RC_NO_SPACE, |get| _ = get.set_remote_offset(3000)).map(drop)
    })
    .shows("an access beyond an entry ends with NO_SPACE")
    .provokes(&[(ErrorFlag::NO_SPACE, 2)]),
    assumed("local-address-not-mapped", "nic.md 15", |bench| {
        let _portal = bench.plain()?;
        // Both memories are in one context, and the address is far beyond them.
        let address = bench.local.iova(0) ^ 1 << 50;
        let put = *bench.dma(C_CMD_PUT, 8).set_local_addr(address);
        bench.send(|batch| batch.emit_dma(&put))?;
        not_mapped(&bench.event()?, EventType::ACK)?;
        let get = *bench.dma(C_CMD_GET, 8).set_local_addr(address);
        bench.send(|batch| batch.emit_dma(&get))?;
        not_mapped(&bench.event()?, EventType::REPLY)
    })
    .shows(
        "a local address that is not mapped ends with NO_TRANSLATION, ADDR_OUT_OF_RANGE or \
         PAGE_REQ_ERROR",
    )
    .provokes(&[]),
    assumed("entry-not-mapped", "nic.md 15", |bench| {
        let mut portal = bench.portal(0, |_| {})?;
        let address = bench.remote.iova(0) ^ 1 << 50;
        bench.append(&mut portal, |entry| {
            silent(entry);
            entry.set_start(address);
        })?;
        let put = bench.dma(C_CMD_PUT, 8);
        bench.send(|batch| batch.emit_dma(&put))?;
        not_mapped(&bench.event()?, EventType::ACK)
    })
    .shows(
        "an entry over memory that is not mapped ends with NO_TRANSLATION, ADDR_OUT_OF_RANGE or \
         PAGE_REQ_ERROR at the initiator",
    )
    .provokes(&[]),
    stated("address-context", "nic.md 7", |bench| {
        let _portal = bench.plain()?;
        bench.put(8, C_RC_INVALID_AC, |put| _ = put.set_lac(7)).map(drop)
    })
    .shows("a logical address context that is not configured ends with INVALID_AC")
    .provokes(&[]),
    stated("memory-rights", "nic.md 7", |bench| {
        let portal = bench.plain()?;
        let map = |flag| {
            let memory = Pages::anonymous(4096)?;
            MemoryRegion::map(&bench.lni, memory, CXI_MAP_PIN | flag)
        };
        let (unreadable, unwritable) = (map(CXI_MAP_WRITE)?, map(CXI_MAP_READ)?);
        bench.put(8, C_RC_PAGE_PERM_ERROR, |put| {
            put.set_lac(unreadable.lac()).set_local_addr(unreadable.iova(0));
        })?;
        bench.get(8, C_RC_PAGE_PERM_ERROR, |get| {
            get.set_lac(unwritable.lac()).set_local_addr(unwritable.iova(0));
        })?;
        portal.entry.close()?;
        let portal = bench.open_silent(
            |_| {},
            |entry| {
                entry.set_lac(unwritable.lac()).set_start(unwritable.iova(0)).set_length(4096);
            },
        )?;
        bench.put(8, C_RC_PAGE_PERM_ERROR, |_| {})?;
        portal.entry.close()?;
        Ok(())
    })
    .shows(
        "a put from memory mapped without READ, or to memory mapped without WRITE, ends with \
         PAGE_PERM_ERROR",
    )
    .provokes(&[(ErrorFlag::PAGE_PERMISSION, 3)]),
    stated("failure-despite-disabled-events", "nic.md 6.4", |bench| {
        let dfa = bench.dfa(64);
        bench
            .put(8, C_RC_PTLTE_NOT_FOUND, |put| {
                put.set_dfa(dfa).set_event_success_disable(true);
            })
            .map(drop)
    })
    .shows("a failure is reported to the initiator although success events are disabled")
    .provokes(&[]),
    assumed("target-error-flag", "nic.md 15", |bench| {
        let _portal = bench.plain()?;
        let dfa = bench.dfa(64);
        let at_target = bench.put(8, C_RC_PTLTE_NOT_FOUND, |put| _ = put.set_dfa(dfa))?;
        let own = bench.put(8, C_RC_INVALID_AC, |put| _ = put.set_lac(7))?;
        let flags = [at_target, own].map(|event| match event.record {
            EventRecord::InitiatorShort(event) => Some(event.tgt_error()),
            _ => None,
        });
        equal("tgt_error", flags, [Some(true), Some(false)])
    })
    .shows("tgt_error is set in the event of a failure at the target only")
    .provokes(&[]),
    stated("long-initiator-events", "nic.md 6.3", |bench| {
        let _portal = bench.plain()?;
        let flags = CXI_EQ_EC_DISABLE | CXI_EQ_INIT_LONG;
        let mut events = EventQueue::new(&bench.lni, 8, flags.into())?;
        let mut queue = cxi::TransmitQueue::new(&bench.profile, 64, &events, None)?;
        let mut put = bench.dma(C_CMD_PUT, 8);
        put.set_eq(events.number());
        let mut batch = queue.batch();
        batch.emit_dma(&put)?;
        batch.commit_doorbell();
        let ack = crate::bench::next(&mut events, &mut bench.trace)?;
        equal("type, bytes", (ack.kind, ack.bytes.len()), (EventType::ACK, 32))?;
        equal("user_ptr", ack.user_ptr(), put.user_ptr())
    })
    .shows("INIT_LONG makes initiator events 32 bytes long"),
    stated("time-stamps", "libcxi.md 8.1", |bench| {
        let flags = CXI_EQ_EC_DISABLE | CXI_EQ_TIMESTAMP_EVENTS;
        let mut events = EventQueue::new(&bench.lni, 8, flags.into())?;
        let Ok(event) = crate::bench::next(&mut events, &mut bench.trace) else {
            return skipped("none came: ee_timestamp_period_ms of the driver may be longer");
        };
        equal(
            "type, bytes",
            (u32::from(event.kind.0), event.bytes.len()),
            (C_EVENT_TIMESTAMP, 16),
        )?;
        let word = |at: usize| {
            event.bytes[at..at + 6].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        let ns = word(0) & ((1 << 30) - 1);
        ensure(ns < 1_000_000_000, "ns below 10^9", ns)
    })
    .shows(
        "a queue with TIMESTAMP_EVENTS gets a TIMESTAMP event once in each period, 1 s by default",
    ),
    stated("event-sizes", "nic.md 6.3", |bench| {
        let flags = CXI_EQ_EC_DISABLE;
        let mut portal = bench.disabled_portal(0, flags, matching)?;
        let change = bench.set_state(&mut portal, C_PTLTE_ENABLED, 0, C_RC_OK)?;
        equal("STATE_CHANGE", change.bytes.len(), 64)?;
        let link = bench.append(&mut portal, |_| {})?;
        equal("LINK", link.bytes.len(), 64)?;
        bench.put(8, C_RC_OK, |_| {})?;
        let put = bench.expect_at(&mut portal, EventType::PUT, C_RC_OK)?;
        equal("PUT", put.bytes.len(), 32)?;
        bench.get(8, C_RC_OK, |_| {})?;
        let get = bench.expect_at(&mut portal, EventType::GET, C_RC_OK)?;
        equal("GET", get.bytes.len(), 32)?;
        let command = bench.target_command(&portal, C_CMD_TGT_UNLINK);
        bench.command(|batch| batch.emit_target(&command))?;
        let unlink = bench.expect_at(&mut portal, EventType::UNLINK, C_RC_OK)?;
        equal("UNLINK", unlink.bytes.len(), 64)
    })
    .shows("LINK, UNLINK and STATE_CHANGE have 64 bytes, PUT and GET of the PRIORITY list 32"),
    stated("combined-events", "nic.md 5.7", |bench| {
        let _portal = bench.plain()?;
        let mut events = EventQueue::new(&bench.lni, 60, 0)?;
        let mut queue = cxi::TransmitQueue::new(&bench.profile, 64, &events, None)?;
        let mut put = bench.dma(C_CMD_PUT, 8);
        put.set_eq(events.number());
        let mut batch = queue.batch();
        for number in 0..20 {
            put.set_user_ptr(number);
            batch.emit_dma(&put)?;
        }
        batch.commit_doorbell();
        let mut seen = Vec::new();
        for _ in 0..20 {
            let ack = crate::bench::next(&mut events, &mut bench.trace)?;
            equal("code", u32::from(ack.code.0), C_RC_OK)?;
            seen.push(ack.user_ptr());
        }
        seen.sort_unstable();
        ensure((0..20).eq(seen.iter().copied()), "each event once", format_args!("{seen:?}"))
    })
    .shows("a queue without EC_DISABLE delivers each event of a burst once"),
];

/// Checks that an event of this type reports one of the codes for an address that is not mapped
/// (nic.md 15).
fn not_mapped(event: &crate::bench::Seen, kind: EventType) -> Checked {
    let codes = [C_RC_NO_TRANSLATION, C_RC_ADDR_OUT_OF_RANGE, C_RC_PAGE_REQ_ERROR];
    if event.kind == kind && codes.contains(&event.code.0.into()) {
        return Ok(());
    }
    Err(differs(
        format_args!("{kind} NO_TRANSLATION, ADDR_OUT_OF_RANGE or PAGE_REQ_ERROR"),
        format_args!("{} {}", event.kind, event.code),
    ))
}

/// Checks that an event of this type reports a failure.
fn fails(event: &crate::bench::Seen, kind: EventType) -> Checked {
    if event.kind == kind && u32::from(event.code.0) != C_RC_OK {
        return Ok(());
    }
    Err(differs(
        format_args!("{kind} with a failure"),
        format_args!("{} {}", event.kind, event.code),
    ))
}
