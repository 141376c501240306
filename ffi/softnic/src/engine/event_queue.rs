//! Event queues: rings of event records that the NIC writes and software reads (nic.md 5).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::{EqStatus, EqSwState};
use cxi_sys::{
    C_EE_CFG_ECB_SIZE, C_EVENT_EQ_SWITCH, C_RC_PERM_VIOLATION, CXI_EQ_DROP_STATUS_DISABLE,
    CXI_EQ_EC_DISABLE, CXI_EQ_TIMESTAMP_EVENTS,
};

use super::return_codes::{ErrorFlag, Raise, ReturnCode};
use super::table::Table;
use super::telemetry::EventCounts;
use crate::pages::Pages;

/// Seconds and nanoseconds of the time of day.
pub type Time = (u64, u32);

/// The current time of day.
type Clock = fn() -> Time;

/// Wakes a program that sleeps until an event queue has an event or a new status.
pub trait Interrupt: Send + Sync {
    /// Signals the program.
    fn signal(&self);
}

/// Bytes of a slot, and of the largest event.
pub const SLOT: usize = C_EE_CFG_ECB_SIZE as usize;

/// EQ_SWITCH with return code OK: the last event of a buffer before the queue moves (nic.md 5.8).
const SWITCH_EVENT: [u64; 2] = [0, 0x0179_0000_0000_0000];

/// The second word of a TIMESTAMP event with return code OK, without its seconds.
const TIMESTAMP_HEADER: u64 = 0x0175_0000_0000_0000;

/// A filler of 16 bytes: type NULL, with a return code, because readers stop at records without
/// one.
const NULL_EVENT: [u64; 2] = [0, 0x017d_0000_0000_0000];

/// Fill levels in percent at which the NIC writes the status block (nic.md 5.1, 5.5).
#[derive(Clone, Copy, Default)]
pub struct Thresholds {
    pub base: u32,
    pub delta: u32,
    pub count: u32,
}

/// An event queue of this process.
pub struct EventQueue {
    pub lni: usize,
    /// The mapping that holds the buffer; `None` for a passthrough queue.
    pub md: Option<usize>,
    /// Whether the NIC may write the buffer. Without the right, all its writes are lost (libcxi.md
    /// 8.1).
    pub is_writable: bool,
    /// While the queue moves to another buffer, until software completes the move: the mapping of
    /// the previous buffer.
    leaving: Option<Option<usize>>,
    /// The buffer in use is the second, the fourth, ... of this queue.
    buffer_b: bool,
    /// The interrupts for events and for writes of the status block.
    interrupts: [Option<Arc<dyn Interrupt>>; 2],
    /// An event was written while the event interrupt was disabled.
    is_signal_due: bool,
    /// The software state when the interrupt was last considered.
    considered_at: u64,
    /// `CXI_EQ_*`.
    pub flags: u64,
    /// Events are written slot by slot, not one by one (nic.md 5.7).
    combines: bool,
    /// The events of the slot at `write`, if the queue combines events.
    held: [u64; SLOT / 8],
    /// Slots that events of received messages may not use.
    reserved: usize,
    thresholds: Thresholds,
    /// Number of thresholds that were passed at the last status write.
    level: u32,
    buffer: usize,
    slots: usize,
    /// Byte offset of the next event.
    write: usize,
    /// The slot that software reads, when last checked.
    read: usize,
    software: Arc<Pages>,
    clock: Clock,
    errors: Option<Arc<dyn Raise>>,
    /// The second of the last TIMESTAMP event, or of the creation of the queue.
    stamped: u64,
    /// Sequence bit of the last drop.
    drop_sequence: bool,
    pub counts: EventCounts,
}

impl EventQueue {
    /// Makes a queue over `len` zeroed bytes at `buffer`, whose software-state register is the
    /// first word of `software`. Its only option is EC_DISABLE.
    ///
    /// # Safety
    /// The buffer is page aligned, stays mapped and writable, and is used for nothing else while
    /// the queue exists.
    pub unsafe fn new(
        lni: usize,
        md: Option<usize>,
        buffer: usize,
        len: usize,
        software: Arc<Pages>,
        clock: Clock,
    ) -> Self {
        Self {
            lni,
            md,
            is_writable: true,
            leaving: None,
            buffer_b: false,
            interrupts: [None, None],
            is_signal_due: false,
            considered_at: 0,
            flags: CXI_EQ_EC_DISABLE.into(),
            combines: false,
            held: [0; SLOT / 8],
            reserved: 0,
            thresholds: Thresholds::default(),
            level: 0,
            buffer,
            slots: len / SLOT,
            write: SLOT,
            read: 1,
            software,
            clock,
            errors: None,
            stamped: 0,
            drop_sequence: false,
            counts: EventCounts::default(),
        }
    }

    /// Sets the options of creation.
    pub fn configure(&mut self, flags: u64, reserved: usize, thresholds: Thresholds) {
        self.flags = flags;
        self.combines = flags & u64::from(CXI_EQ_EC_DISABLE) == 0;
        self.reserved = reserved;
        self.thresholds = thresholds;
        if self.has_timestamps() {
            self.stamped = (self.clock)().0;
        }
    }

    /// Whether the queue has TIMESTAMP events.
    pub fn has_timestamps(&self) -> bool {
        self.flags & u64::from(CXI_EQ_TIMESTAMP_EVENTS) != 0
    }

    /// Writes a TIMESTAMP event, which all queues with such events get once in each second
    /// (libcxi.md 8.1), if the last one is of another second. Other events have no time.
    pub fn stamp_if_due(&mut self) {
        if !self.has_timestamps() {
            return;
        }
        let (seconds, nanoseconds) = (self.clock)();
        if seconds == self.stamped {
            return;
        }
        self.stamped = seconds;
        let words = [u64::from(nanoseconds), TIMESTAMP_HEADER | seconds];
        let mut event = [0; 16];
        event[..8].copy_from_slice(&words[0].to_le_bytes());
        event[8..].copy_from_slice(&words[1].to_le_bytes());
        self.post(&event);
    }

    /// Whether events are held until [`write_held`](Self::write_held), or until a slot is full.
    pub fn combines_events(&self) -> bool {
        self.combines
    }

    /// Sets the interrupts for events and for writes of the status block.
    pub fn set_interrupts(&mut self, interrupts: [Option<Arc<dyn Interrupt>>; 2]) {
        self.interrupts = interrupts;
    }

    /// Sets where the queue reports dropped events.
    pub fn set_errors(&mut self, errors: Arc<dyn Raise>) {
        self.errors = Some(errors);
    }

    /// Whether the queue has an interrupt for events.
    pub fn has_event_interrupt(&self) -> bool {
        self.interrupts[0].is_some()
    }

    /// Whether a mapping holds the buffer of this queue, or the previous one during a move.
    pub fn uses(&self, md: usize) -> bool {
        self.md == Some(md) || self.leaving == Some(Some(md))
    }

    /// Moves to another buffer of `len` zeroed bytes, with EQ_SWITCH as the last event of this one.
    /// False while an earlier move is not complete.
    ///
    /// # Safety
    /// The new buffer satisfies the conditions of [`new`](Self::new). The previous one does so
    /// until [`complete_move`](Self::complete_move).
    pub unsafe fn move_to(&mut self, md: Option<usize>, buffer: usize, len: usize) -> bool {
        if self.leaving.is_some() {
            return false;
        }
        // There is always room: in a partly filled slot, or else in the slot that distinguishes a
        // full queue from an empty one, which this buffer does not need any more.
        self.put(&SWITCH_EVENT);
        if self.combines {
            self.fill_slot();
        }
        self.counts.written[C_EVENT_EQ_SWITCH as usize] += 1;
        self.consider_interrupt();
        self.leaving = Some(std::mem::replace(&mut self.md, md));
        self.buffer = buffer;
        self.slots = len / SLOT;
        self.write = SLOT;
        self.read = 1;
        self.level = 0;
        self.buffer_b = !self.buffer_b;
        true
    }

    /// Completes a move after software has switched to the new buffer; false if there was no move.
    pub fn complete_move(&mut self) -> bool {
        self.leaving.take().is_some()
    }

    /// Whether the buffer in use is the second, the fourth, ... of this queue.
    pub fn is_in_buffer_b(&self) -> bool {
        self.buffer_b
    }

    /// The number of slots that events of received messages may not use.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// Changes the number of reserved slots and returns it. `None` if it would be negative or need
    /// slots that are in use.
    pub fn reserve(&mut self, change: isize) -> Option<usize> {
        let reserved = self.reserved.checked_add_signed(change)?;
        self.refresh();
        if change > 0 && reserved > self.free_slots(self.write / SLOT) {
            return None;
        }
        self.reserved = reserved;
        Some(reserved)
    }

    /// Signals the event interrupt after an event, or notes that it is disabled (nic.md 5.4).
    fn consider_interrupt(&mut self) {
        if let Some(interrupt) = &self.interrupts[0] {
            self.considered_at = self.software.word(0).load(Ordering::Acquire);
            self.is_signal_due = is_interrupt_disabled(self.considered_at);
            if !self.is_signal_due {
                interrupt.signal();
            }
        }
    }

    /// Signals the event interrupt if software has enabled it and has not read all events that were
    /// written while it was disabled.
    pub fn signal_if_due(&mut self) {
        let Some(interrupt) = &self.interrupts[0] else {
            return;
        };
        let state = self.software.word(0).load(Ordering::Acquire);
        if !self.is_signal_due || state == self.considered_at {
            return;
        }
        self.considered_at = state;
        self.is_signal_due = is_interrupt_disabled(state);
        let last = match self.write {
            SLOT => self.slots * SLOT,
            end => end,
        };
        // During a move at least EQ_SWITCH is unread.
        let unread = self.leaving.is_some() || self.word(last - 8).load(Ordering::Relaxed) != 0;
        if unread && !self.is_signal_due {
            interrupt.signal();
        }
    }

    /// Writes an event; false if it was dropped for lack of room. Its last byte becomes visible
    /// last. A queue that combines events holds it until its slot is full, or until
    /// [`write_held`](Self::write_held).
    ///
    /// Small events are packed back to back (nic.md 15, question 6). An event that would cross a
    /// slot boundary starts in the next slot, and NULL events fill the rest of this one.
    pub fn post<const N: usize>(&mut self, event: &[u8; N]) -> bool {
        let rest = self.rest_of_slot();
        let fits = rest >= N;
        let at = if fits { self.write } else { self.step(self.write, rest) };
        let is_clear = if self.combines {
            // The slot that is being filled was clear when its first event was posted.
            !at.is_multiple_of(SLOT) || self.is_clear(at, at + SLOT)
        } else {
            (fits || self.is_clear(self.write, self.write + rest)) && self.is_clear(at, at + N)
        };
        if !is_clear || !self.has_room(at, 0) {
            self.drop_event(u32::from(event[14] >> 2 & 31));
            return false;
        }
        if !fits {
            self.fill_slot();
        }
        let (words, _) = event.as_chunks::<8>();
        let mut record = [0; 8];
        for (word, bytes) in record.iter_mut().zip(words) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.put(&record[..N / 8]);
        self.counts.written[usize::from(event[14] >> 2 & 31)] += 1;
        if !self.combines || self.write.is_multiple_of(SLOT) {
            self.consider_interrupt();
        }
        if self.thresholds.count != 0 {
            self.report_level();
        }
        true
    }

    /// Closes the slot with held events, so that software can read them.
    pub fn write_held(&mut self) {
        if self.combines && !self.write.is_multiple_of(SLOT) {
            self.fill_slot();
            self.consider_interrupt();
        }
    }

    /// Fills the rest of the current slot with NULL events.
    fn fill_slot(&mut self) {
        while !self.write.is_multiple_of(SLOT) {
            self.put(&NULL_EVENT);
        }
    }

    /// Whether there is room beside the reserved slots for events of these sizes, one after the
    /// other.
    #[inline]
    pub fn accepts(&mut self, sizes: &[usize]) -> bool {
        let mut end = self.write;
        sizes.iter().all(|&size| {
            let rest = SLOT - end % SLOT;
            let at = if rest >= size { end } else { self.step(end, rest) };
            end = self.step(at, size);
            self.has_room(at, self.reserved)
        })
    }

    /// The bytes left in the current slot.
    fn rest_of_slot(&self) -> usize {
        SLOT - self.write % SLOT
    }

    /// The offset `len` bytes after `at`.
    fn step(&self, at: usize, len: usize) -> usize {
        let next = at + len;
        if next == self.slots * SLOT { SLOT } else { next }
    }

    /// Whether the slot of byte `at` may be written. A partly filled slot may; a new one must leave
    /// one slot empty before the slot that software reads (nic.md 5.4), and `reserved` more.
    #[inline]
    fn has_room(&mut self, at: usize, reserved: usize) -> bool {
        if !at.is_multiple_of(SLOT) {
            return true;
        }
        if self.free_slots(at / SLOT) > reserved {
            return true;
        }
        self.refresh();
        self.free_slots(at / SLOT) > reserved
    }

    /// The number of slots that may be filled from slot `from` on.
    fn free_slots(&self, from: usize) -> usize {
        let ring = self.slots - 1;
        (self.read + ring - from - 1) % ring
    }

    /// Reads the read pointer of software. 0, its value before the first acknowledgement, means
    /// slot 1 (nic.md 15, question 26). A slot that does not exist is ignored.
    fn refresh(&mut self) {
        let state = self.software_state();
        // The read pointer belongs to the previous buffer.
        if state.reading_buffer_b() != self.buffer_b {
            return;
        }
        let read = (state.rd_ptr() as usize).max(1);
        if read < self.slots {
            self.read = read;
        }
    }

    fn software_state(&self) -> EqSwState {
        EqSwState::from_bytes(self.software.word(0).load(Ordering::Acquire).to_le_bytes())
    }

    /// Whether a range is zero. Only such bytes are written, because readers find the end of the
    /// events by them.
    fn is_clear(&self, from: usize, to: usize) -> bool {
        (from..to).step_by(8).all(|at| self.word(at).load(Ordering::Relaxed) == 0)
    }

    /// Adds a record to the current slot, which has room for it.
    #[inline]
    fn put(&mut self, record: &[u64]) {
        let at = self.write;
        self.write = self.step(at, 8 * record.len());
        if !self.is_writable {
            return;
        }
        if self.combines {
            return self.hold(at, record);
        }
        let Some((last, first)) = record.split_last() else {
            return;
        };
        for (index, value) in first.iter().enumerate() {
            self.word(at + 8 * index).store(*value, Ordering::Relaxed);
        }
        self.word(at + 8 * first.len()).store(*last, Ordering::Release);
    }

    /// Holds a record for byte `at`, and writes its slot if that is full.
    fn hold(&mut self, at: usize, record: &[u64]) {
        let (slot, first) = (at - at % SLOT, at % SLOT / 8);
        self.held[first..first + record.len()].copy_from_slice(record);
        if !self.write.is_multiple_of(SLOT) {
            return;
        }
        // Backwards, so that the slot is complete when its first event becomes visible.
        for (index, value) in self.held.iter().enumerate().rev() {
            self.word(slot + 8 * index).store(*value, Ordering::Release);
        }
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset < self.slots * SLOT);
        let word = std::ptr::with_exposed_provenance_mut(self.buffer + offset);
        // SAFETY: the caller of `new` or `move_to` keeps the page-aligned buffer mapped; the offset
        // is inside it, and a multiple of 8.
        unsafe { AtomicU64::from_ptr(word) }
    }
}

/// Checks an event queue that a command names: 0 for none, or one of the LNI.
///
/// # Errors
/// PERM_VIOLATION for any other queue.
#[inline]
pub fn check_owner(eqs: &Table<EventQueue>, eq: u16, lni: usize) -> Result<u16, ReturnCode> {
    let is_own = |queue: &EventQueue| queue.lni == lni;
    if eq == 0 || eqs.get(usize::from(eq)).is_some_and(is_own) {
        Ok(eq)
    } else {
        Err(C_RC_PERM_VIOLATION)
    }
}

fn is_interrupt_disabled(state: u64) -> bool {
    EqSwState::from_bytes(state.to_le_bytes()).event_int_disable()
}

impl EventQueue {
    /// Records a dropped event of this type, also in the status block (nic.md 5.6).
    fn drop_event(&mut self, kind: u32) {
        self.counts.dropped += 1;
        if let Some(errors) = &self.errors {
            errors.raise(ErrorFlag::dropped_event(kind));
        }
        if self.software_state().event_drop_seq_no() == self.drop_sequence {
            self.drop_sequence = !self.drop_sequence;
        }
        if self.flags & u64::from(CXI_EQ_DROP_STATUS_DISABLE) == 0 {
            self.write_status(0);
        }
    }

    /// Writes the status block when the fill level has passed another threshold. The thresholds are
    /// base, base - delta, and so on, which are the ones that the rule of nic.md 5.1 keeps within 0
    /// to 100.
    fn report_level(&mut self) {
        self.refresh();
        let used = 100 - (self.free_slots(self.write / SLOT) * 100 / self.slots) as u32;
        let Thresholds { base, delta, count } = self.thresholds;
        let level =
            (0..count).filter(|step| used >= base.saturating_sub(step * delta)).count() as u32;
        if level > self.level {
            self.write_status(level);
        }
        self.level = level;
    }

    fn write_status(&mut self, level: u32) {
        self.counts.statuses += 1;
        if !self.is_writable {
            return;
        }
        self.refresh();
        let (seconds, nanoseconds) = (self.clock)();
        let mut status = EqStatus::new();
        status
            .set_timestamp_ns_cpy(nanoseconds)
            .set_timestamp_sec_cpy(seconds)
            .set_timestamp_ns(nanoseconds)
            .set_timestamp_sec(seconds)
            .set_thld_sts(level > 0)
            .set_thld_id(level.saturating_sub(1) as u8)
            .set_unackd_dropped_event(
                self.software_state().event_drop_seq_no() != self.drop_sequence,
            )
            .set_event_drop_seq_no(self.drop_sequence)
            .set_event_slots_free(self.free_slots(self.write / SLOT) as u32)
            .set_event_slots_rsrvd(self.reserved as u32)
            .set_wr_ptr((self.write / SLOT) as u32)
            .set_using_buffer_b(self.buffer_b);
        // Readers accept the block when the copies at its start equal the times at its end.
        let (words, _) = status.bytes().as_chunks::<8>();
        for (index, bytes) in words.iter().enumerate().rev() {
            self.word(8 * index).store(u64::from_le_bytes(*bytes), Ordering::Release);
        }
        if let Some(interrupt) = &self.interrupts[1]
            && !self.software_state().eq_sts_int_disable()
        {
            interrupt.signal();
        }
    }
}

#[cfg(test)]
mod tests;
