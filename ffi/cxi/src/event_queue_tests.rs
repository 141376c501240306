//! Tests of the consumer with a recording double, and with a model of the NIC after nic.md 5.

use std::cell::RefCell;
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::steps::{self, Access};

/// A store or fence of a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Zero(usize),
    Fence,
    SwState(u64),
}

impl From<Step> for Access {
    fn from(step: Step) -> Self {
        match step {
            Step::Zero(offset) => Self::Zero(offset),
            Step::Fence => Self::BeforeAcknowledge,
            Step::SwState(value) => Self::SwState(value),
        }
    }
}

/// A double of an event queue: plain memory, and a record of the accesses.
struct Recorder {
    words: Vec<u64>,
    loads: RefCell<Vec<usize>>,
    steps: Vec<Step>,
}

impl Recorder {
    fn new(slots: usize) -> Self {
        Self { words: vec![0; slots * 8], loads: RefCell::new(Vec::new()), steps: Vec::new() }
    }

    fn put(&mut self, at: usize, event: &[u8]) {
        for (word, bytes) in self.words[at / 8..].iter_mut().zip(event.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
    }
}

impl EventMemory for Recorder {
    fn bytes(&self) -> usize {
        self.words.len() * 8
    }
    fn load(&self, offset: usize) -> u64 {
        self.loads.borrow_mut().push(offset);
        self.words[offset / 8]
    }
    fn zero(&mut self, offset: usize) {
        self.steps.push(Step::Zero(offset));
        self.words[offset / 8] = 0;
    }
    fn before_acknowledge(&mut self) {
        self.steps.push(Step::Fence);
    }
    fn store_sw_state(&mut self, value: u64) {
        self.steps.push(Step::SwState(value));
    }
}

/// An event of `length` bytes with `cookie` in its first word.
fn event(length: usize, event_type: u32, return_code: u8, cookie: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..8].copy_from_slice(&cookie.to_le_bytes());
    bytes[14] = (length.ilog2() - 3) as u8 | (event_type as u8) << 2;
    bytes[length - 1] |= return_code;
    bytes
}

fn consumer(slots: usize) -> Consumer<Recorder> {
    Consumer::new(Recorder::new(slots))
}

impl Consumer<Recorder> {
    /// Takes an event. Returns its length and cookie.
    fn take_cookie(&mut self) -> Option<(usize, u64)> {
        let event = self.take()?;
        Some((event.length, self.memory.words[event.at / 8]))
    }
}

#[test]
fn loads_only_poll_word_of_short_event() {
    let mut consumer = consumer(64);
    consumer.memory.put(64, &event(16, C_EVENT_ACK, 1, 7));
    assert_eq!(consumer.take_cookie(), Some((16, 7)));
    assert_eq!(*consumer.memory.loads.borrow(), [72]);
}

#[test]
fn takes_event_only_with_size_and_return_code() {
    for length in [16, 32, 64] {
        let whole = event(length, C_EVENT_PUT, 1, 7);
        let mut without_code = whole.clone();
        without_code[length - 1] = 0;
        let mut without_size = whole.clone();
        without_size[14] &= !3;
        let mut consumer = consumer(64);
        for partial in [without_code, without_size] {
            consumer.memory.put(64, &partial);
            assert!(consumer.take().is_none());
        }
        consumer.memory.put(64, &whole);
        assert_eq!(consumer.take().unwrap().length, length);
        assert!(consumer.take().is_none());
    }
}

#[test]
fn skips_complete_null_events() {
    let mut consumer = consumer(64);
    consumer.memory.put(64, &event(16, C_EVENT_NULL_EVENT, 0, 0));
    consumer.memory.put(80, &event(16, C_EVENT_ACK, 1, 7));
    assert!(consumer.take().is_none());
    consumer.memory.put(64, &event(16, C_EVENT_NULL_EVENT, 1, 0));
    assert_eq!(consumer.take_cookie(), Some((16, 7)));
}

#[test]
fn orders_acknowledgement_as_zeroes_fence_store() {
    let mut consumer = consumer(64);
    consumer.memory.put(64, &event(16, C_EVENT_ACK, 1, 7));
    consumer.take().unwrap();
    consumer.acknowledge();
    assert_eq!(
        consumer.memory.steps,
        [Step::Zero(64), Step::Zero(72), Step::Fence, Step::SwState(1)]
    );
    assert!(consumer.memory.words.iter().all(|&word| word == 0));
}

#[test]
fn stores_slot_1_when_unused_queue_is_acknowledged() {
    let mut consumer = consumer(64);
    consumer.acknowledge();
    consumer.acknowledge();
    let once = [Step::Fence, Step::SwState(1)];
    assert_eq!(consumer.memory.steps, [once, once].concat());
}

#[test]
fn zeroes_both_pieces_after_wrap() {
    let mut consumer = consumer(4);
    let long = event(64, C_EVENT_PUT, 1, 7);
    for at in [64, 128] {
        consumer.memory.put(at, &long);
        consumer.take().unwrap();
    }
    consumer.acknowledge();
    consumer.memory.put(192, &long);
    consumer.take().unwrap();
    consumer.memory.put(64, &event(16, C_EVENT_ACK, 1, 8));
    assert_eq!(consumer.take_cookie().unwrap().1, 8);
    consumer.memory.steps.clear();
    consumer.acknowledge();
    let zeroed: Vec<usize> = (192..256).chain(64..80).step_by(8).collect();
    let mut steps: Vec<Step> = zeroed.into_iter().map(Step::Zero).collect();
    steps.extend([Step::Fence, Step::SwState(1)]);
    assert_eq!(consumer.memory.steps, steps);
}

#[test]
fn releases_room_only_for_events_with_reserved_room() {
    let completes = |event_type, byte_12, code, failures_only| {
        let mut consumer = consumer(64);
        let mut bytes = event(16, event_type, 1, 0);
        bytes[12] = byte_12;
        bytes[15] = code;
        consumer.memory.put(64, &bytes);
        completes_operation(&consumer.take().unwrap(), failures_only)
    };
    const OK: u8 = C_RC_OK as u8;
    const FAILED: u8 = C_RC_CANCELED as u8;
    for (code, failures_only) in [(OK, false), (OK, true), (FAILED, false)] {
        assert!(completes(C_EVENT_ACK, 0, code, failures_only));
        assert!(completes(C_EVENT_SEND, 0, code, failures_only));
        assert!(completes(C_EVENT_REPLY, 0, code, failures_only));
        assert!(completes(C_EVENT_TRIGGERED_OP, 0, code, failures_only));
        // A rendezvous get, which the NIC issued.
        assert!(!completes(C_EVENT_REPLY, 1 << 4, code, failures_only));
        assert!(!completes(C_EVENT_PUT, 0, code, failures_only));
        assert!(!completes(C_EVENT_COMMAND_FAILURE, 0, code, failures_only));
    }
    // This failure may belong to an operation that reports failures only.
    for event_type in [C_EVENT_ACK, C_EVENT_SEND, C_EVENT_REPLY] {
        assert!(!completes(event_type, 0, FAILED, true));
    }
    assert!(completes(C_EVENT_TRIGGERED_OP, 0, FAILED, true));
}

#[cfg(target_arch = "aarch64")]
#[test]
fn emits_fence_instruction_before_acknowledgement() {
    use crate::fence::tests::has_store_fence;
    assert!(has_store_fence(MappedEvents::before_acknowledge));
}

/// A model of the NIC after nic.md 5: it packs events, does not straddle slots, and writes only
/// into zeroed bytes of slots that software returned.
struct Nic {
    at: usize,
    cookie: u64,
    sent: VecDeque<(usize, u64)>,
}

impl Nic {
    /// Writes one event, if the free slots have room for it.
    fn write(&mut self, memory: &mut Recorder, length: usize, close_slot: bool) {
        let released = memory.steps.iter().rev().find_map(|step| match step {
            Step::SwState(slot) => Some(*slot as usize),
            _ => None,
        });
        let released = released.unwrap_or(1);
        let end = memory.bytes();
        let next_slot = |at: usize| {
            if at / SLOT * SLOT + SLOT < end { at / SLOT + 1 } else { 1 }
        };
        let left = SLOT - self.at % SLOT;
        if left < length {
            if next_slot(self.at) == released {
                return;
            }
            self.fill(memory, left);
        }
        if self.at.is_multiple_of(SLOT) && next_slot(self.at) == released {
            return;
        }
        self.cookie += 1;
        self.sent.push_back((length, self.cookie));
        self.put(memory, &event(length, C_EVENT_PUT, 1, self.cookie));
        let left = self.at.wrapping_neg() % SLOT;
        if close_slot && next_slot(self.at) != released {
            self.fill(memory, left);
        }
    }

    fn fill(&mut self, memory: &mut Recorder, left: usize) {
        for length in [16, 32].into_iter().filter(|length| left & length != 0) {
            self.put(memory, &event(length, C_EVENT_NULL_EVENT, 1, 0));
        }
    }

    fn put(&mut self, memory: &mut Recorder, event: &[u8]) {
        let bytes = self.at / 8..(self.at + event.len()) / 8;
        assert!(memory.words[bytes].iter().all(|&word| word == 0));
        memory.put(self.at, event);
        self.at += event.len();
        if self.at == memory.bytes() {
            self.at = SLOT;
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Write { length: usize, close_slot: bool },
    Poll,
    Acknowledge,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (prop_oneof![Just(16), Just(32), Just(64)], any::<bool>())
            .prop_map(|(length, close_slot)| Action::Write { length, close_slot }),
        4 => Just(Action::Poll),
        1 => Just(Action::Acknowledge),
    ]
}

proptest! {
    /// The second opinion takes the same events, zeroes the same bytes and stores the same states.
    #[test]
    fn takes_every_event_once_in_order_and_whole(actions in prop::collection::vec(action(), 0..400)) {
        let mut consumer = consumer(6);
        let (mut second, mut compared) = (steps::Consumer::new(6), 0);
        let mut nic = Nic { at: SLOT, cookie: 0, sent: VecDeque::new() };
        for action in actions {
            match action {
                Action::Write { length, close_slot } => {
                    nic.write(&mut consumer.memory, length, close_slot);
                    second.write(&consumer.memory.words);
                }
                Action::Poll => {
                    let taken = consumer.take();
                    prop_assert_eq!(taken.as_ref().map(|event| event.at), second.poll());
                    let cookie = |event: EventHeader| (event.length, consumer.memory.words[event.at / 8]);
                    prop_assert_eq!(taken.map(cookie), nic.sent.pop_front());
                }
                Action::Acknowledge => {
                    consumer.acknowledge();
                    second.acknowledge();
                }
            }
            let steps = consumer.memory.steps[compared..].iter();
            second.compare(steps.map(|&step| step.into()), &consumer.memory.words)?;
            compared = consumer.memory.steps.len();
        }
    }

    #[test]
    fn stays_inside_queue_with_arbitrary_bytes(
        words in prop::collection::vec(any::<u64>(), 64),
        polls in 0..64usize,
    ) {
        let mut consumer = consumer(8);
        consumer.memory.words = words;
        for _ in 0..polls {
            let Some(header) = consumer.take() else { break };
            let words = &consumer.memory.words[header.at / 8..][..header.length / 8];
            let words: Vec<_> = words.iter().copied().map(AtomicU64::new).collect();
            let _ = format!("{:?}", Event::new(header, &words));
            let _ = completes_operation(&header, true);
            prop_assert!((SLOT..8 * SLOT).contains(&consumer.rd_offset));
            prop_assert_eq!(consumer.rd_offset % 16, 0);
        }
        consumer.acknowledge();
    }
}
