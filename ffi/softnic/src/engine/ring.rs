//! The NIC's side of a command queue (nic.md 2): ring memory, doorbell, low-latency windows,
//! status.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cxi_sys::records::{CmdHeader, CqStatus};
use cxi_sys::{C_CQ_FIRST_WR_PTR, C_RC_CMD_ALIGN_ERROR, C_RC_CMD_INVALID_ARG, C_RC_OK};

use super::return_codes::ReturnCode;
use super::telemetry::CommandCounts;
use crate::pages::Pages;

const FIRST: u32 = C_CQ_FIRST_WR_PTR;
const SLOT: usize = 64;

/// The value of a doorbell that was not written: no slot has this number.
const NO_DOORBELL: u64 = u64::MAX;

/// The first word of a low-latency window that was not written. Its low byte, an IDC command with
/// opcode 15, begins no command.
const UNTOUCHED: u64 = 0xffff_ffff_ffff_fff0;

/// Time for which commands wait that a thread issued by a store that trapped, after an earlier one
/// was refused. Without it, the answer would be there before the thread looks for it: a program
/// that handles a refusal by the same command again, while it has events, would never end.
const REFUSAL: Duration = Duration::from_micros(10);

/// Byte offsets in the launch page (nic.md 2.8).
const LL64: usize = 1024;
const LL128A: usize = 2048;
const LL128U: usize = 3072;

/// A command read from the ring. Words behind its size come from an earlier command.
#[derive(Clone)]
#[cfg_attr(test, derive(Debug))]
pub struct RingCommand {
    words: [u64; 32],
    pub header: CmdHeader,
}

impl RingCommand {
    /// Makes a place to read commands to.
    pub fn new() -> Self {
        Self { words: [0; 32], header: CmdHeader::new() }
    }

    /// Makes a command of these words.
    #[cfg(test)]
    pub fn from_words(words: [u64; 32]) -> Self {
        Self { words, header: CmdHeader::from_bytes([words[0] as u8]) }
    }

    /// The first `N` bytes.
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

    /// The DMA command inside a triggered one (nic.md 3.12). Only the bytes that DMA commands use
    /// are there; the rest is zero.
    pub fn embedded(&self) -> Self {
        let mut words = [0; 32];
        words[..13].copy_from_slice(&self.words[3..16]);
        Self { words, header: CmdHeader::from_bytes([words[0] as u8]) }
    }

    /// The size in bytes that the header states.
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
    /// Policy 0 to 3; `None` for any other number.
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
    /// The slot of the next command, and whether it is in the upper half of that slot.
    read: u32,
    upper: bool,
    /// The first slot that holds no command yet.
    write: u32,
    /// Slots that were announced by a low-latency write, one bit each.
    low_latency: Vec<u64>,
    /// Slots executed since the last write of the status word.
    unreported: u32,
    status: CqStatus,
    stopped: bool,
    /// A command was refused after the last store that trapped.
    pub is_refused: bool,
    /// When the commands of the last such store are due.
    due: Option<Instant>,
    pub counts: CommandCounts,
}

impl CommandRing {
    /// Makes a ring of `count` slots in `memory`, announced through the `launch` page.
    pub fn new(memory: Arc<Pages>, launch: Arc<Pages>, count: u32, policy: StatusPolicy) -> Self {
        let mut status = CqStatus::new();
        status.set_rd_ptr(FIRST as u16).set_return_code(C_RC_OK as u8);
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
            is_refused: false,
            due: None,
            counts: CommandCounts::default(),
        };
        ring.launch.word(0).store(NO_DOORBELL, Ordering::Relaxed);
        for window in [LL64, LL128A, LL128U] {
            for place in 0..16 {
                ring.launch.word(window + place * SLOT).store(UNTOUCHED, Ordering::Relaxed);
            }
        }
        ring.write_status();
        ring
    }

    fn next(&self, slot: u32) -> u32 {
        if slot + 1 == self.count { FIRST } else { slot + 1 }
    }

    /// Reads the launch page. True if software wrote to it.
    ///
    /// Separate from execution, because software may write commands while the queue waits, and a
    /// window that is written twice between two reads loses a command (nic.md 2.10). So at most 16
    /// low-latency slots may be unread; hardware has no such limit.
    #[inline]
    pub fn read_launch_page(&mut self) -> bool {
        if self.stopped {
            return false;
        }
        let mut written = false;
        if self.launch.word(0).load(Ordering::Acquire) != NO_DOORBELL {
            written = true;
            self.doorbell();
        }
        while self.low_latency_write() {
            written = true;
        }
        written
    }

    fn doorbell(&mut self) {
        // Swapped, not compared with the last value: after a whole lap of low-latency writes
        // software may write the same value again.
        let value = self.launch.word(0).swap(NO_DOORBELL, Ordering::AcqRel);
        self.ring(value);
    }

    /// Handles a store to the launch page at byte `offset`, which trapped; false if the stored
    /// value is needed and not known.
    pub fn store(&mut self, offset: usize, value: Option<u64>) -> bool {
        if self.stopped {
            return true;
        }
        let before = self.write;
        match (offset, value) {
            (0, Some(value)) => self.ring(value),
            (0, None) => return false,
            _ => self.window_store(offset),
        }
        if self.write != before && std::mem::take(&mut self.is_refused) {
            self.due = Some(Instant::now() + REFUSAL);
        }
        true
    }

    /// Handles a store to a low-latency window. The command itself is already in the ring, so only
    /// the first word of each place matters.
    fn window_store(&mut self, offset: usize) {
        let (slot, after) = (self.write, self.next(self.write));
        let place = |window: usize, slot: u32| window + (slot as usize & 15) * SLOT;
        let is_even = slot.is_multiple_of(2);
        if offset == place(LL64, slot) {
            self.deliver(slot, 1);
        } else if is_even && offset == place(LL128A, slot) {
            self.deliver(slot, 2);
        } else if !is_even && offset == place(LL128U, after) {
            // This slot is padding. The two after it were written.
            self.deliver(slot, 3);
        }
    }

    fn ring(&mut self, value: u64) {
        if value < u64::from(FIRST) || value >= u64::from(self.count) {
            // No command failed, so the queue does not stop: the write is rejected and counted.
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
            // A low-latency write of this slot, if any, announced the same command.
            for window in [LL64, LL128A, LL128U] {
                self.take_window(window, self.write);
            }
            self.write = self.next(self.write);
        }
    }

    /// Checks the windows in which the next low-latency write can appear.
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

    /// Whether the window was written for this slot; if so, the window is reset. The command itself
    /// is already in the ring: software fences the ring before it writes the window.
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

    /// Reads the next command into `command`, if there is one. The caller passes an error to
    /// [`fail`](Self::fail).
    #[inline]
    pub fn peek(&self, command: &mut RingCommand) -> Option<Result<(), ReturnCode>> {
        if !self.has_next() {
            return None;
        }
        let at = self.read as usize * SLOT + if self.upper { 32 } else { 0 };
        let first = self.memory.word(at).load(Ordering::Relaxed);
        let header = CmdHeader::from_bytes([first as u8]);
        command.header = header;
        let size = size(header);
        if !at.is_multiple_of(size) {
            return Some(Err(C_RC_CMD_ALIGN_ERROR));
        }
        // An aligned command ends within the ring, whose length is a multiple of 64 slots, but
        // perhaps not all of its slots were announced.
        let slots = (size / SLOT) as u32;
        let announced = (self.write + self.count - FIRST - self.read) % (self.count - FIRST);
        if slots > announced {
            return Some(Err(C_RC_CMD_INVALID_ARG));
        }
        command.words[0] = first;
        for (index, word) in command.words[..size / 8].iter_mut().enumerate().skip(1) {
            *word = self.memory.word(at + 8 * index).load(Ordering::Relaxed);
        }
        Some(Ok(()))
    }

    /// Whether there is a command to execute.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.read != self.write && !self.stopped
    }

    /// Whether the commands wait because an earlier one was refused.
    #[inline]
    pub fn is_held(&mut self) -> bool {
        let Some(due) = self.due else {
            return false;
        };
        let is_held = Instant::now() < due;
        if !is_held {
            self.due = None;
        }
        is_held
    }

    /// The slot of the next command.
    pub fn slot(&self) -> u16 {
        self.read as u16
    }

    /// Whether the next command starts on a 128-byte boundary.
    pub fn is_at_even_slot(&self) -> bool {
        self.read.is_multiple_of(2) && !self.upper
    }

    /// Advances past an executed command.
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

    /// Stops the queue at the next command, which failed with `code` (nic.md 15, question 1).
    /// Returns the slot of the command.
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

    /// Writes the status in a single store, so that software reads a consistent status.
    fn write_status(&self) {
        self.memory.word(0).store(u64::from_le_bytes(*self.status.bytes()), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::page_size;

    fn ring() -> CommandRing {
        let pages = || Arc::new(Pages::anonymous(page_size()).unwrap());
        let policy = StatusPolicy::from_number(0).unwrap();
        CommandRing::new(pages(), pages(), 64, policy)
    }

    #[test]
    fn stores_to_launch_page_announce_slots() {
        let mut ring = ring();
        assert!(ring.store(0, Some(7)));
        assert_eq!(ring.write, 7);
        // Places and words that are not next announce nothing.
        for (offset, write) in [
            (LL64 + 6 * SLOT, 7),
            (LL64 + 7 * SLOT, 8),
            (LL64 + 7 * SLOT + 8, 8),
            (LL128A + 8 * SLOT, 10),
            (LL64 + 10 * SLOT, 11),
            (LL128A + 12 * SLOT, 11),
            (LL128U + 12 * SLOT, 14),
        ] {
            assert!(ring.store(offset, None));
            assert_eq!(ring.write, write, "{offset}");
        }
        assert_eq!(ring.counts.low_latency, 4);
    }

    #[test]
    fn holds_commands_that_follow_refusal() {
        let mut ring = ring();
        assert!(ring.store(0, Some(7)));
        assert!(!ring.is_held());
        ring.is_refused = true;
        assert!(!ring.is_held());
        // No new command.
        assert!(ring.store(0, Some(7)));
        assert!(!ring.is_held());
        assert!(ring.store(0, Some(8)));
        ring.due = ring.due.map(|due| due + Duration::from_secs(3600));
        assert!(ring.is_held());
        ring.due = Some(Instant::now());
        assert!(!ring.is_held());
        assert!(ring.store(0, Some(9)));
        assert!(!ring.is_held());
    }

    #[test]
    fn doorbell_needs_stored_value() {
        let mut ring = ring();
        assert!(!ring.store(0, None));
        assert!(ring.store(8, None));
        assert!(!ring.has_next());
    }
}
