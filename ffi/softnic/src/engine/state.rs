//! The state of one open NIC, with the operations of other NICs in progress at it.

use std::collections::VecDeque;

use cxi_sys::*;

use super::event_queue::EventQueue;
use super::lists::Landing;
use super::lni::{Domain, LNIS, Lni, Md};
use super::location::Staging;
use super::portal::{EntriesInUse, PortalMap, Pte};
use super::remembered::Remembered;
use super::return_codes::ReturnCode;
use super::table::Table;
use super::target_queue::TargetQueue;
use super::telemetry::{ListCounts, Telemetry};
use super::transactions::Transactions;
use super::transmit::TransmitQueue;
use super::triggers::CountingEvents;
use super::wire::{Packet, PeerId, Waiting, Wire};

/// One open NIC.
pub struct Engine<W> {
    pub wire: W,
    pub lnis: Table<Lni>,
    pub domains: Table<Domain>,
    pub mds: Table<Md>,
    pub eqs: Table<EventQueue>,
    pub tx: Table<TransmitQueue>,
    pub tgt: Table<TargetQueue>,
    pub ptes: Table<Pte>,
    pub maps: Table<PortalMap>,
    pub counters: CountingEvents,
    pub entries: EntriesInUse,
    /// Number of event queues with an event interrupt.
    pub interrupting: usize,
    /// Number of event queues that combine events.
    pub combining: usize,
    /// Number of event queues with TIMESTAMP events.
    pub stamping: usize,
    /// There were commands or stores to doorbells since this was last reset.
    pub commanded: bool,
    /// The counts of destroyed queues.
    pub(super) retired: Telemetry,
    /// The NIC issues the gets of rendezvous puts, not software (nic.md 10.3).
    pub rendezvous_gets: bool,
    pub transactions: Transactions,
    pub(super) lists: ListCounts,
    /// Operations received that asked for a flush (nic.md 12).
    pub(super) flushed: u64,
    /// Operations for which this NIC has no portals table entry.
    pub(super) unresolved: u64,
    /// The landing of the last put.
    pub(super) remembered: Option<Remembered>,
    pub(super) messages: Vec<IncompletePut>,
    pub(super) waiting: Waiting,
    pub(super) replies: VecDeque<IncompleteReply>,
    pub(super) staging: Staging,
}

impl<W: Wire> Engine<W> {
    /// Makes a NIC without objects, with the limits of libcxi.md 11. The numbers belong to this
    /// open device, where hardware has one pool for all its users.
    pub fn new(wire: W) -> Self {
        Self {
            wire,
            lnis: Table::new(1, LNIS),
            domains: Table::new(1, usize::MAX),
            mds: Table::new(1, usize::MAX),
            eqs: Table::new(1, C_NUM_EQS as usize),
            tx: Table::new(0, C_NUM_TRANSMIT_CQS as usize),
            tgt: Table::new(0, C_NUM_TARGET_CQS as usize),
            ptes: Table::new(1, C_NUM_PTLTES as usize),
            maps: Table::new(0, 2560),
            counters: CountingEvents::new(),
            entries: EntriesInUse::default(),
            interrupting: 0,
            combining: 0,
            stamping: 0,
            commanded: false,
            retired: Telemetry::default(),
            rendezvous_gets: true,
            transactions: Transactions::default(),
            lists: ListCounts::default(),
            flushed: 0,
            unresolved: 0,
            remembered: None,
            messages: Vec::new(),
            waiting: Waiting::new(),
            replies: VecDeque::new(),
            staging: Staging::new(),
        }
    }

    /// Forgets the landing of the last put. To be called before anything changes that it depends
    /// on.
    #[inline]
    pub fn forget_landing(&mut self) {
        if let Some(last) = &self.remembered {
            last.count_puts(&mut self.lists);
            self.remembered = None;
        }
    }

    /// The sums of all counts since the device was opened, without the counts of the wire.
    pub fn telemetry(&mut self) -> Telemetry {
        // Which counts its puts.
        self.forget_landing();
        let mut sum = self.retired.clone();
        for (_, queue) in self.eqs.iter() {
            sum.add_events(&queue.counts);
        }
        for (_, queue) in self.tx.iter() {
            sum.add_transmit(&queue.ring.counts);
        }
        for (_, queue) in self.tgt.iter() {
            sum.add_target(&queue.ring.counts);
        }
        sum.doorbells = self.counters.doorbells;
        sum.lists = self.lists.clone();
        for (_, pte) in self.ptes.iter() {
            let pool = self.lnis.get(pte.lni).map_or(0, |lni| usize::from(lni.entry_pool) % 16);
            sum.entries[pte.element][pool] += pte.lists.len() as u64;
        }
        sum.flushed = self.flushed;
        sum.unresolved = self.unresolved;
        sum
    }
}

/// A put of which packets are missing.
pub struct IncompletePut {
    pub peer: PeerId,
    /// Its first packet.
    pub header: Packet,
    /// `None` if it matched no entry, or was cancelled.
    pub landing: Option<Landing>,
    pub code: ReturnCode,
}

/// A get of which data remains to be sent. There is at most one for each transaction of each NIC
/// that sends to this one.
pub struct IncompleteReply {
    pub peer: PeerId,
    pub landing: Landing,
    pub request: Packet,
    /// Bytes sent.
    pub sent: u32,
}
