//! Received puts, of one packet or of several.

use cxi_sys::*;

use super::bytes::copy;
use super::incoming::IncompletePut;
use super::lists::Landing;
use super::memory::MemoryAccess;
use super::packet::{Packet, PacketKind};
use super::remembered::Remembered;
use super::return_codes::ReturnCode;
use super::state::Engine;
use super::wire::{ReceivedPacket, Wire};

impl<W: Wire> Engine<W> {
    /// Handles a packet of a put.
    #[inline]
    pub fn put(&mut self, arrival: &ReceivedPacket) {
        let packet = &arrival.packet;
        let last = packet.offset + u32::from(packet.length) == packet.carried();
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        if packet.offset == 0 {
            let (landing, mut code) = self.match_operation(peer, packet);
            self.store(arrival, packet, landing.as_ref(), &mut code);
            if last {
                self.finish(peer, packet, landing.as_ref(), code);
                if let (Some(landing), C_RC_OK) = (&landing, code) {
                    self.remember(packet, landing);
                }
            } else {
                self.messages.push(IncompletePut { peer, header: *packet, landing, code });
            }
            return;
        }
        let Some(at) = self.message(packet) else {
            return;
        };
        let IncompletePut { mut header, landing, mut code, .. } = self.messages[at];
        if packet.return_code != 0 && code == C_RC_OK {
            code = packet.return_code.into();
        }
        self.store(arrival, &header, landing.as_ref(), &mut code);
        if last {
            self.messages.swap_remove(at);
            header.is_marked = packet.is_marked;
            self.finish(peer, &header, landing.as_ref(), code);
        } else {
            self.messages[at].code = code;
        }
    }

    /// Remembers the landing of a put of one packet that ended well, unless the wire has to learn
    /// where each put lands.
    fn remember(&mut self, packet: &Packet, landing: &Landing) {
        if self.wire.has_page_costs() {
            return;
        }
        let pte = self.ptes.get(landing.pte);
        self.remembered = pte.and_then(|pte| {
            let lni = self.lnis.get(pte.lni)?;
            Remembered::of(packet, landing, pte, lni)
        });
    }

    /// Handles a put that is like the last one; otherwise does nothing and returns false.
    #[inline]
    pub fn put_like_last(&mut self, arrival: &ReceivedPacket) -> bool {
        let packet = &arrival.packet;
        let Some(last) = &mut self.remembered else {
            return false;
        };
        let Some(place) = last.place(packet) else {
            return false;
        };
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return true;
        };
        if packet.length > 0 {
            let to = std::ptr::with_exposed_provenance_mut(place);
            // SAFETY: the packet has `length` bytes, and as many at `place` are part of the memory
            // of a list entry. Software keeps it mapped while list entries use it, and the call
            // that unmaps it forgets this landing.
            unsafe { copy(arrival.data(), to, usize::from(packet.length)) };
        }
        last.puts += 1;
        self.flushed += u64::from(packet.flush);
        let response = Packet {
            kind: PacketKind::Response,
            class: packet.class,
            tag: packet.tag,
            is_marked: packet.is_marked,
            return_code: C_RC_OK as u8,
            total: packet.total,
            ptl_list: last.ptl_list,
            ..Packet::default()
        };
        self.counters.count_completion(last.counting, packet.total, C_RC_OK, &mut self.eqs);
        self.answer(peer, &response);
        true
    }

    /// Handles the abort of a put by its initiator.
    pub fn abort(&mut self, arrival: &ReceivedPacket) {
        let packet = &arrival.packet;
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        match self.message(packet).map(|at| self.messages.swap_remove(at)) {
            Some(message) => {
                let landing = message.landing.as_ref();
                self.finish(peer, &message.header, landing, C_RC_SRC_ERROR);
            }
            None => self.finish(peer, packet, None, C_RC_SRC_ERROR),
        }
    }

    /// Returns the index of the put that a packet belongs to.
    fn message(&self, packet: &Packet) -> Option<usize> {
        self.messages.iter().position(|message| message.header.is_same_message(packet))
    }

    /// Copies the payload of one packet to its place, truncated to that, unless the put has failed.
    #[inline]
    fn store(
        &mut self,
        arrival: &ReceivedPacket,
        header: &Packet,
        landing: Option<&Landing>,
        code: &mut ReturnCode,
    ) {
        let packet = &arrival.packet;
        let (Some(landing), C_RC_OK) = (landing, *code) else {
            return;
        };
        let left = landing.mlength(header).saturating_sub(packet.offset);
        let length = u32::from(packet.length).min(left) as usize;
        if length == 0 {
            return;
        }
        // Translated for each packet, because software may have unmapped the memory since.
        let start = landing.place.start + u64::from(packet.offset);
        let number = self.ptes.get(landing.pte).map(|pte| pte.lni);
        let lni = number.and_then(|number| self.lnis.get(number));
        let lac = landing.entry.lac();
        let place = lni
            .ok_or(C_RC_MST_CANCELLED)
            .and_then(|lni| lni.space.translate(lac, start, length as u64, MemoryAccess::Write));
        match place {
            Ok(to) => {
                // SAFETY: the packet has `length` bytes, and `translate` found `length` bytes,
                // which software keeps mapped while list entries use them.
                let written = unsafe { to.write(arrival.data(), length) };
                *code = written.err().unwrap_or(C_RC_OK);
                self.note_write(number.unwrap_or_default(), lac, to.va, packet);
            }
            Err(error) => {
                self.raise(error);
                *code = error;
            }
        }
    }
}
