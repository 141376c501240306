//! Tests of the producer with a recording double.

use cxi_sys::records::CqStatus;
use cxi_sys::{C_CQ_FIRST_WR_PTR, C_RC_OK};

use super::*;

#[path = "launch_random_tests.rs"]
mod random;

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
