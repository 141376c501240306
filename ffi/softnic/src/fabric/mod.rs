//! The wire between software NICs of one host: shared memory in a private directory.
//!
//! Each open NIC has a *port*, a file that other NICs map to send to it. The headers of ports
//! contain the (VNI, PID) that they serve, by which addresses are resolved. A NIC sends to itself
//! through its own port too.

mod directory;
mod early;
mod file_user;
mod gathered;
mod health;
mod link_model;
mod lock;
mod nic_counts;
mod place;
mod port;
mod remote;
#[cfg(test)]
mod shared_cell_tests;
mod syntax;
mod totals;

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use cxi_sys::{
    C_PID_ANY, C_RC_PTLTE_NOT_FOUND, C_RC_RESOURCE_BUSY, C_RC_UNDELIVERABLE, C_RC_VNI_NOT_FOUND,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::counter_names;
use crate::engine::bytes::copy;
use crate::engine::packet::{MTU, Packet, SEGMENT};
use crate::engine::packet_counts::PacketCounts;
use crate::engine::telemetry::Telemetry;
use crate::engine::wire::{Arrival, Peer, Wire};
use crate::engine::{ReturnCode, VniRange};
use crate::environment::Driver;
use crate::fork;
pub use directory::Directory;
use directory::is_owned;
use early::EarlyPackets;
use gathered::{Gathered, Unread};
pub use health::Health;
use link_model::LinkModel;
pub use link_model::{Settings, now};
pub use lock::describe_holder;
pub use nic_counts::read as nic_counts;
pub use place::{Place, fallback, owner};
use port::{CELLS, Endpoints, LANES, TIMED, VNIS};
pub use port::{Port, Use};
use remote::Remote;
pub use syntax::from_environment as settings;

/// Nanoseconds before the due time of a packet in which threads poll instead of sleeping.
const SOON: u64 = 100_000;

/// The result of the last lookup of an address.
struct Route {
    nid: u32,
    vni: u16,
    pid: u16,
    peer: Peer,
    /// The row of the peer's table of VNIs with the address, and its VNIs.
    row: usize,
    vnis: VniRange,
}

/// A lane of the own port.
#[derive(Clone, Copy, Default)]
struct Inbound {
    /// Position of the next cell.
    head: u32,
    /// The rest of the responses that share this cell.
    responses: Unread,
    /// Instance and peer of the NIC that sent the last packet.
    sender: Option<(u64, Peer)>,
}

/// One NIC's connection to the fabric.
pub struct Fabric {
    place: Place,
    port: Arc<Port>,
    /// Holds the lock that marks the port as alive.
    file: Option<File>,
    nid: u32,
    slot: u32,
    instance: u64,
    remotes: Vec<Option<Remote>>,
    routes: Vec<Route>,
    inbound: [Inbound; LANES],
    /// The lane to poll first, so that none starves.
    turn: u32,
    /// The link, as the environment describes it.
    pub settings: Settings,
    /// The model of the link, if the environment requests one.
    link: Option<Box<LinkModel>>,
    early: EarlyPackets,
    /// The earliest due time of the packets that were not due at the last poll.
    next_due: Option<u64>,
    /// What parameters of the driver set on hardware.
    pub driver: Driver,
    pub sent: PacketCounts,
    pub received: PacketCounts,
}

impl Fabric {
    /// Joins the fabric with a new port of the NIC with this number and the address `nid`.
    ///
    /// # Errors
    /// EINVAL for invalid environment variables; errors of the file system.
    pub fn join(number: u32, nid: u32) -> Result<Self, Errno> {
        let settings = syntax::from_environment(number).map_err(|_| Errno::INVAL)?;
        let driver = Driver::from_environment().map_err(|_| Errno::INVAL)?;
        let place = Place::from_environment()?;
        let directory = Directory::lock(&place)?;
        directory.sweep()?;
        let (file, slot) = directory.create(nid)?;
        let instance = random()?;
        let memory = directory.reopen(nid, slot);
        let port = memory.and_then(|memory| Port::create(&memory, instance));
        let port = port.inspect_err(|_| {
            let _ = directory.remove(nid, slot);
        })?;
        fork::keep_from_children(&file);
        // Without counters, devices work all the same.
        let _ = directory.totals(nid);
        Ok(Self {
            place,
            port: Arc::new(port),
            file: Some(file),
            nid,
            slot,
            instance,
            remotes: Vec::new(),
            routes: Vec::new(),
            inbound: [Inbound::default(); LANES],
            turn: 0,
            link: LinkModel::new(settings.clone(), nid, slot),
            settings,
            early: EarlyPackets::new(),
            next_due: None,
            driver,
            sent: PacketCounts::default(),
            received: PacketCounts::default(),
        })
    }

    /// Returns the own port.
    pub fn port(&self) -> Arc<Port> {
        self.port.clone()
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        let link = self.link.as_ref();
        link.is_none_or(|link| link.is_up())
    }

    /// Publishes the counts of this device. The counts of the wire in `telemetry` are replaced.
    pub fn publish_counts(&self, mut telemetry: Telemetry) {
        telemetry.sent = self.sent.clone();
        telemetry.received = self.received.clone();
        telemetry.link = self
            .link
            .as_ref()
            .map(|link| link.counts())
            .unwrap_or_default();
        let counts = counter_names::all().iter();
        self.port
            .publish_counts(counts.map(|counter| telemetry.value(counter.number)));
    }

    /// Returns where the ports are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Locks and returns the directory.
    pub fn directory(&self) -> Result<Directory, Errno> {
        Directory::lock_existing(&self.place)
    }

    /// Returns the address of this NIC.
    pub fn own_nid(&self) -> u32 {
        self.nid
    }

    /// Returns the resources in use by the LNIs of all processes that have this NIC open.
    pub fn uses(&self, directory: &Directory) -> Result<Vec<Use>, Errno> {
        let ports = directory.ports(self.nid)?;
        Ok(ports
            .iter()
            .flat_map(|(_, file, _)| port::read_uses(file))
            .collect())
    }

    /// Claims `count` consecutive PIDs on `vnis` for this NIC, from `pid` on or the lowest free
    /// ones, and returns the first. With `pid`, they must be below the wildcard.
    ///
    /// # Errors
    /// EEXIST if a port of this NIC has one of them on one of these VNIs; ENOSPC if there are too
    /// few below 510 (libcxi.md 6), or if the NIC has domains on too many VNIs.
    pub fn claim(&mut self, vnis: VniRange, pid: Option<u16>, count: u16) -> Result<u16, Errno> {
        let directory = self.directory()?;
        let ports = directory.ports(self.nid)?;
        let in_use = || ports.iter().flat_map(|(_, _, header)| &header.endpoints);
        let mut rows: BTreeSet<VniRange> = in_use().map(|endpoints| endpoints.vnis).collect();
        rows.insert(vnis);
        if rows.len() > VNIS {
            return Err(Errno::NOSPC);
        }
        let overlapping: Vec<&Endpoints> = in_use()
            .filter(|endpoints| endpoints.vnis.overlaps(vnis))
            .collect();
        let is_free = |pid: u16| !overlapping.iter().any(|of_port| of_port.contains(pid));
        let are_free = |first: u16| (first..first + count).all(is_free);
        let first = match pid {
            Some(pid) => Some(pid).filter(|&pid| are_free(pid)).ok_or(Errno::EXIST)?,
            // The wildcard never selects the highest PID.
            None => (0..C_PID_ANY as u16)
                .take_while(|first| first + count < C_PID_ANY as u16)
                .find(|&first| are_free(first))
                .ok_or(Errno::NOSPC)?,
        };
        if self.port.add_pids(vnis, first..first + count) {
            Ok(first)
        } else {
            Err(Errno::NOSPC)
        }
    }

    /// Releases a PID.
    pub fn unclaim(&mut self, vnis: VniRange, pid: u16) {
        self.port.remove_pid(vnis, pid);
    }

    /// Resolves an address in the directory.
    #[cold]
    fn look_up(&mut self, nid: u32, vni: u16, pid: u16) -> Result<Peer, ReturnCode> {
        self.routes
            .retain(|route| (route.nid, route.vni, route.pid) != (nid, vni, pid));
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
            let of_vni = |endpoints: &&Endpoints| endpoints.vnis.contains(vni);
            let mut endpoints = header.endpoints.iter().filter(of_vni).peekable();
            vni_known |= endpoints.peek().is_some();
            if let Some(endpoints) = endpoints.find(|endpoints| endpoints.contains(pid)) {
                let peer = self.connect(&directory, (nid, slot), file, header.instance)?;
                self.routes.push(Route {
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
        Err(if vni_known {
            C_RC_PTLTE_NOT_FOUND
        } else {
            C_RC_VNI_NOT_FOUND
        })
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
    ) -> Result<Peer, ReturnCode> {
        let known =
            |remote: &Option<Remote>| remote.as_ref().is_some_and(|r| r.instance == instance);
        if let Some(peer) = self.remotes.iter().position(known) {
            return Ok(peer);
        }
        let port = Port::map(&file).map_err(|_| C_RC_RESOURCE_BUSY)?;
        let ours = self.file.as_ref().ok_or(C_RC_RESOURCE_BUSY)?;
        let back = lane_for(&self.port, directory, instance).ok_or(C_RC_RESOURCE_BUSY)?;
        let lane = lane_for(&port, directory, self.instance).ok_or(C_RC_RESOURCE_BUSY)?;
        self.port
            .claim(ours, back, instance, nid, slot)
            .map_err(|_| C_RC_RESOURCE_BUSY)?;
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
            gathered: Gathered::default(),
        });
        let peer = self
            .remotes
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.remotes.len());
        if peer == self.remotes.len() {
            self.remotes.push(remote);
        } else {
            self.remotes[peer] = remote;
        }
        Ok(peer)
    }

    /// Finds the NIC that owns a lane of the own port, to answer it.
    #[cold]
    fn identify(&mut self, lane: usize, source: u64) -> Option<Peer> {
        let (nid, slot) = self.port.owner_name(lane);
        let directory = Directory::lock_existing(&self.place).ok()?;
        let (file, header) = directory.port(nid, slot, source)?;
        let peer = self
            .connect(&directory, (nid, slot), file, header.instance)
            .ok()?;
        self.inbound[lane].sender = Some((source, peer));
        Some(peer)
    }

    /// Whether the next packet of a lane, whose first word this is, is due.
    #[cold]
    fn is_due(&mut self, lane: usize, first: u64) -> bool {
        let head = self.inbound[lane].head;
        let due = self.port.due(lane, head, first);
        let is_due = due <= link_model::now();
        if !is_due {
            self.expect(due);
            self.take_early(lane);
        }
        is_due
    }

    /// Takes the next packet of a lane with early packets, if it is due.
    #[cold]
    fn receive_early(&mut self, lane: usize, arrival: &mut Arrival) -> bool {
        self.take_early(lane);
        let Some(due) = self.early.due(lane) else {
            return false;
        };
        if due > link_model::now() {
            self.expect(due);
            return false;
        }
        self.early.next(lane, arrival)
    }

    /// Empties the ring of a lane if it is half full.
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
    fn release_to(&mut self, lane: usize, head: u32) {
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
    fn receive_cell(&mut self, lane: usize, arrival: &mut Arrival) -> bool {
        let head = self.inbound[lane].head;
        let Some(first) = self.port.first_word(lane, head) else {
            return false;
        };
        if first & TIMED != 0 && !self.is_due(lane, first) {
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
    fn receive_response(&self, lane: usize, packet: &mut Packet) {
        let inbound = &self.inbound[lane];
        let index = inbound.responses.next();
        let word = self.port.cell_word(lane, inbound.head, index);
        gathered::unpack(word.load(Ordering::Relaxed), packet);
    }

    /// Notes the due time of a packet.
    fn expect(&mut self, due: u64) {
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    /// Returns the time until the next received packet is nearly due; `None` without such a packet.
    pub fn time_to_next_packet(&self) -> Option<Duration> {
        let nearly_due = self.next_due?.saturating_sub(SOON);
        let time = nearly_due.saturating_sub(link_model::now());
        Some(Duration::from_nanos(time))
    }

    /// Whether a packet of a NIC remains to be delivered.
    fn has_packet_of(&self, instance: u64) -> bool {
        (0..LANES).any(|lane| {
            let head = self.inbound[lane].head;
            self.port.owner(lane).load(Ordering::Acquire) == instance
                && (self.early.has(lane) || self.port.first_word(lane, head).is_some())
        })
    }

    /// Leaves the fabric: releases the endpoints, and removes the port. Lanes need no release,
    /// because their owner is gone.
    fn leave(&mut self) -> Result<(), Errno> {
        let directory = Directory::lock_existing(&self.place)?;
        self.port.remove_pids();
        // Readers ask under the lock of the directory, perhaps since the device was closed.
        self.port.answer_requests();
        directory.count_closed(self.nid, self.file.as_ref().and_then(port::read_counts));
        directory.sweep()?;
        directory.remove(self.nid, self.slot)
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // Fails if the directory was removed by hand; then nothing remains to be done.
        let _ = self.leave();
        if let Some(file) = self.file.take() {
            fork::release(file);
        }
    }
}

impl Wire for Fabric {
    /// A link carries packets of its own size; without a model, packets are as long as cells.
    #[inline]
    fn most_payload(&self) -> usize {
        if self.link.is_some() { MTU } else { SEGMENT }
    }

    #[inline]
    fn resolve(&mut self, nid: u32, vni: u16, pid: u16) -> Result<Peer, ReturnCode> {
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
    unsafe fn send(&mut self, to: Peer, packet: &Packet, payload: *const u8) -> bool {
        let Some(Some(remote)) = self.remotes.get_mut(to) else {
            return false;
        };
        if !remote.has_room() {
            return false;
        }
        if self.link.is_none()
            && let Some(response) = gathered::pack(packet)
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
                let due = link.send(&mut packet);
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
            remote
                .port
                .cell_word(remote.lane, remote.head, index)
                .store(*word, Ordering::Relaxed);
        }
        remote.publish(words[0]);
        remote.touched = true;
        self.sent.count(packet);
        true
    }

    #[inline]
    fn receive(&mut self, arrival: &mut Arrival) -> bool {
        self.next_due = None;
        let claimed = self
            .port
            .lanes()
            .load(Ordering::Acquire)
            .rotate_right(self.turn);
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
    fn sender(&mut self, lane: usize, source: u64) -> Option<Peer> {
        match self.inbound[lane].sender {
            Some((known, peer)) if known == source => Some(peer),
            _ => self.identify(lane, source),
        }
    }

    fn nid(&self, peer: Option<Peer>) -> u32 {
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
        self.next_due
            .is_some_and(|due| due <= link_model::now() + SOON)
    }

    /// A NIC that is gone counts as alive while packets from it remain to be delivered.
    fn is_alive(&mut self, peer: Peer) -> bool {
        let Some(Some(remote)) = self.remotes.get(peer) else {
            return false;
        };
        is_owned(&remote.file) || self.has_packet_of(remote.instance)
    }

    fn forget(&mut self, peer: Peer) {
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
        for remote in self
            .remotes
            .iter_mut()
            .flatten()
            .filter(|remote| remote.touched)
        {
            remote.touched = false;
            remote.send_gathered(instance);
            // Orders the packets and the released cells before the load of `parked`, as the sleeper
            // orders its store to `parked` before its last poll: one of the two sees the other.
            if !fenced {
                fence(Ordering::SeqCst);
                fenced = true;
            }
            remote.port.wake();
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

/// Returns the lane of `port` that `instance` owns, or a free one.
fn lane_for(port: &Port, directory: &Directory, instance: u64) -> Option<usize> {
    let owner = |lane: &usize| port.owner(*lane).load(Ordering::Acquire);
    let is_free = |lane: &usize| match owner(lane) {
        0 => true,
        owner => {
            let (nid, slot) = port.owner_name(*lane);
            directory.port(nid, slot, owner).is_none()
        }
    };
    (0..LANES)
        .find(|lane| owner(lane) == instance)
        .or_else(|| (0..LANES).find(is_free))
}

/// Checks the environment variables of the link model.
///
/// # Errors
/// One line that names the variable.
pub fn check_environment() -> Result<(), String> {
    syntax::from_environment(0).map(|_| ())
}

/// Returns a random number for an open NIC; never 0, which means no NIC.
fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes) | 1)
}
