//! Counting of completions at the initiator.

use cxi::EventType;
use cxi::records::{FullDmaCmd, IdcAmoCmd, IdcHdr};
use cxi::sys::*;

use super::{Bench, wait_for};
use crate::rig::{LEN, MATCHING, PLAIN, dma_amo, next, nomatch};

/// Makes `command` count its success instead of reporting it.
fn counted(bench: &Bench, command: &mut FullDmaCmd) {
    command
        .set_event_success_disable(true)
        .set_event_ct_ack(true)
        .set_event_ct_reply(true)
        .set_ct(bench.counter.number());
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    let rig = &mut bench.rig;
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let entry = rig.entry(rig.matching.number());
    rig.append(&entry);
    bench
}

impl Bench {
    /// A command that counts its success instead of reporting it.
    fn dma(&self, opcode: c_dma_op, index: u32, length: u32) -> FullDmaCmd {
        let mut command = self.rig.dma(opcode, index, length);
        counted(self, &mut command);
        command
    }

    fn issue(&mut self, command: &FullDmaCmd, times: u32) {
        let mut batch = self.rig.transmit.batch();
        for _ in 0..times {
            batch.emit_dma(command).unwrap();
        }
        batch.commit_doorbell();
    }
}

/// The standard bandwidth loop (nic.md 9.4), with more rounds than event slots.
#[test]
fn reports_one_trigger_event_per_round() {
    const LIST: u32 = 20;
    let mut bench = bench();
    let put = bench.dma(C_CMD_PUT, PLAIN, 64);
    let mut threshold = 0;
    for round in 0..300 {
        threshold += u64::from(LIST);
        bench.arm(threshold);
        bench.issue(&put, LIST);
        assert_eq!(bench.triggered(), bench.at(threshold), "round {round}");
        bench.expect_no_event();
    }
    assert_eq!(bench.counts(), (threshold, 0));
}

#[test]
fn reports_trigger_event_emitted_after_operations() {
    let mut bench = bench();
    let put = bench.dma(C_CMD_PUT, PLAIN, 8);
    bench.issue(&put, 7);
    bench.wait_counts(7, 0);
    bench.arm(7);
    assert_eq!(bench.triggered(), bench.at(7));
    bench.arm(3);
    assert_eq!(bench.triggered(), bench.at(3));
    bench.arm(0);
    assert_eq!(bench.triggered(), bench.at(0));
    bench.arm(8);
    bench.expect_no_event();
    bench.issue(&put, 1);
    assert_eq!(bench.triggered(), bench.at(8));
}

/// Each kind of command counts once, by the flag of its completion (ACK or REPLY) and not by the
/// other.
#[test]
fn counts_every_kind_of_command_once() {
    let mut bench = bench();
    let mut expected = 0;
    for (ack, reply) in [(true, false), (false, true), (true, true), (false, false)] {
        for kind in 0..9 {
            let replies = issue_kind(&mut bench, kind, ack, reply);
            expected += u64::from(if replies { reply } else { ack });
        }
        // The fenced command completes after all of them.
        let last = bench.rig.dma(C_CMD_PUT, PLAIN, 0);
        let mut batch = bench.rig.transmit.batch();
        batch.emit_fence().unwrap();
        batch.emit_dma(&last).unwrap();
        batch.commit_doorbell();
        assert_eq!(bench.rig.completion().kind, EventType::ACK);
        assert_eq!(bench.counts(), (expected, 0), "ack {ack}, reply {reply}");
    }
    assert_eq!(expected, 9 + 9);
}

/// Issues one command and returns whether it completes with a REPLY.
fn issue_kind(bench: &mut Bench, kind: u32, ack: bool, reply: bool) -> bool {
    let dma = |opcode, index| {
        let mut command = bench.dma(opcode, index, 8);
        command.set_event_ct_ack(ack).set_event_ct_reply(reply);
        command
    };
    let put = dma(C_CMD_PUT, PLAIN);
    let full = [
        put,
        dma(C_CMD_PUT, MATCHING),
        dma(C_CMD_GET, PLAIN),
        dma(C_CMD_NOMATCH_PUT, PLAIN),
        dma(C_CMD_NOMATCH_GET, PLAIN),
    ];
    let mut c_state = bench.rig.c_state(PLAIN, true);
    c_state
        .set_event_success_disable(true)
        .set_event_ct_ack(ack)
        .set_event_ct_reply(reply)
        .set_ct(bench.counter.number());
    let dfa = bench.rig.dfa(PLAIN);
    let result = bench.rig.local.iova(256);
    let mut idc_amo = IdcAmoCmd::new();
    idc_amo
        .set_dfa(dfa)
        .set_local_addr(result)
        .set_atomic_op(C_AMO_OP_SUM as u8)
        .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
    let mut amo = dma_amo(&put);
    amo.set_local_write_addr(result)
        .set_write_lac(bench.rig.local.lac())
        .set_atomic_op(C_AMO_OP_SUM as u8)
        .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
    let mut batch = bench.rig.transmit.batch();
    match kind {
        0..=2 => batch.emit_dma(&full[kind as usize]),
        3 | 4 => batch.emit_nomatch_dma(&nomatch(&full[kind as usize])),
        5 | 6 => {
            batch.emit_c_state(&c_state).unwrap();
            match kind {
                5 => {
                    let mut header = IdcHdr::new();
                    header.set_dfa(dfa);
                    batch.emit_idc_put(&header, &[1; 24])
                }
                _ => batch.emit_idc_amo(&idc_amo, true),
            }
        }
        _ => batch.emit_dma_amo(&amo, kind == 8),
    }
    .unwrap();
    batch.commit_doorbell();
    matches!(kind, 2 | 4 | 6 | 8)
}

#[test]
fn counts_bytes_if_command_says_so() {
    let mut bench = bench();
    let mut total = 0;
    for opcode in [C_CMD_PUT, C_CMD_GET] {
        for length in [1, 8, 2048, 2049, 10_000, LEN as u32, 0] {
            let mut command = bench.dma(opcode, PLAIN, length);
            command.set_event_ct_bytes(true);
            total += u64::from(length);
            bench.arm(total);
            bench.issue(&command, 1);
            assert_eq!(bench.triggered(), bench.at(total), "{length} bytes");
        }
    }
    assert_eq!(bench.counts(), (total, 0));
    // A failure counts once, whatever its length.
    let mut failing = bench.dma(C_CMD_PUT, PLAIN, 100);
    failing.set_event_ct_bytes(true).set_remote_offset(LEN as u64);
    bench.issue(&failing, 1);
    assert_eq!(bench.rig.completion().code, "NO_SPACE");
    assert_eq!(bench.counts(), (total, 1));
}

/// Failures are reported although successes are not, and do not count towards thresholds.
#[test]
fn counts_and_reports_failures() {
    let mut bench = bench();
    let good = bench.dma(C_CMD_PUT, PLAIN, 8);
    // Refused by the target, by the local address context, and by the fabric.
    let mut beyond = good;
    beyond.set_remote_offset(LEN as u64);
    let mut unreadable = good;
    unreadable.set_local_addr(1 << 50);
    let mut unreachable = good;
    unreachable.set_dfa(0xfffff << 12);
    let mut get_beyond = bench.dma(C_CMD_GET, PLAIN, 8);
    get_beyond.set_remote_offset(LEN as u64);
    bench.arm(4);
    bench.issue(&good, 3);
    for (failures, (command, code)) in [
        (beyond, "NO_SPACE"),
        (unreadable, "NO_TRANSLATION"),
        (unreachable, "UNDELIVERABLE"),
        (get_beyond, "NO_SPACE"),
    ]
    .into_iter()
    .enumerate()
    {
        bench.issue(&command, 1);
        assert_eq!(bench.rig.completion().code, code);
        bench.expect_no_event();
        assert_eq!(bench.counts(), (3, failures as u8 + 1));
    }
    bench.issue(&good, 1);
    assert_eq!(bench.triggered(), bench.at(4));
    // The failure count has 7 bits and does not wrap.
    for _ in 0..200 {
        bench.issue(&beyond, 1);
        bench.rig.completion();
    }
    assert_eq!(bench.counts(), (4, 127));
}

#[test]
fn writes_counts_back_after_failure_but_not_after_success() {
    let mut bench = bench();
    let good = bench.dma(C_CMD_PUT, PLAIN, 8);
    bench.issue(&good, 2);
    bench.arm(2);
    bench.triggered();
    let counts = bench.counter.written_back().expect("by the trigger event");
    assert_eq!((counts.success, counts.failure), (2, 0));
    let mut reported = good;
    reported.set_event_success_disable(false);
    bench.issue(&reported, 1);
    bench.rig.completion();
    assert_eq!(bench.counter.written_back(), None);
    let mut failing = good;
    failing.set_remote_offset(LEN as u64);
    bench.issue(&failing, 1);
    bench.rig.completion();
    let counts = bench.counter.written_back().expect("by the failure");
    assert_eq!((counts.success, counts.failure), (3, 1));
}

/// The SEND of an operation counts beside its ACK, with or without a SEND event.
#[test]
fn counts_sends() {
    let mut bench = bench();
    for (disable, ack, each) in
        [(true, false, 1), (true, true, 2), (false, true, 2), (false, false, 1)]
    {
        let (before, _) = bench.counts();
        let mut put = bench.dma(C_CMD_PUT, PLAIN, 5000);
        put.set_event_send_disable(disable).set_event_ct_send(true).set_event_ct_ack(ack);
        bench.arm(before + 4 * each);
        bench.issue(&put, 4);
        let mut sends = 0;
        loop {
            let kind = next(&mut bench.rig.events, |event| event.event_type());
            match kind.name() {
                Some("SEND") => sends += 1,
                Some("TRIGGERED_OP") => break,
                name => panic!("{name:?}"),
            }
        }
        while !disable && sends < 4 {
            let kind = next(&mut bench.rig.events, |event| event.event_type());
            assert_eq!(kind.name(), Some("SEND"));
            sends += 1;
        }
        assert_eq!(sends, if disable { 0 } else { 4 });
        assert_eq!(bench.counts(), (before + 4 * each, 0));
    }
}

#[test]
fn counts_and_reports_independently() {
    let mut bench = bench();
    let mut put = bench.dma(C_CMD_PUT, PLAIN, 8);
    put.set_event_success_disable(false);
    bench.arm(1);
    bench.issue(&put, 1);
    // The NIC counts before it reports (nic.md 15, question 25).
    assert_eq!(bench.triggered(), bench.at(1));
    assert_eq!(bench.rig.completion().kind, EventType::ACK);
    // Without an event queue it counts and reports nothing, not even a failure.
    put.set_eq(0);
    bench.arm(2);
    bench.issue(&put, 1);
    assert_eq!(bench.triggered(), bench.at(2));
    put.set_remote_offset(LEN as u64);
    bench.issue(&put, 1);
    bench.wait_counts(2, 1);
    bench.expect_no_event();
}

/// A command without counting flags may name any counter. With a flag, the NIC refuses an unowned
/// one.
#[test]
fn refuses_unowned_counter_only_if_command_counts() {
    let mut bench = bench();
    let mut put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    put.set_ct(2000);
    assert_eq!(bench.rig.run(&put).code, "OK");
    put.set_ct(bench.counter.number());
    assert_eq!(bench.rig.run(&put).code, "OK");
    assert_eq!(bench.counts(), (0, 0));
    put.set_ct(2000).set_event_ct_ack(true);
    bench.issue(&put, 1);
    let code = wait_for("the refusal", || {
        bench.rig.events.poll();
        let code = u32::from(bench.rig.transmit.status().return_code());
        (code != C_RC_OK).then_some(code)
    });
    assert_eq!(code, C_RC_PERM_VIOLATION);
}
