//! Access to the memory of a command queue: the ring, the launch page and the fences.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::CqStatus;
use cxi_sys::{C_CQ_FIRST_WR_PTR, C_CQ_FIRST_WR_PTR_32, C_RC_OK, cxi_cq};

use crate::fence;

/// First half-slot of the ring.
const FIRST_HALF_SLOT: u32 = C_CQ_FIRST_WR_PTR_32;

/// With fewer free half-slots than this the read pointer is loaded again. The largest command with
/// the largest padding takes 15.
const LOW: u32 = 16;

/// The cursors of a producer (nic.md 2.3, 2.4, 2.5).
///
/// The unit is the half-slot, 32 bytes.
/// Half-slots 0 to 7 are the status area; the ring wraps from `size32` to 8.
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
    /// The ring of a new queue of `slots` slots of 64 bytes, including the status area.
    pub(crate) fn new(slots: u32) -> Self {
        Self { size32: 2 * slots, wp: FIRST_HALF_SLOT, hw_wp: FIRST_HALF_SLOT, rp: FIRST_HALF_SLOT }
    }

    pub(crate) fn size32(&self) -> u32 {
        self.size32
    }

    /// The half-slot `n` after `at`. Commands do not straddle the end of the ring.
    #[inline]
    pub(crate) fn advance(&self, at: u32, n: u32) -> u32 {
        let next = at + n;
        if next >= self.size32 { FIRST_HALF_SLOT } else { next }
    }

    /// How many half-slots to skip at `wp` so that a command of `halves` half-slots (1, 2, 4 or 8)
    /// starts at a multiple of its size.
    #[inline]
    pub(crate) fn padding(wp: u32, halves: u32) -> u32 {
        wp.wrapping_neg() & (halves - 1)
    }

    /// The free half-slots for a producer at `wp`. One slot always remains unused, so that equal
    /// pointers mean an empty ring.
    #[inline]
    fn free(&self, wp: u32) -> u32 {
        if wp >= self.rp {
            self.size32 - wp + self.rp - 2 - FIRST_HALF_SLOT
        } else {
            self.rp - wp - 2
        }
    }

    /// The free half-slots for a producer at `wp`. Loads the NIC's read pointer (a slot index) only
    /// if few half-slots are free, and ignores one outside the ring.
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

/// A window of the launch page (nic.md 2.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaunchWindow {
    /// Register of the write pointer.
    Doorbell,
    /// One slot, at any position.
    Ll64,
    /// Two slots, from an even position.
    Ll128Aligned,
    /// Two slots after a padding slot at an odd position.
    Ll128Unaligned,
}

/// The memory accesses of a producer. Tests record them and check their order.
pub(crate) trait Bus {
    /// Loads the status block, which the NIC writes.
    fn status(&self) -> CqStatus;
    /// Copies `bytes` into the ring, `offset` bytes from the start of the queue.
    fn write_ring(&mut self, offset: usize, bytes: &[u8]);
    /// Copies `words` into the ring, `offset` bytes from the start of the queue.
    fn write_ring_words<const WORDS: usize>(&mut self, offset: usize, words: &[u64; WORDS]);
    /// Reads back 8 bytes of the ring, `offset` bytes from the start of the queue.
    fn read_ring(&self, offset: usize) -> u64;
    /// Orders ring stores before launch-page stores.
    fn before_launch(&mut self);
    /// Stores 64 bits, `offset` bytes from the start of the window.
    fn store64(&mut self, window: LaunchWindow, offset: usize, value: u64);
    /// Flushes launch-page stores from the write-combining buffer.
    fn after_launch(&mut self);
}

/// A command queue as libcxi mapped it. Valid as long as the `cxi_cq`.
pub(crate) struct MappedQueue {
    commands: NonNull<u8>,
    bytes: usize,
    doorbell: NonNull<u64>,
    ll_64: NonNull<u64>,
    ll_128_aligned: NonNull<u64>,
    ll_128_unaligned: NonNull<u64>,
}

// SAFETY: the pointers lead into mappings of the process, which are valid in all its threads; only
// the owner of the value stores through them.
unsafe impl Send for MappedQueue {}

impl MappedQueue {
    /// Takes the pointers of a new queue and initialises its status block, as software must do
    /// before the first command (nic.md 2.2). Returns `None` if a pointer is null or the size is
    /// invalid.
    pub(crate) fn new(cq: &cxi_cq) -> Option<Self> {
        let slots = cq.size as usize;
        if slots <= C_CQ_FIRST_WR_PTR as usize || slots > 65536 || !slots.is_multiple_of(4) {
            return None;
        }
        // SAFETY: both members of the union point to the start of the command memory.
        let commands = unsafe { cq.__bindgen_anon_1.cmds32 };
        let queue = Self {
            commands: NonNull::new(commands.cast())?,
            bytes: slots * 64,
            doorbell: NonNull::new(cq.wp_addr)?,
            ll_64: NonNull::new(cq.ll_64.cast())?,
            ll_128_aligned: NonNull::new(cq.ll_128a.cast())?,
            ll_128_unaligned: NonNull::new(cq.ll_128u.cast())?,
        };
        let mut status = CqStatus::new();
        status.set_rd_ptr(C_CQ_FIRST_WR_PTR as u16);
        status.set_return_code(C_RC_OK as u8);
        queue.status_word().store(u64::from_le_bytes(*status.bytes()), Ordering::Relaxed);
        Some(queue)
    }

    /// The address of the status block.
    pub(crate) fn status_block(&self) -> NonNull<u64> {
        self.commands.cast()
    }

    fn status_word(&self) -> &AtomicU64 {
        // SAFETY: libcxi maps the command memory page-aligned as long as the queue; it begins with
        // the 8 bytes of the status block, which the CPU accesses only through atomics.
        unsafe { AtomicU64::from_ptr(self.commands.as_ptr().cast()) }
    }
}

impl Bus for MappedQueue {
    /// Loads with acquire ordering: stores to slots that the read pointer has passed are not moved
    /// before the load.
    #[inline]
    fn status(&self) -> CqStatus {
        CqStatus::from_bytes(self.status_word().load(Ordering::Acquire).to_le_bytes())
    }

    #[inline]
    fn write_ring(&mut self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.bytes);
        let to = self.commands.as_ptr().wrapping_add(offset);
        // SAFETY: the cursors of `Ring` keep the range inside the queue and beyond the write
        // pointer up to which the NIC reads; a slice of the caller cannot overlap memory mapped by
        // libcxi.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    #[inline]
    fn write_ring_words<const WORDS: usize>(&mut self, offset: usize, words: &[u64; WORDS]) {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 * WORDS <= self.bytes);
        let to: *mut u64 = self.commands.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the cursors of `Ring` keep the range inside the queue and beyond the write
        // pointer up to which the NIC reads; an array of the caller cannot overlap memory mapped by
        // libcxi.
        unsafe { to.copy_from_nonoverlapping(words.as_ptr(), WORDS) };
    }

    #[inline]
    fn read_ring(&self, offset: usize) -> u64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes);
        let from: *const u64 = self.commands.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the cursors of `Ring` keep the offset inside the queue; the NIC does not write
        // the ring, so no write races with this read.
        unsafe { from.read() }
    }

    #[inline]
    fn before_launch(&mut self) {
        fence::before_launch();
    }

    #[inline]
    fn store64(&mut self, window: LaunchWindow, offset: usize, value: u64) {
        debug_assert!(offset.is_multiple_of(8) && offset < 1024);
        let start = match window {
            LaunchWindow::Doorbell => self.doorbell,
            LaunchWindow::Ll64 => self.ll_64,
            LaunchWindow::Ll128Aligned => self.ll_128_aligned,
            LaunchWindow::Ll128Unaligned => self.ll_128_unaligned,
        };
        let to = start.as_ptr().wrapping_byte_add(offset);
        // SAFETY: libcxi keeps the launch page, which holds the window, mapped as long as the
        // queue. The store is volatile, so the compiler neither splits, repeats nor reorders it.
        unsafe { to.write_volatile(value) };
    }

    #[inline]
    fn after_launch(&mut self) {
        fence::after_launch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::tests::has_store_fence;

    #[test]
    fn emits_fence_instruction_before_launch() {
        assert!(has_store_fence(MappedQueue::before_launch));
    }

    #[test]
    fn emits_fence_instruction_after_launch() {
        assert!(has_store_fence(MappedQueue::after_launch));
    }

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
            assert_eq!(Ring::new(slots).free(FIRST_HALF_SLOT), 2 * slots - 10);
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
