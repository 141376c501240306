//! Completions at the initiator, counted.

use cxi::EventType;
use cxi::records::{DmaAmoCmd, FullDmaCmd, IdcAmoCmd, IdcHdr, NomatchDmaCmd};
use cxi::sys::*;

use super::tools::{Bench, wait_for};
use crate::rig::{LEN, MATCHING, PLAIN, next};

/// Lets success count instead of being reported.
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
    /// A silent command that counts.
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

/// The standard bandwidth loop (nic.md 9.4), more rounds than event slots.
#[test]
fn one_trigger_event_a_round_at_a_growing_threshold() {
    const LIST: u32 = 20;
    let mut bench = bench();
    let put = bench.dma(C_CMD_PUT, PLAIN, 64);
    let mut threshold = 0;
    for round in 0..300 {
        threshold += u64::from(LIST);
        bench.arm(threshold);
        bench.issue(&put, LIST);
        assert_eq!(bench.triggered(), bench.at(threshold), "round {round}");
        bench.silence();
    }
    assert_eq!(bench.counts(), (threshold, 0));
}

#[test]
fn the_trigger_may_come_after_the_operations() {
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
    bench.silence();
    bench.issue(&put, 1);
    assert_eq!(bench.triggered(), bench.at(8));
}

/// Every kind of command counts once, by the bit for what completes it, and not by the other.
#[test]
fn every_kind_of_operation_counts_once() {
    let mut bench = bench();
    let mut expected = 0;
    for (ack, reply) in [(true, false), (false, true), (true, true), (false, false)] {
        for kind in 0..9 {
            let replies = issue_kind(&mut bench, kind, ack, reply);
            expected += u64::from(if replies { reply } else { ack });
        }
        // The loud command behind them is complete when they are: one queue, one peer.
        let fence = bench.rig.dma(C_CMD_PUT, PLAIN, 0);
        let mut batch = bench.rig.transmit.batch();
        batch.emit_fence().unwrap();
        batch.emit_dma(&fence).unwrap();
        batch.commit_doorbell();
        assert_eq!(bench.rig.completion().kind, EventType::ACK);
        assert_eq!(bench.counts(), (expected, 0), "ack {ack}, reply {reply}");
    }
    assert_eq!(expected, 9 + 9);
}

/// Issues one command, and answers whether it completes with a REPLY.
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
    let mut bytes = [0; DmaAmoCmd::SIZE];
    bytes[..64].copy_from_slice(put.bytes());
    let mut dma_amo = DmaAmoCmd::from_bytes(bytes);
    dma_amo
        .set_local_write_addr(result)
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
        _ => batch.emit_dma_amo(&dma_amo, kind == 8),
    }
    .unwrap();
    batch.commit_doorbell();
    matches!(kind, 2 | 4 | 6 | 8)
}

fn nomatch(command: &FullDmaCmd) -> NomatchDmaCmd {
    let mut bytes = [0; NomatchDmaCmd::SIZE];
    bytes.copy_from_slice(&command.bytes()[..NomatchDmaCmd::SIZE]);
    NomatchDmaCmd::from_bytes(bytes)
}

#[test]
fn bytes_are_counted_where_asked_for() {
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
    // A failure is one failure, whatever its length.
    let mut failing = bench.dma(C_CMD_PUT, PLAIN, 100);
    failing
        .set_event_ct_bytes(true)
        .set_remote_offset(LEN as u64);
    bench.issue(&failing, 1);
    assert_eq!(bench.rig.completion().code, "NO_SPACE");
    assert_eq!(bench.counts(), (total, 1));
}

/// Failures are reported although successes are not, are counted apart, and reach no threshold.
#[test]
fn failures_are_counted_apart_and_reported() {
    let mut bench = bench();
    let good = bench.dma(C_CMD_PUT, PLAIN, 8);
    // Refused by the target, by our own memory, and by nobody being there.
    let mut beyond = good;
    beyond.set_remote_offset(LEN as u64);
    let mut unreadable = good;
    unreadable.set_local_addr(1 << 50);
    let mut nobody = good;
    nobody.set_dfa(0xfffff << 12);
    let mut get_beyond = bench.dma(C_CMD_GET, PLAIN, 8);
    get_beyond.set_remote_offset(LEN as u64);
    bench.arm(4);
    bench.issue(&good, 3);
    for (failures, (command, code)) in [
        (beyond, "NO_SPACE"),
        (unreadable, "NO_TRANSLATION"),
        (nobody, "UNDELIVERABLE"),
        (get_beyond, "NO_SPACE"),
    ]
    .into_iter()
    .enumerate()
    {
        bench.issue(&command, 1);
        assert_eq!(bench.rig.completion().code, code);
        bench.silence();
        assert_eq!(bench.counts(), (3, failures as u8 + 1));
    }
    bench.issue(&good, 1);
    assert_eq!(bench.triggered(), bench.at(4));
    // 7 bits, and no more.
    for _ in 0..200 {
        bench.issue(&beyond, 1);
        bench.rig.completion();
    }
    assert_eq!(bench.counts(), (4, 127));
}

/// A failure is written back at once; a success is not.
#[test]
fn a_failure_writes_the_counts_back() {
    let mut bench = bench();
    let good = bench.dma(C_CMD_PUT, PLAIN, 8);
    bench.issue(&good, 2);
    bench.arm(2);
    bench.triggered();
    let counts = bench.counter.written_back().expect("by the trigger event");
    assert_eq!((counts.success, counts.failure), (2, 0));
    let mut loud = good;
    loud.set_event_success_disable(false);
    bench.issue(&loud, 1);
    bench.rig.completion();
    assert_eq!(bench.counter.written_back(), None);
    let mut failing = good;
    failing.set_remote_offset(LEN as u64);
    bench.issue(&failing, 1);
    bench.rig.completion();
    let counts = bench.counter.written_back().expect("by the failure");
    assert_eq!((counts.success, counts.failure), (3, 1));
}

/// The SEND of an operation counts beside its ACK, whether there is a SEND event or not.
#[test]
fn sends_count_too() {
    let mut bench = bench();
    for (disable, ack, each) in [
        (true, false, 1),
        (true, true, 2),
        (false, true, 2),
        (false, false, 1),
    ] {
        let (before, _) = bench.counts();
        let mut put = bench.dma(C_CMD_PUT, PLAIN, 5000);
        put.set_event_send_disable(disable)
            .set_event_ct_send(true)
            .set_event_ct_ack(ack);
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

/// An initiator event is not replaced by counting: both where both are wanted.
#[test]
fn counting_and_reporting_do_not_depend_on_each_other() {
    let mut bench = bench();
    let mut put = bench.dma(C_CMD_PUT, PLAIN, 8);
    put.set_event_success_disable(false);
    bench.arm(1);
    bench.issue(&put, 1);
    // The count comes first (nic.md 15, question 25).
    assert_eq!(bench.triggered(), bench.at(1));
    assert_eq!(bench.rig.completion().kind, EventType::ACK);
    // No event queue at all: the count is there, and nothing else, even of a failure.
    put.set_eq(0);
    bench.arm(2);
    bench.issue(&put, 1);
    assert_eq!(bench.triggered(), bench.at(2));
    put.set_remote_offset(LEN as u64);
    bench.issue(&put, 1);
    bench.wait_counts(2, 1);
    bench.silence();
}

/// A command that names a counter and no completion counts nothing; one that names a counter of nobody
/// is refused only if it would count.
#[test]
fn counters_of_nobody() {
    let mut bench = bench();
    let mut put = bench.rig.dma(C_CMD_PUT, PLAIN, 8);
    put.set_ct(2000);
    assert_eq!(bench.rig.run(&put).code, "OK");
    put.set_ct(bench.counter.number());
    assert_eq!(bench.rig.run(&put).code, "OK");
    assert_eq!(bench.counts(), (0, 0));
    put.set_ct(2000).set_event_ct_ack(true);
    bench.issue(&put, 1);
    let code = wait_for("a refusal", || {
        bench.rig.events.poll();
        let code = u32::from(bench.rig.transmit.status().return_code());
        (code != C_RC_OK).then_some(code)
    });
    assert_eq!(code, C_RC_PERM_VIOLATION);
}
