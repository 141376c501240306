//! The packets that software NICs exchange, and the wire that carries them.
//!
//! The header is one cache line, in a format of this project: the fabric connects software NICs
//! only. A payload of up to 16 bytes without match bits and header data is part of the header, so
//! that a small put transfers a single line.

use std::collections::VecDeque;

use super::address::Address;
use super::arithmetic::{self, Amo};
use super::return_codes::{ErrorFlag, ReturnCode};

/// Most payload bytes of a packet on a link: the Portals MTU (nic.md 0).
pub const MTU: usize = 2048;

/// Most payload bytes of a packet between software NICs. Without a link model the wire carries
/// several packets of the link as one: fewer headers cost less, and a longer copy is faster.
pub const SEGMENT: usize = 4 * MTU;

/// Most payload bytes that fit in the header.
pub const INLINE: usize = 16;

/// The purpose of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// A put, or part of one.
    #[default]
    Put = 1,
    /// Ends an incomplete put: its sender could not read its own memory, or gave up.
    Abort = 2,
    /// Ends a put or an atomic operation, or any operation that was refused.
    Response = 3,
    /// A get.
    Get = 4,
    /// Data of a get, or the previous value of a fetching atomic operation.
    Reply = 5,
    /// An atomic operation, with its operands as payload.
    Atomic = 6,
    /// A rendezvous put with the first bytes of its eager part. The others follow as `Put`.
    Rendezvous = 7,
}

/// Where the sender of a packet has its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// In the NIC: it came with the command, or it is the result of an operation.
    #[default]
    Nic,
    /// In the memory of the host.
    Memory,
    /// In the memory of the host, in huge pages.
    HugePages,
}

/// The fields that only rendezvous puts have (nic.md 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rendezvous {
    /// Bytes sent with the put, at most 20 bits.
    pub eager: u32,
    pub id: u8,
    /// The remote offset applies to the get at the source, not to the target.
    pub use_offset_for_get: bool,
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    pub kind: PacketKind,
    /// Restricted transport (nic.md 3.10.1).
    pub restricted: bool,
    /// The payload is in `tail`.
    pub inline: bool,
    /// The target flushes its writes before it answers (nic.md 12), which here it counts only.
    pub flush: bool,
    /// A put that a small message started (nic.md 3.6): software that matches sees this.
    pub small: bool,
    /// The traffic class, 0 to 3: half of the priority of requests on the link (health.md 1.5).
    pub class: u8,
    /// A mark of congestion. The wire sets it, and a response repeats the mark of its request.
    pub is_marked: bool,
    /// Payload bytes in this packet.
    pub length: u16,
    /// Instance of the sending NIC, set by the wire.
    pub source: u64,
    /// The sender's transaction.
    pub tag: u32,
    pub address: Address,
    /// The result in a response or reply. In other packets 0, unless a fault of the link fails the
    /// operation with this code.
    pub return_code: u8,
    /// Responses and replies only: the list that matched.
    pub ptl_list: u8,
    pub initiator: u32,
    pub remote_offset: u64,
    /// Bytes of the whole message; in a get the bytes requested; in a response the bytes accepted.
    pub total: u32,
    /// Offset of the payload in the message; 0 in an atomic operation and in a rendezvous put.
    pub offset: u32,
    /// Atomic operations only.
    pub amo: Amo,
    /// Rendezvous puts only.
    pub rendezvous: Rendezvous,
    /// Match bits and header data, or the inline payload.
    pub tail: [u64; 2],
    /// Where the payload comes from, for the link model of the sender: it is not transmitted.
    pub origin: Origin,
}

const RESTRICTED: u64 = 1 << 40;
const INLINE_FLAG: u64 = 1 << 41;
const USE_OFFSET_FOR_GET: u64 = 1 << 42;
const FLUSH: u64 = 1 << 44;
const CLASS_SHIFT: u32 = 45;
const CLASS_MASK: u8 = 3;
const SMALL: u64 = 1 << 47;

/// A bit of the fourth word.
const MARKED: u64 = 1 << 26;

/// A bit of the first word that belongs to the wire, as does the low half of that word.
pub const WIRE_FLAG: u64 = 1 << 43;

/// Bits of a remote offset. The rendezvous id is above them.
const OFFSET_BITS: u32 = 56;

impl Packet {
    /// Encodes the packet as eight words. The low half of the first word and [`WIRE_FLAG`] are left
    /// to the wire.
    #[inline]
    pub fn to_words(self) -> [u64; 8] {
        let (endpoint, index) = self.address.to_parts();
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let place = match self.kind {
            PacketKind::Atomic => self.amo.to_bits(),
            PacketKind::Rendezvous => self.rendezvous.eager,
            _ => self.offset,
        };
        [
            (self.kind as u64) << 32
                | flag(self.restricted, RESTRICTED)
                | flag(self.inline, INLINE_FLAG)
                | flag(self.flush, FLUSH)
                | flag(self.small, SMALL)
                | u64::from(self.class) << CLASS_SHIFT
                | flag(self.rendezvous.use_offset_for_get, USE_OFFSET_FOR_GET)
                | u64::from(self.length) << 48,
            self.source,
            u64::from(self.tag) | endpoint << 32,
            index
                | u64::from(self.return_code) << 16
                | u64::from(self.ptl_list) << 24
                | flag(self.is_marked, MARKED)
                | u64::from(self.initiator) << 32,
            self.remote_offset | u64::from(self.rendezvous.id) << OFFSET_BITS,
            u64::from(self.total) | u64::from(place) << 32,
            self.tail[0],
            self.tail[1],
        ]
    }

    /// Decodes eight words; `None` if no NIC of this version can have written them.
    #[cfg(test)]
    pub fn from_words(words: [u64; 8]) -> Option<Self> {
        let mut packet = Self::default();
        packet.decode(words[0], |index| words[index]).then_some(packet)
    }

    /// Sets all fields to those that eight words encode; false if no NIC of this version can have
    /// written the words. `word` reads those after the first, once each. In place, field by field:
    /// a processor waits when it copies a record whose fields it has just stored one by one.
    #[inline(always)]
    pub fn decode(&mut self, first: u64, word: impl Fn(usize) -> u64) -> bool {
        self.kind = match (first >> 32) as u8 {
            1 => PacketKind::Put,
            2 => PacketKind::Abort,
            3 => PacketKind::Response,
            4 => PacketKind::Get,
            5 => PacketKind::Reply,
            6 => PacketKind::Atomic,
            7 => PacketKind::Rendezvous,
            _ => return false,
        };
        let (address, result, offset, total) = (word(2), word(3), word(4), word(5));
        let place = (total >> 32) as u32;
        self.offset = 0;
        self.amo = Amo::default();
        self.rendezvous = Rendezvous::default();
        match self.kind {
            PacketKind::Atomic => self.amo = Amo::from_bits(place),
            PacketKind::Rendezvous => {
                self.rendezvous = Rendezvous {
                    eager: place,
                    id: (offset >> OFFSET_BITS) as u8,
                    use_offset_for_get: first & USE_OFFSET_FOR_GET != 0,
                }
            }
            _ => self.offset = place,
        }
        self.restricted = first & RESTRICTED != 0;
        self.inline = first & INLINE_FLAG != 0;
        self.flush = first & FLUSH != 0;
        self.small = first & SMALL != 0;
        self.class = (first >> CLASS_SHIFT) as u8 & CLASS_MASK;
        self.length = (first >> 48) as u16;
        self.source = word(1);
        self.tag = address as u32;
        self.address = Address::from_parts((address >> 32) as u32, result as u16);
        self.return_code = (result >> 16) as u8 & 0x3f;
        self.ptl_list = (result >> 24) as u8 & 3;
        self.is_marked = result & MARKED != 0;
        self.initiator = (result >> 32) as u32;
        self.remote_offset = offset & (u64::MAX >> (64 - OFFSET_BITS));
        self.total = total as u32;
        self.tail[0] = word(6);
        self.tail[1] = word(7);
        let limit = if self.inline { INLINE } else { SEGMENT };
        let end = u64::from(self.offset) + u64::from(self.length);
        usize::from(self.length) <= limit
            && end <= u64::from(self.carried())
            && self.carried() <= self.total
    }

    #[inline]
    pub fn match_bits(&self) -> u64 {
        if self.inline { 0 } else { self.tail[0] }
    }

    #[inline]
    pub fn header_data(&self) -> u64 {
        if self.inline { 0 } else { self.tail[1] }
    }

    /// Whether both packets belong to the same message.
    #[inline]
    pub fn is_same_message(&self, other: &Self) -> bool {
        (self.tag, self.source) == (other.tag, other.source)
    }

    /// The bytes of the message that its packets carry.
    #[inline]
    pub fn carried(&self) -> u32 {
        match self.kind {
            PacketKind::Rendezvous => self.rendezvous.eager,
            _ => self.total,
        }
    }

    /// The bytes of the target's memory that the operation accesses.
    #[inline]
    pub fn rlength(&self) -> u32 {
        match self.kind {
            PacketKind::Atomic => arithmetic::size(self.amo.kind).unwrap_or(0),
            _ => self.total,
        }
    }
}

/// Another NIC, as the wire numbers it. The numbers of NICs that are gone are reused.
pub type PeerId = usize;

/// A received packet. Its payload stays in place until [`Wire::release`].
pub struct ReceivedPacket {
    pub packet: Packet,
    /// The payload, unless it is inline.
    pub payload: *const u8,
    /// Where the wire keeps it.
    pub lane: usize,
}

impl ReceivedPacket {
    /// Makes a place to receive packets to.
    pub fn new() -> Self {
        Self { packet: Packet::default(), payload: std::ptr::null(), lane: 0 }
    }

    /// The address of the payload, inline or not.
    #[inline]
    pub fn data(&self) -> *const u8 {
        if self.packet.inline { self.packet.tail.as_ptr().cast() } else { self.payload }
    }
}

/// Carries packets between NICs: shared memory in programs, a list in tests.
pub trait Wire {
    /// The most payload bytes of a packet, at most [`SEGMENT`](super::wire::SEGMENT).
    fn most_payload(&self) -> usize;

    /// The NIC that a fabric address currently leads to.
    ///
    /// # Errors
    /// The return code that the initiator reports (nic.md 4.3): `UNDELIVERABLE`, `VNI_NOT_FOUND`,
    /// `PTLTE_NOT_FOUND`.
    fn resolve(&mut self, nid: u32, vni: u16, pid: u16) -> Result<PeerId, ReturnCode>;

    /// Sends a packet; false when there is no room at present.
    ///
    /// # Safety
    /// `payload` is readable for `packet.length` bytes, unless the payload is inline.
    unsafe fn send(&mut self, to: PeerId, packet: &Packet, payload: *const u8) -> bool;

    /// Takes the next received packet; false if there is none, and the contents of `arrival` are
    /// unspecified then. Packets of one sender keep their order.
    fn receive(&mut self, arrival: &mut ReceivedPacket) -> bool;

    /// Counts a received packet. To be called when it was handled: the time that counting takes is
    /// then not part of the latency of the operation.
    fn count_received(&mut self, _packet: &Packet) {}

    /// The NIC that sent the packet received on `lane`, to answer it; `None` if it is gone.
    fn sender(&mut self, lane: usize, source: u64) -> Option<PeerId>;

    /// The address of a peer, or of this NIC for `None`.
    fn nid(&self, peer: Option<PeerId>) -> u32;

    /// Gives the space of the last arrival on `lane` back to its sender.
    fn release(&mut self, lane: usize);

    /// The code with which the NIC refuses the next command of a transmit queue, if that fault was
    /// injected.
    fn refusal(&self) -> Option<ReturnCode> {
        None
    }

    /// The operation that the NIC executes in place of `amo`, if the driver chose another.
    ///
    /// # Errors
    /// The code with which the operation ends.
    fn executed(&self, amo: Amo) -> Result<Amo, ReturnCode> {
        Ok(amo)
    }

    /// Sets an error flag of the NIC.
    fn raise(&self, _flag: ErrorFlag) {}

    /// Takes the time in which the NIC compares an operation with list entries that it does not
    /// match, if that takes time.
    fn walk(&self, _entries: usize) {}

    /// Counts a command of a transmit queue.
    fn count_command(&mut self) {}

    /// Whether translating the addresses of pages takes time.
    fn has_page_costs(&self) -> bool {
        false
    }

    /// Notes that the data of the packet that was received last was written to memory, for which
    /// the addresses of some pages had to be translated.
    fn note_write(&mut self, _pages: u64, _is_huge: bool) {}

    /// Whether a received packet is due in a moment.
    fn is_about_to_receive(&self) -> bool {
        false
    }

    /// Whether the NIC still exists. Costs a system call.
    fn is_alive(&mut self, peer: PeerId) -> bool;

    /// Drops the connection to a NIC that no longer exists.
    fn forget(&mut self, peer: PeerId);

    /// Wakes NICs that sleep, once for all packets sent and room made since the last call.
    fn flush(&mut self);
}

/// Packets without payload outside their header, waiting for room on the wire.
///
/// Bounded: at most one for each transaction of each NIC that sends to this one, and one for each
/// transaction of this NIC. So received packets are always accepted, and two NICs that put to each
/// other never wait for each other.
pub type Waiting = VecDeque<(PeerId, Packet)>;

/// Sends a packet without payload outside its header, now or as soon as there is room.
#[inline]
pub fn send_or_wait<W: Wire>(wire: &mut W, waiting: &mut Waiting, to: PeerId, packet: &Packet) {
    if !send_header(wire, to, packet) {
        waiting.push_back((to, *packet));
    }
}

/// Sends a packet without payload outside its header; false when there is no room at present.
///
/// # Panics
/// If the packet has payload outside its header.
#[inline]
pub fn send_header<W: Wire>(wire: &mut W, to: PeerId, packet: &Packet) -> bool {
    assert!(packet.inline || packet.length == 0);
    // SAFETY: the packet has no payload outside its header, so nothing is read through the pointer.
    unsafe { wire.send(to, packet, std::ptr::null()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encoding_preserves_every_field() {
        let packet = Packet {
            kind: PacketKind::Put,
            restricted: true,
            inline: false,
            flush: true,
            small: true,
            class: 3,
            is_marked: true,
            length: 2048,
            source: 0x1122_3344_5566_7788,
            tag: 0xa1b2_c3d4,
            address: Address::new(0xfedc, 511, 255),
            return_code: 0x3f,
            ptl_list: 3,
            initiator: 0x89ab_cdef,
            remote_offset: (1 << 56) - 1,
            total: u32::MAX,
            offset: u32::MAX - 2048,
            amo: Amo::default(),
            rendezvous: Rendezvous::default(),
            tail: [u64::MAX, 7],
            origin: Origin::Nic,
        };
        assert_eq!(Packet::from_words(packet.to_words()), Some(packet));
        let wire_bits = u64::from(u32::MAX) | WIRE_FLAG;
        assert_eq!(packet.to_words()[0] & wire_bits, 0);
        // Flags by themselves.
        let atomic = Packet {
            kind: PacketKind::Atomic,
            small: false,
            length: 32,
            total: 32,
            offset: 0,
            amo: Amo { op: 15, kind: 14, comparison: 7, fetching: true },
            ..packet
        };
        assert_eq!(Packet::from_words(atomic.to_words()), Some(atomic));
        let rendezvous = Packet {
            kind: PacketKind::Rendezvous,
            flush: false,
            offset: 0,
            rendezvous: Rendezvous { eager: (1 << 20) - 1, id: 0xcc, use_offset_for_get: true },
            ..packet
        };
        assert_eq!(Packet::from_words(rendezvous.to_words()), Some(rendezvous));
    }

    #[test]
    fn rejects_inconsistent_packets() {
        let valid = Packet { length: 16, total: 16, inline: true, ..Packet::default() };
        assert!(Packet::from_words(valid.to_words()).is_some());
        let rendezvous = |eager, length| Packet {
            kind: PacketKind::Rendezvous,
            rendezvous: Rendezvous { eager, ..Rendezvous::default() },
            length,
            ..valid
        };
        assert!(Packet::from_words(rendezvous(8, 8).to_words()).is_some());
        for invalid in [
            rendezvous(17, 16),
            rendezvous(8, 9),
            Packet { length: 17, total: 17, ..valid },
            Packet { offset: 1, ..valid },
            Packet {
                inline: false,
                length: SEGMENT as u16 + 1,
                total: 2 * SEGMENT as u32,
                ..valid
            },
        ] {
            assert_eq!(Packet::from_words(invalid.to_words()), None, "{invalid:?}");
        }
        assert_eq!(Packet::from_words([0; 8]), None);
    }

    proptest! {
        #[test]
        fn decoding_replaces_the_fields_of_an_earlier_packet(
            mut words in prop::array::uniform2(prop::array::uniform8(any::<u64>())),
            kinds in prop::array::uniform2(0..=8_u64),
            lengths in prop::array::uniform2(0..=16_u64),
        ) {
            for ((words, kind), length) in words.iter_mut().zip(kinds).zip(lengths) {
                words[0] = words[0] & 0xffff_ff00_ffff_ffff | kind << 32;
                words[0] = words[0] & !(0xffff << 48) | length << 48;
            }
            let [earlier, later] = words;
            let mut used = Packet::default();
            used.decode(earlier[0], |index| earlier[index]);
            let is_valid = used.decode(later[0], |index| later[index]);
            prop_assert_eq!(is_valid.then_some(used), Packet::from_words(later));
        }
    }
}
