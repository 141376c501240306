//! Messages before their receives: the UNEXPECTED list (nic.md 8.6).

use cxi_sys::*;

use crate::bench::*;
use crate::driver::alone::alone;
use crate::driver::commands::append;
use crate::driver::progress;
use crate::driver::target_event::TargetEvent;

/// tests/msg.c of nic.md 6.3 and 8.6: a message before its receive.
#[test]
fn an_unexpected_message_is_told_twice() {
    alone(|| {
        let mut bench = Bench::new();
        bench.overflow(|entry| {
            entry.set_buffer_id(1).set_manage_local(true);
            entry.set_start(entry.start() + 4096).set_length(4096);
        });
        let ack = bench.put(5000, |put| {
            put.set_match_bits(0x55)
                .set_initiator(0x123)
                .set_remote_offset(3);
        });
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
        assert_eq!(bench.told(), expected);
        // One that it does not match links without a word of it; one for gets neither.
        let link = bench.append(|entry| _ = entry.set_match_bits(0x56).set_match_id(0x123));
        assert_eq!(link.kind, C_EVENT_LINK);
        let link = bench.append(|entry| {
            entry
                .set_match_bits(0x55)
                .set_match_id(0x123)
                .set_op_put(false)
                .set_op_get(true);
        });
        assert_eq!(link.kind, C_EVENT_LINK);
        let found = bench.append(|entry| {
            entry
                .set_buffer_id(2)
                .set_use_once(true)
                .set_match_bits(0x55)
                .set_match_id(0x123);
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
    });
}

#[test]
fn a_persistent_entry_hears_of_all_that_wait_and_is_linked() {
    alone(|| {
        let mut bench = Bench::new();
        bench.overflow(|entry| _ = entry.set_manage_local(true));
        for number in 0..3 {
            bench.put(10, |put| _ = put.set_header_data(number));
            bench.told();
        }
        // A wrong one in between stays behind.
        bench.put(10, |put| _ = put.set_match_bits(1));
        bench.told();
        let first = bench.append(|entry| _ = entry.set_manage_local(true));
        let others = [bench.told(), bench.told()];
        for (number, event) in [first, others[0], others[1]].into_iter().enumerate() {
            assert_eq!(
                (event.kind, event.header_data),
                (C_EVENT_PUT_OVERFLOW, number as u64)
            );
            assert!(!event.auto_unlinked);
        }
        assert_eq!(bench.told().kind, C_EVENT_LINK);
        // Their places in the new entry are taken.
        bench.put(10, |put| _ = put.set_header_data(9).set_remote_offset(1));
        let put = bench.told();
        assert_eq!((put.kind, put.ptl_list), (C_EVENT_PUT, C_PTL_LIST_PRIORITY));
        assert!(bench.sink.pages.read(30, 10) == bench.source.pages.read(0, 10));
        bench.nothing_more();
    });
}

#[test]
fn searches_look_and_delete() {
    alone(|| {
        let mut bench = Bench::new();
        bench.overflow(|entry| _ = entry.set_manage_local(true));
        for bits in [1, 2, 1] {
            bench.put(10, |put| _ = put.set_match_bits(bits));
            bench.told();
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
            let mut told = vec![first];
            for _ in 0..4 {
                progress(bench.rig.dev);
            }
            while let Some(event) = bench.rig.teq.take() {
                told.push(TargetEvent::of(&event));
            }
            bench.rig.teq.acknowledge();
            assert!(
                told.iter()
                    .all(|event| event.buffer_id == 0xf00 && event.long)
            );
            let codes = told.iter().map(|event| (event.kind, event.code));
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
            let told = search(&mut bench, opcode, bits, first_only);
            assert_eq!(told, expected, "{bits} {first_only}");
        }
        // Nothing is searched but what is unexpected.
        for list in [C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW, C_PTL_LIST_REQUEST] {
            let code = bench.refused(look, |search| _ = search.set_ptl_list(list as u8));
            assert_eq!(code, C_RC_CMD_INVALID_ARG);
        }
    });
}

/// Fills the pool of list entries but for `left`, quietly.
fn fill(bench: &mut Bench, left: usize) {
    let filler = bench.rig.portal(7, |_| {});
    for _ in 0..ENTRIES - left {
        bench.rig.tgt.emit(&append(filler.number, |entry| {
            entry.set_event_link_disable(true);
        }));
        bench.rig.tgt.ring();
    }
    bench.rig.tgt.drain();
}

#[test]
fn headers_take_places_of_the_pool() {
    alone(|| {
        let mut bench = Bench::with(|options| options.set_en_flowctrl(1));
        bench.overflow(|entry| _ = entry.set_manage_local(true));
        fill(&mut bench, 2);
        assert_eq!(bench.put(1, |_| {}).code, C_RC_OK);
        assert_eq!(bench.told().kind, C_EVENT_PUT);
        // No place for another: flow control says so.
        assert_eq!(bench.put(1, |_| {}).code, C_RC_PT_DISABLED);
        let change = bench.rig.teq.wait();
        assert_eq!(change.kind(), C_EVENT_STATE_CHANGE);
        let expected = [C_PTLTE_DISABLED as u8, C_SC_FC_UNEXPECTED_FAIL as u8, 1];
        assert_eq!(change.0[8..11], expected);
        // Nor for an entry; and after one that found none the next has to say that it knows.
        let failed = (C_EVENT_LINK, C_RC_NO_SPACE);
        let link = bench.append(|_| {});
        assert_eq!((link.kind, link.code), failed);
        let found = bench.command(C_CMD_TGT_SEARCH_AND_DELETE, |search| {
            search
                .set_ptl_list(C_PTL_LIST_UNEXPECTED as u8)
                .set_use_once(true);
        });
        assert_eq!(found.kind, C_EVENT_PUT_OVERFLOW);
        let link = bench.append(|_| {});
        assert_eq!((link.kind, link.code), failed);
        // The sequence is that of one list.
        bench.overflow(|_| {});
        let gone = bench.command(C_CMD_TGT_UNLINK, |entry| {
            entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8);
        });
        assert_eq!(gone.code, C_RC_OK);
        let link = bench.append(|entry| _ = entry.set_restart_seq(true));
        assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_OK));
    });
}

#[test]
fn without_flow_control_a_message_without_a_place_is_refused() {
    alone(|| {
        let mut bench = Bench::new();
        bench.overflow(|entry| _ = entry.set_manage_local(true));
        fill(&mut bench, 1);
        assert_eq!(bench.put(8, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
        bench.nothing_more();
        assert!(bench.sink.pages.is(0, 8, 0));
    });
}

/// Lists work while the portal does not.
#[test]
fn a_disabled_portal_hands_out_what_waits() {
    alone(|| {
        let mut bench = Bench::new();
        bench.overflow(|_| {});
        bench.put(1, |_| {});
        bench.told();
        bench.rig.set_state(bench.portal, C_PTLTE_DISABLED);
        assert_eq!(bench.put(1, |_| {}).code, C_RC_PT_DISABLED);
        let found = bench.append(|entry| _ = entry.set_use_once(true));
        assert_eq!(found.kind, C_EVENT_PUT_OVERFLOW);
        bench.nothing_more();
    });
}
