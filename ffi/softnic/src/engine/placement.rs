//! Where in a list entry an operation lands, and what remains of the entry (nic.md 7.1, 8.5).

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::lists::ListEntry;
use super::packet::{Packet, PacketKind};
use super::request_list;
use super::return_codes::ReturnCode;

/// A part of an entry's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRange {
    /// IOVA of the first byte.
    pub start: u64,
    pub length: u32,
}

impl EntryRange {
    /// Returns the offset behind the last byte in the entry.
    #[inline]
    pub fn end(&self, entry: &TargetCmd) -> u64 {
        self.start - entry.start() + u64::from(self.length)
    }
}

/// The list entry of an operation, and its place there.
#[derive(Clone, Copy)]
pub struct Landing {
    /// Number of the portals table entry.
    pub pte: usize,
    /// A copy of the list entry: unlinking does not stop operations in progress (nic.md 8.5).
    pub entry: TargetCmd,
    pub place: EntryRange,
    /// The operation used the entry up.
    pub auto_unlinked: bool,
}

impl Landing {
    /// Returns the bytes that the operation itself moves: for a rendezvous put, its eager bytes.
    #[inline]
    pub fn mlength(&self, packet: &Packet) -> u32 {
        match packet.kind {
            PacketKind::Rendezvous => self.place.length.min(packet.rendezvous.eager),
            _ => self.place.length,
        }
    }

    /// Returns the bytes of the headers that precede the data, on the REQUEST list.
    #[inline]
    pub fn headers(&self, packet: &Packet) -> u32 {
        if request_list::has(&self.entry) { request_list::header_length(packet) } else { 0 }
    }

    /// Whether the entry is on this list.
    #[inline]
    pub fn is_on(&self, list: c_ptl_list) -> bool {
        u32::from(self.entry.ptl_list()) == list
    }
}

/// Returns the offset in the entry at which an operation begins: where the previous one ended if
/// the entry is managed locally, and on the REQUEST list behind headers; else the remote offset. A
/// rendezvous put that uses its remote offset for the get (nic.md 10.5) begins at 0.
#[inline]
fn offset(entry: &ListEntry, packet: &Packet) -> u64 {
    if entry.command.manage_local() {
        if request_list::has(&entry.command) {
            entry.used + u64::from(request_list::header_length(packet))
        } else {
            entry.used
        }
    } else if packet.rendezvous.use_offset_for_get {
        0
    } else {
        packet.remote_offset
    }
}

/// Returns the bytes of the entry that an operation needs. On the OVERFLOW and REQUEST lists a
/// rendezvous put needs space for its eager part only; the rest goes to an entry that is appended
/// for it later, or where software fetches it to.
#[inline]
pub fn needed(entry: &ListEntry, packet: &Packet) -> u32 {
    let is_unexpected =
        matches!(entry.command.ptl_list().into(), C_PTL_LIST_OVERFLOW | C_PTL_LIST_REQUEST);
    match packet.kind {
        PacketKind::Rendezvous if is_unexpected => packet.rendezvous.eager,
        _ => packet.rlength(),
    }
}

/// Whether an operation fits in an entry.
#[inline]
pub fn fits(entry: &ListEntry, packet: &Packet) -> bool {
    let end = offset(entry, packet).saturating_add(u64::from(needed(entry, packet)));
    end <= entry.command.length()
}

/// Returns the place of an operation in an entry. A locally managed entry truncates the operation
/// to the space that is left.
///
/// # Errors
/// NO_SPACE beyond the end of another entry, and for an atomic operation, which is not divisible.
#[inline]
pub fn place(entry: &ListEntry, packet: &Packet) -> Result<EntryRange, ReturnCode> {
    let is_divisible = entry.command.manage_local() && packet.kind != PacketKind::Atomic;
    if !is_divisible && !fits(entry, packet) {
        return Err(C_RC_NO_SPACE);
    }
    Ok(clamped(entry, packet))
}

/// Returns the place of an operation in an entry, truncated to the space that is left. A message
/// from the UNEXPECTED list is placed so in the entry appended for it (nic.md 15, question 15).
#[inline]
pub fn clamped(entry: &ListEntry, packet: &Packet) -> EntryRange {
    let offset = offset(entry, packet);
    let left = entry.command.length().saturating_sub(offset);
    EntryRange {
        start: entry.command.start() + offset,
        length: u64::from(needed(entry, packet)).min(left) as u32,
    }
}

/// Sets the `used` bytes of an entry after an operation up to offset `end`. True if that uses the
/// entry up: it was for one operation, failed or not, or is locally managed and has less than
/// `min_free` bytes left. `min_free` is in bytes: the shift of this NIC is 0 (libcxi.md 2.2).
#[inline]
pub fn consume(command: &TargetCmd, used: &mut u64, end: u64) -> bool {
    if command.manage_local() {
        *used = end;
        if command.length().saturating_sub(*used) < u64::from(command.min_free()) {
            return true;
        }
    }
    command.use_once()
}
