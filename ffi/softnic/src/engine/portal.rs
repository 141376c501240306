//! Portals table entries (nic.md 8).

use cxi_sys::*;

use super::address::{self, Address, VniRange};
use super::arithmetic::Exceptions;
use super::event_queue::EventQueue;
use super::events::{self, TargetEvent};
use super::lists::{self, ListEntry, PortalLists};
use super::lni::ELEMENTS;
use super::return_codes::ReturnCode;
use super::table::Table;
use super::wire::{Packet, PacketKind};

/// List entries of a processing element (libcxi.md 2.2, 11).
pub const MAX_ENTRIES: usize = 16384;

/// A drop count that is not compared (nic.md 8.2).
pub const ANY_DROP_COUNT: u32 = (1 << 24) - 1;

/// The options of a portals table entry that this NIC implements.
#[derive(Clone, Copy, Default)]
pub struct PteOptions {
    pub is_matching: bool,
    pub en_flowctrl: bool,
    pub use_long_event: bool,
    /// An event for each message that matches an entry.
    pub en_event_match: bool,
    /// On lack of list entries the NIC leaves matching to software.
    pub en_sw_hw_st_chng: bool,
    /// Restricted operations may match locally managed entries.
    pub en_restricted_unicast_lm: bool,
    /// Match ids contain ranks, not NIC addresses.
    pub use_logical: bool,
    pub signals: ReportedExceptions,
}

/// The floating point exceptions that are reported to initiators as return codes.
#[derive(Clone, Copy, Default)]
pub struct ReportedExceptions {
    pub invalid: bool,
    pub overflow: bool,
    pub inexact: bool,
}

impl ReportedExceptions {
    /// The return code for raised exceptions. Of several, the one with the lowest number is
    /// reported; nic.md does not state which hardware reports.
    pub fn code(self, raised: Exceptions) -> Option<ReturnCode> {
        if self.invalid && raised.invalid {
            Some(C_RC_AMO_FP_INVALID)
        } else if self.overflow && raised.overflow {
            Some(C_RC_AMO_FP_OVERFLOW)
        } else if self.inexact && raised.inexact {
            Some(C_RC_AMO_FP_INEXACT)
        } else {
            None
        }
    }
}

/// A portals table entry.
pub struct Pte {
    pub lni: usize,
    /// Its processing element.
    pub element: usize,
    /// Its event queue; 0 is none.
    pub eq: u16,
    pub options: PteOptions,
    pub state: c_ptlte_state,
    /// Number of messages refused since flow control disabled the entry.
    pub drop_count: u32,
    /// The most list entries of a processing element that the service allows its LNI.
    pub most_entries: usize,
    pub lists: PortalLists,
}

impl Pte {
    /// Makes a disabled entry with empty lists.
    pub fn new(lni: usize, eq: u16, options: PteOptions) -> Self {
        Self {
            lni,
            element: 0,
            eq,
            options,
            state: C_PTLTE_DISABLED,
            drop_count: 0,
            most_entries: MAX_ENTRIES,
            lists: PortalLists::default(),
        }
    }

    /// Sets the state by a command of software (nic.md 8.2), reports the result, and returns its
    /// return code. Leaving the state DISABLED for one in which messages are accepted takes the
    /// number of dropped messages. `entries` is the number of list entries in use of the processing
    /// element.
    pub fn set_state(
        &mut self,
        number: u16,
        wanted: c_ptlte_state,
        drop_count: u32,
        eqs: &mut Table<EventQueue>,
        entries: &mut usize,
    ) -> ReturnCode {
        let accepts = matches!(wanted, C_PTLTE_ENABLED | C_PTLTE_SOFTWARE_MANAGED);
        let counted = drop_count == ANY_DROP_COUNT || drop_count == self.drop_count;
        let mut code = C_RC_OK;
        if accepts && !counted {
            self.state = C_PTLTE_DISABLED;
            code = C_RC_NO_MATCH;
        } else {
            if accepts {
                self.drop_count = 0;
            }
            if self.state == C_PTLTE_SOFTWARE_MANAGED {
                self.lists.restart_sequences();
            }
            if wanted == C_PTLTE_RESET {
                *entries -= self.lists.len();
                self.lists = PortalLists::default();
            }
            self.state = wanted;
        }
        if let Some(queue) = eqs.get_mut(usize::from(self.eq)) {
            events::state_change(queue, number, self.state, None, code);
        }
        code
    }

    /// Leaves matching to software because list entries ran out, if the options allow that and the
    /// NIC did it before. False otherwise.
    pub fn leave_to_software(
        &mut self,
        number: usize,
        reason: c_sc_reason,
        eqs: &mut Table<EventQueue>,
    ) -> bool {
        if !self.options.en_sw_hw_st_chng || self.state != C_PTLTE_ENABLED {
            return false;
        }
        self.state = C_PTLTE_SOFTWARE_MANAGED;
        if let Some(queue) = eqs.get_mut(usize::from(self.eq)) {
            events::state_change(queue, number as u16, self.state, Some(reason), C_RC_OK);
        }
        true
    }

    /// Disables the entry for lack of resources (nic.md 8.3).
    fn flow_control(&mut self, number: usize, reason: c_sc_reason, eqs: &mut Table<EventQueue>) {
        self.state = C_PTLTE_DISABLED;
        self.drop_count = 1;
        if let Some(queue) = eqs.get_mut(usize::from(self.eq)) {
            events::state_change(queue, number as u16, self.state, Some(reason), C_RC_OK);
        }
    }

    /// Refuses a message for lack of resources (nic.md 5.6, 8.3) and returns its return code.
    pub fn refuse(
        &mut self,
        number: usize,
        reason: c_sc_reason,
        eqs: &mut Table<EventQueue>,
    ) -> ReturnCode {
        if !self.options.en_flowctrl {
            return C_RC_ENTRY_NOT_FOUND;
        }
        self.flow_control(number, reason, eqs);
        C_RC_PT_DISABLED
    }

    /// Delivers an event to the event queue of the entry, if it has one.
    #[inline]
    pub fn post(&self, event: &TargetEvent, eqs: &mut Table<EventQueue>, entries: &EntriesInUse) {
        if let Some(queue) = eqs.get_mut(usize::from(self.eq)) {
            let pool = (entries[self.element] as u16, MAX_ENTRIES as u16);
            events::target(queue, event, self.options.use_long_event, pool);
        }
    }
}

/// The address of a portals table entry (nic.md 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortalMap {
    pub domain: usize,
    pub vnis: VniRange,
    pub pid: u16,
    pub index: u16,
    pub pte: usize,
}

impl PortalMap {
    /// Whether packets with this address are for the entry.
    #[inline]
    pub fn serves(&self, address: Address) -> bool {
        address.is_on(self.vnis, self.pid, self.index)
    }
}

/// The list entries in use of each processing element, unexpected headers included.
pub type EntriesInUse = [usize; ELEMENTS];

/// Whether a portals table entry may have one more list entry: in its processing element, and
/// within the limit of its LNI.
#[inline]
pub fn has_place(ptes: &Table<Pte>, number: usize, entries: &EntriesInUse) -> bool {
    let Some(pte) = ptes.get(number) else {
        return false;
    };
    let own = || {
        let portals =
            ptes.iter().filter(|(_, entry)| (entry.lni, entry.element) == (pte.lni, pte.element));
        portals.map(|(_, entry)| entry.lists.len()).sum::<usize>()
    };
    // Most services do not limit entries; then they are not counted.
    entries[pte.element] < MAX_ENTRIES
        && (pte.most_entries >= MAX_ENTRIES || own() < pte.most_entries)
}

/// Finds the entry that an operation matches: its list, and its index there. Only puts search the
/// OVERFLOW list (nic.md 15, question 22). If software manages the portals table entry, a put goes
/// to the first entry of the REQUEST list with room for it.
#[inline]
pub fn find_entry(pte: &Pte, packet: &Packet) -> Option<(c_ptl_list, usize)> {
    if pte.state == C_PTLTE_SOFTWARE_MANAGED {
        let entries = pte.lists.get(C_PTL_LIST_REQUEST);
        let at = entries.iter().position(|entry| lists::fits(entry, packet))?;
        return Some((C_PTL_LIST_REQUEST, at));
    }
    let search = |list| {
        let matches_entry = |entry: &ListEntry| matches_entry(&pte.options, entry, packet);
        Some((list, pte.lists.get(list).iter().position(matches_entry)?))
    };
    search(C_PTL_LIST_PRIORITY).or_else(|| match packet.kind {
        PacketKind::Put | PacketKind::Rendezvous => search(C_PTL_LIST_OVERFLOW),
        _ => None,
    })
}

/// With how many entries an operation was compared that [`find_entry`] found this entry for.
#[inline]
pub fn compared_entries(pte: &Pte, found: Option<(c_ptl_list, usize)>) -> usize {
    let length = |list| pte.lists.get(list).len();
    match found {
        Some((C_PTL_LIST_OVERFLOW, at)) => length(C_PTL_LIST_PRIORITY) + at + 1,
        Some((_, at)) => at + 1,
        None if pte.state == C_PTLTE_SOFTWARE_MANAGED => length(C_PTL_LIST_REQUEST),
        None => length(C_PTL_LIST_PRIORITY) + length(C_PTL_LIST_OVERFLOW),
    }
}

/// Whether an operation matches an entry. On a list without matching every operation does, except
/// one that would be truncated by an entry with `no_truncate`.
#[inline]
pub fn matches_entry(options: &PteOptions, entry: &ListEntry, packet: &Packet) -> bool {
    let command = &entry.command;
    let selected = !options.is_matching
        || ((packet.match_bits() ^ command.match_bits()) & !command.ignore_bits() == 0
            && address::matches_initiator(
                command.match_id(),
                packet.initiator,
                options.use_logical,
            ));
    selected && (!command.no_truncate() || lists::fits(entry, packet))
}
