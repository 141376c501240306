//! Small messages: puts in a command that has match bits, header data and a user pointer of its own
//! (nic.md 3.6).

mod driver;

use cxi_sys::*;
use driver::alone::alone;
use driver::commands::{c_state, idc_msg};
use driver::memory::{Buffer, PAGE};
use driver::queue::Queue;
use driver::rig::{Rig, whole};
use driver::target_event::{Completion, TargetEvent};

fn bench(matching: bool) -> (Rig, Buffer) {
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = rig.portal(0, |options| options.set_is_matching(matching.into()));
    rig.set_state(portal, C_PTLTE_ENABLED);
    rig.append(portal, |entry| {
        whole(entry, &sink);
        entry
            .set_match_bits(5)
            .set_ignore_bits(0xf0)
            .set_match_id(0x77);
    });
    (rig, sink)
}

#[test]
fn every_length_with_every_field() {
    alone(|| {
        for matching in [false, true] {
            let (mut rig, sink) = bench(matching);
            rig.tx.emit(&c_state(rig.eq.number, false, |state| {
                state.set_initiator(0x77).set_user_ptr(1);
            }));
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
                let ack = Completion::of(&rig.run(&message));
                let expected = Completion {
                    kind: C_EVENT_ACK,
                    code: C_RC_OK,
                    user_ptr: 0xabcd_ef01_2345_6789,
                    mlength: len as u32,
                    ptl_list: C_PTL_LIST_PRIORITY,
                    rendezvous: false,
                    tgt_error: false,
                };
                assert_eq!(ack, expected);
                let put = TargetEvent::of(&rig.teq.wait());
                assert_eq!((put.kind, put.rlength), (C_EVENT_PUT, len as u32));
                assert_eq!((put.match_bits, put.header_data), (0x95, 0xfeed));
                assert_eq!((put.initiator, put.long), (0x77, false));
                assert_eq!(sink.pages.read(0, len), payload);
                assert!(sink.pages.is(len, PAGE - len, 0));
            }
        }
    });
}

/// The bits of a message count: they are not lost where they are zero, or its payload small.
#[test]
fn they_match_by_their_own_bits() {
    alone(|| {
        let (mut rig, _) = bench(true);
        rig.tx.emit(&c_state(rig.eq.number, false, |state| {
            _ = state.set_initiator(0x77)
        }));
        for (bits, code) in [
            (5, C_RC_OK),
            (0, C_RC_ENTRY_NOT_FOUND),
            (0xf5, C_RC_OK),
            (0x105, 18),
        ] {
            let dfa = rig.dfa(0);
            let message = idc_msg(b"few", |header| {
                _ = header.set_dfa(dfa).set_match_bits(bits)
            });
            assert_eq!(rig.code(&message), code, "{bits:#x}");
        }
    });
}

#[test]
fn malformed_ones_stop_their_queue() {
    alone(|| {
        let (rig, _) = bench(false);
        let refused = |restricted, message: &[u8]| {
            let mut queue = Queue::transmit(rig.dev, rig.lni, rig.lcid);
            queue.emit(&c_state(rig.eq.number, restricted, |_| {}));
            queue.emit(message);
            queue.ring();
            u32::from(queue.wait_error().return_code())
        };
        let message = |len: usize, said: usize| {
            let dfa = rig.dfa(0);
            idc_msg(&vec![1; len], |header| {
                _ = header.set_dfa(dfa).set_length(said as u8)
            })
        };
        assert_eq!(refused(true, &message(8, 40)), C_RC_CMD_INVALID_ARG);
        // Shorter than its header, longer than the command, and more than is allowed.
        for (len, said) in [(8, 31), (8, 65), (192, 225), (97, 225)] {
            let code = refused(false, &message(len, said));
            assert_eq!(code, C_RC_CMD_INVALID_ARG, "{len} {said}");
        }
        // A command that is only the header is none of them.
        let mut short = message(0, 32);
        short.truncate(32);
        short[0] &= !0xc;
        let mut queue = Queue::transmit(rig.dev, rig.lni, rig.lcid);
        queue.emit(&c_state(0, false, |_| {}));
        queue.emit(&short);
        queue.ring();
        queue.drain();
    });
}
