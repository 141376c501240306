//! Tests of event queues in memory, without a NIC.

use std::sync::atomic::AtomicBool;

use cxi_sys::CXI_EQ_DROP_STATUS_DISABLE;

use super::*;

const LEN: usize = 4096;
const SLOTS: usize = LEN / SLOT;

#[derive(Default)]
struct Signal(AtomicBool);

impl Interrupt for Signal {
    fn signal(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Signal {
    /// Whether it was signaled since the last call.
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

struct Rig {
    memory: Arc<Pages>,
    software: Arc<Pages>,
    queue: EventQueue,
}

fn rig() -> Rig {
    let memory = Arc::new(Pages::anonymous(LEN).unwrap());
    let software = Arc::new(Pages::anonymous(LEN).unwrap());
    let buffer = memory.at(0, LEN).expose_provenance();
    // SAFETY: `memory` lives as long as the queue and is used for nothing else.
    let queue = unsafe { EventQueue::new(0, None, buffer, LEN, software.clone(), || (7, 9)) };
    Rig { memory, software, queue }
}

fn event<const N: usize>(mark: u8) -> [u8; N] {
    let mut event = [mark; N];
    event[14] = (N / 16).ilog2() as u8 + 1;
    event[N - 1] = 1;
    event
}

impl Rig {
    fn byte(&self, offset: usize) -> u8 {
        self.memory.word(offset & !7).load(Ordering::Relaxed).to_le_bytes()[offset % 8]
    }

    /// Zeroes all slots and acknowledges the slots before `read`, as software does.
    fn release(&self, read: u64) {
        for offset in (SLOT..LEN).step_by(8) {
            self.memory.word(offset).store(0, Ordering::Relaxed);
        }
        self.software.word(0).store(read, Ordering::Release);
    }
}

#[test]
fn packs_small_events_within_slots() {
    let mut rig = rig();
    assert!(rig.queue.post(&event::<16>(0xa1)));
    assert!(rig.queue.post(&event::<32>(0xb2)));
    assert!(rig.queue.post(&event::<32>(0xc3)));
    assert_eq!((rig.byte(64), rig.byte(80)), (0xa1, 0xb2));
    assert_eq!((rig.byte(112 + 14), rig.byte(112 + 15)), (0x7d, 0x01), "filler");
    assert_eq!(rig.byte(128), 0xc3);
}

#[test]
fn uses_all_slots_but_two() {
    let mut rig = rig();
    for mark in 0..SLOTS - 2 {
        assert!(rig.queue.post(&event::<64>(mark as u8 | 1)), "event {mark}");
    }
    assert!(!rig.queue.post(&event::<16>(1)));
    assert_eq!(rig.queue.counts.dropped, 1);
}

#[test]
fn reports_drops_in_status_block_until_acknowledged() {
    let mut rig = rig();
    while rig.queue.post(&event::<64>(1)) {}
    let flags = rig.byte(15);
    assert_eq!(flags & 0x11, 0x11, "unacknowledged, sequence 1");
    rig.queue.post(&event::<64>(1));
    assert_eq!(rig.byte(15) & 0x10, 0x10, "sequence unchanged until acknowledged");
    let mut state = EqSwState::new();
    state.set_rd_ptr(1).set_event_drop_seq_no(true);
    rig.software.word(0).store(u64::from_le_bytes(*state.bytes()), Ordering::Release);
    rig.queue.post(&event::<64>(1));
    assert_eq!(rig.byte(15) & 0x11, 0x01, "the next drop has the other sequence bit");
}

#[test]
fn writes_no_drop_status_when_disabled() {
    let mut rig = rig();
    rig.queue.configure(
        u64::from(CXI_EQ_EC_DISABLE | CXI_EQ_DROP_STATUS_DISABLE),
        0,
        Thresholds::default(),
    );
    while rig.queue.post(&event::<64>(1)) {}
    assert_eq!(rig.byte(15), 0);
}

#[test]
fn wraps_to_byte_64_when_acknowledged() {
    let mut rig = rig();
    for _ in 0..SLOTS - 2 {
        assert!(rig.queue.post(&event::<64>(7)));
    }
    rig.release(SLOTS as u64 - 1);
    assert!(rig.queue.post(&event::<64>(0x11)), "last slot");
    assert!(rig.queue.post(&event::<64>(0x22)), "first slot");
    assert_eq!((rig.byte(LEN - SLOT), rig.byte(SLOT)), (0x11, 0x22));
    assert_eq!(rig.byte(0), 0, "the status slot is no event");
}

#[test]
fn does_not_write_bytes_that_are_not_clear() {
    let mut rig = rig();
    rig.memory.word(64 + 56).store(5, Ordering::Relaxed);
    assert!(!rig.queue.post(&event::<64>(1)));
    assert_eq!(rig.byte(64), 0);
    assert!(rig.queue.post(&event::<32>(1)), "these bytes are clear");
}

#[test]
fn keeps_reserved_slots_from_received_messages() {
    let mut rig = rig();
    rig.queue.configure(0, SLOTS - 4, Thresholds::default());
    for _ in 0..2 {
        assert!(rig.queue.accepts(&[64]));
        assert!(rig.queue.post(&event::<64>(1)));
    }
    assert!(!rig.queue.accepts(&[64]));
    assert!(rig.queue.post(&event::<64>(1)), "not reserved against the NIC's own events");
}

#[test]
fn reports_rising_fill_levels() {
    let mut rig = rig();
    rig.queue.configure(0, 0, Thresholds { base: 90, delta: 40, count: 2 });
    let mut levels = vec![];
    for _ in 0..SLOTS - 2 {
        rig.queue.post(&event::<64>(1));
        let level = (rig.byte(14) & 1, rig.byte(14) >> 4 & 3);
        if levels.last() != Some(&level) {
            levels.push(level);
        }
    }
    assert_eq!(levels, [(0, 0), (1, 0), (1, 1)]);
}

#[test]
fn signals_once_for_each_event() {
    let mut rig = rig();
    let signal = Arc::new(Signal::default());
    rig.queue.set_interrupts([Some(signal.clone()), None]);
    assert!(!signal.take());
    assert!(rig.queue.post(&event::<64>(1)));
    assert!(signal.take());
    rig.queue.signal_if_due();
    assert!(!signal.take(), "the same event");
    // Software reads it, and disables interrupts.
    let mut state = EqSwState::new();
    state.set_rd_ptr(2).set_event_int_disable(true);
    rig.release(u64::from_le_bytes(*state.bytes()));
    rig.queue.signal_if_due();
    assert!(rig.queue.post(&event::<16>(1)));
    assert!(!signal.take(), "disabled");
    state.set_event_int_disable(false);
    let word = u64::from_le_bytes(*state.bytes());
    rig.software.word(0).store(word, Ordering::Release);
    rig.queue.signal_if_due();
    assert!(signal.take(), "enabled with an unread event");
}

#[test]
fn ignores_read_pointer_beyond_the_queue() {
    let mut rig = rig();
    rig.software.word(0).store(SLOTS as u64, Ordering::Release);
    for _ in 0..SLOTS - 2 {
        assert!(rig.queue.post(&event::<64>(1)));
    }
    assert!(!rig.queue.post(&event::<64>(1)));
}

#[test]
fn holds_events_until_slot_is_complete() {
    let mut rig = rig();
    let signal = Arc::new(Signal::default());
    rig.queue.set_interrupts([Some(signal.clone()), None]);
    rig.queue.configure(0, 0, Thresholds::default());
    assert!(rig.queue.post(&event::<32>(1)));
    assert!(rig.queue.post(&event::<16>(2)));
    assert!(!signal.take() && rig.byte(64) == 0);
    rig.queue.write_held();
    assert!(signal.take());
    assert_eq!((rig.byte(64), rig.byte(96)), (1, 2));
    assert_eq!((rig.byte(112 + 14), rig.byte(112 + 15)), (0x7d, 1), "NULL");
    rig.queue.write_held();
    assert!(!signal.take() && rig.byte(128) == 0, "nothing is held");
    // A full slot is written at once, as is one in which the next event has no place.
    assert!(rig.queue.post(&event::<64>(3)));
    assert!(signal.take() && rig.byte(128) == 3);
    assert!(rig.queue.post(&event::<16>(4)));
    assert!(rig.queue.post(&event::<64>(5)));
    assert!(signal.take() && rig.byte(192) == 4 && rig.byte(256) == 5);
}

#[test]
fn writes_held_events_before_move() {
    let mut rig = rig();
    rig.queue.configure(0, 0, Thresholds::default());
    assert!(rig.queue.post(&event::<16>(1)));
    let next = Pages::anonymous(LEN).unwrap();
    let buffer = next.at(0, LEN).expose_provenance();
    // SAFETY: both buffers live as long as the queue and are used for nothing else.
    assert!(unsafe { rig.queue.move_to(None, buffer, LEN) });
    assert_eq!((rig.byte(64), rig.byte(80 + 14)), (1, 0x79), "EQ_SWITCH");
    assert_eq!((rig.byte(96 + 14), rig.byte(127)), (0x7d, 1), "NULL");
    drop(rig);
}

#[test]
fn combining_queue_writes_clear_slots_only() {
    let mut rig = rig();
    rig.queue.configure(0, 0, Thresholds::default());
    rig.memory.word(64 + 56).store(5, Ordering::Relaxed);
    assert!(!rig.queue.post(&event::<16>(1)), "the slot is written as a whole");
    rig.memory.word(64 + 56).store(0, Ordering::Relaxed);
    assert!(rig.queue.post(&event::<16>(1)));
}
