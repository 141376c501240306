//! Cursor arithmetic of a command ring (nic.md 2.3, 2.4, 2.5), without access to its memory.
//!
//! The unit is the half-slot, 32 bytes. Half-slots 0 to 7 are the status area; the ring wraps from
//! `size32` to 8.

use cxi_sys::{C_CQ_FIRST_WR_PTR, C_CQ_FIRST_WR_PTR_32};

/// First half-slot of the ring.
pub(crate) const FIRST: u32 = C_CQ_FIRST_WR_PTR_32;

/// With fewer free half-slots than this the read pointer is loaded again. The largest command with
/// the largest padding takes 15.
const LOW: u32 = 16;

/// The cursors of a producer.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// Half-slots of the queue, including the status area; a multiple of 8.
    size32: u32,
    /// Half-slot of the next command.
    pub(crate) wp: u32,
    /// Write pointer that the NIC knows; even.
    pub(crate) hw_wp: u32,
    /// Read pointer of the NIC when it was last loaded; even.
    rp: u32,
}

impl Ring {
    /// Returns the ring of a new queue of `slots` slots of 64 bytes, including the status area.
    pub(crate) fn new(slots: u32) -> Self {
        Self { size32: 2 * slots, wp: FIRST, hw_wp: FIRST, rp: FIRST }
    }

    pub(crate) fn size32(&self) -> u32 {
        self.size32
    }

    /// Returns the half-slot `n` after `at`. Commands do not straddle the end of the ring.
    #[inline]
    pub(crate) fn advance(&self, at: u32, n: u32) -> u32 {
        let next = at + n;
        if next >= self.size32 { FIRST } else { next }
    }

    /// Returns how many half-slots to skip at `wp` so that a command of `halves` half-slots (1, 2,
    /// 4 or 8) starts at a multiple of its size.
    #[inline]
    pub(crate) fn padding(wp: u32, halves: u32) -> u32 {
        wp.wrapping_neg() & (halves - 1)
    }

    /// Returns the free half-slots for a producer at `wp`. One slot always remains unused, so that
    /// equal pointers mean an empty ring.
    #[inline]
    fn free(&self, wp: u32) -> u32 {
        if wp >= self.rp { self.size32 - wp + self.rp - 2 - FIRST } else { self.rp - wp - 2 }
    }

    /// Returns the free half-slots for a producer at `wp`. Loads the NIC's read pointer (a slot
    /// index) only if few half-slots are free, and ignores one outside the ring.
    #[inline]
    pub(crate) fn usable(&mut self, wp: u32, read_pointer: impl FnOnce() -> u16) -> u32 {
        let free = self.free(wp);
        if free >= LOW {
            return free;
        }
        let slot = u32::from(read_pointer());
        if (C_CQ_FIRST_WR_PTR..self.size32 / 2).contains(&slot) {
            self.rp = 2 * slot;
        }
        self.free(wp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slots: u32, wp: u32, rp: u32) -> Ring {
        Ring { wp, rp, ..Ring::new(slots) }
    }

    #[test]
    fn pads_as_the_table_of_the_specification() {
        let table = [
            [0, 0, 0, 0],
            [0, 1, 3, 7],
            [0, 0, 2, 6],
            [0, 1, 1, 5],
            [0, 0, 0, 4],
            [0, 1, 3, 3],
            [0, 0, 2, 2],
            [0, 1, 1, 1],
        ];
        for (wp, row) in (8..).zip(table) {
            assert_eq!([1, 2, 4, 8].map(|halves| Ring::padding(wp, halves)), row);
        }
    }

    #[test]
    fn offers_all_but_status_and_gap_if_empty() {
        for slots in [64, 128, 65536] {
            assert_eq!(Ring::new(slots).free(FIRST), 2 * slots - 10);
            // Also with pointers in the middle of the ring.
            assert_eq!(at(slots, 40, 40).free(40), 2 * slots - 10);
        }
    }

    #[test]
    fn counts_free_half_slots_up_to_slot_before_reader() {
        assert_eq!(at(64, 126, 8).free(126), 0);
        assert_eq!(at(64, 8, 10).free(8), 0);
        assert_eq!(at(64, 8, 20).free(8), 10);
        assert_eq!(at(64, 127, 12).free(127), 3);
    }

    #[test]
    fn wraps_from_end_to_first_half_slot() {
        let ring = Ring::new(64);
        assert_eq!(ring.advance(126, 1), 127);
        assert_eq!(ring.advance(126, 2), 8);
        assert_eq!(ring.advance(122, 6), 8);
    }

    #[test]
    fn loads_read_pointer_only_with_little_room() {
        let mut ring = Ring::new(64);
        assert_eq!(ring.usable(110, || panic!("16 half-slots are free")), 16);
        assert_eq!(ring.usable(111, || 20), 47);
        assert_eq!(ring.usable(111, || panic!("the last read pointer leaves enough room")), 47);
    }

    #[test]
    fn ignores_read_pointer_outside_ring() {
        let mut ring = Ring::new(64);
        for slot in [0, 3, 64, 65535] {
            assert_eq!(ring.usable(126, || slot), 0);
        }
        assert_eq!(ring.usable(126, || 63), 118);
    }
}
