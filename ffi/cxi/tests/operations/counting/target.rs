//! Counting at the target, by the list entry that an operation matches: also of unexpected
//! messages, and of rendezvous puts, as a bandwidth tool counts them (nic.md 10.3).

use cxi::records::TargetCmd;
use cxi::sys::*;
use cxi::{Counter, EventRecord, EventType, PortalTableEntry, ReturnCode, TriggerQueue, address};

use super::{Bench, Triggered, counts_of, triggered, wait_for};
use crate::rig::{LEN, MATCHING, PLAIN, Rig, dma_amo, next, pattern};

/// A bench with a counter and a trigger queue at the target, which report to its event queue.
struct Target {
    bench: Bench,
    counter: Counter,
    trigger: TriggerQueue,
}

impl Target {
    fn new(index: u32, choose: impl FnOnce(&mut TargetCmd)) -> Self {
        let mut bench = Bench::new();
        let rig = &mut bench.rig;
        let counter = Counter::with_write_back(&rig.lni).unwrap();
        let trigger = TriggerQueue::new(&rig.profile, 1, &rig.target_events).unwrap();
        rig.plain.keep_counter(&counter);
        let portal = match index {
            PLAIN => rig.plain.number(),
            _ => rig.matching.number(),
        };
        let mut entry = rig.entry(portal);
        entry.set_event_ct_comm(true).set_ct(counter.number());
        choose(&mut entry);
        rig.append(&entry);
        Self { bench, counter, trigger }
    }

    fn arm(&mut self, threshold: u64) {
        let mut batch = self.trigger.batch();
        batch.emit_trigger_event(&self.counter, threshold).unwrap();
        batch.commit_doorbell();
    }

    fn triggered(&mut self) -> Triggered {
        next(&mut self.bench.rig.target_events, |event| {
            assert_eq!(event.event_type(), EventType::TRIGGERED_OP, "{event:?}");
            let EventRecord::TriggeredShort(record) = event.record() else {
                panic!("{event:?}");
            };
            triggered(&record, event.return_code().name().unwrap())
        })
    }

    fn counts(&mut self) -> (u64, u8) {
        counts_of(&mut self.trigger, &self.counter)
    }

    fn expect_no_event(&mut self) {
        for _ in 0..3 {
            if let Some(event) = self.bench.rig.target_events.poll() {
                panic!("{event:?}");
            }
        }
        self.bench.expect_no_event();
    }

    /// Runs a put, a get, and an atomic operation without and with fetching.
    fn operations(&mut self, index: u32) {
        let rig = &mut self.bench.rig;
        for opcode in [C_CMD_PUT, C_CMD_GET] {
            assert_eq!(rig.run(&rig.dma(opcode, index, 3000)).code, "OK");
        }
        let mut amo = dma_amo(&rig.dma(0, index, 0));
        amo.set_local_write_addr(rig.local.iova(64))
            .set_write_lac(rig.local.lac())
            .set_atomic_op(C_AMO_OP_SUM as u8)
            .set_atomic_type(C_AMO_TYPE_UINT32_T as u8);
        for fetching in [false, true] {
            let mut batch = rig.transmit.batch();
            batch.emit_dma_amo(&amo, fetching).unwrap();
            batch.commit_doorbell();
            assert_eq!(rig.completion().code, "OK");
        }
    }
}

/// The exchange of send_bw (tools.md 7.7): a list of puts and an empty reply, each counted at both
/// ends.
#[test]
fn counts_list_of_puts_at_both_ends() {
    const LIST: u32 = 16;
    let mut target = Target::new(MATCHING, |_| {});
    let (mut sent, mut received) = (0, 0);
    for round in 0..200 {
        let reply = round % 2 == 1;
        let (times, length) = if reply { (1, 0) } else { (LIST, 64) };
        sent += u64::from(times);
        received += u64::from(times);
        target.arm(received);
        target.bench.arm(sent);
        let mut put = target.bench.rig.dma(C_CMD_PUT, MATCHING, length);
        put.set_event_success_disable(true)
            .set_event_ct_ack(true)
            .set_ct(target.bench.counter.number());
        let mut batch = target.bench.rig.transmit.batch();
        for _ in 0..times {
            batch.emit_dma(&put).unwrap();
        }
        batch.commit_doorbell();
        let expected = (target.counter.number(), received, "OK");
        assert_eq!(target.triggered(), expected, "round {round}");
        assert_eq!(target.bench.triggered(), target.bench.at(sent));
        target.expect_no_event();
    }
    assert_eq!(target.counts(), (received, 0));
}

#[test]
fn counts_every_kind_of_operation_once() {
    for index in [PLAIN, MATCHING] {
        let mut target = Target::new(index, |_| {});
        target.operations(index);
        assert_eq!(target.counts(), (4, 0));
        target.expect_no_event();
    }
}

#[test]
fn counts_bytes_if_entry_says_so() {
    let mut target = Target::new(PLAIN, |entry| {
        entry.set_event_ct_bytes(true);
    });
    target.operations(PLAIN);
    assert_eq!(target.counts(), (3000 + 3000 + 4 + 4, 0));
    let rig = &mut target.bench.rig;
    assert_eq!(
        rig.run(&rig.dma(C_CMD_PUT, PLAIN, LEN as u32)).code,
        "OK",
        "an operation of many packets"
    );
    assert_eq!(target.counts(), (6008 + LEN as u64, 0));
}

/// The flags of an entry control events and counting independently.
#[test]
fn counts_independently_of_events() {
    for (comm_disable, success_disable, counts) in [
        (false, false, true),
        (true, true, true),
        (true, false, true),
        (false, false, false),
        (false, true, false),
    ] {
        let mut target = Target::new(PLAIN, |entry| {
            entry
                .set_event_comm_disable(comm_disable)
                .set_event_success_disable(success_disable)
                .set_event_ct_comm(counts);
        });
        target.arm(2);
        for round in 1..=2 {
            let rig = &mut target.bench.rig;
            assert_eq!(rig.run(&rig.dma(C_CMD_PUT, PLAIN, 8)).code, "OK");
            if counts && round == 2 {
                // The NIC counts before it reports.
                let expected = (target.counter.number(), 2, "OK");
                assert_eq!(target.triggered(), expected);
            }
            if !comm_disable && !success_disable {
                let kind = next(&mut target.bench.rig.target_events, |e| e.event_type());
                assert_eq!(kind, EventType::PUT);
            }
        }
        target.expect_no_event();
        assert_eq!(target.counts(), (if counts { 2 } else { 0 }, 0));
    }
}

#[test]
fn counts_failures_of_entry() {
    let mut target = Target::new(PLAIN, |entry| {
        entry.set_event_comm_disable(true).set_op_get(false);
    });
    target.arm(1);
    let rig = &mut target.bench.rig;
    let mut beyond = rig.dma(C_CMD_PUT, PLAIN, 8);
    beyond.set_remote_offset(LEN as u64);
    assert_eq!(rig.run(&beyond).code, "NO_SPACE");
    let get = rig.dma(C_CMD_GET, PLAIN, 8);
    assert_eq!(rig.run(&get).code, "OP_VIOLATION");
    // Operations without a matching entry are not counted.
    let mut nowhere = rig.dma(C_CMD_PUT, MATCHING, 8);
    assert_eq!(rig.run(&nowhere).code, "ENTRY_NOT_FOUND");
    nowhere.set_dfa(rig.dfa(64));
    assert_eq!(rig.run(&nowhere).code, "PTLTE_NOT_FOUND");
    assert_eq!(target.counts(), (0, 2));
    target.expect_no_event();
}

#[test]
fn ignores_destroyed_counter_of_entry() {
    let mut bench = Bench::new();
    let rig = &mut bench.rig;
    let counter = Counter::new(&rig.lni).unwrap();
    let mut entry = rig.entry(rig.plain.number());
    entry.set_event_ct_comm(true).set_ct(counter.number());
    rig.append(&entry);
    counter.close().unwrap();
    assert_eq!(rig.run(&rig.dma(C_CMD_PUT, PLAIN, 8)).code, "OK");
    assert_eq!(Rig::bytes_of(&rig.remote, 0, 8), [0; 8]);
}

/// The entry that finds an unexpected message counts one message, or the bytes that arrived.
#[test]
fn counts_unexpected_message_when_found() {
    for (in_bytes, expected) in [(false, (1, 0)), (true, (100, 0))] {
        let mut target = Target::new(MATCHING, |entry| {
            entry
                .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
                .set_event_ct_comm(false)
                .set_ignore_bits(u64::MAX);
        });
        let rig = &mut target.bench.rig;
        assert_eq!(rig.run(&rig.dma(C_CMD_PUT, MATCHING, 100)).code, "OK");
        let mut finder = rig.entry(rig.matching.number());
        finder
            .set_event_ct_overflow(true)
            .set_event_ct_bytes(in_bytes)
            .set_ct(target.counter.number());
        rig.append(&finder);
        assert_eq!(target.counts(), expected);
    }
}

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
