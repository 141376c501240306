//! Packets taken out of their ring before their time.
//!
//! On a link with a latency many packets are under way, and a ring has few cells. So the receiver empties a ring that
//! fills up while its packets are not due, and keeps them in memory of its own.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::port::{CELLS, LANES, Port};
use crate::engine::memory::copy;
use crate::engine::packet::{Arrival, Packet};

/// Most packets kept for one lane, 8 MiB of payload. Beyond it the ring stays full, and its sender waits.
const MOST: usize = 4096;

struct Early {
    due: u64,
    packet: Packet,
    payload: Box<[u8]>,
}

/// The packets that are kept, in their order in each lane.
pub struct Earlies {
    lanes: [VecDeque<Early>; LANES],
    /// Lanes of which there are any, one bit each.
    in_use: u64,
}

impl Earlies {
    pub fn new() -> Self {
        Self {
            lanes: [const { VecDeque::new() }; LANES],
            in_use: 0,
        }
    }

    /// Whether the next packet of a lane is here, and not in its ring.
    #[inline]
    pub fn has(&self, lane: usize) -> bool {
        self.in_use & 1 << lane != 0
    }

    /// Empties the ring of a lane if it is half full. `head` is the position of its next packet; answers where it is
    /// then.
    pub fn take_in(&mut self, port: &Port, lane: usize, mut head: u32) -> u32 {
        if port
            .first_word(lane, head.wrapping_add(CELLS / 2))
            .is_none()
        {
            return head;
        }
        while self.lanes[lane].len() < MOST
            && let Some(first) = port.first_word(lane, head)
        {
            if let Some(packet) = Packet::from_words(port.header(lane, head, first)) {
                let length = match packet.inline {
                    true => 0,
                    false => usize::from(packet.length),
                };
                let mut payload = vec![0; length].into_boxed_slice();
                // SAFETY: a cell holds the payload of any packet that `from_words` lets pass, and the box as much.
                unsafe { copy(port.cell_payload(lane, head), payload.as_mut_ptr(), length) };
                let due = port.due(lane, head, first);
                self.lanes[lane].push_back(Early {
                    due,
                    packet,
                    payload,
                });
                self.in_use |= 1 << lane;
            }
            head = head.wrapping_add(1);
        }
        port.tail(lane).store(head, Ordering::Release);
        head
    }

    /// When the next packet of a lane is due.
    pub fn due(&self, lane: usize) -> Option<u64> {
        Some(self.lanes[lane].front()?.due)
    }

    /// The next packet of a lane. It stays until [`Earlies::release`].
    pub fn next(&self, lane: usize) -> Option<Arrival> {
        let early = self.lanes[lane].front()?;
        Some(Arrival {
            packet: early.packet,
            payload: early.payload.as_ptr(),
            lane,
        })
    }

    pub fn release(&mut self, lane: usize) {
        self.lanes[lane].pop_front();
        if self.lanes[lane].is_empty() {
            self.in_use &= !(1 << lane);
        }
    }
}
