//! The lists of a portals table entry (nic.md 8.3, 8.5, 8.6), where in a list entry an operation
//! lands, and what remains of the entry (nic.md 7.1, 8.5).
//!
//! The REQUEST list takes the messages of a portals table entry that software manages (nic.md 8.2,
//! 8.3, 8.8). Each message there follows its headers. The sizes of the headers, the version, the
//! types and the remote offset are facts of nic.md 8.8. The other fields are of this project: the
//! tables in docs/software-nic-reference.md.

use std::collections::VecDeque;

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::return_codes::ReturnCode;
use super::wire::{Packet, PacketKind};

/// Lists that software appends to: PRIORITY, OVERFLOW and REQUEST, by their numbers.
const APPENDABLE: usize = 3;

/// A list entry: the command that appended it, and the bytes in use.
#[derive(Clone, Copy)]
pub struct ListEntry {
    pub command: TargetCmd,
    /// Bytes in use of a locally managed entry. The next operation is placed behind them.
    pub used: u64,
}

impl ListEntry {
    /// Makes an unused entry. Entries of the REQUEST list are always managed locally.
    pub fn new(mut command: TargetCmd) -> Self {
        if u32::from(command.ptl_list()) == C_PTL_LIST_REQUEST {
            command.set_manage_local(true);
        }
        Self { command, used: 0 }
    }
}

/// The header of a message that matched an entry of the OVERFLOW list, until an append or a search
/// removes it.
#[derive(Clone, Copy)]
pub struct UnexpectedHeader {
    /// The first packet of the message.
    pub header: Packet,
    /// NIC address of the initiator.
    pub nid: u32,
    /// I/O virtual address and length of its data.
    pub start: u64,
    pub mlength: u32,
    /// How the message ended: OK unless its data failed after the header was stored.
    pub code: ReturnCode,
}

/// A list that software appends to.
#[derive(Default)]
struct Appendable {
    entries: Vec<ListEntry>,
    /// An append failed, and no append with `restart_seq` followed.
    broken_sequence: bool,
}

/// The lists of one portals table entry.
#[derive(Default)]
pub struct PortalLists {
    appendable: [Appendable; APPENDABLE],
    /// In order of arrival.
    pub unexpected: VecDeque<UnexpectedHeader>,
}

impl PortalLists {
    /// The entries of a list that software appends to, by its number.
    #[inline]
    pub fn get(&self, list: c_ptl_list) -> &[ListEntry] {
        let list = self.appendable.get(list as usize);
        list.map_or(&[], |list| &list.entries)
    }

    /// The entries of a list as `get` does, mutable.
    #[inline]
    pub fn get_mut(&mut self, list: c_ptl_list) -> Option<&mut Vec<ListEntry>> {
        Some(&mut self.appendable.get_mut(list as usize)?.entries)
    }

    /// The number of entries and headers on all lists. Each takes one place of the NIC's pool.
    pub fn len(&self) -> usize {
        let appendable = self.appendable.iter().map(|list| list.entries.len());
        appendable.sum::<usize>() + self.unexpected.len()
    }

    /// Whether an append succeeds: there is room, and no earlier append to the same list failed
    /// since the last one with `restart_seq` (nic.md 8.5).
    pub fn in_sequence(&mut self, command: &TargetCmd, room: bool) -> bool {
        let Some(list) = self.appendable.get_mut(usize::from(command.ptl_list())) else {
            return false;
        };
        list.broken_sequence = (list.broken_sequence && !command.restart_seq()) || !room;
        !list.broken_sequence
    }

    /// Lets appends succeed again after one failed.
    pub fn restart_sequences(&mut self) {
        for list in &mut self.appendable {
            list.broken_sequence = false;
        }
    }

    /// The header of a message, if it is still on the UNEXPECTED list.
    pub fn header_of(&mut self, message: &Packet) -> Option<&mut UnexpectedHeader> {
        self.unexpected.iter_mut().find(|unexpected| unexpected.header.is_same_message(message))
    }
}

/// A part of an entry's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRange {
    /// IOVA of the first byte.
    pub start: u64,
    pub length: u32,
}

impl EntryRange {
    /// The offset behind the last byte in the entry.
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
    /// The bytes that the operation itself moves: for a rendezvous put, its eager bytes.
    #[inline]
    pub fn mlength(&self, packet: &Packet) -> u32 {
        match packet.kind {
            PacketKind::Rendezvous => self.place.length.min(packet.rendezvous.eager),
            _ => self.place.length,
        }
    }

    /// The bytes of the headers that precede the data, on the REQUEST list.
    #[inline]
    pub fn headers(&self, packet: &Packet) -> u32 {
        if is_on_request_list(&self.entry) { header_length(packet) } else { 0 }
    }

    /// Whether the entry is on this list.
    #[inline]
    pub fn is_on(&self, list: c_ptl_list) -> bool {
        u32::from(self.entry.ptl_list()) == list
    }
}

/// The offset in the entry at which an operation begins: where the previous one ended if the entry
/// is managed locally, and on the REQUEST list behind headers; else the remote offset. A rendezvous
/// put that uses its remote offset for the get (nic.md 10.5) begins at 0.
#[inline]
fn offset(entry: &ListEntry, packet: &Packet) -> u64 {
    if entry.command.manage_local() {
        if is_on_request_list(&entry.command) {
            entry.used + u64::from(header_length(packet))
        } else {
            entry.used
        }
    } else if packet.rendezvous.use_offset_for_get {
        0
    } else {
        packet.remote_offset
    }
}

/// The bytes of the entry that an operation needs. On the OVERFLOW and REQUEST lists a rendezvous
/// put needs space for its eager part only; the rest goes to an entry that is appended for it
/// later, or where software fetches it to.
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

/// The place of an operation in an entry. A locally managed entry truncates the operation to the
/// space that is left.
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

/// The place of an operation in an entry, truncated to the space that is left. A message from the
/// UNEXPECTED list is placed so in the entry appended for it (nic.md 15, question 15).
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

/// Bytes of the fabric header, which is the first, and of the transport headers.
const FABRIC: usize = 20;
const UNRESTRICTED: usize = 43;
const SMALL_MESSAGE: usize = 29;

/// The most bytes of headers.
const MOST_HEADER_BYTES: usize = FABRIC + UNRESTRICTED;

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
pub fn is_on_request_list(entry: &TargetCmd) -> bool {
    u32::from(entry.ptl_list()) == C_PTL_LIST_REQUEST
}

/// The bytes of the headers of a message.
fn header_length(packet: &Packet) -> u32 {
    let transport = if packet.small { SMALL_MESSAGE } else { UNRESTRICTED };
    (FABRIC + transport) as u32
}

/// The headers of a message from `nid`, of which `mlength` bytes follow. Numbers are big-endian, as
/// the remote offset is.
pub fn headers(packet: &Packet, nid: u32, mlength: u32) -> [u8; MOST_HEADER_BYTES] {
    let mut bytes = [0; MOST_HEADER_BYTES];
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
