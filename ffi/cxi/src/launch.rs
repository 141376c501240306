//! Places commands in the ring and hands them to the NIC: by doorbell (nic.md 2.7) or through the
//! low-latency windows (nic.md 2.8).

use cxi_sys::C_CMD_SIZE_256B;
use cxi_sys::records::CmdHeader;

use crate::bus::{Bus, LaunchWindow, Ring};
use crate::error::EmitError;

/// Bytes of a half-slot.
const HALF: usize = 32;

/// The producer side of one command queue.
pub(crate) struct Producer<B> {
    pub(crate) ring: Ring,
    pub(crate) bus: B,
    /// Header of the NOOPs that pad the ring: of a half-slot, or of a slot on a trigger queue
    /// (nic.md 2.6).
    pub(crate) noop: CmdHeader,
}

impl<B: Bus> Producer<B> {
    /// Writes a command of `halves` half-slots (1, 2, 4 or 8), made of `command` and `payload`, at
    /// or after half-slot `wp`. Returns the half-slot after it. Without room nothing is written.
    #[inline]
    pub(crate) fn write_command(
        &mut self,
        wp: u32,
        halves: u32,
        command: &[u8],
        payload: &[u8],
    ) -> Result<u32, EmitError> {
        let at = self.place(wp, halves)?;
        self.write(at, 0, command);
        self.write(at, command.len(), payload);
        Ok(self.ring.advance(at, halves))
    }

    /// The half-slot of a command of `halves` half-slots at or after `wp`. The half-slots skipped
    /// become NOOPs. Without room nothing is written.
    #[inline]
    fn place(&mut self, wp: u32, halves: u32) -> Result<u32, EmitError> {
        let padding = Ring::padding(wp, halves);
        let bus = &self.bus;
        if self.ring.usable(wp, || bus.status().rd_ptr()) < padding + halves {
            return Err(EmitError::QueueFull);
        }
        let length = 1 << self.noop.cmd_size();
        for skipped in (0..padding).step_by(length) {
            self.write_noop(wp + skipped);
        }
        Ok(self.ring.advance(wp, padding))
    }

    /// Copies `bytes` to byte `offset` of the command at half-slot `at`.
    #[inline]
    fn write(&mut self, at: u32, offset: usize, bytes: &[u8]) {
        self.bus.write_ring(at as usize * HALF + offset, bytes);
    }

    /// Makes half-slot `at` a NOOP. The NIC reads only its first 8 bytes (nic.md 2.6).
    #[inline]
    fn write_noop(&mut self, at: u32) {
        let mut bytes = [0; 8];
        bytes[0] = self.noop.bytes()[0];
        self.write(at, 0, &bytes);
    }

    /// Hands the commands up to `wp` to the NIC by doorbell.
    #[inline]
    pub(crate) fn doorbell(&mut self) {
        if self.ring.wp == self.ring.hw_wp {
            return;
        }
        self.fill_slot();
        self.bus.before_launch();
        self.ring.hw_wp = self.ring.wp;
        let slot = u64::from(self.ring.wp / 2);
        self.bus.store64(LaunchWindow::Doorbell, 0, slot);
        self.bus.after_launch();
    }

    /// Hands the first one or two slots to the NIC through a window, if the rules allow it, and the
    /// rest by doorbell. The commands remain in the ring.
    #[inline]
    pub(crate) fn low_latency(&mut self) {
        let at = self.ring.hw_wp;
        if self.ring.wp == at {
            return;
        }
        if self.is_256_bytes(at) {
            return self.doorbell();
        }
        self.fill_slot();
        // Half-slots to launch before the end of the ring.
        let pending = if self.ring.wp > at { self.ring.wp - at } else { self.ring.size32() - at };
        if pending == 2 {
            self.launch(LaunchWindow::Ll64, at, 1);
        } else if at.is_multiple_of(4) {
            self.launch(LaunchWindow::Ll128Aligned, at, 2);
        } else if self.header(at).opcode() != 0 {
            self.launch(LaunchWindow::Ll64, at, 1);
        } else if pending < 6 || self.is_256_bytes(at + 2) {
            // With fewer than 6 half-slots, the NOOP in this odd slot is not padding but a command
            // before a single slot. Two slots after it would exceed `wp`.
            return self.doorbell();
        } else {
            self.launch(LaunchWindow::Ll128Unaligned, at + 2, 2);
        }
        self.doorbell();
    }

    /// Writes one command of `WORDS` words (4, 8, 16 or 32) and hands it to the NIC, through a
    /// window if `low_latency` and the rules allow it. All earlier commands must have been handed
    /// over, and NOOPs must take half a slot. Without room nothing is written.
    ///
    /// The effect equals writing the command and handing it over in two steps, but the window is
    /// filled from `command` and not from the ring.
    #[inline]
    pub(crate) fn issue<const WORDS: usize>(
        &mut self,
        command: &[u64; WORDS],
        low_latency: bool,
    ) -> Result<(), EmitError> {
        let (at, halves) = (self.ring.wp, WORDS as u32 / 4);
        debug_assert!(at == self.ring.hw_wp && self.noop == CmdHeader::new());
        if Ring::padding(at, halves) != 0 {
            return self.issue_after_padding(command, low_latency);
        }
        let bus = &self.bus;
        if self.ring.usable(at, || bus.status().rd_ptr()) < halves {
            return Err(EmitError::QueueFull);
        }
        let offset = at as usize * HALF;
        self.bus.write_ring_words(offset, command);
        if WORDS == 4 {
            self.bus.write_ring_words(offset + HALF, &[0]);
        }
        let next = self.ring.advance(at, halves.max(2));
        self.bus.before_launch();
        if low_latency && WORDS <= 16 {
            let window = if WORDS == 16 { LaunchWindow::Ll128Aligned } else { LaunchWindow::Ll64 };
            let to = window_offset(at);
            for (index, &word) in command.iter().enumerate() {
                self.bus.store64(window, to + 8 * index, word);
            }
            for index in WORDS..8 {
                self.bus.store64(window, to + 8 * index, 0);
            }
        } else {
            self.bus.store64(LaunchWindow::Doorbell, 0, u64::from(next / 2));
        }
        self.bus.after_launch();
        (self.ring.wp, self.ring.hw_wp) = (next, next);
        Ok(())
    }

    /// Issues a command that does not fit the current half-slot: the first one after shorter ones.
    #[cold]
    fn issue_after_padding<const WORDS: usize>(
        &mut self,
        command: &[u64; WORDS],
        low_latency: bool,
    ) -> Result<(), EmitError> {
        let halves = WORDS as u32 / 4;
        let at = self.place(self.ring.wp, halves)?;
        self.bus.write_ring_words(at as usize * HALF, command);
        self.ring.wp = self.ring.advance(at, halves);
        if low_latency {
            self.low_latency();
        } else {
            self.doorbell();
        }
        Ok(())
    }

    /// Fills the second half of a slot with a NOOP, because the NIC counts in slots.
    #[inline]
    fn fill_slot(&mut self) {
        if !self.ring.wp.is_multiple_of(2) {
            self.write_noop(self.ring.wp);
            self.ring.wp = self.ring.advance(self.ring.wp, 1);
        }
    }

    /// Copies `slots` slots from half-slot `at` on into `window`, in ascending order, so that write
    /// combining produces one bus write.
    #[inline]
    fn launch(&mut self, window: LaunchWindow, at: u32, slots: u32) {
        let from = at as usize * HALF;
        let to = window_offset(at);
        self.bus.before_launch();
        for offset in (0..slots as usize * 64).step_by(8) {
            let value = self.bus.read_ring(from + offset);
            self.bus.store64(window, to + offset, value);
        }
        self.ring.hw_wp = self.ring.advance(at, 2 * slots);
        self.bus.after_launch();
    }

    #[inline]
    fn header(&self, at: u32) -> CmdHeader {
        CmdHeader::from_bytes([self.bus.read_ring(at as usize * HALF) as u8])
    }

    #[inline]
    fn is_256_bytes(&self, at: u32) -> bool {
        u32::from(self.header(at).cmd_size()) == C_CMD_SIZE_256B
    }
}

/// The place in a window of the slot at half-slot `at`, in bytes.
#[inline]
fn window_offset(at: u32) -> usize {
    (at as usize / 2 % 16) * 64
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
