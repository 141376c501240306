//! Cursor arithmetic of a command ring (nic.md 2.3 to 2.5): no memory, no NIC.
//!
//! The unit is the half-slot, 32 bytes. Half-slots 0 to 7 are the status area; the ring
//! wraps from `size32` to 8.

use cxi_sys::{C_CQ_FIRST_WR_PTR, C_CQ_FIRST_WR_PTR_32};

/// First half-slot of the ring.
pub(crate) const FIRST: u32 = C_CQ_FIRST_WR_PTR_32;

/// Half-slots below which the NIC's progress is looked at again: the largest command
/// with the largest padding takes 15.
const LOW: u32 = 16;

/// Where the producer stands.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// Half-slots of the queue, the status area counted; a multiple of 8.
    size32: u32,
    /// Where the next command goes.
    pub(crate) wp: u32,
    /// What the NIC was last told; even.
    pub(crate) hw_wp: u32,
    /// What the NIC was last known to have fetched; even.
    rp: u32,
}

impl Ring {
    /// The ring of a fresh queue of `slots` (64 bytes each, the status area counted).
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            size32: 2 * slots,
            wp: FIRST,
            hw_wp: FIRST,
            rp: FIRST,
        }
    }

    pub(crate) fn size32(&self) -> u32 {
        self.size32
    }

    /// `at`, `n` half-slots further. A command never straddles the end, so the end is
    /// met exactly.
    #[inline]
    pub(crate) fn advance(&self, at: u32, n: u32) -> u32 {
        match at + n {
            end if end >= self.size32 => FIRST,
            next => next,
        }
    }

    /// Half-slots to skip at `wp` so that a command of `halves` (1, 2, 4 or 8) starts at
    /// a multiple of its size.
    #[inline]
    pub(crate) fn padding(wp: u32, halves: u32) -> u32 {
        wp.wrapping_neg() & (halves - 1)
    }

    /// Free half-slots for a producer at `wp`. One slot always stays unused, so that
    /// equal pointers mean empty.
    #[inline]
    fn free(&self, wp: u32) -> u32 {
        if wp >= self.rp {
            self.size32 - wp + self.rp - 2 - FIRST
        } else {
            self.rp - wp - 2
        }
    }

    /// Free half-slots for a producer at `wp`; asks for the NIC's read pointer (a slot
    /// index) only when they seem to run low. A read pointer outside the ring is not
    /// believed.
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
        Ring {
            wp,
            rp,
            ..Ring::new(slots)
        }
    }

    #[test]
    fn padding_is_the_table_of_the_specification() {
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
    fn an_empty_queue_offers_all_but_status_and_gap() {
        for slots in [64, 128, 65536] {
            assert_eq!(Ring::new(slots).free(FIRST), 2 * slots - 10);
            // The same anywhere in the ring.
            assert_eq!(at(slots, 40, 40).free(40), 2 * slots - 10);
        }
    }

    #[test]
    fn free_counts_up_to_the_slot_before_the_reader() {
        assert_eq!(at(64, 126, 8).free(126), 0);
        assert_eq!(at(64, 8, 10).free(8), 0);
        assert_eq!(at(64, 8, 20).free(8), 10);
        assert_eq!(at(64, 127, 12).free(127), 3);
    }

    #[test]
    fn the_end_wraps_to_the_first_half_slot() {
        let ring = Ring::new(64);
        assert_eq!(ring.advance(126, 1), 127);
        assert_eq!(ring.advance(126, 2), 8);
        assert_eq!(ring.advance(122, 6), 8);
    }

    #[test]
    fn the_read_pointer_is_looked_at_only_when_room_runs_low() {
        let mut ring = Ring::new(64);
        assert_eq!(ring.usable(110, || panic!("16 half-slots are left")), 16);
        assert_eq!(ring.usable(111, || 20), 47);
        assert_eq!(ring.usable(111, || panic!("known to have moved")), 47);
    }

    #[test]
    fn a_read_pointer_outside_the_ring_is_not_believed() {
        let mut ring = Ring::new(64);
        for slot in [0, 3, 64, 65535] {
            assert_eq!(ring.usable(126, || slot), 0);
        }
        assert_eq!(ring.usable(126, || 63), 118);
    }
}
