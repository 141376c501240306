//! Puts and gets: data, completion, fields of events.

use cxi::records::IdcMsgHdr;
use cxi::sys::*;
use cxi::{EventRecord, EventType};

use crate::bench::{Bench, Checked, LEN, USER_PTR, bytes_of, ensure, equal, has, matching, silent};
use crate::table::{CheckGroup, FactCheck, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "moves", checks: CHECKS };

/// Lengths around the ends of immediate data, of cache lines, of packets and of pages.
const LENGTHS: [usize; 11] = [0, 1, 63, 64, 2047, 2048, 2049, 4096, 5000, 65536, 200_000];

const CHECKS: &[FactCheck] = &[
    stated("ack", "nic.md 6.4", |bench| {
        let _portal = bench.plain()?;
        let ack = bench.put(5000, C_RC_OK, |_| {})?;
        equal("bytes of the event", ack.bytes.len(), 16)?;
        equal("user_ptr", ack.user_ptr(), USER_PTR)?;
        equal("mlength", ack.mlength(), 5000)?;
        equal("ptl_list", ack.list(), C_PTL_LIST_PRIORITY)?;
        bench.quiet()
    })
    .shows("a put ends with one ACK of 16 bytes with user_ptr, mlength and the list that matched"),
    stated("immediate-put-restricted", "nic.md 3.2", |bench| {
        let _portal = bench.plain()?;
        let pattern = bench.fill()?;
        let state = bench.c_state(true);
        let header = bench.idc(40);
        bench.send(|batch| {
            batch.emit_c_state(&state)?;
            batch.emit_idc_put(&header, &pattern[..224])
        })?;
        let ack = bench.expect(EventType::ACK, C_RC_OK)?;
        equal("mlength", ack.mlength(), 224)?;
        has("data", &bench.remote, 40, &pattern[..224])?;
        has("bytes before the data", &bench.remote, 0, &[0xee; 40])
    })
    .shows("a restricted immediate put moves up to 224 bytes"),
    stated("immediate-put-empty", "nic.md 3.5", |bench| {
        let _portal = bench.plain()?;
        bench.fill()?;
        let state = bench.c_state(true);
        let header = bench.idc(0);
        bench.send(|batch| {
            batch.emit_c_state(&state)?;
            batch.emit_idc_put(&header, &[])
        })?;
        bench.expect(EventType::ACK, C_RC_OK)?;
        has("memory", &bench.remote, 0, &[0xee; 64])
    })
    .shows("an immediate put of 0 bytes is legal, and moves nothing"),
    inferred("immediate-put-matching", "nic.md 3.5", |bench| {
        let mut portal = bench.open(matching, |_| {})?;
        let state = bench.c_state(false);
        let header = bench.idc(0);
        bench.send(|batch| {
            batch.emit_c_state(&state)?;
            batch.emit_idc_put(&header, &[1; 8])
        })?;
        bench.expect(EventType::ACK, C_RC_OK)?;
        let put = bench.expect_at(&mut portal, EventType::PUT, C_RC_OK)?.target()?;
        equal("match_bits, header_data", (put.match_bits, put.header_data), (0, 0))?;
        // The report names no addresses.
        let is_own = put.initiator == bench.match_id();
        equal("the initiator is this NIC and PID", is_own, true)
    })
    .shows("an unrestricted immediate put has match bits 0 and header data 0"),
    stated("small-message", "nic.md 3.6", |bench| {
        let mut portal = bench.open(matching, |entry| _ = entry.set_match_bits(5))?;
        let pattern = bench.fill()?;
        let state = bench.c_state(false);
        bench.send(|batch| batch.emit_c_state(&state))?;
        for len in [0, 1, 32, 33, 96, 97, 192] {
            let mut header = IdcMsgHdr::new();
            header.set_dfa(bench.dfa(0)).set_match_bits(5).set_header_data(6).set_user_ptr(7);
            bench.send(|batch| batch.emit_idc_msg(&header, &pattern[..len]))?;
            let ack = bench.expect(EventType::ACK, C_RC_OK)?;
            equal("user_ptr", ack.user_ptr(), 7)?;
            let put = bench.expect_at(&mut portal, EventType::PUT, C_RC_OK)?.target()?;
            equal("match_bits, header_data", (put.match_bits, put.header_data), (5, 6))?;
            equal("length", put.rlength as usize, len)?;
            has("data", &bench.remote, 0, &pattern[..len])?;
        }
        Ok(())
    })
    .shows("a small message of up to 192 bytes carries match bits, header data and user pointer"),
    inferred("nomatch-put", "nic.md 3.8", |bench| {
        let _portal = bench.plain()?;
        let pattern = bench.fill()?;
        let mut put = bench.nomatch(C_CMD_NOMATCH_PUT, 3000);
        put.set_remote_offset(9);
        bench.send(|batch| batch.emit_nomatch_dma(&put))?;
        let ack = bench.expect(EventType::ACK, C_RC_OK)?;
        equal("user_ptr", ack.user_ptr(), 0)?;
        has("data", &bench.remote, 9, &pattern[..3000])
    })
    .shows("a non-matching put ends with an ACK whose user_ptr is 0"),
    stated("nomatch-get", "nic.md 3.8", |bench| {
        let _portal = bench.plain()?;
        let mut get = bench.nomatch(C_CMD_NOMATCH_GET, 3000);
        get.set_remote_offset(9);
        got(bench, 3000, 9, |batch| batch.emit_nomatch_dma(&get))
    })
    .shows("a restricted non-matching get returns the data with its REPLY"),
    stated("unrestricted-get-at-plain-entry", "nic.md 3.9", |bench| {
        let _portal = bench.plain()?;
        for len in LENGTHS {
            let mut get = bench.dma(C_CMD_GET, len);
            get.set_remote_offset(9);
            got(bench, len, 9, |batch| batch.emit_dma(&get))?;
        }
        Ok(())
    })
    .shows(
        "a full, unrestricted get reads from an entry without matching, as read-lat \
         --unrestricted needs it",
    ),
    stated("restricted-get-with-user-pointer", "nic.md 3.9", |bench| {
        let _portal = bench.plain()?;
        let reply = bench.get(3000, C_RC_OK, |get| _ = get.set_restricted(true))?;
        equal("user_ptr", reply.user_ptr(), USER_PTR)
    })
    .shows("a full get may be restricted, and its REPLY has the user pointer"),
    stated("restricted-put-with-user-pointer", "nic.md 3.9", |bench| {
        let _portal = bench.plain()?;
        let ack = bench.put(3000, C_RC_OK, |put| _ = put.set_restricted(true))?;
        equal("user_ptr", ack.user_ptr(), USER_PTR)
    })
    .shows("a full put may be restricted, and its ACK has the user pointer"),
    stated("put-lengths", "nic.md 6.4", |bench| {
        let _portal = bench.plain()?;
        let pattern = bench.fill()?;
        for len in LENGTHS {
            bench.remote.fill(0xee)?;
            let ack = bench.put(len, C_RC_OK, |put| _ = put.set_remote_offset(5))?;
            equal("mlength", ack.mlength() as usize, len)?;
            has("bytes before the data", &bench.remote, 0, &[0xee; 5])?;
            has("data", &bench.remote, 5, &pattern[..len])?;
            has("byte after the data", &bench.remote, 5 + len, &[0xee])?;
        }
        bench.quiet()
    })
    .shows("a put of any length moves its bytes and no others, and has one ACK"),
    stated("get-from-matching-entry", "nic.md 3.9", |bench| {
        let _portal = bench.open_silent(matching, |entry| _ = entry.set_match_bits(0xabc))?;
        let mut get = bench.dma(C_CMD_GET, 100);
        get.set_match_bits(0xabc);
        got(bench, 100, 0, |batch| batch.emit_dma(&get))
    })
    .shows("a get with match bits reads from the entry with these bits"),
    stated("initiator-verbatim", "nic.md 3.9", |bench| {
        let mut portal = bench.open(matching, |entry| _ = entry.set_ignore_bits(u64::MAX))?;
        bench.put(8, C_RC_OK, |put| {
            put.set_initiator(0x1122_3344)
                .set_match_bits(0x5566_7788_99aa_bbcc)
                .set_header_data(0xddee_ff00_1122_3344);
        })?;
        let put = bench.expect_at(&mut portal, EventType::PUT, C_RC_OK)?.target()?;
        equal("initiator", put.initiator, 0x1122_3344)?;
        equal("match_bits", put.match_bits, 0x5566_7788_99aa_bbcc)?;
        equal("header_data", put.header_data, 0xddee_ff00_1122_3344)?;
        equal("vni", u32::from(put.vni), bench.nic.vni)
    })
    .shows("the target sees the initiator, match bits and header data of the command unchanged"),
    stated("index-extension", "nic.md 4.1", |bench| {
        let granule = bench.nic.device.info().pid_granule;
        for index in [0, 1, 31, 32, 37, granule - 1] {
            let mut portal = bench.portal(index, |_| {})?;
            bench.append(&mut portal, silent)?;
            let dfa = bench.dfa(index);
            let ext = cxi::address::index_ext(index);
            bench.put(8, C_RC_OK, |put| _ = put.set_dfa(dfa).set_index_ext(ext))?;
            portal.entry.close()?;
        }
        Ok(())
    })
    .shows("a portal index reaches its portal by the endpoint and the 5 bits in the command"),
    stated("flush", "nic.md 12", |bench| {
        let _portal = bench.plain()?;
        for number in 1..=20 {
            bench.local.fill(number)?;
            bench.put(4096, C_RC_OK, |put| _ = put.set_flush(true))?;
            has("data", &bench.remote, 0, &[number; 4096])?;
        }
        Ok(())
    })
    .shows("after the ACK of a put with flush, the target's memory has its data"),
    stated("put-after-put", "nic.md 12", |bench| {
        let _portal = bench.plain()?;
        let pattern = bench.fill()?;
        for last in 0..20 {
            for number in 0..10 {
                let source = bench.local.iova(if number == 9 { last } else { 100 + number });
                let mut put = bench.dma(C_CMD_PUT, 3000);
                put.set_local_addr(source).set_flush(number == 9);
                bench.send(|batch| batch.emit_dma(&put))?;
            }
            for _ in 0..10 {
                bench.expect(EventType::ACK, C_RC_OK)?;
            }
            has("data", &bench.remote, 0, &pattern[last..last + 3000])?;
        }
        Ok(())
    })
    .shows("unrestricted puts of one queue to one place take effect in their order"),
    inferred("send-event", "nic.md 3.3", |bench| {
        let _portal = bench.plain()?;
        let mut put = bench.dma(C_CMD_PUT, 8);
        put.set_event_send_disable(false);
        bench.send(|batch| batch.emit_dma(&put))?;
        let mut kinds = [bench.event()?.kind.0, bench.event()?.kind.0];
        kinds.sort_unstable();
        equal("event types", kinds, [C_EVENT_SEND as u8, C_EVENT_ACK as u8])
    })
    .shows("without event_send_disable a put has a SEND event beside its ACK"),
    inferred("no-event-queue", "nic.md 6.4", |bench| {
        let _portal = bench.plain()?;
        let pattern = bench.fill()?;
        let mut unreported = bench.dma(C_CMD_PUT, 8);
        unreported.set_eq(0);
        let mut reported = bench.dma(C_CMD_PUT, 8);
        reported.set_user_ptr(2).set_remote_offset(8);
        bench.send(|batch| {
            batch.emit_dma(&unreported)?;
            batch.emit_fence()?;
            batch.emit_dma(&reported)
        })?;
        let ack = bench.expect(EventType::ACK, C_RC_OK)?;
        equal("user_ptr", ack.user_ptr(), 2)?;
        has("data", &bench.remote, 0, &pattern[..8])?;
        bench.quiet()
    })
    .shows("a command without event queue delivers no event"),
    stated("success-disabled", "nic.md 6.4", |bench| {
        let _portal = bench.plain()?;
        let mut good = bench.dma(C_CMD_PUT, 8);
        good.set_event_success_disable(true);
        let mut bad = good;
        bad.set_dfa(bench.dfa(64)).set_user_ptr(3);
        bench.send(|batch| {
            batch.emit_dma(&good)?;
            batch.emit_fence()?;
            batch.emit_dma(&bad)
        })?;
        let ack = bench.expect(EventType::ACK, C_RC_PTLTE_NOT_FOUND)?;
        equal("user_ptr", ack.user_ptr(), 3)?;
        bench.quiet()
    })
    .shows("event_success_disable suppresses the event of a success, and not that of a failure")
    .provokes(&[]),
    stated("immediate-and-dma-under-hrp", "nic.md 3.11", high_rate_puts).shows(
        "under the High Rate Put profile, immediate and DMA puts of up to 2048 bytes follow each \
         other in one queue",
    ),
];

/// Issues a get of `len` bytes from `offset` by `emit`, and compares what it returns.
fn got(
    bench: &mut Bench,
    len: usize,
    offset: usize,
    emit: impl FnOnce(&mut cxi::TransmitBatch<'_>) -> Result<(), cxi::EmitError>,
) -> Checked {
    let pattern: Vec<u8> = (0..LEN).map(|at| (at % 241) as u8).collect();
    bench.remote.copy_in(0, &pattern)?;
    bench.local.fill(0xee)?;
    bench.send(emit)?;
    let reply = bench.expect(EventType::REPLY, C_RC_OK)?;
    ensure(
        matches!(reply.record, EventRecord::InitiatorShort(_)),
        "an event of 16 bytes",
        reply.bytes.len(),
    )?;
    equal("mlength", reply.mlength() as usize, len)?;
    let seen = bytes_of(&bench.local, 0, len + 1)?;
    ensure(seen[..len] == pattern[offset..offset + len], "the target's data", "other data")?;
    equal("byte after the data", seen[len], 0xee)
}

/// A queue under the High Rate Put profile, as write-bw uses it below and above the limit of
/// immediate data. The switch acknowledges these puts: data may arrive later, and is not compared.
fn high_rate_puts(bench: &mut Bench) -> Checked {
    bench.nic.needs_best_effort()?;
    let _portal = bench.plain()?;
    let pattern = bench.fill()?;
    let profile = bench.profile_of(CXI_TC_TYPE_HRP)?;
    let state = bench.c_state(true);
    bench.send(|batch| {
        batch.emit_lcid(&profile)?;
        batch.emit_c_state(&state)
    })?;
    for len in [1, 8, 64, 192, 224] {
        let header = bench.idc(0);
        let mut put = bench.nomatch(C_CMD_NOMATCH_PUT, 2048);
        put.set_remote_offset(4096);
        bench.send(|batch| {
            for _ in 0..2 {
                batch.emit_idc_put(&header, &pattern[..len])?;
                batch.emit_nomatch_dma(&put)?;
            }
            Ok(())
        })?;
        for _ in 0..4 {
            bench.expect(EventType::ACK, C_RC_OK)?;
        }
    }
    Ok(())
}
