//! List entries: use, placement, unlinking, and invalidated entries; the status of portals table
//! entries (nic.md 8.2 to 8.5, 8.7).

use crate::bench::*;
use crate::driver::prelude::*;

/// Order and formats as on hardware (nic.md 6.3, 8.5).
#[test]
fn unlinks_entry_used_once_before_its_event() {
    alone!();
    let mut bench = Bench::new();
    for len in [8, 20_000] {
        let link = bench.append(|entry| _ = entry.set_use_once(true).set_buffer_id(9));
        assert_eq!((link.kind, link.long), (C_EVENT_LINK, true));
        assert_eq!(bench.put(len, |_| {}).code, C_RC_OK);
        let unlink = bench.reported();
        assert_eq!((unlink.kind, unlink.code), (C_EVENT_UNLINK, C_RC_OK));
        assert_eq!((unlink.long, unlink.auto_unlinked), (true, true));
        assert_eq!(unlink.buffer_id, 9);
        let put = bench.reported();
        assert_eq!((put.kind, put.long, put.auto_unlinked), (C_EVENT_PUT, false, true));
        assert_eq!((put.buffer_id, put.rlength), (9, len as u32));
        assert!(bench.sink.pages.read(0, len) == bench.source.pages.read(0, len));
        // The entry is unlinked.
        let gone = bench.command(C_CMD_TGT_UNLINK, |entry| _ = entry.set_buffer_id(9));
        assert_eq!((gone.kind, gone.code), (C_EVENT_UNLINK, C_RC_ENTRY_NOT_FOUND));
        assert_eq!(bench.put(len, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
    }
    bench.nothing_more();
}

#[test]
fn get_uses_entry_once() {
    alone!();
    let mut bench = Bench::new();
    bench.sink.pages.fill(0x5a);
    bench.append(|entry| _ = entry.set_op_put(false).set_op_get(true).set_use_once(true));
    let reply = bench.put(5000, |get| _ = get.set_opcode(C_CMD_GET as u8));
    assert_eq!((reply.kind, reply.code, reply.mlength), (C_EVENT_REPLY, C_RC_OK, 5000));
    assert_eq!(bench.reported().kind, C_EVENT_UNLINK);
    let get = bench.reported();
    assert_eq!((get.kind, get.long, get.auto_unlinked), (C_EVENT_GET, false, true));
    assert!(bench.source.pages.is(0, 5000, 0x5a));
}

/// Truncation is reported on both sides, and no byte is written elsewhere.
#[test]
fn packs_locally_managed_entry_until_min_free() {
    alone!();
    let mut bench = Bench::new();
    bench.append(|entry| _ = entry.set_manage_local(true).set_length(10_000).set_min_free(1000));
    let mut expected = vec![0; 8 * PAGE];
    let mut at = 0;
    for (len, moved) in [(3, 3), (5000, 5000), (17, 17), (3980, 3980), (5000, 1000)] {
        let ack = bench.put(len, |put| _ = put.set_remote_offset(77));
        assert_eq!((ack.code, ack.mlength), (C_RC_OK, moved as u32));
        let sent = bench.source.pages.read(0, moved);
        expected[at..at + moved].copy_from_slice(&sent);
        // With exactly `min_free` bytes left, the entry stays.
        let last = at + moved > 9000;
        if last {
            assert_eq!(bench.reported().kind, C_EVENT_UNLINK);
        }
        let put = bench.reported();
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
}

/// Without `min_free` a full entry stays, and truncates messages to nothing.
#[test]
fn keeps_full_entry_without_min_free() {
    alone!();
    let mut bench = Bench::new();
    bench.append(|entry| _ = entry.set_manage_local(true).set_length(1));
    for moved in [1, 0, 0] {
        let ack = bench.put(2048, |_| {});
        assert_eq!((ack.code, ack.mlength), (C_RC_OK, moved));
        let put = bench.reported();
        assert_eq!((put.rlength, put.mlength), (2048, moved));
        assert!(!put.auto_unlinked);
    }
    assert!(bench.sink.pages.is(1, PAGE, 0));
}

/// Two messages from two queues are under way at once.
#[test]
fn interleaved_messages_do_not_mix() {
    alone!();
    let mut bench = Bench::new();
    let len = 3 * PAGE;
    bench.append(|entry| _ = entry.set_manage_local(true));
    let mut queues = [0, 1].map(|_| Queue::transmit(bench.rig.dev, bench.rig.lni, 0));
    for (at, queue) in queues.iter_mut().enumerate() {
        let put = bench.rig.dma_put(&bench.source, at * PAGE, len as u32, |put| {
            _ = put.set_header_data(at as u64)
        });
        queue.issue(&put);
    }
    for _ in 0..2 {
        assert_eq!(bench.rig.eq.wait().code(), C_RC_OK);
        assert_eq!(bench.reported().kind, C_EVENT_PUT);
    }
    for place in 0..2 {
        let got = bench.sink.pages.read(place * len, len);
        assert!([0, PAGE].map(|at| bench.source.pages.read(at, len)).contains(&got));
    }
    assert!(bench.sink.pages.read(0, len) != bench.sink.pages.read(len, len));
}

#[test]
fn appends_and_unlinks_by_list() {
    alone!();
    let mut bench = Bench::new();
    for list in [C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW, C_PTL_LIST_REQUEST] {
        let link = bench.append(|entry| _ = entry.set_ptl_list(list as u8));
        assert_eq!((link.kind, link.ptl_list), (C_EVENT_LINK, list));
    }
    let code = bench
        .refused(C_CMD_TGT_APPEND, |entry| _ = entry.set_ptl_list(C_PTL_LIST_UNEXPECTED as u8));
    assert_eq!(code, C_RC_CMD_INVALID_ARG);
    for list in [C_PTL_LIST_REQUEST, C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW] {
        for code in [C_RC_OK, C_RC_ENTRY_NOT_FOUND] {
            let unlink =
                bench.command(C_CMD_TGT_UNLINK, |entry| _ = entry.set_ptl_list(list as u8));
            assert_eq!((unlink.kind, unlink.code), (C_EVENT_UNLINK, code));
            assert_eq!((unlink.ptl_list, unlink.auto_unlinked), (list, false));
        }
    }
    // Only the driver sets the state of a portal for Ethernet.
    let mut queue = Queue::target(bench.rig.dev, bench.rig.lni);
    queue.issue(&set_state(bench.portal.number, C_PTLTE_ETHERNET));
    let status = queue.wait_error();
    assert_eq!(u32::from(status.return_code()), C_RC_CMD_INVALID_ARG);
}

/// Frees the entries and headers.
#[test]
fn reset_empties_all_lists() {
    alone!();
    let mut bench = Bench::new();
    bench.overflow(|entry| _ = entry.set_manage_local(true));
    bench.append(|entry| _ = entry.set_match_bits(7));
    bench.append(|entry| _ = entry.set_ptl_list(C_PTL_LIST_REQUEST as u8));
    bench.put(1, |_| {});
    bench.reported();
    let in_use = |event: &[u8]| u16::from_le_bytes([event[56], event[57]]);
    let portal = bench.portal;
    let link = bench.rig.append(portal, |entry| _ = entry.set_match_bits(7));
    assert_eq!(in_use(&link.0), 5);
    assert_eq!(bench.rig.set_state(portal, C_PTLTE_RESET).code(), C_RC_OK);
    let link = bench.rig.append(portal, |_| {});
    assert_eq!((link.kind(), in_use(&link.0)), (C_EVENT_LINK, 1));
    // Destroying the portal frees them too.
    bench.rig.set_state(portal, C_PTLTE_ENABLED);
    bench.overflow(|entry| _ = entry.set_match_bits(7));
    bench.put(1, |put| _ = put.set_match_bits(7));
    assert_eq!(bench.reported().ptl_list, C_PTL_LIST_OVERFLOW);
    portal.close();
    let other = bench.rig.portal(1, |_| {});
    let link = bench.rig.append(other, |_| {});
    assert_eq!(in_use(&link.0), 1);
}

#[test]
fn raises_match_event_on_request() {
    alone!();
    let mut bench = Bench::with(|options| options.set_en_event_match(1));
    bench.append(|entry| _ = entry.set_event_success_disable(true).set_length(100));
    bench.put(60, |_| {});
    let reported = bench.reported();
    assert_eq!((reported.kind, reported.code, reported.long), (C_EVENT_MATCH, C_RC_OK, true));
    assert_eq!((reported.rlength, reported.header_data), (60, 0x1dea));
    bench.nothing_more();
    // A failed message raises MATCH too.
    assert_eq!(bench.put(101, |_| {}).code, C_RC_NO_SPACE);
    assert_eq!(bench.reported().kind, C_EVENT_MATCH);
    let put = bench.reported();
    assert_eq!((put.kind, put.code), (C_EVENT_PUT, C_RC_NO_SPACE));
    bench.command(C_CMD_TGT_UNLINK, |_| {});
    bench.append(|entry| _ = entry.set_event_comm_disable(true));
    bench.put(1, |_| {});
    bench.nothing_more();
}

/// nic.md 7.1.
#[test]
fn operation_past_end_raises_match_event_first() {
    alone!();
    for (is_matching, restricted) in [(1, false), (0, false), (0, true)] {
        let mut bench = Bench::with(|options| {
            options.set_is_matching(is_matching);
            options.set_en_event_match(1);
        });
        let (dfa, eq) = (bench.rig.dfa(0), bench.rig.eq.number);
        bench.append(|entry| _ = entry.set_op_get(true).set_event_success_disable(true));
        let end = bench.sink.pages.len as u64;
        let mut past_end = |opcode: u32, offset, len| {
            let command = bench.rig.dma_put(&bench.source, 0, len, |command| {
                command
                    .set_opcode(opcode as u8)
                    .set_restricted(restricted)
                    .set_remote_offset(offset);
            });
            assert_eq!(bench.rig.run(&command).code(), C_RC_NO_SPACE);
        };
        past_end(C_CMD_PUT, end - 8, 9);
        past_end(C_CMD_PUT, end, 20_000);
        past_end(C_CMD_PUT, u64::MAX >> 8, 1);
        past_end(C_CMD_GET, end, 1);
        let amo = dma_amo(false, |amo| {
            amo.set_dfa(dfa)
                .set_restricted(restricted)
                .set_remote_offset(end)
                .set_lac(bench.source.lac)
                .set_local_read_addr(bench.source.iova(0))
                .set_eq(eq);
        });
        assert_eq!(bench.rig.code(&amo), C_RC_NO_SPACE);
        for kind in [C_EVENT_PUT, C_EVENT_PUT, C_EVENT_PUT, C_EVENT_GET, C_EVENT_ATOMIC] {
            for (kind, code) in [(C_EVENT_MATCH, C_RC_OK), (kind, C_RC_NO_SPACE)] {
                let event = bench.reported();
                assert_eq!((event.kind, event.code, event.mlength), (kind, code, 0));
            }
        }
        bench.nothing_more();
    }
}

/// nic.md 3.10.1.
#[test]
fn restricted_put_needs_option_for_locally_managed_entry() {
    alone!();
    for (allowed, code) in [(0, C_RC_RESTRICTED_UNICAST), (1, C_RC_OK)] {
        let mut bench = Bench::with(|options| {
            options.set_is_matching(0);
            options.set_en_restricted_unicast_lm(allowed);
        });
        bench.append(|entry| _ = entry.set_manage_local(true));
        let ack = bench.put(10, |put| _ = put.set_restricted(true).set_remote_offset(5));
        assert_eq!(ack.code, code);
        assert_eq!((bench.reported().kind, ack.code), (C_EVENT_PUT, code));
        let expected = bench.source.pages.read(0, 10);
        assert_eq!(bench.sink.pages.read(0, 10) == expected, allowed == 1);
        // Unrestricted puts do not need the option.
        assert_eq!(bench.put(10, |_| {}).code, C_RC_OK);
    }
}

/// A message without room for its events does not use its entry.
#[test]
fn refused_message_keeps_its_entry() {
    alone!();
    let mut bench = Bench::new();
    // The queue has room for the UNLINK of a message, but not for its PUT.
    let link = bench.append(|entry| _ = entry.set_match_bits(1).set_length(10));
    assert_eq!(link.kind, C_EVENT_LINK);
    bench.append(|entry| _ = entry.set_use_once(true).set_buffer_id(5));
    let free = |bench: &Bench| {
        let slots = bench.rig.teq.buffer.pages.len / 64;
        slots - 2
    };
    for _ in 0..free(&bench) - 1 {
        // Failed puts raise long events.
        bench.put(11, |put| _ = put.set_match_bits(1));
    }
    assert_eq!(bench.put(1, |_| {}).code, C_RC_ENTRY_NOT_FOUND);
    while bench.rig.teq.take().is_some() {}
    bench.rig.teq.acknowledge();
    assert_eq!(bench.put(1, |_| {}).code, C_RC_OK);
    assert_eq!((bench.reported().kind, bench.reported().buffer_id), (C_EVENT_UNLINK, 5));
}

#[test]
fn portal_without_matching_has_all_lists() {
    alone!();
    let mut bench = Bench::with(|options| options.set_is_matching(0));
    bench.overflow(|entry| _ = entry.set_match_bits(1).set_ignore_bits(0));
    bench.append(|entry| _ = entry.set_use_once(true).set_match_bits(2).set_match_id(5));
    for list in [C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW] {
        assert_eq!(bench.put(1, |_| {}).ptl_list, list);
    }
    let kinds = [(); 3].map(|()| bench.reported().kind);
    assert_eq!(kinds, [C_EVENT_UNLINK, C_EVENT_PUT, C_EVENT_PUT]);
    let found = bench.append(|entry| _ = entry.set_use_once(true).set_match_bits(3));
    assert_eq!(found.kind, C_EVENT_PUT_OVERFLOW);
}

#[test]
fn rejects_unsupported_portal_options() {
    type Choice = fn(&mut cxi_pt_alloc_opts);
    let choices: [Choice; 2] =
        [|options| options.set_en_match_on_vni(1), |options| options.set_lossless(1)];
    alone!();
    let rig = Rig::new();
    for choose in choices {
        let mut options = pte_options();
        choose(&mut options);
        let mut handle = std::ptr::null_mut();
        let code = call!(cxil_alloc_pte(rig.lni, rig.teq.handle, &mut options, &mut handle));
        assert_eq!(code, -libc::EOPNOTSUPP);
    }
}

fn empty() -> cxi_pte_status {
    cxi_pte_status {
        drop_count: 77,
        state: 77,
        les_reserved: 77,
        les_allocated: 77,
        les_max: 77,
        ule_offsets: null_mut(),
        ule_count: 0,
    }
}

fn status(portal: Portal) -> cxi_pte_status {
    let mut status = empty();
    assert_eq!(call!(cxil_pte_status(portal.handle, &mut status)), 0);
    status
}

/// Up to `room` offsets of unexpected headers, and the number of all headers.
fn offsets(portal: Portal, room: u16) -> (Vec<u64>, u16) {
    let mut found = vec![u64::MAX; usize::from(room) + 1];
    let mut status = empty();
    status.ule_offsets = found.as_mut_ptr();
    status.ule_count = room;
    assert_eq!(call!(cxil_pte_status(portal.handle, &mut status)), 0);
    assert_eq!(found.pop(), Some(u64::MAX), "written beyond the room");
    found.retain(|&offset| offset != u64::MAX);
    (found, status.ule_count)
}

/// A matching portal with options by `choose`.
fn portal(rig: &mut Rig, choose: impl FnOnce(&mut cxi_pt_alloc_opts)) -> Portal {
    let portal = rig.portal(0, |options| {
        options.set_is_matching(1);
        choose(options);
    });
    assert_eq!(status(portal).state, C_PTLTE_DISABLED as u8);
    assert_eq!(rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
    portal
}

fn overflow(rig: &mut Rig, portal: Portal, sink: &Buffer) {
    let link = rig.append(portal, |entry| {
        whole(entry, sink);
        entry
            .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
            .set_manage_local(true)
            .set_buffer_id(4)
            .set_ignore_bits(u64::MAX)
            .set_match_id(u32::MAX);
    });
    assert_eq!(link.kind(), C_EVENT_LINK);
}

#[test]
fn reports_headers_of_unexpected_messages() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    let portal = portal(&mut rig, |_| {});
    let now = status(portal);
    assert_eq!((now.state, now.drop_count), (C_PTLTE_ENABLED as u8, 0));
    assert_eq!((now.les_reserved, now.les_allocated, now.les_max), (0, 0, 16384));
    overflow(&mut rig, portal, &sink);
    assert_eq!((status(portal).les_allocated, status(portal).ule_count), (1, 0));
    for (number, len) in [100, 50, 7].into_iter().enumerate() {
        let put = rig.dma_put(&source, 0, len, |put| {
            _ = put.set_match_bits(number as u64).set_remote_offset(5)
        });
        assert_eq!(rig.code(&put), C_RC_OK);
        assert_eq!(rig.teq.wait().kind(), C_EVENT_PUT);
    }
    let at = [0, 100, 150].map(|offset| sink.iova(offset));
    assert_eq!(offsets(portal, 8), (at.to_vec(), 3));
    assert_eq!(offsets(portal, 2), (at[..2].to_vec(), 3), "how many there are");
    assert_eq!(offsets(portal, 0), (vec![], 3));
    assert_eq!(status(portal).les_allocated, 4);
    // A receive takes the second message.
    rig.tgt.emit(&append(portal.number, |entry| {
        whole(entry, &sink);
        entry.set_use_once(true).set_match_id(u32::MAX).set_match_bits(1);
    }));
    rig.tgt.ring();
    assert_eq!(rig.teq.wait().kind(), C_EVENT_PUT_OVERFLOW);
    assert_eq!(offsets(portal, 8), (vec![at[0], at[2]], 2));
    assert_eq!(status(portal).les_allocated, 3);
}

/// The offset of the initiator (nic.md 8.7).
#[test]
fn reports_offset_of_unexpected_rendezvous() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    let portal = portal(&mut rig, |_| {});
    overflow(&mut rig, portal, &sink);
    let put = rig.dma_put(&source, 0, 300, |put| {
        put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8).set_eager_length(100).set_remote_offset(0x1234);
    });
    rig.tx.issue(&put);
    rig.teq.wait();
    assert_eq!(offsets(portal, 1), (vec![0x1234], 1));
}

#[test]
fn counts_messages_dropped_by_flow_control() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    let portal = portal(&mut rig, |options| options.set_en_flowctrl(1));
    let put = rig.dma_put(&source, 0, 8, |_| {});
    for dropped in 1..4 {
        assert_eq!(rig.code(&put), C_RC_PT_DISABLED);
        let now = status(portal);
        assert_eq!((now.drop_count, now.state), (dropped, C_PTLTE_DISABLED as u8));
    }
    assert_eq!(rig.teq.wait().kind(), C_EVENT_STATE_CHANGE);
    let mut enable = SetStateCmd::from_bytes(
        set_state(portal.number, C_PTLTE_ENABLED)[..SetStateCmd::SIZE].try_into().unwrap(),
    );
    for (count, code) in [(2, C_RC_NO_MATCH), (3, C_RC_OK)] {
        enable.set_drop_count(count);
        let mut command = enable.bytes().to_vec();
        command.resize(64, 0);
        rig.tgt.issue(&command);
        assert_eq!(rig.teq.wait().code(), code);
    }
    let now = status(portal);
    assert_eq!((now.drop_count, now.state), (0, C_PTLTE_ENABLED as u8));
    assert_eq!(rig.set_state(portal, C_PTLTE_RESET).code(), C_RC_OK);
    assert_eq!(status(portal).state, C_PTLTE_RESET as u8);
}

#[test]
fn rejects_invalid_status_arguments() {
    alone!();
    let rig = Rig::new();
    let portal = rig.portal(0, |_| {});
    let mut status = empty();
    assert_eq!(call!(cxil_pte_status(null_mut(), &mut status)), -EINVAL);
    assert_eq!(call!(cxil_pte_status(portal.handle, null_mut())), -EINVAL);
    status.ule_count = 1;
    assert_eq!(call!(cxil_pte_status(portal.handle, &mut status)), -EINVAL);
    assert_eq!(status.les_max, 77, "nothing was touched");
    assert_eq!(call!(cxil_pte_transition_sm(null_mut(), 0)), -EINVAL);
    let too_large = call!(cxil_pte_transition_sm(portal.handle, 1 << 24));
    assert_eq!(too_large, -EINVAL);
    let invalidate = |pte, id, list| -call!(cxil_invalidate_pte_le(pte, id, list));
    assert_eq!(invalidate(null_mut(), 1, C_PTL_LIST_PRIORITY), EINVAL);
    // No entry has so large an id.
    assert_eq!(invalidate(portal.handle, 1 << 16, C_PTL_LIST_PRIORITY), 0);
    assert_eq!(invalidate(portal.handle, 1, C_PTL_LIST_UNEXPECTED), EINVAL);
    assert_eq!(invalidate(portal.handle, 1, 4), EINVAL);
    for list in [C_PTL_LIST_PRIORITY, C_PTL_LIST_OVERFLOW, C_PTL_LIST_REQUEST] {
        assert_eq!(invalidate(portal.handle, 65535, list), 0, "none need be there");
    }
}

/// After invalidation the NIC does not write the entry's memory (nic.md 8.5).
#[test]
fn invalidated_entry_cancels_message_under_way() {
    alone!();
    // At this bandwidth the message is under way for long.
    // SAFETY: nothing in this process reads the environment meanwhile.
    unsafe { std::env::set_var("CXIDIAG_LINK", "bandwidth=1MB/s") };
    let mut rig = Rig::new();
    let len = 64 * PAGE;
    let (source, sink) = (rig.buffer(len), rig.buffer(len));
    source.pages.fill(1);
    let portal = rig.target_with(0, &sink, |entry| _ = entry.set_buffer_id(9));
    let put = rig.dma_put(&source, 0, len as u32, |_| {});
    rig.tx.issue(&put);
    wait_for("the first packet", || {
        progress(rig.dev);
        sink.pages.is(0, 1, 1).then_some(())
    });
    let invalidate = |id, list| call!(cxil_invalidate_pte_le(portal.handle, id, list));
    // Another entry, and one of another list.
    assert_eq!(invalidate(8, C_PTL_LIST_PRIORITY), 0);
    assert_eq!(invalidate(9, C_PTL_LIST_OVERFLOW), 0);
    let (second, third) = (2048, 4096);
    wait_for("the second packet", || {
        progress(rig.dev);
        sink.pages.is(second, 1, 1).then_some(())
    });
    assert_eq!(invalidate(9, C_PTL_LIST_PRIORITY), 0);
    let reached = (third..len).find(|&at| sink.pages.is(at, 1, 0)).unwrap();
    rig.eq.expect(C_EVENT_ACK, C_RC_MST_CANCELLED);
    assert!(sink.pages.is(reached, len - reached, 0), "the memory was left alone");
}
