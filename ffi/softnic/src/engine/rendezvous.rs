//! Rendezvous puts at their target: what did not come along is fetched by a get (nic.md 10).

use std::collections::VecDeque;

use cxi_sys::records::{FaUnicast, RdzvMatchBits, RdzvUserPtr, TargetCmd};
use cxi_sys::*;

use super::PID_BITS;
use super::counter::{self, Counting};
use super::event_queue::EventQueue;
use super::events::{self, Initiator, PoolUse, Target};
use super::matching;
use super::packet::{Kind, Packet, Peer, Wire};
use super::placement::Place;
use super::portal::Pte;
use super::table::Table;
use super::transactions::{Destination, Transaction, Transactions};
use super::triggers::Counters;

/// The portal index at which the source of a rendezvous put is asked for the rest: the last of a
/// PID (nic.md 4.1).
const GET_INDEX: u16 = (1 << (17 - PID_BITS)) - 1;

/// Says in the match bits of such a get what it is (nic.md 10.2).
const TRANSACTION_TYPE: u8 = 0xf;

/// A put that met an entry of the PRIORITY list, sooner or later.
pub struct Rest<'a> {
    /// Its first packet.
    pub put: &'a Packet,
    /// NIC address of its source.
    pub nid: u32,
    pub pte: usize,
    pub entry: &'a TargetCmd,
    /// What the entry has for the whole message.
    pub place: Place,
    /// Eager bytes that were accepted.
    pub mlength: u32,
}

impl Rest<'_> {
    /// Where the get begins at the source. Without `use_offset_for_get` this reading of nic.md 10.5
    /// (question 13) is the one that gives right bytes when the same offset holds on both sides.
    fn remote_offset(&self) -> u64 {
        self.put.remote_offset + u64::from(self.mlength)
    }

    /// Bytes to fetch. None if all has come along; a get is made all the same, so that every
    /// message has the same events (nic.md 15, question 14).
    fn length(&self) -> u32 {
        self.place.length.saturating_sub(self.mlength)
    }

    /// Where they go.
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

    /// The PID that the source says it has.
    fn pid(&self) -> u16 {
        matching::pid_of(self.put.initiator)
    }

    fn dfa(&self) -> u32 {
        let mut dfa = FaUnicast::new();
        dfa.set_nid(self.nid)
            .set_endpoint_defined((GET_INDEX >> 5 << PID_BITS) + self.pid());
        u32::from_le_bytes(*dfa.bytes())
    }
}

/// Makes gets by itself, as the NIC of the target does.
pub struct Fetcher<'a, W> {
    pub wire: &'a mut W,
    pub transactions: &'a mut Transactions,
    pub counters: &'a mut Counters,
    /// Packets that found no room.
    pub waiting: &'a mut VecDeque<(Peer, Packet)>,
    /// Off, software has to make every get.
    pub enabled: bool,
}

impl<W: Wire> Fetcher<'_, W> {
    /// RENDEZVOUS, and the get, if it is for the NIC to make and there is a place for it; else for
    /// software. The event is about a success, but no entry can do without it: of those that want
    /// none, only such as want no event about any operation get none (nic.md 6.5).
    pub fn fetch(
        &mut self,
        rest: &Rest<'_>,
        pte: &Pte,
        eqs: &mut Table<EventQueue>,
        pool: PoolUse,
    ) {
        let get_issued = self.enabled && !self.transactions.is_full();
        if !rest.entry.event_comm_disable()
            && let Some(queue) = eqs.get_mut(usize::from(pte.eq))
        {
            let event = Target {
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
                ..Target::about(rest.put)
            };
            events::target(queue, &event, pte.options.use_long_event, pool);
        }
        if get_issued {
            self.issue(rest, pte, eqs);
        }
    }

    /// The get. Its REPLY goes to the event queue of the portals table entry, and says with a packed
    /// user pointer which message it completes.
    ///
    /// An entry that counts operations counts it beside the put (nic.md 10.3).
    fn issue(&mut self, rest: &Rest<'_>, pte: &Pte, eqs: &mut Table<EventQueue>) {
        let (pid, vni) = (rest.pid(), rest.put.vni);
        let counting = Counting {
            ct: rest.entry.ct(),
            send: false,
            completion: rest.entry.event_ct_comm(),
            bytes: rest.entry.event_ct_bytes(),
        };
        let peer = match self.wire.resolve(rest.nid, vni, pid) {
            Ok(peer) => peer,
            Err(code) => {
                if counting.completion {
                    let change = counter::amount(counting.bytes, 0, code);
                    let ct = usize::from(counting.ct);
                    self.counters.change(ct, change, eqs);
                }
                let event = Initiator {
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
        let tag = self.transactions.start(Transaction {
            peer,
            queue: None,
            eq: pte.eq,
            user_ptr: rest.user_ptr(),
            event: C_EVENT_REPLY,
            length: rest.length(),
            destination: Some(Destination {
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
            kind: Kind::Get,
            tag,
            vni,
            pid,
            index: GET_INDEX,
            initiator: matching::match_id(rest.put.pid, self.wire.nid(None)),
            remote_offset: rest.remote_offset(),
            total: rest.length(),
            tail: [rest.match_bits(), rest.put.header_data()],
            ..Packet::default()
        };
        // SAFETY: a get has no payload.
        let sent = unsafe { self.wire.send(peer, &get, std::ptr::null()) };
        if !sent {
            self.waiting.push_back((peer, get));
        }
    }
}
