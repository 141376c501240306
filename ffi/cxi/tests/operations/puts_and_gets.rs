//! Puts of both kinds, by doorbell and through the low-latency windows, and the release of all
//! objects; gets of all lengths; small messages, and gets that report to the event queue of the
//! target; two initiators with a device each at one target.

use std::thread::{self, JoinHandle};

use cxi::records::{DmaAmoCmd, IdcHdr, IdcMsgHdr, NomatchDmaCmd, TargetCmd};
use cxi::sys::*;
use cxi::{EmitError, EventRecord, EventType, ReturnCode, TransmitQueue};

use crate::rig::*;

/// A rig with a list entry, and a C_STATE for it in force.
fn rig() -> Rig {
    let mut rig = Rig::new();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let c_state = rig.c_state(PLAIN, true);
    let mut batch = rig.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    batch.commit_doorbell();
    rig
}

fn put(rig: &Rig, length: usize) -> NomatchDmaCmd {
    let mut put = nomatch(&rig.dma(C_CMD_NOMATCH_PUT, PLAIN, length as u32));
    put.set_restricted(true);
    put
}

#[test]
fn delivers_puts_by_doorbell_and_low_latency() {
    let mut rig = rig();
    let mut header = IdcHdr::new();
    header.set_dfa(rig.dfa(PLAIN));
    // Several times around the rings of commands and events.
    for round in 1..=1000_usize {
        let byte = round as u8 | 1;
        let length = [1, 8, 17, 64, 224][round % 5];
        rig.remote.fill(0).unwrap();
        rig.local.fill(byte).unwrap();
        let put = put(&rig, length);
        let mut batch = rig.transmit.batch();
        if round % 2 == 0 {
            batch.emit_idc_put(&header, &vec![byte; length]).unwrap();
        } else {
            batch.emit_nomatch_dma(&put).unwrap();
        }
        if round % 3 == 0 {
            batch.commit_doorbell();
        } else {
            batch.commit_low_latency();
        }
        let seen = next(&mut rig.events, |event| (event.event_type(), event.return_code()));
        assert_eq!(seen, (EventType::ACK, ReturnCode::OK), "round {round}");
        let mut expected = vec![byte; length];
        expected.push(0);
        let bytes = Rig::bytes_of(&rig.remote, 0, length + 1);
        assert_eq!(bytes, expected, "round {round}");
    }
    assert!(rig.target_events.poll().is_none());
}

/// Queues without EC_DISABLE close slots that are filled in part with NULL events (nic.md 5.7).
#[test]
fn reads_queues_that_combine_events() {
    let mut rig = Rig::with_queues(0);
    let mut entry = rig.entry(rig.plain.number());
    entry.set_event_success_disable(false);
    rig.append(&entry);
    let put = rig.dma(C_CMD_PUT, PLAIN, 8);
    // Several times around both queues, with full and partly filled slots.
    for round in 0..500 {
        let count = 1 + round % 6;
        let mut batch = rig.transmit.batch();
        for _ in 0..count {
            batch.emit_dma(&put).unwrap();
        }
        batch.commit_doorbell();
        for events in [&mut rig.events, &mut rig.target_events] {
            for _ in 0..count {
                let code = next(events, |event| event.return_code());
                assert_eq!(code, ReturnCode::OK, "round {round}");
            }
        }
    }
    assert!(rig.events.poll().is_none() && rig.target_events.poll().is_none());
}

#[test]
fn reports_put_to_unmapped_index() {
    let mut rig = rig();
    let mut put = put(&rig, 8);
    put.set_dfa(rig.dfa(64));
    let mut batch = rig.transmit.batch();
    batch.emit_nomatch_dma(&put).unwrap();
    batch.commit_low_latency();
    let seen = rig.completion();
    assert_eq!((seen.kind, seen.code), (EventType::ACK, "PTLTE_NOT_FOUND"));
}

#[test]
fn closes_everything_without_failure() {
    let rig = rig();
    let library = rig.library;
    rig.plain.close().unwrap();
    rig.matching.close().unwrap();
    rig.transmit.close().unwrap();
    rig.commands.close().unwrap();
    rig.events.close().unwrap();
    rig.target_events.close().unwrap();
    rig.local.close().unwrap();
    rig.remote.close().unwrap();
    rig.profile.close().unwrap();
    rig.domain.close().unwrap();
    rig.lni.close().unwrap();
    rig.device.close().unwrap();
    assert_eq!(library.failed_release(), None);
}

#[test]
fn gets_bytes_of_any_length_and_no_others() {
    let mut rig = Rig::new();
    let sent = pattern(LEN);
    rig.remote.copy_in(0, &sent).unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    // Around the inline limit and the packet size; unaligned at both ends.
    let lengths = [0, 1, 7, 8, 16, 17, 64, 2047, 2048, 2049, 4096, 10_000, LEN - 8];
    for (round, length) in lengths.into_iter().enumerate() {
        for restricted in [false, true] {
            let (from, to) = (3 * (round % 2), 5 - 5 * (round % 2));
            rig.local.fill(0).unwrap();
            let mut get = rig.dma(C_CMD_GET, PLAIN, length as u32);
            get.set_restricted(restricted);
            get.set_remote_offset(from as u64);
            get.set_local_addr(rig.local.iova(to));
            let expected = Completion {
                kind: EventType::REPLY,
                code: "OK",
                user_ptr: USER_PTR,
                mlength: length as u32,
                tgt_error: false,
            };
            assert_eq!(rig.run(&get), expected, "{length} bytes");
            let mut wanted = vec![0; LEN];
            wanted[to..to + length].copy_from_slice(&sent[from..from + length]);
            assert!(Rig::bytes_of(&rig.local, 0, LEN) == wanted, "{length} bytes");
        }
    }
    assert!(Rig::bytes_of(&rig.remote, 0, LEN) == sent);
    assert!(rig.target_events.poll().is_none());
}

#[test]
fn reports_no_user_ptr_for_nonmatching_get() {
    let mut rig = Rig::new();
    rig.remote.copy_in(0, b"behind the portal").unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    for restricted in [false, true] {
        rig.local.fill(0).unwrap();
        let mut get = nomatch(&rig.dma(C_CMD_NOMATCH_GET, PLAIN, 17));
        get.set_restricted(restricted);
        let mut batch = rig.transmit.batch();
        batch.emit_nomatch_dma(&get).unwrap();
        batch.commit_doorbell();
        let seen = rig.completion();
        assert_eq!((seen.kind, seen.code), (EventType::REPLY, "OK"));
        assert_eq!((seen.user_ptr, seen.mlength), (0, 17));
        assert_eq!(Rig::bytes_of(&rig.local, 0, 18), b"behind the portal\0");
    }
}

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

const INITIATORS: usize = 2;
const OPERATIONS: u64 = 20_000;

/// Operations of one initiator in flight.
const WINDOW: u64 = 32;

#[test]
fn loses_no_update_of_two_initiators() {
    let mut target = Rig::new();
    let entry = target.entry(target.plain.number());
    target.append(&entry);
    let dfa = target.dfa(PLAIN);
    let initiators = [(); INITIATORS].map(|()| thread::spawn(move || sum(dfa)));
    // This thread runs the engine of the target.
    while !initiators.iter().all(JoinHandle::is_finished) {
        assert!(target.target_events.poll().is_none());
        thread::yield_now();
    }
    let mut seen: Vec<u64> =
        initiators.into_iter().flat_map(|initiator| initiator.join().unwrap()).collect();

    let total = INITIATORS as u64 * OPERATIONS;
    let bytes = Rig::bytes_of(&target.remote, 0, 8);
    assert_eq!(u64::from_le_bytes(bytes.try_into().unwrap()), total);
    // Every value was fetched exactly once.
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..total));
}

/// Adds 1 to the first word of the target `OPERATIONS` times and returns the values fetched.
fn sum(dfa: u32) -> Vec<u64> {
    let mut rig = Rig::new();
    rig.local.copy_in(0, &1_u64.to_le_bytes()).unwrap();
    let mut seen = Vec::new();
    let mut sent = 0;
    // Places for fetched values; each has at most one operation in flight.
    let mut free: Vec<u64> = (0..WINDOW).collect();
    let offset = |place: u64| 64 + 8 * place as usize;
    while (seen.len() as u64) < OPERATIONS {
        let mut batch = rig.transmit.batch();
        while sent < OPERATIONS
            && let Some(&place) = free.last()
        {
            let mut command = DmaAmoCmd::new();
            command
                .set_event_send_disable(true)
                .set_eq(rig.events.number())
                .set_user_ptr(place)
                .set_dfa(dfa)
                .set_lac(rig.local.lac())
                .set_local_read_addr(rig.local.iova(0))
                .set_write_lac(rig.local.lac())
                .set_local_write_addr(rig.local.iova(offset(place)))
                .set_atomic_op(C_AMO_OP_SUM as u8)
                .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
            if batch.emit_dma_amo(&command, true).is_err() {
                break;
            }
            free.pop();
            sent += 1;
        }
        batch.commit_doorbell();
        let place = next(&mut rig.events, |event| {
            let outcome = (event.event_type(), event.return_code());
            assert_eq!(outcome, (EventType::REPLY, ReturnCode::OK));
            match event.record() {
                EventRecord::InitiatorShort(record) => record.user_ptr(),
                _ => panic!("{event:?}"),
            }
        });
        let bytes = Rig::bytes_of(&rig.local, offset(place), 8);
        seen.push(u64::from_le_bytes(bytes.try_into().unwrap()));
        free.push(place);
    }
    seen
}
