//! Responses that share a cell.
//!
//! The target of small puts answers each with a response, of which only a tag and a length differ.
//! Up to six responses to one NIC share a cell, so that both NICs move one cache line for them
//! instead of six. They are sent when the cell is full, before any other packet to that NIC, and at
//! the next [`flush`](crate::engine::wire::Wire::flush), which ends the poll that received the
//! puts.

use std::sync::atomic::Ordering;

use cxi_sys::C_RC_OK;

use super::port::Port;
use crate::engine::packet::{Packet, PacketKind};

/// The kind in the first word of a cell with responses, which no packet has.
const KIND: u64 = 8 << 32;
const KIND_MASK: u64 = 0xff << 32;

/// Responses in one cell, after the words for the kind and the sender.
const MOST: usize = 6;
const FIRST: usize = 2;

/// Lengths with more bits are sent alone.
const LENGTH_BITS: u32 = 30;

/// The responses for the next cell to one NIC.
#[derive(Default)]
pub struct GatheredResponses {
    words: [u64; MOST],
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
        self.count == MOST
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

/// Returns a response as one word; `None` for a packet that must be sent alone.
#[inline]
pub fn pack(packet: &Packet) -> Option<u64> {
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
pub fn unpack(word: u64, packet: &mut Packet) {
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
    /// Returns the responses of a cell with this first word; none if it holds another packet, or
    /// more responses than a cell can.
    #[inline]
    pub fn of(first: u64) -> Self {
        let count = (first >> 48) as usize;
        if first & KIND_MASK != KIND || count > MOST {
            return Self::default();
        }
        Self { next: FIRST, end: FIRST + count }
    }

    /// Whether all were received.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.next == self.end
    }

    /// Returns the number of responses.
    pub fn count(self) -> usize {
        self.end - self.next
    }

    /// Returns the index of the word with the next response.
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
            let unpacked = pack(&response).map(|word| {
                let mut packet = Packet {
                    length: 7,
                    offset: 9,
                    inline: true,
                    restricted: true,
                    class: 2,
                    ..Packet::default()
                };
                unpack(word, &mut packet);
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
            assert_eq!(pack(&Packet { kind, return_code, ..Packet::default() }), None);
        }
    }
}
