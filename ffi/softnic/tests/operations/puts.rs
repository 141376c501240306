//! Puts of every kind and size: the bytes arrive at the target, and no byte beside them changes.
//! Small messages: puts in one command with their own match bits, header data and user pointer
//! (nic.md 3.6).

use crate::driver::prelude::*;

/// Surrounds the bytes that a put may write.
const UNTOUCHED: u8 = 0xee;

/// Bytes that differ from each other and from `UNTOUCHED`.
fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 7 + at / 251 + seed) % 0xed) as u8).collect()
}

/// A rig with an entry over a sink of untouched bytes at index 0.
fn bench(len: usize) -> (Rig, Buffer) {
    let mut rig = Rig::new();
    let sink = rig.buffer(len);
    sink.pages.fill(UNTOUCHED);
    rig.target(0, &sink);
    (rig, sink)
}

/// Checks that the sink holds `expected` at `offset` and nothing else, and clears it for the next
/// put.
fn check(sink: &Buffer, offset: usize, expected: &[u8], what: &str) {
    let all = sink.pages.read(0, sink.pages.len);
    let end = offset + expected.len();
    assert!(all[offset..end] == *expected, "{what}: bytes");
    let mut around = all[..offset].iter().chain(&all[end..]);
    assert!(around.all(|byte| *byte == UNTOUCHED), "{what}: beside");
    sink.pages.write(offset, &vec![UNTOUCHED; expected.len()]);
}

#[test]
fn moves_immediate_data_of_every_size() {
    alone!();
    let (mut rig, sink) = bench(PAGE);
    for (restricted, limit) in [(true, 224), (false, 192)] {
        rig.tx.emit(&c_state(rig.eq.number, restricted, |_| {}));
        for len in 0..=limit {
            let payload = pattern(len, 3 * len);
            let offset = 64 + len % 17;
            let put = idc_put(rig.dfa(0), offset as u64, &payload);
            assert_eq!(rig.code(&put), C_RC_OK);
            check(&sink, offset, &payload, &format!("{len} {restricted}"));
        }
    }
}

#[test]
fn moves_data_of_sizes_around_packet_size() {
    alone!();
    const MTU: usize = 2048;
    const SEGMENT: usize = 4 * MTU;
    let (mut rig, sink) = bench(3 * SEGMENT + PAGE);
    let source = rig.buffer(3 * SEGMENT + PAGE);
    source.pages.write(0, &pattern(source.pages.len, 1));
    let around_mtu = [MTU - 1, MTU, MTU + 1, 2 * MTU];
    let around_segment = [SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT + MTU + 3];
    for len in [0, 1, 7, 8, 15, 16, 17].into_iter().chain(around_mtu).chain(around_segment) {
        for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 11), (8, 8)] {
            let what = format!("{len} bytes from {from} to {to}");
            let bytes = source.pages.read(from, len);
            let (len, remote) = (len as u32, to as u64);
            let nomatch = [true, false].map(|restricted| {
                rig.nomatch_put(&source, from, len, |put| {
                    _ = put.set_remote_offset(remote).set_restricted(restricted)
                })
            });
            let full = rig.dma_put(&source, from, len, |put| _ = put.set_remote_offset(remote));
            for put in nomatch.into_iter().chain([full]) {
                assert_eq!(rig.code(&put), C_RC_OK, "{what}");
                check(&sink, to, &bytes, &what);
            }
        }
    }
}

#[test]
fn moves_mebibyte_with_one_ack() {
    alone!();
    let len = 1 << 20;
    let (mut rig, sink) = bench(len + PAGE);
    let source = rig.buffer(len);
    source.pages.write(0, &pattern(len, 9));
    let put = rig.dma_put(&source, 0, len as u32, |put| _ = put.set_remote_offset(100));
    let ack = Completion::of(&rig.run(&put));
    let expected = (C_EVENT_ACK, C_RC_OK, len as u32);
    assert_eq!((ack.kind, ack.code, ack.mlength), expected);
    check(&sink, 100, &pattern(len, 9), "1 MiB");
    assert!(rig.eq.poll().is_none());
}

/// The NIC remembers where the last put landed; every change takes effect for the next put.
#[test]
fn put_follows_changes_of_its_entry() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    let sinks = [(); 2].map(|()| rig.buffer(PAGE));
    let portal = rig.target(0, &sinks[0]);
    let put = rig.dma_put(&source, 0, 100, |_| {});
    let code = |rig: &mut Rig| [rig.code(&put), rig.code(&put)];
    assert_eq!(code(&mut rig), [C_RC_OK; 2]);
    rig.set_state(portal, C_PTLTE_DISABLED);
    assert_eq!(code(&mut rig), [C_RC_PT_DISABLED; 2]);
    rig.set_state(portal, C_PTLTE_ENABLED);
    assert_eq!(code(&mut rig), [C_RC_OK; 2]);
    rig.unlink(portal, 0).is(C_EVENT_UNLINK, C_RC_OK);
    assert_eq!(code(&mut rig), [C_RC_ENTRY_NOT_FOUND; 2]);
    let entry = |entry: &mut TargetCmd| {
        whole(entry, &sinks[1]);
        quiet(entry);
    };
    rig.append(portal, entry).is(C_EVENT_LINK, C_RC_OK);
    source.pages.fill(7);
    assert_eq!(code(&mut rig), [C_RC_OK; 2]);
    assert!(sinks[0].pages.is(0, 100, 0) && sinks[1].pages.is(0, 100, 7));
    let [_, sink] = sinks;
    sink.unmap();
    assert_eq!(code(&mut rig), [C_RC_NO_TRANSLATION; 2]);
    portal.close();
    assert_eq!(code(&mut rig), [C_RC_PTLTE_NOT_FOUND; 2]);
}

#[test]
fn keeps_order_of_one_queue() {
    alone!();
    let (mut rig, source, sink) = Rig::with_target();
    for round in 0..50_u8 {
        // The later of two puts to one place wins.
        source.pages.write(0, &[round; 3000]);
        rig.tx.emit(&c_state(rig.eq.number, false, |_| {}));
        rig.tx.emit(&rig.dma_put(&source, 0, 3000, |_| {}));
        rig.tx.issue(&idc_put(rig.dfa(0), 2000, &[!round; 100]));
        for _ in 0..2 {
            assert_eq!(rig.eq.wait().code(), C_RC_OK);
        }
        assert!(sink.pages.is(2000, 100, !round) && sink.pages.is(0, 2000, round));
    }
}

const INITIATOR: u32 = 0x77;

/// A rig with an entry that matches bits 5, 0xf0 ignored, of one initiator.
fn message_bench(matching: bool) -> (Rig, Buffer) {
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = rig.enabled(0, |options| options.set_is_matching(matching.into()));
    rig.append(portal, |entry| {
        whole(entry, &sink);
        entry.set_match_bits(5).set_ignore_bits(0xf0).set_match_id(INITIATOR);
    });
    let state =
        c_state(rig.eq.number, false, |state| _ = state.set_initiator(INITIATOR).set_user_ptr(1));
    rig.tx.emit(&state);
    (rig, sink)
}

#[test]
fn delivers_every_length_with_every_field() {
    alone!();
    for matching in [false, true] {
        let (mut rig, sink) = message_bench(matching);
        for len in [0, 1, 8, 15, 16, 17, 32, 33, 64, 96, 97, 191, 192] {
            sink.pages.fill(0);
            let payload: Vec<u8> = (0..len as u8).map(|at| at ^ 0x80).collect();
            let dfa = rig.dfa(0);
            let message = idc_msg(&payload, |header| {
                header
                    .set_dfa(dfa)
                    .set_match_bits(0x95)
                    .set_header_data(0xfeed)
                    .set_user_ptr(0xabcd_ef01_2345_6789);
            });
            let expected = Completion {
                kind: C_EVENT_ACK,
                code: C_RC_OK,
                user_ptr: 0xabcd_ef01_2345_6789,
                mlength: len as u32,
                ptl_list: C_PTL_LIST_PRIORITY,
                ..Completion::default()
            };
            assert_eq!(Completion::of(&rig.run(&message)), expected);
            let put = TargetEvent::of(&rig.teq.wait());
            assert_eq!((put.kind, put.rlength), (C_EVENT_PUT, len as u32));
            assert_eq!((put.match_bits, put.header_data), (0x95, 0xfeed));
            assert_eq!((put.initiator, put.long), (INITIATOR, false));
            assert_eq!(sink.pages.read(0, len), payload);
            assert!(sink.pages.is(len, PAGE - len, 0));
        }
    }
}

#[test]
fn matches_by_bits_of_message() {
    alone!();
    let (mut rig, _) = message_bench(true);
    for (bits, code) in
        [(5, C_RC_OK), (0, C_RC_ENTRY_NOT_FOUND), (0xf5, C_RC_OK), (0x105, C_RC_ENTRY_NOT_FOUND)]
    {
        let dfa = rig.dfa(0);
        let message = idc_msg(b"few", |header| _ = header.set_dfa(dfa).set_match_bits(bits));
        assert_eq!(rig.code(&message), code, "{bits:#x}");
    }
}

#[test]
fn malformed_message_stops_its_queue() {
    alone!();
    let (rig, _) = message_bench(false);
    let queue_with = |restricted, message: &[u8]| {
        let mut queue = Queue::transmit(rig.dev, rig.lni, rig.lcid);
        queue.emit(&c_state(rig.eq.number, restricted, |_| {}));
        queue.issue(message);
        queue
    };
    let message = |len: usize, length: u8| {
        let dfa = rig.dfa(0);
        idc_msg(&vec![1; len], |header| _ = header.set_dfa(dfa).set_length(length))
    };
    // Restricted; shorter than the header; longer than the command; longer than allowed.
    for (restricted, len, length) in
        [(true, 8, 40), (false, 8, 31), (false, 8, 65), (false, 192, 225), (false, 97, 225)]
    {
        let queue = queue_with(restricted, &message(len, length));
        assert_eq!(queue.wait_failure(), C_RC_CMD_INVALID_ARG, "{len} {length}");
    }
    // A command of a header alone is valid.
    let mut short = message(0, 32);
    short.truncate(32);
    short[0] &= !0xc;
    queue_with(false, &short).drain();
}
