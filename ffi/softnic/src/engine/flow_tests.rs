//! Operations that something happens to on their way: engines on a wire whose room, deaths and
//! order of events are up to the test.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cxi_sys::records::{DmaAmoCmd, EventInitiatorShort, FullDmaCmd, TargetCmd};
use cxi_sys::*;

use super::event_queue::EventQueue;
use super::lists::Entry;
use super::packet::{Arrival, Packet, Peer, Wire};
use super::portal::{PortalMap, Pte, PteOptions};
use super::ring::{CommandRing, StatusPolicy};
use super::transmit::TransmitQueue;
use super::{Engine, Lni, Profile, ReturnCode};
use crate::pages::Pages;

mod counting;

const VNI: u16 = 1;
const PID: u16 = 5;
const PAGE: usize = 4096;
const RW: u32 = CXI_MAP_READ | CXI_MAP_WRITE;

/// What lies between the engines; each is known by its NID.
#[derive(Default)]
struct Net {
    inboxes: [VecDeque<(Peer, Packet, Vec<u8>)>; 2],
    /// Packets that an inbox holds.
    room: usize,
    dead: [bool; 2],
}

struct TestWire {
    net: Rc<RefCell<Net>>,
    me: Peer,
    /// Payload of the last arrival.
    held: Vec<u8>,
}

impl Wire for TestWire {
    fn resolve(&mut self, nid: u32, _vni: u16, _pid: u16) -> Result<Peer, ReturnCode> {
        Ok(nid as usize)
    }

    unsafe fn send(&mut self, to: Peer, packet: &Packet, payload: *const u8) -> bool {
        let mut net = self.net.borrow_mut();
        if net.inboxes[to].len() >= net.room {
            return false;
        }
        let mut bytes = vec![0; usize::from(packet.length)];
        if !packet.inline && !bytes.is_empty() {
            // SAFETY: the caller vouches for the payload.
            unsafe { payload.copy_to(bytes.as_mut_ptr(), bytes.len()) };
        }
        let packet = Packet::from_words(packet.to_words()).expect("a packet that exists");
        net.inboxes[to].push_back((self.me, packet, bytes));
        true
    }

    fn receive(&mut self) -> Option<Arrival> {
        let (lane, packet, payload) = self.net.borrow_mut().inboxes[self.me].pop_front()?;
        self.held = payload;
        Some(Arrival {
            packet,
            payload: self.held.as_ptr(),
            lane,
        })
    }

    fn sender(&mut self, lane: usize, _source: u64) -> Option<Peer> {
        (!self.net.borrow().dead[lane]).then_some(lane)
    }

    fn nid(&self, peer: Option<Peer>) -> u32 {
        peer.unwrap_or(self.me) as u32
    }

    fn release(&mut self, _lane: usize) {}

    fn is_alive(&mut self, peer: Peer) -> bool {
        !self.net.borrow().dead[peer]
    }

    fn forget(&mut self, _peer: Peer) {}

    fn flush(&mut self) {}
}

/// An engine with one of everything.
struct Node {
    engine: Engine<TestWire>,
    memory: Pages,
    lac: u8,
    iova: u64,
    lni: usize,
    pte: usize,
    tx: usize,
    /// Memory and launch page of the transmit queue, and its next slot.
    ring: Arc<Pages>,
    launch: Arc<Pages>,
    slot: u64,
    events: Pages,
    /// Where the next event is looked for.
    read: usize,
}

fn pages(len: usize) -> Pages {
    Pages::anonymous(len).unwrap()
}

impl Node {
    /// A node whose memory of `len` bytes is all that its portal offers, to everybody.
    fn new(net: &Rc<RefCell<Net>>, me: Peer, len: usize) -> Self {
        let wire = TestWire {
            net: net.clone(),
            me,
            held: Vec::new(),
        };
        let mut engine = Engine::new(wire);
        let memory = pages(len);
        let (lni, lac, iova) = add_lni(&mut engine, &memory, len);
        let events = pages(PAGE);
        let buffer = events.at(0, PAGE).expose_provenance();
        // SAFETY: the pages are kept as long as the engine.
        let queue = unsafe { EventQueue::new(lni, None, buffer, PAGE, Arc::new(pages(PAGE))) };
        let eq = engine.eqs.insert(queue).unwrap() as u16;
        let (ring, launch) = (Arc::new(pages(PAGE)), Arc::new(pages(PAGE)));
        let policy = StatusPolicy::from_number(0).unwrap();
        let commands = CommandRing::new(ring.clone(), launch.clone(), 64, policy);
        let tx = TransmitQueue::new(commands, lni, 0, false, 0);
        let tx = engine.tx.insert(tx).unwrap();
        let mut pte = Pte::new(lni, eq, PteOptions::default());
        pte.state = C_PTLTE_ENABLED;
        let mut entry = TargetCmd::new();
        entry
            .set_op_put(true)
            .set_op_get(true)
            .set_lac(lac)
            .set_start(iova)
            .set_length(len as u64);
        pte.lists
            .get_mut(C_PTL_LIST_PRIORITY)
            .unwrap()
            .push(Entry::new(entry));
        engine.entries = 1;
        let pte = engine.ptes.insert(pte).unwrap();
        let map = PortalMap {
            domain: 1,
            vni: VNI,
            pid: PID,
            index: 0,
            pte,
        };
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
            slot: 4,
            events,
            read: 64,
        }
    }

    fn issue(&mut self, command: &[u8]) {
        // A DMA atomic operation begins at an even slot.
        if command.len() > 64 && !self.slot.is_multiple_of(2) {
            self.slot += 1;
        }
        let (words, _) = command.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            self.ring
                .word(self.slot as usize * 64 + 8 * index)
                .store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        self.slot += command.len().div_ceil(64) as u64;
        self.launch.word(0).store(self.slot, Ordering::Release);
    }

    /// A get of `len` bytes from the beginning of the other's memory to `at` in ours.
    fn get(&mut self, at: u64, len: u32) {
        let mut get = FullDmaCmd::new();
        get.set_cmd_type(C_CMD_TYPE_DMA as u8)
            .set_cmd_size(1)
            .set_opcode(C_CMD_GET as u8)
            .set_event_send_disable(true)
            .set_dfa(1 << 12 | u32::from(PID))
            .set_lac(self.lac)
            .set_local_addr(self.iova + at)
            .set_request_len(len)
            .set_eq(1);
        self.issue(get.bytes());
    }

    /// A fetching SUM of our first word to the other's first; the result goes to our second.
    fn sum(&mut self) {
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

    fn word(&self, at: usize) -> u64 {
        self.memory.word(at).load(Ordering::Relaxed)
    }

    /// Writes a different number to every word.
    fn number_words(&self, len: usize) {
        for at in (0..len).step_by(8) {
            let value = at as u64 * 0x0101_0101 + 1;
            self.memory.word(at).store(value, Ordering::Relaxed);
        }
    }

    /// The next event: its type and return code, and whether the error was the target's.
    fn event(&mut self) -> Option<(u32, u32, bool)> {
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

/// An LNI with all of `memory` mapped: its number, and the address of the memory.
fn add_lni(engine: &mut Engine<TestWire>, memory: &Pages, len: usize) -> (usize, u8, u64) {
    let mut lni = Lni::default();
    lni.profiles[0] = Some(Profile {
        vni: VNI,
        tc: 0,
        tc_type: 0,
        users: 1,
    });
    let va = memory.at(0, len).expose_provenance();
    let (lac, iova) = lni.space.map(va, len, RW).unwrap();
    (engine.lnis.insert(lni).unwrap(), lac, iova)
}

/// An initiator and a target with `len` bytes each, on a wire with room for `room` packets.
fn pair(len: usize, room: usize) -> (Node, Node, Rc<RefCell<Net>>) {
    let net = Rc::new(RefCell::new(Net {
        room,
        ..Net::default()
    }));
    let (initiator, target) = (Node::new(&net, 0, len), Node::new(&net, 1, len));
    target.number_words(len);
    (initiator, target, net)
}

/// Lets both work until neither has anything to do.
fn settle(initiator: &mut Node, target: &mut Node) {
    while initiator.engine.poll() | target.engine.poll() {}
}

const LEN: usize = 16 * PAGE;
const REPLY_OK: Option<(u32, u32, bool)> = Some((C_EVENT_REPLY, C_RC_OK, false));
const GET_OK: Option<(u32, u32, bool)> = Some((C_EVENT_GET, C_RC_OK, false));

#[test]
fn replies_wait_for_room_and_lose_nothing() {
    for room in [1, 2, 3, 100] {
        let (mut initiator, mut target, _) = pair(LEN, room);
        let half = LEN as u32 / 2;
        initiator.get(0, half - 3);
        initiator.get(u64::from(half), half);
        settle(&mut initiator, &mut target);
        for _ in 0..2 {
            assert_eq!(initiator.event(), REPLY_OK);
            assert_eq!(target.event(), GET_OK);
        }
        assert_eq!((initiator.event(), target.event()), (None, None));
        let last = LEN / 2 - 8;
        for at in (0..LEN / 2).step_by(8) {
            let mask = if at == last { u64::MAX >> 24 } else { u64::MAX };
            assert_eq!(initiator.word(at), target.word(at) & mask);
            assert_eq!(initiator.word(LEN / 2 + at), target.word(at));
        }
        assert!(!initiator.engine.depends_on_others());
        assert!(!target.engine.depends_on_others());
    }
}

/// Lets a get of all the memory come half of its way: some packets are there, some not sent.
fn half_way() -> (Node, Node, Rc<RefCell<Net>>) {
    let (mut initiator, mut target, net) = pair(LEN, 4);
    initiator.get(0, LEN as u32);
    for _ in 0..3 {
        initiator.engine.poll();
        target.engine.poll();
    }
    assert_ne!(initiator.word(PAGE), 0);
    assert_eq!(initiator.word(LEN - 8), 0);
    assert_eq!((initiator.event(), target.event()), (None, None));
    (initiator, target, net)
}

#[test]
fn memory_that_the_initiator_unmaps_meanwhile() {
    let (mut initiator, mut target, _) = half_way();
    let (lni, lac, iova) = (initiator.lni, initiator.lac, initiator.iova);
    let lni = initiator.engine.lnis.get_mut(lni).unwrap();
    lni.space.unmap(lac, iova);
    settle(&mut initiator, &mut target);
    let code = C_RC_INVALID_AC; // it was the only mapping of its context
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, false)));
    assert_eq!(initiator.word(LEN - 8), 0);
    // The target has sent everything, and knows nothing of it.
    assert_eq!(target.event(), GET_OK);
}

#[test]
fn memory_that_the_target_unmaps_meanwhile() {
    let (mut initiator, mut target, _) = half_way();
    let (lni, lac, iova) = (target.lni, target.lac, target.iova);
    target
        .engine
        .lnis
        .get_mut(lni)
        .unwrap()
        .space
        .unmap(lac, iova);
    settle(&mut initiator, &mut target);
    let code = C_RC_INVALID_AC;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, true)));
    assert_eq!(target.event(), Some((C_EVENT_GET, code, false)));
}

#[test]
fn a_portal_that_goes_meanwhile() {
    let (mut initiator, mut target, _) = half_way();
    target.engine.remove_pte(target.pte);
    // Another one gets its number, and has nothing to do with it.
    let another = Pte::new(target.lni, 1, PteOptions::default());
    assert_eq!(target.engine.ptes.insert(another), Some(target.pte));
    settle(&mut initiator, &mut target);
    let code = C_RC_MST_CANCELLED;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, true)));
    assert_eq!(target.event(), None);
    assert!(!target.engine.depends_on_others());
}

/// The queue, the memory and the interface of a get go, and another one comes with the same numbers.
#[test]
fn data_that_comes_too_late_finds_nobody() {
    let (mut initiator, mut target, _) = half_way();
    initiator.engine.remove_transmit_queue(initiator.tx);
    let (number, lac, iova) = (initiator.lni, initiator.lac, initiator.iova);
    let lni = initiator.engine.lnis.get_mut(number).unwrap();
    lni.space.unmap(lac, iova);
    initiator.engine.remove_lni(number);
    let memory = pages(LEN);
    let again = add_lni(&mut initiator.engine, &memory, LEN);
    assert_eq!(again, (number, lac, iova));
    settle(&mut initiator, &mut target);
    for at in (0..LEN).step_by(8) {
        assert_eq!(memory.word(at).load(Ordering::Relaxed), 0);
    }
    assert!(!initiator.engine.depends_on_others());
}

#[test]
fn a_target_that_dies_meanwhile() {
    let (mut initiator, _target, net) = half_way();
    net.borrow_mut().dead[1] = true;
    // The first look finds everything new.
    initiator.engine.probe();
    initiator.engine.probe();
    let code = C_RC_UNDELIVERABLE;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, false)));
    // What it sent before is of no use any more.
    initiator.engine.poll();
    assert_eq!(initiator.event(), None);
    assert!(!initiator.engine.depends_on_others());
}

#[test]
fn an_initiator_that_dies_meanwhile() {
    let (_initiator, mut target, net) = half_way();
    net.borrow_mut().dead[0] = true;
    assert!(target.engine.depends_on_others());
    target.engine.probe();
    assert!(!target.engine.depends_on_others());
    assert!(!target.engine.poll());
    assert_eq!(target.event(), None);
}

/// The queue of a request that found no room yet goes: the operation ends, undone.
#[test]
fn a_request_that_was_never_sent() {
    let (mut initiator, mut target, net) = pair(PAGE, 0);
    initiator.get(0, 64);
    initiator.engine.poll();
    initiator.engine.remove_transmit_queue(initiator.tx);
    net.borrow_mut().room = 1;
    settle(&mut initiator, &mut target);
    let code = C_RC_SRC_ERROR;
    assert_eq!(initiator.event(), Some((C_EVENT_REPLY, code, true)));
    assert_eq!((initiator.word(0), target.event()), (0, None));
    assert!(!initiator.engine.depends_on_others());
}

/// An atomic operation is done once, even if its answer has to wait.
#[test]
fn answers_of_atomic_operations_wait_for_room() {
    let (mut initiator, mut target, net) = pair(PAGE, 1);
    initiator.memory.word(0).store(5, Ordering::Relaxed);
    initiator.sum();
    initiator.engine.poll();
    net.borrow_mut().room = 0;
    let before = target.word(0);
    for _ in 0..3 {
        target.engine.poll();
    }
    assert_eq!(target.word(0), before + 5);
    assert_eq!((initiator.word(8), initiator.event()), (0, None));
    net.borrow_mut().room = 1;
    settle(&mut initiator, &mut target);
    assert_eq!(initiator.event(), REPLY_OK);
    assert_eq!((initiator.word(8), target.word(0)), (before, before + 5));
}
