//! Received operations: puts, of one packet or of several; gets, whose data is sent at the target
//! and received at the initiator; and atomic operations. They tell the wire about the pages that
//! they access, because translating their addresses may take time.
//!
//! At their end: counts and events at both sides, and the response in between.

use cxi_sys::*;

use super::arithmetic;
use super::counter::Counting;
use super::events::{self, InitiatorEvent, TargetEvent};
use super::lists::Landing;
use super::location::{MemoryLocation, copy};
use super::memory::MemoryAccess;
use super::remembered::Remembered;
use super::rendezvous::{Fetcher, RendezvousRest};
use super::return_codes::ReturnCode;
use super::state::{Engine, IncompletePut, IncompleteReply};
use super::wire::{INLINE, Origin, Packet, PacketKind, PeerId, ReceivedPacket, Wire, send_or_wait};

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

    /// The index of the put that a packet belongs to.
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

    /// The location of the next `length` bytes; `None` for 0 bytes. Translated for each packet,
    /// because software may have unmapped the memory since.
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

    /// Handles an atomic operation.
    pub fn atomic(&mut self, arrival: &ReceivedPacket) {
        let packet = &arrival.packet;
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        let (landing, code) = self.match_operation(peer, packet);
        let (Some(landing), C_RC_OK) = (landing, code) else {
            return self.finish(peer, packet, landing.as_ref(), code);
        };
        let previous = match self.execute(arrival, &landing) {
            Ok(previous) => previous,
            Err(code) => return self.finish(peer, packet, Some(&landing), code),
        };
        if !packet.amo.fetching {
            return self.finish(peer, packet, Some(&landing), C_RC_OK);
        }
        self.report(packet, &landing, C_RC_OK);
        let length = packet.rlength();
        let reply = Packet {
            kind: PacketKind::Reply,
            class: packet.class,
            inline: true,
            length: length as u16,
            tag: packet.tag,
            return_code: C_RC_OK as u8,
            ptl_list: landing.entry.ptl_list(),
            total: length,
            tail: [previous as u64, (previous >> 64) as u64],
            ..Packet::default()
        };
        self.answer(peer, &reply);
    }

    /// Executes the operation and returns the previous value. A floating point exception that the
    /// portals table entry signals is returned instead; the target still has its new value, as in
    /// IEEE arithmetic (nic.md 7 does not state this).
    fn execute(&mut self, arrival: &ReceivedPacket, landing: &Landing) -> Result<u128, ReturnCode> {
        let packet = &arrival.packet;
        let amo = self.wire.executed(packet.amo)?;
        let pte = self.ptes.get(landing.pte).ok_or(C_RC_MST_CANCELLED)?;
        let lni = self.lnis.get(pte.lni).ok_or(C_RC_INVALID_AC)?;
        let start = landing.place.start;
        let length = packet.rlength();
        let lac = landing.entry.lac();
        let place = lni.space.translate(lac, start, length.into(), MemoryAccess::Write)?;
        let mut operands = [0_u128; 2];
        let carried = usize::from(packet.length).min(size_of_val(&operands));
        // SAFETY: the packet has `carried` bytes, and the array has room for them.
        unsafe { copy(arrival.data(), operands.as_mut_ptr().cast(), carried) };
        let [first, second] = operands.map(u128::from_le);
        let mut exceptions = arithmetic::Exceptions::default();
        let compute = |value| {
            let (result, raised) = arithmetic::execute(amo, value, first, second);
            exceptions = raised;
            result
        };
        // SAFETY: `match_operation` found the place aligned, and `translate` found its bytes, which
        // software keeps mapped while list entries use them.
        let previous = unsafe { place.update(length as usize, compute) }?;
        let (lni, signals) = (pte.lni, pte.options.signals);
        self.note_write(lni, lac, place.va, packet);
        match signals.code(exceptions) {
            Some(code) => Err(code),
            None => Ok(previous),
        }
    }
}

/// The size of ordinary pages of the NIC, whatever the pages of the processor are.
const PAGE: usize = 4096;

/// The number of pages whose translation a part of a message needs, at this address. The first part
/// needs its first page; further parts need the pages that begin in them, because the part before
/// has needed the others.
pub fn pages(va: usize, length: usize, is_first: bool) -> u64 {
    let before = if is_first { va / PAGE * PAGE } else { va };
    let begun = (va + length).div_ceil(PAGE) - before.div_ceil(PAGE);
    if length == 0 { 0 } else { begun as u64 }
}

impl<W: Wire> Engine<W> {
    /// Notes that the data of a packet that was received last was written to this address in a
    /// context of an LNI.
    #[inline]
    pub fn note_write(&mut self, lni: usize, lac: u8, va: usize, packet: &Packet) {
        if self.wire.has_page_costs() {
            let is_huge = self.lnis.get(lni).is_some_and(|lni| lni.space.is_huge(lac));
            let pages = pages(va, packet.length.into(), packet.offset == 0);
            self.wire.note_write(pages, is_huge);
        }
    }

    /// The origin of data in a context of an LNI.
    pub fn origin(&self, lni: usize, lac: u8) -> Origin {
        let has_huge = || self.lnis.get(lni).is_some_and(|lni| lni.space.is_huge(lac));
        if self.wire.has_page_costs() && has_huge() { Origin::HugePages } else { Origin::Memory }
    }
}

impl<W: Wire> Engine<W> {
    /// Completes the transaction of a response or of the last packet of a reply.
    pub fn complete(&mut self, packet: &Packet) {
        let Some(transaction) = self.transactions.finish(packet.tag) else {
            return;
        };
        let code = transaction.local_error.unwrap_or(u32::from(packet.return_code));
        if let Some(queue) = transaction.queue.and_then(|number| self.tx.get_mut(number)) {
            queue.outstanding -= 1;
            queue.ring.is_refused |= code != C_RC_OK;
        }
        self.counters.count_completion(transaction.counting, packet.total, code, &mut self.eqs);
        if code == C_RC_OK && transaction.success_disable {
            return;
        }
        let event = InitiatorEvent {
            kind: transaction.event,
            user_ptr: transaction.user_ptr,
            mlength: packet.total,
            ptl_list: packet.ptl_list,
            rendezvous: transaction.rendezvous.is_some(),
            // A packet that is undeliverable does not fail at the target.
            tgt_error: !matches!(code, C_RC_OK | C_RC_UNDELIVERABLE)
                && transaction.local_error.is_none(),
            return_code: code,
        };
        events::initiator(&mut self.eqs, transaction.eq, &event);
    }

    /// Ends an operation at its target, with an event here and a response to the initiator.
    #[inline]
    pub fn finish(
        &mut self,
        peer: PeerId,
        packet: &Packet,
        landing: Option<&Landing>,
        code: ReturnCode,
    ) {
        let mlength = match (landing, code) {
            (Some(landing), C_RC_OK) => landing.mlength(packet),
            _ => 0,
        };
        self.flushed += u64::from(packet.flush && code == C_RC_OK);
        let mut response = Packet {
            kind: PacketKind::Response,
            class: packet.class,
            tag: packet.tag,
            is_marked: packet.is_marked,
            return_code: code as u8,
            total: mlength,
            ..Packet::default()
        };
        if let Some(landing) = landing {
            response.ptl_list = landing.entry.ptl_list();
            self.report(packet, landing, code);
            if code != C_RC_OK {
                self.mark_header(packet, landing, code);
            }
        }
        self.answer(peer, &response);
        if let Some(landing) = landing
            && packet.kind == PacketKind::Rendezvous
            && landing.is_on(C_PTL_LIST_PRIORITY)
            && code == C_RC_OK
        {
            self.fetch(peer, packet, landing);
        }
    }

    /// Issues the get for the rest of a rendezvous put, or leaves it to software.
    fn fetch(&mut self, peer: PeerId, put: &Packet, landing: &Landing) {
        let Some(pte) = self.ptes.get(landing.pte) else {
            return;
        };
        let rest = RendezvousRest {
            put,
            nid: self.wire.nid(Some(peer)),
            pte: landing.pte,
            entry: &landing.entry,
            place: landing.place,
            mlength: landing.mlength(put),
        };
        let mut fetcher = Fetcher {
            wire: &mut self.wire,
            transactions: &mut self.transactions,
            counters: &mut self.counters,
            waiting: &mut self.waiting,
            lists: &mut self.lists,
            enabled: self.rendezvous_gets,
        };
        fetcher.fetch(&rest, pte, &mut self.eqs, &self.entries);
    }

    /// Counts an operation at its target if the entry counts operations (nic.md 9.2), and delivers
    /// its event unless the entry disables it (nic.md 6.5). An entry that disables success events
    /// still gets them for rendezvous puts, because programs with such entries wait for them.
    #[inline]
    fn report(&mut self, packet: &Packet, landing: &Landing, code: ReturnCode) {
        let entry = &landing.entry;
        let counting = Counting::from_entry(entry, entry.event_ct_comm());
        let length = landing.mlength(packet);
        self.counters.count_completion(counting, length, code, &mut self.eqs);
        let is_success = code == C_RC_OK && packet.kind != PacketKind::Rendezvous;
        let quiet = entry.event_comm_disable() || (entry.event_success_disable() && is_success);
        if !quiet && let Some(pte) = self.ptes.get(landing.pte) {
            let event = TargetEvent::of(packet, landing, code);
            pte.post(&event, &mut self.eqs, &self.entries);
        }
    }

    /// Records the failure of a message in its header, if that is still on the UNEXPECTED list.
    pub fn mark_header(&mut self, header: &Packet, landing: &Landing, code: ReturnCode) {
        if landing.is_on(C_PTL_LIST_OVERFLOW)
            && let Some(pte) = self.ptes.get_mut(landing.pte)
            && let Some(unexpected) = pte.lists.header_of(header)
        {
            unexpected.code = code;
        }
    }

    /// Sends a packet without payload outside its header, now or as soon as there is room.
    #[inline]
    pub fn answer(&mut self, peer: PeerId, packet: &Packet) {
        send_or_wait(&mut self.wire, &mut self.waiting, peer, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_message_need_each_page_once() {
        for start in (0..2 * PAGE).step_by(64) {
            for length in [0, 1, 8, 2048, 4096, 9000, 65536] {
                let whole = (start..start + length).map(|at| at / PAGE);
                let whole = whole.collect::<std::collections::HashSet<_>>().len() as u64;
                assert_eq!(pages(start, length, true), whole);
                let parts = (0..length).step_by(2048).map(|offset| {
                    let length = (length - offset).min(2048);
                    pages(start + offset, length, offset == 0)
                });
                assert_eq!(parts.sum::<u64>(), whole, "{length} bytes at {start}");
            }
        }
    }
}
