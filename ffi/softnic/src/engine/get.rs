//! Gets: at the target the data is sent, at the initiator it is received.

use cxi_sys::*;

use super::bytes::copy;
use super::incoming::IncompleteReply;
use super::location::MemoryLocation;
use super::memory::MemoryAccess;
use super::packet::{INLINE, Origin, Packet, PacketKind};
use super::return_codes::ReturnCode;
use super::state::Engine;
use super::wire::{ReceivedPacket, Wire};

/// The most packets of one reply sent before others get their turn.
const BURST: usize = 32;

impl<W: Wire> Engine<W> {
    /// Handles a get.
    pub fn get(&mut self, arrival: &ReceivedPacket) {
        let packet = &arrival.packet;
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        match self.match_operation(peer, packet) {
            (Some(landing), C_RC_OK) => {
                let mut reply = IncompleteReply { peer, landing, request: *packet, sent: 0 };
                if !self.send_reply(&mut reply) {
                    self.replies.push_back(reply);
                }
            }
            (landing, code) => self.finish(peer, packet, landing.as_ref(), code),
        }
    }

    /// Continues the replies that had no room on the wire. True if anything was sent.
    #[inline]
    pub fn send_replies(&mut self) -> bool {
        if self.replies.is_empty() {
            return false;
        }
        let mut replies = std::mem::take(&mut self.replies);
        let mut worked = false;
        // Hundreds of replies may wait for one NIC. Only the first is tried while it has no room.
        let mut full = None;
        replies.retain_mut(|reply| {
            if full == Some(reply.peer) {
                return true;
            }
            let before = reply.sent;
            let ended = self.send_reply(reply);
            if ended || reply.sent != before {
                worked = true;
            } else {
                full = Some(reply.peer);
            }
            !ended
        });
        self.replies = replies;
        worked
    }

    /// Sends data while there is room; true when the reply has ended. The event follows the last
    /// packet.
    fn send_reply(&mut self, reply: &mut IncompleteReply) -> bool {
        let request = reply.request;
        let total = reply.landing.place.length;
        let most = self.wire.most_payload() as u32;
        let pte = self.ptes.get(reply.landing.pte);
        let origin =
            pte.map_or(Origin::Memory, |pte| self.origin(pte.lni, reply.landing.entry.lac()));
        for _ in 0..BURST {
            let length = (total - reply.sent).min(most) as u16;
            let from = self.source(reply, length).and_then(|from| match from {
                Some(from) => from.payload(length, &mut self.staging),
                None => Ok(std::ptr::null()),
            });
            let from = match from {
                Ok(from) => from,
                Err(code) => {
                    self.finish(reply.peer, &request, Some(&reply.landing), code);
                    return true;
                }
            };
            let mut packet = Packet {
                kind: PacketKind::Reply,
                class: request.class,
                length,
                tag: request.tag,
                return_code: C_RC_OK as u8,
                ptl_list: reply.landing.entry.ptl_list(),
                total,
                offset: reply.sent,
                inline: total as usize <= INLINE,
                origin,
                ..Packet::default()
            };
            if packet.inline && length > 0 {
                let tail = packet.tail.as_mut_ptr().cast();
                // SAFETY: `source` found `length` bytes, which are in the staging buffer or which
                // software keeps mapped while list entries use them; the tail holds 16.
                unsafe { copy(from, tail, usize::from(length)) };
            }
            // SAFETY: `source` found `length` bytes, which are in the staging buffer or which
            // software keeps mapped while list entries use them.
            let sent = unsafe { self.wire.send(reply.peer, &packet, from) };
            if !sent {
                return false;
            }
            reply.sent += u32::from(length);
            if reply.sent == total {
                self.report(&request, &reply.landing, C_RC_OK);
                return true;
            }
        }
        false
    }

    /// Returns the location of the next `length` bytes; `None` for 0 bytes. Translated for each
    /// packet, because software may have unmapped the memory since.
    fn source(
        &self,
        reply: &IncompleteReply,
        length: u16,
    ) -> Result<Option<MemoryLocation>, ReturnCode> {
        if length == 0 {
            return Ok(None);
        }
        let entry = &reply.landing.entry;
        let start = reply.landing.place.start + u64::from(reply.sent);
        let pte = self.ptes.get(reply.landing.pte).ok_or(C_RC_MST_CANCELLED)?;
        let lni = self.lnis.get(pte.lni).ok_or(C_RC_MST_CANCELLED)?;
        lni.space.translate(entry.lac(), start, u64::from(length), MemoryAccess::Read).map(Some)
    }

    /// Handles data for an operation of this NIC.
    pub fn reply(&mut self, arrival: &ReceivedPacket) {
        let packet = &arrival.packet;
        let Some(transaction) = self.transactions.get_mut(packet.tag) else {
            return;
        };
        let length = usize::from(packet.length);
        if u32::from(packet.return_code) != C_RC_OK {
            transaction.local_error = Some(packet.return_code.into());
        } else if length > 0
            && let Some(destination) = transaction.destination
        {
            let lni = self.lnis.get(destination.lni).ok_or(C_RC_INVALID_AC);
            let place = lni.and_then(|lni| {
                let iova = destination.iova + u64::from(packet.offset);
                lni.space.translate(destination.lac, iova, length as u64, MemoryAccess::Write)
            });
            match place {
                Ok(to) => {
                    // SAFETY: the packet has `length` bytes, and `translate` found `length` bytes,
                    // which software keeps mapped while commands use them.
                    let written = unsafe { to.write(arrival.data(), length) };
                    if let Err(code) = written {
                        transaction.local_error = Some(code);
                    }
                    self.note_write(destination.lni, destination.lac, to.va, packet);
                }
                Err(code) => {
                    transaction.local_error = Some(code);
                    self.raise(code);
                }
            }
        }
        if packet.offset + u32::from(packet.length) == packet.total {
            self.complete(packet);
        }
    }
}
