//! Both ends of a lane, responses that share a cell, and packets taken out of their ring before
//! they are due.
//!
//! The target of small puts answers each with a response, of which only a tag and a length differ.
//! Up to six responses to one NIC share a cell, so that both NICs move one cache line for them
//! instead of six. They are sent when the cell is full, before any other packet to that NIC, and at
//! the next [`flush`](crate::engine::wire::Wire::flush), which ends the poll that received the
//! puts.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::atomic::Ordering;

use cxi_sys::C_RC_OK;

use super::port::{CELLS, LANES, Port, TIMED};
use crate::engine::location::copy;
use crate::engine::wire::{MTU, Packet, PacketKind, ReceivedPacket};

/// Cells between the one that is written and the one whose cache line is requested meanwhile.
const AHEAD: u32 = 4;

/// A port that this NIC sends to.
pub struct Remote {
    pub port: Port,
    pub nid: u32,
    /// The file, opened by this process to check whether the owner is alive.
    pub file: File,
    pub instance: u64,
    pub lane: usize,
    /// Position of the next packet.
    pub head: u32,
    /// Number of packets that the reader had released when last checked.
    pub tail: u32,
    /// Something was sent, or half a ring released, since the last flush.
    pub touched: bool,
    pub gathered: GatheredResponses,
}

impl Remote {
    /// Whether a cell is free.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.head.wrapping_sub(self.tail) < CELLS {
            return true;
        }
        self.tail = self.port.tail(self.lane).load(Ordering::Acquire);
        self.head.wrapping_sub(self.tail) < CELLS
    }

    /// Publishes the cell at the head, whose other words are written: `first` is its first word
    /// without sequence number.
    #[inline]
    pub fn publish(&mut self, first: u64) {
        let position = self.head;
        self.head = position.wrapping_add(1);
        self.port
            .cell_word(self.lane, position, 0)
            .store(first | u64::from(self.head), Ordering::Release);
        let ahead = position.wrapping_add(AHEAD);
        prefetch_for_write(self.port.cell_word(self.lane, ahead, 0));
    }

    /// Sends the gathered responses of NIC `instance`, if there are any. There is a free cell for
    /// them.
    #[inline]
    pub fn send_gathered(&mut self, instance: u64) {
        if self.gathered.is_empty() {
            return;
        }
        let first = self.gathered.write(&self.port, self.lane, self.head);
        self.port.cell_word(self.lane, self.head, 1).store(instance, Ordering::Relaxed);
        self.publish(first);
    }
}

/// The kind in the first word of a cell with responses, which no packet has.
const KIND: u64 = 8 << 32;
const KIND_MASK: u64 = 0xff << 32;

/// Responses in one cell, after the words for the kind and the sender.
const MOST_RESPONSES: usize = 6;
const FIRST: usize = 2;

/// Lengths with more bits are sent alone.
const LENGTH_BITS: u32 = 30;

/// The responses for the next cell to one NIC.
#[derive(Default)]
pub struct GatheredResponses {
    words: [u64; MOST_RESPONSES],
    count: usize,
}

impl GatheredResponses {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a response. True if the cell is full, and must be written before the next one.
    #[inline]
    pub fn add(&mut self, response: u64) -> bool {
        self.words[self.count] = response;
        self.count += 1;
        self.count == MOST_RESPONSES
    }

    /// Writes the responses to a cell, except for its first word, and returns that word without its
    /// sequence number.
    pub fn write(&mut self, port: &Port, lane: usize, position: u32) -> u64 {
        for (index, word) in self.words[..self.count].iter().enumerate() {
            let place = port.cell_word(lane, position, FIRST + index);
            place.store(*word, Ordering::Relaxed);
        }
        KIND | (std::mem::take(&mut self.count) as u64) << 48
    }
}

/// A response as one word; `None` for a packet that must be sent alone.
#[inline]
pub fn pack_response(packet: &Packet) -> Option<u64> {
    let fits = packet.kind == PacketKind::Response
        && u32::from(packet.return_code) == C_RC_OK
        && packet.class == 0
        && !packet.is_marked
        && packet.total < 1 << LENGTH_BITS;
    fits.then(|| {
        u64::from(packet.tag)
            | u64::from(packet.total) << 32
            | u64::from(packet.ptl_list) << (32 + LENGTH_BITS)
    })
}

/// Makes `packet` the response in this word. Fields that responses do not have stay as they are.
#[inline]
pub fn unpack_response(word: u64, packet: &mut Packet) {
    packet.kind = PacketKind::Response;
    packet.return_code = C_RC_OK as u8;
    packet.restricted = false;
    packet.inline = false;
    packet.is_marked = false;
    packet.class = 0;
    packet.length = 0;
    packet.offset = 0;
    packet.tag = word as u32;
    packet.total = (word >> 32) as u32 & ((1 << LENGTH_BITS) - 1);
    packet.ptl_list = (word >> (32 + LENGTH_BITS)) as u8;
}

/// The responses of a cell that remain to be received.
#[derive(Clone, Copy, Default)]
pub struct Unread {
    next: usize,
    end: usize,
}

impl Unread {
    /// The responses of a cell with this first word; none if it holds another packet, or more
    /// responses than a cell can.
    #[inline]
    pub fn of(first: u64) -> Self {
        let count = (first >> 48) as usize;
        if first & KIND_MASK != KIND || count > MOST_RESPONSES {
            return Self::default();
        }
        Self { next: FIRST, end: FIRST + count }
    }

    /// Whether all were received.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.next == self.end
    }

    pub fn count(self) -> usize {
        self.end - self.next
    }

    /// The index of the word with the next response.
    #[inline]
    pub fn next(self) -> usize {
        self.next
    }

    /// Steps to the next response.
    #[inline]
    pub fn advance(&mut self) {
        self.next += 1;
    }
}

/// The most packets kept for one lane, 8 MiB of payload. With more the ring stays full, and its
/// sender waits.
const MOST_EARLY: usize = 4096;

struct Early {
    due: u64,
    packet: Packet,
    payload: Box<[u8]>,
}

/// Kinds of packets with an order of their own: requests, data of answers, and acknowledgements.
const KINDS: usize = 3;

/// The packets of a lane, by kind.
struct LanePackets {
    queues: [VecDeque<Early>; KINDS],
    /// The kind of the next packet.
    next: usize,
}

impl LanePackets {
    const EMPTY: Self = Self { queues: [const { VecDeque::new() }; KINDS], next: 0 };

    fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }
}

/// The packets that are kept, in order for each lane.
///
/// They were taken out of their ring before they are due. On a link with latency many packets are
/// in flight, and a ring has few cells. So the receiver moves packets that are not due from a ring
/// that fills up into private memory.
///
/// On a fabric of switches, answers do not queue behind requests, nor acknowledgements behind data:
/// each kind is in order by itself. Then packets that are not due leave the ring at once, because
/// one behind them may be due before.
pub struct EarlyPackets {
    lanes: [LanePackets; LANES],
    /// Lanes with packets, one bit each.
    in_use: u64,
    /// Whether packets of different kinds overtake each other.
    overtake: bool,
}

impl EarlyPackets {
    /// Makes the store, without any packet. `overtake` is whether packets of different kinds
    /// overtake each other.
    pub fn new(overtake: bool) -> Self {
        Self { lanes: [LanePackets::EMPTY; LANES], in_use: 0, overtake }
    }

    /// Whether the next packet of a lane is kept here, not in its ring.
    #[inline]
    pub fn has(&self, lane: usize) -> bool {
        self.in_use & 1 << lane != 0
    }

    /// Empties the ring of a lane if it is half full, or if packets overtake each other. `head` is
    /// the position of its next packet. Returns the new position, to which the caller releases the
    /// ring.
    pub fn take_from_ring(&mut self, port: &Port, lane: usize, mut head: u32) -> u32 {
        let half = head.wrapping_add(CELLS / 2);
        if !self.overtake && port.first_word(lane, half).is_none() {
            return head;
        }
        while self.lanes[lane].len() < MOST_EARLY
            && let Some(first) = port.first_word(lane, head)
            // A NIC without a link model shares cells and sends longer packets.
            && first & TIMED != 0
        {
            let mut packet = Packet::default();
            let is_valid = port.read(lane, head, first, &mut packet);
            let length = if packet.inline { 0 } else { usize::from(packet.length) };
            // Packets on a link are not longer: what is kept stays within its limit.
            if is_valid && length <= MTU {
                let mut payload = vec![0; length].into_boxed_slice();
                // SAFETY: a cell has room for the payload of any packet that `read` accepts,
                // and the box has `length` bytes.
                unsafe { copy(port.cell_payload(lane, head), payload.as_mut_ptr(), length) };
                let due = port.due(lane, head, first);
                let kind = match packet.kind {
                    PacketKind::Reply if self.overtake => 1,
                    PacketKind::Response if self.overtake => 2,
                    _ => 0,
                };
                self.lanes[lane].queues[kind].push_back(Early { due, packet, payload });
                self.in_use |= 1 << lane;
            }
            head = head.wrapping_add(1);
        }
        head
    }

    /// Makes the packet the next one of a lane that is due first.
    pub fn choose(&mut self, lane: usize) {
        let kept = &mut self.lanes[lane];
        let firsts = kept.queues.iter().enumerate();
        let dues = firsts.filter_map(|(kind, queue)| Some((queue.front()?.due, kind)));
        kept.next = dues.min().map_or(0, |(_, kind)| kind);
    }

    /// The next packet of a lane, and when it is due.
    pub fn first(&self, lane: usize) -> Option<(&Packet, u64)> {
        let early = self.next_of(lane)?;
        Some((&early.packet, early.due))
    }

    fn next_of(&self, lane: usize) -> Option<&Early> {
        let kept = &self.lanes[lane];
        kept.queues[kept.next].front()
    }

    /// Puts the next packet of a lane into `arrival`; false if there is none. It stays until
    /// [`EarlyPackets::release`].
    pub fn next(&self, lane: usize, arrival: &mut ReceivedPacket) -> bool {
        let Some(early) = self.next_of(lane) else {
            return false;
        };
        arrival.packet = early.packet;
        arrival.payload = early.payload.as_ptr();
        true
    }

    /// Drops the next packet of a lane.
    pub fn release(&mut self, lane: usize) {
        let kept = &mut self.lanes[lane];
        kept.queues[kept.next].pop_front();
        if kept.len() == 0 {
            self.in_use &= !(1 << lane);
        }
    }
}

/// Requests the line of `place` for writing.
///
/// The lines of a ring between two processors are in the cache of the other one. Without the hint
/// the stores to each line wait for it; with the hint, several lines move at the same time. It
/// changes nothing but time. Architectures other than x86-64 do without it.
#[inline(always)]
fn prefetch_for_write<T>(place: *const T) {
    // The intrinsic of the standard library requests the line for reading on processors without
    // PREFETCHW. All of 64 bits have the instruction; some of them ignore it.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch accesses no memory, whatever the address, and changes no register or flag.
    unsafe {
        std::arch::asm!(
            "prefetchw [{place}]",
            place = in(reg) place,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packs_responses_that_fit_a_word(
            tag: u32,
            total: u32,
            ptl_list in 0u8..4,
            code in 0u8..64,
            class in 0u8..2,
        ) {
            let response = Packet {
                kind: PacketKind::Response,
                tag,
                total,
                ptl_list,
                return_code: code,
                class,
                ..Packet::default()
            };
            let fits = u32::from(code) == C_RC_OK && total < 1 << LENGTH_BITS && class == 0;
            let unpacked = pack_response(&response).map(|word| {
                let mut packet = Packet {
                    length: 7,
                    offset: 9,
                    inline: true,
                    restricted: true,
                    class: 2,
                    ..Packet::default()
                };
                unpack_response(word, &mut packet);
                packet
            });
            prop_assert_eq!(unpacked, fits.then_some(response));
        }

        #[test]
        fn reads_words_of_responses_only(
            first in any::<u64>(),
            count in 0u64..9,
            is_shared: bool,
        ) {
            let first = if is_shared {
                first as u32 as u64 | KIND | count << 48
            } else {
                first
            };
            let mut unread = Unread::of(first);
            let mut count = 0;
            while !unread.is_empty() {
                prop_assert!((FIRST..8).contains(&unread.next()));
                unread.advance();
                count += 1;
            }
            prop_assert!(count == 0 || first >> 48 == count && (first >> 32) as u8 == 8);
        }
    }

    #[test]
    fn sends_other_packets_alone() {
        for kind in [
            PacketKind::Put,
            PacketKind::Abort,
            PacketKind::Get,
            PacketKind::Reply,
            PacketKind::Atomic,
        ] {
            let return_code = C_RC_OK as u8;
            assert_eq!(pack_response(&Packet { kind, return_code, ..Packet::default() }), None);
        }
    }
}
