//! Incoming packets: operations find their list entry, puts their memory; responses complete
//! transactions.

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::events::{self, Initiator, Target};
use super::memory::{Access, copy};
use super::packet::{Arrival, Kind, Packet, Peer, Wire};
use super::portal::{Pte, pool_use};
use super::{Engine, Lni, ReturnCode, arithmetic, counter, matching};

/// Where an operation goes.
#[derive(Clone, Copy)]
pub struct Landing {
    pub pte: usize,
    /// The list entry. A copy: unlinking does not stop what is under way (nic.md 8.5).
    pub entry: TargetCmd,
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

    /// Decides about an operation when its first packet is there, for its whole length, so that
    /// one that fails has moved no data (nic.md 7.1, 8.3).
    #[inline]
    pub fn judge(&mut self, packet: &Packet) -> (Option<Landing>, ReturnCode) {
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
        let Some(entry) = matching::find(pte, packet) else {
            return (None, refuse(pte, number, C_SC_FC_NO_MATCH, &mut self.eqs));
        };
        let landing = Landing { pte: number, entry };
        if let Err(code) = permit(packet, &entry, self.lnis.get(pte.lni)) {
            return (Some(landing), code);
        }
        if !entry.event_comm_disable()
            && !entry.event_success_disable()
            && let Some(queue) = self.eqs.get_mut(usize::from(pte.eq))
        {
            let event = target_event(packet, &landing, C_RC_OK);
            let size = events::target_size(queue, &event, pte.options.use_long_event);
            if !queue.accepts(size) {
                return (None, refuse(pte, number, C_SC_FC_EQ_FULL, &mut self.eqs));
            }
        }
        (Some(landing), C_RC_OK)
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
                let to = std::ptr::with_exposed_provenance_mut(va);
                // SAFETY: the packet holds `length` bytes, and `translate` found as many in memory
                // that software keeps mapped while list entries use it.
                unsafe { copy(arrival.data(), to, length) };
            }
            Err(error) => *code = error,
        }
    }

    /// Ends puts and gets under way at a portals table entry that is being freed (nic.md 7,
    /// MST_CANCELLED).
    pub fn cancel_messages(&mut self, pte: usize) {
        for message in &mut self.messages {
            if message.landing.is_some_and(|landing| landing.pte == pte) {
                message.landing = None;
                message.code = C_RC_MST_CANCELLED;
            }
        }
        for reply in std::mem::take(&mut self.replies) {
            if reply.landing.pte == pte {
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
        let mut response = Packet {
            kind: Kind::Response,
            tag: packet.tag,
            return_code: code as u8,
            total: if code == C_RC_OK { packet.rlength() } else { 0 },
            ..Packet::default()
        };
        if let Some(landing) = landing {
            response.ptl_list = landing.entry.ptl_list();
            self.report(packet, landing, code);
        }
        self.answer(peer, response);
    }

    /// Counts an operation at its target if the entry wants that (nic.md 9.2), and delivers its event
    /// unless the entry wants none (nic.md 6.5).
    #[inline]
    pub fn report(&mut self, packet: &Packet, landing: &Landing, code: ReturnCode) {
        let entry = &landing.entry;
        if entry.event_ct_comm() {
            let change = counter::amount(entry.event_ct_bytes(), packet.rlength(), code);
            self.counters
                .change(usize::from(entry.ct()), change, &mut self.eqs);
        }
        let quiet = landing.entry.event_comm_disable()
            || (landing.entry.event_success_disable() && code == C_RC_OK);
        if !quiet
            && let Some(pte) = self.ptes.get(landing.pte)
            && let Some(queue) = self.eqs.get_mut(usize::from(pte.eq))
        {
            let event = target_event(packet, landing, code);
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

/// Whether an entry allows an operation, and the memory behind it too (nic.md 7.1, 8.3, 11).
///
/// In which order hardware looks is not stated. Here: rights, bounds, the combination, alignment,
/// memory.
fn permit(packet: &Packet, entry: &TargetCmd, lni: Option<&Lni>) -> Result<(), ReturnCode> {
    let (reads, writes) = match packet.kind {
        Kind::Get => (true, false),
        Kind::Atomic => (packet.amo.fetching, true),
        _ => (false, true),
    };
    if (reads && !entry.op_get()) || (writes && !entry.op_put()) {
        return Err(C_RC_OP_VIOLATION);
    }
    let length = u64::from(packet.rlength());
    if packet.remote_offset.saturating_add(length) > entry.length() {
        return Err(C_RC_NO_SPACE);
    }
    let start = entry.start() + packet.remote_offset;
    let is_atomic = packet.kind == Kind::Atomic;
    if is_atomic && !arithmetic::is_valid(packet.amo) {
        return Err(C_RC_AMO_INVAL_OP_ERROR);
    }
    if is_atomic && !start.is_multiple_of(length) {
        return Err(C_RC_AMO_ALIGN_ERROR);
    }
    if length > 0 {
        let space = lni.map(|lni| &lni.space).ok_or(C_RC_INVALID_AC)?;
        // An atomic operation reads what it changes, whether that is fetched or not.
        if reads || is_atomic {
            space.translate(entry.lac(), start, length, Access::Read)?;
        }
        if writes {
            space.translate(entry.lac(), start, length, Access::Write)?;
        }
    }
    Ok(())
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

fn target_event(packet: &Packet, landing: &Landing, code: ReturnCode) -> Target {
    let rlength = packet.rlength();
    Target {
        kind: match packet.kind {
            Kind::Get => C_EVENT_GET,
            Kind::Atomic if packet.amo.fetching => C_EVENT_FETCH_ATOMIC,
            Kind::Atomic => C_EVENT_ATOMIC,
            _ => C_EVENT_PUT,
        },
        ptlte_index: landing.pte as u16,
        ptl_list: landing.entry.ptl_list(),
        buffer_id: landing.entry.buffer_id(),
        vni: packet.vni,
        initiator: packet.initiator,
        match_bits: packet.match_bits(),
        header_data: packet.header_data(),
        rlength,
        mlength: if code == C_RC_OK { rlength } else { 0 },
        remote_offset: packet.remote_offset,
        start: landing.entry.start() + packet.remote_offset,
        amo: packet.amo,
        return_code: code,
    }
}
