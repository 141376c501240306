//! The status of portals table entries, and invalidated list entries (nic.md 8.2, 8.5, 8.7).

use crate::driver::prelude::*;

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
