//! APPEND, UNLINK, SEARCH and SEARCH_AND_DELETE (nic.md 3.13, 8.5, 8.6).

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::event_queue::EventQueue;
use super::events::{self, Target};
use super::lists::{Entry, Unexpected};
use super::packet::Wire;
use super::portal::{Portals, Pte, TargetQueue, has_place, pool_use};
use super::rendezvous::Rest;
use super::table::Table;
use super::{ReturnCode, counter, matching, placement};

impl TargetQueue {
    /// Appends an entry, after those headers of the UNEXPECTED list that it matches were told to it.
    pub fn append<W: Wire>(
        &self,
        command: &TargetCmd,
        nic: &mut Portals<'_, W>,
    ) -> Result<(), ReturnCode> {
        let room = has_place(nic.ptes, command.ptlte_index().into(), *nic.entries);
        let pte = self.pte(command.ptlte_index(), nic.ptes)?;
        // The UNEXPECTED list is the NIC's own.
        if u32::from(command.ptl_list()) == C_PTL_LIST_UNEXPECTED {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        let counts = command.event_ct_comm() || command.event_ct_overflow();
        if command.ct() != 0 && counts && !nic.fetcher.counters.is_of(command.ct(), self.lni) {
            return Err(C_RC_PERM_VIOLATION);
        }
        let list = u32::from(command.ptl_list());
        if !pte.lists.in_sequence(command, room) {
            report(
                C_EVENT_LINK,
                command,
                C_RC_NO_SPACE,
                pte,
                nic.eqs,
                *nic.entries,
            );
            return Ok(());
        }
        let mut entry = Entry::new(*command);
        if list == C_PTL_LIST_PRIORITY && claim(&mut entry, nic) {
            return Ok(());
        }
        let pte = self.pte(command.ptlte_index(), nic.ptes)?;
        if let Some(list) = pte.lists.get_mut(list) {
            list.push(entry);
            *nic.entries += 1;
        }
        if !command.event_link_disable() {
            report(C_EVENT_LINK, command, C_RC_OK, pte, nic.eqs, *nic.entries);
        }
        Ok(())
    }

    pub fn unlink<W: Wire>(
        &self,
        command: &TargetCmd,
        nic: &mut Portals<'_, W>,
    ) -> Result<(), ReturnCode> {
        let pte = self.pte(command.ptlte_index(), nic.ptes)?;
        let is_it = |entry: &Entry| entry.command.buffer_id() == command.buffer_id();
        let list = pte.lists.get_mut(u32::from(command.ptl_list()));
        let found = list.and_then(|list| Some(list.remove(list.iter().position(is_it)?)));
        let code = match found {
            Some(_) => {
                *nic.entries -= 1;
                C_RC_OK
            }
            None => C_RC_ENTRY_NOT_FOUND,
        };
        report(C_EVENT_UNLINK, command, code, pte, nic.eqs, *nic.entries);
        Ok(())
    }

    /// Both searches. A header is matched as by an entry with these criteria. One that is deleted is
    /// told as an append would; that fetches nothing, for there is no entry to fetch to.
    pub fn search<W: Wire>(
        &self,
        command: &TargetCmd,
        nic: &mut Portals<'_, W>,
    ) -> Result<(), ReturnCode> {
        let pte = self.pte(command.ptlte_index(), nic.ptes)?;
        if u32::from(command.ptl_list()) != C_PTL_LIST_UNEXPECTED {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        let deletes = u32::from(command.opcode()) == C_CMD_TGT_SEARCH_AND_DELETE;
        let criteria = Entry::new(*command);
        let mut at = 0;
        while let Some(next) = next_match(pte, &criteria, at) {
            let mut event = told(&pte.lists.unexpected[next], command);
            at = next;
            if deletes {
                pte.lists.unexpected.remove(next);
                *nic.entries -= 1;
            } else {
                event.kind = C_EVENT_SEARCH;
                event.return_code = C_RC_OK;
                at += 1;
            }
            post(&event, pte, nic.eqs, *nic.entries);
            if command.use_once() {
                return Ok(());
            }
        }
        report(
            C_EVENT_SEARCH,
            command,
            C_RC_NO_MATCH,
            pte,
            nic.eqs,
            *nic.entries,
        );
        Ok(())
    }
}

/// Gives an entry the headers that wait for it, in order of arrival, and counts them if it wants that.
/// True if that uses it up; then it is never linked, so it is not unlinked either, and the last event
/// says `auto_unlinked`.
///
/// An entry managed locally keeps a place for the data of each, which software copies there, so
/// that a later message does not land on it (nic.md does not say; an entry for many receives
/// would be of no use otherwise). A header whose operation the entry does not allow waits on.
fn claim<W: Wire>(entry: &mut Entry, nic: &mut Portals<'_, W>) -> bool {
    let number = usize::from(entry.command.ptlte_index());
    let Some(pte) = nic.ptes.get_mut(number) else {
        return false;
    };
    if !entry.command.op_put() {
        return false;
    }
    while let Some(at) = next_match(pte, entry, 0) {
        let Some(found) = pte.lists.unexpected.remove(at) else {
            break;
        };
        *nic.entries -= 1;
        let place = placement::clamped(entry, &found.header);
        let used_up = placement::consume(&entry.command, &mut entry.used, place.length);
        let mut event = told(&found, &entry.command);
        event.auto_unlinked = used_up;
        let command = &entry.command;
        if command.event_ct_overflow() {
            let change = counter::amount(command.event_ct_bytes(), found.mlength, found.code);
            let ct = usize::from(command.ct());
            nic.fetcher.counters.change(ct, change, nic.eqs);
        }
        let quiet = command.event_comm_disable()
            || (command.event_success_disable()
                && event.return_code == C_RC_OK
                && !event.rendezvous);
        if !quiet {
            post(&event, pte, nic.eqs, *nic.entries);
        }
        if event.rendezvous && found.code == C_RC_OK {
            let rest = Rest {
                put: &found.header,
                nid: found.nid,
                pte: number,
                entry: command,
                place,
                mlength: found.mlength,
            };
            nic.fetcher
                .fetch(&rest, pte, nic.eqs, pool_use(*nic.entries));
        }
        if used_up {
            return true;
        }
    }
    false
}

/// The first header from `from` on that an entry matches.
fn next_match(pte: &Pte, entry: &Entry, from: usize) -> Option<usize> {
    let headers = pte.lists.unexpected.iter().enumerate().skip(from);
    let mut matching =
        headers.filter(|(_, found)| matching::meets(&pte.options, entry, &found.header));
    Some(matching.next()?.0)
}

/// What is told of a header to the command that found it. The remote offset of an unexpected message
/// is not valid (nic.md 6.6); it is 0.
fn told(found: &Unexpected, command: &TargetCmd) -> Target {
    Target {
        kind: C_EVENT_PUT_OVERFLOW,
        ptlte_index: command.ptlte_index(),
        ptl_list: C_PTL_LIST_OVERFLOW as u8,
        buffer_id: command.buffer_id(),
        start: found.start,
        mlength: found.mlength,
        remote_offset: 0,
        return_code: found.code,
        ..Target::about(&found.header)
    }
}

/// The event of a command that is not about a message.
fn report(
    kind: c_event_type,
    command: &TargetCmd,
    code: ReturnCode,
    pte: &Pte,
    eqs: &mut Table<EventQueue>,
    entries: usize,
) {
    let event = Target {
        kind,
        ptlte_index: command.ptlte_index(),
        ptl_list: command.ptl_list(),
        buffer_id: command.buffer_id(),
        return_code: code,
        ..Target::default()
    };
    post(&event, pte, eqs, entries);
}

fn post(event: &Target, pte: &Pte, eqs: &mut Table<EventQueue>, entries: usize) {
    if let Some(queue) = eqs.get_mut(usize::from(pte.eq)) {
        events::target(queue, event, pte.options.use_long_event, pool_use(entries));
    }
}
