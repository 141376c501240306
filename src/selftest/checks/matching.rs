//! List entries: matching, use, placement, unexpected messages.

use cxi::sys::*;
use cxi::{EventType, ReturnCode, address};

use facts::error_flag::ErrorFlag;

use crate::bench::{Bench, Checked, Portal, Seen, equal, has, matching, silent};
use crate::table::{CheckGroup, FactCheck, assumed, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "matching", checks: CHECKS };

const PUT: EventType = EventType::PUT;
const UNLINK: EventType = EventType::UNLINK;

const CHECKS: &[FactCheck] = &[
    stated("match-bits", "nic.md 8.4", |bench| {
        let _portal = bench.open_silent(matching, |entry| {
            entry.set_match_bits(0xf0).set_ignore_bits(0x0f);
        })?;
        for (bits, code) in [
            (0xf0, C_RC_OK),
            (0xff, C_RC_OK),
            (0xe0, C_RC_ENTRY_NOT_FOUND),
            (1 << 63 | 0xf0, C_RC_ENTRY_NOT_FOUND),
        ] {
            bench.put(8, code, |put| _ = put.set_match_bits(bits))?;
        }
        Ok(())
    })
    .shows("an entry matches if the bits agree that its ignore bits leave")
    .provokes(&[]),
    stated("match-id", "nic.md 8.4", match_ids)
        .shows("an entry matches the PID and the node of the initiator, each if not all ones")
        .provokes(&[]),
    stated("order", "nic.md 8.3", |bench| {
        let mut portal = bench.portal(0, matching)?;
        for number in [7, 3, 5] {
            bench.append(&mut portal, |entry| {
                entry.set_use_once(true).set_buffer_id(number);
                entry.set_event_unlink_disable(true);
            })?;
        }
        for number in [7, 3, 5] {
            bench.put(8, C_RC_OK, |_| {})?;
            let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
            equal("buffer_id", put.buffer_id, number)?;
        }
        bench.put(8, C_RC_ENTRY_NOT_FOUND, |_| {}).map(drop)
    })
    .shows("the entry that was appended first takes a message that several entries match")
    .provokes(&[]),
    stated("plain-entry-takes-all", "nic.md 8.4", |bench| {
        let _portal =
            bench.open_silent(|_| {}, |entry| _ = entry.set_match_bits(5).set_match_id(9))?;
        bench.put(8, C_RC_OK, |put| _ = put.set_match_bits(6).set_initiator(1))?;
        bench.put(8, C_RC_OK, |put| _ = put.set_restricted(true)).map(drop)
    })
    .shows(
        "on a portal without matching each operation matches the first entry, whatever its bits",
    ),
    inferred("no-truncate", "nic.md 8.4", |bench| {
        let mut portal = bench.portal(0, matching)?;
        for (number, length) in [(1, 100), (2, 1000)] {
            bench.append(&mut portal, |entry| {
                entry.set_no_truncate(true).set_manage_local(true);
                entry.set_length(length).set_buffer_id(number);
            })?;
        }
        bench.put(101, C_RC_OK, |_| {})?;
        let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
        equal("buffer_id", put.buffer_id, 2)
    })
    .shows("an entry with no_truncate matches messages that fit only"),
    stated("use-once", "nic.md 8.5", |bench| {
        let mut portal =
            bench.open(matching, |entry| _ = entry.set_use_once(true).set_buffer_id(9))?;
        bench.put(8, C_RC_OK, |_| {})?;
        let unlink = bench.expect_at(&mut portal, UNLINK, C_RC_OK)?.target()?;
        equal("buffer_id of the UNLINK", unlink.buffer_id, 9)?;
        let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
        equal("auto_unlinked of the PUT", put.auto_unlinked, true)?;
        bench.put(8, C_RC_ENTRY_NOT_FOUND, |_| {}).map(drop)
    })
    .shows("an entry for one operation reports UNLINK, then PUT with auto_unlinked, and is gone")
    .provokes(&[]),
    inferred("automatic-unlink-flag", "nic.md 8.5", |bench| {
        let mut portal = bench.open(matching, |entry| _ = entry.set_use_once(true))?;
        bench.put(8, C_RC_OK, |_| {})?;
        let automatic = bench.expect_at(&mut portal, UNLINK, C_RC_OK)?.target()?;
        bench.expect_at(&mut portal, PUT, C_RC_OK)?;
        bench.append(&mut portal, |_| {})?;
        let manual = unlink(bench, &mut portal, 0, C_RC_OK)?.target()?;
        let flags = [automatic.auto_unlinked, manual.auto_unlinked];
        equal("auto_unlinked", flags, [true, false])
    })
    .shows("the UNLINK of an automatic unlink has auto_unlinked, that of a command has not"),
    stated("unlink-event-disabled", "nic.md 6.5", |bench| {
        let mut portal = bench.open(matching, |entry| {
            entry.set_use_once(true).set_event_unlink_disable(true);
        })?;
        bench.put(8, C_RC_OK, |_| {})?;
        let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
        equal("auto_unlinked", put.auto_unlinked, true)?;
        bench.append(&mut portal, |entry| _ = entry.set_event_unlink_disable(true))?;
        unlink(bench, &mut portal, 0, C_RC_OK).map(drop)
    })
    .shows(
        "event_unlink_disable suppresses the UNLINK of an automatic unlink, not that of a command",
    ),
    stated("unlink-of-missing-entry", "nic.md 6.5", |bench| {
        let mut portal = bench.open(matching, |entry| _ = entry.set_buffer_id(4))?;
        unlink(bench, &mut portal, 5, C_RC_ENTRY_NOT_FOUND)?;
        unlink(bench, &mut portal, 4, C_RC_OK)?;
        unlink(bench, &mut portal, 4, C_RC_ENTRY_NOT_FOUND).map(drop)
    })
    .shows("UNLINK of an entry that is gone reports ENTRY_NOT_FOUND")
    .provokes(&[]),
    stated("local-placement", "nic.md 8.5", |bench| {
        let _portal = bench.open_silent(matching, |entry| _ = entry.set_manage_local(true))?;
        let pattern = bench.fill()?;
        let mut offset = 0;
        for len in [3, 5000, 17, 64] {
            bench.put(len, C_RC_OK, |put| _ = put.set_remote_offset(77))?;
            has("data", &bench.remote, offset, &pattern[..len])?;
            offset += len;
        }
        has("byte after the data", &bench.remote, offset, &[0xee])
    })
    .shows("a locally managed entry packs messages without gaps and ignores their offset"),
    stated("truncation", "nic.md 7.1", |bench| {
        let mut portal = bench.open(matching, |entry| {
            entry.set_manage_local(true).set_length(1);
        })?;
        let ack = bench.put(2048, C_RC_OK, |_| {})?;
        equal("mlength of the ACK", ack.mlength(), 1)?;
        let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
        equal("rlength, mlength", (put.rlength, put.mlength), (2048, 1))
    })
    .shows("a locally managed entry truncates: OK, with mlength below rlength on both sides"),
    inferred("full-entry-stays", "nic.md 8.5", |bench| {
        let mut portal = bench.open(matching, |entry| {
            entry.set_manage_local(true).set_length(1);
        })?;
        for moved in [1, 0, 0] {
            let ack = bench.put(8, C_RC_OK, |_| {})?;
            equal("mlength", ack.mlength(), moved)?;
            let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
            equal("auto_unlinked", put.auto_unlinked, false)?;
        }
        Ok(())
    })
    .shows("a full locally managed entry with min_free 0 stays linked and truncates to nothing"),
    stated("min-free", "nic.md 8.5", |bench| {
        let shift = bench.nic.device.info().min_free_shift;
        let unit = 1_usize << shift;
        let mut portal = bench.open(matching, |entry| {
            entry.set_manage_local(true).set_length(10 * unit as u64);
            entry.set_min_free(4);
        })?;
        bench.put(6 * unit, C_RC_OK, |_| {})?;
        let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
        equal("auto_unlinked at min_free", put.auto_unlinked, false)?;
        bench.put(1, C_RC_OK, |_| {})?;
        bench.expect_at(&mut portal, UNLINK, C_RC_OK)?;
        let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.target()?;
        equal("auto_unlinked below min_free", put.auto_unlinked, true)
    })
    .shows(
        "a locally managed entry unlinks itself when less than min_free is left, not at min_free",
    ),
    stated("start-of-long-event", "nic.md 6.6", |bench| {
        let flags = CXI_EQ_EC_DISABLE | CXI_EQ_TGT_LONG;
        let mut portal = bench.portal_with(0, flags, matching)?;
        bench.append(&mut portal, |entry| _ = entry.set_buffer_id(0xbeef))?;
        bench.put(100, C_RC_OK, |put| _ = put.set_remote_offset(33))?;
        let put = bench.expect_at(&mut portal, PUT, C_RC_OK)?.long()?;
        equal("start", put.start(), bench.remote.iova(33))?;
        equal("remote_offset", put.remote_offset(), 33)?;
        equal("rlength, mlength", (put.rlength(), put.mlength()), (100, 100))?;
        equal("buffer_id", put.buffer_id(), 0xbeef)?;
        equal("ptlte_index", put.ptlte_index(), portal.entry.number())
    })
    .shows("a long event has the first address, the offset and both lengths"),
    assumed("failure-without-event", "nic.md 15", |bench| {
        let mut portal = bench.open_silent(|_| {}, |entry| _ = entry.set_manage_local(true))?;
        bench.put(8, C_RC_RESTRICTED_UNICAST, |put| _ = put.set_restricted(true))?;
        bench.quiet_at(&mut portal)
    })
    .shows("event_comm_disable suppresses the target's event of a failure too")
    .provokes(&[(ErrorFlag::RESTRICTED_UNICAST, 1)]),
    assumed("any-node-in-20-bits", "nic.md 15", |bench| {
        let mut portal = bench.portal(0, matching)?;
        let (bits, pid) = (bench.nic.device.info().pid_bits, bench.domain.pid());
        bench.append(&mut portal, |entry| {
            silent(entry);
            entry.set_match_id(address::match_id(bits, pid, 0xfffff));
        })?;
        bench.put(8, C_RC_OK, |_| {}).map(drop)
    })
    .shows("a node of 0xfffff in an entry is a wildcard too"),
    inferred("match-event", "nic.md 6.5", |bench| {
        let mut portal = bench.open(
            |options| {
                options.set_is_matching(1);
                options.set_en_event_match(1);
            },
            |_| {},
        )?;
        bench.put(60, C_RC_OK, |_| {})?;
        let mut kinds = [bench.event_at(&mut portal)?.kind, bench.event_at(&mut portal)?.kind];
        kinds.sort_unstable_by_key(|kind| kind.0);
        equal("events", kinds, [PUT, EventType::MATCH])
    })
    .shows("a portal with en_event_match reports MATCH beside the PUT"),
    stated("silent-entry", "nic.md 6.5", |bench| {
        let mut portal = bench.plain()?;
        bench.put(8, C_RC_OK, |_| {})?;
        bench.get(8, C_RC_OK, |_| {})?;
        bench.quiet_at(&mut portal)
    })
    .shows("event_success_disable and event_comm_disable leave no event of a put or get"),
    stated("link-disabled", "nic.md 6.5", |bench| {
        let mut portal = bench.portal(0, |_| {})?;
        let mut entry = bench.entry(&portal);
        silent(&mut entry);
        entry.set_event_link_disable(true);
        bench.command(|batch| batch.emit_target(&entry))?;
        // The second append is linked after the first.
        bench.append(&mut portal, |entry| _ = entry.set_buffer_id(6))?;
        bench.put(8, C_RC_OK, |_| {})?;
        bench.quiet_at(&mut portal)
    })
    .shows("event_link_disable suppresses the LINK of an append that succeeds"),
];

fn match_ids(bench: &mut Bench) -> Checked {
    let info = bench.nic.device.info();
    let (bits, pid) = (info.pid_bits, bench.domain.pid());
    let nid = address::sent_nid(info.nid);
    let (any_pid, any_node) = ((1 << bits) - 1, u32::MAX);
    let mut portal = bench.portal(0, matching)?;
    for (pid_of, node, own, other_pid, other_node) in [
        (pid, nid, true, false, false),
        (any_pid, nid, true, true, false),
        (pid, any_node, true, false, true),
        (any_pid, any_node, true, true, true),
    ] {
        let id = address::match_id(bits, pid_of, node);
        bench.append(&mut portal, |entry| {
            silent(entry);
            entry.set_match_id(id);
        })?;
        for (initiator, is_matched) in [
            (address::match_id(bits, pid, nid), own),
            (address::match_id(bits, pid ^ 1, nid), other_pid),
            (address::match_id(bits, pid, nid ^ 1), other_node),
        ] {
            let code = if is_matched { C_RC_OK } else { C_RC_ENTRY_NOT_FOUND };
            bench.put(8, code, |put| _ = put.set_initiator(initiator))?;
        }
        let mut command = bench.target_command(&portal, C_CMD_TGT_UNLINK);
        command.set_buffer_id(0);
        bench.command(|batch| batch.emit_target(&command))?;
        // The target may report messages that matched nothing (nic.md 6.5).
        loop {
            let seen = bench.event_at(&mut portal)?;
            match (seen.kind, u32::from(seen.code.0)) {
                (UNLINK, C_RC_OK) => break,
                (PUT, C_RC_ENTRY_NOT_FOUND) => {}
                _ => return equal("event", (seen.kind, seen.code), (UNLINK, ReturnCode::OK)),
            }
        }
    }
    Ok(())
}

/// Unlinks an entry of the PRIORITY list, and waits for the UNLINK with this return code.
fn unlink(bench: &mut Bench, portal: &mut Portal, buffer_id: u16, code: u32) -> Checked<Seen> {
    let mut command = bench.target_command(portal, C_CMD_TGT_UNLINK);
    command.set_buffer_id(buffer_id);
    bench.command(|batch| batch.emit_target(&command))?;
    bench.expect_at(portal, UNLINK, code)
}
