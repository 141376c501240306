//! Which list entry an operation meets (nic.md 8.4).

use cxi_sys::*;

use super::PID_BITS;
use super::lists::Entry;
use super::packet::{Kind, Packet};
use super::placement;
use super::portal::{Pte, PteOptions};

/// Bits of a match id below the PID: a NIC address, or a rank.
const NODE_BITS: u32 = 32 - PID_BITS;

/// The entry that an operation meets: its list, and its place there. The OVERFLOW list is for puts
/// only (nic.md 15, question 22).
#[inline]
pub fn find(pte: &Pte, packet: &Packet) -> Option<(c_ptl_list, usize)> {
    let search = |list| {
        let meets = |entry: &Entry| meets(&pte.options, entry, packet);
        Some((list, pte.lists.get(list).iter().position(meets)?))
    };
    search(C_PTL_LIST_PRIORITY).or_else(|| match packet.kind {
        Kind::Put | Kind::Rendezvous => search(C_PTL_LIST_OVERFLOW),
        _ => None,
    })
}

/// Whether an operation meets an entry. Without matching lists all do, unless the entry wants no
/// message that it would have to cut.
#[inline]
pub fn meets(options: &PteOptions, entry: &Entry, packet: &Packet) -> bool {
    let command = &entry.command;
    let selected = !options.is_matching
        || ((packet.match_bits() ^ command.match_bits()) & !command.ignore_bits() == 0
            && admits(command.match_id(), packet.initiator, options.use_logical));
    selected && (!command.no_truncate() || placement::fits(entry, packet))
}

/// Whether an entry with this match id takes operations of `initiator`. All ones in either part
/// of the match id admit all; so does, where nodes are NIC addresses, the NIC address of 20 ones
/// (nic.md 15, question 27).
fn admits(match_id: u32, initiator: u32, use_logical: bool) -> bool {
    let pid = |id: u32| id >> NODE_BITS;
    let node = |id: u32| id & (u32::MAX >> PID_BITS);
    let any_pid = pid(match_id) == u32::MAX >> NODE_BITS;
    let any_node =
        node(match_id) == u32::MAX >> PID_BITS || (!use_logical && node(match_id) == C_NID_ANY);
    (any_pid || pid(match_id) == pid(initiator)) && (any_node || node(match_id) == node(initiator))
}

/// The match id of a PID at a NIC (nic.md 4.2).
pub fn match_id(pid: u16, nid: u32) -> u32 {
    u32::from(pid) << NODE_BITS | nid
}

/// The PID in a match id.
pub fn pid_of(match_id: u32) -> u16 {
    (match_id >> NODE_BITS) as u16
}
