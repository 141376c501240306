//! The REQUEST list, which takes the messages of a portals table entry that software manages
//! (nic.md 8.2, 8.3). Each message there follows a header of this project.

use cxi_sys::records::TargetCmd;
use cxi_sys::{C_CMD_PUT, C_CMD_RENDEZVOUS_PUT, C_PTL_LIST_REQUEST};

use super::packet::{Kind, Packet};

/// Bytes of a header.
pub const HEADER: usize = 64;

/// Headers begin at multiples of this number of bytes in their entry.
const ALIGNMENT: u64 = 8;

/// Whether an entry is on the REQUEST list.
#[inline]
pub fn has(entry: &TargetCmd) -> bool {
    u32::from(entry.ptl_list()) == C_PTL_LIST_REQUEST
}

/// Returns the offset of the next message, behind its header, in an entry of which `used` bytes are
/// in use.
pub fn offset(used: u64) -> u64 {
    used.next_multiple_of(ALIGNMENT) + HEADER as u64
}

/// Returns the header of a message from `nid`, of which `mlength` bytes follow: the table in
/// docs/software-nic.md, as bytes.
pub fn header(packet: &Packet, nid: u32, mlength: u32) -> [u8; HEADER] {
    let opcode = match packet.kind {
        Kind::Rendezvous => C_CMD_RENDEZVOUS_PUT,
        _ => C_CMD_PUT,
    };
    let (endpoint, index) = packet.address.to_parts();
    let rendezvous = packet.rendezvous;
    let words = [
        packet.header_data(),
        packet.match_bits(),
        packet.remote_offset,
        u64::from(packet.initiator) | u64::from(nid) << 32,
        u64::from(packet.total) | u64::from(mlength) << 32,
        endpoint | index << 32 | u64::from(opcode) << 48 | u64::from(rendezvous.id) << 56,
        u64::from(rendezvous.use_offset_for_get) | u64::from(packet.restricted) << 1,
        0,
    ];
    let mut bytes = [0; HEADER];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
