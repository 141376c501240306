//! Operations that are interrupted while they are in progress.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cxi_sys::records::{CtCmd, FullDmaCmd};
use cxi_sys::*;

use super::portal::{Pte, PteOptions};
use super::test_node::*;
use crate::engine::Engine;
use crate::engine::counter::{CountChange, Counting, CountingEvent};
use crate::engine::transactions::OpenTransaction;
use crate::engine::triggers::{Action, Trigger};

const LEN: usize = 16 * PAGE;
const REPLY_OK: Option<(u32, u32, bool)> = Some((C_EVENT_REPLY, C_RC_OK, false));
const GET_OK: Option<(u32, u32, bool)> = Some((C_EVENT_GET, C_RC_OK, false));

#[test]
fn replies_wait_for_room_without_loss() {
    for room in [1, 2, 3, 100] {
        let (mut initiator, mut target, _) = pair(LEN, room);
        let half = LEN as u32 / 2;
        initiator.get(0, half - 3);
        initiator.get(u64::from(half), half);
        settle(&mut initiator, &mut target);
        for _ in 0..2 {
            assert_eq!(initiator.event(), REPLY_OK);
            assert_eq!(target.event(), GET_OK);
        }
        assert_eq!((initiator.event(), target.event()), (None, None));
        let last = LEN / 2 - 8;
        for at in (0..LEN / 2).step_by(8) {
            let mask = if at == last { u64::MAX >> 24 } else { u64::MAX };
            assert_eq!(initiator.word(at), target.word(at) & mask);
            assert_eq!(initiator.word(LEN / 2 + at), target.word(at));
        }
        assert!(!initiator.engine.depends_on_others());
        assert!(!target.engine.depends_on_others());
    }
}

#[test]
fn tries_one_of_many_replies_while_there_is_no_room() {
    let (mut initiator, mut target, net) = pair(LEN, 100);
    for _ in 0..20 {
        initiator.get(0, PAGE as u32);
    }
    initiator.engine.poll();
    net.borrow_mut().room = 0;
    target.engine.poll();
    assert_eq!(net.borrow().refused, 20, "each get as it arrives");
    for polls in 1..5 {
        assert!(!target.engine.poll());
        assert_eq!(net.borrow().refused, 20 + polls);
    }
    net.borrow_mut().room = 3;
    settle(&mut initiator, &mut target);
    for _ in 0..20 {
        assert_eq!((initiator.event(), target.event()), (REPLY_OK, GET_OK));
    }
}

/// Begins a get of all the memory: some packets were received, others were not sent.
fn half_done_get() -> (TestNode, TestNode, Rc<RefCell<Net>>) {
    let (mut initiator, mut target, net) = pair(LEN, 4);
    initiator.get(0, LEN as u32);
    for _ in 0..3 {
        initiator.engine.poll();
        target.engine.poll();
    }
    assert_ne!(initiator.word(PAGE), 0);
    assert_eq!(initiator.word(LEN - 8), 0);
    assert_eq!((initiator.event(), target.event()), (None, None));
    (initiator, target, net)
}

#[test]
fn get_fails_when_initiator_unmaps_memory() {
    let (mut initiator, mut target, _) = half_done_get();
    let (lni, lac, iova) = (initiator.lni, initiator.lac, initiator.iova);
    let lni = initiator.engine.lnis.get_mut(lni).unwrap();
    lni.space.unmap(lac, iova, LEN);
    settle(&mut initiator, &mut target);
    let code = C_RC_INVALID_AC; // it was the only mapping of its context
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, false)));
    assert_eq!(initiator.word(LEN - 8), 0);
    // The target has sent everything and reports success.
    assert_eq!(target.event(), GET_OK);
}

#[test]
fn get_fails_when_target_unmaps_memory() {
    let (mut initiator, mut target, _) = half_done_get();
    let (lni, lac, iova) = (target.lni, target.lac, target.iova);
    target.engine.lnis.get_mut(lni).unwrap().space.unmap(lac, iova, LEN);
    settle(&mut initiator, &mut target);
    let code = C_RC_INVALID_AC;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, true)));
    assert_eq!(target.event(), Some((C_EVENT_GET, code, false)));
}

#[test]
fn get_fails_when_portal_is_destroyed() {
    let (mut initiator, mut target, _) = half_done_get();
    target.engine.remove_pte(target.pte);
    // Another portal gets its number, and must not be affected.
    let another = Pte::new(target.lni, 1, PteOptions::default());
    assert_eq!(target.engine.ptes.insert_again(target.lni, another), Some(target.pte));
    settle(&mut initiator, &mut target);
    let code = C_RC_MST_CANCELLED;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, true)));
    assert_eq!(target.event(), None);
    assert!(!target.engine.depends_on_others());
}

/// The queue, the memory and the LNI of a get are destroyed, and others get the same numbers.
#[test]
fn late_data_is_not_written_to_next_lni_with_same_number() {
    let (mut initiator, mut target, _) = half_done_get();
    initiator.engine.remove_transmit_queue(initiator.tx);
    let (number, lac, iova) = (initiator.lni, initiator.lac, initiator.iova);
    let lni = initiator.engine.lnis.get_mut(number).unwrap();
    lni.space.unmap(lac, iova, LEN);
    initiator.engine.remove_lni(number);
    let memory = pages(LEN);
    let again = add_lni(&mut initiator.engine, &memory, LEN);
    assert_eq!(again, (number, lac, iova));
    settle(&mut initiator, &mut target);
    for at in (0..LEN).step_by(8) {
        assert_eq!(memory.word(at).load(Ordering::Relaxed), 0);
    }
    assert!(!initiator.engine.depends_on_others());
}

#[test]
fn get_fails_when_target_dies() {
    let (mut initiator, _target, net) = half_done_get();
    net.borrow_mut().dead[1] = true;
    // The first probe only marks.
    initiator.engine.probe();
    initiator.engine.probe();
    let code = C_RC_UNDELIVERABLE;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, false)));
    // Packets that it sent before have no effect.
    initiator.engine.poll();
    assert_eq!(initiator.event(), None);
    assert!(!initiator.engine.depends_on_others());
}

/// The peer answered one of two puts before it died.
#[test]
fn fails_operations_that_dead_peer_did_not_answer() {
    let (mut initiator, mut target, net) = pair(PAGE, 2);
    for _ in 0..2 {
        initiator.put_from(0, 8);
    }
    initiator.engine.poll();
    net.borrow_mut().inboxes[1].pop_back();
    target.engine.poll();
    net.borrow_mut().dead[1] = true;
    initiator.engine.probe();
    let depends = initiator.engine.depends_on_others();
    assert!(depends, "the first probe only marks");
    initiator.engine.probe();
    assert!(!initiator.engine.depends_on_others());
    for code in [C_RC_OK, C_RC_UNDELIVERABLE] {
        assert_eq!(initiator.event(), Some((C_EVENT_ACK, code, false)));
    }
    assert_eq!(initiator.event(), None);
}

#[test]
fn drops_reply_when_initiator_dies() {
    let (_initiator, mut target, net) = half_done_get();
    net.borrow_mut().dead[0] = true;
    assert!(target.engine.depends_on_others());
    target.engine.probe();
    assert!(!target.engine.depends_on_others());
    assert!(!target.engine.poll());
    assert_eq!(target.event(), None);
}

/// The queue of an operation that was not sent for lack of room is destroyed: the operation ends.
#[test]
fn destroying_queue_ends_unsent_operation() {
    let (mut initiator, mut target, net) = pair(PAGE, 0);
    initiator.get(0, 64);
    initiator.engine.poll();
    initiator.engine.remove_transmit_queue(initiator.tx);
    net.borrow_mut().room = 1;
    settle(&mut initiator, &mut target);
    let code = C_RC_SRC_ERROR;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, true)));
    assert_eq!((initiator.word(0), target.event()), (0, None));
    assert!(!initiator.engine.depends_on_others());
}

/// An atomic operation is executed once, even if its reply has to wait.
#[test]
fn atomic_replies_wait_for_room() {
    let (mut initiator, mut target, net) = pair(PAGE, 1);
    initiator.memory.word(0).store(5, Ordering::Relaxed);
    initiator.sum();
    initiator.engine.poll();
    net.borrow_mut().room = 0;
    let before = target.word(0);
    for _ in 0..3 {
        target.engine.poll();
    }
    assert_eq!(target.word(0), before + 5);
    assert_eq!((initiator.word(8), initiator.event()), (0, None));
    net.borrow_mut().room = 1;
    settle(&mut initiator, &mut target);
    assert_eq!(initiator.event(), REPLY_OK);
    assert_eq!((initiator.word(8), target.word(0)), (before, before + 5));
}

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

    /// A put of `len` bytes to the start of the peer's memory, counted on `ct`.
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
