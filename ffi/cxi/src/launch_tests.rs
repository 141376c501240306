//! The producer against a recording double and against a NIC written from nic.md 2.10.

use proptest::prelude::*;

use cxi_sys::C_CQ_FIRST_WR_PTR;
use cxi_sys::records::CqStatus;

use super::*;

/// What a producer did, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Bytes written to the ring, at a byte offset.
    Ring(usize, usize),
    BeforeLaunch,
    Store(Window, usize, u64),
    AfterLaunch,
}

/// Plain memory that notes what is done to it.
struct Recorder {
    memory: Vec<u8>,
    steps: Vec<Step>,
}

impl Bus for Recorder {
    fn status(&self) -> CqStatus {
        CqStatus::from_bytes(*self.memory.first_chunk().unwrap())
    }
    fn write_ring(&mut self, offset: usize, bytes: &[u8]) {
        self.memory[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.steps.push(Step::Ring(offset, bytes.len()));
    }
    fn read_ring(&self, offset: usize) -> u64 {
        u64::from_le_bytes(*self.memory[offset..].first_chunk().unwrap())
    }
    fn before_launch(&mut self) {
        self.steps.push(Step::BeforeLaunch);
    }
    fn store64(&mut self, window: Window, offset: usize, value: u64) {
        self.steps.push(Step::Store(window, offset, value));
    }
    fn after_launch(&mut self) {
        self.steps.push(Step::AfterLaunch);
    }
}

fn producer(slots: u32) -> Producer<Recorder> {
    let mut memory = vec![0xee; slots as usize * 64];
    let mut status = CqStatus::new();
    status.set_rd_ptr(C_CQ_FIRST_WR_PTR as u16);
    memory[..8].copy_from_slice(status.bytes());
    Producer {
        ring: Ring::new(slots),
        bus: Recorder {
            memory,
            steps: Vec::new(),
        },
        noop: CmdHeader::new(),
    }
}

/// A command of `halves` half-slots that carries `id` in each of its 8-byte words.
fn command(halves: u32, opcode: u8, id: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in 0..halves * 4 {
        bytes.extend(id.to_le_bytes());
        bytes.extend(word.to_le_bytes());
    }
    let mut header = CmdHeader::new();
    header.set_cmd_type(1);
    header.set_cmd_size(halves.ilog2() as u8);
    header.set_opcode(opcode);
    bytes[0] = header.bytes()[0];
    bytes
}

impl Producer<Recorder> {
    /// Emits into the queue itself, as a batch would do that is then committed.
    fn emit(&mut self, command: &[u8]) -> Result<(), EmitError> {
        let halves = command.len() as u32 / 32;
        let at = self.place(self.ring.wp, halves)?;
        self.write(at, 0, command);
        self.ring.wp = self.ring.advance(at, halves);
        Ok(())
    }

    fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.bus.steps)
    }

    /// What the NIC was told since the last time: windows with their first offset, and
    /// doorbell values.
    fn take_launches(&mut self) -> Vec<(Window, usize)> {
        let steps = self.take_steps();
        let starts = steps.iter().filter_map(|step| match *step {
            Step::Store(Window::Doorbell, 0, value) => Some((Window::Doorbell, value as usize)),
            Step::Store(window, offset, _) if offset % 64 == 0 => Some((window, offset)),
            _ => None,
        });
        starts.collect()
    }

    /// The NIC has fetched everything up to slot `slot`.
    fn fetched(&mut self, slot: u32) {
        self.bus.memory[..2].copy_from_slice(&(slot as u16).to_le_bytes());
    }
}

const PUT: u8 = 1;
const NOOP: u8 = 0;

/// The worked vectors of nic.md 2.8, in its order.
#[test]
fn worked_vectors_of_the_specification() {
    let mut producer = producer(64);

    producer.emit(&command(1, 10, 1)).unwrap();
    assert_eq!(producer.ring.wp, 9);
    producer.doorbell();
    assert_eq!(producer.ring.wp, 10);
    assert_eq!(producer.take_launches(), [(Window::Doorbell, 5)]);

    producer.emit(&command(2, PUT, 2)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 12);
    assert_eq!(producer.take_launches(), [(Window::Ll64, 320)]);

    producer.emit(&command(4, PUT, 3)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 16);
    let slots = [(Window::Ll128Aligned, 384), (Window::Ll128Aligned, 448)];
    assert_eq!(producer.take_launches(), slots);

    producer.emit(&command(2, PUT, 4)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 18);
    assert_eq!(producer.take_launches(), [(Window::Ll64, 512)]);

    producer.emit(&command(4, PUT, 5)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 24);
    let slots = [(Window::Ll128Unaligned, 640), (Window::Ll128Unaligned, 704)];
    assert_eq!(producer.take_launches(), slots);

    producer.emit(&command(8, PUT, 6)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 32);
    assert_eq!(producer.take_launches(), [(Window::Doorbell, 16)]);
}

#[test]
fn worked_vector_7_aligns_to_128_bytes() {
    let mut producer = producer(64);
    producer.emit(&command(2, PUT, 1)).unwrap();
    producer.doorbell();
    producer.take_steps();
    assert_eq!(producer.ring.wp, 10);
    // An LCID command and its NOOP travel as an aligned pair of 64 bytes each.
    let at = producer.place(10, 4).unwrap();
    assert_eq!(at, 12);
    let steps = producer.take_steps();
    assert_eq!(steps, [Step::Ring(320, 8), Step::Ring(352, 8)]);
    producer.ring.wp = producer.ring.advance(at, 4);
    producer.doorbell();
    assert_eq!(producer.take_launches(), [(Window::Doorbell, 8)]);
}

#[test]
fn worked_vector_8_wraps_after_the_padding() {
    let mut producer = producer(64);
    for id in 0..57 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
        producer.fetched(producer.ring.wp / 2);
    }
    producer.take_steps();
    assert_eq!(producer.ring.wp, 122);
    producer.emit(&command(8, PUT, 99)).unwrap();
    assert_eq!(producer.ring.wp, 16);
    producer.doorbell();
    assert_eq!(producer.take_launches(), [(Window::Doorbell, 8)]);
}

#[test]
fn a_doorbell_right_after_the_wrap_rings_slot_4() {
    let mut producer = producer(64);
    for id in 0..60 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
        producer.fetched(producer.ring.wp / 2);
    }
    assert_eq!(
        producer.take_launches().last(),
        Some(&(Window::Doorbell, 4))
    );
}

#[test]
fn doorbell_order_is_ring_fence_store_fence() {
    let mut producer = producer(64);
    producer.emit(&command(1, PUT, 1)).unwrap();
    producer.doorbell();
    let steps = [
        Step::Ring(256, 32),
        Step::Ring(288, 8),
        Step::BeforeLaunch,
        Step::Store(Window::Doorbell, 0, 5),
        Step::AfterLaunch,
    ];
    assert_eq!(producer.take_steps(), steps);
}

#[test]
fn low_latency_order_is_ring_fence_ascending_stores_fence() {
    let mut producer = producer(64);
    let bytes = command(4, PUT, 7);
    producer.emit(&bytes).unwrap();
    producer.low_latency();
    let stores = bytes.as_chunks::<8>().0.iter().zip((256..).step_by(8));
    let mut steps = vec![Step::Ring(256, 128), Step::BeforeLaunch];
    steps.extend(stores.map(|(word, offset)| {
        Step::Store(Window::Ll128Aligned, offset, u64::from_le_bytes(*word))
    }));
    steps.push(Step::AfterLaunch);
    assert_eq!(producer.take_steps(), steps);
}

#[test]
fn what_low_latency_leaves_goes_by_doorbell_after_its_fence() {
    let mut producer = producer(64);
    for id in 0..3 {
        producer.emit(&command(2, PUT, id)).unwrap();
    }
    producer.low_latency();
    let steps = producer.take_steps();
    let end = [
        Step::AfterLaunch,
        Step::BeforeLaunch,
        Step::Store(Window::Doorbell, 0, 7),
        Step::AfterLaunch,
    ];
    assert_eq!(steps[steps.len() - 4..], end);
}

#[test]
fn a_low_latency_commit_ends_at_the_end_of_the_ring() {
    let mut producer = producer(64);
    for id in 0..59 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
        producer.fetched(producer.ring.wp / 2);
    }
    producer.take_steps();
    assert_eq!(producer.ring.wp, 126);
    producer.emit(&command(2, PUT, 97)).unwrap();
    producer.emit(&command(2, PUT, 98)).unwrap();
    producer.low_latency();
    let launches = [(Window::Ll64, 63 % 16 * 64), (Window::Doorbell, 5)];
    assert_eq!(producer.take_launches(), launches);
}

#[test]
fn committing_nothing_stores_nothing() {
    let mut producer = producer(64);
    producer.doorbell();
    producer.low_latency();
    assert_eq!(producer.take_steps(), []);
}

/// The guard of nic.md 2.8: the NOOP is a command of its own, not padding.
#[test]
fn a_noop_before_a_single_slot_goes_by_doorbell() {
    let mut producer = producer(64);
    producer.emit(&command(2, PUT, 1)).unwrap();
    producer.doorbell();
    producer.take_steps();
    producer.emit(&command(2, NOOP, 2)).unwrap();
    producer.emit(&command(2, PUT, 3)).unwrap();
    producer.low_latency();
    assert_eq!(producer.take_launches(), [(Window::Doorbell, 7)]);
}

#[test]
fn padding_before_256_bytes_goes_by_doorbell() {
    let mut producer = producer(64);
    for id in 0..3 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
    }
    producer.take_steps();
    assert_eq!(producer.ring.wp, 14);
    producer.emit(&command(8, PUT, 9)).unwrap();
    producer.low_latency();
    assert_eq!(producer.take_launches(), [(Window::Doorbell, 12)]);
}

#[test]
fn a_full_queue_is_left_as_it_was() {
    let mut producer = producer(64);
    for id in 0..59 {
        producer.emit(&command(2, PUT, id)).unwrap();
    }
    let memory = producer.bus.memory.clone();
    producer.take_steps();
    for halves in [1, 2, 4, 8] {
        let refused = producer.emit(&command(halves, PUT, 99));
        assert_eq!(refused, Err(EmitError::QueueFull));
    }
    assert_eq!(producer.take_steps(), []);
    assert_eq!(producer.bus.memory, memory);
}

/// The other side, from nic.md 2.10: what a NIC makes of the stores, and which half-slots
/// are in use. It shares no arithmetic with the producer.
struct Nic {
    count: usize,
    rd: usize,
    wr: usize,
    /// Half-slots from the reader to the producer.
    used: Vec<bool>,
    /// First words of the commands executed.
    seen: Vec<Vec<u8>>,
}

impl Nic {
    fn new(count: usize) -> Self {
        Self {
            count,
            rd: 4,
            wr: 4,
            used: vec![false; 2 * count],
            seen: Vec::new(),
        }
    }

    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.count { 4 } else { slot + 1 }
    }

    fn next_half(&self, half: usize) -> usize {
        if half + 1 == 2 * self.count {
            8
        } else {
            half + 1
        }
    }

    /// Takes note of a command at the first free half-slot that is a multiple of its
    /// size, at or after `half`. `None`: less than a slot would stay free. Else the
    /// half-slot after it.
    fn occupy(&mut self, half: usize, halves: usize) -> Option<usize> {
        let mut taken = self.used.clone();
        let mut at = half;
        let mut left = None;
        while left != Some(0) {
            if left.is_none() && at.is_multiple_of(halves) {
                left = Some(halves);
            }
            if taken[at] {
                return None;
            }
            taken[at] = true;
            left = left.map(|left| left - 1);
            at = self.next_half(at);
        }
        let free = taken[8..].iter().filter(|&&used| !used).count();
        (free >= 2).then(|| {
            self.used = taken;
            at
        })
    }

    /// Obeys the launch-page stores among `steps`.
    fn observe(&mut self, steps: &[Step], memory: &[u8]) {
        let mut stores = steps.iter().filter_map(|step| match *step {
            Step::Store(window, offset, value) => Some((window, offset, value)),
            _ => None,
        });
        while let Some((window, offset, value)) = stores.next() {
            let slots = match window {
                Window::Doorbell => {
                    assert!((4..self.count as u64).contains(&value) && offset == 0);
                    self.wr = value as usize;
                    continue;
                }
                Window::Ll64 => 1,
                Window::Ll128Aligned => {
                    assert!(self.wr.is_multiple_of(2));
                    2
                }
                Window::Ll128Unaligned => {
                    assert!(!self.wr.is_multiple_of(2));
                    assert_eq!(memory[self.wr * 64] >> 4, 0, "skips a NOOP only");
                    self.wr = self.next(self.wr);
                    2
                }
            };
            let start = self.wr % 16 * 64;
            let mut copied = vec![(window, offset, value)];
            copied.extend(stores.by_ref().take(slots * 8 - 1));
            let from = self.wr * 64;
            let expected = memory[from..from + slots * 64].as_chunks::<8>().0.iter();
            let expected = expected
                .enumerate()
                .map(|(index, word)| (window, start + 8 * index, u64::from_le_bytes(*word)));
            assert_eq!(copied, expected.collect::<Vec<_>>());
            for _ in 0..slots {
                self.wr = self.next(self.wr);
            }
        }
    }

    /// Fetches up to `slots` slots, and reports how far it came.
    fn fetch(&mut self, slots: usize, memory: &mut [u8]) {
        let mut fetched = 0;
        while fetched < slots && self.rd != self.wr {
            let mut half = 2 * self.rd;
            let end = loop {
                let header = memory[half * 32];
                let halves = 1 << (header >> 2 & 3);
                if header >> 4 != 0 {
                    let bytes = &memory[half * 32..(half + halves) * 32];
                    self.seen.push(bytes.to_vec());
                }
                half += halves;
                if half.is_multiple_of(2) {
                    break half;
                }
            };
            while 2 * self.rd < end {
                self.used[2 * self.rd..2 * self.rd + 2].fill(false);
                self.rd += 1;
                fetched += 1;
            }
            if self.rd == self.count {
                self.rd = 4;
            }
        }
        memory[..2].copy_from_slice(&(self.rd as u16).to_le_bytes());
    }
}

#[derive(Clone, Debug)]
enum Action {
    /// A batch: commands by half-slots and opcode, then how it ends.
    Batch(Vec<(u32, u8)>, End),
    /// The NIC fetches that many slots.
    Fetch(usize),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Doorbell,
    LowLatency,
    Dropped,
}

fn action() -> impl Strategy<Value = Action> {
    let command = prop_oneof![
        Just((1u32, PUT)),
        Just((2, PUT)),
        Just((4, PUT)),
        Just((8, PUT)),
        Just((2, NOOP)),
    ];
    let end = prop_oneof![
        3 => Just(End::Doorbell),
        5 => Just(End::LowLatency),
        1 => Just(End::Dropped),
    ];
    prop_oneof![
        3 => (prop::collection::vec(command, 0..5), end)
            .prop_map(|(commands, end)| Action::Batch(commands, end)),
        1 => (0..40usize).prop_map(Action::Fetch),
    ]
}

proptest! {
    /// Every committed command is seen exactly once, in order and intact; the queue is
    /// full exactly when the model says so.
    #[test]
    fn the_nic_sees_what_was_committed(
        slots in prop_oneof![Just(64u32), Just(128)],
        actions in prop::collection::vec(action(), 1..200),
    ) {
        let mut producer = producer(slots);
        let mut nic = Nic::new(slots as usize);
        let mut half = 8;
        let mut id = 0;
        let mut sent = Vec::new();
        for action in actions {
            match action {
                Action::Batch(commands, end) => {
                    let (mut wp, mut batch_half) = (producer.ring.wp, half);
                    let used = nic.used.clone();
                    let mut batch = Vec::new();
                    for (halves, opcode) in commands {
                        id += 1;
                        let next = nic.occupy(batch_half, halves as usize);
                        match producer.place(wp, halves) {
                            Ok(at) => {
                                let bytes = command(halves, opcode, id);
                                producer.write(at, 0, &bytes);
                                wp = producer.ring.advance(at, halves);
                                if opcode != NOOP {
                                    batch.push(bytes);
                                }
                                prop_assert_eq!(Some(wp as usize), next);
                                batch_half = wp as usize;
                            }
                            Err(_) => prop_assert_eq!(next, None),
                        }
                    }
                    match end {
                        End::Dropped => {
                            nic.used = used;
                            continue;
                        }
                        End::Doorbell => {
                            producer.ring.wp = wp;
                            producer.doorbell();
                        }
                        End::LowLatency => {
                            producer.ring.wp = wp;
                            producer.low_latency();
                        }
                    }
                    sent.extend(batch);
                    if !batch_half.is_multiple_of(2) {
                        nic.used[batch_half] = true;
                        batch_half = nic.next_half(batch_half);
                    }
                    half = batch_half;
                    let steps = producer.take_steps();
                    nic.observe(&steps, &producer.bus.memory);
                    prop_assert_eq!(nic.wr, half / 2);
                }
                Action::Fetch(slots) => nic.fetch(slots, &mut producer.bus.memory),
            }
        }
        nic.fetch(usize::MAX, &mut producer.bus.memory);
        prop_assert_eq!(nic.seen, sent);
    }
}
