//! Event records, byte for byte (nic.md 6, appendix B).

use crate::driver::prelude::*;

/// A record of zeros except for these bytes.
fn record<const N: usize>(bytes: &[(usize, &[u8])]) -> [u8; N] {
    let mut record = [0; N];
    for (at, bytes) in bytes {
        record[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    record
}

#[test]
fn ack_has_16_bytes() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    let user_ptr = 0x1122_3344_5566_7788_u64;
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| _ = c_state.set_user_ptr(user_ptr)));
    let ack = rig.run(&idc_put(rig.dfa(0), 16, &[1; 200]));
    let expected = record::<16>(&[
        (0, &user_ptr.to_le_bytes()),
        (8, &200_u32.to_le_bytes()),
        (14, &[0x25, 0x01]),
    ]);
    assert_eq!(ack.0, expected);

    let source = rig.buffer(PAGE);
    let put = rig.nomatch_put(&source, 0, 8, |_| {});
    let ack = rig.run(&put);
    let expected = record::<16>(&[(8, &[8]), (14, &[0x25, 0x01])]);
    assert_eq!(ack.0, expected, "such a command has no user pointer");

    let put = rig.dma_put(&source, 0, 8, |put| _ = put.set_user_ptr(7));
    assert_eq!(rig.run(&put).0[..9], [7, 0, 0, 0, 0, 0, 0, 0, 8]);
}

#[test]
fn failed_ack_shows_side_of_failure() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let beyond =
        rig.dma_put(&source, 0, 8, |put| _ = put.set_remote_offset(PAGE as u64).set_user_ptr(9));
    let tgt_error = 1 << 6;
    let expected =
        record::<16>(&[(0, &[9]), (12, &[tgt_error]), (14, &[0x25, C_RC_NO_SPACE as u8])]);
    assert_eq!(rig.run(&beyond).0, expected);
    let unmapped = rig.dma_put(&source, PAGE, 8, |put| _ = put.set_user_ptr(9));
    let expected = record::<16>(&[(0, &[9]), (14, &[0x25, C_RC_NO_TRANSLATION as u8])]);
    assert_eq!(rig.run(&unmapped).0, expected);
}

#[test]
fn long_initiator_event_has_32_bytes_and_no_time() {
    alone!();
    let flags = CXI_EQ_EC_DISABLE | CXI_EQ_INIT_LONG;
    for flags in [flags, flags | CXI_EQ_TIMESTAMP_EVENTS] {
        let mut rig = Rig::with_queues(0, flags, CXI_EQ_EC_DISABLE);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let source = rig.buffer(PAGE);
        let put = rig.dma_put(&source, 0, 24, |put| _ = put.set_user_ptr(5));
        rig.tx.issue(&put);
        let ack = without_timestamps(&mut rig.eq);
        let ack = EventInitiatorLong::from_bytes(ack.bytes());
        assert_eq!((ack.user_ptr(), ack.mlength()), (5, 24));
        assert_eq!(ack.bytes()[14], 2 | 9 << 2);
        assert_eq!(u32::from(ack.return_code()), C_RC_OK);
        assert_eq!((ack.timestamp_sec(), ack.timestamp_ns()), (0, 0));
    }
}

/// Waits for the next event that is no TIMESTAMP.
fn without_timestamps(eq: &mut EventQueue) -> Event {
    loop {
        let event = eq.wait();
        if event.kind() != C_EVENT_TIMESTAMP {
            return event;
        }
    }
}

/// libcxi.md 8.1: one in each second, with the time of day, also while nothing else happens.
#[test]
fn queue_with_timestamps_has_one_in_each_second() {
    alone!();
    let flags = CXI_EQ_EC_DISABLE | CXI_EQ_TIMESTAMP_EVENTS;
    let mut rig = Rig::with_queues(0, flags, CXI_EQ_EC_DISABLE);
    let mut last = 1_000_000_000;
    for _ in 0..2 {
        let event = rig.eq.expect(C_EVENT_TIMESTAMP, C_RC_OK);
        assert_eq!(event.0.len(), 16);
        let word = |at: usize| {
            let mut word = [0; 8];
            word[..6].copy_from_slice(&event.0[at..at + 6]);
            u64::from_le_bytes(word)
        };
        assert!(word(0) < 1_000_000_000);
        assert!(word(8) > last, "{} after {last}", word(8));
        last = word(8);
    }
}

#[test]
fn state_changes_have_64_bytes() {
    alone!();
    let mut rig = Rig::new();
    let portal = rig.portal(0, |_| {});
    for state in [C_PTLTE_ENABLED, C_PTLTE_DISABLED, C_PTLTE_ENABLED, C_PTLTE_RESET] {
        let expected = record::<64>(&[
            (8, &[state as u8]),
            (12, &portal.number.to_le_bytes()),
            (14, &[0x37]),
            (63, &[1]),
        ]);
        assert_eq!(rig.set_state(portal, state).0, expected);
    }
}

#[test]
fn link_and_unlink_have_64_bytes() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = rig.portal(0, |_| {});
    let expected = |kind: u8, code: u32, entries: u8| {
        record::<64>(&[
            (12, &portal.number.to_le_bytes()),
            (14, &[3 | kind << 2]),
            (24, &[0xcd, 0xab]),
            (56, &[entries]),
            (58, &16384_u16.to_le_bytes()),
            (63, &[code as u8]),
        ])
    };
    let link = rig.append(portal, |entry| {
        whole(entry, &sink);
        entry.set_buffer_id(0xabcd);
    });
    assert_eq!(link.0, expected(11, C_RC_OK, 1));
    assert_eq!(link.0[14], 0x2f);
    for (code, entries) in [(C_RC_OK, 0), (C_RC_ENTRY_NOT_FOUND, 0)] {
        rig.tgt.issue(&target(C_CMD_TGT_UNLINK, portal.number, |unlink| {
            _ = unlink.set_buffer_id(0xabcd)
        }));
        assert_eq!(rig.teq.wait().0, expected(14, code, entries));
    }
}

#[test]
fn quiet_append_raises_link_event_only_on_failure() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = rig.portal(0, |_| {});
    for _ in 0..16384 {
        rig.tgt.emit(&append(portal.number, |entry| {
            whole(entry, &sink);
            entry.set_event_link_disable(true);
        }));
        rig.tgt.ring();
    }
    rig.tgt.drain();
    assert_eq!(rig.teq.poll(), None);
    let link = rig.append(portal, |entry| {
        whole(entry, &sink);
        entry.set_event_link_disable(true);
    });
    link.is(C_EVENT_LINK, C_RC_NO_SPACE);
}

#[test]
fn put_event_is_short_on_success() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = rig.target_with(0, &sink, |entry| _ = entry.set_buffer_id(0x4321));
    let source = rig.buffer(PAGE);
    let put = rig.dma_put(&source, 0, 100, |put| {
        put.set_initiator(0xfeed_beef)
            .set_header_data(0x0102_0304_0506_0708)
            .set_match_bits(0x1112_1314_1516_1718)
            .set_remote_offset(8);
    });
    assert_eq!(rig.code(&put), C_RC_OK);
    let mut expected = EventTargetShort::new();
    expected
        .set_header_data(0x0102_0304_0506_0708)
        .set_match_bits(0x1112_1314_1516_1718)
        .set_initiator(0xfeed_beef)
        .set_ptlte_index(portal.number)
        .set_event_size(2)
        .set_event_type(C_EVENT_PUT as u8)
        .set_buffer_id(0x4321)
        .set_vni(1)
        .set_length(100)
        .set_return_code(C_RC_OK as u8);
    assert_eq!(rig.teq.wait().0, expected.bytes());

    let beyond = rig.dma_put(&source, 0, 100, |put| _ = put.set_remote_offset(PAGE as u64 - 99));
    assert_eq!(rig.code(&beyond), C_RC_NO_SPACE);
    let failed = EventTargetLong::from_bytes(rig.teq.wait().bytes());
    assert_eq!((failed.rlength(), failed.mlength()), (100, 0));
    assert_eq!(failed.remote_offset(), PAGE as u64 - 99);
    assert_eq!(u32::from(failed.return_code()), C_RC_NO_SPACE);
}

#[test]
fn queue_or_portal_selects_long_target_events() {
    alone!();
    for by_queue in [true, false] {
        let long = if by_queue { CXI_EQ_TGT_LONG } else { 0 };
        let mut rig = Rig::with_queues(0, CXI_EQ_EC_DISABLE, CXI_EQ_EC_DISABLE | long);
        let sink = rig.buffer(PAGE);
        let portal = rig.enabled(0, |options| options.set_use_long_event((!by_queue).into()));
        rig.append(portal, |entry| whole(entry, &sink));
        let source = rig.buffer(PAGE);
        let put = rig.dma_put(&source, 0, 100, |put| _ = put.set_remote_offset(24));
        assert_eq!(rig.code(&put), C_RC_OK);
        let event = EventTargetLong::from_bytes(rig.teq.wait().bytes());
        assert_eq!((event.rlength(), event.mlength()), (100, 100));
        assert_eq!((event.remote_offset(), event.start()), (24, sink.iova(24)));
        assert_eq!((event.lpe_stat_1(), event.lpe_stat_2()), (1, 16384));
    }
}

#[test]
fn entry_flags_gate_target_events() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let source = rig.buffer(PAGE);
    // (success disabled, all disabled) -> events of a good put and of a bad one
    for (index, success, all, good, bad) in [
        (0, false, false, true, true),
        (32, true, false, false, true),
        (64, false, true, false, false),
    ] {
        rig.target_with(index, &sink, |entry| {
            _ = entry.set_event_success_disable(success).set_event_comm_disable(all)
        });
        for (offset, expected) in [(0, good), (PAGE as u64, bad)] {
            let dfa = rig.dfa(index);
            let put =
                rig.dma_put(&source, 0, 8, |put| _ = put.set_dfa(dfa).set_remote_offset(offset));
            rig.run(&put);
            let event = rig.teq.poll();
            rig.teq.acknowledge();
            assert_eq!(event.is_some(), expected, "index {index} offset {offset}");
        }
    }
}
