//! Rendezvous puts at their target: a get fetches the bytes that were not sent eagerly (nic.md 10).

use cxi_sys::records::{FaUnicast, RdzvMatchBits, RdzvUserPtr, TargetCmd};
use cxi_sys::*;

use super::address::{self, Address, PID_BITS};
use super::counter::Counting;
use super::event_queue::EventQueue;
use super::events::{self, InitiatorEvent, TargetEvent};
use super::list_counts::{ListCount, ListCounts};
use super::lists::EntryRange;
use super::packet::{Packet, PacketKind};
use super::portal::{EntriesInUse, Pte};
use super::table::Table;
use super::transactions::{OpenTransaction, ReplyDestination, Transactions};
use super::triggers::CountingEvents;
use super::wire::{Waiting, Wire, send_or_wait};

/// The portal index of the get for a rendezvous put: the last of a PID (nic.md 4.1).
const GET_INDEX: u16 = (1 << (17 - PID_BITS)) - 1;

/// Marks the match bits of such a get (nic.md 10.2).
const TRANSACTION_TYPE: u8 = 0xf;

/// The rest of a rendezvous put that matched an entry of the PRIORITY list.
pub struct RendezvousRest<'a> {
    /// The first packet of the put.
    pub put: &'a Packet,
    /// NIC address of the source.
    pub nid: u32,
    /// Number of the portals table entry.
    pub pte: usize,
    pub entry: &'a TargetCmd,
    /// The place of the whole message in the entry.
    pub place: EntryRange,
    /// Eager bytes that were accepted.
    pub mlength: u32,
}

impl RendezvousRest<'_> {
    /// Returns the offset of the get at the source. Without `use_offset_for_get` this reading of
    /// nic.md 10.5 (question 13) fetches the right bytes when both sides use the same offset.
    fn remote_offset(&self) -> u64 {
        self.put.remote_offset + u64::from(self.mlength)
    }

    /// Returns the bytes to fetch. A get is issued even for 0 bytes, so that all messages have the
    /// same events (nic.md 15, question 14).
    fn length(&self) -> u32 {
        self.place.length.saturating_sub(self.mlength)
    }

    /// Returns the I/O virtual address of the fetched bytes.
    fn start(&self) -> u64 {
        self.place.start + u64::from(self.mlength)
    }

    fn match_bits(&self) -> u64 {
        let mut bits = RdzvMatchBits::new();
        bits.set_rendezvous_id(self.put.rendezvous.id)
            .set_transaction_type(TRANSACTION_TYPE)
            .set_match_bits((self.put.match_bits() >> 48) as u16);
        u64::from_le_bytes(*bits.bytes())
    }

    fn user_ptr(&self) -> u64 {
        let mut packed = RdzvUserPtr::new();
        packed
            .set_src_nid(self.nid)
            .set_src_pid(self.pid())
            .set_ptlte_index(self.pte as u16)
            .set_rendezvous_id(self.put.rendezvous.id)
            .set_buffer_id(self.entry.buffer_id());
        u64::from_le_bytes(*packed.bytes())
    }

    /// Returns the PID of the source, from its match id.
    fn pid(&self) -> u16 {
        address::pid_of(self.put.initiator)
    }

    fn dfa(&self) -> u32 {
        let mut dfa = FaUnicast::new();
        dfa.set_nid(self.nid).set_endpoint_defined((GET_INDEX >> 5 << PID_BITS) + self.pid());
        u32::from_le_bytes(*dfa.bytes())
    }
}

/// Issues the gets that the NIC of the target issues without a command.
pub struct Fetcher<'a, W> {
    pub wire: &'a mut W,
    pub transactions: &'a mut Transactions,
    pub counters: &'a mut CountingEvents,
    pub waiting: &'a mut Waiting,
    pub lists: &'a mut ListCounts,
    /// False if software issues every get.
    pub enabled: bool,
}

impl<W: Wire> Fetcher<'_, W> {
    /// Delivers RENDEZVOUS, and issues the get if that is enabled and a transaction is free;
    /// otherwise software issues it. Entries without success events need this event too: only
    /// entries without any event of operations get none (nic.md 6.5).
    pub fn fetch(
        &mut self,
        rest: &RendezvousRest<'_>,
        pte: &Pte,
        eqs: &mut Table<EventQueue>,
        entries: &EntriesInUse,
    ) {
        let get_issued = self.enabled && !self.transactions.is_full();
        if !rest.entry.event_comm_disable() {
            let event = TargetEvent {
                kind: C_EVENT_RENDEZVOUS,
                ptlte_index: rest.pte as u16,
                ptl_list: C_PTL_LIST_PRIORITY as u8,
                buffer_id: rest.entry.buffer_id(),
                initiator: rest.dfa(),
                match_bits: rest.match_bits(),
                mlength: rest.mlength,
                remote_offset: rest.remote_offset(),
                start: rest.start(),
                get_issued,
                return_code: C_RC_OK,
                ..TargetEvent::about(rest.put)
            };
            pte.post(&event, eqs, entries);
        }
        self.lists.count(ListCount::Rendezvous);
        if get_issued {
            self.lists.count(ListCount::RendezvousOffloaded);
            self.issue(rest, pte, eqs);
        }
    }

    /// Issues the get. Its REPLY goes to the event queue of the portals table entry, with a user
    /// pointer that names the message. An entry that counts operations counts the get and the put
    /// (nic.md 10.3).
    fn issue(&mut self, rest: &RendezvousRest<'_>, pte: &Pte, eqs: &mut Table<EventQueue>) {
        let (pid, vni) = (rest.pid(), rest.put.address.vni());
        let counting = Counting::from_entry(rest.entry, rest.entry.event_ct_comm());
        let peer = match self.wire.resolve(rest.nid, vni, pid) {
            Ok(peer) => peer,
            Err(code) => {
                self.counters.count_completion(counting, 0, code, eqs);
                let event = InitiatorEvent {
                    kind: C_EVENT_REPLY,
                    user_ptr: rest.user_ptr(),
                    mlength: 0,
                    ptl_list: 0,
                    rendezvous: true,
                    tgt_error: code != C_RC_UNDELIVERABLE,
                    return_code: code,
                };
                return events::initiator(eqs, pte.eq, &event);
            }
        };
        let tag = self.transactions.start(OpenTransaction {
            peer,
            queue: None,
            eq: pte.eq,
            user_ptr: rest.user_ptr(),
            event: C_EVENT_REPLY,
            length: rest.length(),
            destination: Some(ReplyDestination {
                lni: pte.lni,
                lac: rest.entry.lac(),
                iova: rest.start(),
            }),
            rendezvous: Some(rest.pte),
            counting,
            success_disable: rest.entry.event_comm_disable(),
            local_error: None,
            probed: false,
        });
        let get = Packet {
            kind: PacketKind::Get,
            class: rest.put.class,
            tag,
            address: Address::new(vni, pid, GET_INDEX),
            initiator: address::match_id(rest.put.address.pid(), self.wire.nid(None)),
            remote_offset: rest.remote_offset(),
            total: rest.length(),
            tail: [rest.match_bits(), rest.put.header_data()],
            ..Packet::default()
        };
        send_or_wait(self.wire, self.waiting, peer, &get);
    }
}
