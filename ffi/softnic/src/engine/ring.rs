//! Command queues as the NIC reads them (nic.md 2): ring memory, doorbell, low-latency windows, status.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cxi_sys::records::{CmdHeader, CqStatus};
use cxi_sys::{C_CQ_FIRST_WR_PTR, C_RC_CMD_ALIGN_ERROR, C_RC_CMD_INVALID_ARG, C_RC_OK};

use super::ReturnCode;
use super::telemetry::CommandCounts;
use crate::pages::Pages;

const FIRST: u32 = C_CQ_FIRST_WR_PTR;
const SLOT: usize = 64;

/// Put back wherever a doorbell was taken: no slot has this number.
const NO_DOORBELL: u64 = u64::MAX;

/// Stands in the first word of each low-latency window that nothing was written to. Its low byte,
/// an IDC command with opcode 15, starts no command.
const UNTOUCHED: u64 = 0xffff_ffff_ffff_fff0;

/// Byte offsets in the launch page (nic.md 2.8).
const LL64: usize = 1024;
const LL128A: usize = 2048;
const LL128U: usize = 3072;

/// A command as fetched.
pub struct Command {
    words: [u64; 32],
    pub header: CmdHeader,
}

impl Command {
    /// Its first `N` bytes.
    #[inline]
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(&self.words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The words of the command, for payload inside it.
    #[inline]
    pub fn words(&self) -> &[u64; 32] {
        &self.words
    }

    /// The DMA command inside a triggered one (nic.md 3.12). Of its last size, 128 bytes, those
    /// that are used are there; the rest is zero.
    pub fn embedded(&self) -> Self {
        let mut words = [0; 32];
        words[..13].copy_from_slice(&self.words[3..16]);
        Self {
            words,
            header: CmdHeader::from_bytes([words[0] as u8]),
        }
    }

    /// Bytes that its size code stands for.
    #[inline]
    pub fn size(&self) -> usize {
        size(self.header)
    }
}

fn size(header: CmdHeader) -> usize {
    32 << header.cmd_size()
}

/// When the status word is written (nic.md 2.9): every `1 << shift` slots, and when the queue
/// runs empty if `on_empty`.
#[derive(Clone, Copy)]
pub struct StatusPolicy {
    shift: u32,
    on_empty: bool,
}

impl StatusPolicy {
    /// Policy 0 to 3.
    pub fn from_number(policy: u32) -> Option<Self> {
        let (shift, on_empty) = match policy {
            0 => (0, true),
            1 => (4, true),
            2 => (8, true),
            3 => (8, false),
            _ => return None,
        };
        Some(Self { shift, on_empty })
    }
}

/// The NIC's side of one command queue.
pub struct CommandRing {
    memory: Arc<Pages>,
    launch: Arc<Pages>,
    count: u32,
    policy: StatusPolicy,
    /// Next command: slot, and whether it is in the slot's upper half.
    read: u32,
    upper: bool,
    /// First slot that holds no command yet.
    write: u32,
    /// Slots that came through a low-latency window, one bit each.
    low_latency: Vec<u64>,
    unreported: u32,
    status: CqStatus,
    stopped: bool,
    pub counts: CommandCounts,
}

impl CommandRing {
    /// A ring of `count` slots in `memory`, written through the `launch` page.
    pub fn new(memory: Arc<Pages>, launch: Arc<Pages>, count: u32, policy: StatusPolicy) -> Self {
        let mut status = CqStatus::new();
        status
            .set_rd_ptr(FIRST as u16)
            .set_return_code(C_RC_OK as u8);
        let ring = Self {
            memory,
            launch,
            count,
            policy,
            read: FIRST,
            upper: false,
            write: FIRST,
            low_latency: vec![0; (count as usize).div_ceil(64)],
            unreported: 0,
            status,
            stopped: false,
            counts: CommandCounts::default(),
        };
        ring.launch.word(0).store(NO_DOORBELL, Ordering::Relaxed);
        for window in [LL64, LL128A, LL128U] {
            for place in 0..16 {
                ring.launch
                    .word(window + place * SLOT)
                    .store(UNTOUCHED, Ordering::Relaxed);
            }
        }
        ring.write_status();
        ring
    }

    fn next(&self, slot: u32) -> u32 {
        if slot + 1 == self.count {
            FIRST
        } else {
            slot + 1
        }
    }

    /// Takes in what was written to the launch page. True if there was anything.
    ///
    /// Apart from execution on purpose: while a queue waits, its writer may go on, and a window
    /// that is used again before anyone looked is a lost command (nic.md 2.10). That limit, 16
    /// unnoticed low-latency slots, stays; hardware has none.
    #[inline]
    pub fn notice(&mut self) -> bool {
        let mut news = false;
        if self.stopped {
            return false;
        }
        if self.launch.word(0).load(Ordering::Acquire) != NO_DOORBELL {
            news = true;
            self.doorbell();
        }
        while self.low_latency_write() {
            news = true;
        }
        news
    }

    fn doorbell(&mut self) {
        // Exchanged, not compared with the last value: after a whole lap of low-latency writes the
        // same value may come twice.
        let value = self.launch.word(0).swap(NO_DOORBELL, Ordering::AcqRel);
        if value < u64::from(FIRST) || value >= u64::from(self.count) {
            // No command is to blame, so no queue stops: the pointer is refused and counted.
            self.counts.pointer_errors += 1;
            let rejected = self.status.num_write_cmds_rejected().wrapping_add(1);
            self.status
                .set_num_write_cmds_rejected(rejected)
                .set_return_code(C_RC_CMD_INVALID_ARG as u8);
            self.write_status();
            return;
        }
        let value = value as u32;
        while self.write != value {
            // Passed over: if a window was written for this slot too, that was this same command.
            for window in [LL64, LL128A, LL128U] {
                self.take_window(window, self.write);
            }
            self.write = self.next(self.write);
        }
    }

    /// Looks at the places where the next low-latency write can appear.
    #[inline]
    fn low_latency_write(&mut self) -> bool {
        let slot = self.write;
        if self.take_window(LL64, slot) {
            self.deliver(slot, 1);
        } else if slot.is_multiple_of(2) && self.take_window(LL128A, slot) {
            self.deliver(slot, 2);
        } else if !slot.is_multiple_of(2) && self.take_window(LL128U, self.next(slot)) {
            // This slot is padding. The two after it were written.
            self.deliver(slot, 3);
        } else {
            return false;
        }
        true
    }

    /// Whether the window was written for this slot; if so it is made ready for the next write.
    /// The command itself is in the ring already: its writer fenced that before.
    #[inline]
    fn take_window(&self, window: usize, slot: u32) -> bool {
        let word = self.launch.word(window + (slot as usize & 15) * SLOT);
        if word.load(Ordering::Acquire) == UNTOUCHED {
            return false;
        }
        word.store(UNTOUCHED, Ordering::Relaxed);
        true
    }

    fn deliver(&mut self, mut slot: u32, slots: u32) {
        self.counts.low_latency += 1;
        for _ in 0..slots {
            self.low_latency[slot as usize / 64] |= 1 << (slot % 64);
            slot = self.next(slot);
        }
        self.write = slot;
    }

    /// The next command, if there is one. An error stops the queue: [`fail`](Self::fail).
    #[inline]
    pub fn peek(&self) -> Option<Result<Command, (CmdHeader, ReturnCode)>> {
        if self.read == self.write || self.stopped {
            return None;
        }
        let at = self.read as usize * SLOT + if self.upper { 32 } else { 0 };
        let first = self.memory.word(at).load(Ordering::Relaxed);
        let header = CmdHeader::from_bytes([first as u8]);
        let size = size(header);
        if !at.is_multiple_of(size) {
            return Some(Err((header, C_RC_CMD_ALIGN_ERROR)));
        }
        // Aligned commands end within the ring, whose length is a multiple of 64 slots, but may
        // have been announced in part only.
        let slots = (size / SLOT) as u32;
        let announced = (self.write + self.count - FIRST - self.read) % (self.count - FIRST);
        if slots > announced {
            return Some(Err((header, C_RC_CMD_INVALID_ARG)));
        }
        let mut words = [0; 32];
        words[0] = first;
        for (index, word) in words.iter_mut().enumerate().take(size / 8).skip(1) {
            *word = self.memory.word(at + 8 * index).load(Ordering::Relaxed);
        }
        Some(Ok(Command { words, header }))
    }

    /// Slot of the next command.
    pub fn slot(&self) -> u16 {
        self.read as u16
    }

    /// Whether the next command starts on a 128-byte boundary.
    pub fn is_at_even_slot(&self) -> bool {
        self.read.is_multiple_of(2) && !self.upper
    }

    /// Goes past a command.
    #[inline]
    pub fn advance(&mut self, header: CmdHeader) {
        self.counts.executed(header);
        let size = size(header);
        if size == 32 && !self.upper {
            self.upper = true;
            return;
        }
        self.upper = false;
        for _ in 0..size.div_ceil(SLOT) {
            self.low_latency[self.read as usize / 64] &= !(1 << (self.read % 64));
            self.read = self.next(self.read);
            self.unreported += 1;
        }
        let empty = self.read == self.write;
        if self.unreported >> self.policy.shift != 0 || (empty && self.policy.on_empty) {
            self.unreported = 0;
            self.status.set_rd_ptr(self.read as u16);
            self.write_status();
        }
    }

    /// Records what is wrong with the next command, and stops (nic.md 15, question 1).
    /// Answers the slot of the command.
    pub fn fail(&mut self, header: CmdHeader, code: ReturnCode) -> u16 {
        let through_window = self.low_latency[self.read as usize / 64] >> (self.read % 64) & 1 != 0;
        self.stopped = true;
        self.counts.failed(code);
        self.status
            .set_rd_ptr(self.read as u16)
            .set_fail_command(header.bytes()[0])
            .set_return_code(code as u8)
            .set_fail_loc_32(self.upper)
            .set_fail_ll(through_window);
        self.write_status();
        self.read as u16
    }

    /// The block is a single word, so that no reader sees a new `rd_ptr` with old company.
    fn write_status(&self) {
        self.memory
            .word(0)
            .store(u64::from_le_bytes(*self.status.bytes()), Ordering::Release);
    }
}
