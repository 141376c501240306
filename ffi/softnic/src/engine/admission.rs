//! Whether a received operation is accepted, decided when its first packet arrives (nic.md 8.3).

use cxi_sys::*;

use super::arithmetic;
use super::event_queue::{EventQueue, SLOT};
use super::events::{self, TargetEvent};
use super::lists::{self, EntryRange, Landing, ListEntry, UnexpectedHeader};
use super::lni::Lni;
use super::memory::MemoryAccess;
use super::portal::{self, Pte, has_place};
use super::return_codes::{ErrorFlag, ReturnCode};
use super::state::Engine;
use super::table::Table;
use super::telemetry::{ListCount, MatchedOperation};
use super::wire::{Packet, PacketKind, PeerId, Wire};

impl<W: Wire> Engine<W> {
    /// Matches an operation with a list entry, checks its whole length, so that an operation that
    /// fails moves no data (nic.md 7.1), and updates the lists. Returns its landing, if it matched,
    /// and OK or the return code of its failure.
    ///
    /// An operation that fails after it matched an entry for one operation uses that entry up.
    #[inline]
    pub fn match_operation(
        &mut self,
        peer: PeerId,
        packet: &Packet,
    ) -> (Option<Landing>, ReturnCode) {
        self.forget_landing();
        if packet.return_code != 0 {
            return (None, packet.return_code.into());
        }
        let number = match self.find_portal(packet) {
            Ok(number) => number,
            Err(code) => return (None, code),
        };
        let Some(pte) = self.ptes.get(number) else {
            return (None, C_RC_PTLTE_NOT_FOUND);
        };
        let found = portal::find_entry(pte, packet);
        let attempts = portal::compared_entries(pte, found);
        self.lists.searched(attempts, 1);
        self.wire.walk(attempts - usize::from(found.is_some()));
        let Some((list, at)) = found else {
            let reason = match pte.state {
                C_PTLTE_SOFTWARE_MANAGED => C_SC_FC_REQUEST_FULL,
                _ => C_SC_FC_NO_MATCH,
            };
            return (None, self.refuse(packet, number, reason));
        };
        let entry = pte.lists.get(list)[at];
        let stores_header = list == C_PTL_LIST_OVERFLOW && !entry.command.unexpected_hdr_disable();
        let has_place = !stores_header || has_place(&self.ptes, number, &self.entries);
        let Some(pte) = self.ptes.get_mut(number) else {
            return (None, C_RC_PTLTE_NOT_FOUND);
        };
        if !has_place {
            if pte.leave_to_software(number, C_SC_SM_UNEXPECTED_FAIL, &mut self.eqs) {
                return self.match_again(peer, packet);
            }
            return (None, self.refuse(packet, number, C_SC_FC_UNEXPECTED_FAIL));
        }
        let has_matching = pte.options.is_matching;
        let place = check(packet, &entry, pte, self.lnis.get(pte.lni));
        let (landing, used) = land(number, packet, &entry, place.ok());
        if place.is_ok() && !has_room(packet, &landing, pte, &mut self.eqs) {
            return (None, self.refuse(packet, number, C_SC_FC_EQ_FULL));
        }
        self.use_entry(packet, &landing, &entry, (list, at), used);
        if let Err(code) = place {
            return (Some(landing), self.fail(packet, code));
        }
        if stores_header {
            self.store_header(peer, packet, &landing);
        }
        let truncated = landing.place.length < lists::needed(&entry, packet);
        self.lists.matched(matched(packet, &entry, truncated, has_matching), 1);
        let mut code = C_RC_OK;
        if list == C_PTL_LIST_REQUEST {
            code = self.write_request_headers(peer, packet, &landing);
        }
        (Some(landing), code)
    }

    /// Finds the portals table entry that an operation addresses.
    ///
    /// # Errors
    /// The return code of the failure, if there is none, or if its state or its options exclude the
    /// operation.
    #[inline]
    fn find_portal(&mut self, packet: &Packet) -> Result<usize, ReturnCode> {
        let address = packet.address;
        let map = self.maps.iter().find(|(_, map)| map.serves(address));
        let Some(number) = map.map(|(_, map)| map.pte) else {
            self.unresolved += 1;
            self.raise(C_RC_PTLTE_NOT_FOUND);
            return Err(C_RC_PTLTE_NOT_FOUND);
        };
        let pte = self.ptes.get_mut(number).ok_or(C_RC_PTLTE_NOT_FOUND)?;
        let is_managed_by_software = pte.state == C_PTLTE_SOFTWARE_MANAGED;
        if pte.state != C_PTLTE_ENABLED && !is_managed_by_software {
            if pte.options.en_flowctrl {
                pte.drop_count = pte.drop_count.wrapping_add(1) & 0xff_ffff;
            }
            return Err(self.fail(packet, C_RC_PT_DISABLED));
        }
        if packet.restricted && pte.options.is_matching {
            return Err(self.fail(packet, C_RC_INVALID_ENDPOINT));
        }
        // Software has no way to answer these.
        if is_managed_by_software
            && !matches!(packet.kind, PacketKind::Put | PacketKind::Rendezvous)
        {
            return Err(self.fail(packet, C_RC_PTLTE_SW_MANAGED));
        }
        Ok(number)
    }

    /// Reports that an operation matched the entry `at` of a list, of which `used` bytes are in use
    /// then, and removes the entry if the operation used it up.
    #[inline]
    fn use_entry(
        &mut self,
        packet: &Packet,
        landing: &Landing,
        entry: &ListEntry,
        (list, at): (c_ptl_list, usize),
        used: u64,
    ) {
        let Some(pte) = self.ptes.get_mut(landing.pte) else {
            return;
        };
        let used_up = landing.auto_unlinked;
        if pte.options.en_event_match && !entry.command.event_comm_disable() {
            let event =
                TargetEvent { kind: C_EVENT_MATCH, ..TargetEvent::of(packet, landing, C_RC_OK) };
            pte.post(&event, &mut self.eqs, &self.entries);
        }
        if (used_up || used != entry.used)
            && let Some(entries) = pte.lists.get_mut(list)
        {
            entries[at].used = used;
            if used_up {
                entries.remove(at);
                self.entries[pte.element] -= 1;
            }
        }
        if used_up && !entry.command.event_unlink_disable() {
            pte.post(&events::unlinked(landing), &mut self.eqs, &self.entries);
        }
    }

    /// Appends the header of a message to the UNEXPECTED list, which has room for it.
    #[inline]
    fn store_header(&mut self, peer: PeerId, packet: &Packet, landing: &Landing) {
        let Some(pte) = self.ptes.get_mut(landing.pte) else {
            return;
        };
        pte.lists.unexpected.push_back(UnexpectedHeader {
            header: *packet,
            nid: self.wire.nid(Some(peer)),
            start: landing.place.start,
            mlength: landing.mlength(packet),
            code: C_RC_OK,
        });
        self.entries[pte.element] += 1;
    }

    /// Matches an operation in the state that it has caused.
    #[cold]
    #[inline(never)]
    fn match_again(&mut self, peer: PeerId, packet: &Packet) -> (Option<Landing>, ReturnCode) {
        self.match_operation(peer, packet)
    }

    /// Writes the headers of a message on the REQUEST list, before the place of its data. Returns
    /// OK or the return code of a failure.
    #[cold]
    fn write_request_headers(
        &self,
        peer: PeerId,
        packet: &Packet,
        landing: &Landing,
    ) -> ReturnCode {
        let nid = self.wire.nid(Some(peer));
        let headers = lists::headers(packet, nid, landing.mlength(packet));
        let length = landing.headers(packet);
        let pte = self.ptes.get(landing.pte);
        let lni = pte.and_then(|pte| self.lnis.get(pte.lni));
        let lac = landing.entry.lac();
        let start = landing.place.start - u64::from(length);
        let place = lni
            .ok_or(C_RC_INVALID_AC)
            .and_then(|lni| lni.space.translate(lac, start, length.into(), MemoryAccess::Write));
        let written = place.and_then(|to| {
            // SAFETY: `length` is at most the size of `headers`, and `translate` found as many
            // bytes, which software keeps mapped while list entries use them.
            unsafe { to.write(headers.as_ptr(), length as usize) }
        });
        written.err().unwrap_or(C_RC_OK)
    }

    /// Refuses a message for lack of resources and returns its return code.
    #[cold]
    fn refuse(&mut self, packet: &Packet, number: usize, reason: c_sc_reason) -> ReturnCode {
        let Some(pte) = self.ptes.get_mut(number) else {
            return C_RC_PTLTE_NOT_FOUND;
        };
        let code = pte.refuse(number, reason, &mut self.eqs);
        let (disabled, not_found) = match reason {
            C_SC_FC_NO_MATCH => (ListCount::DisabledNoMatch, ListCount::NotFoundNoMatch),
            C_SC_FC_EQ_FULL => (ListCount::DisabledEqFull, ListCount::NotFoundEqFull),
            C_SC_FC_REQUEST_FULL => {
                (ListCount::DisabledRequestEmpty, ListCount::NotFoundRequestEmpty)
            }
            _ => (ListCount::DisabledNoUnexpected, ListCount::NotFoundNoUnexpected),
        };
        self.lists.count(match code {
            C_RC_PT_DISABLED => disabled,
            _ => not_found,
        });
        self.fail(packet, code)
    }

    /// Sets the error flag of an operation that failed here.
    #[cold]
    pub fn raise(&self, code: ReturnCode) {
        if let Some(flag) = ErrorFlag::from_failure(code) {
            self.wire.raise(flag);
        }
    }

    /// Counts an operation that failed with a code, and returns the code.
    #[cold]
    fn fail(&mut self, packet: &Packet, code: ReturnCode) -> ReturnCode {
        let cause = match code {
            C_RC_OP_VIOLATION => Some(ListCount::OpViolation),
            C_RC_NO_SPACE => Some(ListCount::NoSpaceNet),
            C_RC_INVALID_ENDPOINT => Some(ListCount::InvalidEndpoint),
            C_RC_RESTRICTED_UNICAST => Some(ListCount::RestrictedUnicast),
            C_RC_PTLTE_SW_MANAGED => Some(ListCount::SoftwareManaged),
            _ => None,
        };
        self.raise(code);
        let kind = count_of_kind(packet);
        for count in [kind, ListCount::MatchRequest, ListCount::Fail].into_iter().chain(cause) {
            self.lists.count(count);
        }
        code
    }
}

/// Lands an operation on an entry of the portals table entry `pte`: at `place`, or with no bytes if
/// it failed. Returns the bytes of the entry that are in use then, too.
#[inline]
fn land(
    pte: usize,
    packet: &Packet,
    entry: &ListEntry,
    place: Option<EntryRange>,
) -> (Landing, u64) {
    let mut used = entry.used;
    let end = match &place {
        Some(place) => place.end(&entry.command),
        None => used,
    };
    let auto_unlinked = lists::consume(&entry.command, &mut used, end);
    let nowhere = EntryRange { start: lists::clamped(entry, packet).start, length: 0 };
    let place = place.unwrap_or(nowhere);
    (Landing { pte, entry: entry.command, place, auto_unlinked }, used)
}

/// The properties by which counters distinguish an operation that an entry accepted, `truncated` or
/// not, of a portals table entry with or without matching.
#[inline]
fn matched(
    packet: &Packet,
    entry: &ListEntry,
    truncated: bool,
    has_matching: bool,
) -> MatchedOperation {
    let (use_once, manage_local) = (entry.command.use_once(), entry.command.manage_local());
    MatchedOperation {
        kind: count_of_kind(packet),
        list: entry.command.ptl_list(),
        use_once,
        manage_local,
        truncated: manage_local && truncated,
        cached: !has_matching && !use_once && !manage_local,
    }
}

/// The counter of operations of this kind.
#[inline]
fn count_of_kind(packet: &Packet) -> ListCount {
    match packet.kind {
        PacketKind::Get => ListCount::Get,
        PacketKind::Atomic if packet.amo.fetching => ListCount::FetchingAtomic,
        PacketKind::Atomic => ListCount::Atomic,
        PacketKind::Rendezvous => ListCount::RendezvousPut,
        _ => ListCount::Put,
    }
}

/// Checks an operation against its entry and the memory behind it (nic.md 7.1, 8.3, 11), and
/// returns its place.
///
/// nic.md does not state the order in which hardware checks. Here it is: restricted transport,
/// rights, bounds, the atomic operation, alignment, memory.
fn check(
    packet: &Packet,
    entry: &ListEntry,
    pte: &Pte,
    lni: Option<&Lni>,
) -> Result<EntryRange, ReturnCode> {
    let command = &entry.command;
    let is_refused = packet.restricted
        && command.manage_local()
        && !pte.options.en_restricted_unicast_lm
        && !lists::is_on_request_list(command);
    if is_refused {
        return Err(C_RC_RESTRICTED_UNICAST);
    }
    let (reads, writes) = match packet.kind {
        PacketKind::Get => (true, false),
        PacketKind::Atomic => (packet.amo.fetching, true),
        _ => (false, true),
    };
    if (reads && !command.op_get()) || (writes && !command.op_put()) {
        return Err(C_RC_OP_VIOLATION);
    }
    let place = lists::place(entry, packet)?;
    let length = u64::from(place.length);
    let is_atomic = packet.kind == PacketKind::Atomic;
    if is_atomic && !arithmetic::is_valid(packet.amo) {
        return Err(C_RC_AMO_INVAL_OP_ERROR);
    }
    if is_atomic && !place.start.is_multiple_of(length) {
        return Err(C_RC_AMO_ALIGN_ERROR);
    }
    if length > 0 {
        let space = lni.map(|lni| &lni.space).ok_or(C_RC_INVALID_AC)?;
        // An atomic operation reads the memory that it changes, fetching or not.
        if reads || is_atomic {
            space.translate(command.lac(), place.start, length, MemoryAccess::Read)?;
        }
        if writes {
            space.translate(command.lac(), place.start, length, MemoryAccess::Write)?;
        }
    }
    Ok(place)
}

/// Whether there is room for the events of an operation that succeeds (nic.md 5.6), without the
/// later REPLY of a get that the NIC issues for it.
#[inline]
fn has_room(packet: &Packet, landing: &Landing, pte: &Pte, eqs: &mut Table<EventQueue>) -> bool {
    let entry = &landing.entry;
    let unlink = landing.auto_unlinked && !entry.event_unlink_disable();
    let is_rendezvous = packet.kind == PacketKind::Rendezvous;
    // Entries of one-sided traffic usually have no events.
    let silent = entry.event_comm_disable()
        || (entry.event_success_disable() && !is_rendezvous && !pte.options.en_event_match);
    if silent && !unlink {
        return true;
    }
    let Some(queue) = eqs.get_mut(usize::from(pte.eq)) else {
        return true;
    };
    let event = TargetEvent::of(packet, landing, C_RC_OK);
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
            expect(events::target_size(queue, &event, pte.options.use_long_event));
        }
        if is_rendezvous && event.ptl_list == C_PTL_LIST_PRIORITY as u8 {
            expect(SLOT);
        }
    }
    queue.accepts(&sizes[..expected])
}
