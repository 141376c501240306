//! C_STATE, the context of immediate data commands (nic.md 3.4).

use crate::driver::prelude::*;

#[test]
fn sets_queue_pointer_initiator_and_index() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target_with(37, &sink, |_| {});
    let (dfa, ext) = address(rig.nid, rig.pid, 37);
    assert_ne!(ext, 0);
    rig.tx.emit(&c_state(rig.eq.number, false, |c_state| {
        _ = c_state.set_index_ext(ext).set_initiator(0x1234_5678).set_user_ptr(42)
    }));
    let ack = rig.run(&idc_put(dfa, 0, b"payload"));
    assert_eq!((ack.code(), ack.0[0]), (C_RC_OK, 42));
    let event = EventTargetShort::from_bytes(rig.teq.wait().bytes());
    assert_eq!(event.initiator(), 0x1234_5678);
    assert_eq!((event.match_bits(), event.header_data()), (0, 0));
    // Restricted packets have no room for the initiator.
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| {
        _ = c_state.set_index_ext(ext).set_initiator(0x1234_5678)
    }));
    let ack = rig.run(&idc_put(dfa, 0, b"payload"));
    assert_eq!((ack.code(), ack.0[0]), (C_RC_OK, 0), "replaced as a whole");
    let event = EventTargetShort::from_bytes(rig.teq.wait().bytes());
    assert_eq!(event.initiator(), 0);
}

#[test]
fn lasts_until_next_c_state_for_immediate_commands() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let mut second = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
    let put = idc_put(rig.dfa(0), 0, &[1]);
    rig.tx.emit(&c_state(second.number, true, |c_state| _ = c_state.set_user_ptr(1)));
    for _ in 0..3 {
        rig.tx.issue(&put);
        assert_eq!(second.wait().0[0], 1);
    }
    // Other commands neither use it nor change it.
    let dma = rig.dma_put(&source, 0, 1, |put| _ = put.set_user_ptr(2));
    assert_eq!(rig.run(&dma).0[0], 2);
    rig.tx.emit(&cq(C_CMD_CQ_NOOP, 0));
    rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
    rig.tx.issue(&put);
    assert_eq!(second.wait().0[0], 1);
    // Each queue has its own context.
    let mut other = Queue::transmit(rig.dev, rig.lni, rig.lcid);
    other.emit(&c_state(rig.eq.number, true, |c_state| _ = c_state.set_user_ptr(3)));
    other.issue(&put);
    assert_eq!(rig.eq.wait().0[0], 3);
    rig.tx.issue(&put);
    assert_eq!(second.wait().0[0], 1);
}

#[test]
fn gates_success_events() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    rig.tx
        .emit(&c_state(rig.eq.number, true, |c_state| _ = c_state.set_event_success_disable(true)));
    rig.tx.emit(&idc_put(rig.dfa(0), 0, b"silent"));
    let failing = idc_put(rig.dfa(0), PAGE as u64, b"x");
    assert_eq!(rig.code(&failing), C_RC_NO_SPACE);
    assert_eq!(sink.pages.read(0, 6), b"silent");
    assert_eq!(rig.eq.poll(), None);
    // A SEND event must be enabled.
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| {
        _ = c_state.set_event_success_disable(true).set_event_send_disable(false)
    }));
    let sent = rig.run(&idc_put(rig.dfa(0), 0, b"x"));
    sent.is(C_EVENT_SEND, C_RC_OK);
}

/// `write_lac` is for results of fetching commands, and `ct` needs a counting flag.
#[test]
fn put_ignores_fields_of_other_commands() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| {
        c_state
            .set_write_lac(7)
            .set_ct(99)
            .set_event_ct_reply(true)
            .set_event_ct_bytes(true)
            .set_flush(true);
    }));
    assert_eq!(rig.code(&idc_put(rig.dfa(0), 0, b"x")), C_RC_OK);
}

#[test]
fn survives_change_of_profile() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    let cp = alloc_cp(rig.lni, 10);
    // SAFETY: libcxi has just returned the handle.
    let lcid = unsafe { (*cp).lcid };
    assert_ne!(lcid, rig.lcid);
    // The same PID on the other VNI, where no portal is.
    alloc_domain(rig.lni, 10, rig.pid);
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| _ = c_state.set_user_ptr(9)));
    for (lcid, code) in [(lcid, C_RC_PTLTE_NOT_FOUND), (rig.lcid, C_RC_OK)] {
        rig.tx.emit_lcid(lcid);
        let ack = rig.run(&idc_put(rig.dfa(0), 0, b"x"));
        assert_eq!((ack.code(), ack.0[0]), (code, 9));
    }
}

#[test]
fn encodes_vectors_of_specification() {
    alone!();
    let command = c_state(3, true, |c_state| {
        _ = c_state.set_event_success_disable(true).set_event_ct_ack(true).set_ct(5)
    });
    assert_eq!(command[..4], [0xa0, 0x20, 0x98, 0x04]);
    assert_eq!(command[28..], [5, 0, 3, 0]);
    let put = idc_put(0x0012_3004, 16, &[0; 8]);
    assert_eq!(put[..8], [0x10, 0x18, 0, 0, 0x04, 0x30, 0x12, 0]);
}
