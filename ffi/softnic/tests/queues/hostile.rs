//! Random bytes as commands: the NIC reports or executes them, and continues to work.

use crate::driver::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

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
