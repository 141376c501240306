//! Operations on memory of a GPU, which is not in the address space of the CPU.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use cxi_sys::*;

use super::location::{MemoryKind, MemoryLocation};
use super::test_node::*;
use crate::gpu::Gpu;

const LEN: usize = 4 * PAGE;

/// The device address of the card's memory. No process maps memory at such a low address.
const START: usize = 0x100;

struct Card {
    bytes: Mutex<Vec<u8>>,
    broken: AtomicBool,
}

impl Card {
    fn new(len: usize) -> &'static Self {
        Box::leak(Box::new(Self {
            bytes: Mutex::new(vec![0; len]),
            broken: AtomicBool::new(false),
        }))
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.lock().unwrap();
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    fn set_word(&self, at: usize, value: u64) {
        let mut bytes = self.bytes.lock().unwrap();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn break_down(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}

impl Gpu for Card {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        let bytes = self.bytes.lock().unwrap();
        let bytes = &bytes[from - START..][..len];
        // SAFETY: the caller guarantees `len` writable bytes at `to`.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
        !self.broken.load(Ordering::Relaxed)
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        let mut bytes = self.bytes.lock().unwrap();
        let bytes = &mut bytes[to - START..][..len];
        // SAFETY: the caller guarantees `len` readable bytes at `from`.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
        !self.broken.load(Ordering::Relaxed)
    }
}

/// Replaces the memory of a node by memory of a card with the same content.
fn on_card(node: &mut TestNode) -> &'static Card {
    let card = Card::new(LEN);
    for at in (0..LEN).step_by(8) {
        card.set_word(at, node.word(at));
    }
    let lni = node.engine.lnis.get_mut(node.lni).unwrap();
    let location = MemoryLocation { va: START, memory: MemoryKind::Gpu(card) };
    lni.space.place(node.lac, node.iova, location, LEN);
    card
}

/// Returns a word of a node's memory.
fn word(node: &TestNode, card: Option<&Card>, at: usize) -> u64 {
    card.map_or_else(|| node.word(at), |card| card.word(at))
}

/// Calls `test` with each combination of memories.
fn pairs(mut test: impl FnMut(&mut TestNode, &mut TestNode, [Option<&Card>; 2])) {
    for (ours, theirs) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut initiator, mut target, _) = pair(LEN, 3);
        let ours = ours.then(|| on_card(&mut initiator));
        let theirs = theirs.then(|| on_card(&mut target));
        test(&mut initiator, &mut target, [ours, theirs]);
    }
}

#[test]
fn moves_data_between_all_memories() {
    // Some fit in the header of their packet; some need several packets.
    for len in [8, 16, 24, 2048, 2056, LEN / 2] {
        pairs(|initiator, target, [ours, theirs]| {
            initiator.get(0, len as u32);
            settle(initiator, target);
            assert_eq!(initiator.event(), Some((C_EVENT_REPLY, C_RC_OK, false)));
            for at in (0..LEN).step_by(8) {
                let sent = if at < len { word(target, theirs, at) } else { 0 };
                assert_eq!(word(initiator, ours, at), sent, "{len} {at}");
            }
            // From another part of the own memory, with other words.
            let from = LEN / 2;
            let value = |at: usize| at as u64 * 3 + 7;
            for at in (0..LEN / 2).step_by(8) {
                match ours {
                    Some(card) => card.set_word(from + at, value(at)),
                    None => {
                        let word = initiator.memory.word(from + at);
                        word.store(value(at), Ordering::Relaxed);
                    }
                }
            }
            let beyond = word(target, theirs, len);
            initiator.put_from(from as u64, len as u32);
            settle(initiator, target);
            assert_eq!(initiator.event(), Some((C_EVENT_ACK, C_RC_OK, false)));
            for at in (0..len).step_by(8) {
                assert_eq!(word(target, theirs, at), value(at), "{len} {at}");
            }
            assert_eq!(word(target, theirs, len), beyond);
        });
    }
}

#[test]
fn executes_atomics_in_all_memories() {
    pairs(|initiator, target, [ours, theirs]| {
        let before = word(target, theirs, 0);
        let next = word(target, theirs, 8);
        match ours {
            Some(card) => card.set_word(0, 5),
            None => initiator.memory.word(0).store(5, Ordering::Relaxed),
        }
        initiator.sum();
        settle(initiator, target);
        assert_eq!(initiator.event(), Some((C_EVENT_REPLY, C_RC_OK, false)));
        assert_eq!(word(initiator, ours, 8), before);
        assert_eq!(word(target, theirs, 0), before + 5);
        assert_eq!(word(target, theirs, 8), next);
    });
}

/// An access that the card refuses fails on the card's side.
#[test]
fn fails_operations_on_broken_card() {
    const CODE: u32 = C_RC_PCIE_UNSUCCESS_CMPL;
    type Issue = fn(&mut TestNode);
    for (issue, kind) in [
        ((|node| node.get(0, 4096)) as Issue, C_EVENT_REPLY),
        (|node| node.get(0, 8), C_EVENT_REPLY),
        (|node| node.put_from(0, 4096), C_EVENT_ACK),
        (|node| node.put_from(0, 8), C_EVENT_ACK),
        (TestNode::sum, C_EVENT_REPLY),
    ] {
        pairs(|initiator, target, cards| {
            let [ours, theirs] = cards;
            cards.into_iter().flatten().for_each(Card::break_down);
            issue(initiator);
            settle(initiator, target);
            let (seen, code, is_target) = initiator.event().expect("an event");
            match (ours, theirs) {
                (None, None) => assert_eq!((seen, code), (kind, C_RC_OK)),
                (None, Some(_)) => assert_eq!((seen, code, is_target), (kind, CODE, true)),
                (Some(_), None) => assert_eq!((seen, code, is_target), (kind, CODE, false)),
                (Some(_), Some(_)) => assert_eq!((seen, code), (kind, CODE)),
            }
            assert!(!initiator.engine.depends_on_others());
            assert!(!target.engine.depends_on_others());
        });
    }
}
