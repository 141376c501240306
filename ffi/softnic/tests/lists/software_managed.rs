//! Portals that software manages (nic.md 8.2; docs/software-nic.md, "Portals managed by software").

use crate::bench::*;
use crate::driver::prelude::*;

pub const HEADER: usize = 64;
pub const REQUEST: u32 = C_PTL_LIST_REQUEST;

/// The header of a message in a request buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub header_data: u64,
    pub match_bits: u64,
    remote_offset: u64,
    initiator: u32,
    nid: u32,
    rlength: u32,
    mlength: u32,
    vni: u16,
    pid: u16,
    index: u16,
    opcode: u8,
    rendezvous_id: u8,
    flags: u64,
    reserved: u64,
}

impl Header {
    pub fn read(pages: Pages, at: usize) -> Self {
        let bytes = pages.read(at, HEADER);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let quarter = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            header_data: word(0),
            match_bits: word(8),
            remote_offset: word(16),
            initiator: half(24),
            nid: half(28),
            rlength: half(32),
            mlength: half(36),
            vni: quarter(40),
            pid: quarter(42),
            index: quarter(44),
            opcode: bytes[46],
            rendezvous_id: bytes[47],
            flags: word(48),
            reserved: word(56),
        }
    }
}

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
fn stores_messages_behind_headers() {
    alone!();
    let mut bench = managed(|_| {});
    request(&mut bench, |entry| _ = entry.set_buffer_id(7));
    let mut at = 0;
    for len in [0, 5, 200, 0, 2049, 20000] {
        let ack = bench.put(len, |put| {
            _ = put
                .set_match_bits(0x55)
                .set_initiator(0x123)
                .set_remote_offset(3)
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
            mlength: len as u32,
            start: bench.sink.iova(at),
            remote_offset: 3,
            ..TargetEvent::default()
        };
        assert_eq!(bench.reported(), expected);
        let header = Header {
            header_data: 0x1dea,
            match_bits: 0x55,
            remote_offset: 3,
            initiator: 0x123,
            nid: bench.rig.nid,
            rlength: len as u32,
            mlength: len as u32,
            vni: 1,
            pid: bench.rig.pid as u16,
            index: 0,
            opcode: C_CMD_PUT as u8,
            ..Header::default()
        };
        assert_eq!(Header::read(bench.sink.pages, at), header);
        let data = bench.sink.pages.read(at + HEADER, len);
        assert!(data == bench.source.pages.read(0, len), "{len} bytes");
        at = (at + HEADER + len).next_multiple_of(8);
    }
    assert!(bench.sink.pages.is(at, PAGE, 0), "behind the last message");
    bench.nothing_more();
}

/// The header also has what small and restricted puts carry.
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
    for at in [0, 72, 144] {
        assert_eq!(bench.rig.eq.wait().code(), C_RC_OK);
        let expected = Header {
            remote_offset: 9,
            nid: bench.rig.nid,
            rlength: 8,
            mlength: 8,
            vni: 1,
            pid: bench.rig.pid as u16,
            opcode: C_CMD_PUT as u8,
            flags: 2,
            ..Header::default()
        };
        assert_eq!(Header::read(bench.sink.pages, at), expected);
        assert!(bench.sink.pages.is(at + HEADER, 8, 5));
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
    request(&mut bench, |entry| {
        _ = entry.set_length((HEADER + EAGER) as u64)
    });
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
    assert_eq!(
        (ack.code, ack.mlength, ack.ptl_list),
        (C_RC_OK, EAGER as u32, REQUEST)
    );
    let put = bench.reported();
    assert_eq!(
        (put.kind, put.ptl_list, put.rendezvous),
        (C_EVENT_PUT, REQUEST, true)
    );
    assert_eq!((put.rlength, put.mlength), (LEN as u32, EAGER as u32));
    assert_eq!(put.remote_offset, 16 + EAGER as u64);
    let header = Header::read(bench.sink.pages, 0);
    assert_eq!(
        (header.opcode, header.rendezvous_id),
        (C_CMD_RENDEZVOUS_PUT as u8, 0xcc)
    );
    assert_eq!(
        (header.remote_offset, header.flags),
        (16, 1),
        "as the put has them"
    );
    assert_eq!((header.rlength, header.mlength), (LEN as u32, EAGER as u32));
    // No get of the NIC: software issues it, with what the header has.
    bench.nothing_more();
    let (dfa, ext) = address(header.nid, header.initiator >> 23, 255);
    let to = bench.sink.iova(HEADER + EAGER);
    let get = bench
        .rig
        .dma_put(&bench.sink, 0, (LEN - EAGER) as u32, |get| {
            get.set_opcode(C_CMD_GET as u8)
                .set_dfa(dfa)
                .set_index_ext(ext)
                .set_local_addr(to)
                .set_remote_offset(header.remote_offset + u64::from(header.mlength));
        });
    bench.rig.run(&get).is(C_EVENT_REPLY, C_RC_OK);
    assert!(bench.sink.pages.read(HEADER, LEN) == bench.source.pages.read(16, LEN));
}

#[test]
fn refuses_gets_and_atomic_operations() {
    alone!();
    let mut bench = managed(|_| {});
    request(&mut bench, |entry| _ = entry.set_op_get(true));
    let (lac, from) = (bench.source.lac, bench.source.iova(0));
    let (dfa, eq) = (bench.rig.dfa(0), bench.rig.eq.number);
    let get = bench.rig.dma_put(&bench.source, 0, 8, |get| {
        _ = get.set_opcode(C_CMD_GET as u8)
    });
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
    for (command, kind) in [
        (get, C_EVENT_REPLY),
        (sum(false), C_EVENT_ACK),
        (sum(true), C_EVENT_REPLY),
    ] {
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
    request(&mut bench, |entry| {
        _ = entry.set_buffer_id(1).set_length(300).set_min_free(100)
    });
    request(&mut bench, |entry| {
        _ = entry.set_buffer_id(2).set_start(start).set_length(500)
    });
    let put = |bench: &mut Bench, len| {
        assert_eq!(bench.put(len, |_| {}).code, C_RC_OK);
        bench.reported()
    };
    let event = put(&mut bench, 100);
    assert_eq!((event.buffer_id, event.start), (1, bench.sink.iova(0)));
    let event = put(&mut bench, 237);
    assert_eq!((event.buffer_id, event.start), (2, start));
    let event = put(&mut bench, 60);
    assert_eq!((event.kind, event.buffer_id), (C_EVENT_UNLINK, 1));
    assert_eq!((event.ptl_list, event.auto_unlinked), (REQUEST, true));
    let event = bench.reported();
    assert_eq!(
        (event.kind, event.start),
        (C_EVENT_PUT, bench.sink.iova(168))
    );
    assert!(event.auto_unlinked);
    // A buffer without `min_free` stays when it is full.
    assert_eq!(bench.put(134, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
    assert_eq!(put(&mut bench, 132).start, start + 304);
    assert_eq!(bench.put(0, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
    let gone = bench.command(C_CMD_TGT_UNLINK, |entry| {
        _ = entry.set_ptl_list(REQUEST as u8).set_buffer_id(2)
    });
    assert_eq!((gone.kind, gone.code), (C_EVENT_UNLINK, C_RC_OK));
    bench.nothing_more();
}

#[test]
fn refuses_message_for_unusable_request_buffer() {
    alone!();
    let mut bench = managed(|_| {});
    // The data is mapped, the header before it is not.
    let start = bench.sink.iova(0) - 64;
    request(&mut bench, |entry| {
        _ = entry.set_start(start).set_buffer_id(1)
    });
    assert_eq!(bench.put(8, |_| {}).code, C_RC_NO_TRANSLATION);
    let put = bench.reported();
    assert_eq!((put.kind, put.code), (C_EVENT_PUT, C_RC_NO_TRANSLATION));
    bench.command(C_CMD_TGT_UNLINK, |entry| {
        _ = entry.set_ptl_list(REQUEST as u8).set_buffer_id(1)
    });
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
    assert_eq!(
        change(&disabled),
        (C_PTLTE_DISABLED, C_SC_FC_REQUEST_FULL, true)
    );
    request(&mut bench, |_| {});
    // Both ways to resume take the number of dropped messages.
    let resume = |count| call!(cxil_pte_transition_sm(bench.portal.handle, count));
    for (count, state, code) in [
        (1, C_PTLTE_DISABLED, C_RC_NO_MATCH),
        (2, C_PTLTE_SOFTWARE_MANAGED, C_RC_OK),
    ] {
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
        assert_eq!(
            (link.kind, link.code),
            (C_EVENT_LINK, C_RC_PTLTE_SW_MANAGED)
        );
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
