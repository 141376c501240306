//! Event queues: writing records where software finds them (nic.md 5).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::{EqStatus, EqSwState};
use cxi_sys::{C_EE_CFG_ECB_SIZE, C_EVENT_EQ_SWITCH, CXI_EQ_DROP_STATUS_DISABLE};
use rustix::time::{ClockId, clock_gettime};

use super::telemetry::EventCounts;
use crate::interrupt::WaitObject;
use crate::pages::Pages;

/// Bytes of a slot, and of the longest event.
pub const SLOT: usize = C_EE_CFG_ECB_SIZE as usize;

/// Type EQ_SWITCH, return code OK: the last event of a buffer that is left (nic.md 5.8).
const SWITCH_EVENT: [u64; 2] = [0, 0x0179_0000_0000_0000];

/// A filler of 16 bytes: type NULL, with a return code, without which no reader would pass it.
const NULL_EVENT: [u64; 2] = [0, 0x017d_0000_0000_0000];

/// Fill levels at which software wants the status block written (nic.md 5.1, 5.5), in percent.
#[derive(Clone, Copy, Default)]
pub struct Thresholds {
    pub base: u32,
    pub delta: u32,
    pub count: u32,
}

/// An event queue of this process.
pub struct EventQueue {
    pub lni: usize,
    /// The mapping that holds the buffer; none for a passthrough queue.
    pub md: Option<usize>,
    /// The queue is moving to another buffer, until software says that it has followed; the mapping of the
    /// one that it leaves.
    leaving: Option<Option<usize>>,
    /// The buffer in use is the second, the fourth, ... of this queue.
    buffer_b: bool,
    /// Who wants to know of events, and of writes to the status block.
    waits: [Option<Arc<WaitObject>>; 2],
    /// An event was written while nobody wanted to be told.
    untold: bool,
    /// Software state at that time, or when it was last looked at.
    told_at: u64,
    pub flags: u64,
    /// Slots that events of incoming messages may not use.
    reserved: usize,
    thresholds: Thresholds,
    /// Threshold of the last status write, counted from 1; 0 below all of them.
    level: u32,
    buffer: usize,
    slots: usize,
    /// Byte offset of the next event.
    write: usize,
    /// Slot that software reads, as last seen.
    read: usize,
    software: Arc<Pages>,
    /// Sequence bit of the last drop.
    drop_sequence: bool,
    pub counts: EventCounts,
}

impl EventQueue {
    /// A queue over `len` zeroed bytes at `buffer`, whose software-state register is the first
    /// word of `software`.
    ///
    /// # Safety
    /// The buffer stays mapped and writable, and is not used for anything else, while the queue exists.
    pub unsafe fn new(
        lni: usize,
        md: Option<usize>,
        buffer: usize,
        len: usize,
        software: Arc<Pages>,
    ) -> Self {
        Self {
            lni,
            md,
            leaving: None,
            buffer_b: false,
            waits: [None, None],
            untold: false,
            told_at: 0,
            flags: 0,
            reserved: 0,
            thresholds: Thresholds::default(),
            level: 0,
            buffer,
            slots: len / SLOT,
            write: SLOT,
            read: 1,
            software,
            drop_sequence: false,
            counts: EventCounts::default(),
        }
    }

    /// Sets the options of creation.
    pub fn configure(&mut self, flags: u64, reserved: usize, thresholds: Thresholds) {
        self.flags = flags;
        self.reserved = reserved;
        self.thresholds = thresholds;
    }

    /// Sets who is told of events, and of writes to the status block.
    pub fn set_waits(&mut self, waits: [Option<Arc<WaitObject>>; 2]) {
        self.waits = waits;
    }

    /// Whether somebody may sleep until there is an event.
    pub fn is_waited_for(&self) -> bool {
        self.waits[0].is_some()
    }

    /// Whether a mapping holds a buffer of this queue, also one that software has not left yet.
    pub fn uses(&self, md: usize) -> bool {
        self.md == Some(md) || self.leaving == Some(Some(md))
    }

    /// Goes on in another buffer of `len` zeroed bytes, with EQ_SWITCH as the last event of this one. False while
    /// an earlier move is not complete.
    ///
    /// # Safety
    /// As for `new`.
    pub unsafe fn move_to(&mut self, md: Option<usize>, buffer: usize, len: usize) -> bool {
        if self.leaving.is_some() {
            return false;
        }
        // There is always room: in a slot already begun, or else in the one that keeps a full queue apart from an
        // empty one, which serves its purpose no more.
        self.put(&SWITCH_EVENT);
        self.counts.written[C_EVENT_EQ_SWITCH as usize] += 1;
        self.tell_of_event();
        self.leaving = Some(std::mem::replace(&mut self.md, md));
        self.buffer = buffer;
        self.slots = len / SLOT;
        self.write = SLOT;
        self.read = 1;
        self.level = 0;
        self.buffer_b = !self.buffer_b;
        true
    }

    /// Software has followed to the other buffer; false if there was no move.
    pub fn has_moved(&mut self) -> bool {
        self.leaving.take().is_some()
    }

    /// Whether the buffer in use is the second, the fourth, ... of this queue.
    pub fn is_in_buffer_b(&self) -> bool {
        self.buffer_b
    }

    /// Slots that events of incoming messages may not use.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// Changes the number of reserved slots. `None` if it would be below 0 or take slots that are in use.
    pub fn reserve(&mut self, change: isize) -> Option<()> {
        let reserved = self.reserved.checked_add_signed(change)?;
        self.refresh();
        if change > 0 && reserved > self.free_slots(self.write / SLOT) {
            return None;
        }
        self.reserved = reserved;
        Some(())
    }

    /// Tells those who wait for events that there is one, or notes that they do not want to know at present (nic.md 5.4).
    fn tell_of_event(&mut self) {
        if let Some(wait) = &self.waits[0] {
            self.told_at = self.software.word(0).load(Ordering::Acquire);
            self.untold = is_interrupt_disabled(self.told_at);
            if !self.untold {
                wait.signal();
            }
        }
    }

    /// Tells those who want to know again of events that came meanwhile, if software has not seen them.
    pub fn tell(&mut self) {
        let Some(wait) = &self.waits[0] else {
            return;
        };
        let state = self.software.word(0).load(Ordering::Acquire);
        if !self.untold || state == self.told_at {
            return;
        }
        self.told_at = state;
        self.untold = is_interrupt_disabled(state);
        let last = match self.write {
            SLOT => self.slots * SLOT,
            end => end,
        };
        // Of a buffer that software has not left yet, EQ_SWITCH at least.
        let unseen = self.leaving.is_some() || self.word(last - 8).load(Ordering::Relaxed) != 0;
        if unseen && !self.untold {
            wait.signal();
        }
    }

    /// Writes an event, or drops it when there is no room. Its last byte becomes visible last.
    ///
    /// Small events are packed back to back (nic.md 15, question 6); one that would straddle a slot
    /// boundary starts in the next slot, and NULL events fill the rest of this one.
    pub fn post<const N: usize>(&mut self, event: &[u8; N]) -> bool {
        let rest = self.rest_of_slot();
        let fits = rest >= N;
        let room = if fits {
            self.has_room(self.write, 0)
        } else {
            self.has_room(self.step(self.write, rest), 0)
        };
        let end = self.write + if fits { N } else { rest };
        if !room
            || !self.is_clear(self.write, end)
            || (!fits
                && !self.is_clear(self.step(self.write, rest), self.step(self.write, rest) + N))
        {
            self.drop_event();
            return false;
        }
        if !fits {
            for _ in 0..rest / 16 {
                self.put(&NULL_EVENT);
            }
        }
        let (words, _) = event.as_chunks::<8>();
        let mut record = [0; 8];
        for (word, bytes) in record.iter_mut().zip(words) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.put(&record[..N / 8]);
        self.counts.written[usize::from(event[14] >> 2 & 31)] += 1;
        self.tell_of_event();
        if self.thresholds.count != 0 {
            self.report_level();
        }
        true
    }

    /// Whether events of an incoming message with these sizes would find room, one after the other,
    /// beside the reserved slots.
    #[inline]
    pub fn accepts(&mut self, sizes: &[usize]) -> bool {
        let mut end = self.write;
        sizes.iter().all(|&size| {
            let rest = SLOT - end % SLOT;
            let at = if rest >= size {
                end
            } else {
                self.step(end, rest)
            };
            end = self.step(at, size);
            self.has_room(at, self.reserved)
        })
    }

    /// Bytes left in the slot that is being filled.
    fn rest_of_slot(&self) -> usize {
        SLOT - self.write % SLOT
    }

    fn step(&self, at: usize, len: usize) -> usize {
        let next = at + len;
        if next == self.slots * SLOT {
            SLOT
        } else {
            next
        }
    }

    /// Whether the slot of byte `at` may be written: a slot already begun may; a new one must leave
    /// one slot empty before the one that software reads (nic.md 5.4), and `reserved` beyond that.
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

    /// Slots that may be filled from slot `from` on.
    fn free_slots(&self, from: usize) -> usize {
        let ring = self.slots - 1;
        (self.read + ring - from - 1) % ring
    }

    /// Reads how far software has come. 0, the value before the first acknowledgement, means slot 1
    /// (nic.md 15, question 26); a slot that does not exist is ignored.
    fn refresh(&mut self) {
        let state = self.software_state();
        // It is about the buffer that was left.
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

    /// Zeroed memory is what tells readers where the events end, so no other byte is ever written.
    fn is_clear(&self, from: usize, to: usize) -> bool {
        (from..to)
            .step_by(8)
            .all(|at| self.word(at).load(Ordering::Relaxed) == 0)
    }

    #[inline]
    fn put(&mut self, record: &[u64]) {
        let Some((last, first)) = record.split_last() else {
            return;
        };
        for (index, value) in first.iter().enumerate() {
            self.word(self.write + 8 * index)
                .store(*value, Ordering::Relaxed);
        }
        self.word(self.write + 8 * first.len())
            .store(*last, Ordering::Release);
        self.write = self.step(self.write, 8 * record.len());
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset < self.slots * SLOT);
        let word = std::ptr::with_exposed_provenance_mut(self.buffer + offset);
        // SAFETY: inside the buffer that `new` was promised; it is page aligned and offsets are multiples of 8.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Notes a drop and tells software in the status block (nic.md 5.6).
    fn drop_event(&mut self) {
        self.counts.dropped += 1;
        if self.software_state().event_drop_seq_no() == self.drop_sequence {
            self.drop_sequence = !self.drop_sequence;
        }
        if self.flags & u64::from(CXI_EQ_DROP_STATUS_DISABLE) == 0 {
            self.write_status(0);
        }
    }

    /// Writes the status block when the fill level has passed another threshold. The thresholds
    /// are read as base, base - delta, ...: the rule of nic.md 5.1 keeps just these within 0..100.
    fn report_level(&mut self) {
        self.refresh();
        let used = 100 - (self.free_slots(self.write / SLOT) * 100 / self.slots) as u32;
        let Thresholds { base, delta, count } = self.thresholds;
        let level = (0..count)
            .filter(|step| used >= base.saturating_sub(step * delta))
            .count() as u32;
        if level > self.level {
            self.write_status(level);
        }
        self.level = level;
    }

    fn write_status(&mut self, level: u32) {
        self.counts.statuses += 1;
        self.refresh();
        let now = clock_gettime(ClockId::Realtime);
        let (seconds, nanoseconds) = (now.tv_sec as u64, now.tv_nsec as u32);
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
        // A reader takes the block when the copies in front agree with the times at the end.
        let (words, _) = status.bytes().as_chunks::<8>();
        for (index, bytes) in words.iter().enumerate().rev() {
            self.word(8 * index)
                .store(u64::from_le_bytes(*bytes), Ordering::Release);
        }
        if let Some(wait) = &self.waits[1]
            && !self.software_state().eq_sts_int_disable()
        {
            wait.signal();
        }
    }
}

fn is_interrupt_disabled(state: u64) -> bool {
    EqSwState::from_bytes(state.to_le_bytes()).event_int_disable()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 4096;
    const SLOTS: usize = LEN / SLOT;

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
        let queue = unsafe { EventQueue::new(0, None, buffer, LEN, software.clone()) };
        Rig {
            memory,
            software,
            queue,
        }
    }

    fn event<const N: usize>(mark: u8) -> [u8; N] {
        let mut event = [mark; N];
        event[14] = (N / 16).ilog2() as u8 + 1;
        event[N - 1] = 1;
        event
    }

    impl Rig {
        fn byte(&self, offset: usize) -> u8 {
            self.memory
                .word(offset & !7)
                .load(Ordering::Relaxed)
                .to_le_bytes()[offset % 8]
        }

        /// Zeroes all slots and releases everything before slot `read`, as software does.
        fn release(&self, read: u64) {
            for offset in (SLOT..LEN).step_by(8) {
                self.memory.word(offset).store(0, Ordering::Relaxed);
            }
            self.software.word(0).store(read, Ordering::Release);
        }
    }

    #[test]
    fn small_events_are_packed_and_never_straddle() {
        let mut rig = rig();
        assert!(rig.queue.post(&event::<16>(0xa1)));
        assert!(rig.queue.post(&event::<32>(0xb2)));
        assert!(rig.queue.post(&event::<32>(0xc3)));
        assert_eq!((rig.byte(64), rig.byte(80)), (0xa1, 0xb2));
        assert_eq!(
            (rig.byte(112 + 14), rig.byte(112 + 15)),
            (0x7d, 0x01),
            "filler"
        );
        assert_eq!(rig.byte(128), 0xc3);
    }

    #[test]
    fn usable_slots_are_all_but_two() {
        let mut rig = rig();
        for mark in 0..SLOTS - 2 {
            assert!(rig.queue.post(&event::<64>(mark as u8 | 1)), "event {mark}");
        }
        assert!(!rig.queue.post(&event::<16>(1)));
        assert_eq!(rig.queue.counts.dropped, 1);
    }

    #[test]
    fn drops_are_told_in_the_status_block_until_acknowledged() {
        let mut rig = rig();
        while rig.queue.post(&event::<64>(1)) {}
        let flags = rig.byte(15);
        assert_eq!(flags & 0x11, 0x11, "unacknowledged, sequence 1");
        rig.queue.post(&event::<64>(1));
        assert_eq!(
            rig.byte(15) & 0x10,
            0x10,
            "sequence unchanged until acknowledged"
        );
        let mut state = EqSwState::new();
        state.set_rd_ptr(1).set_event_drop_seq_no(true);
        rig.software
            .word(0)
            .store(u64::from_le_bytes(*state.bytes()), Ordering::Release);
        rig.queue.post(&event::<64>(1));
        assert_eq!(
            rig.byte(15) & 0x11,
            0x01,
            "the next drop has the other sequence bit"
        );
    }

    #[test]
    fn drop_status_can_be_disabled() {
        let mut rig = rig();
        rig.queue.configure(
            u64::from(CXI_EQ_DROP_STATUS_DISABLE),
            0,
            Thresholds::default(),
        );
        while rig.queue.post(&event::<64>(1)) {}
        assert_eq!(rig.byte(15), 0);
    }

    #[test]
    fn wraps_to_byte_64_when_released() {
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
    fn bytes_that_software_has_not_cleared_are_left_alone() {
        let mut rig = rig();
        rig.memory.word(64 + 56).store(5, Ordering::Relaxed);
        assert!(!rig.queue.post(&event::<64>(1)));
        assert_eq!(rig.byte(64), 0);
        assert!(rig.queue.post(&event::<32>(1)), "these bytes are clear");
    }

    #[test]
    fn reserved_slots_are_kept_from_incoming_messages() {
        let mut rig = rig();
        rig.queue.configure(0, SLOTS - 4, Thresholds::default());
        for _ in 0..2 {
            assert!(rig.queue.accepts(&[64]));
            assert!(rig.queue.post(&event::<64>(1)));
        }
        assert!(!rig.queue.accepts(&[64]));
        assert!(
            rig.queue.post(&event::<64>(1)),
            "not reserved against the NIC's own events"
        );
    }

    #[test]
    fn thresholds_report_rising_levels() {
        let mut rig = rig();
        rig.queue.configure(
            0,
            0,
            Thresholds {
                base: 90,
                delta: 40,
                count: 2,
            },
        );
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
    fn who_waits_is_told_once_for_each_event() {
        let mut rig = rig();
        let wait = Arc::new(WaitObject::new().unwrap());
        rig.queue.set_waits([Some(wait.clone()), None]);
        assert!(!wait.is_signaled());
        assert!(rig.queue.post(&event::<64>(1)));
        assert!(wait.is_signaled());
        wait.clear();
        rig.queue.tell();
        assert!(!wait.is_signaled(), "of the same event");
        // Software consumes it, and disables interrupts.
        let mut state = EqSwState::new();
        state.set_rd_ptr(2).set_event_int_disable(true);
        rig.release(u64::from_le_bytes(*state.bytes()));
        rig.queue.tell();
        assert!(rig.queue.post(&event::<16>(1)));
        assert!(!wait.is_signaled(), "disabled");
        state.set_event_int_disable(false);
        let word = u64::from_le_bytes(*state.bytes());
        rig.software.word(0).store(word, Ordering::Release);
        rig.queue.tell();
        assert!(wait.is_signaled(), "enabled with an event waiting");
    }

    #[test]
    fn a_read_pointer_beyond_the_queue_is_ignored() {
        let mut rig = rig();
        rig.software.word(0).store(SLOTS as u64, Ordering::Release);
        for _ in 0..SLOTS - 2 {
            assert!(rig.queue.post(&event::<64>(1)));
        }
        assert!(!rig.queue.post(&event::<64>(1)));
    }
}
