//! The lists of a portals table entry (nic.md 8.3, 8.5, 8.6).

use std::collections::VecDeque;

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::packet::Packet;
use super::return_codes::ReturnCode;

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
    /// Returns the entries of a list that software appends to, by its number.
    #[inline]
    pub fn get(&self, list: c_ptl_list) -> &[ListEntry] {
        let list = self.appendable.get(list as usize);
        list.map_or(&[], |list| &list.entries)
    }

    /// Returns the entries of a list as `get` does, mutable.
    #[inline]
    pub fn get_mut(&mut self, list: c_ptl_list) -> Option<&mut Vec<ListEntry>> {
        Some(&mut self.appendable.get_mut(list as usize)?.entries)
    }

    /// Returns the number of entries and headers on all lists. Each takes one place of the NIC's
    /// pool.
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

    /// Returns the header of a message, if it is still on the UNEXPECTED list.
    pub fn header_of(&mut self, message: &Packet) -> Option<&mut UnexpectedHeader> {
        self.unexpected.iter_mut().find(|unexpected| unexpected.header.is_same_message(message))
    }
}
