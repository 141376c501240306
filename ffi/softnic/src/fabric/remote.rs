//! The sending end of a lane.

use std::fs::File;
use std::sync::atomic::Ordering;

use super::gathered::GatheredResponses;
use super::port::{CELLS, Port};
use crate::prefetch;

/// Cells between the one that is written and the one whose cache line is requested meanwhile.
const AHEAD: u32 = 4;

/// A port that this NIC sends to.
pub struct Remote {
    pub port: Port,
    pub nid: u32,
    /// The file, opened by this process to check whether the owner is alive.
    pub file: File,
    pub instance: u64,
    pub lane: usize,
    /// Position of the next packet.
    pub head: u32,
    /// Number of packets that the reader had released when last checked.
    pub tail: u32,
    /// Something was sent, or half a ring released, since the last flush.
    pub touched: bool,
    pub gathered: GatheredResponses,
}

impl Remote {
    /// Whether a cell is free.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.head.wrapping_sub(self.tail) < CELLS {
            return true;
        }
        self.tail = self.port.tail(self.lane).load(Ordering::Acquire);
        self.head.wrapping_sub(self.tail) < CELLS
    }

    /// Publishes the cell at the head, whose other words are written: `first` is its first word
    /// without sequence number.
    #[inline]
    pub fn publish(&mut self, first: u64) {
        let position = self.head;
        self.head = position.wrapping_add(1);
        self.port
            .cell_word(self.lane, position, 0)
            .store(first | u64::from(self.head), Ordering::Release);
        let ahead = position.wrapping_add(AHEAD);
        prefetch::to_write(self.port.cell_word(self.lane, ahead, 0));
    }

    /// Sends the gathered responses of NIC `instance`, if there are any. There is a free cell for
    /// them.
    #[inline]
    pub fn send_gathered(&mut self, instance: u64) {
        if self.gathered.is_empty() {
            return;
        }
        let first = self.gathered.write(&self.port, self.lane, self.head);
        self.port.cell_word(self.lane, self.head, 1).store(instance, Ordering::Relaxed);
        self.publish(first);
    }
}
