//! Tests of the producer with random commands: with a model of the NIC after nic.md 2.10, and with
//! the second opinion on the accesses of a producer.

use proptest::prelude::*;

use crate::steps::{self, Access};

use super::*;

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
