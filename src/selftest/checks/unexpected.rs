//! Messages that come before their list entries.

use cxi::EventType;
use cxi::records::TargetCmd;
use cxi::sys::*;

use crate::bench::{Bench, Checked, Portal, ensure, equal, has, matching};
use crate::table::{CheckGroup, FactCheck, assumed, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "unexpected", checks: CHECKS };

const ACK: EventType = EventType::ACK;
const PUT: EventType = EventType::PUT;

const CHECKS: &[FactCheck] = &[
    stated("message", "nic.md 8.6", |bench| {
        let mut portal = bench.portal(0, matching)?;
        unexpected(bench, &mut portal, &[5])?;
        let pattern: Vec<u8> = (1..=20).collect();
        has("data", &bench.remote, 0, &pattern)
    })
    .shows("a message that only OVERFLOW matches is a long PUT there, and the ACK says OVERFLOW"),
    stated("append-finds-message", "nic.md 8.6", |bench| {
        let mut portal = bench.portal(0, matching)?;
        unexpected(bench, &mut portal, &[5])?;
        let entry = waiting_entry(bench, &portal, 5);
        bench.command(|batch| batch.emit_target(&entry))?;
        let kind = EventType::PUT_OVERFLOW;
        let found = bench.expect_at(&mut portal, kind, C_RC_OK)?.long()?;
        equal("buffer_id", found.buffer_id(), 2)?;
        equal("start", found.start(), bench.remote.iova(0))?;
        equal("rlength, mlength", (found.rlength(), found.mlength()), (20, 20))?;
        equal("match_bits", found.match_bits(), 5)?;
        bench.quiet_at(&mut portal)
    })
    .shows("an APPEND that matches a waiting message reports PUT_OVERFLOW, not LINK"),
    stated("messages-in-order", "nic.md 8.6", |bench| {
        let mut portal = bench.portal(0, matching)?;
        unexpected(bench, &mut portal, &[5, 6, 5])?;
        let mut starts = Vec::new();
        for _ in 0..2 {
            let entry = waiting_entry(bench, &portal, 5);
            bench.command(|batch| batch.emit_target(&entry))?;
            let kind = EventType::PUT_OVERFLOW;
            let found = bench.expect_at(&mut portal, kind, C_RC_OK)?.long()?;
            starts.push(found.start() - bench.remote.iova(0));
        }
        equal("places of the messages", starts, vec![0, 40])
    })
    .shows("waiting messages are found in the order of their arrival"),
    stated("search", "nic.md 6.5", |bench| {
        let mut portal = bench.portal(0, matching)?;
        unexpected(bench, &mut portal, &[5, 6, 5])?;
        search(bench, &mut portal, C_CMD_TGT_SEARCH)?;
        for code in [C_RC_OK, C_RC_OK, C_RC_NO_MATCH] {
            let event = bench.expect_at(&mut portal, EventType::SEARCH, code)?;
            equal("buffer_id", event.target()?.buffer_id, 3)?;
        }
        bench.quiet_at(&mut portal)
    })
    .shows("SEARCH reports each waiting message, and then NO_MATCH"),
    stated("search-and-delete", "nic.md 6.5", |bench| {
        let mut portal = bench.portal(0, matching)?;
        unexpected(bench, &mut portal, &[5, 5])?;
        search(bench, &mut portal, C_CMD_TGT_SEARCH_AND_DELETE)?;
        for _ in 0..2 {
            bench.expect_at(&mut portal, EventType::PUT_OVERFLOW, C_RC_OK)?;
        }
        bench.expect_at(&mut portal, EventType::SEARCH, C_RC_NO_MATCH)?;
        search(bench, &mut portal, C_CMD_TGT_SEARCH)?;
        bench.expect_at(&mut portal, EventType::SEARCH, C_RC_NO_MATCH).map(drop)
    })
    .shows(
        "SEARCH_AND_DELETE reports PUT_OVERFLOW for each message, then SEARCH, and they are gone",
    ),
    assumed("search-event-size", "nic.md 15", |bench| {
        let mut portal = bench.portal(0, matching)?;
        search(bench, &mut portal, C_CMD_TGT_SEARCH)?;
        let end = bench.expect_at(&mut portal, EventType::SEARCH, C_RC_NO_MATCH)?;
        equal("bytes of the event", end.bytes.len(), 64)
    })
    .shows("SEARCH has 64 bytes"),
    assumed("list-of-found-message", "nic.md 15", |bench| {
        let mut portal = bench.portal(0, matching)?;
        unexpected(bench, &mut portal, &[5])?;
        let entry = waiting_entry(bench, &portal, 5);
        bench.command(|batch| batch.emit_target(&entry))?;
        let found = bench.expect_at(&mut portal, EventType::PUT_OVERFLOW, C_RC_OK)?;
        equal("ptl_list", found.list(), C_PTL_LIST_OVERFLOW)
    })
    .shows("PUT_OVERFLOW has the list OVERFLOW"),
    assumed("found-message-without-event", "nic.md 15", |bench| {
        let mut portal = bench.portal(0, matching)?;
        unexpected(bench, &mut portal, &[5])?;
        let mut entry = waiting_entry(bench, &portal, 5);
        entry.set_event_success_disable(true);
        bench.command(|batch| batch.emit_target(&entry))?;
        // The message was taken: no search finds it.
        search(bench, &mut portal, C_CMD_TGT_SEARCH)?;
        bench.expect_at(&mut portal, EventType::SEARCH, C_RC_NO_MATCH).map(drop)
    })
    .shows("event_success_disable of the new entry suppresses PUT_OVERFLOW"),
    assumed("header-disabled", "nic.md 15", |bench| {
        let mut portal = bench.open(matching, |entry| {
            entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8).set_ignore_bits(u64::MAX);
            entry.set_unexpected_hdr_disable(true);
        })?;
        bench.put(8, C_RC_OK, |put| _ = put.set_match_bits(5))?;
        bench.expect_at(&mut portal, PUT, C_RC_OK)?;
        search(bench, &mut portal, C_CMD_TGT_SEARCH)?;
        bench.expect_at(&mut portal, EventType::SEARCH, C_RC_NO_MATCH).map(drop)
    })
    .shows("with unexpected_hdr_disable a message in OVERFLOW leaves no header to be found"),
    assumed("get-at-overflow", "nic.md 15", |bench| {
        let _portal = bench
            .open_silent(matching, |entry| _ = entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8))?;
        bench.get(8, C_RC_ENTRY_NOT_FOUND, |_| {}).map(drop)
    })
    .shows("a get does not match an entry of the OVERFLOW list: ENTRY_NOT_FOUND")
    .provokes(&[]),
];

/// Puts a message of 20 bytes with each of these match bits into an OVERFLOW entry.
fn unexpected(bench: &mut Bench, portal: &mut Portal, bits: &[u64]) -> Checked {
    bench.append(portal, |entry| {
        entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8).set_buffer_id(1);
        entry.set_ignore_bits(u64::MAX).set_manage_local(true);
    })?;
    bench.fill()?;
    for bits in bits {
        let mut put = bench.dma(C_CMD_PUT, 20);
        put.set_match_bits(*bits);
        bench.send(|batch| batch.emit_dma(&put))?;
        let ack = bench.expect(ACK, C_RC_OK)?;
        equal("ptl_list of the ACK", ack.list(), C_PTL_LIST_OVERFLOW)?;
        let put = bench.expect_at(portal, PUT, C_RC_OK)?;
        ensure(put.bytes.len() == 64, "a PUT of 64 bytes", put.bytes.len())?;
        equal(
            "buffer_id, ptl_list",
            (put.target()?.buffer_id, put.list()),
            (1, C_PTL_LIST_OVERFLOW),
        )?;
    }
    Ok(())
}

/// An entry for one message with these match bits.
fn waiting_entry(bench: &Bench, portal: &Portal, bits: u64) -> TargetCmd {
    let mut entry = bench.entry(portal);
    entry.set_buffer_id(2).set_match_bits(bits).set_use_once(true).set_event_unlink_disable(true);
    entry
}

/// Searches the UNEXPECTED list for messages with match bits 5.
fn search(bench: &mut Bench, portal: &mut Portal, opcode: u32) -> Checked {
    let mut command = bench.target_command(portal, opcode);
    command
        .set_ptl_list(C_PTL_LIST_UNEXPECTED as u8)
        .set_buffer_id(3)
        .set_match_bits(5)
        .set_match_id(CXI_MATCH_ID_ANY)
        .set_length(u64::MAX);
    bench.command(|batch| batch.emit_target(&command))
}
