//! Packets taken out of their ring before they are due.
//!
//! On a link with latency many packets are in flight, and a ring has few cells. So the receiver
//! moves packets that are not due from a ring that fills up into private memory.
//!
//! On a fabric of switches, answers do not queue behind requests, nor acknowledgements behind data:
//! each kind is in order by itself. Then packets that are not due leave the ring at once, because
//! one behind them may be due before.

use std::collections::VecDeque;

use super::port::{CELLS, LANES, Port, TIMED};
use crate::engine::location::copy;
use crate::engine::packet::{MTU, Packet, PacketKind};
use crate::engine::wire::ReceivedPacket;

/// The most packets kept for one lane, 8 MiB of payload. With more the ring stays full, and its
/// sender waits.
const MOST: usize = 4096;

struct Early {
    due: u64,
    packet: Packet,
    payload: Box<[u8]>,
}

/// Kinds of packets with an order of their own: requests, data of answers, and acknowledgements.
const KINDS: usize = 3;

/// The packets of a lane, by kind.
struct LanePackets {
    queues: [VecDeque<Early>; KINDS],
    /// The kind of the next packet.
    next: usize,
}

impl LanePackets {
    const EMPTY: Self = Self { queues: [const { VecDeque::new() }; KINDS], next: 0 };

    fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}

/// The packets that are kept, in order for each lane.
pub struct EarlyPackets {
    lanes: [LanePackets; LANES],
    /// Lanes with packets, one bit each.
    in_use: u64,
    /// Whether packets of different kinds overtake each other.
    overtake: bool,
}

impl EarlyPackets {
    /// Makes the store, without any packet. `overtake` is whether packets of different kinds
    /// overtake each other.
    pub fn new(overtake: bool) -> Self {
        Self { lanes: [LanePackets::EMPTY; LANES], in_use: 0, overtake }
    }

    /// Whether the next packet of a lane is kept here, not in its ring.
    #[inline]
    pub fn has(&self, lane: usize) -> bool {
        self.in_use & 1 << lane != 0
    }

    /// Empties the ring of a lane if it is half full, or if packets overtake each other. `head` is
    /// the position of its next packet. Returns the new position, to which the caller releases the
    /// ring.
    pub fn take_from_ring(&mut self, port: &Port, lane: usize, mut head: u32) -> u32 {
        let half = head.wrapping_add(CELLS / 2);
        if !self.overtake && port.first_word(lane, half).is_none() {
            return head;
        }
        while self.lanes[lane].len() < MOST
            && let Some(first) = port.first_word(lane, head)
            // A NIC without a link model shares cells and sends longer packets.
            && first & TIMED != 0
        {
            let mut packet = Packet::default();
            let is_valid = port.read(lane, head, first, &mut packet);
            let length = if packet.inline { 0 } else { usize::from(packet.length) };
            // Packets on a link are not longer: what is kept stays within its limit.
            if is_valid && length <= MTU {
                let mut payload = vec![0; length].into_boxed_slice();
                // SAFETY: a cell has room for the payload of any packet that `read` accepts,
                // and the box has `length` bytes.
                unsafe { copy(port.cell_payload(lane, head), payload.as_mut_ptr(), length) };
                let due = port.due(lane, head, first);
                let kind = match packet.kind {
                    PacketKind::Reply if self.overtake => 1,
                    PacketKind::Response if self.overtake => 2,
                    _ => 0,
                };
                self.lanes[lane].queues[kind].push_back(Early { due, packet, payload });
                self.in_use |= 1 << lane;
            }
            head = head.wrapping_add(1);
        }
        head
    }

    /// Makes the packet the next one of a lane that is due first.
    pub fn choose(&mut self, lane: usize) {
        let kept = &mut self.lanes[lane];
        let firsts = kept.queues.iter().enumerate();
        let dues = firsts.filter_map(|(kind, queue)| Some((queue.front()?.due, kind)));
        kept.next = dues.min().map_or(0, |(_, kind)| kind);
    }

    /// Returns the next packet of a lane, and when it is due.
    pub fn first(&self, lane: usize) -> Option<(&Packet, u64)> {
        let early = self.next_of(lane)?;
        Some((&early.packet, early.due))
    }

    fn next_of(&self, lane: usize) -> Option<&Early> {
        let kept = &self.lanes[lane];
        kept.queues[kept.next].front()
    }

    /// Puts the next packet of a lane into `arrival`; false if there is none. It stays until
    /// [`EarlyPackets::release`].
    pub fn next(&self, lane: usize, arrival: &mut ReceivedPacket) -> bool {
        let Some(early) = self.next_of(lane) else {
            return false;
        };
        arrival.packet = early.packet;
        arrival.payload = early.payload.as_ptr();
        true
    }

    /// Drops the next packet of a lane.
    pub fn release(&mut self, lane: usize) {
        let kept = &mut self.lanes[lane];
        kept.queues[kept.next].pop_front();
        if kept.len() == 0 {
            self.in_use &= !(1 << lane);
        }
    }
}
