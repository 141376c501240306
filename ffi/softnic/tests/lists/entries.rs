//! What becomes of entries: use, place, end (nic.md 8.3 to 8.5).

use cxi_sys::*;

use crate::bench::*;
use crate::driver::alone::alone;
use crate::driver::call;
use crate::driver::memory::PAGE;
use crate::driver::queue::Queue;
use crate::driver::rig::{Rig, pte_options};

/// The order and the formats that nic.md 6.3 and 8.5 report of hardware.
#[test]
fn an_entry_used_once_is_unlinked_before_its_event() {
    alone(|| {
        let mut bench = Bench::new();
        for len in [8, 20_000] {
            let link = bench.append(|entry| _ = entry.set_use_once(true).set_buffer_id(9));
            assert_eq!((link.kind, link.long), (C_EVENT_LINK, true));
            assert_eq!(bench.put(len, |_| {}).code, C_RC_OK);
            let unlink = bench.told();
            assert_eq!((unlink.kind, unlink.code), (C_EVENT_UNLINK, C_RC_OK));
            assert_eq!((unlink.long, unlink.auto_unlinked), (true, true));
            assert_eq!(unlink.buffer_id, 9);
            let put = bench.told();
            assert_eq!(
                (put.kind, put.long, put.auto_unlinked),
                (C_EVENT_PUT, false, true)
            );
            assert_eq!((put.buffer_id, put.rlength), (9, len as u32));
            assert!(bench.sink.pages.read(0, len) == bench.source.pages.read(0, len));
            // It is gone.
            let gone = bench.command(C_CMD_TGT_UNLINK, |entry| _ = entry.set_buffer_id(9));
            assert_eq!(
                (gone.kind, gone.code),
                (C_EVENT_UNLINK, C_RC_ENTRY_NOT_FOUND)
            );
            assert_eq!(bench.put(len, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
        }
        bench.nothing_more();
    });
}

#[test]
fn gets_use_entries_once_too() {
    alone(|| {
        let mut bench = Bench::new();
        bench.sink.pages.fill(0x5a);
        bench.append(|entry| {
            entry.set_op_put(false).set_op_get(true).set_use_once(true);
        });
        let reply = bench.put(5000, |get| _ = get.set_opcode(C_CMD_GET as u8));
        assert_eq!(
            (reply.kind, reply.code, reply.mlength),
            (C_EVENT_REPLY, C_RC_OK, 5000)
        );
        assert_eq!(bench.told().kind, C_EVENT_UNLINK);
        let get = bench.told();
        assert_eq!(
            (get.kind, get.long, get.auto_unlinked),
            (C_EVENT_GET, false, true)
        );
        assert!(bench.source.pages.is(0, 5000, 0x5a));
    });
}

/// Part by part; what is cut is cut at both sides, and nothing lies beside its place.
#[test]
fn entries_managed_locally_are_packed_and_end_with_too_little_left() {
    alone(|| {
        let mut bench = Bench::new();
        bench.append(|entry| {
            entry
                .set_manage_local(true)
                .set_length(10_000)
                .set_min_free(1000);
        });
        let mut expected = vec![0; 8 * PAGE];
        let mut at = 0;
        for (len, moved) in [(3, 3), (5000, 5000), (17, 17), (3980, 3980), (5000, 1000)] {
            let ack = bench.put(len, |put| _ = put.set_remote_offset(77));
            assert_eq!((ack.code, ack.mlength), (C_RC_OK, moved as u32));
            let sent = bench.source.pages.read(0, moved);
            expected[at..at + moved].copy_from_slice(&sent);
            // With exactly as much left as there has to be, it stays.
            let last = at + moved > 9000;
            if last {
                assert_eq!(bench.told().kind, C_EVENT_UNLINK);
            }
            let put = bench.told();
            assert_eq!((put.rlength, put.mlength), (len as u32, moved as u32));
            assert_eq!((put.long, put.auto_unlinked), (moved != len, last));
            if put.long {
                assert_eq!(put.start, bench.sink.iova(at));
                assert_eq!(put.remote_offset, 77);
            }
            at += moved;
        }
        assert!(bench.sink.pages.read(0, 8 * PAGE) == expected);
        assert_eq!(bench.put(1, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
        bench.nothing_more();
    });
}

/// With no `min_free` a full entry stays, and takes nothing of what comes.
#[test]
fn full_entries_stay_if_they_need_nothing_free() {
    alone(|| {
        let mut bench = Bench::new();
        bench.append(|entry| _ = entry.set_manage_local(true).set_length(1));
        for moved in [1, 0, 0] {
            let ack = bench.put(2048, |_| {});
            assert_eq!((ack.code, ack.mlength), (C_RC_OK, moved));
            let put = bench.told();
            assert_eq!((put.rlength, put.mlength), (2048, moved));
            assert!(!put.auto_unlinked);
        }
        assert!(bench.sink.pages.is(1, PAGE, 0));
    });
}

/// Two messages under way at a time, from two queues, get a place each.
#[test]
fn messages_that_arrive_in_turns_do_not_mix() {
    alone(|| {
        let mut bench = Bench::new();
        let len = 3 * PAGE;
        bench.append(|entry| _ = entry.set_manage_local(true));
        let mut queues = [0, 1].map(|_| Queue::transmit(bench.rig.dev, bench.rig.lni, 0));
        for (at, queue) in queues.iter_mut().enumerate() {
            let put = bench
                .rig
                .dma_put(&bench.source, at * PAGE, len as u32, |put| {
                    put.set_header_data(at as u64);
                });
            queue.emit(&put);
            queue.ring();
        }
        for _ in 0..2 {
            assert_eq!(bench.rig.eq.wait().code(), C_RC_OK);
            assert_eq!(bench.told().kind, C_EVENT_PUT);
        }
        for place in 0..2 {
            let got = bench.sink.pages.read(place * len, len);
            assert!(
                [0, PAGE]
                    .map(|at| bench.source.pages.read(at, len))
                    .contains(&got)
            );
        }
        assert!(bench.sink.pages.read(0, len) != bench.sink.pages.read(len, len));
    });
}

#[test]
fn lists_are_told_apart() {
    alone(|| {
        let mut bench = Bench::new();
        for list in [C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW, C_PTL_LIST_REQUEST] {
            let link = bench.append(|entry| _ = entry.set_ptl_list(list as u8));
            assert_eq!((link.kind, link.ptl_list), (C_EVENT_LINK, list));
        }
        let code = bench.refused(C_CMD_TGT_APPEND, |entry| {
            entry.set_ptl_list(C_PTL_LIST_UNEXPECTED as u8);
        });
        assert_eq!(code, C_RC_CMD_INVALID_ARG);
        for list in [C_PTL_LIST_REQUEST, C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW] {
            for code in [C_RC_OK, C_RC_ENTRY_NOT_FOUND] {
                let unlink = bench.command(C_CMD_TGT_UNLINK, |entry| {
                    entry.set_ptl_list(list as u8);
                });
                assert_eq!((unlink.kind, unlink.code), (C_EVENT_UNLINK, code));
                assert_eq!((unlink.ptl_list, unlink.auto_unlinked), (list, false));
            }
        }
        // The state that would use the REQUEST list is not offered.
        let mut queue = Queue::target(bench.rig.dev, bench.rig.lni);
        let state = C_PTLTE_SOFTWARE_MANAGED;
        queue.emit(&crate::driver::commands::set_state(
            bench.portal.number,
            state,
        ));
        queue.ring();
        let status = queue.wait_error();
        assert_eq!(u32::from(status.return_code()), C_RC_CMD_INVALID_ARG);
    });
}

/// Everything on the lists goes with them, and its places come back.
#[test]
fn reset_empties_all_lists() {
    alone(|| {
        let mut bench = Bench::new();
        bench.overflow(|entry| _ = entry.set_manage_local(true));
        bench.append(|entry| _ = entry.set_match_bits(7));
        bench.append(|entry| _ = entry.set_ptl_list(C_PTL_LIST_REQUEST as u8));
        bench.put(1, |_| {});
        bench.told();
        let in_use = |event: &[u8]| u16::from_le_bytes([event[56], event[57]]);
        let portal = bench.portal;
        let link = bench
            .rig
            .append(portal, |entry| _ = entry.set_match_bits(7));
        assert_eq!(in_use(&link.0), 5);
        assert_eq!(bench.rig.set_state(portal, C_PTLTE_RESET).code(), C_RC_OK);
        let link = bench.rig.append(portal, |_| {});
        assert_eq!((link.kind(), in_use(&link.0)), (C_EVENT_LINK, 1));
        // So do they with the portal.
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        bench.overflow(|entry| _ = entry.set_match_bits(7));
        bench.put(1, |put| _ = put.set_match_bits(7));
        assert_eq!(bench.told().ptl_list, C_PTL_LIST_OVERFLOW);
        assert_eq!(call!(cxil_unmap_pte(portal.map)), 0);
        assert_eq!(call!(cxil_destroy_pte(portal.handle)), 0);
        let other = bench.rig.portal(1, |_| {});
        let link = bench.rig.append(other, |_| {});
        assert_eq!(in_use(&link.0), 1);
    });
}

#[test]
fn a_match_can_be_told_for_itself() {
    alone(|| {
        let mut bench = Bench::with(|options| options.set_en_event_match(1));
        bench.append(|entry| _ = entry.set_event_success_disable(true).set_length(100));
        bench.put(60, |_| {});
        let told = bench.told();
        assert_eq!(
            (told.kind, told.code, told.long),
            (C_EVENT_MATCH, C_RC_OK, true)
        );
        assert_eq!((told.rlength, told.header_data), (60, 0x1dea));
        bench.nothing_more();
        // A message that meets an entry and fails has met it.
        assert_eq!(bench.put(101, |_| {}).code, C_RC_NO_SPACE);
        assert_eq!(bench.told().kind, C_EVENT_MATCH);
        let put = bench.told();
        assert_eq!((put.kind, put.code), (C_EVENT_PUT, C_RC_NO_SPACE));
        bench.command(C_CMD_TGT_UNLINK, |_| {});
        bench.append(|entry| _ = entry.set_event_comm_disable(true));
        bench.put(1, |_| {});
        bench.nothing_more();
    });
}

/// nic.md 3.10.1.
#[test]
fn restricted_operations_need_leave_to_be_placed_by_the_target() {
    alone(|| {
        for (allowed, code) in [(0, C_RC_RESTRICTED_UNICAST), (1, C_RC_OK)] {
            let mut bench = Bench::with(|options| {
                options.set_is_matching(0);
                options.set_en_restricted_unicast_lm(allowed);
            });
            bench.append(|entry| _ = entry.set_manage_local(true));
            let ack = bench.put(10, |put| _ = put.set_restricted(true).set_remote_offset(5));
            assert_eq!(ack.code, code);
            assert_eq!((bench.told().kind, ack.code), (C_EVENT_PUT, code));
            let expected = bench.source.pages.read(0, 10);
            assert_eq!(bench.sink.pages.read(0, 10) == expected, allowed == 1);
            // Unrestricted ones need none.
            assert_eq!(bench.put(10, |_| {}).code, C_RC_OK);
        }
    });
}

/// A message that is refused for lack of room for its events leaves its entry.
#[test]
fn refused_messages_use_nothing_up() {
    alone(|| {
        let mut bench = Bench::new();
        // Room for the UNLINK of a message, but not for its PUT: 60 of 62 slots, and one 16 bytes short.
        let link = bench.append(|entry| _ = entry.set_match_bits(1).set_length(10));
        assert_eq!(link.kind, C_EVENT_LINK);
        bench.append(|entry| _ = entry.set_use_once(true).set_buffer_id(5));
        let free = |bench: &Bench| {
            let slots = bench.rig.teq.buffer.pages.len / 64;
            slots - 2
        };
        for _ in 0..free(&bench) - 1 {
            // Long events, since they fail.
            bench.put(11, |put| _ = put.set_match_bits(1));
        }
        assert_eq!(bench.put(1, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
        while bench.rig.teq.take().is_some() {}
        bench.rig.teq.acknowledge();
        assert_eq!(bench.put(1, |_| {}).code, C_RC_OK);
        assert_eq!(
            (bench.told().kind, bench.told().buffer_id),
            (C_EVENT_UNLINK, 5)
        );
    });
}

#[test]
fn portals_without_matching_have_the_same_lists() {
    alone(|| {
        let mut bench = Bench::with(|options| options.set_is_matching(0));
        bench.overflow(|entry| _ = entry.set_match_bits(1).set_ignore_bits(0));
        bench.append(|entry| _ = entry.set_use_once(true).set_match_bits(2).set_match_id(5));
        for list in [C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW] {
            assert_eq!(bench.put(1, |_| {}).ptl_list, list);
        }
        let kinds = [(); 3].map(|()| bench.told().kind);
        assert_eq!(kinds, [C_EVENT_UNLINK, C_EVENT_PUT, C_EVENT_PUT]);
        let found = bench.append(|entry| _ = entry.set_use_once(true).set_match_bits(3));
        assert_eq!(found.kind, C_EVENT_PUT_OVERFLOW);
    });
}

#[test]
fn options_of_other_worlds_are_refused() {
    type Choice = fn(&mut cxi_pt_alloc_opts);
    let choices: [Choice; 3] = [
        |options| options.set_en_sw_hw_st_chng(1),
        |options| options.set_en_match_on_vni(1),
        |options| options.set_lossless(1),
    ];
    alone(|| {
        let rig = Rig::new();
        for choose in choices {
            let mut options = pte_options();
            choose(&mut options);
            let mut handle = std::ptr::null_mut();
            let code = call!(cxil_alloc_pte(
                rig.lni,
                rig.teq.handle,
                &mut options,
                &mut handle
            ));
            assert_eq!(code, -libc::EOPNOTSUPP);
        }
    });
}
