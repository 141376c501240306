//! A NIC's connection to the fabric as the wire of its engine.

use std::sync::atomic::{Ordering, fence};

use super::directory::is_owned;
use super::port::{LANES, TIMED};
use super::receive::SOON;
use super::{Fabric, gathered, link_time};
use crate::engine::location::copy;
use crate::engine::packet::{MTU, Packet, SEGMENT};
use crate::engine::return_codes::{ErrorFlag, Raise};
use crate::engine::wire::{PeerId, ReceivedPacket, Wire};
use crate::engine::{Amo, ReturnCode};

impl Wire for Fabric {
    /// A link carries packets of its own size; without a model, packets are as long as cells.
    #[inline]
    fn most_payload(&self) -> usize {
        if self.link.is_some() { MTU } else { SEGMENT }
    }

    #[inline]
    fn refusal(&self) -> Option<ReturnCode> {
        self.link.as_ref().and_then(|link| link.refusal())
    }

    #[inline]
    fn executed(&self, amo: Amo) -> Result<Amo, ReturnCode> {
        self.fetch_add.replacement(amo)
    }

    fn raise(&self, flag: ErrorFlag) {
        if let Some(errors) = &self.errors {
            errors.raise(flag);
        }
    }

    #[inline]
    fn has_page_costs(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.has_page_costs())
    }

    fn note_write(&mut self, pages: u64, is_huge: bool) {
        let link = self.link.as_mut();
        if let Some(side) = link.and_then(|link| link.reception.as_mut()) {
            side.note_write(pages, is_huge);
        }
    }

    #[inline]
    fn walk(&self, entries: usize) {
        if let Some(link) = &self.link {
            link.walk(entries);
        }
    }

    #[inline]
    fn count_command(&mut self) {
        if let Some(link) = &mut self.link {
            link.count_command();
        }
    }

    #[inline]
    fn resolve(&mut self, nid: u32, vni: u16, pid: u16) -> Result<PeerId, ReturnCode> {
        for route in &self.routes {
            if (route.nid, route.vni, route.pid) == (nid, vni, pid)
                && let Some(remote) = &self.remotes[route.peer]
                && remote.port.serves(route.row, route.vnis, pid)
            {
                return Ok(route.peer);
            }
        }
        self.look_up(nid, vni, pid)
    }

    #[inline]
    unsafe fn send(&mut self, to: PeerId, packet: &Packet, payload: *const u8) -> bool {
        let Some(Some(remote)) = self.remotes.get_mut(to) else {
            return false;
        };
        if !remote.has_room() {
            return false;
        }
        if self.link.is_none()
            && let Some(response) = gathered::pack(packet)
        {
            if remote.gathered.add(response) {
                remote.send_gathered(self.instance);
            }
            remote.touched = true;
            self.sent.count_response();
            return true;
        }
        remote.send_gathered(self.instance);
        if !remote.has_room() {
            return false;
        }
        if !packet.inline && packet.length > 0 {
            let cell = remote.port.cell_payload(remote.lane, remote.head);
            // SAFETY: the caller guarantees the payload; a cell has room for the payload of any
            // packet, and belongs to this NIC until it is published.
            unsafe { copy(payload, cell, usize::from(packet.length)) };
        }
        let mut words = match &mut self.link {
            None => packet.to_words(),
            Some(link) => {
                let mut packet = *packet;
                let due = link.send(&mut packet, payload.addr(), remote.nid);
                if let Some(place) = link.changed_byte(&packet) {
                    let cell = remote.port.cell_payload(remote.lane, remote.head);
                    // SAFETY: the place is within the payload, which is in the cell unless it is
                    // inline; the cell belongs to this NIC until it is published.
                    unsafe { change_byte(&mut packet, cell, place) };
                }
                let place = remote.port.cell_due(remote.lane, remote.head);
                place.store(due, Ordering::Relaxed);
                let mut words = packet.to_words();
                words[0] |= TIMED;
                words
            }
        };
        words[1] = self.instance;
        for (index, word) in words.iter().enumerate().skip(1) {
            remote.port.cell_word(remote.lane, remote.head, index).store(*word, Ordering::Relaxed);
        }
        remote.publish(words[0]);
        remote.touched = true;
        self.sent.count(packet);
        true
    }

    #[inline]
    fn receive(&mut self, arrival: &mut ReceivedPacket) -> bool {
        self.next_due = None;
        let claimed = self.port.lanes().load(Ordering::Acquire).rotate_right(self.turn);
        let mut rest = claimed;
        while rest != 0 {
            let lane = (rest.trailing_zeros() + self.turn) % LANES as u32;
            rest &= rest - 1;
            let turn = (lane + 1) % LANES as u32;
            let lane = lane as usize;
            let arrived = if !self.inbound[lane].responses.is_empty() {
                self.receive_response(lane, &mut arrival.packet);
                true
            } else if self.early.has(lane) {
                self.receive_early(lane, arrival)
            } else {
                self.receive_cell(lane, arrival)
            };
            if arrived {
                arrival.lane = lane;
                self.turn = turn;
                if let Some(link) = &self.link {
                    link.receive(&mut arrival.packet);
                }
                return true;
            }
        }
        false
    }

    #[inline]
    fn count_received(&mut self, packet: &Packet) {
        self.received.count(packet);
    }

    #[inline]
    fn sender(&mut self, lane: usize, source: u64) -> Option<PeerId> {
        match self.inbound[lane].sender {
            Some((known, peer)) if known == source => Some(peer),
            _ => self.identify(lane, source),
        }
    }

    fn nid(&self, peer: Option<PeerId>) -> u32 {
        let remote = peer.and_then(|peer| self.remotes.get(peer)?.as_ref());
        remote.map_or(self.nid, |remote| remote.nid)
    }

    #[inline]
    fn release(&mut self, lane: usize) {
        let responses = &mut self.inbound[lane].responses;
        if !responses.is_empty() {
            responses.advance();
            if !responses.is_empty() {
                return;
            }
        } else if self.early.has(lane) {
            return self.early.release(lane);
        }
        let head = self.inbound[lane].head.wrapping_add(1);
        self.release_to(lane, head);
    }

    fn is_about_to_receive(&self) -> bool {
        self.next_due.is_some_and(|due| due <= link_time::now() + SOON)
    }

    /// A NIC that is gone counts as alive while packets from it remain to be delivered.
    fn is_alive(&mut self, peer: PeerId) -> bool {
        let Some(Some(remote)) = self.remotes.get(peer) else {
            return false;
        };
        is_owned(&remote.file) || self.has_packet_of(remote.instance)
    }

    fn forget(&mut self, peer: PeerId) {
        self.routes.retain(|route| route.peer != peer);
        for inbound in &mut self.inbound {
            inbound.sender = inbound.sender.filter(|(_, sender)| *sender != peer);
        }
        if let Some(remote) = self.remotes.get_mut(peer) {
            *remote = None;
        }
    }

    #[inline]
    fn flush(&mut self) {
        let (mut fenced, instance) = (false, self.instance);
        for remote in self.remotes.iter_mut().flatten().filter(|remote| remote.touched) {
            remote.touched = false;
            remote.send_gathered(instance);
            // Orders the packets and the released cells before the load of `parked`, as the sleeper
            // orders its store to `parked` before its last poll: one of the two sees the other.
            if !fenced {
                fence(Ordering::SeqCst);
                fenced = true;
            }
            remote.port.wake();
            self.shares_cpu = self.port.shares_cpu_with(&remote.port);
        }
    }
}

/// Inverts the byte at `place` of the payload, which is in `packet` if it is inline, or else in
/// `cell`.
///
/// # Safety
/// Unless the payload is inline, the byte at `place` of `cell` is valid, and nothing else accesses
/// it.
#[cold]
unsafe fn change_byte(packet: &mut Packet, cell: *mut u8, place: usize) {
    if packet.inline {
        packet.tail[place / 8] ^= 0xff << (place % 8 * 8);
        return;
    }
    // SAFETY: the caller guarantees that the place is within the cell.
    let byte = unsafe { cell.add(place) };
    // SAFETY: the caller guarantees a valid byte that nothing else accesses.
    let inverted = unsafe { !byte.read() };
    // SAFETY: the caller guarantees a valid byte; the load before has ended.
    unsafe { byte.write(inverted) };
}
