//! How operations end: counts and events at both sides, and the response in between.

use cxi_sys::*;

use super::counter::Counting;
use super::events::{self, InitiatorEvent, TargetEvent};
use super::lists::Landing;
use super::rendezvous::{Fetcher, RendezvousRest};
use super::return_codes::ReturnCode;
use super::state::Engine;
use super::wire::{Packet, PacketKind, PeerId, Wire, send_or_wait};

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
    pub fn report(&mut self, packet: &Packet, landing: &Landing, code: ReturnCode) {
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
