//! A NIC's connection to the fabric as the wire of its engine: it finds other NICs by their
//! addresses, sends to their ports, and takes packets out of its own port when they are due.

use std::fs::File;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use cxi_sys::{C_RC_PTLTE_NOT_FOUND, C_RC_RESOURCE_BUSY, C_RC_UNDELIVERABLE, C_RC_VNI_NOT_FOUND};

use super::directory::is_owned;
use super::lane::{self, GatheredResponses, Remote, Unread};
use super::link_time::Load;
use super::port::{CELLS, Endpoints, LANES, Port, TIMED};
use super::{AddressLookup, Directory, Fabric, link_time};
use crate::engine::location::copy;
use crate::engine::return_codes::{ErrorFlag, Raise};
use crate::engine::wire::{MTU, Packet, PeerId, ReceivedPacket, SEGMENT, Wire};
use crate::engine::{Amo, ReturnCode};

impl Wire for Fabric {
    /// A link carries packets of its own size; without a model, packets are as long as cells.
    #[inline]
    fn most_payload(&self) -> usize {
        if self.link.is_some() { MTU } else { SEGMENT }
    }

    #[inline]
    fn refusal(&self) -> Option<ReturnCode> {
        self.link.as_ref().and_then(|link| link.refusal())
    }

    #[inline]
    fn executed(&self, amo: Amo) -> Result<Amo, ReturnCode> {
        self.fetch_add.replacement(amo)
    }

    fn raise(&self, flag: ErrorFlag) {
        if let Some(errors) = &self.errors {
            errors.raise(flag);
        }
    }

    #[inline]
    fn has_page_costs(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.has_page_costs())
    }

    fn note_write(&mut self, pages: u64, is_huge: bool) {
        let link = self.link.as_mut();
        if let Some(side) = link.and_then(|link| link.reception.as_mut()) {
            side.note_write(pages, is_huge);
        }
    }

    #[inline]
    fn walk(&self, entries: usize) {
        if let Some(link) = &self.link {
            link.walk(entries);
        }
    }

    #[inline]
    fn count_command(&mut self) {
        if let Some(link) = &mut self.link {
            link.count_command();
        }
    }

    #[inline]
    fn resolve(&mut self, nid: u32, vni: u16, pid: u16) -> Result<PeerId, ReturnCode> {
        for route in &self.routes {
            if (route.nid, route.vni, route.pid) == (nid, vni, pid)
                && let Some(remote) = &self.remotes[route.peer]
                && remote.port.serves(route.row, route.vnis, pid)
            {
                return Ok(route.peer);
            }
        }
        self.look_up(nid, vni, pid)
    }

    #[inline]
    unsafe fn send(&mut self, to: PeerId, packet: &Packet, payload: *const u8) -> bool {
        let Some(Some(remote)) = self.remotes.get_mut(to) else {
            return false;
        };
        if !remote.has_room() {
            return false;
        }
        if self.link.is_none()
            && let Some(response) = lane::pack_response(packet)
        {
            if remote.gathered.add(response) {
                remote.send_gathered(self.instance);
            }
            remote.touched = true;
            self.sent.count_response();
            return true;
        }
        remote.send_gathered(self.instance);
        if !remote.has_room() {
            return false;
        }
        if !packet.inline && packet.length > 0 {
            let cell = remote.port.cell_payload(remote.lane, remote.head);
            // SAFETY: the caller guarantees the payload; a cell has room for the payload of any
            // packet, and belongs to this NIC until it is published.
            unsafe { copy(payload, cell, usize::from(packet.length)) };
        }
        let mut words = match &mut self.link {
            None => packet.to_words(),
            Some(link) => {
                let mut packet = *packet;
                let due = link.send(&mut packet, payload.addr(), remote.nid);
                if let Some(place) = link.changed_byte(&packet) {
                    let cell = remote.port.cell_payload(remote.lane, remote.head);
                    // SAFETY: the place is within the payload, which is in the cell unless it is
                    // inline; the cell belongs to this NIC until it is published.
                    unsafe { change_byte(&mut packet, cell, place) };
                }
                let place = remote.port.cell_due(remote.lane, remote.head);
                place.store(due, Ordering::Relaxed);
                let mut words = packet.to_words();
                words[0] |= TIMED;
                words
            }
        };
        words[1] = self.instance;
        for (index, word) in words.iter().enumerate().skip(1) {
            remote.port.cell_word(remote.lane, remote.head, index).store(*word, Ordering::Relaxed);
        }
        remote.publish(words[0]);
        remote.touched = true;
        self.sent.count(packet);
        true
    }

    #[inline]
    fn receive(&mut self, arrival: &mut ReceivedPacket) -> bool {
        self.next_due = None;
        let claimed = self.port.lanes().load(Ordering::Acquire).rotate_right(self.turn);
        let mut rest = claimed;
        while rest != 0 {
            let lane = (rest.trailing_zeros() + self.turn) % LANES as u32;
            rest &= rest - 1;
            let turn = (lane + 1) % LANES as u32;
            let lane = lane as usize;
            let arrived = if !self.inbound[lane].responses.is_empty() {
                self.receive_response(lane, &mut arrival.packet);
                true
            } else if self.early.has(lane) {
                self.receive_early(lane, arrival)
            } else {
                self.receive_cell(lane, arrival)
            };
            if arrived {
                arrival.lane = lane;
                self.turn = turn;
                if let Some(link) = &self.link {
                    link.receive(&mut arrival.packet);
                }
                return true;
            }
        }
        false
    }

    #[inline]
    fn count_received(&mut self, packet: &Packet) {
        self.received.count(packet);
    }

    #[inline]
    fn sender(&mut self, lane: usize, source: u64) -> Option<PeerId> {
        match self.inbound[lane].sender {
            Some((known, peer)) if known == source => Some(peer),
            _ => self.identify(lane, source),
        }
    }

    fn nid(&self, peer: Option<PeerId>) -> u32 {
        let remote = peer.and_then(|peer| self.remotes.get(peer)?.as_ref());
        remote.map_or(self.nid, |remote| remote.nid)
    }

    #[inline]
    fn release(&mut self, lane: usize) {
        let responses = &mut self.inbound[lane].responses;
        if !responses.is_empty() {
            responses.advance();
            if !responses.is_empty() {
                return;
            }
        } else if self.early.has(lane) {
            return self.early.release(lane);
        }
        let head = self.inbound[lane].head.wrapping_add(1);
        self.release_to(lane, head);
    }

    fn is_about_to_receive(&self) -> bool {
        self.next_due.is_some_and(|due| due <= link_time::now() + SOON)
    }

    /// A NIC that is gone counts as alive while packets from it remain to be delivered.
    fn is_alive(&mut self, peer: PeerId) -> bool {
        let Some(Some(remote)) = self.remotes.get(peer) else {
            return false;
        };
        is_owned(&remote.file) || self.has_packet_of(remote.instance)
    }

    fn forget(&mut self, peer: PeerId) {
        self.routes.retain(|route| route.peer != peer);
        for inbound in &mut self.inbound {
            inbound.sender = inbound.sender.filter(|(_, sender)| *sender != peer);
        }
        if let Some(remote) = self.remotes.get_mut(peer) {
            *remote = None;
        }
    }

    #[inline]
    fn flush(&mut self) {
        let (mut fenced, instance) = (false, self.instance);
        for remote in self.remotes.iter_mut().flatten().filter(|remote| remote.touched) {
            remote.touched = false;
            remote.send_gathered(instance);
            // Orders the packets and the released cells before the load of `parked`, as the sleeper
            // orders its store to `parked` before its last poll: one of the two sees the other.
            if !fenced {
                fence(Ordering::SeqCst);
                fenced = true;
            }
            remote.port.wake();
            self.shares_cpu = self.port.shares_cpu_with(&remote.port);
        }
    }
}

/// Inverts the byte at `place` of the payload, which is in `packet` if it is inline, or else in
/// `cell`.
///
/// # Safety
/// Unless the payload is inline, the byte at `place` of `cell` is valid, and nothing else accesses
/// it.
#[cold]
unsafe fn change_byte(packet: &mut Packet, cell: *mut u8, place: usize) {
    if packet.inline {
        packet.tail[place / 8] ^= 0xff << (place % 8 * 8);
        return;
    }
    // SAFETY: the caller guarantees that the place is within the cell.
    let byte = unsafe { cell.add(place) };
    // SAFETY: the caller guarantees a valid byte that nothing else accesses.
    let inverted = unsafe { !byte.read() };
    // SAFETY: the caller guarantees a valid byte; the load before has ended.
    unsafe { byte.write(inverted) };
}

/// Nanoseconds before the due time of a packet in which threads poll instead of sleeping.
const SOON: u64 = 100_000;

impl Fabric {
    /// Whether the next packet of a lane, whose first word this is, is due.
    #[cold]
    fn is_due(&mut self, lane: usize, first: u64) -> bool {
        let head = self.inbound[lane].head;
        let due = self.port.due(lane, head, first);
        let is_delivered = self.is_delivered(lane, due, |fabric| fabric.load(lane, first));
        if !is_delivered {
            self.take_early(lane);
        }
        is_delivered
    }

    /// The load on the receiving side by the next cell of a lane, whose first word this is.
    fn load(&self, lane: usize, first: u64) -> Load {
        let responses = Unread::of(first);
        if !responses.is_empty() {
            return Load::from_responses(responses);
        }
        let mut packet = Packet::default();
        self.port.read(lane, self.inbound[lane].head, first, &mut packet);
        Load::from_packet(&packet)
    }

    /// Whether receiving takes time.
    fn receives_slowly(&self) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| link.reception.is_some())
    }

    /// Whether the next packet of a lane, which arrives at the time `due`, has arrived and was
    /// received. A packet without a due time arrives when it is first seen.
    fn is_delivered(&mut self, lane: usize, due: u64, load: impl Fn(&Self) -> Load) -> bool {
        let now = link_time::now();
        let known = self.inbound[lane].delivery;
        let mut at = known.unwrap_or(due);
        if known.is_none() && due <= now && self.receives_slowly() {
            let load = load(self);
            let link = self.link.as_mut();
            if let Some(side) = link.and_then(|link| link.reception.as_mut()) {
                at = side.deliver(load, if due == 0 { now } else { due });
            }
        }
        let is_delivered = at <= now;
        if is_delivered {
            self.inbound[lane].delivery = None;
        } else {
            self.expect(at);
            self.inbound[lane].delivery = (due <= now).then_some(at);
        }
        is_delivered
    }

    /// Takes the next packet of a lane with early packets, if it is due.
    #[cold]
    pub(super) fn receive_early(&mut self, lane: usize, arrival: &mut ReceivedPacket) -> bool {
        self.take_early(lane);
        if self.inbound[lane].delivery.is_none() {
            self.early.choose(lane);
        }
        let Some((packet, due)) = self.early.first(lane) else {
            return false;
        };
        let load = Load::from_packet(packet);
        self.is_delivered(lane, due, |_| load) && self.early.next(lane, arrival)
    }

    /// Empties the ring of a lane as far as [`EarlyPackets`](super::lane::EarlyPackets) does.
    fn take_early(&mut self, lane: usize) {
        let head = self.inbound[lane].head;
        let taken = self.early.take_from_ring(&self.port, lane, head);
        if taken != head {
            self.release_to(lane, taken);
            self.flush();
        }
    }

    /// Releases the cells of a lane up to the one at `head`. After each half of the ring the next
    /// flush wakes the sender, which may sleep because the ring was full; with room for one packet
    /// it would soon sleep again.
    #[inline]
    pub(super) fn release_to(&mut self, lane: usize, head: u32) {
        let before = std::mem::replace(&mut self.inbound[lane].head, head);
        self.port.tail(lane).store(head, Ordering::Release);
        if before / (CELLS / 2) != head / (CELLS / 2) {
            self.touch_sender(lane);
        }
    }

    /// Has the next flush wake the sender of a lane.
    #[cold]
    fn touch_sender(&mut self, lane: usize) {
        let owner = self.port.owner(lane).load(Ordering::Acquire);
        let mut remotes = self.remotes.iter_mut().flatten();
        if let Some(sender) = remotes.find(|remote| remote.instance == owner) {
            sender.touched = true;
        }
    }

    /// Takes the next packet from the ring of a lane, if it is due.
    #[inline]
    pub(super) fn receive_cell(&mut self, lane: usize, arrival: &mut ReceivedPacket) -> bool {
        let head = self.inbound[lane].head;
        let Some(first) = self.port.first_word(lane, head) else {
            return false;
        };
        if first & self.waits != 0 && !self.is_due(lane, first) {
            return false;
        }
        self.inbound[lane].responses = Unread::of(first);
        if !self.inbound[lane].responses.is_empty() {
            self.receive_response(lane, &mut arrival.packet);
            return true;
        }
        let is_valid = self.port.read(lane, head, first, &mut arrival.packet);
        arrival.payload = self.port.cell_payload(lane, head);
        if !is_valid {
            // Not written by a NIC of this version: skipped, without harm to other packets.
            self.release(lane);
        }
        is_valid
    }

    /// Takes the next of the responses that share the cell at the head of a lane.
    #[inline]
    pub(super) fn receive_response(&self, lane: usize, packet: &mut Packet) {
        let inbound = &self.inbound[lane];
        let index = inbound.responses.next();
        let word = self.port.cell_word(lane, inbound.head, index);
        lane::unpack_response(word.load(Ordering::Relaxed), packet);
    }

    /// Notes the due time of a packet.
    fn expect(&mut self, due: u64) {
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    /// The time until the next received packet is nearly due; `None` without such a packet.
    pub fn time_to_next_packet(&self) -> Option<Duration> {
        let nearly_due = self.next_due?.saturating_sub(SOON);
        let time = nearly_due.saturating_sub(link_time::now());
        Some(Duration::from_nanos(time))
    }

    /// Whether a packet of a NIC remains to be delivered.
    pub(super) fn has_packet_of(&self, instance: u64) -> bool {
        (0..LANES).any(|lane| {
            let head = self.inbound[lane].head;
            self.port.owner(lane).load(Ordering::Acquire) == instance
                && (self.early.has(lane) || self.port.first_word(lane, head).is_some())
        })
    }
}

impl Fabric {
    /// Resolves an address in the directory.
    #[cold]
    fn look_up(&mut self, nid: u32, vni: u16, pid: u16) -> Result<PeerId, ReturnCode> {
        self.routes.retain(|route| (route.nid, route.vni, route.pid) != (nid, vni, pid));
        let Ok(directory) = Directory::lock_existing(&self.place) else {
            return Err(C_RC_UNDELIVERABLE);
        };
        let ports = directory.ports(nid).map_err(|_| C_RC_UNDELIVERABLE)?;
        if ports.is_empty() {
            // Hardware reports this after about 30 s of retries (libcxi.md 12.3).
            return Err(C_RC_UNDELIVERABLE);
        }
        // A NIC has a VNI while there is a domain on it. For its own address it does not report the
        // difference (nic.md 4.3).
        let mut vni_known = nid == self.nid;
        for (slot, file, header) in ports {
            let is_of_vni = |endpoints: &&Endpoints| endpoints.vnis.contains(vni);
            let mut endpoints = header.endpoints.iter().filter(is_of_vni).peekable();
            vni_known |= endpoints.peek().is_some();
            if let Some(endpoints) = endpoints.find(|endpoints| endpoints.contains(pid)) {
                let peer = self.connect(&directory, (nid, slot), file, header.instance)?;
                self.routes.push(AddressLookup {
                    nid,
                    vni,
                    pid,
                    peer,
                    row: endpoints.row,
                    vnis: endpoints.vnis,
                });
                return Ok(peer);
            }
        }
        Err(if vni_known { C_RC_PTLTE_NOT_FOUND } else { C_RC_VNI_NOT_FOUND })
    }

    /// Finds or makes the connection to the port (NID, slot).
    ///
    /// A connection needs a lane at both ends, because a sender must be able to get a response.
    /// Without a free lane at one end it fails with RESOURCE_BUSY.
    fn connect(
        &mut self,
        directory: &Directory,
        (nid, slot): (u32, u32),
        file: File,
        instance: u64,
    ) -> Result<PeerId, ReturnCode> {
        let known =
            |remote: &Option<Remote>| remote.as_ref().is_some_and(|r| r.instance == instance);
        if let Some(peer) = self.remotes.iter().position(known) {
            return Ok(peer);
        }
        let port = Port::map(&file).map_err(|_| C_RC_RESOURCE_BUSY)?;
        let ours = self.file.as_ref().ok_or(C_RC_RESOURCE_BUSY)?;
        let back = lane_for(&self.port, directory, instance).ok_or(C_RC_RESOURCE_BUSY)?;
        let lane = lane_for(&port, directory, self.instance).ok_or(C_RC_RESOURCE_BUSY)?;
        self.port.claim(ours, back, instance, nid, slot).map_err(|_| C_RC_RESOURCE_BUSY)?;
        let head = port
            .claim(&file, lane, self.instance, self.nid, self.slot)
            .map_err(|_| C_RC_RESOURCE_BUSY)?;
        let tail = port.tail(lane).load(Ordering::Acquire);
        let remote = Some(Remote {
            port,
            nid,
            file,
            instance,
            lane,
            head,
            tail,
            touched: false,
            gathered: GatheredResponses::default(),
        });
        let peer = self.remotes.iter().position(Option::is_none).unwrap_or(self.remotes.len());
        if peer == self.remotes.len() {
            self.remotes.push(remote);
        } else {
            self.remotes[peer] = remote;
        }
        Ok(peer)
    }

    /// Finds the NIC that owns a lane of the own port, to answer it.
    #[cold]
    fn identify(&mut self, lane: usize, source: u64) -> Option<PeerId> {
        let (nid, slot) = self.port.owner_name(lane);
        let directory = Directory::lock_existing(&self.place).ok()?;
        let (file, header) = directory.port(nid, slot, source)?;
        let peer = self.connect(&directory, (nid, slot), file, header.instance).ok()?;
        self.inbound[lane].sender = Some((source, peer));
        Some(peer)
    }
}

/// The lane of `port` that `instance` owns, or a free one.
fn lane_for(port: &Port, directory: &Directory, instance: u64) -> Option<usize> {
    let owner = |lane: &usize| port.owner(*lane).load(Ordering::Acquire);
    let is_free = |lane: &usize| match owner(lane) {
        0 => true,
        owner => {
            let (nid, slot) = port.owner_name(*lane);
            directory.port(nid, slot, owner).is_none()
        }
    };
    (0..LANES).find(|lane| owner(lane) == instance).or_else(|| (0..LANES).find(is_free))
}

#[cfg(test)]
mod tests {
    use cxi_sys::C_RC_OK;
    use proptest::prelude::*;

    use super::*;
    use crate::engine::VniRange;
    use crate::engine::wire::PacketKind;
    use crate::environment::Nics;
    use crate::fabric::LinkSettings;
    use crate::fabric::link_model::LinkModel;

    /// Addresses that no other test uses.
    const NIDS: [u32; 2] = [0xf_fff1, 0xf_fff2];

    /// Two NICs, and the number of the first as the peer of the second.
    fn connected() -> (Fabric, Fabric, PeerId) {
        let [mut receiver, mut sender] = NIDS.map(|nid| Fabric::join(0, nid).unwrap());
        let pid = receiver.claim(VniRange::single(1), None, 1).unwrap();
        let peer = sender.resolve(NIDS[0], 1, pid).unwrap();
        (receiver, sender, peer)
    }

    fn response(tag: u32, code: u8) -> Packet {
        Packet {
            kind: PacketKind::Response,
            tag,
            total: 3 * tag,
            return_code: code,
            ..Packet::default()
        }
    }

    fn send(sender: &mut Fabric, peer: PeerId, packet: &Packet) -> bool {
        // SAFETY: the packet has no payload outside its header.
        unsafe { sender.send(peer, packet, std::ptr::null()) }
    }

    /// The fields of a response.
    fn fields(packet: &Packet) -> (PacketKind, u32, u32, u8) {
        (packet.kind, packet.tag, packet.total, packet.return_code)
    }

    /// Receives all packets.
    fn received(receiver: &mut Fabric) -> Vec<(PacketKind, u32, u32, u8)> {
        let mut arrival = ReceivedPacket::new();
        let mut packets = Vec::new();
        // A cell that is skipped ends a look.
        for _ in 0..32 {
            while receiver.receive(&mut arrival) {
                packets.push(fields(&arrival.packet));
                receiver.count_received(&arrival.packet);
                receiver.release(arrival.lane);
                assert!(packets.len() < 10_000, "endless");
            }
        }
        packets
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Some responses fail, which are not gathered; some are puts.
        #[test]
        fn responses_keep_order_and_counts(kinds in proptest::collection::vec(0..8u8, 0..200)) {
            let (mut receiver, mut sender, peer) = connected();
            let packets: Vec<Packet> = (0..).zip(&kinds).map(|(tag, kind)| match kind {
                0 => response(tag, C_RC_OK as u8 + 1),
                1 => Packet { kind: PacketKind::Put, total: 0, ..response(tag, 0) },
                _ => response(tag, C_RC_OK as u8),
            }).collect();
            let mut arrived = Vec::new();
            for packet in &packets {
                while !send(&mut sender, peer, packet) {
                    arrived.extend(received(&mut receiver));
                }
                if packet.tag % 17 == 0 {
                    sender.flush();
                    arrived.extend(received(&mut receiver));
                    let expected = fields(packet);
                    prop_assert_eq!(arrived.last(), Some(&expected));
                }
            }
            sender.flush();
            arrived.extend(received(&mut receiver));
            let expected: Vec<_> = packets.iter().map(fields).collect();
            prop_assert_eq!(arrived, expected);
            prop_assert_eq!(&receiver.received, &sender.sent);
        }

        #[test]
        fn survives_any_bytes_in_cells(
            cells in proptest::collection::vec((any::<[u64; 8]>(), 0..10u64, 0..9u64), 1..20),
        ) {
            let (mut receiver, mut sender, peer) = connected();
            for &(words, kind, count) in &cells {
                let remote = sender.remotes[peer].as_mut().unwrap();
                let position = remote.head;
                for (index, word) in words.into_iter().enumerate().skip(1) {
                    remote.port.cell_word(remote.lane, position, index).store(word, Ordering::Relaxed);
                }
                let flags = words[0] & !(0xffff_00ff << 32 | 0xffff_ffff);
                remote.publish(flags | kind << 32 | count << 48);
            }
            // A NIC that follows the rules uses the lane afterwards.
            let good = response(7, C_RC_OK as u8);
            prop_assert!(send(&mut sender, peer, &good));
            sender.flush();
            let mut arrived = received(&mut receiver);
            if arrived.is_empty() {
                // Some cells have a due time, at any time.
                prop_assert!(receiver.time_to_next_packet().is_some());
            } else if receiver.time_to_next_packet().is_none() {
                prop_assert_eq!(arrived.pop(), Some(fields(&good)));
            }
        }
    }

    /// With a link model the receiver takes packets out of the ring before they are due. The
    /// engine, which has received none, does not flush then.
    #[test]
    fn wakes_sender_after_each_half_of_full_ring() {
        for latency in [Duration::ZERO, Duration::from_secs(3600)] {
            let (mut receiver, mut sender, peer) = connected();
            let settings = LinkSettings { latency, ..LinkSettings::default() };
            let nics = Nics::from_environment().unwrap();
            sender.link = LinkModel::new(settings, &nics, NIDS[1], 0, None);
            let put = Packet::default();
            let mut arrival = ReceivedPacket::new();
            // The receiver learns who sends.
            assert!(send(&mut sender, peer, &put));
            assert!(receiver.sender(lane_of(&sender, peer), sender.instance).is_some());
            while send(&mut sender, peer, &put) {}
            let mut woken_at = Vec::new();
            for released in 1..=CELLS {
                sender.port.parked().store(1, Ordering::Relaxed);
                if receiver.receive(&mut arrival) {
                    receiver.release(arrival.lane);
                    receiver.flush();
                }
                if sender.port.parked().load(Ordering::Relaxed) == 0 {
                    woken_at.push(released);
                }
            }
            let expected = if latency.is_zero() { vec![CELLS / 2, CELLS] } else { vec![1] };
            assert_eq!(woken_at, expected, "{latency:?}");
            assert!(send(&mut sender, peer, &put), "there is room");
        }
    }

    /// The lane in which a NIC sends to a peer.
    fn lane_of(sender: &Fabric, peer: PeerId) -> usize {
        sender.remotes[peer].as_ref().unwrap().lane
    }
}
