//! Operations that are interrupted while they are in progress.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use cxi_sys::*;

use super::portal::{Pte, PteOptions};
use super::test_node::*;

mod counting;

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
