//! The states of portals.

use cxi::records::IdcMsgHdr;
use cxi::sys::*;
use cxi::{EventType, ObjectState};

use crate::bench::{
    Bench, Checked, Portal, Seen, bytes_of, ensure, equal, has, matching, silent, skipped,
};
use crate::table::{CheckGroup, FactCheck, assumed, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "portals", checks: CHECKS };

/// PCI vendor and device of Cassini 1, whose drop count starts one lower if the NIC has disabled
/// the portal (nic.md 8.2).
const CASSINI_1: (u32, u32) = (0x17db, 0x0501);

/// A drop count that is not compared (nic.md 8.2).
const ANY_COUNT: u32 = (1 << 24) - 1;

const CHECKS: &[FactCheck] = &[
    stated("new-portal", "libcxi.md 8.3", |bench| {
        let _portal = bench.disabled_portal(0, CXI_EQ_EC_DISABLE, |_| {})?;
        bench.put(8, C_RC_PT_DISABLED, |_| {}).map(drop)
    })
    .shows("a portal that was mapped and not enabled receives nothing: PT_DISABLED")
    .provokes(&[]),
    stated("enable", "nic.md 8.2", |bench| {
        let mut portal = bench.disabled_portal(0, CXI_EQ_EC_DISABLE, |_| {})?;
        let change = bench.set_state(&mut portal, C_PTLTE_ENABLED, 0, C_RC_OK)?.long()?;
        equal("ptlte_index", change.ptlte_index(), portal.entry.number())?;
        equal("sc_nic_auto", change.sc_nic_auto(), false)?;
        bench.append(&mut portal, silent)?;
        bench.put(8, C_RC_OK, |_| {}).map(drop)
    })
    .shows("SETSTATE reports a STATE_CHANGE by software with the portal and the new state"),
    stated("disable", "nic.md 8.2", |bench| {
        let mut portal = bench.plain()?;
        bench.set_state(&mut portal, C_PTLTE_DISABLED, 0, C_RC_OK)?;
        bench.put(8, C_RC_PT_DISABLED, |_| {})?;
        bench.get(8, C_RC_PT_DISABLED, |_| {})?;
        bench.set_state(&mut portal, C_PTLTE_ENABLED, ANY_COUNT, C_RC_OK)?;
        bench.put(8, C_RC_OK, |_| {}).map(drop)
    })
    .shows(
        "a disabled portal refuses operations with PT_DISABLED, and works when it is enabled \
         again",
    )
    .provokes(&[]),
    stated("append-while-disabled", "nic.md 8.2", |bench| {
        let mut portal = bench.portal(0, |_| {})?;
        bench.set_state(&mut portal, C_PTLTE_DISABLED, 0, C_RC_OK)?;
        bench.append(&mut portal, silent)?;
        bench.set_state(&mut portal, C_PTLTE_ENABLED, ANY_COUNT, C_RC_OK)?;
        bench.put(8, C_RC_OK, |_| {}).map(drop)
    })
    .shows("APPEND works while a portal is disabled"),
    stated("flow-control", "nic.md 8.3", |bench| {
        let mut portal = bench.portal(0, flow_control)?;
        bench.put(8, C_RC_PT_DISABLED, |_| {})?;
        let change = bench.expect_at(&mut portal, EventType::STATE_CHANGE, C_RC_OK)?;
        by_nic(&change, C_SC_FC_NO_MATCH)?;
        bench.put(8, C_RC_PT_DISABLED, |_| {}).map(drop)
    })
    .shows(
        "without entry, a portal with flow control is disabled by the NIC with reason FC_NO_MATCH",
    )
    .provokes(&[]),
    stated("drop-count", "nic.md 8.2", |bench| {
        let mut portal = bench.portal(0, flow_control)?;
        for _ in 0..2 {
            bench.put(8, C_RC_PT_DISABLED, |_| {})?;
        }
        bench.expect_at(&mut portal, EventType::STATE_CHANGE, C_RC_OK)?;
        bench.set_state(&mut portal, C_PTLTE_ENABLED, 7, C_RC_NO_MATCH)?;
        bench.put(8, C_RC_PT_DISABLED, |_| {})?;
        bench.set_state(&mut portal, C_PTLTE_ENABLED, ANY_COUNT, C_RC_OK).map(drop)
    })
    .shows("enabling needs the number of dropped messages, else NO_MATCH, and all ones ignores it")
    .provokes(&[]),
    stated("drop-count-value", "nic.md 8.2", |bench| {
        let mut portal = bench.portal(0, flow_control)?;
        for _ in 0..3 {
            bench.put(8, C_RC_PT_DISABLED, |_| {})?;
        }
        bench.expect_at(&mut portal, EventType::STATE_CHANGE, C_RC_OK)?;
        let dropped = drop_count(bench, 3);
        for count in [dropped - 1, dropped + 1] {
            bench.set_state(&mut portal, C_PTLTE_ENABLED, count, C_RC_NO_MATCH)?;
        }
        bench.set_state(&mut portal, C_PTLTE_ENABLED, dropped, C_RC_OK).map(drop)
    })
    .shows(
        "the drop count of a portal that the NIC disabled is the number of refused messages, one \
         less on Cassini 1",
    )
    .provokes(&[]),
    stated("status", "nic.md 8.7", |bench| {
        let mut portal = bench.portal(0, flow_control)?;
        for _ in 0..3 {
            bench.put(8, C_RC_PT_DISABLED, |_| {})?;
        }
        bench.expect_at(&mut portal, EventType::STATE_CHANGE, C_RC_OK)?;
        let states = bench.lni.observer().states();
        let found = states.iter().find_map(|state| match *state {
            ObjectState::Portal { number, state, dropped } if number == portal.entry.number() => {
                Some((u32::from(state), dropped))
            }
            _ => None,
        });
        match found {
            Some(found) => {
                let dropped = drop_count(bench, 3);
                equal("state, drop count", found, (C_PTLTE_DISABLED, dropped))
            }
            None => skipped("the library has no cxil_pte_status, or the driver refuses it"),
        }
    })
    .shows("the driver reports the state and the drop count of a portal")
    .provokes(&[]),
    stated("software-managed", "nic.md 8.2", |bench| {
        let mut portal = bench.portal(0, matching)?;
        let state = C_PTLTE_SOFTWARE_MANAGED;
        bench.set_state(&mut portal, state, ANY_COUNT, C_RC_OK)?;
        let entry = bench.entry(&portal);
        bench.command(|batch| batch.emit_target(&entry))?;
        let code = C_RC_PTLTE_SW_MANAGED;
        bench.expect_at(&mut portal, EventType::LINK, code)?;
        bench.set_state(&mut portal, C_PTLTE_ENABLED, ANY_COUNT, C_RC_OK)?;
        bench.append(&mut portal, |entry| _ = entry.set_restart_seq(true)).map(drop)
    })
    .shows("APPEND to the PRIORITY list of a portal that software manages reports PTLTE_SW_MANAGED")
    .provokes(&[]),
    stated("headers-of-requests", "nic.md 8.8", |bench| {
        let (mut portal, pattern) = requests(bench)?;
        let mut offset = 0;
        for len in [5, 20] {
            bench.put(len, C_RC_OK, |_| {})?;
            offset += request(bench, &mut portal, offset, &pattern[..len], 0, 20 + 43)?;
            let state = bench.c_state(false);
            bench.send(|batch| batch.emit_c_state(&state))?;
            let mut small = IdcMsgHdr::new();
            small.set_dfa(bench.dfa(0));
            bench.send(|batch| batch.emit_idc_msg(&small, &pattern[..len]))?;
            bench.expect(EventType::ACK, C_RC_OK)?;
            offset += request(bench, &mut portal, offset, &pattern[..len], 1, 20 + 29)?;
        }
        bench.quiet_at(&mut portal)
    })
    .shows(
        "messages on the REQUEST list follow each other without gaps, behind headers of version 4 \
         whose type tells their length, and which mlength includes",
    ),
    assumed("remote-offset-of-request", "nic.md 8.8", |bench| {
        let (mut portal, pattern) = requests(bench)?;
        let offset = 0x01_0203_0405_0607;
        bench.put(5, C_RC_OK, |put| _ = put.set_remote_offset(offset))?;
        request(bench, &mut portal, 0, &pattern[..5], 0, 20 + 43)?;
        let expected = [1, 2, 3, 4, 5, 6, 7];
        has("remote offset", &bench.remote, 20 + 22, &expected)
    })
    .shows(
        "a put on the REQUEST list has its remote offset in bytes 22 to 28 of the transport \
         header",
    ),
    stated("two-indexes", "nic.md 8.1", |bench| {
        let mut portal = bench.plain()?;
        portal.entry.map(&bench.domain, 40)?;
        for index in [0, 40] {
            let (dfa, ext) = (bench.dfa(index), cxi::address::index_ext(index));
            bench.put(8, C_RC_OK, |put| _ = put.set_dfa(dfa).set_index_ext(ext))?;
        }
        Ok(())
    })
    .shows("a portal can be mapped at several indexes"),
    stated("freed-portal", "nic.md 8.1", |bench| {
        let portal = bench.plain()?;
        bench.put(8, C_RC_OK, |_| {})?;
        portal.entry.close()?;
        bench.put(8, C_RC_PTLTE_NOT_FOUND, |_| {})?;
        let _portal = bench.portal(0, |_| {})?;
        bench.put(8, C_RC_ENTRY_NOT_FOUND, |_| {}).map(drop)
    })
    .shows("freeing a portal releases its entries: its index is without portal, and free again")
    .provokes(&[]),
    stated("use-of-list-entries", "nic.md 6.6", |bench| {
        let mut portal = bench.portal(0, matching)?;
        let mut counts = Vec::new();
        for _ in 0..20 {
            let link = bench.append(&mut portal, |_| {})?.long()?;
            counts.push(link.lpe_stat_1());
        }
        let adds_one = counts.windows(2).any(|pair| pair[1].wrapping_sub(pair[0]) == 1);
        ensure(adds_one, "one entry more in use after an append", format_args!("{counts:?}"))
    })
    .shows(
        "LINK has the list entries in use in lpe_stat_1: each append adds one, beside what other \
         processes of the pool do",
    ),
];

/// A portal that software manages, with the target's memory on its REQUEST list, and the pattern in
/// the initiator's memory.
fn requests(bench: &mut Bench) -> Checked<(Portal, Vec<u8>)> {
    let mut portal = bench.portal(0, matching)?;
    let pattern = bench.fill()?;
    bench.set_state(&mut portal, C_PTLTE_SOFTWARE_MANAGED, ANY_COUNT, C_RC_OK)?;
    bench.append(&mut portal, |entry| {
        entry.set_ptl_list(C_PTL_LIST_REQUEST as u8).set_manage_local(true);
    })?;
    Ok((portal, pattern))
}

/// Expects a message on the REQUEST list at offset `at` of the target's memory: `headers` bytes of
/// headers of this type, then `data`. Returns its length.
fn request(
    bench: &mut Bench,
    portal: &mut Portal,
    at: usize,
    data: &[u8],
    kind: u8,
    headers: usize,
) -> Checked<usize> {
    let put = bench.expect_at(portal, EventType::PUT, C_RC_OK)?.long()?;
    equal("ptl_list", u32::from(put.ptl_list()), C_PTL_LIST_REQUEST)?;
    equal("start", put.start(), bench.remote.iova(at))?;
    let seen = bytes_of(&bench.remote, at, headers)?;
    equal("version", seen[0] >> 4, 4)?;
    equal("type", seen[20] >> 4 & 7, kind)?;
    equal("mlength", put.mlength() as usize, headers + data.len())?;
    has("data", &bench.remote, at + headers, data)?;
    Ok(headers + data.len())
}

/// The drop count of a portal that the NIC has disabled, after `refused` messages.
fn drop_count(bench: &Bench, refused: u32) -> u32 {
    let info = bench.nic.device.info();
    let is_first = (info.vendor_id, info.device_id) == CASSINI_1;
    refused - u32::from(is_first)
}

fn flow_control(options: &mut cxi_pt_alloc_opts) {
    options.set_is_matching(1);
    options.set_en_flowctrl(1);
}

/// Checks that the NIC has disabled a portal for this reason.
pub fn by_nic(change: &Seen, reason: c_sc_reason) -> Checked {
    let change = change.long()?;
    let seen =
        (u32::from(change.ptlte_state()), change.sc_nic_auto(), u32::from(change.sc_reason()));
    equal("ptlte_state, sc_nic_auto, sc_reason", seen, (C_PTLTE_DISABLED, true, reason))
}
