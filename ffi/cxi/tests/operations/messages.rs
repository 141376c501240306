//! Small messages, and gets that report to the event queue of the target.

use cxi::records::{IdcMsgHdr, TargetCmd};
use cxi::sys::*;
use cxi::{EmitError, EventType, TransmitQueue};

use crate::rig::*;

const M: u64 = 0x1234_5678_9abc_def0;

/// Returns a list entry that receives one message and reports it.
fn receive(rig: &Rig, buffer_id: u16, match_bits: u64) -> TargetCmd {
    let mut entry = rig.entry(rig.matching.number());
    entry.set_event_success_disable(false);
    entry.set_event_unlink_disable(false);
    entry.set_use_once(true);
    entry.set_buffer_id(buffer_id);
    entry.set_match_bits(match_bits);
    entry
}

#[test]
fn delivers_small_message_to_its_receive() {
    let mut rig = Rig::new();
    let entry = receive(&rig, 7, M);
    rig.append(&entry);
    let mut header = IdcMsgHdr::new();
    header.set_dfa(rig.dfa(MATCHING));
    header.set_match_bits(M);
    header.set_header_data(0x77);
    header.set_user_ptr(USER_PTR);
    let c_state = rig.c_state(MATCHING, false);
    let payload = pattern(192);
    let mut batch = rig.transmit.batch();
    assert_eq!(batch.emit_idc_msg(&header, &payload), Err(EmitError::NoCState));
    batch.emit_c_state(&c_state).unwrap();
    let too_long = EmitError::PayloadTooLong { length: 193, limit: 192 };
    assert_eq!(batch.emit_idc_msg(&header, &pattern(193)), Err(too_long));
    batch.emit_idc_msg(&header, &payload).unwrap();
    batch.commit_low_latency();
    let ack = rig.completion();
    assert_eq!((ack.kind, ack.code), (EventType::ACK, "OK"));
    assert_eq!((ack.user_ptr, ack.mlength), (USER_PTR, 192));
    let reported = |rig: &mut Rig| {
        next(&mut rig.target_events, |event| {
            (event.event_type(), event.target().expect("a target event"))
        })
    };
    let (kind, unlink) = reported(&mut rig);
    assert_eq!(kind, EventType::UNLINK);
    assert!(unlink.auto_unlinked);
    let (kind, put) = reported(&mut rig);
    assert_eq!(kind, EventType::PUT);
    assert!(put.auto_unlinked);
    assert_eq!((put.buffer_id, put.match_bits, put.header_data), (7, M, 0x77));
    assert_eq!((put.rlength, put.mlength), (192, 192));
    assert_eq!(Rig::bytes_of(&rig.remote, 0, 192), payload);

    // A restricted context does not allow small messages.
    let c_state = rig.c_state(MATCHING, true);
    let mut batch = rig.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    let refused = batch.emit_idc_msg(&header, &payload);
    assert_eq!(refused, Err(EmitError::RestrictedMessage));
}

/// Software that issues rendezvous gets itself waits for puts and gets on one event queue (nic.md
/// 10.4).
#[test]
fn reports_gets_to_event_queue_of_target() {
    let mut rig = Rig::new();
    rig.remote.copy_in(0, b"to be fetched").unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let mut gets = TransmitQueue::new(&rig.profile, 16, &rig.target_events, None).unwrap();
    let mut get = rig.dma(C_CMD_GET, PLAIN, 13);
    get.set_eq(rig.target_events.number());
    let mut batch = gets.batch();
    batch.emit_dma(&get).unwrap();
    batch.commit_doorbell();
    let kind = next(&mut rig.target_events, |event| event.event_type());
    assert_eq!(kind, EventType::REPLY);
    assert_eq!(Rig::bytes_of(&rig.local, 0, 13), b"to be fetched");
}
