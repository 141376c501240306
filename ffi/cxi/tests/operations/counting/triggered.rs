//! DMA commands that wait for a counter.

use cxi::records::FullDmaCmd;
use cxi::sys::*;
use cxi::{CommunicationProfile, Counter, EmitError, EventType, MemoryRegion, TriggerQueue};

use super::{Bench, wait_for};
use crate::rig::{LEN, PLAIN, Rig, USER_PTR, dma_amo, next, nomatch, pattern};

fn bench() -> Bench {
    let mut bench = Bench::new();
    let entry = bench.rig.entry(bench.rig.plain.number());
    bench.rig.append(&entry);
    bench.rig.local.copy_in(0, &pattern(LEN)).unwrap();
    bench
}

impl Bench {
    fn trigger_dma(&mut self, threshold: u64, dma: &FullDmaCmd) {
        let mut batch = self.trigger.batch();
        batch.emit_trigger_dma(&self.counter, threshold, dma).unwrap();
        batch.commit_doorbell();
    }
}

/// The queue has LCID 0, with which DMA commands would go to another VNI.
#[test]
fn queue_of_other_profile_reports_counts_but_runs_no_dma() {
    let mut bench = bench();
    let rig = &bench.rig;
    let profile =
        CommunicationProfile::new(&rig.lni, 10, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT).unwrap();
    assert_eq!(profile.lcid(), 1);
    bench.trigger = TriggerQueue::new(&profile, 1, &rig.events).unwrap();
    bench.arm(3);
    let put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    let mut batch = bench.trigger.batch();
    let refused = batch.emit_trigger_dma(&bench.counter, 4, &put);
    assert_eq!(refused, Err(EmitError::OtherProfile));
    drop(batch);
    bench.counter.add_success(3);
    assert_eq!(bench.triggered(), bench.at(3));
}

#[test]
fn runs_put_once_at_threshold() {
    let mut bench = bench();
    // Shorter and longer than a packet, longer than the fabric holds, and empty.
    for (round, length) in (1..).zip([8, 2048, 5000, LEN, 0]) {
        bench.rig.remote.fill(0).unwrap();
        let put = bench.rig.dma(C_CMD_PUT, PLAIN, length as u32);
        bench.trigger_dma(round, &put);
        bench.expect_no_event();
        assert!(Rig::bytes_of(&bench.rig.remote, 0, LEN) == [0; LEN]);
        bench.counter.add_success(1);
        let seen = bench.rig.completion();
        assert_eq!((seen.kind, seen.code), (EventType::ACK, "OK"));
        assert_eq!((seen.user_ptr, seen.mlength), (USER_PTR, length as u32));
        let mut wanted = pattern(length);
        wanted.resize(LEN, 0);
        assert!(Rig::bytes_of(&bench.rig.remote, 0, LEN) == wanted);
        bench.expect_no_event();
    }
    assert_eq!(bench.counts(), (5, 0));
}

#[test]
fn runs_get_nonmatching_put_and_atomics_at_threshold() {
    let mut bench = bench();
    bench.rig.remote.copy_in(0, &100_u64.to_le_bytes()).unwrap();
    bench.rig.local.copy_in(0, &7_u64.to_le_bytes()).unwrap();
    let word = |region: &MemoryRegion, at| {
        let bytes = Rig::bytes_of(region, at, 8);
        u64::from_le_bytes(bytes.try_into().unwrap())
    };
    let mut amo = dma_amo(&bench.rig.dma(C_CMD_PUT, PLAIN, 0));
    amo.set_local_write_addr(bench.rig.local.iova(64))
        .set_write_lac(bench.rig.local.lac())
        .set_atomic_op(C_AMO_OP_AXOR as u8)
        .set_atomic_type(C_AMO_TYPE_UINT64_T as u8)
        .set_op2_word1(u64::MAX);
    let mut get = bench.rig.dma(C_CMD_GET, PLAIN, 8);
    get.set_local_addr(bench.rig.local.iova(128));
    let mut put = bench.rig.dma(C_CMD_NOMATCH_PUT, PLAIN, 8);
    put.set_remote_offset(1024).set_restricted(true);

    let ct = &bench.counter;
    let mut batch = bench.trigger.batch();
    batch.emit_trigger_dma_amo(ct, 1, &amo, false).unwrap();
    batch.emit_trigger_dma_amo(ct, 2, &amo, true).unwrap();
    batch.emit_trigger_dma(ct, 3, &get).unwrap();
    batch.emit_trigger_nomatch_dma(ct, 4, &nomatch(&put)).unwrap();
    batch.commit_doorbell();
    bench.expect_no_event();
    assert_eq!(word(&bench.rig.remote, 0), 100);

    let step = |bench: &mut Bench| {
        bench.counter.add_success(1);
        let seen = bench.rig.completion();
        assert_eq!(seen.code, "OK");
        (seen.kind, seen.user_ptr)
    };
    assert_eq!(step(&mut bench), (EventType::ACK, USER_PTR));
    // (t & ~b) ^ a
    assert_eq!(word(&bench.rig.remote, 0), 7);
    bench.rig.local.copy_in(0, &9_u64.to_le_bytes()).unwrap();
    assert_eq!(step(&mut bench), (EventType::REPLY, USER_PTR));
    assert_eq!(word(&bench.rig.local, 64), 7, "the value before");
    assert_eq!(word(&bench.rig.remote, 0), 9);
    assert_eq!(step(&mut bench), (EventType::REPLY, USER_PTR));
    assert_eq!(word(&bench.rig.local, 128), 9);
    assert_eq!(word(&bench.rig.remote, 1024), 0);
    assert_eq!(step(&mut bench), (EventType::ACK, 0));
    assert_eq!(word(&bench.rig.remote, 1024), 9);
}

/// The completion of each put triggers the next one without software.
#[test]
fn triggers_each_put_by_completion_of_previous_one() {
    const STEPS: usize = 20;
    let mut bench = bench();
    let ct = bench.counter.number();
    for step in 0..STEPS {
        let mut put = bench.rig.dma(C_CMD_PUT, PLAIN, 64);
        put.set_event_success_disable(true)
            .set_event_ct_ack(true)
            .set_ct(ct)
            .set_local_addr(bench.rig.local.iova(64 * step))
            .set_remote_offset(64 * step as u64);
        bench.trigger_dma(step as u64 + 1, &put);
    }
    bench.arm(STEPS as u64 + 1);
    bench.expect_no_event();
    bench.counter.add_success(1);
    assert_eq!(bench.triggered(), bench.at(STEPS as u64 + 1));
    assert!(Rig::bytes_of(&bench.rig.remote, 0, 64 * STEPS) == pattern(64 * STEPS));
    assert_eq!(bench.counts(), (STEPS as u64 + 1, 0));
}

#[test]
fn reports_failures_of_triggered_commands() {
    let mut bench = bench();
    let mut beyond = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    beyond
        .set_remote_offset(LEN as u64)
        .set_event_success_disable(true)
        .set_event_ct_ack(true)
        .set_ct(bench.counter.number());
    let mut unreadable = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    unreadable.set_local_addr(1 << 50);
    bench.trigger_dma(1, &beyond);
    bench.trigger_dma(2, &unreadable);
    bench.counter.add_success(1);
    assert_eq!(bench.rig.completion().code, "NO_SPACE");
    assert_eq!(bench.counts(), (1, 1));
    bench.counter.add_success(1);
    assert_eq!(bench.rig.completion().code, "NO_TRANSLATION");
    assert_eq!(bench.counts(), (2, 1));
    assert_eq!(u32::from(bench.trigger.status().return_code()), C_RC_OK);
}

#[test]
fn runs_no_cancelled_command() {
    let mut bench = bench();
    let put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    bench.trigger_dma(1, &put);
    let mut batch = bench.trigger.batch();
    batch.emit_cancel(&bench.counter).unwrap();
    batch.commit_doorbell();
    bench.counter.add_success(1);
    bench.expect_no_event();
    // A command of a destroyed queue does not run either.
    bench.trigger_dma(2, &put);
    let again = TriggerQueue::new(&bench.rig.profile, 1, &bench.rig.events).unwrap();
    let old = std::mem::replace(&mut bench.trigger, again);
    old.close().unwrap();
    let _same_number = TriggerQueue::new(&bench.rig.profile, 1, &bench.rig.events).unwrap();
    bench.counter.add_success(1);
    bench.expect_no_event();
    assert!(Rig::bytes_of(&bench.rig.remote, 0, 8) == [0; 8]);
}

#[test]
fn refuses_embedded_command_that_is_no_operation() {
    for opcode in [C_CMD_NOOP, C_CMD_CSTATE, C_CMD_REDUCTION, 15] {
        let mut bench = bench();
        let dma = bench.rig.dma(opcode, PLAIN, 8);
        bench.trigger_dma(1, &dma);
        let (kind, code) =
            next(&mut bench.rig.events, |event| (event.event_type(), event.return_code()));
        assert_eq!(kind, EventType::COMMAND_FAILURE, "opcode {opcode}");
        assert_eq!(code.name(), Some("ILLEGAL_OP"), "opcode {opcode}");
    }
}

/// The NIC checks the counter when it runs the command, because the counter may be destroyed
/// before.
#[test]
fn refuses_destroyed_counter_when_triggered_command_runs() {
    let mut bench = bench();
    let gone = Counter::new(&bench.rig.lni).unwrap();
    let mut put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    put.set_event_ct_ack(true).set_ct(gone.number());
    gone.close().unwrap();
    bench.trigger_dma(1, &put);
    bench.expect_no_event();
    bench.counter.add_success(1);
    let (kind, code) =
        next(&mut bench.rig.events, |event| (event.event_type(), event.return_code()));
    assert_eq!(kind, EventType::COMMAND_FAILURE);
    assert_eq!(code.name(), Some("PERM_VIOLATION"));
    // The queue still works.
    bench.arm(1);
    assert_eq!(bench.triggered(), bench.at(1));
}

/// More commands wait than the queue has slots: the NIC fetches waiting commands from the queue.
#[test]
fn frees_slots_of_waiting_commands() {
    let mut bench = bench();
    let mut put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    put.set_eq(0);
    for threshold in 1..=200 {
        wait_for("room", || {
            let mut batch = bench.trigger.batch();
            match batch.emit_trigger_dma(&bench.counter, threshold, &put) {
                Ok(()) => {
                    batch.commit_doorbell();
                    Some(())
                }
                Err(EmitError::QueueFull) => None,
                Err(error) => panic!("{error}"),
            }
        });
    }
    bench.arm(200);
    bench.counter.add_success(200);
    assert_eq!(bench.triggered(), bench.at(200));
}
