//! Which list entry an operation meets (nic.md 8.4).

use cxi_sys::C_NID_ANY;
use cxi_sys::records::TargetCmd;

use super::PID_BITS;
use super::packet::Packet;
use super::portal::Pte;

/// Bits of a match id below the PID: a NIC address, or a rank.
const NODE_BITS: u32 = 32 - PID_BITS;

/// The first entry of the priority list that an operation meets. On a non-matching portal every
/// operation meets the first.
#[inline]
pub fn find(pte: &Pte, packet: &Packet) -> Option<TargetCmd> {
    if !pte.options.is_matching {
        return pte.priority.first().copied();
    }
    let meets = |entry: &&TargetCmd| {
        (packet.match_bits() ^ entry.match_bits()) & !entry.ignore_bits() == 0
            && admits(entry.match_id(), packet.initiator, pte.options.use_logical)
    };
    pte.priority.iter().find(meets).copied()
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
