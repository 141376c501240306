//! Rendezvous puts at their target: a get fetches the bytes that were not sent eagerly (nic.md 10).

use cxi_sys::records::{FaUnicast, RdzvMatchBits, RdzvUserPtr, TargetCmd};
use cxi_sys::*;

use super::address::{self, Address, PID_BITS};
use super::counter::Counting;
use super::event_queue::EventQueue;
use super::events::{self, InitiatorEvent, TargetEvent};
use super::lists::EntryRange;
use super::portal::{EntriesInUse, Pte};
use super::table::Table;
use super::telemetry::{ListCount, ListCounts};
use super::transactions::{OpenTransaction, ReplyDestination, Transactions};
use super::triggers::CountingEvents;
use super::wire::{Packet, PacketKind, Waiting, Wire, send_or_wait};

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
    /// The offset of the get at the source. Without `use_offset_for_get` this reading of nic.md
    /// 10.5 (question 13) fetches the right bytes when both sides use the same offset.
    fn remote_offset(&self) -> u64 {
        self.put.remote_offset + u64::from(self.mlength)
    }

    /// The bytes to fetch. A get is issued even for 0 bytes, so that all messages have the same
    /// events (nic.md 15, question 14).
    fn length(&self) -> u32 {
        self.place.length.saturating_sub(self.mlength)
    }

    /// The I/O virtual address of the fetched bytes.
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

    /// The PID of the source, from its match id.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use cxi_sys::records::{EventTargetLong, FullDmaCmd};

    use super::*;
    use crate::engine::lists::ListEntry;
    use crate::engine::test_node::*;
    use crate::engine::transactions::MAX;

    const LEN: usize = 16 * PAGE;

    impl TestNode {
        /// Issues a put of the start of the own memory to the peer's portal.
        fn unrestricted_put(&mut self, len: usize, choose: impl FnOnce(&mut FullDmaCmd)) {
            let mut put = FullDmaCmd::new();
            put.set_cmd_type(C_CMD_TYPE_DMA as u8)
                .set_cmd_size(1)
                .set_opcode(C_CMD_PUT as u8)
                .set_event_send_disable(true)
                .set_dfa(1 << 12 | u32::from(PID))
                .set_initiator(u32::from(PID) << 23)
                .set_lac(self.lac)
                .set_local_addr(self.iova)
                .set_request_len(len as u32)
                .set_eq(1);
            choose(&mut put);
            self.issue(put.bytes());
        }

        fn rendezvous_put(&mut self, len: usize, eager: u32) {
            self.unrestricted_put(len, |put| {
                put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8).set_eager_length(eager);
            });
        }

        /// Maps the portal at the index of rendezvous gets too.
        fn offer_source(&mut self) {
            let map = *self.engine.maps.iter().next().unwrap().1;
            let map = crate::engine::portal::PortalMap { index: 255, ..map };
            self.engine.maps.insert(map).unwrap();
        }

        /// Moves the only entry to the OVERFLOW list.
        fn expect_nothing(&mut self) {
            let lists = &mut self.engine.ptes.get_mut(self.pte).unwrap().lists;
            let entry = lists.get_mut(C_PTL_LIST_PRIORITY).unwrap().remove(0);
            let mut command = entry.command;
            command.set_ptl_list(C_PTL_LIST_OVERFLOW as u8);
            let overflow = lists.get_mut(C_PTL_LIST_OVERFLOW).unwrap();
            overflow.push(ListEntry::new(command));
        }

        fn header_code(&mut self) -> u32 {
            let lists = &self.engine.ptes.get(self.pte).unwrap().lists;
            assert_eq!(lists.unexpected.len(), 1);
            lists.unexpected[0].code
        }

        fn unmap(&mut self) {
            let lni = self.engine.lnis.get_mut(self.lni).unwrap();
            lni.space.unmap(self.lac, self.iova, LEN);
        }
    }

    const ACK_OK: Option<(u32, u32, bool)> = Some((C_EVENT_ACK, C_RC_OK, false));
    const PUT_OK: Option<(u32, u32, bool)> = Some((C_EVENT_PUT, C_RC_OK, false));

    fn kind(event: Option<(u32, u32, bool)>) -> Option<(u32, u32)> {
        event.map(|(kind, code, _)| (kind, code))
    }

    #[test]
    fn loses_nothing_on_wire_with_little_room() {
        for (room, eager) in [(1, 0), (1, 9000), (2, LEN as u32), (3, 20_000)] {
            let (mut source, mut target, _) = pair(LEN, room);
            source.number_words(LEN);
            for at in (0..LEN).step_by(8) {
                target.memory.word(at).store(0, Ordering::Relaxed);
            }
            source.offer_source();
            source.rendezvous_put(LEN, eager);
            settle(&mut source, &mut target);
            assert_eq!(source.event(), ACK_OK);
            assert_eq!(kind(source.event()), Some((C_EVENT_GET, C_RC_OK)));
            for expected in [C_EVENT_PUT, C_EVENT_RENDEZVOUS, C_EVENT_REPLY] {
                assert_eq!(kind(target.event()), Some((expected, C_RC_OK)));
            }
            for at in (0..LEN).step_by(8) {
                assert_eq!(target.word(at), source.word(at));
            }
            assert!(!source.engine.depends_on_others());
            assert!(!target.engine.depends_on_others());
        }
    }

    #[test]
    fn sends_only_eager_part() {
        for eager in [0, 8, 5000, 3 * PAGE as u32] {
            let (mut source, _target, net) = pair(LEN, 100);
            source.rendezvous_put(LEN, eager);
            source.engine.poll();
            let net = net.borrow();
            let came: u32 =
                net.inboxes[1].iter().map(|(_, packet, _)| u32::from(packet.length)).sum();
            assert_eq!(came, eager);
        }
    }

    /// Without a free transaction the NIC leaves the get to software (nic.md 10.3, step 6b).
    #[test]
    fn busy_nic_leaves_get_to_software() {
        let (mut source, mut target, _) = pair(PAGE, 8);
        let transaction = OpenTransaction {
            peer: 0,
            queue: None,
            eq: 0,
            user_ptr: 0,
            event: C_EVENT_ACK,
            length: 0,
            destination: None,
            rendezvous: None,
            counting: Counting::default(),
            success_disable: false,
            local_error: None,
            probed: false,
        };
        for _ in 0..MAX {
            target.engine.transactions.start(transaction);
        }
        source.offer_source();
        source.rendezvous_put(64, 8);
        settle(&mut source, &mut target);
        assert_eq!(kind(target.event()), kind(PUT_OK));
        let at = target.read;
        assert_eq!(kind(target.event()), Some((C_EVENT_RENDEZVOUS, C_RC_OK)));
        let mut bytes = [0; EventTargetLong::SIZE];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (index, word) in words.iter_mut().enumerate() {
            let value = target.events.word(at + 8 * index).load(Ordering::Relaxed);
            *word = value.to_le_bytes();
        }
        assert!(!EventTargetLong::from_bytes(bytes).get_issued());
        assert_eq!(target.event(), None);
        assert_eq!((source.event(), source.event()), (ACK_OK, None));
    }

    /// Begins a rendezvous put: some of the data of its get was received.
    fn fetching() -> (TestNode, TestNode, std::rc::Rc<std::cell::RefCell<Net>>) {
        let (mut source, mut target, net) = pair(LEN, 4);
        source.number_words(LEN);
        source.offer_source();
        source.rendezvous_put(LEN, 0);
        for _ in 0..4 {
            source.engine.poll();
            target.engine.poll();
        }
        assert_eq!(kind(target.event()), kind(PUT_OK));
        assert_eq!(kind(target.event()), Some((C_EVENT_RENDEZVOUS, C_RC_OK)));
        assert_eq!(target.event(), None);
        assert!(target.engine.transactions.any());
        (source, target, net)
    }

    #[test]
    fn get_fails_when_portal_is_destroyed() {
        let (mut source, mut target, _) = fetching();
        target.engine.remove_pte(target.pte);
        let before = target.word(LEN - 8);
        settle(&mut source, &mut target);
        let code = C_RC_MST_CANCELLED;
        assert_eq!(kind(target.event()), Some((C_EVENT_REPLY, code)));
        assert_eq!(target.word(LEN - 8), before);
        assert!(!target.engine.depends_on_others());
    }

    #[test]
    fn get_fails_when_memory_is_unmapped() {
        let (mut source, mut target, _) = fetching();
        target.unmap();
        settle(&mut source, &mut target);
        let code = C_RC_INVALID_AC;
        assert_eq!(target.event(), Some((C_EVENT_REPLY, code, false)));
    }

    #[test]
    fn get_fails_when_source_dies() {
        let (_source, mut target, net) = fetching();
        net.borrow_mut().dead[0] = true;
        target.engine.probe();
        target.engine.probe();
        let code = C_RC_UNDELIVERABLE;
        assert_eq!(target.event(), Some((C_EVENT_REPLY, code, false)));
        assert!(!target.engine.depends_on_others());
    }

    /// A header is stored before the data of its message; it records the failure of the data.
    #[test]
    fn header_records_failure_of_its_message() {
        let (mut source, mut target, _) = pair(LEN, 4);
        target.expect_nothing();
        source.unrestricted_put(LEN, |_| {});
        for _ in 0..2 {
            source.engine.poll();
            target.engine.poll();
        }
        assert_eq!(target.header_code(), C_RC_OK);
        source.unmap();
        settle(&mut source, &mut target);
        assert_eq!(target.header_code(), C_RC_SRC_ERROR);
        assert_eq!(kind(target.event()), Some((C_EVENT_PUT, C_RC_SRC_ERROR)));
    }

    #[test]
    fn header_records_death_of_its_sender() {
        let (mut source, mut target, net) = pair(LEN, 4);
        target.expect_nothing();
        source.unrestricted_put(LEN, |_| {});
        for _ in 0..2 {
            source.engine.poll();
            target.engine.poll();
        }
        net.borrow_mut().dead[0] = true;
        target.engine.probe();
        assert_eq!(target.header_code(), C_RC_SRC_ERROR);
        assert_eq!(target.event(), None);
        assert!(!target.engine.depends_on_others());
    }

    /// The failure of a message whose header was removed, or of another message, marks no header.
    #[test]
    fn failure_does_not_mark_other_headers() {
        let (mut source, mut target, _) = pair(LEN, 4);
        target.expect_nothing();
        source.unrestricted_put(8, |_| {});
        settle(&mut source, &mut target);
        source.unrestricted_put(LEN, |_| {});
        source.engine.poll();
        target.engine.poll();
        let lists = &mut target.engine.ptes.get_mut(target.pte).unwrap().lists;
        assert_eq!(lists.unexpected.pop_back().unwrap().header.total, LEN as u32);
        source.unmap();
        settle(&mut source, &mut target);
        assert_eq!(target.header_code(), C_RC_OK);
    }

    /// Packets that no command causes: an eager part larger than the message is rejected, and one
    /// that never ends is dropped with its sender.
    #[test]
    fn survives_inconsistent_rendezvous_packets() {
        let (_source, mut target, net) = pair(PAGE, 100);
        for eager in [0, 8, u32::MAX] {
            let packet = Packet {
                kind: PacketKind::Rendezvous,
                address: Address::new(VNI, PID, 0),
                total: 100,
                rendezvous: crate::engine::wire::Rendezvous { eager, ..Default::default() },
                ..Packet::default()
            };
            if let Some(packet) = Packet::from_words(packet.to_words()) {
                net.borrow_mut().inboxes[1].push_back((0, packet, vec![]));
            }
        }
        while target.engine.poll() {}
        net.borrow_mut().dead[0] = true;
        target.engine.probe();
        target.engine.probe();
        assert!(!target.engine.depends_on_others());
    }
}
