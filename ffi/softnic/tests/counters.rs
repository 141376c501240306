//! Counters and trigger queues as a program without the wrapper meets them: refusals, limits, bytes
//! (nic.md 9, 3.12; libcxi.md 8.4).

mod driver;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::*;
use cxi_sys::*;
use driver::alone::alone;
use driver::commands::{append, target};
use driver::event_queue::EventQueue;
use driver::memory::{PAGE, Pages};
use driver::queue::Queue;
use driver::rig::{Rig, VNI, alloc_lni, open};
use driver::{call, wait_for};
use libc::{EBUSY, EFAULT, EINVAL, ENOSPC};

/// A counter as libcxi hands it out.
#[derive(Clone, Copy)]
struct Counter {
    handle: *mut cxi_ct,
    number: u16,
    doorbells: *mut u64,
}

fn alloc(lni: *mut cxil_lni, wb: *mut u8) -> Result<Counter, i32> {
    let mut handle = null_mut();
    match call!(cxil_alloc_ct(lni, wb.cast(), &mut handle)) {
        0 => {
            // SAFETY: just made.
            let public = unsafe { *handle };
            assert_eq!(public.wb.cast(), wb);
            Ok(Counter {
                handle,
                number: public.ctn as u16,
                doorbells: public.doorbell,
            })
        }
        errno => Err(-errno),
    }
}

impl Counter {
    /// Stores to the doorbell at byte `offset`.
    fn ring(&self, offset: usize, value: u64) {
        let word = self.doorbells.wrapping_byte_add(offset);
        // SAFETY: inside the doorbell page, aligned, alive with the counter.
        unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Release);
    }

    fn destroy(self) {
        assert_eq!(call!(cxil_destroy_ct(self.handle)), 0);
    }
}

/// A counter command of 64 bytes.
fn ct(opcode: u32, choose: impl FnOnce(&mut CtCmd)) -> Vec<u8> {
    let mut command = CtCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CT as u8)
        .set_cmd_size(1)
        .set_opcode(opcode as u8);
    choose(&mut command);
    let mut bytes = command.bytes().to_vec();
    bytes.resize(64, 0);
    bytes
}

fn trig_event(counter: Counter, eq: u16, threshold: u64) -> Vec<u8> {
    ct(C_CMD_CT_TRIG_EVENT, |command| {
        command
            .set_trig_ct(counter.number)
            .set_eq(eq)
            .set_threshold(threshold);
    })
}

fn trigger_queue(rig: &Rig) -> Queue {
    Queue::with(rig.dev, rig.lni, rig.eq.handle, |options| {
        options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
    })
}

#[test]
fn counters_that_cannot_be() {
    alone(|| {
        let rig = Rig::new();
        let pages = Pages::new(2 * PAGE);
        let at = |offset: usize| pages.base.wrapping_add(offset);
        for misplaced in 1..8 {
            assert_eq!(alloc(rig.lni, at(misplaced)).err(), Some(EINVAL));
        }
        assert_eq!(
            alloc(rig.lni, null_mut::<u8>().wrapping_add(64)).err(),
            Some(EFAULT)
        );
        static CONSTANT: [u64; 1] = [7];
        let constant = CONSTANT.as_ptr().cast_mut().cast();
        assert_eq!(alloc(rig.lni, constant).err(), Some(EFAULT));
        assert_eq!(alloc(null_mut(), null_mut()).err(), Some(EINVAL));
        let none = null_mut();
        assert_eq!(call!(cxil_alloc_ct(rig.lni, null_mut(), none)), -EINVAL);
        assert_eq!(call!(cxil_destroy_ct(null_mut())), -EINVAL);
        assert_eq!(call!(cxil_ct_wb_update(null_mut(), null_mut())), -EINVAL);
        let counter = alloc(rig.lni, at(8)).unwrap();
        assert_eq!(
            call!(cxil_ct_wb_update(counter.handle, at(4).cast())),
            -EINVAL
        );
        assert_eq!(
            call!(cxil_ct_wb_update(counter.handle, constant.cast())),
            -EFAULT
        );
    });
}

#[test]
fn numbers_and_limits() {
    alone(|| {
        let rig = Rig::new();
        let counters: Vec<Counter> = (0..2047)
            .map(|_| alloc(rig.lni, null_mut()).unwrap())
            .collect();
        let numbers = counters.iter().map(|counter| counter.number);
        assert!(numbers.eq(1..2048));
        assert_eq!(alloc(rig.lni, null_mut()).err(), Some(ENOSPC));
        counters[700].destroy();
        assert_eq!(alloc(rig.lni, null_mut()).unwrap().number, 701);
        // Another open of the device has numbers of its own, and a share in the same total.
        let other = open(0);
        let lni = alloc_lni(other);
        assert_eq!(alloc(lni, null_mut()).err(), Some(ENOSPC));
        counters[900].destroy();
        let counter = alloc(lni, null_mut()).unwrap();
        assert_eq!(counter.number, 1);
        assert_eq!(alloc(rig.lni, null_mut()).err(), Some(ENOSPC));
        // An LNI is held by its counters.
        assert_eq!(call!(cxil_destroy_lni(lni)), -EBUSY);
        counter.destroy();
        assert_eq!(call!(cxil_destroy_lni(lni)), 0);
        call!(cxil_close_device(other));
    });
}

/// LCID 0 for trigger queues, 1 and up for others, or any (libcxi.md 5).
#[test]
fn profiles_by_number() {
    alone(|| {
        let rig = Rig::new();
        let lni = alloc_lni(rig.dev);
        let alloc = |vni, cp_type| {
            let mut cp = null_mut();
            let function = driver::api().cxil_alloc_trig_cp.unwrap();
            let (tc, tc_type) = (CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT);
            // SAFETY: the tests keep the C contract.
            let code = unsafe { function(lni, vni, tc, tc_type, cp_type, &mut cp) };
            // SAFETY: just made.
            (code == 0).then(|| unsafe { (*cp).lcid }).ok_or(-code)
        };
        assert_eq!(alloc(VNI, NON_TRIG_LCID), Ok(1));
        assert_eq!(alloc(VNI, ANY_LCID), Ok(1), "shared");
        assert_eq!(alloc(VNI, TRIG_LCID), Ok(0), "not shared: it must be 0");
        assert_eq!(alloc(VNI, TRIG_LCID), Ok(0), "shared");
        assert_eq!(alloc(10, TRIG_LCID), Err(ENOSPC));
        assert_eq!(alloc(10, ANY_LCID), Ok(2));
        assert_eq!(alloc(VNI, 3), Err(EINVAL));
        assert_eq!(alloc(0, TRIG_LCID), Err(EINVAL));
    });
}

/// What a program does that knows of no hook: it stores to doorbells, and looks at its memory.
#[test]
fn doorbells_of_a_program_that_only_looks_at_its_memory() {
    alone(|| {
        let rig = Rig::new();
        let pages = Pages::new(PAGE);
        let word = pages.word(1024);
        let counter = alloc(rig.lni, pages.base.wrapping_add(1024)).unwrap();
        let wait = |counts: u64| {
            wait_for("the counts", || {
                (word.load(Ordering::Acquire) == 1 << 63 | counts).then_some(())
            });
            word.store(0, Ordering::Release);
        };
        counter.ring(0, 7);
        counter.ring(64, 1);
        wait(1 << 48 | 7);
        counter.ring(128, 0);
        wait(1 << 48);
        counter.ring(192, 0);
        wait(0);
        // Another word takes its place, and then none.
        let other = pages.word(8);
        let at = pages.base.wrapping_add(8).cast();
        assert_eq!(call!(cxil_ct_wb_update(counter.handle, at)), 0);
        // SAFETY: alive.
        assert_eq!(unsafe { (*counter.handle).wb }, at);
        counter.ring(64, 3);
        wait_for("the counts", || {
            (other.load(Ordering::Acquire) == 1 << 63 | 3 << 48).then_some(())
        });
        assert_eq!(call!(cxil_ct_wb_update(counter.handle, null_mut())), 0);
        other.store(0, Ordering::Release);
        counter.ring(64, 3);
        driver::progress(rig.dev);
        counter.destroy();
        assert_eq!(
            (word.load(Ordering::Acquire), other.load(Ordering::Acquire)),
            (0, 0)
        );
    });
}

#[test]
fn triggered_op_of_16_bytes() {
    alone(|| {
        let mut rig = Rig::new();
        let mut trigger = trigger_queue(&rig);
        let _first = alloc(rig.lni, null_mut()).unwrap();
        let counter = alloc(rig.lni, null_mut()).unwrap();
        trigger.emit(&trig_event(counter, rig.eq.number, 0x0102_0304_0506));
        trigger.ring();
        counter.ring(0, 0x0102_0304_0506);
        let event = rig.eq.wait();
        // Threshold, counter, header, return code (nic.md 6.2, Appendix B).
        assert_eq!(event.0, [6, 5, 4, 3, 2, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0x49, 1]);
    });
}

#[test]
fn long_triggered_ops_have_32_bytes_and_a_time() {
    alone(|| {
        let flags = CXI_EQ_EC_DISABLE | CXI_EQ_INIT_LONG | CXI_EQ_TIMESTAMP_EVENTS;
        let mut rig = Rig::with_queues(0, flags, CXI_EQ_EC_DISABLE);
        let mut trigger = trigger_queue(&rig);
        let counter = alloc(rig.lni, null_mut()).unwrap();
        trigger.emit(&trig_event(counter, rig.eq.number, 5));
        trigger.emit(&ct(C_CMD_CT_CANCEL, |command| {
            command.set_ct(counter.number);
        }));
        trigger.ring();
        let event = rig.eq.wait();
        let record = EventTrigOpLong::from_bytes(event.bytes());
        assert_eq!(event.kind(), C_EVENT_TRIGGERED_OP);
        assert_eq!(event.code(), C_RC_CANCELED);
        assert_eq!(
            (record.threshold(), record.ct_handle()),
            (5, counter.number)
        );
        assert!(record.timestamp_sec() > 1_600_000_000);
    });
}

/// A trigger without an event queue writes back, and that is all (nic.md 9.1).
#[test]
fn a_trigger_without_an_event_queue_writes_back() {
    alone(|| {
        let mut rig = Rig::new();
        let mut trigger = trigger_queue(&rig);
        let pages = Pages::new(PAGE);
        let counter = alloc(rig.lni, pages.base).unwrap();
        trigger.emit(&trig_event(counter, 0, 4));
        trigger.ring();
        trigger.drain();
        counter.ring(0, 3);
        driver::progress(rig.dev);
        assert_eq!(pages.word(0).load(Ordering::Acquire), 0);
        counter.ring(0, 1);
        wait_for("the counts", || {
            driver::progress(rig.dev);
            (pages.word(0).load(Ordering::Acquire) == 1 << 63 | 4).then_some(())
        });
        assert_eq!(rig.eq.poll(), None);
    });
}

/// The queue's error and the event that tells it.
fn refused(rig: &mut Rig, flags: u32, command: &[u8]) -> u32 {
    let mut queue = Queue::with(rig.dev, rig.lni, rig.eq.handle, |options| {
        options.flags = flags
    });
    queue.write(command);
    queue.ring();
    let status = queue.wait_error();
    let event = rig.eq.wait();
    assert_eq!(event.kind(), C_EVENT_COMMAND_FAILURE);
    assert_eq!(event.code(), u32::from(status.return_code()));
    assert_eq!(
        (event.0[4], status.fail_command()),
        (command[0], command[0])
    );
    event.code()
}

#[test]
fn malformed_counter_commands() {
    alone(|| {
        let mut rig = Rig::new();
        let counter = alloc(rig.lni, null_mut()).unwrap();
        let stranger = alloc(alloc_lni(rig.dev), null_mut()).unwrap();
        let trigger = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
        let about = |opcode, ct_: u16, trig_ct| {
            ct(opcode, |command| {
                command.set_ct(ct_).set_trig_ct(trig_ct);
            })
        };
        let ours = counter.number;
        for opcode in C_CMD_CT_SET..=C_CMD_CT_TRIG_EVENT {
            if opcode == C_CMD_CT_TRIG_DMA {
                continue;
            }
            // On a queue that is for other commands.
            let command = about(opcode, ours, ours);
            assert_eq!(refused(&mut rig, CXI_CQ_IS_TX, &command), C_RC_ILLEGAL_OP);
            assert_eq!(refused(&mut rig, 0, &command), C_RC_ILLEGAL_OP);
            // Of the wrong size.
            let mut long = command.clone();
            long[0] = long[0] & !0xc | 2 << 2;
            long.resize(128, 0);
            assert_eq!(refused(&mut rig, trigger, &long), C_RC_CMD_INVALID_ARG);
            // About counters that are not there, or somebody else's.
            let waits = opcode >= C_CMD_CT_TRIG_DMA;
            for other in [0, 2000, stranger.number] {
                let command = about(opcode, other, ours);
                if opcode != C_CMD_CT_TRIG_EVENT {
                    assert_eq!(refused(&mut rig, trigger, &command), C_RC_PERM_VIOLATION);
                }
                if waits {
                    let command = about(opcode, ours, other);
                    assert_eq!(refused(&mut rig, trigger, &command), C_RC_PERM_VIOLATION);
                }
            }
        }
        for opcode in 9..16 {
            let command = about(opcode, ours, ours);
            assert_eq!(refused(&mut rig, trigger, &command), C_RC_ILLEGAL_OP);
        }
        let elsewhere = trig_event(counter, 2000, 1);
        assert_eq!(refused(&mut rig, trigger, &elsewhere), C_RC_PERM_VIOLATION);
        let theirs = EventQueue::new(rig.dev, alloc_lni(rig.dev), CXI_EQ_EC_DISABLE);
        let elsewhere = trig_event(counter, theirs.number, 1);
        assert_eq!(refused(&mut rig, trigger, &elsewhere), C_RC_PERM_VIOLATION);
    });
}

/// TRIG_DMA with each kind of content that cannot be.
#[test]
fn malformed_embedded_commands() {
    alone(|| {
        let mut rig = Rig::new();
        let counter = alloc(rig.lni, null_mut()).unwrap();
        let trigger = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
        let outer = |embedded: u8| {
            let mut bytes = ct(C_CMD_CT_TRIG_DMA, |command| {
                command.set_cmd_size(2).set_trig_ct(counter.number);
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
            assert_eq!(
                refused(&mut rig, trigger, &outer(embedded)),
                code,
                "{embedded:#x}"
            );
        }
        let mut short = outer(0x15);
        short.truncate(64);
        short[0] = short[0] & !0xc | 1 << 2;
        assert_eq!(refused(&mut rig, trigger, &short), C_RC_CMD_INVALID_ARG);
        // Trigger queues stay with LCID 0, whatever other profiles there are.
        driver::rig::alloc_cp(rig.lni, 10);
        let lcid = driver::commands::cq(C_CMD_CQ_LCID, 1);
        assert_eq!(refused(&mut rig, trigger, &lcid), C_RC_PERM_VIOLATION);
    });
}

#[test]
fn list_entries_count_on_counters_of_their_own() {
    alone(|| {
        let mut rig = Rig::new();
        let portal = rig.portal(0, |_| {});
        let stranger = alloc(alloc_lni(rig.dev), null_mut()).unwrap();
        for number in [stranger.number, 2000] {
            let with = |comm, overflow| {
                append(portal.number, |entry| {
                    entry
                        .set_ct(number)
                        .set_event_ct_comm(comm)
                        .set_event_ct_overflow(overflow);
                })
            };
            for command in [with(true, false), with(false, true)] {
                assert_eq!(refused(&mut rig, 0, &command), C_RC_PERM_VIOLATION);
            }
        }
        // Named, and not used: no matter.
        rig.tgt
            .emit(&target(C_CMD_TGT_APPEND, portal.number, |entry| {
                entry.set_ct(2000);
            }));
        rig.tgt.ring();
        assert_eq!(rig.teq.wait().kind(), C_EVENT_LINK);
    });
}

/// What waits for a counter reports to an event queue; the next of its number is not meant.
#[test]
fn an_event_queue_that_goes_gets_nothing_afterwards() {
    alone(|| {
        let rig = Rig::new();
        let mut trigger = trigger_queue(&rig);
        let counter = alloc(rig.lni, null_mut()).unwrap();
        let short_lived = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
        trigger.emit(&trig_event(counter, short_lived.number, 1));
        trigger.ring();
        trigger.drain();
        assert_eq!(call!(cxil_destroy_evtq(short_lived.handle)), 0);
        let mut next = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
        assert_eq!(next.number, short_lived.number);
        counter.ring(0, 1);
        assert_eq!(next.poll(), None);
        assert_eq!(next.poll(), None);
    });
}
