//! Commands that wait for a counter: nothing happens before, all of it then, once.

use cxi::records::{DmaAmoCmd, FullDmaCmd, NomatchDmaCmd};
use cxi::sys::*;
use cxi::{Counter, EmitError, EventType, MemoryRegion, TriggerQueue};

use super::tools::{Bench, wait_for};
use crate::rig::{LEN, PLAIN, Rig, USER_PTR, next, pattern};

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
        batch
            .emit_trigger_dma(&self.counter, threshold, dma)
            .unwrap();
        batch.commit_doorbell();
    }
}

#[test]
fn a_put_that_waits() {
    let mut bench = bench();
    // Shorter and longer than a packet, than what the fabric holds, and nothing.
    for (round, length) in (1..).zip([8, 2048, 5000, LEN, 0]) {
        bench.rig.remote.fill(0).unwrap();
        let put = bench.rig.dma(C_CMD_PUT, PLAIN, length as u32);
        bench.trigger_dma(round, &put);
        bench.silence();
        assert!(Rig::bytes_of(&bench.rig.remote, 0, LEN) == [0; LEN]);
        bench.counter.add_success(1);
        let seen = bench.rig.completion();
        assert_eq!((seen.kind, seen.code), (EventType::ACK, "OK"));
        assert_eq!((seen.user_ptr, seen.mlength), (USER_PTR, length as u32));
        let mut wanted = pattern(length);
        wanted.resize(LEN, 0);
        assert!(Rig::bytes_of(&bench.rig.remote, 0, LEN) == wanted);
        bench.silence();
    }
    assert_eq!(bench.counts(), (5, 0));
}

#[test]
fn a_get_a_nonmatching_put_and_atomic_operations_that_wait() {
    let mut bench = bench();
    bench.rig.remote.copy_in(0, &100_u64.to_le_bytes()).unwrap();
    bench.rig.local.copy_in(0, &7_u64.to_le_bytes()).unwrap();
    let word = |region: &MemoryRegion, at| {
        let bytes = Rig::bytes_of(region, at, 8);
        u64::from_le_bytes(bytes.try_into().unwrap())
    };
    let mut bytes = [0; DmaAmoCmd::SIZE];
    bytes[..64].copy_from_slice(bench.rig.dma(C_CMD_PUT, PLAIN, 0).bytes());
    let mut amo = DmaAmoCmd::from_bytes(bytes);
    amo.set_local_write_addr(bench.rig.local.iova(64))
        .set_write_lac(bench.rig.local.lac())
        .set_atomic_op(C_AMO_OP_AXOR as u8)
        .set_atomic_type(C_AMO_TYPE_UINT64_T as u8)
        .set_op2_word1(u64::MAX);
    let mut get = bench.rig.dma(C_CMD_GET, PLAIN, 8);
    get.set_local_addr(bench.rig.local.iova(128));
    let mut bytes = [0; NomatchDmaCmd::SIZE];
    let mut put = bench.rig.dma(C_CMD_NOMATCH_PUT, PLAIN, 8);
    put.set_remote_offset(1024).set_restricted(true);
    bytes.copy_from_slice(&put.bytes()[..NomatchDmaCmd::SIZE]);
    let nomatch = NomatchDmaCmd::from_bytes(bytes);

    let ct = &bench.counter;
    let mut batch = bench.trigger.batch();
    batch.emit_trigger_dma_amo(ct, 1, &amo, false).unwrap();
    batch.emit_trigger_dma_amo(ct, 2, &amo, true).unwrap();
    batch.emit_trigger_dma(ct, 3, &get).unwrap();
    batch.emit_trigger_nomatch_dma(ct, 4, &nomatch).unwrap();
    batch.commit_doorbell();
    bench.silence();
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

/// Each put is set off by the completion of the one before it, without any software between.
#[test]
fn a_pipeline_of_puts() {
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
    bench.silence();
    bench.counter.add_success(1);
    assert_eq!(bench.triggered(), bench.at(STEPS as u64 + 1));
    assert!(Rig::bytes_of(&bench.rig.remote, 0, 64 * STEPS) == pattern(64 * STEPS));
    assert_eq!(bench.counts(), (STEPS as u64 + 1, 0));
}

/// More of them at once than a queue sends in one go.
#[test]
fn many_at_one_threshold_happen_in_order() {
    const EACH: usize = 29;
    let mut bench = bench();
    let put = |bench: &Bench, mark: u64| {
        let mut put = bench.rig.dma(C_CMD_PUT, PLAIN, 20_000);
        put.set_user_ptr(mark);
        put
    };
    for mark in 0..EACH as u64 {
        let put = put(&bench, mark);
        bench.trigger_dma(1, &put);
    }
    bench.counter.add_success(1);
    for mark in 0..EACH as u64 {
        assert_eq!(bench.rig.completion().user_ptr, mark);
    }
    bench.silence();
}

#[test]
fn a_command_that_waited_fails_as_any_other() {
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
fn a_cancelled_command_does_not_happen() {
    let mut bench = bench();
    let put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    bench.trigger_dma(1, &put);
    let mut batch = bench.trigger.batch();
    batch.emit_cancel(&bench.counter).unwrap();
    batch.commit_doorbell();
    bench.counter.add_success(1);
    bench.silence();
    // Nor does one whose queue is gone.
    bench.trigger_dma(2, &put);
    let again = TriggerQueue::new(&bench.rig.profile, 1, &bench.rig.events).unwrap();
    let old = std::mem::replace(&mut bench.trigger, again);
    old.close().unwrap();
    let _same_number = TriggerQueue::new(&bench.rig.profile, 1, &bench.rig.events).unwrap();
    bench.counter.add_success(1);
    bench.silence();
    assert!(Rig::bytes_of(&bench.rig.remote, 0, 8) == [0; 8]);
}

#[test]
fn what_cannot_wait_is_refused() {
    for opcode in [C_CMD_NOOP, C_CMD_CSTATE, C_CMD_REDUCTION, 15] {
        let mut bench = bench();
        let dma = bench.rig.dma(opcode, PLAIN, 8);
        bench.trigger_dma(1, &dma);
        let (kind, code) = next(&mut bench.rig.events, |event| {
            (event.event_type(), event.return_code())
        });
        assert_eq!(kind, EventType::COMMAND_FAILURE, "opcode {opcode}");
        assert_eq!(code.name(), Some("ILLEGAL_OP"), "opcode {opcode}");
    }
}

/// Rights are looked at when the command is executed: what it named may be gone by then.
#[test]
fn a_command_that_names_a_counter_of_nobody_is_reported_when_its_time_has_come() {
    let mut bench = bench();
    let gone = Counter::new(&bench.rig.lni).unwrap();
    let mut put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    put.set_event_ct_ack(true).set_ct(gone.number());
    gone.close().unwrap();
    bench.trigger_dma(1, &put);
    bench.silence();
    bench.counter.add_success(1);
    let (kind, code) = next(&mut bench.rig.events, |event| {
        (event.event_type(), event.return_code())
    });
    assert_eq!(kind, EventType::COMMAND_FAILURE);
    assert_eq!(code.name(), Some("PERM_VIOLATION"));
    // The queue goes on.
    bench.arm(1);
    assert_eq!(bench.triggered(), bench.at(1));
}

/// A queue of more pending commands than slots: commands that wait take no room in it.
#[test]
fn pending_commands_leave_their_slots() {
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
