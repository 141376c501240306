//! Portals that software manages (nic.md 8.2; docs/software-nic-reference.md, "Portals managed by
//! software").

use crate::bench::*;
use crate::driver::prelude::*;
use crate::request_headers::{HEADERS, Headers, SMALL_HEADERS};

pub const REQUEST: u32 = C_PTL_LIST_REQUEST;

/// State, reason and whether the NIC changed the state, from a STATE_CHANGE.
pub fn change(event: &Event) -> (u32, u32, bool) {
    assert_eq!(event.kind(), C_EVENT_STATE_CHANGE);
    let [state, reason, auto] = [8, 9, 10].map(|at| event.0[at]);
    (state.into(), reason.into(), auto == 1)
}

/// A bench whose portal software manages, without entries.
fn managed(choose: impl FnOnce(&mut cxi_pt_alloc_opts)) -> Bench {
    let mut bench = Bench::with(choose);
    manage(&mut bench);
    bench
}

fn manage(bench: &mut Bench) {
    let event = bench.rig.set_state(bench.portal, C_PTLTE_SOFTWARE_MANAGED);
    assert_eq!(change(&event), (C_PTLTE_SOFTWARE_MANAGED, 0, false));
    assert_eq!(event.code(), C_RC_OK);
}

/// Appends a request buffer over all of `sink`, changed by `choose`.
pub fn request(bench: &mut Bench, choose: impl FnOnce(&mut TargetCmd)) {
    let link = bench.append(|entry| {
        entry.set_ptl_list(REQUEST as u8).set_manage_local(true);
        choose(entry);
    });
    assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_OK));
}

#[test]
fn packs_messages_behind_headers() {
    alone!();
    let mut bench = managed(|_| {});
    request(&mut bench, |entry| _ = entry.set_buffer_id(7));
    /// With a different number in each byte.
    const OFFSET: u64 = 0x01_0203_0405_0607;
    let mut at = 0;
    for len in [0, 5, 200, 0, 2049, 20000] {
        let ack = bench.put(len, |put| {
            _ = put.set_match_bits(0x55).set_initiator(0x123).set_remote_offset(OFFSET)
        });
        assert_eq!((ack.code, ack.mlength), (C_RC_OK, len as u32));
        assert_eq!(ack.ptl_list, REQUEST);
        let expected = TargetEvent {
            long: true,
            kind: C_EVENT_PUT,
            code: C_RC_OK,
            ptlte_index: bench.portal.number,
            ptl_list: REQUEST,
            buffer_id: 7,
            initiator: 0x123,
            match_bits: 0x55,
            header_data: 0x1dea,
            vni: 1,
            rlength: len as u32,
            mlength: (HEADERS + len) as u32,
            start: bench.sink.iova(at),
            remote_offset: OFFSET,
            ..TargetEvent::default()
        };
        assert_eq!(bench.reported(), expected);
        let headers = Headers {
            header_data: 0x1dea,
            match_bits: 0x55,
            remote_offset: Some(OFFSET),
            initiator: 0x123,
            nid: bench.rig.nid,
            rlength: len as u32,
            following: len as u32,
            vni: 1,
            pid: bench.rig.pid as u16,
            ..Headers::default()
        };
        assert_eq!(Headers::read(bench.sink.pages, at), (headers, HEADERS));
        let data = bench.sink.pages.read(at + HEADERS, len);
        assert!(data == bench.source.pages.read(0, len), "{len} bytes");
        at += HEADERS + len;
    }
    assert!(bench.sink.pages.is(at, PAGE, 0), "behind the last message");
    bench.nothing_more();
}

/// Small messages have a shorter header without a remote offset, and follow others without gaps.
#[test]
fn packs_small_messages_behind_shorter_headers() {
    alone!();
    let mut bench = managed(|_| {});
    request(&mut bench, |entry| _ = entry.set_buffer_id(7));
    let (dfa, eq) = (bench.rig.dfa(0), bench.rig.eq.number);
    bench.rig.tx.emit(&c_state(eq, false, |state| _ = state.set_initiator(0x123)));
    let mut at = 0;
    for len in [0, 3, 17, 192] {
        assert_eq!(bench.put(1, |_| {}).code, C_RC_OK);
        assert_eq!(bench.reported().start, bench.sink.iova(at));
        at += HEADERS + 1;
        let payload: Vec<u8> = (0..len).map(|byte| byte as u8 + 9).collect();
        let message = idc_msg(&payload, |header| {
            _ = header.set_dfa(dfa).set_match_bits(0x77).set_header_data(0xda1a)
        });
        let ack = Completion::of(&bench.rig.run(&message));
        assert_eq!((ack.code, ack.mlength, ack.ptl_list), (C_RC_OK, len, REQUEST));
        let put = bench.reported();
        assert_eq!((put.kind, put.start), (C_EVENT_PUT, bench.sink.iova(at)));
        assert_eq!((put.rlength, put.mlength), (len, SMALL_HEADERS as u32 + len));
        let headers = Headers {
            header_data: 0xda1a,
            match_bits: 0x77,
            initiator: 0x123,
            nid: bench.rig.nid,
            rlength: len,
            following: len,
            vni: 1,
            pid: bench.rig.pid as u16,
            ..Headers::default()
        };
        assert_eq!(Headers::read(bench.sink.pages, at), (headers, SMALL_HEADERS));
        at += SMALL_HEADERS;
        assert!(bench.sink.pages.read(at, len as usize) == payload);
        at += len as usize;
    }
    assert!(bench.sink.pages.is(at, PAGE, 0), "behind the last message");
    bench.nothing_more();
}

/// The headers also have what immediate and restricted puts carry.
#[test]
fn stores_restricted_and_immediate_puts() {
    alone!();
    let mut bench = managed(|options| options.set_is_matching(0));
    let dfa = bench.rig.dfa(0);
    // Without events, and not managed locally: the list packs messages whatever its entries say.
    request(&mut bench, |entry| {
        quiet(entry);
        entry.set_manage_local(false);
    });
    let eq = bench.rig.eq.number;
    bench.rig.tx.emit(&c_state(eq, true, |_| {}));
    for _ in 0..3 {
        bench.rig.tx.emit(&idc_put(dfa, 9, &[5; 8]));
    }
    bench.rig.tx.ring();
    for at in [0, 71, 142] {
        assert_eq!(bench.rig.eq.wait().code(), C_RC_OK);
        let expected = Headers {
            remote_offset: Some(9),
            nid: bench.rig.nid,
            rlength: 8,
            following: 8,
            vni: 1,
            pid: bench.rig.pid as u16,
            flags: 4,
            ..Headers::default()
        };
        assert_eq!(Headers::read(bench.sink.pages, at), (expected, HEADERS));
        assert!(bench.sink.pages.is(at + HEADERS, 8, 5));
    }
    bench.nothing_more();
}

#[test]
fn software_fetches_rest_of_rendezvous_put() {
    alone!();
    const EAGER: usize = 100;
    const LEN: usize = 9000;
    let mut bench = managed(|_| {});
    // With room for the eager part only.
    request(&mut bench, |entry| _ = entry.set_length((HEADERS + EAGER) as u64));
    // The source's portal for gets.
    let rig = &mut bench.rig;
    let portal = rig.enabled(255, |options| options.set_is_matching(1));
    rig.append(portal, |entry| {
        whole(entry, &bench.source);
        match_all(entry);
        gets(entry);
        quiet(entry);
    })
    .is(C_EVENT_LINK, C_RC_OK);
    let initiator = match_id(rig.pid, rig.nid);
    let from = bench.source.iova(16);
    let ack = bench.put(LEN, |put| {
        put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
            .set_eager_length(EAGER as u32)
            .set_rendezvous_id(0xcc)
            .set_use_offset_for_get(true)
            .set_remote_offset(16)
            .set_local_addr(from)
            .set_initiator(initiator);
    });
    assert_eq!((ack.code, ack.mlength, ack.ptl_list), (C_RC_OK, EAGER as u32, REQUEST));
    let put = bench.reported();
    assert_eq!((put.kind, put.ptl_list, put.rendezvous), (C_EVENT_PUT, REQUEST, true));
    let written = (HEADERS + EAGER) as u32;
    assert_eq!((put.rlength, put.mlength), (LEN as u32, written));
    assert_eq!(put.remote_offset, 16 + EAGER as u64);
    let (headers, _) = Headers::read(bench.sink.pages, 0);
    assert_eq!((headers.flags, headers.rendezvous_id), (3, 0xcc));
    assert_eq!(headers.remote_offset, Some(16), "as the put has it");
    assert_eq!((headers.rlength, headers.following), (LEN as u32, EAGER as u32));
    // No get of the NIC: software issues it, with what the headers have.
    bench.nothing_more();
    let (dfa, ext) = address(headers.nid, headers.initiator >> 23, 255);
    let to = bench.sink.iova(HEADERS + EAGER);
    let get = bench.rig.dma_put(&bench.sink, 0, (LEN - EAGER) as u32, |get| {
        get.set_opcode(C_CMD_GET as u8)
            .set_dfa(dfa)
            .set_index_ext(ext)
            .set_local_addr(to)
            .set_remote_offset(put.remote_offset);
    });
    bench.rig.run(&get).is(C_EVENT_REPLY, C_RC_OK);
    assert!(bench.sink.pages.read(HEADERS, LEN) == bench.source.pages.read(16, LEN));
}

#[test]
fn refuses_gets_and_atomic_operations() {
    alone!();
    let mut bench = managed(|_| {});
    request(&mut bench, |entry| _ = entry.set_op_get(true));
    let (lac, from) = (bench.source.lac, bench.source.iova(0));
    let (dfa, eq) = (bench.rig.dfa(0), bench.rig.eq.number);
    let get = bench.rig.dma_put(&bench.source, 0, 8, |get| _ = get.set_opcode(C_CMD_GET as u8));
    let sum = |fetching| {
        dma_amo(fetching, |sum| {
            sum.set_dfa(dfa)
                .set_lac(lac)
                .set_local_read_addr(from)
                .set_write_lac(lac)
                .set_local_write_addr(from)
                .set_eq(eq);
        })
    };
    for (command, kind) in
        [(get, C_EVENT_REPLY), (sum(false), C_EVENT_ACK), (sum(true), C_EVENT_REPLY)]
    {
        bench.rig.run(&command).is(kind, C_RC_PTLTE_SW_MANAGED);
    }
    bench.nothing_more();
}

/// Messages that do not fit in the rest of a buffer go to the next one.
#[test]
fn unlinks_request_buffers_that_are_used_up() {
    alone!();
    let mut bench = managed(|_| {});
    let start = bench.sink.iova(4096);
    request(&mut bench, |entry| _ = entry.set_buffer_id(1).set_length(300).set_min_free(100));
    request(&mut bench, |entry| _ = entry.set_buffer_id(2).set_start(start).set_length(500));
    let put = |bench: &mut Bench, len| {
        assert_eq!(bench.put(len, |_| {}).code, C_RC_OK);
        bench.reported()
    };
    let event = put(&mut bench, 100);
    assert_eq!((event.buffer_id, event.start), (1, bench.sink.iova(0)));
    let event = put(&mut bench, 75);
    assert_eq!((event.buffer_id, event.start), (2, start));
    let event = put(&mut bench, 74);
    assert_eq!((event.kind, event.buffer_id), (C_EVENT_UNLINK, 1));
    assert_eq!((event.ptl_list, event.auto_unlinked), (REQUEST, true));
    let event = bench.reported();
    assert_eq!((event.kind, event.start), (C_EVENT_PUT, bench.sink.iova(163)));
    assert!(event.auto_unlinked);
    // A buffer without `min_free` stays when it is full.
    assert_eq!(bench.put(300, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
    assert_eq!(put(&mut bench, 299).start, start + 138);
    assert_eq!(bench.put(0, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
    let gone = bench
        .command(C_CMD_TGT_UNLINK, |entry| _ = entry.set_ptl_list(REQUEST as u8).set_buffer_id(2));
    assert_eq!((gone.kind, gone.code), (C_EVENT_UNLINK, C_RC_OK));
    bench.nothing_more();
}

#[test]
fn refuses_message_for_unusable_request_buffer() {
    alone!();
    let mut bench = managed(|_| {});
    // The data is mapped, the headers before it are not.
    let start = bench.sink.iova(0) - HEADERS as u64;
    request(&mut bench, |entry| _ = entry.set_start(start).set_buffer_id(1));
    assert_eq!(bench.put(8, |_| {}).code, C_RC_NO_TRANSLATION);
    let put = bench.reported();
    assert_eq!((put.kind, put.code), (C_EVENT_PUT, C_RC_NO_TRANSLATION));
    assert_eq!((put.start, put.mlength), (start, 0));
    bench.command(C_CMD_TGT_UNLINK, |entry| _ = entry.set_ptl_list(REQUEST as u8).set_buffer_id(1));
    request(&mut bench, |entry| _ = entry.set_op_put(false));
    assert_eq!(bench.put(8, |_| {}).code, C_RC_OP_VIOLATION);
    assert!(bench.sink.pages.is(0, 4096, 0));
}

#[test]
fn flow_control_disables_portal_without_request_buffer() {
    alone!();
    let mut bench = managed(|options| options.set_en_flowctrl(1));
    for _ in 0..2 {
        assert_eq!(bench.put(8, |_| {}).code, C_RC_PT_DISABLED);
    }
    let disabled = bench.rig.teq.wait();
    assert_eq!(change(&disabled), (C_PTLTE_DISABLED, C_SC_FC_REQUEST_FULL, true));
    request(&mut bench, |_| {});
    // Both ways to resume take the number of dropped messages.
    let resume = |count| call!(cxil_pte_transition_sm(bench.portal.handle, count));
    for (count, state, code) in
        [(1, C_PTLTE_DISABLED, C_RC_NO_MATCH), (2, C_PTLTE_SOFTWARE_MANAGED, C_RC_OK)]
    {
        assert_eq!(resume(count), 0);
        let event = bench.rig.teq.wait();
        assert_eq!((change(&event), event.code()), ((state, 0, false), code));
    }
    assert_eq!(bench.put(8, |_| {}).ptl_list, REQUEST);
}

#[test]
fn append_to_priority_list_fails_while_software_matches() {
    alone!();
    let mut bench = Bench::new();
    bench.overflow(|entry| _ = entry.set_manage_local(true));
    bench.append(|entry| _ = entry.set_match_bits(1).set_buffer_id(3));
    bench.put(10, |put| _ = put.set_match_bits(2));
    assert_eq!(bench.reported().ptl_list, C_PTL_LIST_OVERFLOW);
    manage(&mut bench);
    for disabled in [false, true] {
        let link =
            bench.append(|entry| _ = entry.set_match_bits(2).set_event_link_disable(disabled));
        assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_PTLTE_SW_MANAGED));
    }
    bench.overflow(|_| {});
    // Software takes what the NIC had: waiting messages, and posted receives.
    let found = bench.command(C_CMD_TGT_SEARCH_AND_DELETE, |search| {
        search
            .set_ptl_list(C_PTL_LIST_UNEXPECTED as u8)
            .set_ignore_bits(u64::MAX)
            .set_match_id(u32::MAX);
    });
    assert_eq!((found.kind, found.match_bits), (C_EVENT_PUT_OVERFLOW, 2));
    assert_eq!(bench.reported().code, C_RC_NO_MATCH);
    let unlink = bench.command(C_CMD_TGT_UNLINK, |entry| _ = entry.set_buffer_id(3));
    assert_eq!(unlink.code, C_RC_OK);
    // Appends work again in hardware, without `restart_seq`.
    bench.rig.set_state(bench.portal, C_PTLTE_ENABLED);
    assert_eq!(bench.append(|_| {}).code, C_RC_OK);
}
