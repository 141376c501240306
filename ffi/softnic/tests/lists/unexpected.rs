//! Messages before their receives: the UNEXPECTED list (nic.md 8.6).

use crate::bench::*;
use crate::driver::prelude::*;

/// As tests/msg.c in nic.md 6.3 and 8.6.
#[test]
fn reports_unexpected_message_twice() {
    alone!();
    let mut bench = Bench::new();
    bench.overflow(|entry| {
        entry.set_buffer_id(1).set_manage_local(true);
        entry.set_start(entry.start() + 4096).set_length(4096);
    });
    let ack = bench
        .put(5000, |put| _ = put.set_match_bits(0x55).set_initiator(0x123).set_remote_offset(3));
    assert_eq!((ack.code, ack.mlength), (C_RC_OK, 4096));
    assert_eq!(ack.ptl_list, C_PTL_LIST_OVERFLOW);
    let expected = TargetEvent {
        long: true,
        kind: C_EVENT_PUT,
        code: C_RC_OK,
        ptlte_index: bench.portal.number,
        ptl_list: C_PTL_LIST_OVERFLOW,
        buffer_id: 1,
        initiator: 0x123,
        match_bits: 0x55,
        header_data: 0x1dea,
        vni: 1,
        rlength: 5000,
        mlength: 4096,
        start: bench.sink.iova(4096),
        remote_offset: 3,
        ..TargetEvent::default()
    };
    assert_eq!(bench.reported(), expected);
    // Entries that do not match, or are for gets, do not take the message.
    let link = bench.append(|entry| _ = entry.set_match_bits(0x56).set_match_id(0x123));
    assert_eq!(link.kind, C_EVENT_LINK);
    let link = bench.append(|entry| {
        entry.set_match_bits(0x55).set_match_id(0x123).set_op_put(false).set_op_get(true);
    });
    assert_eq!(link.kind, C_EVENT_LINK);
    let found = bench.append(|entry| {
        entry.set_buffer_id(2).set_use_once(true).set_match_bits(0x55).set_match_id(0x123);
    });
    let expected = TargetEvent {
        kind: C_EVENT_PUT_OVERFLOW,
        buffer_id: 2,
        auto_unlinked: true,
        remote_offset: 0,
        ..expected
    };
    assert_eq!(found, expected);
    bench.nothing_more();
    assert!(bench.sink.pages.read(4096, 4096) == bench.source.pages.read(0, 4096));
    assert!(bench.sink.pages.is(0, 4096, 0));
}

#[test]
fn persistent_entry_takes_all_waiting_messages() {
    alone!();
    let mut bench = Bench::new();
    bench.overflow(|entry| _ = entry.set_manage_local(true));
    for number in 0..3 {
        bench.put(10, |put| _ = put.set_header_data(number));
        bench.reported();
    }
    // A message with other match bits stays.
    bench.put(10, |put| _ = put.set_match_bits(1));
    bench.reported();
    let first = bench.append(|entry| _ = entry.set_manage_local(true));
    let others = [bench.reported(), bench.reported()];
    for (number, event) in [first, others[0], others[1]].into_iter().enumerate() {
        assert_eq!((event.kind, event.header_data), (C_EVENT_PUT_OVERFLOW, number as u64));
        assert!(!event.auto_unlinked);
    }
    assert_eq!(bench.reported().kind, C_EVENT_LINK);
    // The next message follows them in the new entry.
    bench.put(10, |put| _ = put.set_header_data(9).set_remote_offset(1));
    let put = bench.reported();
    assert_eq!((put.kind, put.ptl_list), (C_EVENT_PUT, C_PTL_LIST_PRIORITY));
    assert!(bench.sink.pages.read(30, 10) == bench.source.pages.read(0, 10));
    bench.nothing_more();
}

#[test]
fn searches_and_deletes_unexpected_headers() {
    alone!();
    let mut bench = Bench::new();
    bench.overflow(|entry| _ = entry.set_manage_local(true));
    for bits in [1, 2, 1] {
        bench.put(10, |put| _ = put.set_match_bits(bits));
        bench.reported();
    }
    let search = |bench: &mut Bench, opcode, bits, first_only| {
        let first = bench.command(opcode, |search| {
            search
                .set_ptl_list(C_PTL_LIST_UNEXPECTED as u8)
                .set_buffer_id(0xf00)
                .set_match_bits(bits)
                .set_length(u64::MAX)
                .set_use_once(first_only);
        });
        let mut reported = vec![first];
        for _ in 0..4 {
            progress(bench.rig.dev);
        }
        while let Some(event) = bench.rig.teq.take() {
            reported.push(TargetEvent::of(&event));
        }
        bench.rig.teq.acknowledge();
        assert!(reported.iter().all(|event| event.buffer_id == 0xf00 && event.long));
        let codes = reported.iter().map(|event| (event.kind, event.code));
        codes.collect::<Vec<_>>()
    };
    let hit = (C_EVENT_SEARCH, C_RC_OK);
    let end = (C_EVENT_SEARCH, C_RC_NO_MATCH);
    let deleted = (C_EVENT_PUT_OVERFLOW, C_RC_OK);
    let (look, delete) = (C_CMD_TGT_SEARCH, C_CMD_TGT_SEARCH_AND_DELETE);
    for (opcode, bits, first_only, expected) in [
        (look, 3, false, &[end][..]),
        (look, 3, true, &[end]),
        (look, 1, false, &[hit, hit, end]),
        (look, 1, true, &[hit]),
        (delete, 1, true, &[deleted]),
        (look, 1, false, &[hit, end]),
        (delete, 2, false, &[deleted, end]),
        (delete, 1, false, &[deleted, end]),
        (delete, 1, false, &[end]),
    ] {
        let reported = search(&mut bench, opcode, bits, first_only);
        assert_eq!(reported, expected, "{bits} {first_only}");
    }
    // Only the UNEXPECTED list can be searched.
    for list in [C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW, C_PTL_LIST_REQUEST] {
        let code = bench.refused(look, |search| _ = search.set_ptl_list(list as u8));
        assert_eq!(code, C_RC_CMD_INVALID_ARG);
    }
}

#[test]
fn unexpected_headers_use_list_entries() {
    alone!();
    let mut bench = Bench::with(|options| options.set_en_flowctrl(1));
    bench.overflow(|entry| _ = entry.set_manage_local(true));
    bench.fill(2);
    assert_eq!(bench.put(1, |_| {}).code, C_RC_OK);
    assert_eq!(bench.reported().kind, C_EVENT_PUT);
    // Flow control reports the full pool.
    assert_eq!(bench.put(1, |_| {}).code, C_RC_PT_DISABLED);
    let change = bench.rig.teq.wait();
    assert_eq!(change.kind(), C_EVENT_STATE_CHANGE);
    let expected = [C_PTLTE_DISABLED as u8, C_SC_FC_UNEXPECTED_FAIL as u8, 1];
    assert_eq!(change.0[8..11], expected);
    // A failed append blocks the list until an append with `restart_seq`.
    let failed = (C_EVENT_LINK, C_RC_NO_SPACE);
    let link = bench.append(|_| {});
    assert_eq!((link.kind, link.code), failed);
    let found = bench.command(C_CMD_TGT_SEARCH_AND_DELETE, |search| {
        _ = search.set_ptl_list(C_PTL_LIST_UNEXPECTED as u8).set_use_once(true)
    });
    assert_eq!(found.kind, C_EVENT_PUT_OVERFLOW);
    let link = bench.append(|_| {});
    assert_eq!((link.kind, link.code), failed);
    // Other lists are not blocked.
    bench.overflow(|_| {});
    let gone =
        bench.command(C_CMD_TGT_UNLINK, |entry| _ = entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8));
    assert_eq!(gone.code, C_RC_OK);
    let link = bench.append(|entry| _ = entry.set_restart_seq(true));
    assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_OK));
}

#[test]
fn rejects_message_without_list_entry_for_header() {
    alone!();
    let mut bench = Bench::new();
    bench.overflow(|entry| _ = entry.set_manage_local(true));
    bench.fill(1);
    assert_eq!(bench.put(8, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
    bench.nothing_more();
    assert!(bench.sink.pages.is(0, 8, 0));
}

/// The lists of a disabled portal still work.
#[test]
fn disabled_portal_delivers_waiting_messages() {
    alone!();
    let mut bench = Bench::new();
    bench.overflow(|_| {});
    bench.put(1, |_| {});
    bench.reported();
    bench.rig.set_state(bench.portal, C_PTLTE_DISABLED);
    assert_eq!(bench.put(1, |_| {}).code, C_RC_PT_DISABLED);
    let found = bench.append(|entry| _ = entry.set_use_once(true));
    assert_eq!(found.kind, C_EVENT_PUT_OVERFLOW);
    bench.nothing_more();
}
