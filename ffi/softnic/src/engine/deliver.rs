//! Incoming packets: puts find their list entry and their memory; responses complete transactions.

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::events::{self, Initiator, Target};
use super::memory::{Access, copy};
use super::packet::{Arrival, Kind, Packet, Peer, Wire};
use super::portal::{Pte, pool_use};
use super::{Engine, ReturnCode};

/// Where a put goes.
#[derive(Clone, Copy)]
struct Landing {
    pte: usize,
    /// The list entry. A copy: unlinking does not stop what is under way (nic.md 8.5).
    entry: TargetCmd,
}

/// A put of which more packets will come.
pub struct Message {
    pub peer: Peer,
    source: u64,
    tag: u32,
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
            Kind::Put => self.put(&arrival),
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
        if code == C_RC_OK && transaction.success_disable {
            return;
        }
        let event = Initiator {
            kind: C_EVENT_ACK,
            user_ptr: transaction.user_ptr,
            mlength: packet.total,
            ptl_list: packet.ptl_list,
            tgt_error: code != C_RC_OK && transaction.local_error.is_none(),
            return_code: code,
        };
        events::initiator(&mut self.eqs, transaction.eq, &event);
    }

    #[inline]
    fn put(&mut self, arrival: &Arrival) {
        let packet = &arrival.packet;
        let last = packet.offset + u32::from(packet.length) == packet.total;
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        if packet.offset == 0 {
            let (landing, mut code) = self.judge(packet);
            self.store(arrival, landing.as_ref(), &mut code);
            if last {
                self.finish(peer, packet, landing.as_ref(), code);
            } else {
                self.messages.push(Message {
                    peer,
                    source: packet.source,
                    tag: packet.tag,
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
            landing, mut code, ..
        } = self.messages[at];
        self.store(arrival, landing.as_ref(), &mut code);
        if last {
            self.messages.swap_remove(at);
            self.finish(peer, packet, landing.as_ref(), code);
        } else {
            self.messages[at].code = code;
        }
    }

    fn abort(&mut self, arrival: &Arrival) {
        let packet = &arrival.packet;
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        let message = self.message(packet).map(|at| self.messages.swap_remove(at));
        let landing = message.and_then(|message| message.landing);
        self.finish(peer, packet, landing.as_ref(), C_RC_SRC_ERROR);
    }

    fn message(&self, packet: &Packet) -> Option<usize> {
        self.messages
            .iter()
            .position(|m| m.tag == packet.tag && m.source == packet.source)
    }

    /// Decides about a put when its first packet is there, for its whole length, so that a put
    /// that fails has moved no data (nic.md 7.1, 8.3).
    #[inline]
    fn judge(&mut self, packet: &Packet) -> (Option<Landing>, ReturnCode) {
        let address = (packet.vni, packet.pid, packet.index);
        let map = self
            .maps
            .iter()
            .find(|(_, map)| (map.vni, map.pid, map.index) == address);
        let Some(number) = map.map(|(_, map)| map.pte) else {
            return (None, C_RC_PTLTE_NOT_FOUND);
        };
        let Some(pte) = self.ptes.get_mut(number) else {
            return (None, C_RC_PTLTE_NOT_FOUND);
        };
        if pte.state != C_PTLTE_ENABLED {
            if pte.options.en_flowctrl {
                pte.drop_count = pte.drop_count.wrapping_add(1) & 0xff_ffff;
            }
            return (None, C_RC_PT_DISABLED);
        }
        if packet.restricted && pte.options.is_matching {
            return (None, C_RC_INVALID_ENDPOINT);
        }
        // On a non-matching entry every operation matches the first (nic.md 8.4).
        let Some(&entry) = pte.priority.first() else {
            return (None, refuse(pte, number, C_SC_FC_NO_MATCH, &mut self.eqs));
        };
        let landing = Some(Landing { pte: number, entry });
        if !entry.op_put() {
            return (landing, C_RC_OP_VIOLATION);
        }
        if packet.remote_offset.saturating_add(u64::from(packet.total)) > entry.length() {
            return (landing, C_RC_NO_SPACE);
        }
        if packet.total > 0 {
            let space = self.lnis.get(pte.lni).map(|lni| &lni.space);
            let start = entry.start() + packet.remote_offset;
            let place = space.ok_or(C_RC_INVALID_AC).and_then(|space| {
                space.translate(entry.lac(), start, u64::from(packet.total), Access::Write)
            });
            if let Err(code) = place {
                return (landing, code);
            }
        }
        if !entry.event_comm_disable()
            && !entry.event_success_disable()
            && let Some(queue) = self.eqs.get_mut(usize::from(pte.eq))
        {
            let event = put_event(packet, landing.as_ref().expect("set above"), C_RC_OK);
            let size = events::target_size(queue, &event, pte.options.use_long_event);
            if !queue.accepts(size) {
                return (None, refuse(pte, number, C_SC_FC_EQ_FULL, &mut self.eqs));
            }
        }
        (landing, C_RC_OK)
    }

    /// Copies the payload of one packet to its place, if all is well so far.
    #[inline]
    fn store(&self, arrival: &Arrival, landing: Option<&Landing>, code: &mut ReturnCode) {
        let packet = &arrival.packet;
        let length = usize::from(packet.length);
        let (Some(landing), C_RC_OK, 1..) = (landing, *code, length) else {
            return;
        };
        // Looked up again for each packet: software may have unmapped the memory meanwhile.
        let start = landing.entry.start() + packet.remote_offset + u64::from(packet.offset);
        let lni = self
            .ptes
            .get(landing.pte)
            .and_then(|pte| self.lnis.get(pte.lni));
        let place = lni.ok_or(C_RC_MST_CANCELLED).and_then(|lni| {
            lni.space
                .translate(landing.entry.lac(), start, length as u64, Access::Write)
        });
        match place {
            Ok(va) => {
                let from = if packet.inline {
                    packet.tail.as_ptr().cast()
                } else {
                    arrival.payload
                };
                let to = std::ptr::with_exposed_provenance_mut(va);
                // SAFETY: the packet holds `length` bytes, and `translate` found as many in memory
                // that software keeps mapped while list entries use it.
                unsafe { copy(from, to, length) };
            }
            Err(error) => *code = error,
        }
    }

    /// Ends incoming puts to a portals table entry that is being freed (nic.md 7, MST_CANCELLED).
    pub fn cancel_messages(&mut self, pte: usize) {
        for message in &mut self.messages {
            if message.landing.is_some_and(|landing| landing.pte == pte) {
                message.landing = None;
                message.code = C_RC_MST_CANCELLED;
            }
        }
    }

    /// All data is in place, or none will be: event here, response there.
    #[inline]
    fn finish(&mut self, peer: Peer, packet: &Packet, landing: Option<&Landing>, code: ReturnCode) {
        let mut response = Packet {
            kind: Kind::Response,
            tag: packet.tag,
            return_code: code as u8,
            total: if code == C_RC_OK { packet.total } else { 0 },
            ..Packet::default()
        };
        if let Some(landing) = landing {
            response.ptl_list = landing.entry.ptl_list();
            let quiet = landing.entry.event_comm_disable()
                || (landing.entry.event_success_disable() && code == C_RC_OK);
            if !quiet
                && let Some(pte) = self.ptes.get(landing.pte)
                && let Some(queue) = self.eqs.get_mut(usize::from(pte.eq))
            {
                let event = put_event(packet, landing, code);
                events::target(
                    queue,
                    &event,
                    pte.options.use_long_event,
                    pool_use(self.entries),
                );
            }
        }
        // SAFETY: a response has no payload.
        let sent = unsafe { self.wire.send(peer, &response, std::ptr::null()) };
        if !sent {
            self.waiting.push_back((peer, response));
        }
    }
}

/// Refuses a message for lack of resources (nic.md 5.6, 8.3).
fn refuse(
    pte: &mut Pte,
    number: usize,
    reason: c_sc_reason,
    eqs: &mut super::table::Table<super::event_queue::EventQueue>,
) -> ReturnCode {
    if !pte.options.en_flowctrl {
        return C_RC_ENTRY_NOT_FOUND;
    }
    pte.flow_control(number, reason, eqs);
    C_RC_PT_DISABLED
}

fn put_event(packet: &Packet, landing: &Landing, code: ReturnCode) -> Target {
    Target {
        kind: C_EVENT_PUT,
        ptlte_index: landing.pte as u16,
        ptl_list: landing.entry.ptl_list(),
        buffer_id: landing.entry.buffer_id(),
        vni: packet.vni,
        initiator: packet.initiator,
        match_bits: packet.match_bits(),
        header_data: packet.header_data(),
        rlength: packet.total,
        mlength: if code == C_RC_OK { packet.total } else { 0 },
        remote_offset: packet.remote_offset,
        start: landing.entry.start() + packet.remote_offset,
        return_code: code,
    }
}
