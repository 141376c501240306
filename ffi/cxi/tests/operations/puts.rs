//! Puts of both kinds, by doorbell and through the low-latency windows, and the release of all
//! objects.

use cxi::records::{IdcHdr, NomatchDmaCmd};
use cxi::sys::*;
use cxi::{EventType, ReturnCode};

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
