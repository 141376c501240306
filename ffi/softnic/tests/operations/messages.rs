//! Small messages: puts in one command with their own match bits, header data and user pointer
//! (nic.md 3.6).

use crate::driver::prelude::*;

const INITIATOR: u32 = 0x77;

/// A rig with an entry that matches bits 5, 0xf0 ignored, of one initiator.
fn bench(matching: bool) -> (Rig, Buffer) {
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
        let (mut rig, sink) = bench(matching);
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
    let (mut rig, _) = bench(true);
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
    let (rig, _) = bench(false);
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
