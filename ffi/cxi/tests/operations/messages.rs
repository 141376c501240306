//! Two-sided traffic: what a receiver appends and is told, for messages in the command, from memory
//! and by rendezvous.

use cxi::records::{IdcMsgHdr, TargetCmd};
use cxi::sys::*;
use cxi::{EmitError, EventQueue, EventType, PortalTableEntry, Record, ReturnCode, address};

use crate::rig::*;

const M: u64 = 0x1234_5678_9abc_def0;
const ID: u8 = 0xcc;

/// An entry that reports what arrives.
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
fn a_small_message_meets_its_receive() {
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
    assert_eq!(
        batch.emit_idc_msg(&header, &payload),
        Err(EmitError::NoCState)
    );
    batch.emit_c_state(&c_state).unwrap();
    let too_long = EmitError::PayloadTooLong {
        length: 193,
        limit: 192,
    };
    assert_eq!(batch.emit_idc_msg(&header, &pattern(193)), Err(too_long));
    batch.emit_idc_msg(&header, &payload).unwrap();
    batch.commit_low_latency();
    let ack = rig.completion();
    assert_eq!((ack.kind, ack.code), (EventType::ACK, "OK"));
    assert_eq!((ack.user_ptr, ack.mlength), (USER_PTR, 192));
    let told = |rig: &mut Rig| {
        next(&mut rig.target_events, |event| {
            (event.event_type(), event.target().expect("a target event"))
        })
    };
    let (kind, unlink) = told(&mut rig);
    assert_eq!(kind, EventType::UNLINK);
    assert!(unlink.auto_unlinked);
    let (kind, put) = told(&mut rig);
    assert_eq!(kind, EventType::PUT);
    assert!(put.auto_unlinked);
    assert_eq!(
        (put.buffer_id, put.match_bits, put.header_data),
        (7, M, 0x77)
    );
    assert_eq!((put.rlength, put.mlength), (192, 192));
    assert_eq!(Rig::bytes_of(&rig.remote, 0, 192), payload);

    // A restricted context cannot carry it.
    let c_state = rig.c_state(MATCHING, true);
    let mut batch = rig.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    let refused = batch.emit_idc_msg(&header, &payload);
    assert_eq!(refused, Err(EmitError::RestrictedMessage));
}

/// Source and target of a rendezvous in one process; the get is the NIC's.
#[test]
fn a_rendezvous_is_told_in_three_events() {
    let mut rig = Rig::new();
    let info = rig.device.info();
    let (pid_bits, nid, index) = (info.pid_bits, info.nid, info.rdzv_get_idx);
    rig.local.copy_in(0, &pattern(LEN)).unwrap();

    // The source's own portal, at the index where the target's NIC looks for it.
    let mut source = PortalTableEntry::new(&rig.lni, &rig.target_events, true).unwrap();
    source.map(&rig.domain, index).unwrap();
    rig.set_state(source.number(), C_PTLTE_ENABLED);
    let mut entry = rig.entry(source.number());
    entry.set_op_put(false);
    entry.set_start(rig.local.iova(0));
    entry.set_lac(rig.local.lac());
    entry.set_match_id(address::match_id(pid_bits, C_PID_ANY, nid));
    entry.set_match_bits(M >> 48 << 48 | u64::from(ID));
    entry.set_ignore_bits(0xf00);
    rig.append(&entry);

    let initiator = address::match_id(pid_bits, rig.domain.pid(), nid);
    let mut entry = rig.entry(rig.matching.number());
    entry.set_match_id(initiator);
    entry.set_match_bits(M);
    rig.append(&entry);

    let (length, eager) = (50_000, 4000);
    let mut put = rig.dma(C_CMD_RENDEZVOUS_PUT, MATCHING, length);
    put.set_match_bits(M);
    put.set_initiator(initiator);
    put.set_rendezvous_id(ID);
    put.set_eager_length(eager);
    let ack = rig.run(&put);
    assert_eq!((ack.code, ack.mlength), ("OK", eager));
    let told = [(); 3].map(|()| {
        next(&mut rig.target_events, |event| {
            assert_eq!(event.return_code(), ReturnCode::OK);
            if let Record::TargetLong(record) = event.record() {
                assert!(record.rendezvous());
                let issued = event.event_type() == EventType::RENDEZVOUS;
                assert_eq!(record.get_issued(), issued);
            }
            event.event_type()
        })
    });
    let expected = [EventType::PUT, EventType::RENDEZVOUS, EventType::REPLY];
    assert_eq!(told, expected);
    let sent = Rig::bytes_of(&rig.local, 0, length as usize);
    assert!(Rig::bytes_of(&rig.remote, 0, length as usize) == sent);
}

/// A queue of gets that reports where the puts do takes the place of the NIC's own gets.
#[test]
fn gets_of_software_can_report_to_the_targets_queue() {
    let mut rig = Rig::new();
    rig.remote.copy_in(0, b"to be fetched").unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let mut gets = cxi::TransmitQueue::new(&rig.profile, 16, &rig.target_events, None).unwrap();
    let mut get = rig.dma(C_CMD_GET, PLAIN, 13);
    get.set_eq(rig.target_events.number());
    let mut batch = gets.batch();
    batch.emit_dma(&get).unwrap();
    batch.commit_doorbell();
    let events: &mut EventQueue = &mut rig.target_events;
    assert_eq!(next(events, |event| event.event_type()), EventType::REPLY);
    assert_eq!(Rig::bytes_of(&rig.local, 0, 13), b"to be fetched");
}
