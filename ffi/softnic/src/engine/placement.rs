//! Where in a list entry an operation lands, and what that leaves of the entry (nic.md 7.1, 8.5).

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::ReturnCode;
use super::lists::Entry;
use super::packet::{Kind, Packet};

/// A part of an entry's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// IOVA of the first byte.
    pub start: u64,
    pub length: u32,
}

/// Where in the entry an operation begins: where the last one ended if the entry is managed locally,
/// else where the initiator says. A rendezvous put may use its remote offset otherwise (nic.md
/// 10.5); it begins at the beginning then.
#[inline]
fn offset(entry: &Entry, packet: &Packet) -> u64 {
    if entry.command.manage_local() {
        entry.used
    } else if packet.rendezvous.use_offset_for_get {
        0
    } else {
        packet.remote_offset
    }
}

/// Bytes of the entry that an operation needs. Of a rendezvous put the OVERFLOW list takes the
/// eager part; what is fetched goes to the entry that is appended for it.
#[inline]
fn wanted(entry: &Entry, packet: &Packet) -> u32 {
    match packet.kind {
        Kind::Rendezvous if u32::from(entry.command.ptl_list()) == C_PTL_LIST_OVERFLOW => {
            packet.rendezvous.eager
        }
        _ => packet.rlength(),
    }
}

/// Whether an entry holds all of an operation.
#[inline]
pub fn fits(entry: &Entry, packet: &Packet) -> bool {
    let end = offset(entry, packet).saturating_add(u64::from(wanted(entry, packet)));
    end <= entry.command.length()
}

/// Where an operation lands. An entry that is managed locally truncates it to what is left; beyond
/// the end of another it fails, and so does an atomic operation, of which there is no half.
#[inline]
pub fn place(entry: &Entry, packet: &Packet) -> Result<Place, ReturnCode> {
    let is_divisible = entry.command.manage_local() && packet.kind != Kind::Atomic;
    if !is_divisible && !fits(entry, packet) {
        return Err(C_RC_NO_SPACE);
    }
    Ok(clamped(entry, packet))
}

/// Where the message of a header found in the UNEXPECTED list belongs in an entry that was appended
/// for it: in what there is of it (nic.md 15, question 15).
#[inline]
pub fn clamped(entry: &Entry, packet: &Packet) -> Place {
    let offset = offset(entry, packet);
    let left = entry.command.length().saturating_sub(offset);
    Place {
        start: entry.command.start() + offset,
        length: u64::from(wanted(entry, packet)).min(left) as u32,
    }
}

/// Notes that an operation met an entry, of which `used` bytes are in use, and took `length` bytes. True if the entry is used
/// up: it was for one operation, whatever became of that, or is managed locally and has less left
/// than it is to have. `min_free` counts bytes: the shift of this NIC is 0 (libcxi.md 2.2).
#[inline]
pub fn consume(command: &TargetCmd, used: &mut u64, length: u32) -> bool {
    if command.manage_local() {
        *used += u64::from(length);
        if command.length().saturating_sub(*used) < u64::from(command.min_free()) {
            return true;
        }
    }
    command.use_once()
}
