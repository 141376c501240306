//! Packets taken out of their ring before they are due.
//!
//! On a link with latency many packets are in flight, and a ring has few cells. So the receiver
//! moves packets that are not due from a ring that fills up into private memory.

use std::collections::VecDeque;

use super::port::{CELLS, LANES, Port, TIMED};
use crate::engine::bytes::copy;
use crate::engine::packet::{MTU, Packet};
use crate::engine::wire::Arrival;

/// The most packets kept for one lane, 8 MiB of payload. With more the ring stays full, and its
/// sender waits.
const MOST: usize = 4096;

struct Early {
    due: u64,
    packet: Packet,
    payload: Box<[u8]>,
}

/// The packets that are kept, in order for each lane.
pub struct EarlyPackets {
    lanes: [VecDeque<Early>; LANES],
    /// Lanes with packets, one bit each.
    in_use: u64,
}

impl EarlyPackets {
    /// Makes the store, without any packet.
    pub fn new() -> Self {
        Self {
            lanes: [const { VecDeque::new() }; LANES],
            in_use: 0,
        }
    }

    /// Whether the next packet of a lane is kept here, not in its ring.
    #[inline]
    pub fn has(&self, lane: usize) -> bool {
        self.in_use & 1 << lane != 0
    }

    /// Empties the ring of a lane if it is half full. `head` is the position of its next packet.
    /// Returns the new position, to which the caller releases the ring.
    pub fn take_from_ring(&mut self, port: &Port, lane: usize, mut head: u32) -> u32 {
        if port
            .first_word(lane, head.wrapping_add(CELLS / 2))
            .is_none()
        {
            return head;
        }
        while self.lanes[lane].len() < MOST
            && let Some(first) = port.first_word(lane, head)
            // A NIC without a link model shares cells and sends longer packets.
            && first & TIMED != 0
        {
            let mut packet = Packet::default();
            let is_valid = port.read(lane, head, first, &mut packet);
            let length = if packet.inline {
                0
            } else {
                usize::from(packet.length)
            };
            // Packets on a link are not longer: what is kept stays within its limit.
            if is_valid && length <= MTU {
                let mut payload = vec![0; length].into_boxed_slice();
                // SAFETY: a cell has room for the payload of any packet that `read` accepts,
                // and the box has `length` bytes.
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
        head
    }

    /// Returns the next packet of a lane, and when it is due.
    pub fn first(&self, lane: usize) -> Option<(&Packet, u64)> {
        let early = self.lanes[lane].front()?;
        Some((&early.packet, early.due))
    }

    /// Puts the next packet of a lane into `arrival`; false if there is none. It stays until
    /// [`EarlyPackets::release`].
    pub fn next(&self, lane: usize, arrival: &mut Arrival) -> bool {
        let Some(early) = self.lanes[lane].front() else {
            return false;
        };
        arrival.packet = early.packet;
        arrival.payload = early.payload.as_ptr();
        true
    }

    /// Drops the next packet of a lane.
    pub fn release(&mut self, lane: usize) {
        self.lanes[lane].pop_front();
        if self.lanes[lane].is_empty() {
            self.in_use &= !(1 << lane);
        }
    }
}
