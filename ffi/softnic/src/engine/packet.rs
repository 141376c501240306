//! What NICs say to each other, and the wire that carries it.
//!
//! The header is one cache line. It is ours, not Slingshot's: the fabric connects software NICs
//! only. A payload of up to 16 bytes without match bits and header data rides in the header,
//! so that a small put costs the transfer of a single line.

use super::{ReturnCode, arithmetic};

/// Most payload bytes in one packet: the Portals MTU (nic.md 0).
pub const MTU: usize = 2048;

/// Most payload bytes that fit in the header.
pub const INLINE: usize = 16;

/// Another NIC as the wire knows it. Numbers of vanished NICs are used again.
pub type Peer = usize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Part of a put, or all of it.
    #[default]
    Put = 1,
    /// The rest of this put will not come: its sender could not read its own memory, or gave up.
    Abort = 2,
    /// A put or an atomic operation is complete, or anything was refused.
    Response = 3,
    /// A get.
    Get = 4,
    /// Part of the data of a get, or all of it, or what a fetching atomic operation found.
    Reply = 5,
    /// An atomic operation, with its operands as payload.
    Atomic = 6,
    /// A rendezvous put with the beginning of its eager part, or all of it. The rest of the eager part
    /// follows like the rest of a put.
    Rendezvous = 7,
}

/// Which atomic operation, as numbers of the commands (nic.md 11), valid or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amo {
    /// `C_AMO_OP_*`, 4 bits.
    pub op: u8,
    /// `C_AMO_TYPE_*`, 4 bits.
    pub kind: u8,
    /// `C_AMO_OP_CSWAP_*`, 3 bits.
    pub comparison: u8,
    /// The value before is wanted.
    pub fetching: bool,
}

impl Amo {
    fn to_bits(self) -> u32 {
        u32::from_le_bytes([self.op, self.kind, self.comparison, self.fetching.into()])
    }

    fn from_bits(bits: u32) -> Self {
        let [op, kind, comparison, fetching] = bits.to_le_bytes();
        Self {
            op,
            kind,
            comparison,
            fetching: fetching != 0,
        }
    }
}

/// What a rendezvous put says beyond an ordinary one (nic.md 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rendezvous {
    /// Bytes that come along, at most 20 bits.
    pub eager: u32,
    pub id: u8,
    /// The remote offset is one at the source, for the get, and not one at the target.
    pub use_offset_for_get: bool,
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    pub kind: Kind,
    /// Restricted transport (nic.md 3.10.1).
    pub restricted: bool,
    /// The payload is in `tail`.
    pub inline: bool,
    /// Payload bytes in this packet.
    pub length: u16,
    /// Instance of the sending NIC; the wire fills it in.
    pub source: u64,
    /// The sender's transaction.
    pub tag: u32,
    pub vni: u16,
    pub pid: u16,
    pub index: u16,
    /// Of a response or reply. Elsewhere 0, unless the link has spoilt the packet: what its operation ends with.
    pub return_code: u8,
    /// Response and reply only: the list that matched.
    pub ptl_list: u8,
    pub initiator: u32,
    pub remote_offset: u64,
    /// Bytes of the whole message; in a get those wanted; in a response those accepted.
    pub total: u32,
    /// Where in the message the payload belongs. 0 in an atomic operation, which is one packet, and in
    /// a rendezvous put, which is the first of its eager part.
    pub offset: u32,
    /// Atomic operation only.
    pub amo: Amo,
    /// Rendezvous put only.
    pub rendezvous: Rendezvous,
    /// Match bits and header data, or the inline payload.
    pub tail: [u64; 2],
}

const RESTRICTED: u64 = 1 << 40;
const INLINE_FLAG: u64 = 1 << 41;
const USE_OFFSET_FOR_GET: u64 = 1 << 42;

/// In the first word, with its low half: what the wire has to say about the packet, and nobody else.
pub const OF_THE_WIRE: u64 = 1 << 43;

/// Bits of a remote offset; a rendezvous id is above them.
const OFFSET_BITS: u32 = 56;

impl Packet {
    /// The packet as the eight words of a cell's header. The low half of the first and
    /// [`OF_THE_WIRE`] are left to the wire.
    #[inline]
    pub fn to_words(self) -> [u64; 8] {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let place = match self.kind {
            Kind::Atomic => self.amo.to_bits(),
            Kind::Rendezvous => self.rendezvous.eager,
            _ => self.offset,
        };
        [
            (self.kind as u64) << 32
                | flag(self.restricted, RESTRICTED)
                | flag(self.inline, INLINE_FLAG)
                | flag(self.rendezvous.use_offset_for_get, USE_OFFSET_FOR_GET)
                | u64::from(self.length) << 48,
            self.source,
            u64::from(self.tag) | u64::from(self.vni) << 32 | u64::from(self.pid) << 48,
            u64::from(self.index)
                | u64::from(self.return_code) << 16
                | u64::from(self.ptl_list) << 24
                | u64::from(self.initiator) << 32,
            self.remote_offset | u64::from(self.rendezvous.id) << OFFSET_BITS,
            u64::from(self.total) | u64::from(place) << 32,
            self.tail[0],
            self.tail[1],
        ]
    }

    /// The packet in these words; `None` if no NIC of this version can have written them.
    #[inline]
    pub fn from_words(words: [u64; 8]) -> Option<Self> {
        let kind = match (words[0] >> 32) as u8 {
            1 => Kind::Put,
            2 => Kind::Abort,
            3 => Kind::Response,
            4 => Kind::Get,
            5 => Kind::Reply,
            6 => Kind::Atomic,
            7 => Kind::Rendezvous,
            _ => return None,
        };
        let place = (words[5] >> 32) as u32;
        let (mut offset, mut amo, mut rendezvous) = (0, Amo::default(), Rendezvous::default());
        match kind {
            Kind::Atomic => amo = Amo::from_bits(place),
            Kind::Rendezvous => {
                rendezvous = Rendezvous {
                    eager: place,
                    id: (words[4] >> OFFSET_BITS) as u8,
                    use_offset_for_get: words[0] & USE_OFFSET_FOR_GET != 0,
                }
            }
            _ => offset = place,
        }
        let packet = Self {
            kind,
            restricted: words[0] & RESTRICTED != 0,
            inline: words[0] & INLINE_FLAG != 0,
            length: (words[0] >> 48) as u16,
            source: words[1],
            tag: words[2] as u32,
            vni: (words[2] >> 32) as u16,
            pid: (words[2] >> 48) as u16,
            index: words[3] as u16,
            return_code: (words[3] >> 16) as u8 & 0x3f,
            ptl_list: (words[3] >> 24) as u8 & 3,
            initiator: (words[3] >> 32) as u32,
            remote_offset: words[4] & (u64::MAX >> (64 - OFFSET_BITS)),
            total: words[5] as u32,
            offset,
            amo,
            rendezvous,
            tail: [words[6], words[7]],
        };
        let limit = if packet.inline { INLINE } else { MTU };
        let end = u64::from(packet.offset) + u64::from(packet.length);
        let fits = usize::from(packet.length) <= limit
            && end <= u64::from(packet.carried())
            && packet.carried() <= packet.total;
        fits.then_some(packet)
    }

    #[inline]
    pub fn match_bits(&self) -> u64 {
        if self.inline { 0 } else { self.tail[0] }
    }

    #[inline]
    pub fn header_data(&self) -> u64 {
        if self.inline { 0 } else { self.tail[1] }
    }

    /// Bytes of the message that its packets carry.
    #[inline]
    pub fn carried(&self) -> u32 {
        match self.kind {
            Kind::Rendezvous => self.rendezvous.eager,
            _ => self.total,
        }
    }

    /// Bytes of the target's memory that an operation is about.
    #[inline]
    pub fn rlength(&self) -> u32 {
        match self.kind {
            Kind::Atomic => arithmetic::size(self.amo.kind).unwrap_or(0),
            _ => self.total,
        }
    }
}

/// A packet that has come in. It stays where it is until [`Wire::release`].
pub struct Arrival {
    pub packet: Packet,
    /// Its payload, unless inline.
    pub payload: *const u8,
    /// Where the wire keeps it.
    pub lane: usize,
}

impl Arrival {
    /// The payload, wherever it is.
    #[inline]
    pub fn data(&self) -> *const u8 {
        match self.packet.inline {
            true => self.packet.tail.as_ptr().cast(),
            false => self.payload,
        }
    }
}

/// Carries packets between NICs: shared memory in life, a list in tests.
pub trait Wire {
    /// The NIC that a fabric address leads to now.
    ///
    /// Fails with the return code that the initiator gets to see (nic.md 4.3): `UNDELIVERABLE`,
    /// `VNI_NOT_FOUND`, `PTLTE_NOT_FOUND`.
    fn resolve(&mut self, nid: u32, vni: u16, pid: u16) -> Result<Peer, ReturnCode>;

    /// Sends a packet; false when there is no room at present.
    ///
    /// # Safety
    /// `payload` is readable for `packet.length` bytes, unless the payload is inline.
    unsafe fn send(&mut self, to: Peer, packet: &Packet, payload: *const u8) -> bool;

    /// The next packet that has come in, in the order sent as far as one sender goes.
    fn receive(&mut self) -> Option<Arrival>;

    /// The NIC that sent what came in on `lane`, to answer it; `None` if it is gone.
    fn sender(&mut self, lane: usize, source: u64) -> Option<Peer>;

    /// The address of a NIC that packets come from, or of our own for `None`.
    fn nid(&self, peer: Option<Peer>) -> u32;

    /// Gives the place of the last arrival on `lane` back to its sender.
    fn release(&mut self, lane: usize);

    /// Whether a packet has come in that is due in a moment.
    fn is_about_to_receive(&self) -> bool {
        false
    }

    /// Whether the NIC still exists. Costs a system call.
    fn is_alive(&mut self, peer: Peer) -> bool;

    /// Lets go of a NIC that no longer exists.
    fn forget(&mut self, peer: Peer);

    /// Wakes receivers that sleep, once for all that was sent since the last call.
    fn flush(&mut self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_every_field() {
        let packet = Packet {
            kind: Kind::Put,
            restricted: true,
            inline: false,
            length: 2048,
            source: 0x1122_3344_5566_7788,
            tag: 0xa1b2_c3d4,
            vni: 0xfedc,
            pid: 511,
            index: 255,
            return_code: 0x3f,
            ptl_list: 3,
            initiator: 0x89ab_cdef,
            remote_offset: (1 << 56) - 1,
            total: u32::MAX,
            offset: u32::MAX - 2048,
            amo: Amo::default(),
            rendezvous: Rendezvous::default(),
            tail: [u64::MAX, 7],
        };
        assert_eq!(Packet::from_words(packet.to_words()), Some(packet));
        let left = u64::from(u32::MAX) | OF_THE_WIRE;
        assert_eq!(packet.to_words()[0] & left, 0, "the wire's");
        let atomic = Packet {
            kind: Kind::Atomic,
            length: 32,
            total: 32,
            offset: 0,
            amo: Amo {
                op: 15,
                kind: 14,
                comparison: 7,
                fetching: true,
            },
            ..packet
        };
        assert_eq!(Packet::from_words(atomic.to_words()), Some(atomic));
        let rendezvous = Packet {
            kind: Kind::Rendezvous,
            offset: 0,
            rendezvous: Rendezvous {
                eager: (1 << 20) - 1,
                id: 0xcc,
                use_offset_for_get: true,
            },
            ..packet
        };
        assert_eq!(Packet::from_words(rendezvous.to_words()), Some(rendezvous));
    }

    #[test]
    fn impossible_packets_are_refused() {
        let valid = Packet {
            length: 16,
            total: 16,
            inline: true,
            ..Packet::default()
        };
        assert!(Packet::from_words(valid.to_words()).is_some());
        let rendezvous = |eager, length| Packet {
            kind: Kind::Rendezvous,
            rendezvous: Rendezvous {
                eager,
                ..Rendezvous::default()
            },
            length,
            ..valid
        };
        assert!(Packet::from_words(rendezvous(8, 8).to_words()).is_some());
        for invalid in [
            rendezvous(17, 16),
            rendezvous(8, 9),
            Packet {
                length: 17,
                total: 17,
                ..valid
            },
            Packet { offset: 1, ..valid },
            Packet {
                inline: false,
                length: 2049,
                total: 4096,
                ..valid
            },
        ] {
            assert_eq!(Packet::from_words(invalid.to_words()), None, "{invalid:?}");
        }
        assert_eq!(Packet::from_words([0; 8]), None);
    }
}
