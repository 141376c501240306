//! Which list entry an operation matches (nic.md 8.4).

use cxi_sys::*;

use super::lists::ListEntry;
use super::match_id;
use super::packet::{Packet, PacketKind};
use super::placement;
use super::portal::{Pte, PteOptions};

/// Finds the entry that an operation matches: its list, and its index there. Only puts search the
/// OVERFLOW list (nic.md 15, question 22). If software manages the portals table entry, a put goes
/// to the first entry of the REQUEST list with room for it.
#[inline]
pub fn find(pte: &Pte, packet: &Packet) -> Option<(c_ptl_list, usize)> {
    if pte.state == C_PTLTE_SOFTWARE_MANAGED {
        let entries = pte.lists.get(C_PTL_LIST_REQUEST);
        let at = entries.iter().position(|entry| placement::fits(entry, packet))?;
        return Some((C_PTL_LIST_REQUEST, at));
    }
    let search = |list| {
        let matches = |entry: &ListEntry| matches(&pte.options, entry, packet);
        Some((list, pte.lists.get(list).iter().position(matches)?))
    };
    search(C_PTL_LIST_PRIORITY).or_else(|| match packet.kind {
        PacketKind::Put | PacketKind::Rendezvous => search(C_PTL_LIST_OVERFLOW),
        _ => None,
    })
}

/// Returns with how many entries an operation was compared that [`find`] found this entry for.
#[inline]
pub fn attempts(pte: &Pte, found: Option<(c_ptl_list, usize)>) -> usize {
    let length = |list| pte.lists.get(list).len();
    match found {
        Some((C_PTL_LIST_OVERFLOW, at)) => length(C_PTL_LIST_PRIORITY) + at + 1,
        Some((_, at)) => at + 1,
        None if pte.state == C_PTLTE_SOFTWARE_MANAGED => length(C_PTL_LIST_REQUEST),
        None => length(C_PTL_LIST_PRIORITY) + length(C_PTL_LIST_OVERFLOW),
    }
}

/// Whether an operation matches an entry. On a list without matching every operation does, except
/// one that would be truncated by an entry with `no_truncate`.
#[inline]
pub fn matches(options: &PteOptions, entry: &ListEntry, packet: &Packet) -> bool {
    let command = &entry.command;
    let selected = !options.is_matching
        || ((packet.match_bits() ^ command.match_bits()) & !command.ignore_bits() == 0
            && match_id::accepts(command.match_id(), packet.initiator, options.use_logical));
    selected && (!command.no_truncate() || placement::fits(entry, packet))
}
