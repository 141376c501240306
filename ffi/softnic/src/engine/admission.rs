//! Whether an incoming operation is taken, decided when its first packet is there (nic.md 8.3).

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::event_queue::{EventQueue, SLOT};
use super::events::{self, Target};
use super::lists::{Entry, Unexpected};
use super::memory::Access;
use super::packet::{Kind, Packet, Peer, Wire};
use super::placement::{self, Place};
use super::portal::{Pte, has_place, pool_use};
use super::table::Table;
use super::{Engine, Lni, ReturnCode, arithmetic, matching};

/// Where an operation goes.
#[derive(Clone, Copy)]
pub struct Landing {
    pub pte: usize,
    /// The list entry. A copy: unlinking does not stop what is under way (nic.md 8.5).
    pub entry: TargetCmd,
    /// The entry's memory for it.
    pub place: Place,
    /// The operation used the entry up.
    pub auto_unlinked: bool,
}

impl Landing {
    /// Bytes that the operation itself moves: of a rendezvous put, those that come along.
    #[inline]
    pub fn mlength(&self, packet: &Packet) -> u32 {
        match packet.kind {
            Kind::Rendezvous => self.place.length.min(packet.rendezvous.eager),
            _ => self.place.length,
        }
    }
}

impl<W: Wire> Engine<W> {
    /// Decides about an operation for its whole length, so that one that fails has moved no data
    /// (nic.md 7.1), and does what follows for the lists.
    ///
    /// Whoever meets an entry uses it, also if it then fails: an entry for one operation is gone.
    #[inline]
    pub fn judge(&mut self, peer: Peer, packet: &Packet) -> (Option<Landing>, ReturnCode) {
        if packet.return_code != 0 {
            return (None, packet.return_code.into());
        }
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
        let Some((list, at)) = matching::find(pte, packet) else {
            return (None, refuse(pte, number, C_SC_FC_NO_MATCH, &mut self.eqs));
        };
        let entry = pte.lists.get(list)[at];
        let files_header = list == C_PTL_LIST_OVERFLOW && !entry.command.unexpected_hdr_disable();
        let has_place = !files_header || has_place(&self.ptes, number, self.entries);
        let Some(pte) = self.ptes.get_mut(number) else {
            return (None, C_RC_PTLTE_NOT_FOUND);
        };
        if !has_place {
            let code = refuse(pte, number, C_SC_FC_UNEXPECTED_FAIL, &mut self.eqs);
            return (None, code);
        }
        let judged = permit(packet, &entry, pte, self.lnis.get(pte.lni));
        let mut used = entry.used;
        let taken = judged.map_or(0, |place| place.length);
        let used_up = placement::consume(&entry.command, &mut used, taken);
        let landing = Landing {
            pte: number,
            entry: entry.command,
            place: judged.unwrap_or(Place {
                start: placement::clamped(&entry, packet).start,
                length: 0,
            }),
            auto_unlinked: used_up,
        };
        if judged.is_ok() && !has_room(packet, &landing, pte, &mut self.eqs) {
            return (None, refuse(pte, number, C_SC_FC_EQ_FULL, &mut self.eqs));
        }
        if pte.options.en_event_match && !entry.command.event_comm_disable() {
            let event = Target {
                kind: C_EVENT_MATCH,
                ..Target::of(packet, &landing, C_RC_OK)
            };
            post(&event, pte, &mut self.eqs, self.entries);
        }
        if (used_up || used != entry.used)
            && let Some(entries) = pte.lists.get_mut(list)
        {
            entries[at].used = used;
            if used_up {
                entries.remove(at);
                self.entries -= 1;
            }
        }
        if used_up && !entry.command.event_unlink_disable() {
            post(&unlinked(&landing), pte, &mut self.eqs, self.entries);
        }
        if files_header && let Ok(place) = judged {
            pte.lists.unexpected.push_back(Unexpected {
                header: *packet,
                nid: self.wire.nid(Some(peer)),
                start: place.start,
                mlength: landing.mlength(packet),
                code: C_RC_OK,
            });
            self.entries += 1;
        }
        (Some(landing), judged.err().unwrap_or(C_RC_OK))
    }
}

/// Whether an entry allows an operation, and the memory behind it too (nic.md 7.1, 8.3, 11): then
/// where it goes.
///
/// In which order hardware looks is not stated. Here: the kind of transport, rights, bounds, the
/// combination, alignment, memory.
fn permit(
    packet: &Packet,
    entry: &Entry,
    pte: &Pte,
    lni: Option<&Lni>,
) -> Result<Place, ReturnCode> {
    let command = &entry.command;
    if packet.restricted && command.manage_local() && !pte.options.en_restricted_unicast_lm {
        return Err(C_RC_RESTRICTED_UNICAST);
    }
    let (reads, writes) = match packet.kind {
        Kind::Get => (true, false),
        Kind::Atomic => (packet.amo.fetching, true),
        _ => (false, true),
    };
    if (reads && !command.op_get()) || (writes && !command.op_put()) {
        return Err(C_RC_OP_VIOLATION);
    }
    let place = placement::place(entry, packet)?;
    let length = u64::from(place.length);
    let is_atomic = packet.kind == Kind::Atomic;
    if is_atomic && !arithmetic::is_valid(packet.amo) {
        return Err(C_RC_AMO_INVAL_OP_ERROR);
    }
    if is_atomic && !place.start.is_multiple_of(length) {
        return Err(C_RC_AMO_ALIGN_ERROR);
    }
    if length > 0 {
        let space = lni.map(|lni| &lni.space).ok_or(C_RC_INVALID_AC)?;
        // An atomic operation reads what it changes, whether that is fetched or not.
        if reads || is_atomic {
            space.translate(command.lac(), place.start, length, Access::Read)?;
        }
        if writes {
            space.translate(command.lac(), place.start, length, Access::Write)?;
        }
    }
    Ok(place)
}

/// Whether the events of an operation that succeeds find room (nic.md 5.6). The REPLY of a get that
/// the NIC makes for it is none of them: it comes later.
#[inline]
fn has_room(packet: &Packet, landing: &Landing, pte: &Pte, eqs: &mut Table<EventQueue>) -> bool {
    let entry = &landing.entry;
    let unlink = landing.auto_unlinked && !entry.event_unlink_disable();
    let is_rendezvous = packet.kind == Kind::Rendezvous;
    // The usual entry of one-sided traffic is silent.
    let silent = entry.event_comm_disable()
        || (entry.event_success_disable() && !is_rendezvous && !pte.options.en_event_match);
    if silent && !unlink {
        return true;
    }
    let Some(queue) = eqs.get_mut(usize::from(pte.eq)) else {
        return true;
    };
    let event = Target::of(packet, landing, C_RC_OK);
    let mut sizes = [0; 4];
    let mut expected = 0;
    let mut expect = |size| {
        sizes[expected] = size;
        expected += 1;
    };
    if unlink {
        expect(SLOT);
    }
    if !entry.event_comm_disable() {
        if pte.options.en_event_match {
            expect(SLOT);
        }
        if !entry.event_success_disable() || is_rendezvous {
            expect(events::target_size(
                queue,
                &event,
                pte.options.use_long_event,
            ));
        }
        if is_rendezvous && event.ptl_list == C_PTL_LIST_PRIORITY as u8 {
            expect(SLOT);
        }
    }
    queue.accepts(&sizes[..expected])
}

/// The event of an entry that an operation used up.
fn unlinked(landing: &Landing) -> Target {
    Target {
        kind: C_EVENT_UNLINK,
        ptlte_index: landing.pte as u16,
        ptl_list: landing.entry.ptl_list(),
        buffer_id: landing.entry.buffer_id(),
        auto_unlinked: true,
        return_code: C_RC_OK,
        ..Target::default()
    }
}

fn post(event: &Target, pte: &Pte, eqs: &mut Table<EventQueue>, entries: usize) {
    if let Some(queue) = eqs.get_mut(usize::from(pte.eq)) {
        events::target(queue, event, pte.options.use_long_event, pool_use(entries));
    }
}

/// Refuses a message for lack of resources (nic.md 5.6, 8.3).
fn refuse(
    pte: &mut Pte,
    number: usize,
    reason: c_sc_reason,
    eqs: &mut Table<EventQueue>,
) -> ReturnCode {
    if !pte.options.en_flowctrl {
        return C_RC_ENTRY_NOT_FOUND;
    }
    pte.flow_control(number, reason, eqs);
    C_RC_PT_DISABLED
}
