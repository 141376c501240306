//! Match ids: the PID and the node of an initiator in 32 bits (nic.md 4.2).

use cxi_sys::C_NID_ANY;

/// Bits of a PID on this NIC (libcxi.md 2.2).
pub const PID_BITS: u32 = 9;

/// Bits of a match id below the PID: a NIC address, or a rank.
const NODE_BITS: u32 = 32 - PID_BITS;

/// Returns the match id of a PID at a NIC.
pub fn match_id(pid: u16, nid: u32) -> u32 {
    u32::from(pid) << NODE_BITS | nid
}

/// Returns the PID in a match id.
pub fn pid_of(match_id: u32) -> u16 {
    (match_id >> NODE_BITS) as u16
}

/// Whether an entry with this match id accepts operations of `initiator`. All ones in the PID or in
/// the node match any; where nodes are NIC addresses, so does the wildcard address of 20 ones
/// (nic.md 15, question 27).
pub fn accepts(match_id: u32, initiator: u32, use_logical: bool) -> bool {
    let pid = |id: u32| id >> NODE_BITS;
    let node = |id: u32| id & (u32::MAX >> PID_BITS);
    let any_pid = pid(match_id) == u32::MAX >> NODE_BITS;
    let any_node =
        node(match_id) == u32::MAX >> PID_BITS || (!use_logical && node(match_id) == C_NID_ANY);
    (any_pid || pid(match_id) == pid(initiator)) && (any_node || node(match_id) == node(initiator))
}
