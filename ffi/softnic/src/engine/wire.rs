//! The wire: what carries packets between NICs.

use std::collections::VecDeque;

use super::arithmetic::Amo;
use super::packet::Packet;
use super::return_codes::{ErrorFlag, ReturnCode};

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

    /// Returns the address of the payload, inline or not.
    #[inline]
    pub fn data(&self) -> *const u8 {
        if self.packet.inline { self.packet.tail.as_ptr().cast() } else { self.payload }
    }
}

/// Carries packets between NICs: shared memory in programs, a list in tests.
pub trait Wire {
    /// Returns the most payload bytes of a packet, at most [`SEGMENT`](super::packet::SEGMENT).
    fn most_payload(&self) -> usize;

    /// Returns the NIC that a fabric address currently leads to.
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

    /// Returns the NIC that sent the packet received on `lane`, to answer it; `None` if it is gone.
    fn sender(&mut self, lane: usize, source: u64) -> Option<PeerId>;

    /// Returns the address of a peer, or of this NIC for `None`.
    fn nid(&self, peer: Option<PeerId>) -> u32;

    /// Returns the space of the last arrival on `lane` to its sender.
    fn release(&mut self, lane: usize);

    /// Returns the code with which the NIC refuses the next command of a transmit queue, if that
    /// fault was injected.
    fn refusal(&self) -> Option<ReturnCode> {
        None
    }

    /// Returns the operation that the NIC executes in place of `amo`, if the driver chose another.
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
