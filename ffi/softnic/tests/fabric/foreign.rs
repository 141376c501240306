//! Programs without the hook `progress`: they only read their memory, and the engine thread does
//! the work.

use crate::driver::prelude::*;

/// A rig with a target at index 0, set up without `progress`.
pub fn rig(device: u32, sink: impl FnOnce(&Rig) -> Buffer) -> (Rig, Buffer) {
    let mut rig = Rig::on(device);
    let sink = sink(&rig);
    let portal = rig.portal(0, |_| {});
    rig.tgt.write_and_ring(&set_state(portal.number, C_PTLTE_ENABLED));
    assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_STATE_CHANGE);
    rig.tgt.write_and_ring(&append(portal.number, |entry| whole(entry, &sink)));
    assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_LINK);
    (rig, sink)
}

#[test]
fn serves_doorbells_and_low_latency_writes() {
    alone!();
    let (mut rig, sink) = rig(0, |rig| rig.buffer(PAGE));
    rig.tx.write_and_ring(&c_state(rig.eq.number, true, |_| {}));
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
}

#[test]
fn serves_two_devices_of_one_process() {
    alone!();
    let (first, first_sink) = rig(0, |rig| rig.buffer(PAGE));
    let (second, second_sink) = rig(1, |rig| rig.buffer(PAGE));
    let targets = [(second.dfa(0), second_sink), (first.dfa(0), first_sink)];
    let mut rigs = [first, second];
    for round in 0..50 {
        for (rig, (dfa, sink)) in rigs.iter_mut().zip(targets) {
            let source = [round + 1; 16];
            rig.tx.write_and_ring(&c_state(rig.eq.number, false, |_| {}));
            rig.tx.write_and_ring(&idc_put(dfa, 0, &source));
            assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
            assert!(sink.pages.is(0, 16, round + 1));
        }
        for rig in &mut rigs {
            assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_PUT);
        }
    }
}

/// A thread polls for a while and then only reads its memory.
#[test]
fn engine_thread_takes_over_from_polling_thread() {
    alone!();
    let (mut rig, _) = rig(0, |rig| rig.buffer(PAGE));
    let source = rig.buffer(PAGE);
    for round in 0..20 {
        let put = rig.nomatch_put(&source, 0, 8, |_| {});
        if round % 4 < 2 {
            assert_eq!(rig.code(&put), C_RC_OK);
        } else {
            rig.tx.write_and_ring(&put);
            assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
        }
    }
}
