//! The REQUEST list, which takes the messages of a portals table entry that software manages
//! (nic.md 8.2, 8.3, 8.8). Each message there follows its headers.
//!
//! The sizes of the headers, the version, the types and the remote offset are facts of nic.md 8.8.
//! The other fields are of this project: the tables in docs/software-nic-reference.md.

use cxi_sys::C_PTL_LIST_REQUEST;
use cxi_sys::records::TargetCmd;

use super::packet::{Packet, PacketKind};

/// Bytes of the fabric header, which is the first, and of the transport headers.
const FABRIC: usize = 20;
const UNRESTRICTED: usize = 43;
const SMALL_MESSAGE: usize = 29;

/// The most bytes of headers.
pub const MOST: usize = FABRIC + UNRESTRICTED;

/// The version, in the upper half of the first byte of a fabric header.
const VERSION: u8 = 4;

/// Types of transport headers, in bits 4 to 6 of their first byte.
const TYPE_UNRESTRICTED: u8 = 0;
const TYPE_SMALL_MESSAGE: u8 = 1;

/// Where an unrestricted header has the remote offset. nic.md 8.8 leaves open whether its bytes 22
/// to 28 are counted in the transport header or in the message: both are within the 43 bytes. A
/// program that reads them at the wrong place would fetch wrong data, so they are at both.
const REMOTE_OFFSETS: [usize; 2] = [FABRIC + 22, 22];

/// Whether an entry is on the REQUEST list.
#[inline]
pub fn has(entry: &TargetCmd) -> bool {
    u32::from(entry.ptl_list()) == C_PTL_LIST_REQUEST
}

/// Returns the bytes of the headers of a message.
pub fn header_length(packet: &Packet) -> u32 {
    let transport = if packet.small { SMALL_MESSAGE } else { UNRESTRICTED };
    (FABRIC + transport) as u32
}

/// Returns the headers of a message from `nid`, of which `mlength` bytes follow. Numbers are
/// big-endian, as the remote offset is.
pub fn headers(packet: &Packet, nid: u32, mlength: u32) -> [u8; MOST] {
    let mut bytes = [0; MOST];
    let mut set = |at: usize, number: &[u8]| bytes[at..at + number.len()].copy_from_slice(number);
    let (_, index) = packet.address.to_parts();
    set(0, &[VERSION << 4]);
    set(2, &packet.address.vni().to_be_bytes());
    set(4, &nid.to_be_bytes());
    set(8, &packet.address.pid().to_be_bytes());
    set(10, &(index as u16).to_be_bytes());
    set(12, &packet.total.to_be_bytes());
    set(16, &mlength.to_be_bytes());
    set(FABRIC + 10, &packet.match_bits().to_be_bytes());
    set(FABRIC + 18, &packet.initiator.to_be_bytes());
    if packet.small {
        set(FABRIC, &[TYPE_SMALL_MESSAGE << 4]);
        set(FABRIC + 2, &packet.header_data().to_be_bytes());
        return bytes;
    }
    let flags = u8::from(packet.kind == PacketKind::Rendezvous)
        | u8::from(packet.rendezvous.use_offset_for_get) << 1
        | u8::from(packet.restricted) << 2;
    set(FABRIC, &[TYPE_UNRESTRICTED << 4, flags]);
    for at in REMOTE_OFFSETS {
        set(at, &packet.remote_offset.to_be_bytes()[1..]);
    }
    set(FABRIC + 9, &[packet.rendezvous.id]);
    set(FABRIC + 29, &packet.header_data().to_be_bytes());
    bytes
}
