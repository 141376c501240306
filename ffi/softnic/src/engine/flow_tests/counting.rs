//! Counting of operations that are interrupted, and triggered commands without room on the wire.

use std::sync::Arc;

use cxi_sys::records::{CtCmd, FullDmaCmd};

use super::*;
use crate::engine::Engine;
use crate::engine::counter::{CountChange, Counting, CountingEvent};
use crate::engine::transactions::OpenTransaction;
use crate::engine::triggers::{Action, Trigger};

const ACK_OK: Option<(u32, u32, bool)> = Some((C_EVENT_ACK, C_RC_OK, false));

impl TestNode {
    /// Makes a counter of this node.
    fn counter(&mut self) -> usize {
        let counter = CountingEvent::new(self.lni, Arc::new(pages(PAGE)));
        self.engine.counters.insert(counter, 0, 512).unwrap()
    }

    fn counts(&mut self, ct: usize) -> (u64, u8) {
        let counter = self.engine.counters.get_mut(ct).unwrap();
        (counter.success, counter.failure)
    }

    fn add(&mut self, ct: usize, success: u64) {
        let change = CountChange::Add { success, failure: 0 };
        let Engine { counters, eqs, .. } = &mut self.engine;
        counters.change(ct, change, eqs);
    }

    /// Returns a put of `len` bytes to the start of the peer's memory, counted on `ct`.
    fn put(&self, len: u32, ct: usize) -> FullDmaCmd {
        let mut put = FullDmaCmd::new();
        put.set_cmd_type(C_CMD_TYPE_DMA as u8)
            .set_cmd_size(1)
            .set_opcode(C_CMD_PUT as u8)
            .set_event_send_disable(true)
            .set_event_ct_ack(true)
            .set_ct(ct as u16)
            .set_dfa(1 << 12 | u32::from(PID))
            .set_lac(self.lac)
            .set_local_addr(self.iova)
            .set_request_len(len)
            .set_eq(1);
        put
    }

    /// Issues a put that a counter triggers; the queue becomes a trigger queue.
    fn trigger(&mut self, ct: usize, threshold: u64, put: &FullDmaCmd) {
        self.engine.tx.get_mut(self.tx).unwrap().trigger = true;
        let mut command = CtCmd::new();
        command
            .set_cmd_type(C_CMD_TYPE_CT as u8)
            .set_cmd_size(2)
            .set_opcode(C_CMD_CT_TRIG_DMA as u8)
            .set_trig_ct(ct as u16)
            .set_threshold(threshold);
        let mut bytes = command.bytes().to_vec();
        bytes.extend_from_slice(put.bytes());
        bytes.resize(128, 0);
        self.issue(&bytes);
        while self.engine.poll() {}
    }
}

#[test]
fn counts_operations_to_dead_peer_as_failed() {
    let (mut initiator, mut target, net) = pair(LEN, 100);
    let ct = initiator.counter();
    let put = initiator.put(8, ct);
    initiator.issue(put.bytes());
    settle(&mut initiator, &mut target);
    assert_eq!(initiator.event(), ACK_OK);
    for _ in 0..3 {
        initiator.issue(put.bytes());
        initiator.engine.poll();
    }
    net.borrow_mut().dead[1] = true;
    initiator.engine.probe();
    assert_eq!(initiator.counts(ct), (1, 0), "the first look only marks");
    initiator.engine.probe();
    assert_eq!(initiator.counts(ct), (1, 3));
    for _ in 0..3 {
        let event = initiator.event();
        assert_eq!(event, Some((C_EVENT_ACK, C_RC_UNDELIVERABLE, false)));
    }
}

/// A counter is destroyed while a put is in progress: the put completes, and is not counted on the
/// next counter with that number.
#[test]
fn does_not_count_operation_on_next_counter_with_same_number() {
    let (mut initiator, mut target, _) = pair(LEN, 100);
    let old = initiator.counter();
    let put = initiator.put(LEN as u32, old);
    initiator.issue(put.bytes());
    initiator.engine.poll();
    initiator.engine.remove_counter(old);
    initiator.engine.counters.free_retired(initiator.lni);
    let next = initiator.counter();
    assert_eq!(next, old);
    settle(&mut initiator, &mut target);
    assert_eq!(initiator.event(), ACK_OK);
    assert_eq!(initiator.counts(next), (0, 0));
}

#[test]
fn triggered_commands_wait_for_room_in_order() {
    for room in [1, 2, 100] {
        let (mut initiator, mut target, _) = pair(LEN, room);
        initiator.number_words(LEN);
        let ct = initiator.counter();
        for step in 0..5 {
            let mut put = initiator.put(LEN as u32, ct);
            put.set_user_ptr(step);
            initiator.trigger(ct, 1, &put);
        }
        initiator.add(ct, 1);
        settle(&mut initiator, &mut target);
        for step in 0..5 {
            let user_ptr = initiator.events.word(initiator.read).load(Ordering::Acquire);
            assert_eq!(user_ptr, step, "room {room}");
            assert_eq!(initiator.event(), ACK_OK);
        }
        assert_eq!(initiator.event(), None);
        assert_eq!(initiator.counts(ct), (6, 0));
        assert!((0..LEN).step_by(8).all(|at| target.word(at) == initiator.word(at)));
    }
}

/// All transactions are in use when commands are triggered.
#[test]
fn triggered_commands_wait_for_free_transaction() {
    let (mut initiator, mut target, _) = pair(LEN, usize::MAX);
    let ct = initiator.counter();
    for user_ptr in 1..=3 {
        let mut put = initiator.put(0, ct);
        put.set_user_ptr(user_ptr);
        initiator.trigger(ct, 1, &put);
    }
    // These transactions never end by themselves.
    let fillers: Vec<u32> = std::iter::from_fn(|| {
        let transactions = &mut initiator.engine.transactions;
        let filler = OpenTransaction {
            peer: 1,
            queue: None,
            eq: 0,
            user_ptr: 0,
            event: C_EVENT_ACK,
            length: 0,
            destination: None,
            rendezvous: None,
            success_disable: true,
            counting: Counting::default(),
            local_error: None,
            probed: false,
        };
        (!transactions.is_full()).then(|| transactions.start(filler))
    })
    .collect();
    initiator.add(ct, 1);
    settle(&mut initiator, &mut target);
    assert_eq!(initiator.counts(ct), (1, 0));
    // One at a time and in order, however often the queue was polled meanwhile.
    initiator.engine.transactions.finish(fillers[0]);
    settle(&mut initiator, &mut target);
    assert_eq!(initiator.counts(ct), (4, 0));
    for user_ptr in 1..=3 {
        let seen = initiator.events.word(initiator.read).load(Ordering::Acquire);
        assert_eq!(seen, user_ptr);
        assert_eq!(initiator.event(), ACK_OK);
    }
}

/// Without the pools of a fabric, each LNI has the operations of its service.
#[test]
fn limits_triggered_operations_of_service() {
    let (mut node, _, _) = pair(PAGE, 1);
    let arm = |node: &mut TestNode, ct, threshold| {
        let action = Action::Event { eq: 0 };
        let Engine { counters, eqs, .. } = &mut node.engine;
        let trigger = Trigger { queue: None, threshold, action };
        counters.arm(ct, trigger, eqs)
    };
    let counters = [0, 1].map(|lni| {
        let counter = CountingEvent::new(lni, Arc::new(pages(PAGE)));
        node.engine.counters.insert(counter, 0, 512).unwrap()
    });
    for ct in counters {
        for threshold in 1..=512 {
            assert_eq!(arm(&mut node, ct, threshold), Ok(()));
        }
        assert_eq!(arm(&mut node, ct, 1), Err(C_RC_RESOURCE_BUSY));
    }
    assert_eq!(arm(&mut node, counters[1], 0), Ok(()), "it need not wait");
    node.add(counters[0], 1);
    assert_eq!(arm(&mut node, counters[0], 600), Ok(()));
    assert_eq!(arm(&mut node, counters[0], 600), Err(C_RC_RESOURCE_BUSY));
}
