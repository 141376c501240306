//! The landing of the last put, for puts like it.
//!
//! Programs send many puts in a row to one list entry. If no put changes the entry and the entry
//! delivers no event, a put lands where the last put did: the NIC compares it with the last put
//! instead of resolving, matching and checking it again. The effect equals the general way through
//! `put`, which is the model in the tests.
//!
//! The landing is forgotten when anything that it depends on may change: with any other operation,
//! any command of a target queue, and any call of libcxi.

use cxi_sys::*;

use super::address::Address;
use super::counter::Counting;
use super::list_counts::{ListCount, ListCounts, MatchedOperation};
use super::lists::Landing;
use super::lni::Lni;
use super::location::MemoryKind;
use super::memory::MemoryAccess;
use super::packet::{Packet, PacketKind};
use super::portal::{self, Pte};

/// Where puts like the last one land.
pub struct Remembered {
    address: Address,
    initiator: u32,
    match_bits: u64,
    restricted: bool,
    /// Virtual address and length of the entry's memory.
    memory: usize,
    length: u64,
    /// What the entry counts.
    pub counting: Counting,
    pub ptl_list: u8,
    /// The entry is in the cache of persistent entries.
    is_cached: bool,
    /// Puts that landed here like the last one.
    pub puts: u64,
}

impl Remembered {
    /// Returns the landing of puts like `packet`, a put of one packet that ended well at `landing`;
    /// `None` if further puts may change the entry, match another one, or cause events.
    pub fn of(packet: &Packet, landing: &Landing, pte: &Pte, lni: &Lni) -> Option<Self> {
        let entry = &landing.entry;
        let is_quiet = entry.event_comm_disable()
            || (entry.event_success_disable() && !pte.options.en_event_match);
        let is_constant = !entry.use_once() && !entry.manage_local();
        if !is_quiet || !is_constant || packet.kind != PacketKind::Put {
            return None;
        }
        // Behind another entry, a put of another length might match that one.
        if portal::find_entry(pte, packet) != Some((C_PTL_LIST_PRIORITY, 0)) {
            return None;
        }
        // Translated as a whole, so that each part of it is mapped too.
        let (lac, start, length) = (entry.lac(), entry.start(), entry.length());
        let memory = lni.space.translate(lac, start, length, MemoryAccess::Write);
        let memory =
            memory.ok().filter(|location| matches!(location.memory, MemoryKind::Pinned))?;
        Some(Self {
            address: packet.address,
            initiator: packet.initiator,
            match_bits: packet.match_bits(),
            restricted: packet.restricted,
            memory: memory.va,
            length,
            counting: Counting::from_entry(entry, entry.event_ct_comm()),
            ptl_list: entry.ptl_list(),
            is_cached: !pte.options.is_matching,
            puts: 0,
        })
    }

    /// Adds the puts that landed here to the counts of the lists.
    pub fn count_puts(&self, counts: &mut ListCounts) {
        let matching = MatchedOperation {
            kind: ListCount::Put,
            list: self.ptl_list,
            use_once: false,
            manage_local: false,
            truncated: false,
            cached: self.is_cached,
        };
        counts.matched(matching, self.puts);
        // They match the first entry.
        counts.searched(1, self.puts);
    }

    /// Returns the virtual address at which a put lands; `None` unless it is like the last one.
    #[inline]
    pub fn place(&self, packet: &Packet) -> Option<usize> {
        let is_alike = packet.address == self.address
            && packet.initiator == self.initiator
            && packet.match_bits() == self.match_bits
            && packet.restricted == self.restricted
            && packet.return_code == 0;
        let is_whole = u32::from(packet.length) == packet.total;
        let left = self.length.checked_sub(packet.remote_offset)?;
        let fits = u64::from(packet.length) <= left;
        (is_alike && is_whole && fits).then(|| self.memory + packet.remote_offset as usize)
    }
}
