//! The receiving ends of the lanes: packets in the own port, taken when they are due.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::gathered::{self, Unread};
use super::port::{CELLS, LANES};
use super::reception::Load;
use super::{Fabric, link_time};
use crate::engine::packet::Packet;
use crate::engine::wire::{ReceivedPacket, Wire};

/// Nanoseconds before the due time of a packet in which threads poll instead of sleeping.
pub const SOON: u64 = 100_000;

impl Fabric {
    /// Whether the next packet of a lane, whose first word this is, is due.
    #[cold]
    fn is_due(&mut self, lane: usize, first: u64) -> bool {
        let head = self.inbound[lane].head;
        let due = self.port.due(lane, head, first);
        let is_delivered = self.is_delivered(lane, due, |fabric| fabric.load(lane, first));
        if !is_delivered {
            self.take_early(lane);
        }
        is_delivered
    }

    /// Returns what the next cell of a lane, whose first word this is, has for the receiving side.
    fn load(&self, lane: usize, first: u64) -> Load {
        let responses = Unread::of(first);
        if !responses.is_empty() {
            return Load::from_responses(responses);
        }
        let mut packet = Packet::default();
        self.port.read(lane, self.inbound[lane].head, first, &mut packet);
        Load::from_packet(&packet)
    }

    /// Whether receiving takes time.
    fn receives_slowly(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.reception.is_some())
    }

    /// Whether the next packet of a lane, which arrives at the time `due`, has arrived and was
    /// received. A packet without a due time arrives when it is first seen.
    fn is_delivered(&mut self, lane: usize, due: u64, load: impl Fn(&Self) -> Load) -> bool {
        let now = link_time::now();
        let known = self.inbound[lane].delivery;
        let mut at = known.unwrap_or(due);
        if known.is_none() && due <= now && self.receives_slowly() {
            let load = load(self);
            let link = self.link.as_mut();
            if let Some(side) = link.and_then(|link| link.reception.as_mut()) {
                at = side.deliver(load, if due == 0 { now } else { due });
            }
        }
        let is_delivered = at <= now;
        if is_delivered {
            self.inbound[lane].delivery = None;
        } else {
            self.expect(at);
            self.inbound[lane].delivery = (due <= now).then_some(at);
        }
        is_delivered
    }

    /// Takes the next packet of a lane with early packets, if it is due.
    #[cold]
    pub(super) fn receive_early(&mut self, lane: usize, arrival: &mut ReceivedPacket) -> bool {
        self.take_early(lane);
        if self.inbound[lane].delivery.is_none() {
            self.early.choose(lane);
        }
        let Some((packet, due)) = self.early.first(lane) else {
            return false;
        };
        let load = Load::from_packet(packet);
        self.is_delivered(lane, due, |_| load) && self.early.next(lane, arrival)
    }

    /// Empties the ring of a lane as far as [`EarlyPackets`](super::early::EarlyPackets) does.
    fn take_early(&mut self, lane: usize) {
        let head = self.inbound[lane].head;
        let taken = self.early.take_from_ring(&self.port, lane, head);
        if taken != head {
            self.release_to(lane, taken);
            self.flush();
        }
    }

    /// Releases the cells of a lane up to the one at `head`. After each half of the ring the next
    /// flush wakes the sender, which may sleep because the ring was full; with room for one packet
    /// it would soon sleep again.
    #[inline]
    pub(super) fn release_to(&mut self, lane: usize, head: u32) {
        let before = std::mem::replace(&mut self.inbound[lane].head, head);
        self.port.tail(lane).store(head, Ordering::Release);
        if before / (CELLS / 2) != head / (CELLS / 2) {
            self.touch_sender(lane);
        }
    }

    /// Has the next flush wake the sender of a lane.
    #[cold]
    fn touch_sender(&mut self, lane: usize) {
        let owner = self.port.owner(lane).load(Ordering::Acquire);
        let mut remotes = self.remotes.iter_mut().flatten();
        if let Some(sender) = remotes.find(|remote| remote.instance == owner) {
            sender.touched = true;
        }
    }

    /// Takes the next packet from the ring of a lane, if it is due.
    #[inline]
    pub(super) fn receive_cell(&mut self, lane: usize, arrival: &mut ReceivedPacket) -> bool {
        let head = self.inbound[lane].head;
        let Some(first) = self.port.first_word(lane, head) else {
            return false;
        };
        if first & self.waits != 0 && !self.is_due(lane, first) {
            return false;
        }
        self.inbound[lane].responses = Unread::of(first);
        if !self.inbound[lane].responses.is_empty() {
            self.receive_response(lane, &mut arrival.packet);
            return true;
        }
        let is_valid = self.port.read(lane, head, first, &mut arrival.packet);
        arrival.payload = self.port.cell_payload(lane, head);
        if !is_valid {
            // Not written by a NIC of this version: skipped, without harm to other packets.
            self.release(lane);
        }
        is_valid
    }

    /// Takes the next of the responses that share the cell at the head of a lane.
    #[inline]
    pub(super) fn receive_response(&self, lane: usize, packet: &mut Packet) {
        let inbound = &self.inbound[lane];
        let index = inbound.responses.next();
        let word = self.port.cell_word(lane, inbound.head, index);
        gathered::unpack(word.load(Ordering::Relaxed), packet);
    }

    /// Notes the due time of a packet.
    fn expect(&mut self, due: u64) {
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    /// Returns the time until the next received packet is nearly due; `None` without such a packet.
    pub fn time_to_next_packet(&self) -> Option<Duration> {
        let nearly_due = self.next_due?.saturating_sub(SOON);
        let time = nearly_due.saturating_sub(link_time::now());
        Some(Duration::from_nanos(time))
    }

    /// Whether a packet of a NIC remains to be delivered.
    pub(super) fn has_packet_of(&self, instance: u64) -> bool {
        (0..LANES).any(|lane| {
            let head = self.inbound[lane].head;
            self.port.owner(lane).load(Ordering::Acquire) == instance
                && (self.early.has(lane) || self.port.first_word(lane, head).is_some())
        })
    }
}
