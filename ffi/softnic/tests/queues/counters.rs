//! Counters and trigger queues (nic.md 9, 3.12; libcxi.md 8.4).

use crate::driver::prelude::*;
use std::sync::atomic::Ordering;

const TRIGGER: u32 = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;

/// The top bit of a write-back word: the NIC has written it.
const WRITTEN: u64 = 1 << 63;

fn trigger_queue(rig: &Rig) -> Queue {
    Queue::trigger(rig.dev, rig.lni, rig.eq.handle)
}

/// Waits for a write-back of `counts`, and clears the word.
fn wait_counts(rig: &Rig, pages: Pages, counts: u64) {
    let word = pages.word(0);
    wait_for("the counts", || {
        progress(rig.dev);
        (word.load(Ordering::Acquire) == WRITTEN | counts).then_some(())
    });
    word.store(0, Ordering::Release);
}

#[test]
fn rejects_invalid_write_back_addresses() {
    alone!();
    let rig = Rig::new();
    let pages = Pages::new(2 * PAGE);
    let at = |offset: usize| pages.base.wrapping_add(offset);
    static CONSTANT: [u64; 1] = [7];
    let constant: *mut u8 = CONSTANT.as_ptr().cast_mut().cast();
    let alloc = |wb| Counter::alloc(rig.lni, wb).err();
    for misplaced in 1..8 {
        assert_eq!(alloc(at(misplaced)), Some(EINVAL));
    }
    assert_eq!(alloc(null_mut::<u8>().wrapping_add(64)), Some(EFAULT));
    assert_eq!(alloc(constant), Some(EFAULT));
    assert_eq!(Counter::alloc(null_mut(), null_mut()).err(), Some(EINVAL));
    let none = null_mut();
    assert_eq!(call!(cxil_alloc_ct(rig.lni, null_mut(), none)), -EINVAL);
    assert_eq!(call!(cxil_destroy_ct(null_mut())), -EINVAL);
    let update = |ct, wb: *mut u8| -call!(cxil_ct_wb_update(ct, wb.cast()));
    assert_eq!(update(null_mut(), null_mut()), EINVAL);
    let counter = Counter::alloc(rig.lni, at(8)).unwrap();
    assert_eq!(update(counter.handle, at(4)), EINVAL);
    assert_eq!(update(counter.handle, constant), EFAULT);
}

#[test]
fn limits_counters_of_nic_to_2047() {
    alone!();
    let rig = Rig::new();
    let alloc = |lni| Counter::alloc(lni, null_mut());
    let counters: Vec<Counter> = (0..2047).map(|_| Counter::new(rig.lni)).collect();
    assert!(counters.iter().map(|counter| counter.number).eq(1..2048));
    assert_eq!(alloc(rig.lni).err(), Some(ENOSPC));
    // A destroyed one counts until its LNI ends (libcxi.md 10).
    counters[700].destroy();
    assert_eq!(alloc(rig.lni).err(), Some(ENOSPC));
    // Another open of the device has its own numbers, but shares the total.
    let other = open(0);
    let lni = alloc_lni(other);
    assert_eq!(alloc(lni).err(), Some(ENOSPC));
    drop(rig);
    let counter = alloc(lni).unwrap();
    assert_eq!(counter.number, 1);
    // A counter keeps its LNI busy.
    assert_eq!(call!(cxil_destroy_lni(lni)), -EBUSY);
    counter.destroy();
    assert_eq!(call!(cxil_destroy_lni(lni)), 0);
    close(other);
}

/// LCID 0 for trigger queues, 1 and up for other queues, or any. Since SHS 14.0 an equal profile is
/// found again at LCID 0 only (libcxi.md 5).
#[test]
fn allocates_profiles_by_lcid() {
    alone!();
    for (release, again, next) in [("13", 1, 2), ("14", 2, 3)] {
        set("CXIDIAG_SHS", release);
        let dev = open(0);
        let lni = alloc_lni(dev);
        for (vni, cp_type, expected) in [
            (VNI, NON_TRIG_LCID, Ok(1)),
            (VNI, NON_TRIG_LCID, Ok(again)),
            // LCID 0 is free.
            (VNI, TRIG_LCID, Ok(0)),
            (VNI, TRIG_LCID, Ok(0)),
            (VNI, ANY_LCID, Ok(0)),
            (10, TRIG_LCID, Err(ENOSPC)),
            (10, ANY_LCID, Ok(next)),
            (VNI, 3, Err(EINVAL)),
            (0, TRIG_LCID, Err(EINVAL)),
        ] {
            let (mut cp, tc, tc_type) = (null_mut(), CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT);
            let code = call!(cxil_alloc_trig_cp(lni, vni, tc, tc_type, cp_type, &mut cp));
            assert_eq!(answered(code).map(|_| lcid(cp)), expected, "{release} {vni} {cp_type}");
        }
        close(dev);
    }
}

/// Sixteen requests for one type beside the first profile.
#[test]
fn equal_profiles_use_lcids_up_since_release_14() {
    alone!();
    for (release, allocated) in [("13", 16), ("14", 15)] {
        set("CXIDIAG_SHS", release);
        let dev = open(0);
        let lni = alloc_lni(dev);
        assert_eq!(lcid(alloc_cp(lni, VNI)), 0);
        let request = || {
            let (mut cp, tc) = (null_mut(), CXI_TC_BEST_EFFORT);
            call!(cxil_alloc_cp(lni, VNI, tc, CXI_TC_TYPE_HRP, &mut cp))
        };
        let codes: Vec<i32> = (0..16).map(|_| request()).collect();
        let refused = vec![-ENOSPC; 16 - allocated];
        assert_eq!(codes, [vec![0; allocated], refused].concat(), "{release}");
        close(dev);
    }
}

/// A program without the hook stores to doorbells and reads its memory.
#[test]
fn serves_doorbells_by_engine_thread() {
    alone!();
    let rig = Rig::new();
    let pages = Pages::new(PAGE);
    let (word, other) = (pages.word(1024), pages.word(8));
    let counter = Counter::alloc(rig.lni, pages.base.wrapping_add(1024)).unwrap();
    let wait = |counts: u64| {
        wait_for("the counts", || (word.load(Ordering::Acquire) == WRITTEN | counts).then_some(()));
        word.store(0, Ordering::Release);
    };
    counter.ring(0, 7);
    counter.ring(64, 1);
    wait(1 << 48 | 7);
    counter.ring(128, 0);
    wait(1 << 48);
    counter.ring(192, 0);
    wait(0);
    // Another word takes the place of the first, and then none.
    let at = pages.base.wrapping_add(8).cast();
    assert_eq!(call!(cxil_ct_wb_update(counter.handle, at)), 0);
    // SAFETY: the counter is alive.
    assert_eq!(unsafe { (*counter.handle).wb }, at);
    counter.ring(64, 3);
    wait_for("the counts", || (other.load(Ordering::Acquire) == WRITTEN | 3 << 48).then_some(()));
    assert_eq!(call!(cxil_ct_wb_update(counter.handle, null_mut())), 0);
    other.store(0, Ordering::Release);
    counter.ring(64, 3);
    progress(rig.dev);
    counter.destroy();
    let words = [word, other].map(|word| word.load(Ordering::Acquire));
    assert_eq!(words, [0, 0]);
}

/// Threshold, counter, header, return code (nic.md 6.2, Appendix B).
#[test]
fn triggered_op_event_has_16_bytes() {
    alone!();
    let mut rig = Rig::new();
    let mut trigger = trigger_queue(&rig);
    let [_first, counter] = [(); 2].map(|()| Counter::new(rig.lni));
    let threshold = 0x0102_0304_0506;
    trigger.issue(&trig_event(counter.number, rig.eq.number, threshold));
    counter.ring(0, threshold);
    let expected = [6, 5, 4, 3, 2, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0x49, 1];
    assert_eq!(rig.eq.wait().0, expected);
}

#[test]
fn long_triggered_op_event_has_32_bytes() {
    alone!();
    let flags = CXI_EQ_EC_DISABLE | CXI_EQ_INIT_LONG;
    let mut rig = Rig::with_queues(0, flags, CXI_EQ_EC_DISABLE);
    let mut trigger = trigger_queue(&rig);
    let number = Counter::new(rig.lni).number;
    trigger.emit(&trig_event(number, rig.eq.number, 5));
    trigger.issue(&counter_command(C_CMD_CT_CANCEL, |command| _ = command.set_ct(number)));
    let event = rig.eq.expect(C_EVENT_TRIGGERED_OP, C_RC_CANCELED);
    let record = EventTrigOpLong::from_bytes(event.bytes());
    assert_eq!((record.threshold(), record.ct_handle()), (5, number));
}

/// nic.md 9.1.
#[test]
fn trigger_without_event_queue_writes_back() {
    alone!();
    let mut rig = Rig::new();
    let mut trigger = trigger_queue(&rig);
    let pages = Pages::new(PAGE);
    let counter = Counter::alloc(rig.lni, pages.base).unwrap();
    trigger.issue(&trig_event(counter.number, 0, 4));
    trigger.drain();
    counter.ring(0, 3);
    progress(rig.dev);
    assert_eq!(pages.word(0).load(Ordering::Acquire), 0);
    counter.ring(0, 1);
    wait_counts(&rig, pages, 4);
    assert_eq!(rig.eq.poll(), None);
}

#[test]
fn counts_acks_and_reports_counts_on_command() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let mut trigger = trigger_queue(&rig);
    let pages = Pages::new(PAGE);
    let counter = Counter::alloc(rig.lni, pages.base).unwrap();
    let number = counter.number;
    trigger.issue(&trig_event(number, rig.eq.number, 3));
    trigger.drain();
    let put = rig.dma_put(&source, 0, 8, |put| {
        put.set_event_success_disable(true).set_event_ct_ack(true).set_ct(number);
    });
    for _ in 0..3 {
        assert_eq!(rig.eq.poll(), None);
        rig.tx.issue(&put);
        rig.flush();
    }
    rig.eq.expect(C_EVENT_TRIGGERED_OP, C_RC_OK);
    // Written back with the event, on request, and when the counts are set.
    wait_counts(&rig, pages, 3);
    let command = |opcode, choose: fn(&mut CtCmd)| {
        counter_command(opcode, |command| {
            command.set_ct(number);
            choose(command);
        })
    };
    let get = command(C_CMD_CT_GET, |_| {});
    trigger.issue(&get);
    wait_counts(&rig, pages, 3);
    trigger
        .issue(&command(C_CMD_CT_SET, |set| _ = set.put_ct_success(77).put_set_ct_success(true)));
    wait_counts(&rig, pages, 77);
    trigger.emit(&command(C_CMD_CT_INC, |increment| {
        _ = increment.put_ct_success(3).put_set_ct_success(true)
    }));
    trigger.issue(&get);
    wait_counts(&rig, pages, 80);
}

#[test]
fn executes_triggered_put_at_threshold() {
    alone!();
    let (mut rig, source, sink) = Rig::with_target();
    source.pages.fill(0x29);
    let mut trigger = trigger_queue(&rig);
    let counter = Counter::new(rig.lni);
    let mut command = counter_command(C_CMD_CT_TRIG_DMA, |command| {
        _ = command.set_cmd_size(2).set_trig_ct(counter.number).set_threshold(10)
    });
    command.resize(128, 0);
    let put = rig.dma_put(&source, 0, 8, |put| _ = put.set_remote_offset(64));
    command[24..24 + put.len()].copy_from_slice(&put);
    trigger.issue(&command);
    trigger.drain();
    counter.ring(0, 9);
    assert_eq!(rig.eq.poll(), None);
    assert!(sink.pages.is(0, PAGE, 0));
    counter.ring(0, 1);
    rig.eq.expect(C_EVENT_ACK, C_RC_OK);
    assert!(sink.pages.is(64, 8, 0x29) && sink.pages.is(72, 8, 0));
}

/// The return code of a command that stops its queue, as status and event have it.
fn refused(rig: &mut Rig, flags: u32, command: &[u8]) -> u32 {
    let mut queue = Queue::with(rig.dev, rig.lni, rig.eq.handle, |options| options.flags = flags);
    queue.write_and_ring(command);
    let status = queue.wait_error();
    let code = u32::from(status.return_code());
    let event = rig.eq.expect(C_EVENT_COMMAND_FAILURE, code);
    assert_eq!([event.0[4], status.fail_command()], [command[0]; 2]);
    code
}

#[test]
fn rejects_malformed_counter_commands() {
    alone!();
    let mut rig = Rig::new();
    let ours = Counter::new(rig.lni).number;
    let foreign = Counter::new(alloc_lni(rig.dev)).number;
    let about = |opcode, ct, trig_ct| {
        counter_command(opcode, |command| _ = command.set_ct(ct).set_trig_ct(trig_ct))
    };
    for opcode in C_CMD_CT_SET..=C_CMD_CT_TRIG_EVENT {
        if opcode == C_CMD_CT_TRIG_DMA {
            continue;
        }
        let command = about(opcode, ours, ours);
        for other_queue in [CXI_CQ_IS_TX, 0] {
            assert_eq!(refused(&mut rig, other_queue, &command), C_RC_ILLEGAL_OP);
        }
        let mut long = command.clone();
        long[0] = long[0] & !0xc | 2 << 2;
        long.resize(128, 0);
        assert_eq!(refused(&mut rig, TRIGGER, &long), C_RC_CMD_INVALID_ARG);
        // Counters that do not exist, or belong to another LNI.
        for other in [0, 2000, foreign] {
            if opcode != C_CMD_CT_TRIG_EVENT {
                let command = about(opcode, other, ours);
                assert_eq!(refused(&mut rig, TRIGGER, &command), C_RC_PERM_VIOLATION);
            }
            if opcode >= C_CMD_CT_TRIG_DMA {
                let command = about(opcode, ours, other);
                assert_eq!(refused(&mut rig, TRIGGER, &command), C_RC_PERM_VIOLATION);
            }
        }
    }
    for opcode in 9..16 {
        let command = about(opcode, ours, ours);
        assert_eq!(refused(&mut rig, TRIGGER, &command), C_RC_ILLEGAL_OP);
    }
    let theirs = EventQueue::new(rig.dev, alloc_lni(rig.dev), CXI_EQ_EC_DISABLE);
    for eq in [2000, theirs.number] {
        let command = trig_event(ours, eq, 1);
        assert_eq!(refused(&mut rig, TRIGGER, &command), C_RC_PERM_VIOLATION);
    }
}

#[test]
fn rejects_malformed_embedded_commands() {
    alone!();
    let mut rig = Rig::new();
    let counter = Counter::new(rig.lni);
    let outer = |embedded: u8| {
        let mut bytes = counter_command(C_CMD_CT_TRIG_DMA, |command| {
            _ = command.set_cmd_size(2).set_trig_ct(counter.number)
        });
        bytes.resize(128, 0);
        bytes[24] = embedded;
        bytes
    };
    for (embedded, code) in [
        (0x10, C_RC_ILLEGAL_OP),      // an immediate put
        (0x86, C_RC_ILLEGAL_OP),      // a counter command
        (0x17, C_RC_ILLEGAL_OP),      // a fence
        (0x61, C_RC_ILLEGAL_OP),      // Ethernet
        (0x11, C_RC_CMD_INVALID_ARG), // a put of 32 bytes
        (0x85, C_RC_CMD_INVALID_ARG), // a non-matching put of 64
        (0x45, C_RC_CMD_INVALID_ARG), // an atomic operation of 64
    ] {
        let found = refused(&mut rig, TRIGGER, &outer(embedded));
        assert_eq!(found, code, "{embedded:#x}");
    }
    let mut short = outer(0x15);
    short.truncate(64);
    short[0] = short[0] & !0xc | 1 << 2;
    assert_eq!(refused(&mut rig, TRIGGER, &short), C_RC_CMD_INVALID_ARG);
    // Trigger queues keep LCID 0.
    alloc_cp(rig.lni, 10);
    let lcid = cq(C_CMD_CQ_LCID, 1);
    assert_eq!(refused(&mut rig, TRIGGER, &lcid), C_RC_PERM_VIOLATION);
}

#[test]
fn rejects_list_entry_with_unowned_counter() {
    alone!();
    let mut rig = Rig::new();
    let portal = rig.portal(0, |_| {});
    let foreign = Counter::new(alloc_lni(rig.dev)).number;
    for number in [foreign, 2000] {
        for comm in [true, false] {
            let command = append(portal.number, |entry| {
                entry.set_ct(number).set_event_ct_comm(comm).set_event_ct_overflow(!comm);
            });
            assert_eq!(refused(&mut rig, 0, &command), C_RC_PERM_VIOLATION);
        }
    }
    // An entry that does not count may name any counter.
    let link = rig.append(portal, |entry| _ = entry.set_ct(2000));
    assert_eq!(link.kind(), C_EVENT_LINK);
}

/// The next queue with the number of a destroyed one gets none of its events.
#[test]
fn trigger_reports_nothing_to_successor_of_its_event_queue() {
    alone!();
    let rig = Rig::new();
    let mut trigger = trigger_queue(&rig);
    let counter = Counter::new(rig.lni);
    let first = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
    trigger.issue(&trig_event(counter.number, first.number, 1));
    trigger.drain();
    assert_eq!(call!(cxil_destroy_evtq(first.handle)), 0);
    let mut next = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
    assert_eq!(next.number, first.number);
    counter.ring(0, 1);
    assert_eq!(next.poll(), None);
    assert_eq!(next.poll(), None);
}
