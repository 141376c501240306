//! The lists of a portals table entry (nic.md 8.3, 8.5, 8.6).

use std::collections::VecDeque;

use cxi_sys::records::TargetCmd;
use cxi_sys::*;

use super::ReturnCode;
use super::packet::Packet;

/// Lists that software appends to: PRIORITY, OVERFLOW and REQUEST, by their numbers.
const APPENDABLE: usize = 3;

/// A list entry: the command that appended it, and what was used of it since.
#[derive(Clone, Copy)]
pub struct Entry {
    pub command: TargetCmd,
    /// Bytes in use of an entry that is managed locally; the next operation goes behind them.
    pub used: u64,
}

impl Entry {
    pub fn new(command: TargetCmd) -> Self {
        Self { command, used: 0 }
    }
}

/// The header of a message that met an entry of the OVERFLOW list, until an append or a search finds it.
#[derive(Clone, Copy)]
pub struct Unexpected {
    /// Its first packet.
    pub header: Packet,
    /// NIC address that it came from.
    pub nid: u32,
    /// Where its data is: the first byte, and how many of them there are.
    pub start: u64,
    pub mlength: u32,
    /// What went wrong with the data after the header was filed.
    pub code: ReturnCode,
}

/// A list that messages or commands look through.
#[derive(Default)]
struct Appendable {
    entries: Vec<Entry>,
    /// An append failed, and none with `restart_seq` came since.
    broken_sequence: bool,
}

/// The lists of one portals table entry.
#[derive(Default)]
pub struct Lists {
    appendable: [Appendable; APPENDABLE],
    /// In order of arrival.
    pub unexpected: VecDeque<Unexpected>,
}

impl Lists {
    /// A list that software appends to, by its number.
    #[inline]
    pub fn get(&self, list: c_ptl_list) -> &[Entry] {
        let list = self.appendable.get(list as usize);
        list.map_or(&[], |list| &list.entries)
    }

    #[inline]
    pub fn get_mut(&mut self, list: c_ptl_list) -> Option<&mut Vec<Entry>> {
        Some(&mut self.appendable.get_mut(list as usize)?.entries)
    }

    /// Entries and headers on all lists, each of which takes a place of the NIC's pool.
    pub fn len(&self) -> usize {
        let appendable = self.appendable.iter().map(|list| list.entries.len());
        appendable.sum::<usize>() + self.unexpected.len()
    }

    /// Whether an append may go on: after one that failed, none to the same list does until it
    /// says that a new sequence begins (nic.md 8.5). `room` is whether there is any.
    pub fn in_sequence(&mut self, command: &TargetCmd, room: bool) -> bool {
        let Some(list) = self.appendable.get_mut(usize::from(command.ptl_list())) else {
            return false;
        };
        list.broken_sequence = (list.broken_sequence && !command.restart_seq()) || !room;
        !list.broken_sequence
    }

    /// Takes the header of a message out that a later failure concerns.
    pub fn header_of(&mut self, message: &Packet) -> Option<&mut Unexpected> {
        let is_it = |header: &Packet| (header.tag, header.source) == (message.tag, message.source);
        self.unexpected
            .iter_mut()
            .find(|found| is_it(&found.header))
    }
}
