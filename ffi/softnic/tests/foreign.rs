//! Programs without the hook `progress`: they only look at their memory, and the NIC's own thread
//! does the work.

mod driver;

use cxi_sys::*;
use driver::alone::alone;
use driver::commands::{append, c_state, idc_put, set_state};
use driver::memory::{Buffer, PAGE};
use driver::rig::{Rig, whole};

/// A rig with a target at index 0, made without a call of `progress`.
fn rig(device: u32, sink: impl FnOnce(&Rig) -> Buffer) -> (Rig, Buffer) {
    let mut rig = Rig::on(device);
    let sink = sink(&rig);
    let portal = rig.portal(0, |_| {});
    rig.tgt.write(&set_state(portal.number, C_PTLTE_ENABLED));
    rig.tgt.ring();
    assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_STATE_CHANGE);
    rig.tgt
        .write(&append(portal.number, |entry| whole(entry, &sink)));
    rig.tgt.ring();
    assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_LINK);
    (rig, sink)
}

#[test]
fn puts_by_doorbell_and_by_low_latency() {
    alone(|| {
        let (mut rig, sink) = rig(0, |rig| rig.buffer(PAGE));
        rig.tx.write(&c_state(rig.eq.number, true, |_| {}));
        rig.tx.ring();
        for round in 0..300_u32 {
            rig.tx.write(&idc_put(rig.dfa(0), 0, &[round as u8; 48]));
            if round % 2 == 0 {
                rig.tx.ring();
            } else {
                rig.tx.ll_ring();
            }
            assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
            assert!(sink.pages.is(0, 48, round as u8));
            assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_PUT);
        }
    });
}

#[test]
fn two_devices_of_one_process() {
    alone(|| {
        let (first, first_sink) = rig(0, |rig| rig.buffer(PAGE));
        let (second, second_sink) = rig(1, |rig| rig.buffer(PAGE));
        let targets = [(second.dfa(0), second_sink), (first.dfa(0), first_sink)];
        let mut rigs = [first, second];
        for round in 0..50 {
            for (rig, (dfa, sink)) in rigs.iter_mut().zip(targets) {
                let source = [round + 1; 16];
                rig.tx.write(&c_state(rig.eq.number, false, |_| {}));
                rig.tx.ring();
                rig.tx.write(&idc_put(dfa, 0, &source));
                rig.tx.ring();
                assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
                assert!(sink.pages.is(0, 16, round + 1));
            }
            for rig in &mut rigs {
                assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_PUT);
            }
        }
    });
}

/// A thread that polled for a while and then only looks, as a program may that mixes both.
#[test]
fn the_thread_takes_over_from_one_that_polled() {
    alone(|| {
        let (mut rig, _) = rig(0, |rig| rig.buffer(PAGE));
        let source = rig.buffer(PAGE);
        for round in 0..20 {
            let put = rig.nomatch_put(&source, 0, 8, |_| {});
            if round % 4 < 2 {
                assert_eq!(rig.code(&put), C_RC_OK);
            } else {
                rig.tx.write(&put);
                rig.tx.ring();
                assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
            }
        }
    });
}
