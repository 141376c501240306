//! Incoming packets: operations find their list entry, puts their memory; responses complete
//! transactions.

use cxi_sys::*;

use super::admission::Landing;
use super::events::{self, Initiator, Target};
use super::memory::Access;
use super::packet::{Arrival, Kind, Packet, Peer, Wire};
use super::portal::pool_use;
use super::rendezvous::{Fetcher, Rest};
use super::{Engine, ReturnCode, counter};

/// A put of which more packets will come.
pub struct Message {
    pub peer: Peer,
    /// Its first packet.
    header: Packet,
    landing: Option<Landing>,
    code: ReturnCode,
}

impl<W: Wire> Engine<W> {
    /// Handles the next packet; false if there is none.
    #[inline]
    pub fn receive(&mut self) -> bool {
        let Some(arrival) = self.wire.receive() else {
            return false;
        };
        match arrival.packet.kind {
            Kind::Response => self.complete(&arrival.packet),
            Kind::Put | Kind::Rendezvous => self.put(&arrival),
            Kind::Get => self.get(&arrival),
            Kind::Reply => self.reply(&arrival),
            Kind::Atomic => self.atomic(&arrival),
            Kind::Abort => self.abort(&arrival),
        }
        self.wire.release(arrival.lane);
        true
    }

    pub fn complete(&mut self, packet: &Packet) {
        let Some(transaction) = self.transactions.finish(packet.tag) else {
            return;
        };
        if let Some(queue) = transaction.queue.and_then(|number| self.tx.get_mut(number)) {
            queue.outstanding -= 1;
        }
        let code = transaction
            .local_error
            .unwrap_or(u32::from(packet.return_code));
        let counting = transaction.counting;
        if counting.completion {
            let change = counter::amount(counting.bytes, packet.total, code);
            let ct = usize::from(counting.ct);
            self.counters.change(ct, change, &mut self.eqs);
        }
        if code == C_RC_OK && transaction.success_disable {
            return;
        }
        let event = Initiator {
            kind: transaction.event,
            user_ptr: transaction.user_ptr,
            mlength: packet.total,
            ptl_list: packet.ptl_list,
            rendezvous: transaction.rendezvous.is_some(),
            // A packet that reaches nobody is no news from the target.
            tgt_error: !matches!(code, C_RC_OK | C_RC_UNDELIVERABLE)
                && transaction.local_error.is_none(),
            return_code: code,
        };
        events::initiator(&mut self.eqs, transaction.eq, &event);
    }

    #[inline]
    fn put(&mut self, arrival: &Arrival) {
        let packet = &arrival.packet;
        let last = packet.offset + u32::from(packet.length) == packet.carried();
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        if packet.offset == 0 {
            let (landing, mut code) = self.judge(peer, packet);
            self.store(arrival, packet, landing.as_ref(), &mut code);
            if last {
                self.finish(peer, packet, landing.as_ref(), code);
            } else {
                self.messages.push(Message {
                    peer,
                    header: *packet,
                    landing,
                    code,
                });
            }
            return;
        }
        let Some(at) = self.message(packet) else {
            return;
        };
        let Message {
            header,
            landing,
            mut code,
            ..
        } = self.messages[at];
        if packet.return_code != 0 && code == C_RC_OK {
            code = packet.return_code.into();
        }
        self.store(arrival, &header, landing.as_ref(), &mut code);
        if last {
            self.messages.swap_remove(at);
            self.finish(peer, &header, landing.as_ref(), code);
        } else {
            self.messages[at].code = code;
        }
    }

    fn abort(&mut self, arrival: &Arrival) {
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

    fn message(&self, packet: &Packet) -> Option<usize> {
        self.messages
            .iter()
            .position(|m| (m.header.tag, m.header.source) == (packet.tag, packet.source))
    }

    /// Gives up the puts of a NIC that is gone. What has arrived of them stays without an event,
    /// like a message whose connection timed out; a header that was filed says what became of it.
    pub fn give_up_messages(&mut self, peer: Peer) {
        for message in std::mem::take(&mut self.messages) {
            if message.peer != peer {
                self.messages.push(message);
            } else if let Some(landing) = message.landing {
                self.mark_header(&message.header, &landing, C_RC_SRC_ERROR);
            }
        }
    }

    /// Notes the failure of a message in its header, if that still waits.
    fn mark_header(&mut self, header: &Packet, landing: &Landing, code: ReturnCode) {
        if u32::from(landing.entry.ptl_list()) == C_PTL_LIST_OVERFLOW
            && let Some(pte) = self.ptes.get_mut(landing.pte)
            && let Some(unexpected) = pte.lists.header_of(header)
        {
            unexpected.code = code;
        }
    }

    /// Copies the payload of one packet to its place, as far as there is one, if all is well so far.
    #[inline]
    fn store(
        &self,
        arrival: &Arrival,
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
        // Looked up again for each packet: software may have unmapped the memory meanwhile.
        let start = landing.place.start + u64::from(packet.offset);
        let lni = self
            .ptes
            .get(landing.pte)
            .and_then(|pte| self.lnis.get(pte.lni));
        let place = lni.ok_or(C_RC_MST_CANCELLED).and_then(|lni| {
            lni.space
                .translate(landing.entry.lac(), start, length as u64, Access::Write)
        });
        match place {
            Ok(to) => {
                // SAFETY: the packet holds `length` bytes, and `translate` found as many in memory
                // that software keeps mapped while list entries use it.
                let written = unsafe { to.write(arrival.data(), length) };
                *code = written.err().unwrap_or(C_RC_OK);
            }
            Err(error) => *code = error,
        }
    }

    /// Ends incoming puts and gets under way at list entries that are being taken away (nic.md 7,
    /// MST_CANCELLED).
    pub fn cancel_messages(&mut self, concerns: impl Fn(&Landing) -> bool) {
        for message in &mut self.messages {
            if message.landing.as_ref().is_some_and(&concerns) {
                message.landing = None;
                message.code = C_RC_MST_CANCELLED;
            }
        }
        for reply in std::mem::take(&mut self.replies) {
            if concerns(&reply.landing) {
                self.finish(reply.peer, &reply.request, None, C_RC_MST_CANCELLED);
            } else {
                self.replies.push_back(reply);
            }
        }
    }

    /// All is done, or nothing will be: event here, response there.
    #[inline]
    pub fn finish(
        &mut self,
        peer: Peer,
        packet: &Packet,
        landing: Option<&Landing>,
        code: ReturnCode,
    ) {
        let mlength = match (landing, code) {
            (Some(landing), C_RC_OK) => landing.mlength(packet),
            _ => 0,
        };
        let mut response = Packet {
            kind: Kind::Response,
            tag: packet.tag,
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
        self.answer(peer, response);
        if let Some(landing) = landing
            && packet.kind == Kind::Rendezvous
            && u32::from(landing.entry.ptl_list()) == C_PTL_LIST_PRIORITY
            && code == C_RC_OK
        {
            self.fetch(peer, packet, landing);
        }
    }

    /// Gets, or lets get, the rest of a rendezvous put.
    fn fetch(&mut self, peer: Peer, put: &Packet, landing: &Landing) {
        let Some(pte) = self.ptes.get(landing.pte) else {
            return;
        };
        let rest = Rest {
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
            enabled: self.rendezvous_gets,
        };
        fetcher.fetch(&rest, pte, &mut self.eqs, pool_use(self.entries));
    }

    /// Counts an operation at its target if the entry wants that (nic.md 9.2), and delivers its event
    /// unless the entry wants none (nic.md 6.5). That of a rendezvous put is not taken for one of a mere
    /// success: a tool that wants no such events waits for it.
    #[inline]
    pub fn report(&mut self, packet: &Packet, landing: &Landing, code: ReturnCode) {
        let entry = &landing.entry;
        if entry.event_ct_comm() {
            let change = counter::amount(entry.event_ct_bytes(), landing.mlength(packet), code);
            self.counters
                .change(usize::from(entry.ct()), change, &mut self.eqs);
        }
        let quiet = landing.entry.event_comm_disable()
            || (landing.entry.event_success_disable()
                && code == C_RC_OK
                && packet.kind != Kind::Rendezvous);
        if !quiet
            && let Some(pte) = self.ptes.get(landing.pte)
            && let Some(queue) = self.eqs.get_mut(usize::from(pte.eq))
        {
            let event = Target::of(packet, landing, code);
            events::target(
                queue,
                &event,
                pte.options.use_long_event,
                pool_use(self.entries),
            );
        }
    }

    /// Sends a packet that carries at most what its header holds, now or as soon as there is room.
    #[inline]
    pub fn answer(&mut self, peer: Peer, packet: Packet) {
        // SAFETY: there is no payload outside the header.
        let sent = unsafe { self.wire.send(peer, &packet, std::ptr::null()) };
        if !sent {
            self.waiting.push_back((peer, packet));
        }
    }
}
