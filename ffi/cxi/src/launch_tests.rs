//! Tests of the producer with a recording double; and with random commands: with a model of the NIC
//! after nic.md 2.10, and with the second opinion on the accesses of a producer.

use cxi_sys::records::CqStatus;
use cxi_sys::{C_CQ_FIRST_WR_PTR, C_RC_OK};
use proptest::prelude::*;

use super::*;
use crate::steps::{self, Access};

/// An access of a producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Byte offset and length of a write to the ring.
    Ring(usize, usize),
    BeforeLaunch,
    Store(LaunchWindow, usize, u64),
    AfterLaunch,
}

/// A double of a command queue: plain memory, and a record of the accesses.
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
        if !bytes.is_empty() {
            self.steps.push(Step::Ring(offset, bytes.len()));
        }
    }
    fn write_ring_words<const WORDS: usize>(&mut self, offset: usize, words: &[u64; WORDS]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.write_ring(offset, &bytes);
    }
    fn read_ring(&self, offset: usize) -> u64 {
        u64::from_le_bytes(*self.memory[offset..].first_chunk().unwrap())
    }
    fn before_launch(&mut self) {
        self.steps.push(Step::BeforeLaunch);
    }
    fn store64(&mut self, window: LaunchWindow, offset: usize, value: u64) {
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
    status.set_return_code(C_RC_OK as u8);
    memory[..8].copy_from_slice(status.bytes());
    Producer {
        ring: Ring::new(slots),
        bus: Recorder { memory, steps: Vec::new() },
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

/// A command as words in the order of memory.
fn words<const WORDS: usize>(bytes: &[u8]) -> [u64; WORDS] {
    let (chunks, _) = bytes.as_chunks();
    std::array::from_fn(|index| u64::from_ne_bytes(chunks[index]))
}

impl Producer<Recorder> {
    /// Emits a command as a batch of one command.
    fn emit(&mut self, command: &[u8]) -> Result<(), EmitError> {
        let halves = command.len() as u32 / 32;
        self.ring.wp = self.write_command(self.ring.wp, halves, command, &[])?;
        Ok(())
    }

    /// Issues a command of `halves` half-slots that carries `id`, made as by [`command`].
    fn issue_of(&mut self, halves: u32, id: u32, low_latency: bool) -> Result<(), EmitError> {
        let bytes = command(halves, PUT, id);
        match halves {
            1 => self.issue(&words::<4>(&bytes), low_latency),
            2 => self.issue(&words::<8>(&bytes), low_latency),
            4 => self.issue(&words::<16>(&bytes), low_latency),
            _ => self.issue(&words::<32>(&bytes), low_latency),
        }
    }

    fn take_steps(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.bus.steps)
    }

    /// The launches since the last call: windows with the offset of each slot, and doorbells with
    /// their value.
    fn take_launches(&mut self) -> Vec<(LaunchWindow, usize)> {
        let steps = self.take_steps();
        let starts = steps.iter().filter_map(|step| match *step {
            Step::Store(LaunchWindow::Doorbell, 0, value) => {
                Some((LaunchWindow::Doorbell, value as usize))
            }
            Step::Store(window, offset, _) if offset % 64 == 0 => Some((window, offset)),
            _ => None,
        });
        starts.collect()
    }

    /// Sets the read pointer of the NIC.
    fn set_read_pointer(&mut self, slot: u32) {
        self.bus.memory[..2].copy_from_slice(&(slot as u16).to_le_bytes());
    }
}

const PUT: u8 = 1;
const NOOP: u8 = 0;

/// The worked vectors 1 to 6 of nic.md 2.8.
#[test]
fn launches_worked_vectors_1_to_6() {
    let mut producer = producer(64);

    producer.emit(&command(1, 10, 1)).unwrap();
    assert_eq!(producer.ring.wp, 9);
    producer.doorbell();
    assert_eq!(producer.ring.wp, 10);
    assert_eq!(producer.take_launches(), [(LaunchWindow::Doorbell, 5)]);

    producer.emit(&command(2, PUT, 2)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 12);
    assert_eq!(producer.take_launches(), [(LaunchWindow::Ll64, 320)]);

    producer.emit(&command(4, PUT, 3)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 16);
    let slots = [(LaunchWindow::Ll128Aligned, 384), (LaunchWindow::Ll128Aligned, 448)];
    assert_eq!(producer.take_launches(), slots);

    producer.emit(&command(2, PUT, 4)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 18);
    assert_eq!(producer.take_launches(), [(LaunchWindow::Ll64, 512)]);

    producer.emit(&command(4, PUT, 5)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 24);
    let slots = [(LaunchWindow::Ll128Unaligned, 640), (LaunchWindow::Ll128Unaligned, 704)];
    assert_eq!(producer.take_launches(), slots);

    producer.emit(&command(8, PUT, 6)).unwrap();
    producer.low_latency();
    assert_eq!(producer.ring.wp, 32);
    assert_eq!(producer.take_launches(), [(LaunchWindow::Doorbell, 16)]);
}

#[test]
fn worked_vector_7_aligns_pair_to_128_bytes() {
    let mut producer = producer(64);
    producer.emit(&command(2, PUT, 1)).unwrap();
    producer.doorbell();
    producer.take_steps();
    assert_eq!(producer.ring.wp, 10);
    // An LCID command and its NOOP form an aligned pair of 64 bytes each.
    let (lcid, noop) = (command(2, PUT, 2), command(2, NOOP, 3));
    producer.ring.wp = producer.write_command(10, 4, &lcid, &noop).unwrap();
    let padding = [Step::Ring(320, 8), Step::Ring(352, 8)];
    let pair = [Step::Ring(384, 64), Step::Ring(448, 64)];
    assert_eq!(producer.take_steps(), [padding, pair].concat());
    producer.doorbell();
    assert_eq!(producer.take_launches(), [(LaunchWindow::Doorbell, 8)]);
}

#[test]
fn worked_vector_8_wraps_after_padding() {
    let mut producer = producer(64);
    for id in 0..57 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
        producer.set_read_pointer(producer.ring.wp / 2);
    }
    producer.take_steps();
    assert_eq!(producer.ring.wp, 122);
    producer.emit(&command(8, PUT, 99)).unwrap();
    assert_eq!(producer.ring.wp, 16);
    producer.doorbell();
    assert_eq!(producer.take_launches(), [(LaunchWindow::Doorbell, 8)]);
}

#[test]
fn stores_slot_4_in_doorbell_after_wrap() {
    let mut producer = producer(64);
    for id in 0..60 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
        producer.set_read_pointer(producer.ring.wp / 2);
    }
    assert_eq!(producer.take_launches().last(), Some(&(LaunchWindow::Doorbell, 4)));
}

#[test]
fn orders_doorbell_as_ring_fence_store_fence() {
    let mut producer = producer(64);
    producer.emit(&command(1, PUT, 1)).unwrap();
    producer.doorbell();
    let steps = [
        Step::Ring(256, 32),
        Step::Ring(288, 8),
        Step::BeforeLaunch,
        Step::Store(LaunchWindow::Doorbell, 0, 5),
        Step::AfterLaunch,
    ];
    assert_eq!(producer.take_steps(), steps);
}

#[test]
fn orders_low_latency_as_ring_fence_ascending_stores_fence() {
    let mut producer = producer(64);
    let bytes = command(4, PUT, 7);
    producer.emit(&bytes).unwrap();
    producer.low_latency();
    let stores = bytes.as_chunks::<8>().0.iter().zip((256..).step_by(8));
    let mut steps = vec![Step::Ring(256, 128), Step::BeforeLaunch];
    steps.extend(stores.map(|(word, offset)| {
        Step::Store(LaunchWindow::Ll128Aligned, offset, u64::from_le_bytes(*word))
    }));
    steps.push(Step::AfterLaunch);
    assert_eq!(producer.take_steps(), steps);
}

#[test]
fn sends_rest_of_low_latency_commit_by_doorbell() {
    let mut producer = producer(64);
    for id in 0..3 {
        producer.emit(&command(2, PUT, id)).unwrap();
    }
    producer.low_latency();
    let steps = producer.take_steps();
    let end = [
        Step::AfterLaunch,
        Step::BeforeLaunch,
        Step::Store(LaunchWindow::Doorbell, 0, 7),
        Step::AfterLaunch,
    ];
    assert_eq!(steps[steps.len() - 4..], end);
}

#[test]
fn ends_low_latency_launch_at_end_of_ring() {
    let mut producer = producer(64);
    for id in 0..59 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
        producer.set_read_pointer(producer.ring.wp / 2);
    }
    producer.take_steps();
    assert_eq!(producer.ring.wp, 126);
    producer.emit(&command(2, PUT, 97)).unwrap();
    producer.emit(&command(2, PUT, 98)).unwrap();
    producer.low_latency();
    let launches = [(LaunchWindow::Ll64, 63 % 16 * 64), (LaunchWindow::Doorbell, 5)];
    assert_eq!(producer.take_launches(), launches);
}

#[test]
fn stores_nothing_for_empty_commit() {
    let mut producer = producer(64);
    producer.doorbell();
    producer.low_latency();
    assert_eq!(producer.take_steps(), []);
}

/// The guard of nic.md 2.8: here the NOOP is a command, not padding.
#[test]
fn sends_noop_before_single_slot_by_doorbell() {
    let mut producer = producer(64);
    producer.emit(&command(2, PUT, 1)).unwrap();
    producer.doorbell();
    producer.take_steps();
    producer.emit(&command(2, NOOP, 2)).unwrap();
    producer.emit(&command(2, PUT, 3)).unwrap();
    producer.low_latency();
    assert_eq!(producer.take_launches(), [(LaunchWindow::Doorbell, 7)]);
}

#[test]
fn sends_padded_256_byte_command_by_doorbell() {
    let mut producer = producer(64);
    for id in 0..3 {
        producer.emit(&command(2, PUT, id)).unwrap();
        producer.doorbell();
    }
    producer.take_steps();
    assert_eq!(producer.ring.wp, 14);
    producer.emit(&command(8, PUT, 9)).unwrap();
    producer.low_latency();
    assert_eq!(producer.take_launches(), [(LaunchWindow::Doorbell, 12)]);
}

#[test]
fn leaves_full_queue_unchanged() {
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

/// Issuing at once has the effect of writing a command and handing it over, at every position, but
/// does not read the ring.
#[test]
fn issues_as_written_and_handed_over() {
    for halves in [1, 2, 4, 8] {
        for low_latency in [false, true] {
            let (mut fast, mut slow) = (producer(64), producer(64));
            for id in 0..200 {
                fast.issue_of(halves, id, low_latency).unwrap();
                slow.emit(&command(halves, PUT, id)).unwrap();
                if low_latency {
                    slow.low_latency();
                } else {
                    slow.doorbell();
                }
                let launches = fast.take_launches();
                assert_eq!(launches, slow.take_launches(), "{halves} {id}");
                assert_eq!(fast.ring.wp, slow.ring.wp);
                for producer in [&mut fast, &mut slow] {
                    producer.set_read_pointer(producer.ring.wp / 2);
                }
                assert_eq!(fast.bus.memory, slow.bus.memory);
            }
        }
    }
}

#[test]
fn orders_issue_as_ring_fence_ascending_stores_fence() {
    let mut producer = producer(64);
    producer.issue_of(1, 7, true).unwrap();
    let mut stored = words::<4>(&command(1, PUT, 7)).map(u64::from_le).to_vec();
    stored.extend([0; 4]);
    let stores = stored.into_iter().zip((256..).step_by(8));
    let mut steps = vec![Step::Ring(256, 32), Step::Ring(288, 8), Step::BeforeLaunch];
    steps.extend(stores.map(|(word, offset)| Step::Store(LaunchWindow::Ll64, offset, word)));
    steps.push(Step::AfterLaunch);
    assert_eq!(producer.take_steps(), steps);

    producer.issue_of(2, 8, false).unwrap();
    let steps = [
        Step::Ring(320, 64),
        Step::BeforeLaunch,
        Step::Store(LaunchWindow::Doorbell, 0, 6),
        Step::AfterLaunch,
    ];
    assert_eq!(producer.take_steps(), steps);
}

impl From<Step> for Access {
    fn from(step: Step) -> Self {
        match step {
            Step::Ring(..) => Self::Ring,
            Step::BeforeLaunch => Self::BeforeLaunch,
            Step::Store(window, offset, value) => {
                let start = match window {
                    LaunchWindow::Doorbell => 0,
                    LaunchWindow::Ll64 => 1024,
                    LaunchWindow::Ll128Aligned => 2048,
                    LaunchWindow::Ll128Unaligned => 3072,
                };
                let offset = start + offset;
                Self::Store { offset, value }
            }
            Step::AfterLaunch => Self::AfterLaunch,
        }
    }
}

/// A model of the NIC after nic.md 2.10: it interprets the stores and tracks the half-slots in use.
/// It shares no arithmetic with the producer.
struct Nic {
    count: usize,
    rd: usize,
    wr: usize,
    /// Half-slots between the read pointer and the producer.
    used: Vec<bool>,
    /// The commands executed.
    seen: Vec<Vec<u8>>,
}

impl Nic {
    fn new(count: usize) -> Self {
        Self { count, rd: 4, wr: 4, used: vec![false; 2 * count], seen: Vec::new() }
    }

    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.count { 4 } else { slot + 1 }
    }

    fn next_half(&self, half: usize) -> usize {
        if half + 1 == 2 * self.count { 8 } else { half + 1 }
    }

    /// Marks a command as in use, at the first multiple of its size at or after `half`. Returns the
    /// half-slot after it, or `None` if less than one slot would remain free.
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

    /// Executes the launch-page stores in `steps`.
    fn observe(&mut self, steps: &[Step], memory: &[u8]) {
        let mut stores = steps.iter().filter_map(|step| match *step {
            Step::Store(window, offset, value) => Some((window, offset, value)),
            _ => None,
        });
        while let Some((window, offset, value)) = stores.next() {
            let slots = match window {
                LaunchWindow::Doorbell => {
                    assert!((4..self.count as u64).contains(&value) && offset == 0);
                    self.wr = value as usize;
                    continue;
                }
                LaunchWindow::Ll64 => 1,
                LaunchWindow::Ll128Aligned => {
                    assert!(self.wr.is_multiple_of(2));
                    2
                }
                LaunchWindow::Ll128Unaligned => {
                    assert!(!self.wr.is_multiple_of(2));
                    assert_eq!(memory[self.wr * 64] >> 4, 0, "only a NOOP is skipped");
                    self.wr = self.next(self.wr);
                    2
                }
            };
            let start = self.wr % 16 * 64;
            let mut copied = vec![(window, offset, value)];
            copied.extend(stores.by_ref().take(slots * 8 - 1));
            let from = self.wr * 64;
            let (in_ring, _) = memory[from..from + slots * 64].as_chunks::<8>();
            for (index, (store, word)) in copied.iter().zip(in_ring).enumerate() {
                // The NIC reads only the first word of a NOOP that fills a slot (nic.md 2.6).
                let fills_slot = memory[from] >> 2 & 3 == 0 && in_ring[4] == [0; 8];
                let value = if fills_slot && (5..8).contains(&index) {
                    store.2
                } else {
                    u64::from_le_bytes(*word)
                };
                assert_eq!(*store, (window, start + 8 * index, value));
            }
            assert_eq!(copied.len(), slots * 8);
            for _ in 0..slots {
                self.wr = self.next(self.wr);
            }
        }
    }

    /// Fetches up to `slots` slots and stores the read pointer.
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
    /// A batch: half-slots and opcode of its commands, and its end.
    Batch(Vec<(u32, u8)>, End),
    /// A command of this number of half-slots, issued at once; by low-latency write or doorbell.
    Issue(u32, bool),
    /// The NIC fetches up to this number of slots.
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
        4 => (prop_oneof![Just(1u32), Just(2), Just(4), Just(8)], any::<bool>())
            .prop_map(|(halves, low_latency)| Action::Issue(halves, low_latency)),
        1 => (0..40usize).prop_map(Action::Fetch),
    ]
}

proptest! {
    /// The NIC sees each committed command exactly once, in order and intact. The queue is full
    /// exactly when the model is. The second opinion has the same accesses and the same memory.
    #[test]
    fn shows_nic_all_committed_commands(
        slots in prop_oneof![Just(64u32), Just(128)],
        actions in prop::collection::vec(action(), 1..200),
    ) {
        let mut producer = producer(slots);
        let mut nic = Nic::new(slots as usize);
        let mut second = steps::Producer::new(slots as usize, false);
        let mut half = 8;
        let mut id = 0;
        let mut sent = Vec::new();
        for action in actions {
            match action {
                Action::Batch(commands, end) => {
                    let (mut wp, mut batch_half) = (producer.ring.wp, half);
                    let used = nic.used.clone();
                    let mut batch = Vec::new();
                    second.begin();
                    for (halves, opcode) in commands {
                        id += 1;
                        let next = nic.occupy(batch_half, halves as usize);
                        let bytes = command(halves, opcode, id);
                        prop_assert_eq!(second.emit_bytes(&bytes).is_ok(), next.is_some());
                        match producer.write_command(wp, halves, &bytes, &[]) {
                            Ok(end) => {
                                wp = end;
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
                            second.discard();
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
                    second.commit(matches!(end, End::LowLatency));
                    sent.extend(batch);
                    if !batch_half.is_multiple_of(2) {
                        nic.used[batch_half] = true;
                        batch_half = nic.next_half(batch_half);
                    }
                    half = batch_half;
                    let steps = producer.take_steps();
                    second.compare(steps.iter().map(|&step| step.into()))?;
                    nic.observe(&steps, &producer.bus.memory);
                    prop_assert_eq!(nic.wr, half / 2);
                }
                Action::Issue(halves, low_latency) => {
                    id += 1;
                    let next = nic.occupy(half, halves as usize);
                    let issued = producer.issue_of(halves, id, low_latency);
                    prop_assert_eq!(issued.is_ok(), next.is_some());
                    let bytes = command(halves, PUT, id);
                    prop_assert_eq!(second.emit_bytes(&bytes).is_ok(), next.is_some());
                    let Some(next) = next else { continue };
                    second.commit(low_latency);
                    sent.push(bytes);
                    half = next;
                    if !half.is_multiple_of(2) {
                        nic.used[half] = true;
                        half = nic.next_half(half);
                    }
                    let steps = producer.take_steps();
                    second.compare(steps.iter().map(|&step| step.into()))?;
                    nic.observe(&steps, &producer.bus.memory);
                    prop_assert_eq!(nic.wr, half / 2);
                }
                Action::Fetch(slots) => {
                    let (before, ring) = (nic.rd, nic.count - 4);
                    nic.fetch(slots, &mut producer.bus.memory);
                    second.fetch((nic.rd + ring - before) % ring);
                }
            }
            second.compare_ring(&producer.bus.memory)?;
        }
        nic.fetch(usize::MAX, &mut producer.bus.memory);
        prop_assert_eq!(nic.seen, sent);
    }
}
