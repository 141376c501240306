//! The status block of an event queue: fill levels and dropped events (nic.md 5.5, 5.6).

use std::sync::atomic::Ordering;

use cxi_sys::CXI_EQ_DROP_STATUS_DISABLE;
use cxi_sys::records::EqStatus;

use super::super::error_flags::ErrorFlag;
use super::{EventQueue, SLOT, Thresholds};

impl EventQueue {
    /// Records a dropped event of this type, also in the status block (nic.md 5.6).
    pub(super) fn drop_event(&mut self, kind: u32) {
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
    pub(super) fn report_level(&mut self) {
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
