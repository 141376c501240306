//! The pages that the NIC accesses, for wires on which translating their addresses takes time.

use super::packet::{Origin, Packet};
use super::state::Engine;
use super::wire::Wire;

/// The size of ordinary pages of the NIC, whatever the pages of the processor are.
const PAGE: usize = 4096;

/// Returns the number of pages whose translation a part of a message needs, at this address. The
/// first part needs its first page; further parts need the pages that begin in them, because the
/// part before has needed the others.
pub fn pages(va: usize, length: usize, is_first: bool) -> u64 {
    let before = if is_first { va / PAGE * PAGE } else { va };
    let begun = (va + length).div_ceil(PAGE) - before.div_ceil(PAGE);
    if length == 0 { 0 } else { begun as u64 }
}

impl<W: Wire> Engine<W> {
    /// Notes that the data of a packet that was received last was written to this address in a
    /// context of an LNI.
    #[inline]
    pub fn note_write(&mut self, lni: usize, lac: u8, va: usize, packet: &Packet) {
        if self.wire.has_page_costs() {
            let is_huge = self.lnis.get(lni).is_some_and(|lni| lni.space.is_huge(lac));
            let pages = pages(va, packet.length.into(), packet.offset == 0);
            self.wire.note_write(pages, is_huge);
        }
    }

    /// Returns the origin of data in a context of an LNI.
    pub fn origin(&self, lni: usize, lac: u8) -> Origin {
        let has_huge = || self.lnis.get(lni).is_some_and(|lni| lni.space.is_huge(lac));
        if self.wire.has_page_costs() && has_huge() { Origin::HugePages } else { Origin::Memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_message_need_each_page_once() {
        for start in (0..2 * PAGE).step_by(64) {
            for length in [0, 1, 8, 2048, 4096, 9000, 65536] {
                let whole = (start..start + length).map(|at| at / PAGE);
                let whole = whole.collect::<std::collections::HashSet<_>>().len() as u64;
                assert_eq!(pages(start, length, true), whole);
                let parts = (0..length).step_by(2048).map(|offset| {
                    let length = (length - offset).min(2048);
                    pages(start + offset, length, offset == 0)
                });
                assert_eq!(parts.sum::<u64>(), whole, "{length} bytes at {start}");
            }
        }
    }
}
