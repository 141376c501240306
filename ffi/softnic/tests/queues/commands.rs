//! C_STATE, the context of immediate data commands (nic.md 3.4), and random bytes as commands: the
//! NIC reports or executes them, and continues to work.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::driver::prelude::*;

#[test]
fn sets_queue_pointer_initiator_and_index() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target_with(37, &sink, |_| {});
    let (dfa, ext) = address(rig.nid, rig.pid, 37);
    assert_ne!(ext, 0);
    rig.tx.emit(&c_state(rig.eq.number, false, |c_state| {
        _ = c_state.set_index_ext(ext).set_initiator(0x1234_5678).set_user_ptr(42)
    }));
    let ack = rig.run(&idc_put(dfa, 0, b"payload"));
    assert_eq!((ack.code(), ack.0[0]), (C_RC_OK, 42));
    let event = EventTargetShort::from_bytes(rig.teq.wait().bytes());
    assert_eq!(event.initiator(), 0x1234_5678);
    assert_eq!((event.match_bits(), event.header_data()), (0, 0));
    // Restricted packets have no room for the initiator.
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| {
        _ = c_state.set_index_ext(ext).set_initiator(0x1234_5678)
    }));
    let ack = rig.run(&idc_put(dfa, 0, b"payload"));
    assert_eq!((ack.code(), ack.0[0]), (C_RC_OK, 0), "replaced as a whole");
    let event = EventTargetShort::from_bytes(rig.teq.wait().bytes());
    assert_eq!(event.initiator(), 0);
}

#[test]
fn lasts_until_next_c_state_for_immediate_commands() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let mut second = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
    let put = idc_put(rig.dfa(0), 0, &[1]);
    rig.tx.emit(&c_state(second.number, true, |c_state| _ = c_state.set_user_ptr(1)));
    for _ in 0..3 {
        rig.tx.issue(&put);
        assert_eq!(second.wait().0[0], 1);
    }
    // Other commands neither use it nor change it.
    let dma = rig.dma_put(&source, 0, 1, |put| _ = put.set_user_ptr(2));
    assert_eq!(rig.run(&dma).0[0], 2);
    rig.tx.emit(&cq(C_CMD_CQ_NOOP, 0));
    rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
    rig.tx.issue(&put);
    assert_eq!(second.wait().0[0], 1);
    // Each queue has its own context.
    let mut other = Queue::transmit(rig.dev, rig.lni, rig.lcid);
    other.emit(&c_state(rig.eq.number, true, |c_state| _ = c_state.set_user_ptr(3)));
    other.issue(&put);
    assert_eq!(rig.eq.wait().0[0], 3);
    rig.tx.issue(&put);
    assert_eq!(second.wait().0[0], 1);
}

#[test]
fn gates_success_events() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    rig.tx
        .emit(&c_state(rig.eq.number, true, |c_state| _ = c_state.set_event_success_disable(true)));
    rig.tx.emit(&idc_put(rig.dfa(0), 0, b"silent"));
    let failing = idc_put(rig.dfa(0), PAGE as u64, b"x");
    assert_eq!(rig.code(&failing), C_RC_NO_SPACE);
    assert_eq!(sink.pages.read(0, 6), b"silent");
    assert_eq!(rig.eq.poll(), None);
    // A SEND event must be enabled.
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| {
        _ = c_state.set_event_success_disable(true).set_event_send_disable(false)
    }));
    let sent = rig.run(&idc_put(rig.dfa(0), 0, b"x"));
    sent.is(C_EVENT_SEND, C_RC_OK);
}

/// `write_lac` is for results of fetching commands, and `ct` needs a counting flag.
#[test]
fn put_ignores_fields_of_other_commands() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| {
        c_state
            .set_write_lac(7)
            .set_ct(99)
            .set_event_ct_reply(true)
            .set_event_ct_bytes(true)
            .set_flush(true);
    }));
    assert_eq!(rig.code(&idc_put(rig.dfa(0), 0, b"x")), C_RC_OK);
}

#[test]
fn survives_change_of_profile() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    let cp = alloc_cp(rig.lni, 10);
    // SAFETY: libcxi has just returned the handle.
    let lcid = unsafe { (*cp).lcid };
    assert_ne!(lcid, rig.lcid);
    // The same PID on the other VNI, where no portal is.
    alloc_domain(rig.lni, 10, rig.pid);
    rig.tx.emit(&c_state(rig.eq.number, true, |c_state| _ = c_state.set_user_ptr(9)));
    for (lcid, code) in [(lcid, C_RC_PTLTE_NOT_FOUND), (rig.lcid, C_RC_OK)] {
        rig.tx.emit_lcid(lcid);
        let ack = rig.run(&idc_put(rig.dfa(0), 0, b"x"));
        assert_eq!((ack.code(), ack.0[0]), (code, 9));
    }
}

#[test]
fn encodes_vectors_of_specification() {
    alone!();
    let command = c_state(3, true, |c_state| {
        _ = c_state.set_event_success_disable(true).set_event_ct_ack(true).set_ct(5)
    });
    assert_eq!(command[..4], [0xa0, 0x20, 0x98, 0x04]);
    assert_eq!(command[28..], [5, 0, 3, 0]);
    let put = idc_put(0x0012_3004, 16, &[0; 8]);
    assert_eq!(put[..8], [0x10, 0x18, 0, 0, 0x04, 0x30, 0x12, 0]);
}

/// A random slot, mostly with a valid header so that fields are tested.
fn slot() -> impl Strategy<Value = [u8; 64]> {
    let opcodes = prop_oneof![
        Just((C_CMD_TYPE_IDC, 0..=1_u32)),
        Just((C_CMD_TYPE_IDC, 7..=7)),
        Just((C_CMD_TYPE_IDC, 10..=10)),
        Just((C_CMD_TYPE_DMA, 0..=9)),
        Just((C_CMD_TYPE_CT, 0..=8)),
        Just((C_CMD_TYPE_CQ, 0..=2)),
        Just((C_CMD_TYPE_CQ, 8..=12)),
    ];
    let header = (opcodes, 0..=3_u32).prop_flat_map(|((kind, opcodes), size)| {
        opcodes.prop_map(move |opcode| (kind | size << 2 | opcode << 4) as u8)
    });
    let bytes = prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 64);
    (prop::option::weighted(0.9, header), bytes).prop_map(|(header, bytes)| {
        let mut slot: [u8; 64] = bytes.try_into().unwrap();
        if let Some(header) = header {
            slot[0] = header;
        }
        slot
    })
}

/// A rig, and the buffers that check it.
struct Bench {
    rig: Rig,
    source: Buffer,
    sink: Buffer,
    checks: u8,
}

impl Bench {
    fn new() -> Self {
        let rig = Rig::new();
        let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
        Self { rig, source, sink, checks: 0 }
    }

    /// Checks that the NIC still executes puts.
    fn check(&mut self) {
        self.checks = self.checks.wrapping_add(1);
        self.source.pages.write(0, &[self.checks; 100]);
        let portal = self.rig.target(64, &self.sink);
        let put = self.rig.dma_put(&self.source, 0, 100, |put| _ = put.set_dfa(self.rig.dfa(64)));
        assert_eq!(self.rig.code(&put), C_RC_OK);
        assert!(self.sink.pages.is(0, 100, self.checks));
        portal.close();
    }
}

/// Runs the NIC until it has taken all commands of a queue or stopped it.
fn settle(rig: &Rig, queue: &Queue) {
    wait_for("an end", || {
        progress(rig.dev);
        let status = queue.status();
        let failed = u32::from(status.return_code()) != C_RC_OK;
        let empty = usize::from(status.rd_ptr()) == queue.wp / 2;
        (failed || empty).then_some(())
    });
}

/// Tries many values of `input`, and after each whether the NIC still works.
fn throw<S: Strategy>(input: S, case: impl Fn(&mut Rig, S::Value)) {
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let bench = RefCell::new(Bench::new());
    let outcome = TestRunner::new(config).run(&input, |value| {
        let mut bench = bench.borrow_mut();
        case(&mut bench.rig, value);
        bench.check();
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn survives_any_bytes_in_any_queue() {
    alone!();
    let slots = prop::collection::vec(slot(), 1..40);
    let flags =
        prop_oneof![Just(CXI_CQ_IS_TX), Just(CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS), Just(0),];
    throw((slots, flags, any::<bool>()), |rig, (slots, flags, low_latency)| {
        // A separate LNI, so that valid random commands disturb nothing else.
        let lni = alloc_lni(rig.dev);
        let cp = alloc_cp(lni, VNI);
        let mut queue = Queue::with(rig.dev, lni, null_mut(), |options| options.flags = flags);
        if flags == CXI_CQ_IS_TX {
            queue.emit(&c_state(0, false, |_| {}));
        }
        for slot in &slots {
            if queue.free() >= 2 {
                queue.write(slot);
            }
        }
        if low_latency {
            queue.ll_ring();
        } else {
            queue.ring();
        }
        settle(rig, &queue);
        assert_eq!(call!(cxil_destroy_cmdq(queue.handle)), 0);
        assert_eq!(call!(cxil_destroy_cp(cp)), 0);
        assert_eq!(call!(cxil_destroy_lni(lni)), 0);
    });
}

/// A counter command with random values, on one of three counters.
fn counter_command() -> impl Strategy<Value = Vec<u8>> {
    let numbers = (1..=8_u32, 1..=3_u16, 1..=3_u16, 0..=1_u16);
    let values = (0..=4_u64, 0..=3_u8, any::<[bool; 2]>(), 0..=8_u64);
    (numbers, values, slot()).prop_map(|((opcode, ct, trig_ct, eq), values, embedded)| {
        let (success, failure, [set_success, set_failure], threshold) = values;
        let is_dma = opcode == C_CMD_CT_TRIG_DMA;
        let mut command = CtCmd::new();
        command
            .set_cmd_type(C_CMD_TYPE_CT as u8)
            .set_cmd_size(if is_dma { 2 } else { 1 })
            .set_opcode(opcode as u8)
            .set_ct(ct)
            .set_trig_ct(trig_ct)
            .set_eq(eq)
            .put_ct_success(success)
            .put_ct_failure(failure)
            .put_set_ct_success(set_success)
            .put_set_ct_failure(set_failure)
            .set_threshold(threshold);
        let mut bytes = command.bytes().to_vec();
        bytes.extend_from_slice(&embedded);
        // Often a DMA command, or none would be accepted.
        bytes[24] = bytes[24] & 0xf0 | [1, 5, 9, bytes[24] & 15][usize::from(embedded[1] & 3)];
        bytes.resize(if is_dma { 128 } else { 64 }, 0);
        bytes
    })
}

/// Counters trigger each other and waiting operations.
#[test]
fn survives_any_counter_commands() {
    alone!();
    let commands = prop::collection::vec(counter_command(), 1..20);
    let doorbells = prop::collection::vec((0..3_usize, 0..4_usize, 0..5_u64), 0..10);
    throw((commands, doorbells), |rig, (commands, doorbells)| {
        let lni = alloc_lni(rig.dev);
        let cp = alloc_cp(lni, VNI);
        let events = EventQueue::new(rig.dev, lni, 0);
        let mut queue = Queue::with(rig.dev, lni, events.handle, |options| {
            options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS
        });
        let counters = [(); 3].map(|()| {
            let mut counter = null_mut();
            assert_eq!(call!(cxil_alloc_ct(lni, null_mut(), &mut counter)), 0);
            counter
        });
        for command in &commands {
            // Padding of trigger queues is one slot.
            if command.len() == 128 && !queue.wp.is_multiple_of(4) {
                let mut noop = [0; 64];
                noop[0] = 6;
                queue.write(&noop);
            }
            if queue.free() >= 4 {
                queue.write(command);
            }
        }
        queue.ring();
        settle(rig, &queue);
        for (counter, doorbell, value) in doorbells {
            // SAFETY: the handle was not destroyed yet.
            let page = unsafe { (*counters[counter]).doorbell };
            let word = page.wrapping_byte_add(64 * doorbell);
            // SAFETY: the word lies in the doorbell page, is aligned and lives as long as the
            // counter.
            let word = unsafe { AtomicU64::from_ptr(word) };
            word.store(value, Ordering::Release);
            progress(rig.dev);
        }
        for counter in counters {
            assert_eq!(call!(cxil_destroy_ct(counter)), 0);
        }
        assert_eq!(call!(cxil_destroy_cmdq(queue.handle)), 0);
        assert_eq!(call!(cxil_destroy_evtq(events.handle)), 0);
        events.buffer.unmap();
        assert_eq!(call!(cxil_destroy_cp(cp)), 0);
        assert_eq!(call!(cxil_destroy_lni(lni)), 0);
    });
}

#[test]
fn survives_any_stores_to_launch_page() {
    alone!();
    let stores = prop::collection::vec((0..512_usize, any::<u64>()), 1..100);
    throw(stores, |rig, stores| {
        let queue = Queue::transmit(rig.dev, rig.lni, rig.lcid);
        for (word, value) in stores {
            queue.store_launch(8 * word, value);
        }
        progress(rig.dev);
        assert_eq!(call!(cxil_destroy_cmdq(queue.handle)), 0);
    });
}

#[test]
fn survives_any_software_state() {
    alone!();
    throw(any::<u64>(), |rig, value| {
        let mut queue = EventQueue::new(rig.dev, rig.lni, 0);
        queue.state = EqSwState::from_bytes(value.to_le_bytes());
        queue.store_state();
        for _ in 0..300 {
            rig.tx.issue(&nomatch_put(|put| _ = put.set_eq(queue.number).set_dfa(rig.dfa(96))));
        }
        rig.tx.drain();
        assert_eq!(call!(cxil_destroy_evtq(queue.handle)), 0);
        queue.buffer.unmap();
    });
}
