//! The way from a producer to its command queue: ring memory, launch page, fences.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::CqStatus;
use cxi_sys::{C_CQ_FIRST_WR_PTR, C_RC_OK, cxi_cq};

use crate::fence;

/// A window of the launch page (nic.md 2.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Window {
    /// The write pointer.
    Doorbell,
    /// One slot, at any position.
    Ll64,
    /// Two slots, from an even position.
    Ll128Aligned,
    /// Two slots after a padding slot at an odd position.
    Ll128Unaligned,
}

/// What a producer does to the outside. The tests record it and check its order.
pub(crate) trait Bus {
    /// The status block that the NIC writes.
    fn status(&self) -> CqStatus;
    /// Copies `bytes` into the ring, `offset` bytes from the start of the queue.
    fn write_ring(&mut self, offset: usize, bytes: &[u8]);
    /// Reads back 8 bytes of the ring, `offset` bytes from the start of the queue.
    fn read_ring(&self, offset: usize) -> u64;
    /// Ring stores before launch-page stores.
    fn before_launch(&mut self);
    /// One 64-bit store, `offset` bytes from the start of the window.
    fn store64(&mut self, window: Window, offset: usize, value: u64);
    /// Launch-page stores out of the write-combining buffer.
    fn after_launch(&mut self);
}

/// The command queue as libcxi mapped it. Alive as long as the `cxi_cq`.
pub(crate) struct MappedQueue {
    commands: NonNull<u8>,
    bytes: usize,
    doorbell: NonNull<u64>,
    ll_64: NonNull<u64>,
    ll_128_aligned: NonNull<u64>,
    ll_128_unaligned: NonNull<u64>,
}

impl MappedQueue {
    /// The pointers of a fresh queue, and its status block as software has to set it
    /// before the first command (nic.md 2.2). `None` if the library left a pointer out
    /// or gave a size that no queue has.
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
        queue
            .status_word()
            .store(u64::from_le_bytes(*status.bytes()), Ordering::Relaxed);
        Some(queue)
    }

    fn status_word(&self) -> &AtomicU64 {
        // SAFETY: the command memory begins with the 8 bytes of the status block, page
        // aligned, and they are only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.commands.as_ptr().cast()) }
    }
}

impl Bus for MappedQueue {
    /// Acquire: the slots that the read pointer passed are not written before it was read.
    #[inline]
    fn status(&self) -> CqStatus {
        CqStatus::from_bytes(self.status_word().load(Ordering::Acquire).to_le_bytes())
    }

    #[inline]
    fn write_ring(&mut self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset + bytes.len() <= self.bytes);
        let to = self.commands.as_ptr().wrapping_add(offset);
        // SAFETY: the cursors of `Ring` stay inside the queue, and the NIC does not read
        // behind the pointer it was told; the source is ordinary memory elsewhere.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    #[inline]
    fn read_ring(&self, offset: usize) -> u64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes);
        let from: *const u64 = self.commands.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the cursors of `Ring` stay inside the queue; only software writes the ring.
        unsafe { from.read() }
    }

    #[inline]
    fn before_launch(&mut self) {
        fence::before_launch();
    }

    #[inline]
    fn store64(&mut self, window: Window, offset: usize, value: u64) {
        debug_assert!(offset.is_multiple_of(8) && offset < 1024);
        let start = match window {
            Window::Doorbell => self.doorbell,
            Window::Ll64 => self.ll_64,
            Window::Ll128Aligned => self.ll_128_aligned,
            Window::Ll128Unaligned => self.ll_128_unaligned,
        };
        let to = start.as_ptr().wrapping_byte_add(offset);
        // SAFETY: the window lies in the launch page, which is mapped as long as the queue;
        // the store is volatile, so it happens once, whole, and in order with the others.
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
    fn the_fence_before_a_launch_is_an_instruction() {
        assert!(has_store_fence(MappedQueue::before_launch));
    }

    #[test]
    fn the_fence_after_a_launch_is_an_instruction() {
        assert!(has_store_fence(MappedQueue::after_launch));
    }
}
