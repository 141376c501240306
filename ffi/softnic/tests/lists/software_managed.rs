//! Portals that software manages, changes from matching by the NIC and back, and the headers of
//! messages in request buffers, as a program reads them (nic.md 8.2, 8.8;
//! docs/software-nic-reference.md, "Portals managed by software").

use std::collections::BTreeMap;

use crate::bench::*;
use crate::driver::prelude::*;

/// Bytes of the headers of an ordinary message, and of a small one (nic.md 8.8).
const HEADERS: usize = 20 + 43;
const SMALL_HEADERS: usize = 20 + 29;

/// The headers of a message in a request buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Headers {
    vni: u16,
    nid: u32,
    pid: u16,
    index: u16,
    rlength: u32,
    following: u32,
    flags: u8,
    rendezvous_id: u8,
    match_bits: u64,
    initiator: u32,
    header_data: u64,
    /// Small messages have none.
    remote_offset: Option<u64>,
}

impl Headers {
    /// Reads headers as a program does, by version and type; returns their length too.
    fn read(pages: Pages, at: usize) -> (Self, usize) {
        let bytes = pages.read(at, HEADERS);
        let number = |at: usize, len: usize| {
            let bytes = &bytes[at..at + len];
            bytes.iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte))
        };
        let zeros = |at: usize, len: usize| assert_eq!(number(at, len), 0, "byte {at}");
        assert_eq!(number(0, 2), 0x4000, "version 4");
        let is_small = match bytes[20] >> 4 & 7 {
            0 => false,
            1 => true,
            kind => panic!("header type {kind}"),
        };
        let mut headers = Self {
            vni: number(2, 2) as u16,
            nid: number(4, 4) as u32,
            pid: number(8, 2) as u16,
            index: number(10, 2) as u16,
            rlength: number(12, 4) as u32,
            following: number(16, 4) as u32,
            flags: bytes[21],
            match_bits: number(20 + 10, 8),
            initiator: number(20 + 18, 4) as u32,
            ..Self::default()
        };
        if is_small {
            headers.header_data = number(20 + 2, 8);
            zeros(20 + 22, 7);
            return (headers, SMALL_HEADERS);
        }
        headers.rendezvous_id = bytes[20 + 9];
        headers.header_data = number(20 + 29, 8);
        headers.remote_offset = Some(number(20 + 22, 7));
        assert_eq!(number(22, 7), number(20 + 22, 7), "the other reading");
        zeros(20 + 37, 6);
        (headers, HEADERS)
    }
}

const REQUEST: u32 = C_PTL_LIST_REQUEST;

/// State, reason and whether the NIC changed the state, from a STATE_CHANGE.
fn change(event: &Event) -> (u32, u32, bool) {
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
fn request(bench: &mut Bench, choose: impl FnOnce(&mut TargetCmd)) {
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

#[test]
fn changes_to_software_when_headers_run_out() {
    alone!();
    let mut bench = Bench::with(|options| {
        options.set_en_flowctrl(1);
        options.set_en_sw_hw_st_chng(1);
    });
    bench.overflow(|entry| _ = entry.set_manage_local(true).set_length(100));
    let start = bench.sink.iova(4096);
    request(&mut bench, |entry| _ = entry.set_start(start).set_length(4096));
    bench.fill(3);
    assert_eq!(bench.put(1, |_| {}).ptl_list, C_PTL_LIST_OVERFLOW);
    assert_eq!(bench.reported().kind, C_EVENT_PUT);
    // The message that finds no header is the first that software matches.
    let ack = bench.put(2, |_| {});
    assert_eq!((ack.code, ack.ptl_list), (C_RC_OK, REQUEST));
    let changed = bench.rig.teq.wait();
    let state = C_PTLTE_SOFTWARE_MANAGED;
    assert_eq!(change(&changed), (state, C_SC_SM_UNEXPECTED_FAIL, true));
    let put = bench.reported();
    assert_eq!((put.kind, put.ptl_list, put.start), (C_EVENT_PUT, REQUEST, start));
    bench.nothing_more();
}

#[test]
fn changes_to_software_when_append_fails() {
    alone!();
    let mut bench = Bench::with(|options| options.set_en_sw_hw_st_chng(1));
    let filler = bench.fill(0);
    let link = bench.append(|_| {});
    assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_NO_SPACE));
    let changed = bench.rig.teq.wait();
    let state = C_PTLTE_SOFTWARE_MANAGED;
    assert_eq!(change(&changed), (state, C_SC_SM_APPEND_FAIL, true));
    assert_eq!(bench.append(|_| {}).code, C_RC_PTLTE_SW_MANAGED);
    filler.close();
    bench.rig.set_state(bench.portal, C_PTLTE_ENABLED);
    assert_eq!(bench.append(|_| {}).code, C_RC_OK);
    // Other lists do not change the state.
    bench.fill(1);
    for list in [C_PTL_LIST_OVERFLOW, REQUEST] {
        let link = bench.append(|entry| _ = entry.set_ptl_list(list as u8));
        assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_NO_SPACE));
    }
    bench.nothing_more();
}

/// Messages arrive while the state changes, and each is delivered once, in order.
#[test]
fn client_survives_changes_of_state_under_traffic() {
    alone!();
    const MESSAGES: u64 = 400;
    let mut bench = Bench::with(|options| options.set_en_sw_hw_st_chng(1));
    let sender = Rig::on(1);
    let source = sender.buffer(PAGE);
    let (overflow, requests) = (bench.rig.buffer(16 * PAGE), bench.rig.buffer(16 * PAGE));
    let receives = bench.sink;
    for (list, buffer) in [(C_PTL_LIST_OVERFLOW, overflow), (REQUEST, requests)] {
        let link = bench.append(|entry| {
            whole(entry, &buffer);
            match_all(entry);
            entry.set_ptl_list(list as u8).set_manage_local(true);
        });
        assert_eq!(link.code, C_RC_OK);
    }
    let len = |number: u64| 1 + number as usize % 60;
    let bytes = |number: u64| vec![number as u8 | 1; len(number)];
    let dfa = bench.rig.dfa(0);
    let mut sender = sender;
    let mut arrived = BTreeMap::<u32, Vec<u64>>::new();
    let mut last = None;
    let mut states = 0;
    let mut state = C_PTLTE_ENABLED;
    let mut take = |bench: &mut Bench, event: &Event| {
        let seen = TargetEvent::of(event);
        match seen.kind {
            C_EVENT_PUT => {
                let number = seen.header_data;
                assert_eq!((seen.code, number), (C_RC_OK, last.map_or(0, |last: u64| last + 1)));
                last = Some(number);
                let (buffer, before) = match seen.ptl_list {
                    C_PTL_LIST_PRIORITY => (receives, 0),
                    C_PTL_LIST_OVERFLOW => (overflow, 0),
                    _ => (requests, HEADERS),
                };
                let at = match seen.ptl_list {
                    C_PTL_LIST_PRIORITY => number as usize % 64 * 64,
                    _ => (seen.start - buffer.iova(0)) as usize + before,
                };
                assert!(buffer.pages.read(at, len(number)) == bytes(number), "{number}");
                if before > 0 {
                    let (header, _) = Headers::read(buffer.pages, at - HEADERS);
                    assert_eq!((header.header_data, header.match_bits), (number, number));
                }
                arrived.entry(seen.ptl_list).or_default().push(number);
                if seen.ptl_list == REQUEST {
                    // The receive that was posted for it, if any, is software's.
                    bench.rig.tgt.issue(&target(C_CMD_TGT_UNLINK, bench.portal.number, |entry| {
                        _ = entry.set_buffer_id(number as u16 + 1)
                    }));
                }
            }
            // The message came before its receive.
            C_EVENT_PUT_OVERFLOW => {
                assert!(arrived[&C_PTL_LIST_OVERFLOW].contains(&seen.match_bits));
                assert_eq!(u64::from(seen.buffer_id), seen.match_bits + 1);
            }
            C_EVENT_STATE_CHANGE => {
                assert_eq!(event.code(), C_RC_OK);
                states += 1;
            }
            C_EVENT_LINK => assert!([C_RC_OK, C_RC_PTLTE_SW_MANAGED].contains(&seen.code)),
            C_EVENT_UNLINK => assert!([C_RC_OK, C_RC_ENTRY_NOT_FOUND].contains(&seen.code)),
            kind => panic!("event type {kind}"),
        }
        last == Some(MESSAGES - 1)
    };
    for number in 0..MESSAGES {
        source.pages.write(64 * (number as usize % 64), &bytes(number));
        let at = 64 * (number as usize % 64);
        if number % 3 == 0 {
            let to = receives.iova(at);
            bench.rig.tgt.emit(&append(bench.portal.number, |entry| {
                whole(entry, &receives);
                entry
                    .set_use_once(true)
                    .set_start(to)
                    .set_length(64)
                    .set_match_bits(number)
                    .set_match_id(u32::MAX)
                    .set_buffer_id(number as u16 + 1);
            }));
        }
        let put = sender.dma_put(&source, at, len(number) as u32, |put| {
            _ = put.set_dfa(dfa).set_match_bits(number).set_header_data(number)
        });
        sender.tx.emit(&put);
        if number % 7 == 3 {
            state = C_PTLTE_ENABLED + C_PTLTE_SOFTWARE_MANAGED - state;
            bench.rig.tgt.emit(&set_state(bench.portal.number, state));
        }
        // The two run at different times.
        if number % 4 == 1 {
            sender.tx.ring();
            progress(sender.dev);
        }
        if number % 5 == 2 {
            bench.rig.tgt.ring();
        }
        while let Some(event) = bench.rig.teq.poll() {
            take(&mut bench, &event);
        }
        bench.rig.teq.acknowledge();
        sender.eq.discard();
    }
    sender.tx.ring();
    bench.rig.tgt.ring();
    wait_for("all messages", || {
        progress(sender.dev);
        let event = bench.rig.teq.poll()?;
        bench.rig.teq.acknowledge();
        take(&mut bench, &event).then_some(())
    });
    assert!(states > 50);
    let counts: Vec<usize> = arrived.values().map(Vec::len).collect();
    assert_eq!(counts.len(), 3, "all lists were used");
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}
