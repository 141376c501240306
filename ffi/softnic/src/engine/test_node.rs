//! Engines on a wire whose room, dead peers and order of deliveries the test controls.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cxi_sys::records::{DmaAmoCmd, EventInitiatorShort, FullDmaCmd, TargetCmd};
use cxi_sys::*;

use super::event_queue::EventQueue;
use super::lists::ListEntry;
use super::location::MemoryLocation;
use super::portal::{PortalMap, Pte, PteOptions};
use super::ring::{CommandRing, StatusPolicy};
use super::transmit::TransmitQueue;
use super::wire::{MTU, Packet, PeerId, ReceivedPacket, Wire};
use super::{Engine, Lni, Profile, ReturnCode, VniRange};
use crate::pages::Pages;

pub const VNI: u16 = 1;
pub const PID: u16 = 5;
pub const PAGE: usize = 4096;
/// Slots of the transmit queue, and the first one that holds a command.
const SLOTS: u64 = 64;
const FIRST_SLOT: u64 = C_CQ_FIRST_WR_PTR as u64;
pub const RW: u32 = CXI_MAP_READ | CXI_MAP_WRITE;

/// The network between the engines. Peers are numbered by NID.
#[derive(Default)]
pub struct Net {
    pub inboxes: [VecDeque<(PeerId, Packet, Vec<u8>)>; 2],
    /// Capacity of an inbox in packets.
    pub room: usize,
    /// Number of packets for which there was no room.
    pub refused: usize,
    pub dead: [bool; 2],
}

pub struct TestWire {
    pub net: Rc<RefCell<Net>>,
    pub me: PeerId,
    /// The payload of the last arrival.
    pub held: Vec<u8>,
}

impl Wire for TestWire {
    fn most_payload(&self) -> usize {
        MTU
    }

    fn resolve(&mut self, nid: u32, _vni: u16, _pid: u16) -> Result<PeerId, ReturnCode> {
        Ok(nid as usize)
    }

    unsafe fn send(&mut self, to: PeerId, packet: &Packet, payload: *const u8) -> bool {
        let mut net = self.net.borrow_mut();
        if net.inboxes[to].len() >= net.room {
            net.refused += 1;
            return false;
        }
        let mut bytes = vec![0; usize::from(packet.length)];
        if !packet.inline && !bytes.is_empty() {
            // SAFETY: the caller guarantees `packet.length` readable bytes at `payload`.
            unsafe { payload.copy_to(bytes.as_mut_ptr(), bytes.len()) };
        }
        let packet = Packet::from_words(packet.to_words()).expect("a packet that exists");
        net.inboxes[to].push_back((self.me, packet, bytes));
        true
    }

    fn receive(&mut self, arrival: &mut ReceivedPacket) -> bool {
        let next = self.net.borrow_mut().inboxes[self.me].pop_front();
        let Some((lane, packet, payload)) = next else {
            return false;
        };
        self.held = payload;
        *arrival = ReceivedPacket { packet, payload: self.held.as_ptr(), lane };
        true
    }

    fn sender(&mut self, lane: usize, _source: u64) -> Option<PeerId> {
        (!self.net.borrow().dead[lane]).then_some(lane)
    }

    fn nid(&self, peer: Option<PeerId>) -> u32 {
        peer.unwrap_or(self.me) as u32
    }

    fn release(&mut self, _lane: usize) {}

    fn is_alive(&mut self, peer: PeerId) -> bool {
        !self.net.borrow().dead[peer]
    }

    fn forget(&mut self, _peer: PeerId) {}

    fn flush(&mut self) {}
}

/// An engine with one of everything.
pub struct TestNode {
    pub engine: Engine<TestWire>,
    pub memory: Pages,
    pub lac: u8,
    pub iova: u64,
    pub lni: usize,
    pub pte: usize,
    pub tx: usize,
    /// Memory and launch page of the transmit queue, and its next slot.
    pub ring: Arc<Pages>,
    pub launch: Arc<Pages>,
    pub slot: u64,
    pub events: Pages,
    /// Offset of the next event.
    pub read: usize,
}

pub fn pages(len: usize) -> Pages {
    Pages::anonymous(len).unwrap()
}

impl TestNode {
    /// Makes a node whose portal exposes its whole memory of `len` bytes to all initiators.
    pub fn new(net: &Rc<RefCell<Net>>, me: PeerId, len: usize) -> Self {
        let wire = TestWire { net: net.clone(), me, held: Vec::new() };
        let mut engine = Engine::new(wire);
        let memory = pages(len);
        let (lni, lac, iova) = add_lni(&mut engine, &memory, len);
        let events = pages(PAGE);
        let buffer = events.at(0, PAGE).expose_provenance();
        // SAFETY: the pages live as long as the engine, and nothing else uses them.
        let queue =
            unsafe { EventQueue::new(lni, None, buffer, PAGE, Arc::new(pages(PAGE)), || (0, 0)) };
        let eq = engine.eqs.insert(queue).unwrap() as u16;
        let (ring, launch) = (Arc::new(pages(PAGE)), Arc::new(pages(PAGE)));
        let policy = StatusPolicy::from_number(0).unwrap();
        let commands = CommandRing::new(ring.clone(), launch.clone(), SLOTS as u32, policy);
        let tx = TransmitQueue::new(commands, lni, 0, false, 0);
        let tx = engine.tx.insert(tx).unwrap();
        let mut pte = Pte::new(lni, eq, PteOptions::default());
        pte.state = C_PTLTE_ENABLED;
        let mut entry = TargetCmd::new();
        entry.set_op_put(true).set_op_get(true).set_lac(lac).set_start(iova).set_length(len as u64);
        pte.lists.get_mut(C_PTL_LIST_PRIORITY).unwrap().push(ListEntry::new(entry));
        let pte = engine.ptes.insert(pte).unwrap();
        engine.entries[0] = 1;
        let map = PortalMap { domain: 1, vnis: VniRange::single(VNI), pid: PID, index: 0, pte };
        engine.maps.insert(map).unwrap();
        Self {
            engine,
            memory,
            lac,
            iova,
            lni,
            pte,
            tx,
            ring,
            launch,
            slot: FIRST_SLOT,
            events,
            read: 64,
        }
    }

    pub fn issue(&mut self, command: &[u8]) {
        // A DMA atomic operation begins at an even slot. The slot before it is padding, two NOOPs.
        if command.len() > 64 && !self.slot.is_multiple_of(2) {
            self.write_slot(&[0; 64]);
        }
        for slot in command.chunks(64) {
            self.write_slot(slot);
        }
        self.launch.word(0).store(self.slot, Ordering::Release);
    }

    fn write_slot(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            self.ring
                .word(self.slot as usize * 64 + 8 * index)
                .store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        self.slot += 1;
        if self.slot == SLOTS {
            self.slot = FIRST_SLOT;
        }
    }

    /// Issues a get of `len` bytes from the start of the peer's memory to `at` in the own memory.
    pub fn get(&mut self, at: u64, len: u32) {
        self.dma(C_CMD_GET, at, len);
    }

    /// Issues a put of `len` bytes from `at` in the own memory to the start of the peer's.
    pub fn put_from(&mut self, at: u64, len: u32) {
        self.dma(C_CMD_PUT, at, len);
    }

    fn dma(&mut self, opcode: u32, at: u64, len: u32) {
        let mut command = FullDmaCmd::new();
        command
            .set_cmd_type(C_CMD_TYPE_DMA as u8)
            .set_cmd_size(1)
            .set_opcode(opcode as u8)
            .set_event_send_disable(true)
            .set_dfa(1 << 12 | u32::from(PID))
            .set_lac(self.lac)
            .set_local_addr(self.iova + at)
            .set_request_len(len)
            .set_eq(1);
        self.issue(command.bytes());
    }

    /// Issues a fetching SUM of the own first word to the peer's first. The result goes to the own
    /// second word.
    pub fn sum(&mut self) {
        let mut amo = DmaAmoCmd::new();
        amo.set_cmd_type(C_CMD_TYPE_DMA as u8)
            .set_cmd_size(2)
            .set_opcode(C_CMD_FETCHING_ATOMIC as u8)
            .set_event_send_disable(true)
            .set_dfa(1 << 12 | u32::from(PID))
            .set_lac(self.lac)
            .set_local_read_addr(self.iova)
            .set_write_lac(self.lac)
            .set_local_write_addr(self.iova + 8)
            .set_request_len(8)
            .set_eq(1)
            .set_atomic_op(C_AMO_OP_SUM as u8)
            .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
        let mut bytes = amo.bytes().to_vec();
        bytes.resize(128, 0);
        self.issue(&bytes);
    }

    pub fn word(&self, at: usize) -> u64 {
        self.memory.word(at).load(Ordering::Relaxed)
    }

    /// Writes a different number to every word.
    pub fn number_words(&self, len: usize) {
        for at in (0..len).step_by(8) {
            let value = at as u64 * 0x0101_0101 + 1;
            self.memory.word(at).store(value, Ordering::Relaxed);
        }
    }

    /// Type, return code and `tgt_error` of the next event.
    pub fn event(&mut self) -> Option<(u32, u32, bool)> {
        let byte = |at: usize| {
            let word = self.events.word(at & !7).load(Ordering::Acquire);
            word.to_le_bytes()[at % 8]
        };
        loop {
            let head = byte(self.read + 14);
            let len = 8 << (head & 3);
            if len == 8 {
                return None;
            }
            let at = self.read;
            self.read += len;
            let kind = u32::from(head >> 2);
            if kind != C_EVENT_NULL_EVENT {
                let mut record = [0; EventInitiatorShort::SIZE];
                for (index, value) in record.iter_mut().enumerate() {
                    *value = byte(at + index);
                }
                let error = EventInitiatorShort::from_bytes(record).tgt_error();
                return Some((kind, u32::from(byte(at + len - 1) & 0x3f), error));
            }
        }
    }
}

/// Makes an LNI with all of `memory` mapped. Returns its number, and the address of the memory.
pub fn add_lni(engine: &mut Engine<TestWire>, memory: &Pages, len: usize) -> (usize, u8, u64) {
    let mut lni = Lni::default();
    let profile = Profile { vni: VNI, tc: 0, tc_type: 0 };
    lni.hold(0, profile);
    let va = memory.at(0, len).expose_provenance();
    let (lac, iova) = lni.space.map(MemoryLocation::pinned(va), len, RW).unwrap();
    (engine.lnis.insert(lni).unwrap(), lac, iova)
}

/// Makes an initiator and a target with `len` bytes each, on a wire with room for `room` packets.
pub fn pair(len: usize, room: usize) -> (TestNode, TestNode, Rc<RefCell<Net>>) {
    let net = Rc::new(RefCell::new(Net { room, ..Net::default() }));
    let (initiator, target) = (TestNode::new(&net, 0, len), TestNode::new(&net, 1, len));
    target.number_words(len);
    (initiator, target, net)
}

/// Polls both until neither has anything to do.
pub fn settle(initiator: &mut TestNode, target: &mut TestNode) {
    while initiator.engine.poll() | target.engine.poll() {}
}
