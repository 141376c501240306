//! The ring of an event queue: packing, wrap, acknowledgement, drops, status (nic.md 5). Event
//! records, byte for byte (nic.md 6, appendix B).

use crate::driver::prelude::*;

const SLOTS: usize = PAGE / SLOT;

/// Slots that events can fill (nic.md 5.2).
const USABLE: usize = SLOTS - 2;

struct Bench {
    rig: Rig,
    source: Buffer,
    sink: Buffer,
}

impl Bench {
    /// A rig whose target event queue has these attributes.
    fn new(choose: impl FnOnce(&mut cxi_eq_attr)) -> Self {
        let mut rig = Rig::new();
        rig.teq = EventQueue::with(rig.dev, rig.lni, PAGE, choose);
        let source = rig.buffer(PAGE);
        source.pages.fill(0x55);
        let sink = rig.buffer(PAGE);
        Self { rig, source, sink }
    }

    /// Issues puts without success events to index 0.
    fn quiet_puts(&mut self, count: usize) {
        for _ in 0..count {
            let put =
                self.rig.dma_put(&self.source, 0, 8, |put| _ = put.set_event_success_disable(true));
            self.rig.tx.issue(&put);
        }
        self.flush();
    }

    /// Waits until all earlier puts are complete.
    fn flush(&mut self) {
        self.rig.tx.issue(&cq(C_CMD_CQ_FENCE, 0));
        self.rig.tx.drain();
    }

    /// Return code of a put of 8 bytes to the start of index 0.
    fn put(&mut self) -> u32 {
        let put = self.rig.dma_put(&self.source, 0, 8, |_| {});
        self.rig.code(&put)
    }
}

/// libcxi.md 8.1: the queue is made, and its events are lost.
#[test]
fn queue_in_read_only_mapping_gets_no_events() {
    alone!();
    let mut bench = Bench::new(|_| {});
    bench.rig.target(0, &bench.sink);
    let memory = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
    let attributes = attributes(memory.pages.base.cast(), PAGE);
    let (none, mut eq) = (null_mut(), null_mut());
    let code = call!(cxil_alloc_evtq(bench.rig.lni, memory.md, &attributes, none, none, &mut eq));
    assert_eq!(code, 0);
    // SAFETY: `cxil_alloc_evtq` has just returned the handle.
    let number = unsafe { (*eq).eqn } as u16;
    // More than the queue has slots: none ends the traffic.
    for _ in 0..SLOTS * SLOT / 16 {
        let put = bench.rig.dma_put(&bench.source, 0, 8, |put| _ = put.set_eq(number));
        bench.rig.tx.issue(&put);
        bench.flush();
    }
    assert!(memory.pages.is(0, PAGE, 0));
    assert!(bench.sink.pages.is(0, 8, 0x55));
    assert_eq!(bench.put(), C_RC_OK);
    assert_eq!(call!(cxil_destroy_evtq(eq)), 0);
    memory.unmap();
}

#[test]
fn packs_and_wraps_16_byte_events() {
    alone!();
    let mut bench = Bench::new(|_| {});
    bench.rig.target(0, &bench.sink);
    // Many laps, with 1 to 9 events between acknowledgements, so that slots are released in part.
    let mut number = 0_u64;
    for round in 0..600 {
        let burst = 1 + round % 9;
        for offset in 0..burst {
            let put = bench
                .rig
                .dma_put(&bench.source, 0, 8, |put| _ = put.set_user_ptr(number + offset + 1));
            bench.rig.tx.emit(&put);
        }
        bench.rig.tx.ring();
        for _ in 0..burst {
            let ack = wait_for("an ACK", || bench.rig.eq.poll());
            number += 1;
            assert_eq!(ack.0[..8], number.to_le_bytes());
        }
        bench.rig.eq.acknowledge();
        assert_eq!(bench.rig.eq.poll(), None);
    }
    assert!(number > 10 * 4 * USABLE as u64);
    assert_eq!(bench.rig.eq.status().bytes(), &[0; 64], "no drop, no threshold");
}

#[test]
fn events_never_straddle_slots() {
    alone!();
    // Initiator and target share the queue: 16, 32 and 64 bytes in all orders.
    let mut bench = Bench::new(|_| {});
    bench.rig.target_with(0, &bench.sink, |_| {});
    let eq = bench.rig.teq.number;
    for round in 0..500_u64 {
        // A good put makes events of 16 and 32 bytes, a bad one 16 and 64.
        let good = round * round % 7 < 4;
        let offset = if good { 0 } else { PAGE as u64 };
        let put = bench
            .rig
            .dma_put(&bench.source, 0, 8, |put| _ = put.set_eq(eq).set_remote_offset(offset));
        bench.rig.tx.issue(&put);
        let mut sizes = [0; 2];
        for size in &mut sizes {
            *size = wait_for("an event", || bench.rig.teq.poll()).0.len();
        }
        sizes.sort_unstable();
        assert_eq!(sizes, [16, if good { 32 } else { 64 }]);
        if round % 3 == 0 {
            bench.rig.teq.acknowledge();
        }
    }
}

/// The types of the events in a slot, NULL events included.
fn slot(queue: &EventQueue, number: usize) -> Vec<u32> {
    let bytes = queue.buffer.pages.read(number * SLOT, SLOT);
    let (mut kinds, mut at) = (vec![], 0);
    while at < SLOT && bytes[at + 14] & 3 != 0 {
        let event = Event(bytes[at..at + (8 << (bytes[at + 14] & 3))].to_vec());
        assert_eq!(event.code(), C_RC_OK);
        kinds.push(event.kind());
        at += event.0.len();
    }
    kinds
}

/// nic.md 5.7: a queue without EC_DISABLE has no slot that is filled in part.
#[test]
fn closes_slots_with_null_events() {
    alone!();
    let mut rig = Rig::with_queues(0, 0, 0);
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    // STATE_CHANGE and LINK fill slots.
    rig.target_with(0, &sink, |_| {});
    let put = rig.dma_put(&source, 0, 8, |_| {});
    const ACK: u32 = C_EVENT_ACK;
    const NULL: u32 = C_EVENT_NULL_EVENT;
    // More than a lap of the queue.
    for lap in 0..USABLE + 5 {
        let at = |slots: usize| 1 + (lap + slots) % (SLOTS - 1);
        rig.tx.issue(&put);
        // Seen together: the event, and the bytes behind it.
        let ack = wait_for("an ACK", || rig.eq.poll());
        assert_eq!(slot(&rig.eq, at(0)), [ACK, NULL, NULL, NULL]);
        assert_eq!(ack.code(), C_RC_OK);
        rig.eq.acknowledge();
        wait_for("a PUT", || rig.teq.poll()).is(C_EVENT_PUT, C_RC_OK);
        assert_eq!(slot(&rig.teq, at(2)), [C_EVENT_PUT, NULL, NULL]);
        rig.teq.acknowledge();
    }
}

/// Events of one turn of the NIC share slots.
#[test]
fn combines_events_of_one_turn() {
    alone!();
    let mut rig = Rig::with_queues(0, 0, 0);
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    rig.target(0, &sink);
    let put = rig.dma_put(&source, 0, 8, |_| {});
    for _ in 0..5 {
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    for _ in 0..5 {
        let ack = wait_for("an ACK", || rig.eq.poll());
        ack.is(C_EVENT_ACK, C_RC_OK);
    }
    assert_eq!(slot(&rig.eq, 1), [C_EVENT_ACK; 4]);
    let null = C_EVENT_NULL_EVENT;
    assert_eq!(slot(&rig.eq, 2), [C_EVENT_ACK, null, null, null]);
}

/// Events of a call are visible when it returns.
#[test]
fn calls_hold_no_events() {
    alone!();
    let mut rig = Rig::with_queues(0, 0, 0);
    let mut queue = Queue::trigger(rig.dev, rig.lni, null_mut());
    let counter = Counter::new(rig.lni);
    queue.issue(&trig_event(counter.number, rig.eq.number, 1));
    queue.drain();
    counter.destroy();
    let cancelled = rig.eq.take().expect("an event without a poll");
    cancelled.is(C_EVENT_TRIGGERED_OP, C_RC_CANCELED);
}

#[test]
fn reuses_slots_only_after_acknowledgement() {
    alone!();
    let mut bench = Bench::new(|_| {});
    bench.rig.target(0, &bench.sink);
    // Fill the initiator's queue without an acknowledgement: four ACKs a slot.
    for round in 0..3 {
        for _ in 0..4 * USABLE {
            let put = bench.rig.dma_put(&bench.source, 0, 8, |_| {});
            bench.rig.tx.issue(&put);
        }
        bench.flush();
        let status = bench.rig.eq.status();
        assert!(!status.unackd_dropped_event(), "round {round}");
        for _ in 0..4 * USABLE {
            assert_eq!(wait_for("an ACK", || bench.rig.eq.take()).code(), C_RC_OK);
        }
        assert_eq!(bench.rig.eq.take(), None);
        bench.rig.eq.acknowledge();
    }
}

#[test]
fn full_queue_reports_dropped_events() {
    alone!();
    let mut bench = Bench::new(|_| {});
    bench.rig.target(0, &bench.sink);
    let fill = |bench: &mut Bench, events: usize| {
        for _ in 0..events {
            let put = bench.rig.dma_put(&bench.source, 0, 8, |_| {});
            bench.rig.tx.issue(&put);
        }
        bench.flush();
    };
    fill(&mut bench, 4 * USABLE + 3);
    let status = bench.rig.eq.status();
    assert!(status.unackd_dropped_event());
    assert_eq!(status.event_slots_free(), 0);
    assert!(status.timestamp_sec() > 1_000_000_000);
    let times = (status.timestamp_sec(), status.timestamp_ns());
    assert_eq!((status.timestamp_sec_cpy(), status.timestamp_ns_cpy()), times);
    let sequence = status.event_drop_seq_no();
    // All other events are there.
    for _ in 0..4 * USABLE {
        assert_eq!(bench.rig.eq.take().map(|event| event.code()), Some(C_RC_OK));
    }
    assert_eq!(bench.rig.eq.take(), None);
    // After acknowledgement, the next drop has another sequence number.
    bench.rig.eq.clear_dropped();
    bench.rig.eq.state.set_event_drop_seq_no(sequence);
    bench.rig.eq.acknowledge();
    fill(&mut bench, 4 * USABLE);
    assert!(!bench.rig.eq.status().unackd_dropped_event());
    fill(&mut bench, 1);
    let status = bench.rig.eq.status();
    assert!(status.unackd_dropped_event());
    assert_eq!(status.event_drop_seq_no(), !sequence);
}

#[test]
fn reports_no_drops_with_drop_status_disabled() {
    alone!();
    let flags = CXI_EQ_EC_DISABLE | CXI_EQ_DROP_STATUS_DISABLE;
    let mut rig = Rig::with_queues(0, flags, CXI_EQ_EC_DISABLE);
    let source = rig.buffer(PAGE);
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    for _ in 0..4 * USABLE + 1 {
        let put = rig.dma_put(&source, 0, 8, |_| {});
        rig.tx.issue(&put);
    }
    rig.tx.issue(&cq(C_CMD_CQ_FENCE, 0));
    rig.tx.drain();
    assert_eq!(rig.eq.status().bytes(), &[0; 64]);
}

#[test]
fn status_reports_crossed_thresholds() {
    alone!();
    let mut bench = Bench::new(|attributes| {
        attributes.status_thresh_base = 75;
        attributes.status_thresh_delta = 25;
        attributes.status_thresh_count = 2;
    });
    bench.rig.target_with(0, &bench.sink, |_| {});
    let mut crossed = vec![];
    for _ in 0..USABLE {
        // Two events of 32 bytes a slot.
        bench.quiet_puts(2);
        let status = bench.rig.teq.status();
        let level = status.thld_sts().then(|| status.thld_id());
        if crossed.last() != Some(&level) {
            let used = 100 - 100 * status.event_slots_free() / SLOTS as u32;
            if level.is_some() {
                assert!([50, 51, 75, 76].contains(&used), "{used} %");
            }
            crossed.push(level);
        }
    }
    assert_eq!(crossed, [None, Some(0), Some(1)]);
}

/// A portal without room for its events takes no data.
#[test]
fn rejects_put_without_room_for_its_event() {
    alone!();
    let mut bench = Bench::new(|_| {});
    bench.rig.target_with(0, &bench.sink, |_| {});
    // The slots of LINK and STATE_CHANGE were released.
    bench.quiet_puts(2 * USABLE);
    assert!(!bench.rig.teq.status().unackd_dropped_event());
    bench.sink.pages.fill(0);
    assert_eq!(bench.put(), C_RC_ENTRY_NOT_FOUND);
    assert!(bench.sink.pages.is(0, PAGE, 0));
    assert!(!bench.rig.teq.status().unackd_dropped_event());
    // The portal is still enabled when there is room again.
    while bench.rig.teq.take().is_some() {}
    bench.rig.teq.acknowledge();
    assert_eq!(bench.put(), C_RC_OK);
    assert!(bench.sink.pages.is(0, 8, 0x55));
}

#[test]
fn flow_control_reserves_room_for_its_event() {
    alone!();
    let mut bench = Bench::new(|attributes| attributes.reserved_slots = 8);
    let portal = bench.rig.enabled(0, |options| options.set_en_flowctrl(1));
    bench.rig.append(portal, |entry| whole(entry, &bench.sink));
    let mut puts = 0;
    let change = loop {
        assert!(puts < 2 * USABLE, "the reserved slots are not for messages");
        let code = bench.put();
        if code == C_RC_OK {
            puts += 1;
            continue;
        }
        assert_eq!(code, C_RC_PT_DISABLED);
        break loop {
            let event = wait_for("a state change", || bench.rig.teq.poll());
            if event.kind() == C_EVENT_STATE_CHANGE {
                break event;
            }
        };
    };
    assert_eq!(puts, 2 * (USABLE - 8));
    let expected = [C_PTLTE_DISABLED as u8, C_SC_FC_EQ_FULL as u8, 1];
    assert_eq!(change.0[8..11], expected);
}

#[test]
fn delivers_to_large_and_passthrough_queues() {
    alone!();
    const UNDER_WAY: usize = 16;
    let rig = Rig::new();
    let large = EventQueue::with(rig.dev, rig.lni, 64 * PAGE, |_| {});
    let passthrough = EventQueue::with(rig.dev, rig.lni, PAGE, |attributes| {
        attributes.flags |= u64::from(CXI_EQ_PASSTHROUGH);
    });
    let mut bench = Bench { source: rig.buffer(PAGE), sink: rig.buffer(PAGE), rig };
    bench.rig.target(0, &bench.sink);
    for queue in [large, passthrough] {
        let mut queue = queue;
        let put = bench.rig.nomatch_put(&bench.source, 0, 8, |put| _ = put.set_eq(queue.number));
        // Two laps. Several under way at once: beside busy loops, each wait may take milliseconds.
        for _ in 0..queue.buffer.pages.len / 16 * 2 / UNDER_WAY {
            (0..UNDER_WAY).for_each(|_| bench.rig.tx.issue(&put));
            (0..UNDER_WAY).for_each(|_| assert_eq!(queue.wait().code(), C_RC_OK));
        }
    }
}

#[test]
fn writes_no_event_to_destroyed_queue() {
    alone!();
    let mut bench = Bench::new(|_| {});
    bench.rig.target(0, &bench.sink);
    for _ in 0..50 {
        let queue = EventQueue::new(bench.rig.dev, bench.rig.lni, CXI_EQ_EC_DISABLE);
        let put = bench.rig.nomatch_put(&bench.source, 0, 8, |put| _ = put.set_eq(queue.number));
        bench.rig.tx.issue(&put);
        wait_for("the command to be taken", || {
            progress(bench.rig.dev);
            let taken = usize::from(bench.rig.tx.status().rd_ptr()) == bench.rig.tx.wp / 2;
            taken.then_some(())
        });
        assert_eq!(call!(cxil_destroy_evtq(queue.handle)), 0);
        queue.buffer.pages.fill(0);
        bench.flush();
        assert!(queue.buffer.pages.is(0, PAGE, 0), "written after its end");
    }
}

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
