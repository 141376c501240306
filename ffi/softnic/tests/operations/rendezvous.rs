//! Rendezvous messages (nic.md 10): source and target in one process, as the send tools have them,
//! and in two processes.

use crate::driver::prelude::*;

const M: u64 = 0x1234_5678_9abc_def0;
const ID: u8 = 0xcc;
const HEADER_DATA: u64 = 0x77;
const SOURCES: u32 = 255;

/// Source and target of rendezvous messages.
struct Bench {
    rig: Rig,
    /// Events of the source's entry.
    seq: EventQueue,
    source: Buffer,
    sink: Buffer,
    portal: Portal,
    len: usize,
}

impl Bench {
    fn new(len: usize) -> Self {
        let mut rig = Rig::new();
        let seq = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
        let source = rig.buffer(len);
        // In a separate address context.
        let sink = Buffer::new(rig.lni, len, CXI_MAP_PIN | CXI_MAP_WRITE);
        assert_ne!(source.lac, sink.lac);
        let pattern: Vec<u8> = (0..len).map(|at| (at % 251) as u8 + 1).collect();
        source.pages.write(0, &pattern);
        let portal = rig.portal(0, |options| options.set_is_matching(1));
        assert_eq!(rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
        let mut bench = Self { rig, seq, source, sink, portal, len };
        bench.offer_source(|_| {});
        bench
    }

    /// The source's portal, on its own queue, with an entry over all of the source.
    fn offer_source(&mut self, choose: impl FnOnce(&mut TargetCmd)) {
        std::mem::swap(&mut self.rig.teq, &mut self.seq);
        let (source, nid) = (self.source, self.rig.nid);
        let portal = self.rig.portal(SOURCES, |options| options.set_is_matching(1));
        assert_eq!(self.rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
        let link = self.rig.append(portal, |entry| {
            whole(entry, &source);
            entry
                .set_op_put(false)
                .set_op_get(true)
                .set_match_id(match_id(511, nid))
                .set_match_bits(M >> 48 << 48 | u64::from(ID))
                .set_ignore_bits(0xf00);
            choose(entry);
        });
        assert_eq!(link.kind(), C_EVENT_LINK);
        std::mem::swap(&mut self.rig.teq, &mut self.seq);
    }

    /// Appends an entry over all of the sink to the target's portal.
    fn offer(&mut self, buffer_id: u16, choose: impl FnOnce(&mut TargetCmd)) {
        let sink = self.sink;
        let matches = match_id(self.rig.pid, self.rig.nid);
        let link = self.rig.append(self.portal, |entry| {
            whole(entry, &sink);
            entry.set_buffer_id(buffer_id).set_match_id(matches).set_match_bits(M);
            choose(entry);
        });
        link.is(C_EVENT_LINK, C_RC_OK);
    }

    fn put(&self, offset: usize, len: usize, choose: impl FnOnce(&mut FullDmaCmd)) -> Vec<u8> {
        self.rig.dma_put(&self.source, offset, len as u32, |put| {
            put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
                .set_rendezvous_id(ID)
                .set_initiator(match_id(self.rig.pid, self.rig.nid))
                .set_match_bits(M)
                .set_header_data(HEADER_DATA)
                .set_user_ptr(0x88)
                .set_remote_offset(offset as u64);
            choose(put);
        })
    }

    fn send(&mut self, command: &[u8]) -> Completion {
        Completion::of(&self.rig.run(command))
    }

    fn target_event(&mut self) -> TargetEvent {
        let event = self.rig.teq.wait();
        assert!(!is_completion(&event), "{event:?}");
        TargetEvent::of(&event)
    }

    fn reply(&mut self) -> Completion {
        let event = self.rig.teq.wait();
        assert!(is_completion(&event), "{event:?}");
        Completion::of(&event)
    }

    /// PUT, RENDEZVOUS and REPLY of one message.
    fn three(&mut self) -> (TargetEvent, TargetEvent, Completion) {
        (self.target_event(), self.target_event(), self.reply())
    }

    fn user_ptr(&self, buffer_id: u16) -> u64 {
        let (nid, pid) = (u64::from(self.rig.nid), u64::from(self.rig.pid));
        nid | pid << 20
            | u64::from(self.portal.number) << 29
            | u64::from(ID) << 40
            | u64::from(buffer_id) << 48
    }

    fn nothing_more(&mut self) {
        for _ in 0..4 {
            progress(self.rig.dev);
        }
        assert!(self.rig.eq.take().is_none());
        assert!(self.rig.teq.take().is_none());
        assert!(self.seq.take().is_none());
    }
}

#[test]
fn raises_every_event_with_every_field() {
    alone!();
    let mut bench = Bench::new(16 * PAGE);
    bench.offer(0xb1d, |_| {});
    let (offset, len, eager) = (192, 10_000, 3000);
    let put = bench.put(offset, len, |put| _ = put.set_eager_length(eager));
    let ack = Completion {
        kind: C_EVENT_ACK,
        code: C_RC_OK,
        user_ptr: 0x88,
        mlength: eager,
        ptl_list: C_PTL_LIST_PRIORITY,
        rendezvous: false,
        tgt_error: false,
    };
    assert_eq!(bench.send(&put), ack);
    let initiator = match_id(bench.rig.pid, bench.rig.nid);
    let expected = TargetEvent {
        long: true,
        kind: C_EVENT_PUT,
        code: C_RC_OK,
        ptlte_index: bench.portal.number,
        ptl_list: C_PTL_LIST_PRIORITY,
        buffer_id: 0xb1d,
        auto_unlinked: false,
        initiator,
        match_bits: M,
        header_data: HEADER_DATA,
        vni: 1,
        rlength: len as u32,
        mlength: eager,
        start: bench.sink.iova(offset),
        remote_offset: offset as u64 + u64::from(eager),
        rendezvous: true,
        rendezvous_id: ID,
        get_issued: false,
    };
    let (reported, rendezvous, reply) = bench.three();
    assert_eq!(reported, expected);
    let (dfa, ext) = address(bench.rig.nid, bench.rig.pid, SOURCES);
    assert_eq!(ext, 31);
    let get_bits = 0x1234_0000_0000_0fcc;
    let expected = TargetEvent {
        kind: C_EVENT_RENDEZVOUS,
        initiator: dfa,
        match_bits: get_bits,
        start: bench.sink.iova(offset + eager as usize),
        get_issued: true,
        ..expected
    };
    assert_eq!(rendezvous, expected);
    let expected = Completion {
        kind: C_EVENT_REPLY,
        code: C_RC_OK,
        user_ptr: bench.user_ptr(0xb1d),
        mlength: len as u32 - eager,
        ptl_list: C_PTL_LIST_PRIORITY,
        rendezvous: true,
        tgt_error: false,
    };
    assert_eq!(reply, expected);
    let event = EventTargetShort::from_bytes(bench.seq.wait().bytes());
    assert_eq!(u32::from(event.event_type()), C_EVENT_GET);
    assert_eq!(event.initiator(), initiator, "whom the get comes from");
    assert_eq!((event.match_bits(), event.header_data()), (get_bits, HEADER_DATA));
    assert_eq!(event.length(), len as u32 - eager);
    let sent = bench.source.pages.read(offset, len);
    assert!(bench.sink.pages.read(offset, len) == sent);
    assert!(bench.sink.pages.is(0, offset, 0));
    assert!(bench.sink.pages.is(offset + len, bench.len - offset - len, 0));
    bench.nothing_more();
}

#[test]
fn moves_bytes_of_every_split() {
    alone!();
    let mut bench = Bench::new(64 * PAGE);
    bench.offer(0, |entry| _ = entry.set_event_success_disable(true));
    for (len, eagers) in [
        (0, &[0, 5][..]),
        (1, &[0, 1]),
        (16, &[0, 7, 16]),
        (2048, &[0, 1, 2047, 2048, 2049]),
        (10_001, &[0, 16, 2049, 10_000, 10_001, (1 << 20) - 1]),
        (200_000, &[0, 4096, 100_001, 200_000]),
    ] {
        for &eager in eagers {
            bench.sink.pages.fill(0);
            let put = bench.put(64, len, |put| _ = put.set_eager_length(eager as u32));
            let moved = eager.min(len) as u32;
            assert_eq!(bench.send(&put).mlength, moved);
            // Rendezvous reports success although the entry disables it (nic.md 6.5).
            let (put, rendezvous, reply) = bench.three();
            assert_eq!((put.kind, put.mlength), (C_EVENT_PUT, moved));
            assert_eq!(rendezvous.kind, C_EVENT_RENDEZVOUS);
            assert_eq!((reply.code, reply.mlength), (C_RC_OK, len as u32 - moved));
            assert_eq!(bench.seq.wait().kind(), C_EVENT_GET);
            let mut expected = vec![0; bench.len];
            expected[64..64 + len].copy_from_slice(&bench.source.pages.read(64, len));
            assert!(bench.sink.pages.read(0, bench.len) == expected, "{eager} of {len}");
            bench.nothing_more();
        }
    }
}

/// With `use_offset_for_get` the remote offset applies to the source.
#[test]
fn uses_offset_for_get_on_request() {
    alone!();
    let mut bench = Bench::new(16 * PAGE);
    bench.offer(0, |entry| _ = entry.set_manage_local(true));
    for round in 0..3 {
        let put =
            bench.put(5000, 3000, |put| _ = put.set_use_offset_for_get(true).set_eager_length(100));
        assert_eq!(bench.send(&put).code, C_RC_OK);
        let (_, rendezvous, reply) = bench.three();
        assert_eq!(rendezvous.remote_offset, 5100);
        assert_eq!(rendezvous.start, bench.sink.iova(3000 * round + 100));
        assert_eq!(reply.code, C_RC_OK);
        assert_eq!(bench.seq.wait().kind(), C_EVENT_GET);
        let sent = bench.source.pages.read(5000, 3000);
        assert!(bench.sink.pages.read(3000 * round, 3000) == sent);
    }
}

#[test]
fn fetches_unexpected_message_when_entry_is_appended() {
    alone!();
    for eager in [0_u32, 100, 5000, 9000] {
        let mut bench = Bench::new(16 * PAGE);
        let overflow = bench.rig.buffer(2 * PAGE);
        bench.rig.append(bench.portal, |entry| {
            whole(entry, &overflow);
            entry
                .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
                .set_buffer_id(1)
                .set_manage_local(true)
                .set_ignore_bits(u64::MAX)
                .set_match_id(u32::MAX);
        });
        let put = bench.put(64, 9000, |put| _ = put.set_eager_length(eager));
        let moved = eager.min(2 * PAGE as u32);
        let ack = bench.send(&put);
        assert_eq!((ack.code, ack.ptl_list), (C_RC_OK, C_PTL_LIST_OVERFLOW));
        assert_eq!(ack.mlength, moved);
        let event = bench.target_event();
        assert_eq!((event.kind, event.buffer_id), (C_EVENT_PUT, 1));
        assert_eq!((event.rlength, event.mlength), (9000, moved));
        assert_eq!((event.long, event.rendezvous), (true, true));
        assert_eq!(event.ptl_list, C_PTL_LIST_OVERFLOW);
        bench.nothing_more();
        // The get starts only with the receive.
        let (sink, matches) = (bench.sink, match_id(511, bench.rig.nid));
        let found = bench.rig.append(bench.portal, |entry| {
            whole(entry, &sink);
            entry.set_buffer_id(2).set_use_once(true).set_match_bits(M).set_match_id(matches);
        });
        let found = TargetEvent::of(&found);
        assert_eq!((found.kind, found.buffer_id), (C_EVENT_PUT_OVERFLOW, 2));
        assert_eq!((found.match_bits, found.header_data), (M, HEADER_DATA));
        assert_eq!((found.start, found.mlength), (overflow.iova(0), moved));
        assert_eq!((found.rendezvous, found.auto_unlinked), (true, true));
        let rendezvous = bench.target_event();
        assert_eq!((rendezvous.kind, rendezvous.buffer_id), (C_EVENT_RENDEZVOUS, 2));
        let at = 64 + moved as usize;
        assert_eq!(rendezvous.start, bench.sink.iova(at));
        assert_eq!(rendezvous.remote_offset, at as u64);
        let reply = bench.reply();
        assert_eq!((reply.code, reply.mlength), (C_RC_OK, 9000 - moved));
        assert_eq!(reply.user_ptr, bench.user_ptr(2));
        assert_eq!(bench.seq.wait().kind(), C_EVENT_GET);
        // Software copies the eager part.
        let sent = bench.source.pages.read(64, 9000);
        assert!(overflow.pages.read(0, moved as usize) == sent[..moved as usize]);
        assert!(bench.sink.pages.read(at, 9064 - at) == sent[moved as usize..]);
        assert!(bench.sink.pages.is(0, at, 0));
        bench.nothing_more();
    }
}

/// Truncates before or behind the end of the eager part.
#[test]
fn truncates_to_locally_managed_entry() {
    alone!();
    for (room, eager, moved) in [(5000_u64, 2000_u32, 2000_u32), (1000, 2000, 1000), (0, 0, 0)] {
        let mut bench = Bench::new(4 * PAGE);
        bench.offer(0, |entry| _ = entry.set_manage_local(true).set_length(room));
        let put = bench.put(0, 8000, |put| _ = put.set_eager_length(eager));
        assert_eq!(bench.send(&put).mlength, moved);
        let (put, rendezvous, reply) = bench.three();
        assert_eq!((put.rlength, put.mlength), (8000, moved));
        assert_eq!((rendezvous.rlength, rendezvous.mlength), (8000, moved));
        let rest = room as u32 - moved;
        assert_eq!((reply.code, reply.mlength), (C_RC_OK, rest));
        let sent = bench.source.pages.read(0, room as usize);
        assert!(bench.sink.pages.read(0, room as usize) == sent);
        assert!(bench.sink.pages.is(room as usize, 1000, 0));
    }
    // Other entries refuse it.
    let mut bench = Bench::new(4 * PAGE);
    bench.offer(0, |entry| _ = entry.set_length(7999));
    let put = bench.put(0, 8000, |_| {});
    assert_eq!(bench.send(&put).code, C_RC_NO_SPACE);
    let event = bench.target_event();
    assert_eq!((event.kind, event.code), (C_EVENT_PUT, C_RC_NO_SPACE));
    bench.nothing_more();
}

/// Software issues the gets, with the same result.
#[test]
fn leaves_gets_to_software_on_request() {
    alone!();
    // SAFETY: the only thread of this process that looks at its environment is this one.
    unsafe { std::env::set_var("CXIDIAG_RDZV_GET", "0") };
    let mut bench = Bench::new(16 * PAGE);
    bench.offer(7, |_| {});
    for eager in [0, 100, 9000] {
        bench.sink.pages.fill(0);
        let put = bench.put(64, 9000, |put| _ = put.set_eager_length(eager));
        assert_eq!(bench.send(&put).code, C_RC_OK);
        assert_eq!(bench.target_event().kind, C_EVENT_PUT);
        let reported = bench.target_event();
        assert_eq!((reported.kind, reported.get_issued), (C_EVENT_RENDEZVOUS, false));
        bench.nothing_more();
        // Completes on the target's queue (nic.md 10.4).
        let (initiator, eq) = (match_id(bench.rig.pid, bench.rig.nid), bench.rig.teq.number);
        let sink = bench.sink;
        let get = bench.rig.dma_put(&sink, 0, reported.rlength - reported.mlength, |get| {
            get.set_opcode(C_CMD_GET as u8)
                .set_dfa(reported.initiator)
                .set_index_ext(31)
                .set_local_addr(reported.start)
                .set_remote_offset(reported.remote_offset)
                .set_initiator(initiator)
                .set_match_bits(reported.match_bits)
                .set_header_data(reported.header_data)
                .set_user_ptr(0x99)
                .set_eq(eq);
        });
        bench.rig.tx.issue(&get);
        let reply = bench.reply();
        assert_eq!((reply.code, reply.user_ptr), (C_RC_OK, 0x99));
        assert!(!reply.rendezvous);
        assert_eq!(bench.seq.wait().kind(), C_EVENT_GET);
        let sent = bench.source.pages.read(64, 9000);
        assert!(bench.sink.pages.read(64, 9000) == sent);
    }
}

/// An entry with events disabled gets the data, and events of failures.
#[test]
fn silent_entry_reports_only_failures() {
    alone!();
    let mut bench = Bench::new(PAGE);
    bench.offer(0, |entry| _ = entry.set_event_comm_disable(true));
    let put = bench.put(0, 100, |_| {});
    assert_eq!(bench.send(&put).code, C_RC_OK);
    assert_eq!(bench.seq.wait().kind(), C_EVENT_GET);
    let byte = bench.source.pages.read(99, 1);
    wait_for("the data", || {
        progress(bench.rig.dev);
        (bench.sink.pages.read(99, 1) == byte).then_some(())
    });
    bench.nothing_more();
    // The source has no entry for this id.
    let put = bench.put(0, 100, |put| _ = put.set_rendezvous_id(ID ^ 1));
    assert_eq!(bench.send(&put).code, C_RC_OK);
    assert_eq!(bench.reply().code, C_RC_ENTRY_NOT_FOUND);
}

#[test]
fn reports_failed_get_in_reply() {
    alone!();
    let mut bench = Bench::new(PAGE);
    bench.offer(0, |_| {});
    let failing = |bench: &mut Bench, put: Vec<u8>, code: u32| {
        assert_eq!(bench.send(&put).code, C_RC_OK);
        let (put, rendezvous, reply) = bench.three();
        assert_eq!((put.code, rendezvous.code), (C_RC_OK, C_RC_OK));
        assert_eq!((reply.code, reply.mlength), (code, 0));
        assert!(reply.rendezvous && reply.tgt_error);
    };
    // The initiator's PID is unknown.
    let sink = bench.sink;
    bench.rig.append(bench.portal, |entry| {
        whole(entry, &sink);
        entry.set_match_bits(M).set_match_id(u32::MAX);
    });
    let stranger = match_id(300, bench.rig.nid);
    let put = bench.put(0, 100, |put| _ = put.set_initiator(stranger));
    failing(&mut bench, put, C_RC_PTLTE_NOT_FOUND);
    // Beyond the source's entry.
    let put = bench.put(PAGE - 100, 100, |put| {
        _ = put.set_use_offset_for_get(true).set_remote_offset(PAGE as u64 - 99)
    });
    failing(&mut bench, put, C_RC_NO_SPACE);
    assert_eq!(bench.seq.wait().code(), C_RC_NO_SPACE);
}

#[test]
fn rejects_restricted_rendezvous() {
    alone!();
    let mut bench = Bench::new(PAGE);
    let put = bench.put(0, 100, |put| _ = put.set_restricted(true));
    bench.rig.tx.issue(&put);
    let status = bench.rig.tx.wait_error();
    assert_eq!(u32::from(status.return_code()), C_RC_CMD_INVALID_ARG);
}

/// Starts a source in another process: it sends what its lines order, as the address of the
/// target, the length and the eager length, and responds to gets by its engine thread.
fn play_source(len: usize) {
    let mut bench = Bench::new(len);
    say(&bench.rig.pid.to_string());
    while let Some(line) = listen() {
        let numbers: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let put = bench.put(0, numbers[1] as usize, |put| {
            _ = put.set_dfa(numbers[0]).set_eager_length(numbers[2])
        });
        bench.rig.run(&put).is(C_EVENT_ACK, C_RC_OK);
        say("sent");
    }
}

#[test]
fn get_from_source_killed_before_it_fails() {
    alone!();
    if role().is_some() {
        return play_source(PAGE);
    }
    let mut partner = Partner::start("source");
    partner.receive();
    let mut bench = Bench::new(PAGE);
    // The put is unexpected, and its source is killed before the receive.
    bench
        .offer(4, |entry| _ = entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8).set_match_id(u32::MAX));
    partner.send(&format!("{} 4000 10", bench.rig.dfa(0)));
    assert_eq!(bench.target_event().kind, C_EVENT_PUT);
    assert_eq!(partner.receive(), "sent");
    partner.kill();
    let sink = bench.sink;
    let found = bench.rig.append(bench.portal, |entry| {
        whole(entry, &sink);
        entry.set_match_bits(M).set_match_id(u32::MAX);
    });
    assert_eq!(found.kind(), C_EVENT_PUT_OVERFLOW);
    assert_eq!(bench.target_event().kind, C_EVENT_RENDEZVOUS);
    // The NIC has other users, so only the address is missing, and the get ends at once.
    let reply = bench.reply();
    assert_eq!((reply.code, reply.rendezvous), (C_RC_PTLTE_NOT_FOUND, true));
    assert_eq!(bench.target_event().kind, C_EVENT_LINK);
}

#[test]
fn get_from_source_killed_during_it_is_undeliverable() {
    alone!();
    // At 1 MB/s the get takes longer than the test.
    const LEN: usize = 32 << 20;
    set("CXIDIAG_LINK", "bandwidth=1MB/s");
    let mut rig = Rig::new();
    if role().is_some() {
        let source = rig.buffer(LEN);
        let portal = rig.enabled(SOURCES, |options| options.set_is_matching(1));
        rig.append(portal, |entry| {
            whole(entry, &source);
            gets(entry);
            match_all(entry);
        });
        say("here");
        let dfa = listen().unwrap().parse().unwrap();
        let put = rig.dma_put(&source, 0, LEN as u32, |put| {
            put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
                .set_initiator(match_id(rig.pid, rig.nid))
                .set_dfa(dfa);
        });
        rig.tx.issue(&put);
        listen();
        return;
    }
    let mut partner = Partner::start("source");
    partner.receive();
    let sink = rig.buffer(LEN);
    rig.target_with(0, &sink, |_| {});
    sink.pages.write(0, &[0xff]);
    partner.send(&rig.dfa(0).to_string());
    wait_for("the first data", || {
        progress(rig.dev);
        sink.pages.is(0, 1, 0).then_some(())
    });
    partner.kill();
    for kind in [C_EVENT_PUT, C_EVENT_RENDEZVOUS] {
        rig.teq.expect(kind, C_RC_OK);
    }
    rig.teq.expect(C_EVENT_REPLY, C_RC_UNDELIVERABLE);
}

#[test]
fn put_to_target_killed_before_its_response_is_undeliverable() {
    alone!();
    if role().is_some() {
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        say(&rig.dfa(0).to_string());
        listen();
        return;
    }
    let mut partner = Partner::start("target");
    let dfa = partner.receive().parse().unwrap();
    let mut bench = Bench::new(PAGE);
    partner.pause();
    let put = bench.put(0, 1000, |put| _ = put.set_dfa(dfa).set_eager_length(10));
    bench.rig.tx.issue(&put);
    bench.rig.tx.drain();
    partner.kill();
    bench.rig.eq.expect(C_EVENT_ACK, C_RC_UNDELIVERABLE);
}
