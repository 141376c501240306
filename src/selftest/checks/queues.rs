//! Command queues: wrap, padding, low-latency writes, contexts, refused commands.

use cxi::records::{CmdHeader, CqCmd};
use cxi::sys::*;
use cxi::{EmitError, EventRecord, EventType, TransmitQueue, idc_put_words};

use crate::bench::{Bench, Checked, USER_PTR, differs, equal, expect, has, skipped};
use crate::table::{CheckGroup, FactCheck, assumed, inferred, stated};

pub static GROUP: CheckGroup = CheckGroup { name: "queues", checks: CHECKS };

/// Payloads of immediate puts: each end of each size of command (nic.md 3.2).
const PAYLOADS: [usize; 9] = [0, 1, 16, 17, 48, 49, 112, 113, 192];

const CHECKS: &[FactCheck] = &[
    stated("read-pointer", "nic.md 2.8", |bench| {
            let profile = bench.profile.clone();
            bench.send(|batch| batch.emit_lcid(&profile))?;
            read_pointer(bench, 6)
        }).shows("after an LCID pair on a fresh queue the read pointer is 6"),
    stated("read-pointer-of-half-slot", "nic.md 2.7", |bench| {
            let state = bench.c_state(true);
            bench.send(|batch| batch.emit_c_state(&state))?;
            read_pointer(bench, 5)
        }).shows("a command of 32 bytes takes a whole slot at the doorbell: the read pointer is 5"),
    stated("sizes-by-doorbell", "nic.md 2.5", |bench| sizes(bench, false)).shows("immediate puts of each size of command arrive by doorbell"),
    stated("sizes-by-low-latency-write", "nic.md 2.8", |bench| sizes(bench, true)).shows(
        "immediate puts of each size of command arrive by low-latency write, by LL64, LL128A or \
         LL128U",
    ),
    stated("low-latency-64", "nic.md 2.8", |bench| windows(bench, 2, 40)).shows("a low-latency write of one slot is executed at any slot"),
    stated("low-latency-128-aligned", "nic.md 2.8", |bench| windows(bench, 4, 40)).shows("a low-latency write of two slots is executed at an even slot"),
    stated("low-latency-128-unaligned", "nic.md 2.8", unaligned_window).shows("a low-latency write of two slots at an odd slot of padding skips the padding"),
    stated("low-latency-then-doorbell", "nic.md 2.8", |bench| {
            let _portal = bench.plain()?;
            let put = bench.nomatch(C_CMD_NOMATCH_PUT, 8);
            for _ in 0..4 {
                for _ in 0..3 {
                    bench.send_low_latency(|batch| batch.emit_nomatch_dma(&put))?;
                }
                bench.send(|batch| batch.emit_nomatch_dma(&put))?;
                for _ in 0..4 {
                    bench.expect(EventType::ACK, C_RC_OK)?;
                }
                bench.quiet()?;
            }
            Ok(())
        }).shows("a doorbell after low-latency writes executes no command twice"),
    stated("wrap", "nic.md 2.3", wrap).shows("commands of all sizes are executed in order over ten laps of the ring"),
    stated("full-ring", "nic.md 2.4", full_ring).shows("a ring filled up to its last free slot is executed with one doorbell, again and again"),
    stated("padding", "nic.md 2.6", |bench| {
            let _portal = bench.plain()?;
            let put = bench.nomatch(C_CMD_NOMATCH_PUT, 8);
            for (code, len) in [(0, 32), (1, 64), (2, 128), (3, 256)] {
                let mut noop = vec![0xff; len];
                noop[..8].fill(0);
                let mut header = CmdHeader::new();
                header.set_cmd_size(code);
                noop[0] = header.bytes()[0];
                bench.send(|batch| {
                    batch.emit_bytes(&noop)?;
                    batch.emit_nomatch_dma(&put)
                })?;
                bench.expect(EventType::ACK, C_RC_OK)?;
            }
            Ok(())
        }).shows("the NIC skips NOOPs of each size by their first byte, whatever follows it"),
    stated("context-persists", "nic.md 3.4", context_persists).shows("a C_STATE holds over DMA commands, a FENCE and doorbells until the next one"),
    stated("context-of-queue", "nic.md 3.4", |bench| {
            let _portal = bench.plain()?;
            let mut other = TransmitQueue::new(&bench.profile, 64, &bench.events, None)?;
            let mut state = bench.c_state(true);
            bench.send(|batch| batch.emit_c_state(&state))?;
            state.set_user_ptr(2);
            let mut batch = other.batch();
            batch.emit_c_state(&state)?;
            batch.commit_doorbell();
            let header = bench.idc(0);
            bench.send(|batch| batch.emit_idc_put(&header, &[1]))?;
            let own = bench.expect(EventType::ACK, C_RC_OK)?;
            equal("user_ptr", own.user_ptr(), USER_PTR)?;
            let mut batch = other.batch();
            batch.emit_idc_put(&header, &[1])?;
            batch.commit_doorbell();
            let theirs = bench.expect(EventType::ACK, C_RC_OK)?;
            equal("user_ptr", theirs.user_ptr(), 2)
        }).shows("each queue has a C_STATE of its own"),
    inferred("fence", "nic.md 3.11", |bench| {
            let _portal = bench.plain()?;
            let pattern = bench.fill()?;
            let half = pattern.len() / 2;
            for _ in 0..3 {
                bench.remote.fill(0)?;
                // A put of half the memory, and a get of the same bytes into the other half.
                let mut put = bench.dma(C_CMD_PUT, half);
                put.set_event_success_disable(true);
                let mut get = bench.dma(C_CMD_GET, half);
                get.set_local_addr(bench.local.iova(half));
                bench.send(|batch| {
                    batch.emit_dma(&put)?;
                    batch.emit_fence()?;
                    batch.emit_dma(&get)
                })?;
                bench.expect(EventType::REPLY, C_RC_OK)?;
                has("data of the get", &bench.local, half, &pattern[..half])?;
            }
            Ok(())
        }).shows("a command after a FENCE starts after the commands before it have completed"),
    stated("profile-switch", "nic.md 3.11", profile_switch).shows("an LCID command changes the VNI of later commands, until the next one")
        .provokes(&[]),
    inferred("refused-opcode", "nic.md 2.11", |bench| refused_command(bench, false).map(drop)).shows(
        "an undefined opcode is reported as ILLEGAL_OP by a COMMAND_FAILURE event and the status",
    )
        .risky(),
    inferred("refused-target-command", "nic.md 2.11", |bench| refused_command(bench, true).map(drop)).shows("an undefined opcode on a target queue is reported as ILLEGAL_OP")
        .risky(),
    assumed("refused-command-stops-queue", "nic.md 15", |bench| {
            let _portal = bench.plain()?;
            let Some(mut queue) = refused_command(bench, false)? else {
                return skipped("no queue");
            };
            let put = bench.nomatch(C_CMD_NOMATCH_PUT, 8);
            let mut batch = queue.batch();
            batch.emit_nomatch_dma(&put)?;
            batch.commit_doorbell();
            bench.quiet()
        }).shows("a queue executes nothing after a command in error")
        .risky(),
];

/// Waits until the NIC has read the transmit queue up to `slot`.
fn read_pointer(bench: &mut Bench, slot: u16) -> Checked {
    let mut seen = 0;
    for _ in 0..1000 {
        seen = bench.transmit.status().rd_ptr();
        if seen == slot {
            return Ok(());
        }
        // Runs a software NIC.
        bench.quiet()?;
    }
    Err(differs(format_args!("rd_ptr {slot}"), seen))
}

/// Puts payloads of all sizes, each to a place of its own.
fn sizes(bench: &mut Bench, low_latency: bool) -> Checked {
    let _portal = bench.plain()?;
    let pattern = bench.fill()?;
    let state = bench.c_state(false);
    bench.send(|batch| batch.emit_c_state(&state))?;
    for (at, len) in PAYLOADS.into_iter().enumerate() {
        let header = bench.idc(256 * at as u64);
        let put = |batch: &mut cxi::TransmitBatch<'_>| batch.emit_idc_put(&header, &pattern[..len]);
        if low_latency {
            bench.send_low_latency(put)?;
        } else {
            bench.send(put)?;
        }
        let ack = bench.expect(EventType::ACK, C_RC_OK)?;
        equal("mlength", ack.mlength() as usize, len)?;
        has("data", &bench.remote, 256 * at, &pattern[..len])?;
        has("byte after the data", &bench.remote, 256 * at + len, &[0xee])?;
    }
    Ok(())
}

/// Puts `count` times by low-latency writes of `halves` half-slots, over several laps of the
/// windows.
fn windows(bench: &mut Bench, halves: usize, count: u8) -> Checked {
    let _portal = bench.plain()?;
    let state = bench.c_state(false);
    bench.send(|batch| batch.emit_c_state(&state))?;
    // The C_STATE takes slot 4: slot 5 comes next, and pairs of slots begin at slot 6.
    let noop = [0; 64];
    if halves == 4 {
        bench.send(|batch| batch.emit_bytes(&noop))?;
    }
    let len = if halves == 4 { 112 } else { 48 };
    debug_assert_eq!(idc_put_words(len), 4 * halves);
    for number in 1..=count {
        let header = bench.idc(0);
        let payload = vec![number; len];
        bench.send_low_latency(|batch| batch.emit_idc_put(&header, &payload))?;
        bench.expect(EventType::ACK, C_RC_OK)?;
        has("data", &bench.remote, 0, &payload)?;
    }
    bench.quiet()
}

fn unaligned_window(bench: &mut Bench) -> Checked {
    let _portal = bench.plain()?;
    let state = bench.c_state(false);
    for number in 1..=20 {
        // One slot, so that the command of two slots begins after a slot of padding.
        bench.send(|batch| batch.emit_c_state(&state))?;
        let header = bench.idc(0);
        let payload = [number; 112];
        bench.send_low_latency(|batch| batch.emit_idc_put(&header, &payload))?;
        bench.expect(EventType::ACK, C_RC_OK)?;
        has("data", &bench.remote, 0, &payload)?;
    }
    bench.quiet()
}

fn wrap(bench: &mut Bench) -> Checked {
    let _portal = bench.plain()?;
    let pattern = bench.fill()?;
    let state = bench.c_state(false);
    bench.send(|batch| batch.emit_c_state(&state))?;
    let slots = bench.transmit.slots() as usize;
    let mut used = 0;
    for round in 0.. {
        // Steps through the sizes so that each meets each place in the ring.
        let len = PAYLOADS[(round * 5 + used / slots) % PAYLOADS.len()];
        let from = round % 200;
        let header = bench.idc(0);
        bench.send(|batch| batch.emit_idc_put(&header, &pattern[from..from + len]))?;
        bench.expect(EventType::ACK, C_RC_OK)?;
        has("data", &bench.remote, 0, &pattern[from..from + len])?;
        used += idc_put_words(len).div_ceil(8);
        if used > 10 * slots {
            break;
        }
    }
    Ok(())
}

fn full_ring(bench: &mut Bench) -> Checked {
    let _portal = bench.plain()?;
    let put = bench.dma(C_CMD_PUT, 8);
    let expected = bench.transmit.slots() as usize - 5;
    for _ in 0..3 {
        let mut batch = bench.transmit.batch();
        let mut count = 0;
        let end = loop {
            match batch.emit_dma(&put) {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        bench.trace.command = batch.bytes();
        batch.commit_doorbell();
        equal("end", end, EmitError::QueueFull)?;
        equal("commands in the ring", count, expected)?;
        for _ in 0..count {
            bench.expect(EventType::ACK, C_RC_OK)?;
        }
        bench.quiet()?;
    }
    Ok(())
}

fn context_persists(bench: &mut Bench) -> Checked {
    let _portal = bench.plain()?;
    let mut state = bench.c_state(true);
    bench.send(|batch| batch.emit_c_state(&state))?;
    let header = bench.idc(0);
    let mut dma = bench.dma(C_CMD_PUT, 8);
    dma.set_user_ptr(1);
    for user_ptr in [USER_PTR, 7] {
        for _ in 0..2 {
            bench.send(|batch| {
                batch.emit_dma(&dma)?;
                batch.emit_fence()
            })?;
            let ack = bench.expect(EventType::ACK, C_RC_OK)?;
            equal("user_ptr of the DMA command", ack.user_ptr(), 1)?;
            bench.send(|batch| batch.emit_idc_put(&header, &[1; 8]))?;
            let ack = bench.expect(EventType::ACK, C_RC_OK)?;
            equal("user_ptr", ack.user_ptr(), user_ptr)?;
        }
        state.set_user_ptr(7);
        bench.send(|batch| batch.emit_c_state(&state))?;
    }
    Ok(())
}

fn profile_switch(bench: &mut Bench) -> Checked {
    let other = bench.on_other_vni()?;
    let _portal = bench.plain()?;
    let put = bench.nomatch(C_CMD_NOMATCH_PUT, 8);
    let own = bench.profile.clone();
    for (profile, code) in [(&other.profile, C_RC_PTLTE_NOT_FOUND), (&own, C_RC_OK)] {
        bench.send(|batch| batch.emit_lcid(profile))?;
        for _ in 0..2 {
            bench.send(|batch| batch.emit_nomatch_dma(&put))?;
            bench.expect(EventType::ACK, code)?;
        }
    }
    Ok(())
}

/// Hands over a command with an undefined opcode. Returns the transmit queue, which is in error.
fn refused_command(bench: &mut Bench, is_target: bool) -> Checked<Option<TransmitQueue>> {
    let mut failures = cxi::EventQueue::new(&bench.lni, 8, CXI_EQ_EC_DISABLE.into())?;
    let mut command = CqCmd::new();
    command.set_cmd_type(C_CMD_TYPE_CQ as u8).set_cmd_size(C_CMD_SIZE_64B as u8).set_opcode(15);
    let header = command.bytes()[0];
    bench.trace.command = command.bytes().to_vec();
    let mut transmit = None;
    let mut target = None;
    if is_target {
        let queue = cxi::TargetQueue::new(&bench.lni, 64, Some(&failures))?;
        let queue = target.insert(queue);
        let mut batch = queue.batch();
        batch.emit_bytes(command.bytes())?;
        batch.commit_doorbell();
    } else {
        let queue = TransmitQueue::new(&bench.profile, 64, &bench.events, Some(&failures))?;
        let queue = transmit.insert(queue);
        let mut batch = queue.batch();
        batch.emit_bytes(command.bytes())?;
        batch.commit_doorbell();
    }
    let kind = EventType::COMMAND_FAILURE;
    let failure = expect(&mut failures, &mut bench.trace, kind, C_RC_ILLEGAL_OP)?;
    let EventRecord::CommandFailure(event) = failure.record else {
        return Err(differs("an event of 16 bytes", failure.bytes.len()));
    };
    equal("is_target", event.is_target(), is_target)?;
    equal("command in the event", failure.bytes[4], header)?;
    let status = match (&transmit, &target) {
        (Some(queue), _) => queue.status(),
        (_, Some(queue)) => queue.status(),
        _ => return Ok(None),
    };
    equal("return code in the status", u32::from(status.return_code()), C_RC_ILLEGAL_OP)?;
    equal("command in the status", status.fail_command(), header)?;
    Ok(transmit)
}
