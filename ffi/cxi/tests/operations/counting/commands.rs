//! Commands and doorbells of counters, the order of triggered operations, and LCID and FENCE
//! commands.

use cxi::records::EventCmdFail;
use cxi::sys::*;
use cxi::{
    CommunicationProfile, Counter, Counts, Domain, EventRecord, EventType, MAX_FAILURES,
    MAX_SUCCESSES, PortalTableEntry, TriggerBatch,
};

use super::{Bench, Triggered, counts_of};
use crate::rig::{LEN, PLAIN, Rig, code, next, nomatch};

fn by(success: u64, failure: u8) -> Counts {
    Counts { success, failure }
}

impl Bench {
    fn command(&mut self, emit: impl FnOnce(&mut TriggerBatch<'_>, &Counter)) {
        let mut batch = self.trigger.batch();
        emit(&mut batch, &self.counter);
        batch.commit_doorbell();
    }

    fn cancelled(&self, threshold: u64) -> Triggered {
        (self.counter.number(), threshold, "CANCELED")
    }
}

#[test]
fn starts_at_zero_without_write_back() {
    let mut bench = Bench::new();
    assert_eq!(bench.counter.written_back(), None);
    assert_eq!(bench.counts(), (0, 0));
}

#[test]
fn adds_and_resets_by_doorbell() {
    let mut bench = Bench::new();
    bench.counter.add_success(5);
    bench.counter.add_success(6);
    assert_eq!(bench.counter.written_back(), None, "not for a success");
    bench.counter.add_failure(3);
    assert_eq!(bench.counter.written_back(), Some(by(11, 3)));
    bench.counter.add_failure(4);
    assert_eq!(bench.counter.written_back(), Some(by(11, 7)));
    bench.counter.reset();
    assert_eq!(bench.counter.written_back(), Some(by(0, 0)));
    bench.counter.add_success(MAX_SUCCESSES);
    bench.counter.add_success(2);
    bench.counter.add_failure(MAX_FAILURES);
    bench.counter.add_failure(2);
    assert_eq!(bench.counts(), (1, MAX_FAILURES));
}

#[test]
fn runs_triggered_operation_after_doorbell() {
    let mut bench = Bench::new();
    bench.arm(10);
    bench.counter.add_success(9);
    bench.expect_no_event();
    bench.counter.add_failure(100);
    bench.expect_no_event();
    bench.counter.add_success(1);
    assert_eq!(bench.triggered(), bench.at(10));
    assert_eq!(bench.counter.written_back(), Some(by(10, 100)));
    bench.counter.add_success(100);
    bench.expect_no_event();
}

#[test]
fn sets_flagged_counts() {
    let mut bench = Bench::new();
    bench.counter.add_success(1);
    bench.counter.add_failure(1);
    bench.counter.written_back();
    bench.command(|batch, ct| batch.emit_set(ct, Some(70), None).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(70, 1)));
    bench.command(|batch, ct| batch.emit_set(ct, None, Some(7)).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(70, 7)));
    bench.command(|batch, ct| batch.emit_set(ct, Some(MAX_SUCCESSES), Some(127)).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(MAX_SUCCESSES, 127)));
    bench.command(|batch, ct| batch.emit_set(ct, None, None).unwrap());
    assert_eq!(bench.counts(), (MAX_SUCCESSES, 127));
    bench.command(|batch, ct| batch.emit_set(ct, Some(0), Some(0)).unwrap());
    bench.arm(3);
    bench.expect_no_event();
    bench.command(|batch, ct| batch.emit_set(ct, Some(3), None).unwrap());
    assert_eq!(bench.triggered(), bench.at(3));
}

#[test]
fn adds_by_command() {
    let mut bench = Bench::new();
    bench.arm(8);
    bench.command(|batch, ct| batch.emit_increment(ct, by(7, 0)).unwrap());
    assert_eq!(bench.counter.written_back(), None);
    bench.command(|batch, ct| batch.emit_increment(ct, by(0, 2)).unwrap());
    assert_eq!(bench.counter.written_back(), Some(by(7, 2)));
    bench.expect_no_event();
    bench.command(|batch, ct| batch.emit_increment(ct, by(1, 1)).unwrap());
    assert_eq!(bench.triggered(), bench.at(8));
    assert_eq!(bench.counts(), (8, 3));
}

#[test]
fn orders_triggers_by_threshold_then_emission() {
    let mut bench = Bench::new();
    let other = Counter::with_write_back(&bench.rig.lni).unwrap();
    for threshold in [7, 3, 5, 3, 9] {
        bench.arm(threshold);
    }
    bench.counter.add_success(8);
    for threshold in [3, 3, 5, 7] {
        assert_eq!(bench.triggered(), bench.at(threshold));
    }
    bench.expect_no_event();
    // The result shows the order of two commands at one threshold: first set, then add.
    bench.command(|batch, ct| {
        batch.emit_trigger_set(ct, 20, &other, Some(100), Some(1)).unwrap();
        batch.emit_trigger_increment(ct, 20, &other, by(5, 1)).unwrap();
    });
    bench.counter.add_success(12);
    assert_eq!(bench.triggered(), bench.at(9));
    assert_eq!(counts_of(&mut bench.trigger, &other), (105, 2));
}

#[test]
fn chains_triggered_increments() {
    let mut bench = Bench::new();
    let chain: Vec<Counter> =
        (0..20).map(|_| Counter::with_write_back(&bench.rig.lni).unwrap()).collect();
    let mut before = &bench.counter;
    let mut batch = bench.trigger.batch();
    for counter in &chain {
        batch.emit_trigger_increment(before, 1, counter, by(1, 0)).unwrap();
        before = counter;
    }
    batch.emit_trigger_event(before, 1).unwrap();
    // The first counter also sets itself to zero.
    batch.emit_trigger_set(&bench.counter, 1, &bench.counter, Some(0), None).unwrap();
    batch.commit_doorbell();
    bench.expect_no_event();
    bench.counter.add_success(1);
    let last = chain.last().unwrap().number();
    assert_eq!(bench.triggered(), (last, 1, "OK"));
    assert_eq!(bench.counts(), (0, 0));
    for counter in &chain {
        assert_eq!(counts_of(&mut bench.trigger, counter), (1, 0));
    }
}

#[test]
fn cancels_waiting_operations_and_reports_canceled() {
    let mut bench = Bench::new();
    let other = Counter::with_write_back(&bench.rig.lni).unwrap();
    bench.arm(5);
    bench.arm(2);
    bench.command(|batch, ct| {
        batch.emit_trigger_event(&other, 1).unwrap();
        batch.emit_trigger_increment(ct, 1, &other, by(1, 0)).unwrap();
        batch.emit_cancel(ct).unwrap();
    });
    assert_eq!(bench.triggered(), bench.cancelled(2));
    assert_eq!(bench.triggered(), bench.cancelled(5));
    bench.counter.add_success(10);
    bench.expect_no_event();
    assert_eq!(counts_of(&mut bench.trigger, &other), (0, 0));
    // The cancelled counter and other counters still work.
    assert_eq!(bench.counts(), (10, 0));
    bench.arm(10);
    assert_eq!(bench.triggered(), bench.at(10));
    other.add_success(1);
    assert_eq!(bench.triggered(), (other.number(), 1, "OK"));
}

#[test]
fn cancels_waiting_operations_of_destroyed_counter() {
    let mut bench = Bench::new();
    let fresh = Counter::with_write_back(&bench.rig.lni).unwrap();
    bench.arm(1);
    let old = std::mem::replace(&mut bench.counter, fresh);
    let number = old.number();
    old.close().unwrap();
    assert_eq!(bench.triggered(), (number, 1, "CANCELED"));
    // Its number stays taken until the interface ends (libcxi.md 10).
    let next = Counter::with_write_back(&bench.rig.lni).unwrap();
    assert_ne!(next.number(), number);
    next.add_success(1);
    bench.expect_no_event();
    assert_eq!(counts_of(&mut bench.trigger, &next), (1, 0));
}

#[test]
fn refuses_trigger_beyond_service_limit() {
    const LIMIT: u64 = 512;
    // No other test uses this NIC: it has no triggered operation left.
    let mut bench = Bench::on(2);
    let other = Counter::new(&bench.rig.lni).unwrap();
    let arm = |bench: &mut Bench, threshold| {
        bench.command(|batch, ct| {
            batch.emit_trigger_increment(ct, threshold, &other, by(1, 0)).unwrap();
        });
    };
    for threshold in 1..=LIMIT {
        arm(&mut bench, threshold);
    }
    // One trigger has run, so there is room for one more, and for one that runs at once.
    bench.counter.add_success(1);
    arm(&mut bench, LIMIT + 1);
    arm(&mut bench, 1);
    assert_eq!(u32::from(bench.trigger.status().return_code()), C_RC_OK);
    arm(&mut bench, LIMIT + 2);
    let (kind, code, record) = next(&mut bench.rig.events, |event| {
        (event.event_type(), event.return_code(), event.record())
    });
    assert_eq!(kind, EventType::COMMAND_FAILURE);
    assert_eq!(code.name(), Some("RESOURCE_BUSY"));
    let EventRecord::CommandFailure(failure) = record else {
        panic!("{record:?}");
    };
    let failure: EventCmdFail = failure;
    assert_eq!(u32::from(failure.opcode()), C_CMD_CT_TRIG_INC);
    assert_eq!(u32::from(failure.cmd_type()), C_CMD_TYPE_CT);
    let status = bench.trigger.status();
    assert_eq!(u32::from(status.return_code()), C_RC_RESOURCE_BUSY);
    assert_eq!(status.rd_ptr(), failure.fail_loc());
}

#[test]
fn switches_profile_of_queue() {
    let mut rig = Rig::new();
    let (first, second) = (1, 10);
    let make = |vni, tc_type| {
        CommunicationProfile::new(&rig.lni, vni, CXI_TC_BEST_EFFORT, tc_type).unwrap()
    };
    let here = &rig.profile;
    let there = make(second, CXI_TC_TYPE_DEFAULT);
    let hrp = make(first, CXI_TC_TYPE_HRP);
    assert_eq!([here.lcid(), there.lcid(), hrp.lcid()], [0, 1, 2]);
    // Another portals table entry at the same PID and portal index on the other VNI, not enabled.
    let domain = Domain::new(&rig.lni, second, rig.domain.pid()).unwrap();
    let mut portal = PortalTableEntry::new(&rig.lni, &rig.target_events, false).unwrap();
    portal.map(&domain, PLAIN).unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    // High-rate puts are restricted.
    let mut put = nomatch(&rig.dma(C_CMD_NOMATCH_PUT, PLAIN, 8));
    put.set_restricted(true);
    let c_state = rig.c_state(PLAIN, true);
    let mut header = cxi::records::IdcHdr::new();
    header.set_dfa(rig.dfa(PLAIN));
    let mut batch = rig.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    batch.commit_doorbell();
    let profiles = [
        (&rig.profile, "OK"),
        (&there, "PT_DISABLED"),
        (&hrp, "OK"),
        (&there, "PT_DISABLED"),
        (&rig.profile, "OK"),
    ];
    // More switches than the ring has slots, by doorbell and low-latency window.
    for round in 0..20 {
        for (profile, expected) in profiles {
            let mut batch = rig.transmit.batch();
            batch.emit_lcid(profile).unwrap();
            batch.emit_nomatch_dma(&put).unwrap();
            // The switch keeps the C_STATE.
            batch.emit_idc_put(&header, &[1; 8]).unwrap();
            match round % 2 {
                0 => batch.commit_doorbell(),
                _ => batch.commit_low_latency(),
            }
            for _ in 0..2 {
                assert_eq!(next(&mut rig.events, code), expected, "round {round}");
            }
            // Later batches use the same profile.
            let mut batch = rig.transmit.batch();
            batch.emit_nomatch_dma(&put).unwrap();
            batch.commit_low_latency();
            assert_eq!(next(&mut rig.events, code), expected);
        }
    }
}

#[test]
fn refuses_operations_that_cannot_be_high_rate_puts() {
    let mut rig = Rig::new();
    let profile =
        CommunicationProfile::new(&rig.lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP).unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let mut batch = rig.transmit.batch();
    batch.emit_lcid(&profile).unwrap();
    batch.commit_doorbell();
    for (opcode, restricted, length, expected) in [
        (C_CMD_NOMATCH_PUT, true, 2048, "OK"),
        (C_CMD_NOMATCH_PUT, true, 2049, "HRP_CONFIG_ERROR"),
        (C_CMD_NOMATCH_PUT, false, 8, "HRP_CONFIG_ERROR"),
        (C_CMD_NOMATCH_GET, true, 8, "HRP_CONFIG_ERROR"),
    ] {
        let mut command = nomatch(&rig.dma(opcode, PLAIN, length));
        command.set_restricted(restricted);
        let mut batch = rig.transmit.batch();
        batch.emit_nomatch_dma(&command).unwrap();
        batch.commit_doorbell();
        assert_eq!(next(&mut rig.events, code), expected, "{opcode} {length}");
    }
}

/// A command that the local NIC refuses completes at once, unless a fence delays it.
#[test]
fn keeps_order_of_completions_across_fence() {
    let mut rig = Rig::new();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let long = rig.dma(C_CMD_PUT, PLAIN, LEN as u32);
    let mut refused = rig.dma(C_CMD_PUT, PLAIN, 8);
    refused.set_local_addr(1 << 50);
    for (fence, expected) in [(false, ["NO_TRANSLATION", "OK"]), (true, ["OK", "NO_TRANSLATION"])] {
        let mut batch = rig.transmit.batch();
        batch.emit_dma(&long).unwrap();
        if fence {
            batch.emit_fence().unwrap();
        }
        batch.emit_dma(&refused).unwrap();
        batch.commit_doorbell();
        let seen = [rig.completion(), rig.completion()].map(|seen| seen.code);
        assert_eq!(seen, expected);
    }
}
