//! Target queues: command queues for list entries and the states of portals, with their commands
//! APPEND, UNLINK, SEARCH, SEARCH_AND_DELETE and SETSTATE (nic.md 3.13, 8.2, 8.5, 8.6).

use cxi_sys::records::{SetStateCmd, TargetCmd};
use cxi_sys::*;

use super::counter::Counting;
use super::event_queue::EventQueue;
use super::events::{self, FailedCommand, TargetEvent};
use super::lists::{self, ListEntry, UnexpectedHeader};
use super::portal::{self, EntriesInUse, Pte, has_place};
use super::rendezvous::{Fetcher, RendezvousRest};
use super::return_codes::ReturnCode;
use super::ring::{CommandRing, RingCommand};
use super::table::Table;
use super::telemetry::ListCount;
use super::wire::Wire;

/// The most commands executed before other queues get their turn.
const BURST: usize = 32;

/// A target queue.
pub struct TargetQueue {
    pub ring: CommandRing,
    pub lni: usize,
    /// Event queue for COMMAND_FAILURE; 0 is none.
    pub error_eq: u16,
}

impl TargetQueue {
    /// Executes the commands of the queue, up to a bound. True if there was anything to do.
    pub fn run<W: Wire>(&mut self, number: usize, nic: &mut TargetParts<'_, W>) -> bool {
        let mut worked = self.ring.read_launch_page();
        if !self.ring.has_next() || self.ring.is_held() {
            return worked;
        }
        let mut command = RingCommand::new();
        for _ in 0..BURST {
            let Some(fetched) = self.ring.peek(&mut command) else {
                break;
            };
            worked = true;
            let header = command.header;
            match fetched.and_then(|()| execute_command(&command, self.lni, nic)) {
                Ok(is_accepted) => {
                    self.ring.is_refused |= !is_accepted;
                    self.ring.advance(header);
                }
                Err(code) => {
                    let failed = FailedCommand {
                        queue: number,
                        is_target: true,
                        slot: self.ring.fail(header, code),
                        header,
                        code,
                    };
                    events::command_failure(nic.eqs, self.error_eq, &failed);
                }
            }
        }
        worked
    }
}

/// The parts of the NIC that target commands of one LNI use.
pub struct TargetParts<'a, W> {
    pub ptes: &'a mut Table<Pte>,
    pub eqs: &'a mut Table<EventQueue>,
    pub entries: &'a mut EntriesInUse,
    /// For messages that an append finds on the UNEXPECTED list.
    pub fetcher: Fetcher<'a, W>,
}

/// Executes a target command of a queue of `lni`. False if it was refused, which its event reports;
/// a search that finds nothing is not.
///
/// # Errors
/// The return code with which the command stops its queue.
pub fn execute_command<W: Wire>(
    command: &RingCommand,
    lni: usize,
    nic: &mut TargetParts<'_, W>,
) -> Result<bool, ReturnCode> {
    let header = command.header;
    let opcode = u32::from(header.opcode());
    if opcode == C_CMD_NOOP
        && matches!(u32::from(header.cmd_type()), C_CMD_TYPE_IDC | C_CMD_TYPE_CQ)
    {
        return Ok(true);
    }
    if u32::from(header.cmd_type()) != C_CMD_TYPE_CQ
        || !(C_CMD_TGT_APPEND..=C_CMD_TGT_SETSTATE).contains(&opcode)
    {
        return Err(C_RC_ILLEGAL_OP);
    }
    if command.size() != TargetCmd::SIZE {
        return Err(C_RC_CMD_INVALID_ARG);
    }
    let target = TargetCmd::from_bytes(command.bytes());
    match opcode {
        C_CMD_TGT_APPEND => append(&target, lni, nic),
        C_CMD_TGT_UNLINK => unlink(&target, lni, nic),
        C_CMD_TGT_SETSTATE => set_state(&SetStateCmd::from_bytes(command.bytes()), lni, nic),
        _ => search(&target, lni, nic),
    }
}

/// A portals table entry of an LNI; PERM_VIOLATION for any other number.
fn own_pte(ptes: &mut Table<Pte>, number: u16, lni: usize) -> Result<&mut Pte, ReturnCode> {
    ptes.get_mut(usize::from(number)).filter(|pte| pte.lni == lni).ok_or(C_RC_PERM_VIOLATION)
}

/// Sets the state of a portals table entry.
fn set_state<W: Wire>(
    command: &SetStateCmd,
    lni: usize,
    nic: &mut TargetParts<'_, W>,
) -> Result<bool, ReturnCode> {
    let number = command.ptlte_index();
    let pte = own_pte(nic.ptes, number, lni)?;
    let wanted = u32::from(command.ptlte_state());
    let states = C_PTLTE_RESET..=C_PTLTE_SOFTWARE_MANAGED;
    if !states.contains(&wanted) {
        return Err(C_RC_CMD_INVALID_ARG);
    }
    let entries = &mut nic.entries[pte.element];
    let code = pte.set_state(number, wanted, command.drop_count(), nic.eqs, entries);
    nic.fetcher.lists.count(match code {
        C_RC_OK => ListCount::SetStateSuccess,
        _ => ListCount::SetStateNoMatch,
    });
    Ok(code == C_RC_OK)
}

/// Appends an entry, after it has matched headers of the UNEXPECTED list.
fn append<W: Wire>(
    command: &TargetCmd,
    lni: usize,
    nic: &mut TargetParts<'_, W>,
) -> Result<bool, ReturnCode> {
    let room = has_place(nic.ptes, command.ptlte_index().into(), nic.entries);
    let pte = own_pte(nic.ptes, command.ptlte_index(), lni)?;
    // Only the NIC adds to the UNEXPECTED list.
    if u32::from(command.ptl_list()) == C_PTL_LIST_UNEXPECTED {
        return Err(C_RC_CMD_INVALID_ARG);
    }
    let counts = command.event_ct_comm() || command.event_ct_overflow();
    if command.ct() != 0 && counts && !nic.fetcher.counters.is_of(command.ct(), lni) {
        return Err(C_RC_PERM_VIOLATION);
    }
    let list = u32::from(command.ptl_list());
    let failure = if list == C_PTL_LIST_PRIORITY && pte.state == C_PTLTE_SOFTWARE_MANAGED {
        Some((C_RC_PTLTE_SW_MANAGED, ListCount::SoftwareManaged))
    } else if !pte.lists.in_sequence(command, room) {
        Some((C_RC_NO_SPACE, ListCount::NoSpaceAppend))
    } else {
        None
    };
    if let Some((code, count)) = failure {
        nic.fetcher.lists.count(count);
        report(C_EVENT_LINK, command, code, pte, nic.eqs, nic.entries);
        if list == C_PTL_LIST_PRIORITY && !room {
            let number = command.ptlte_index().into();
            pte.leave_to_software(number, C_SC_SM_APPEND_FAIL, nic.eqs);
        }
        return Ok(false);
    }
    nic.fetcher.lists.count(ListCount::AppendSuccess);
    let mut entry = ListEntry::new(*command);
    if list == C_PTL_LIST_PRIORITY && match_unexpected(&mut entry, nic) {
        return Ok(true);
    }
    let pte = own_pte(nic.ptes, command.ptlte_index(), lni)?;
    if let Some(list) = pte.lists.get_mut(list) {
        list.push(entry);
        nic.entries[pte.element] += 1;
    }
    if !command.event_link_disable() {
        report(C_EVENT_LINK, command, C_RC_OK, pte, nic.eqs, nic.entries);
    }
    Ok(true)
}

/// Removes an entry by its buffer id.
fn unlink<W: Wire>(
    command: &TargetCmd,
    lni: usize,
    nic: &mut TargetParts<'_, W>,
) -> Result<bool, ReturnCode> {
    let pte = own_pte(nic.ptes, command.ptlte_index(), lni)?;
    let is_named = |entry: &ListEntry| entry.command.buffer_id() == command.buffer_id();
    let list = pte.lists.get_mut(u32::from(command.ptl_list()));
    let found = list.and_then(|list| Some(list.remove(list.iter().position(is_named)?)));
    let (code, count) = if found.is_some() {
        nic.entries[pte.element] -= 1;
        (C_RC_OK, ListCount::UnlinkSuccess)
    } else {
        (C_RC_ENTRY_NOT_FOUND, ListCount::UnlinkFailed)
    };
    nic.fetcher.lists.count(count);
    report(C_EVENT_UNLINK, command, code, pte, nic.eqs, nic.entries);
    Ok(code == C_RC_OK)
}

/// Searches the UNEXPECTED list for headers that an entry with these criteria would match. Deleted
/// headers are reported as an append reports them, but nothing is fetched: there is no entry for
/// it.
fn search<W: Wire>(
    command: &TargetCmd,
    lni: usize,
    nic: &mut TargetParts<'_, W>,
) -> Result<bool, ReturnCode> {
    let pte = own_pte(nic.ptes, command.ptlte_index(), lni)?;
    if u32::from(command.ptl_list()) != C_PTL_LIST_UNEXPECTED {
        return Err(C_RC_CMD_INVALID_ARG);
    }
    let deletes = u32::from(command.opcode()) == C_CMD_TGT_SEARCH_AND_DELETE;
    let criteria = ListEntry::new(*command);
    let (success, failure) = if deletes {
        (ListCount::DeleteSuccess, ListCount::DeleteFail)
    } else {
        (ListCount::SearchSuccess, ListCount::SearchFail)
    };
    let (mut at, mut hits) = (0, 0);
    while let Some(next) = next_match(pte, &criteria, at) {
        hits += 1;
        let mut event = overflow_event(&pte.lists.unexpected[next], command);
        at = next;
        if deletes {
            pte.lists.unexpected.remove(next);
            nic.entries[pte.element] -= 1;
        } else {
            event.kind = C_EVENT_SEARCH;
            event.return_code = C_RC_OK;
            at += 1;
        }
        pte.post(&event, nic.eqs, nic.entries);
        if command.use_once() {
            nic.fetcher.lists.count(success);
            return Ok(true);
        }
    }
    nic.fetcher.lists.count(if hits > 0 { success } else { failure });
    nic.fetcher.lists.count(ListCount::SearchNoMatch);
    report(C_EVENT_SEARCH, command, C_RC_NO_MATCH, pte, nic.eqs, nic.entries);
    Ok(true)
}

/// Matches the headers of the UNEXPECTED list with a new entry, in order of arrival. True if that
/// uses the entry up; then it is never linked, so it is not unlinked either, and the last event has
/// `auto_unlinked`.
///
/// A locally managed entry keeps space for the data of each message, which software copies there,
/// so that a later message does not overwrite it (nic.md does not state this; an entry for many
/// receives would be useless otherwise). A header whose operation the entry does not allow stays on
/// the list. Comparing headers in vain takes the time of a walk.
fn match_unexpected<W: Wire>(entry: &mut ListEntry, nic: &mut TargetParts<'_, W>) -> bool {
    let number = usize::from(entry.command.ptlte_index());
    let Some(pte) = nic.ptes.get_mut(number) else {
        return false;
    };
    if !entry.command.op_put() {
        return false;
    }
    let mut walked = 0;
    loop {
        let found = next_match(pte, entry, walked);
        let reached = found.unwrap_or(pte.lists.unexpected.len());
        nic.fetcher.wire.walk(reached - walked);
        walked = reached;
        let Some(found) = found.and_then(|index| pte.lists.unexpected.remove(index)) else {
            return false;
        };
        nic.entries[pte.element] -= 1;
        let place = lists::clamped(entry, &found.header);
        let end = place.end(&entry.command);
        let used_up = lists::consume(&entry.command, &mut entry.used, end);
        let mut event = overflow_event(&found, &entry.command);
        event.auto_unlinked = used_up;
        let command = &entry.command;
        let counting = Counting::from_entry(command, command.event_ct_overflow());
        nic.fetcher.counters.count_completion(counting, found.mlength, found.code, nic.eqs);
        let quiet = command.event_comm_disable()
            || (command.event_success_disable()
                && event.return_code == C_RC_OK
                && !event.rendezvous);
        if !quiet {
            pte.post(&event, nic.eqs, nic.entries);
        }
        if event.rendezvous && found.code == C_RC_OK {
            let rest = RendezvousRest {
                put: &found.header,
                nid: found.nid,
                pte: number,
                entry: command,
                place,
                mlength: found.mlength,
            };
            nic.fetcher.fetch(&rest, pte, nic.eqs, nic.entries);
        }
        if used_up {
            return true;
        }
    }
}

/// The index of the first header from `from` on that matches an entry.
fn next_match(pte: &Pte, entry: &ListEntry, from: usize) -> Option<usize> {
    let headers = pte.lists.unexpected.iter().enumerate().skip(from);
    let mut matching =
        headers.filter(|(_, found)| portal::matches_entry(&pte.options, entry, &found.header));
    Some(matching.next()?.0)
}

/// The event of a header for the command that found it. The remote offset of an unexpected message
/// is not valid (nic.md 6.6); it is 0.
fn overflow_event(found: &UnexpectedHeader, command: &TargetCmd) -> TargetEvent {
    TargetEvent {
        kind: C_EVENT_PUT_OVERFLOW,
        ptlte_index: command.ptlte_index(),
        ptl_list: C_PTL_LIST_OVERFLOW as u8,
        buffer_id: command.buffer_id(),
        start: found.start,
        mlength: found.mlength,
        remote_offset: 0,
        return_code: found.code,
        ..TargetEvent::about(&found.header)
    }
}

/// Reports the result of a command that did not match a message.
fn report(
    kind: c_event_type,
    command: &TargetCmd,
    code: ReturnCode,
    pte: &Pte,
    eqs: &mut Table<EventQueue>,
    entries: &EntriesInUse,
) {
    let event = TargetEvent {
        kind,
        ptlte_index: command.ptlte_index(),
        ptl_list: command.ptl_list(),
        buffer_id: command.buffer_id(),
        return_code: code,
        ..TargetEvent::default()
    };
    pte.post(&event, eqs, entries);
}
