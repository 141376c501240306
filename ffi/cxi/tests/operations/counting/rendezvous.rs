//! Counting of rendezvous puts, as a bandwidth tool counts them (nic.md 10.3), and of unexpected
//! messages.

use cxi::records::TargetCmd;
use cxi::sys::*;
use cxi::{Counter, EventType, PortalTableEntry, ReturnCode, TriggerQueue, address};

use super::bench::{Bench, counts_of, wait_for};
use crate::rig::{LEN, MATCHING, Rig, next, pattern};

const M: u64 = 0x1234_5678_9abc_def0;
const ID: u8 = 0xaa;
const LIST: usize = 16;
const SIZE: usize = LEN / LIST;

/// Returns a list entry that counts successes on `counter` and reports only failures.
fn counted(rig: &Rig, portal: u16, counter: &Counter) -> TargetCmd {
    let mut entry = rig.entry(portal);
    entry.set_event_ct_comm(true).set_ct(counter.number()).set_match_id(u32::MAX).set_match_bits(M);
    entry
}

#[test]
fn counts_rendezvous_once_at_initiator_and_source_and_twice_at_target() {
    let mut bench = Bench::new();
    let rig = &mut bench.rig;
    let info = rig.device.info();
    let (pid_bits, nid, index) = (info.pid_bits, info.nid, info.rdzv_get_idx);
    rig.local.copy_in(0, &pattern(LEN)).unwrap();
    let [sources, targets] = [(); 2].map(|()| Counter::with_write_back(&rig.lni).unwrap());
    let mut trigger = TriggerQueue::new(&rig.profile, 1, &rig.target_events).unwrap();

    let mut portal = PortalTableEntry::new(&rig.lni, &rig.target_events, true).unwrap();
    portal.map(&rig.domain, index).unwrap();
    rig.set_state(portal.number(), C_PTLTE_ENABLED);
    let mut entry = counted(rig, portal.number(), &sources);
    entry
        .set_op_put(false)
        .set_start(rig.local.iova(0))
        .set_lac(rig.local.lac())
        .set_match_bits(M >> 48 << 48 | u64::from(ID))
        .set_ignore_bits(0xf00);
    rig.append(&entry);
    let entry = counted(rig, rig.matching.number(), &targets);
    rig.append(&entry);

    for (round, eager) in [0, 100, SIZE as u32].into_iter().enumerate() {
        bench.rig.remote.fill(0).unwrap();
        let total = ((round + 1) * LIST) as u64;
        bench.arm(total);
        let rig = &mut bench.rig;
        let mut put = rig.dma(C_CMD_RENDEZVOUS_PUT, MATCHING, SIZE as u32);
        put.set_match_bits(M)
            .set_initiator(address::match_id(pid_bits, rig.domain.pid(), nid))
            .set_rendezvous_id(ID)
            .set_eager_length(eager)
            .set_event_success_disable(true)
            .set_event_ct_ack(true)
            .set_ct(bench.counter.number());
        let mut batch = rig.transmit.batch();
        for at in 0..LIST {
            put.set_remote_offset((at * SIZE) as u64).set_local_addr(rig.local.iova(at * SIZE));
            batch.emit_dma(&put).unwrap();
        }
        batch.commit_doorbell();
        assert_eq!(bench.triggered(), bench.at(total));
        // Three events for each message, in any order.
        let rig = &mut bench.rig;
        let mut seen = [0; 3];
        for _ in 0..3 * LIST {
            let kind = next(&mut rig.target_events, |event| {
                assert_eq!(event.return_code(), ReturnCode::OK);
                event.event_type()
            });
            let kinds = [EventType::PUT, EventType::RENDEZVOUS, EventType::REPLY];
            let at = kinds.iter().position(|known| *known == kind);
            seen[at.expect("an event of a rendezvous")] += 1;
        }
        assert_eq!(seen, [LIST; 3]);
        wait_for("the counts", || {
            let got = counts_of(&mut trigger, &targets);
            (got == (2 * total, 0)).then_some(())
        });
        assert_eq!(counts_of(&mut trigger, &sources), (total, 0));
        assert!(Rig::bytes_of(&rig.remote, 0, LEN) == pattern(LEN));
        assert!(rig.target_events.poll().is_none());
    }
}

/// The entry that receives a message counts its bytes; the entry that finds it counts an overflow.
#[test]
fn counts_unexpected_messages_when_received_and_when_found() {
    let mut bench = Bench::new();
    let rig = &mut bench.rig;
    let [landed, found] = [(); 2].map(|()| Counter::with_write_back(&rig.lni).unwrap());
    let mut trigger = TriggerQueue::new(&rig.profile, 1, &rig.target_events).unwrap();
    let mut entry = counted(rig, rig.matching.number(), &landed);
    entry
        .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
        .set_manage_local(true)
        .set_length(1000)
        .set_event_ct_bytes(true);
    rig.append(&entry);
    let mut put = rig.dma(C_CMD_PUT, MATCHING, 600);
    put.set_match_bits(M);
    for mlength in [600, 400] {
        assert_eq!(rig.run(&put).mlength, mlength);
    }
    for bytes in [false, true] {
        let mut entry = counted(rig, rig.matching.number(), &found);
        entry
            .set_event_ct_comm(false)
            .set_event_ct_overflow(true)
            .set_event_ct_bytes(bytes)
            .set_event_success_disable(true)
            .set_use_once(true);
        let mut command = entry;
        command.set_opcode(C_CMD_TGT_APPEND as u8);
        let mut batch = rig.commands.batch();
        batch.emit_target(&command).unwrap();
        batch.commit_doorbell();
    }
    wait_for("the counts", || (counts_of(&mut trigger, &found) == (1 + 400, 0)).then_some(()));
    assert_eq!(counts_of(&mut trigger, &landed), (600 + 400, 0));
    assert!(rig.target_events.poll().is_none());
}

/// The entry counts the put as a success, and the get without source as a failure.
#[test]
fn counts_failed_rendezvous_get() {
    let mut bench = Bench::new();
    let rig = &mut bench.rig;
    let counter = Counter::with_write_back(&rig.lni).unwrap();
    let mut trigger = TriggerQueue::new(&rig.profile, 1, &rig.target_events).unwrap();
    let entry = counted(rig, rig.matching.number(), &counter);
    rig.append(&entry);
    let info = rig.device.info();
    // The PID in the match id of the put is not in use.
    let mut put = rig.dma(C_CMD_RENDEZVOUS_PUT, MATCHING, 100);
    put.set_match_bits(M).set_initiator(address::match_id(info.pid_bits, 300, info.nid));
    assert_eq!(rig.run(&put).code, "OK");
    let reported = [(); 3].map(|()| {
        next(&mut rig.target_events, |event| {
            (event.event_type(), event.return_code() == ReturnCode::OK)
        })
    });
    let expected =
        [(EventType::PUT, true), (EventType::RENDEZVOUS, true), (EventType::REPLY, false)];
    assert_eq!(reported, expected);
    assert_eq!(counts_of(&mut trigger, &counter), (1, 1));
}
