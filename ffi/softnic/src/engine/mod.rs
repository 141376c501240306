//! The NIC itself: a state machine between command queues, memory, event queues and a [`Wire`].
//!
//! It does nothing by itself: each [`Engine::poll`] takes in what software and the wire have
//! brought, does a bounded amount of work, and returns. It never blocks.
//!
//! | file | concept |
//! |---|---|
//! | `ring` | command queue memory: doorbell, low-latency windows, status |
//! | `transmit` | transmit queues: initiator commands become packets |
//! | `commands` | initiator commands, decoded |
//! | `portal` | portals table entries, queues of target commands |
//! | `lists`, `list_commands` | list entries, unexpected headers; how software changes and searches lists |
//! | `matching`, `placement` | which list entry an operation meets, and where in it |
//! | `admission` | whether an operation is taken |
//! | `counter`, `triggers` | counting events, and what waits for them |
//! | `counter_commands` | the commands of trigger queues |
//! | `deliver` | incoming packets |
//! | `rendezvous` | what a rendezvous put leaves to be fetched |
//! | `get` | the data of gets, going out and coming in |
//! | `atomics`, `arithmetic` | atomic operations, and what they compute |
//! | `transactions` | operations that wait for their response |
//! | `events`, `event_queue` | event records, and the rings they are written to |
//! | `return_codes` | return codes by name |
//! | `telemetry` | counters of what went on |
//! | `memory` | address contexts, translation |
//! | `location` | where translated bytes are: memory of the CPU, or of a GPU |
//! | `packet` | what goes over the wire |

mod admission;
mod arithmetic;
mod atomics;
mod commands;
pub mod counter;
mod counter_commands;
mod deliver;
pub mod event_queue;
mod events;
mod get;
mod list_commands;
pub mod lists;
pub mod location;
mod matching;
pub mod memory;
pub mod packet;
mod placement;
pub mod portal;
mod rendezvous;
pub mod return_codes;
pub mod ring;
pub mod table;
pub mod telemetry;
pub mod transactions;
pub mod transmit;
pub mod triggers;

#[cfg(test)]
mod flow_tests;
#[cfg(test)]
mod location_tests;
#[cfg(test)]
mod rendezvous_tests;
#[cfg(test)]
mod test_node;

use std::collections::VecDeque;

use cxi_sys::*;

use deliver::Message;
use event_queue::EventQueue;
use get::Reply;
use location::Staging;
use memory::AddressSpace;
use packet::{Kind, Packet, Peer, Wire};
use portal::{PortalMap, Portals, Pte, TargetQueue};
use rendezvous::Fetcher;
use table::Table;
use telemetry::Telemetry;
use transactions::Transactions;
use transmit::{Surroundings, TransmitQueue};
use triggers::Counters;

/// A return code, `C_RC_*` (nic.md 7).
pub type ReturnCode = c_return_code;

/// Bits of a PID on this NIC (libcxi.md 2.2).
pub const PID_BITS: u32 = 9;

/// Communication profiles of one LNI.
pub const PROFILES: usize = C_COMM_PROF_PER_CQ as usize;

/// Packets handled in one poll before command queues get their turn again.
const RECEIVE_BURST: usize = 64;

/// Packets that found no room, tried again in one poll.
const RETRY_BURST: usize = 16;

/// More packets than any wire holds for us. So what a NIC sent before it died is among the next as many; and who
/// takes in so many comes to an end, however fast others send.
const MOST_PACKETS: usize = 8192;

/// A communication profile, shared by those who asked for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub vni: u16,
    pub tc: u32,
    pub tc_type: u32,
    pub users: usize,
}

/// A logical network interface: what one client owns.
#[derive(Default)]
pub struct Lni {
    /// Its service.
    pub service: u32,
    /// List entries and triggered operations that the service allows it.
    pub most_entries: usize,
    pub most_pending: usize,
    /// PIDs kept for it.
    pub reservations: Vec<Reservation>,
    pub profiles: [Option<Profile>; PROFILES],
    pub space: AddressSpace,
    pub wait_objects: usize,
}

impl Lni {
    /// The VNI behind an LCID.
    #[inline]
    fn profile(&self, lcid: u8) -> Option<u16> {
        Some(self.profiles.get(usize::from(lcid))?.as_ref()?.vni)
    }
}

/// A PID on a VNI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    pub lni: usize,
    pub vni: u16,
    pub pid: u16,
}

/// PIDs in a row that an LNI keeps, some of which it has domains on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub vni: u16,
    pub first: u16,
    pub count: u16,
}

impl Reservation {
    pub fn holds(&self, vni: u16, pid: u16) -> bool {
        self.vni == vni && pid >= self.first && pid - self.first < self.count
    }
}

/// Memory mapped for the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md {
    pub lni: usize,
    pub lac: u8,
    pub iova: u64,
    pub va: usize,
    pub len: usize,
    pub flags: u32,
}

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
    pub counters: Counters,
    /// List entries in use, unexpected headers among them.
    pub entries: usize,
    /// Event queues that somebody may sleep on.
    pub waited_for: usize,
    /// What command queues and event queues that are gone have counted.
    pub retired: Telemetry,
    /// The NIC makes the gets of rendezvous puts by itself (nic.md 10.3).
    pub rendezvous_gets: bool,
    pub transactions: Transactions,
    messages: Vec<Message>,
    /// Packets without payload outside their header that found no room. Bounded: at most one for
    /// each transaction of every NIC that sends to us, and one for each of our own. So incoming
    /// packets are always taken, and two NICs that put at each other never wait for each other.
    waiting: VecDeque<(Peer, Packet)>,
    replies: VecDeque<Reply>,
    staging: Staging,
}

impl<W: Wire> Engine<W> {
    /// A NIC without any object. The limits are those of libcxi.md 11; numbers are private to
    /// this open device, where hardware has one pool for all its users.
    pub fn new(wire: W) -> Self {
        Self {
            wire,
            lnis: Table::new(1, C_NUM_RGIDS as usize),
            domains: Table::new(1, usize::MAX),
            mds: Table::new(1, usize::MAX),
            eqs: Table::new(1, C_NUM_EQS as usize),
            tx: Table::new(0, C_NUM_TRANSMIT_CQS as usize),
            tgt: Table::new(0, C_NUM_TARGET_CQS as usize),
            ptes: Table::new(1, C_NUM_PTLTES as usize),
            maps: Table::new(0, 2560),
            counters: Counters::new(),
            entries: 0,
            waited_for: 0,
            retired: Telemetry::default(),
            rendezvous_gets: true,
            transactions: Transactions::default(),
            messages: Vec::new(),
            waiting: VecDeque::new(),
            replies: VecDeque::new(),
            staging: Staging::new(),
        }
    }

    /// Does what there is to do, up to a bound. True if there was anything.
    #[inline]
    pub fn poll(&mut self) -> bool {
        let mut worked = self.retry();
        worked |= self.send_replies();
        worked |= self.counters.notice(&mut self.eqs);
        let mut nic = Surroundings {
            wire: &mut self.wire,
            lnis: &self.lnis,
            eqs: &mut self.eqs,
            transactions: &mut self.transactions,
            waiting: &mut self.waiting,
            counters: &mut self.counters,
            staging: &mut self.staging,
        };
        for number in 0..self.tx.len() {
            if let Some(queue) = self.tx.get_mut(number) {
                worked |= queue.run(number, &mut nic);
            }
        }
        let mut portals = Portals {
            ptes: &mut self.ptes,
            eqs: &mut self.eqs,
            entries: &mut self.entries,
            fetcher: Fetcher {
                wire: &mut self.wire,
                transactions: &mut self.transactions,
                counters: &mut self.counters,
                waiting: &mut self.waiting,
                enabled: self.rendezvous_gets,
            },
        };
        for number in 0..self.tgt.len() {
            if let Some(queue) = self.tgt.get_mut(number) {
                worked |= queue.run(number, &mut portals);
            }
        }
        for _ in 0..RECEIVE_BURST {
            if !self.receive() {
                break;
            }
            worked = true;
        }
        if worked {
            self.wire.flush();
        }
        worked |= self.wire.is_about_to_receive();
        if self.waited_for > 0 {
            self.eqs.values_mut().for_each(EventQueue::tell);
        }
        worked
    }

    /// Sends what found no room before.
    #[inline]
    fn retry(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..self.waiting.len().min(RETRY_BURST) {
            let Some((peer, packet)) = self.waiting.pop_front() else {
                break;
            };
            // SAFETY: packets that wait have no payload outside their header.
            let sent = unsafe { self.wire.send(peer, &packet, std::ptr::null()) };
            if sent {
                worked = true;
            } else {
                self.waiting.push_back((peer, packet));
            }
        }
        worked
    }

    /// Whether something is under way that the death of another NIC would leave unfinished.
    pub fn depends_on_others(&self) -> bool {
        self.transactions.any()
            || !self.messages.is_empty()
            || !self.waiting.is_empty()
            || !self.replies.is_empty()
    }

    /// Finds NICs that died on us. To be called about every 100 ms: it asks only about those whose
    /// transactions have not moved since the last call, so that traffic that flows costs nothing.
    pub fn probe(&mut self) {
        let mut suspects: Vec<Peer> = self.messages.iter().map(|message| message.peer).collect();
        suspects.extend(self.waiting.iter().map(|(peer, _)| *peer));
        suspects.extend(self.replies.iter().map(|reply| reply.peer));
        for (_, transaction) in self.transactions.iter_mut() {
            if transaction.probed {
                suspects.push(transaction.peer);
            }
            transaction.probed = true;
        }
        suspects.sort_unstable();
        suspects.dedup();
        suspects.retain(|peer| !self.wire.is_alive(*peer));
        if suspects.is_empty() {
            return;
        }
        // It may have answered before it went, and nobody has looked since.
        self.take_in();
        for peer in suspects {
            self.bury(peer);
        }
        self.wire.flush();
    }

    /// Does all that there is to do by now, and perhaps a little more.
    pub fn settle(&mut self) {
        for _ in 0..MOST_PACKETS / RECEIVE_BURST {
            if !self.poll() {
                break;
            }
        }
    }

    /// Handles all packets that have come in by now, and perhaps a few more.
    fn take_in(&mut self) {
        for _ in 0..MOST_PACKETS {
            if !self.receive() {
                break;
            }
        }
        self.wire.flush();
    }

    /// Ends everything that waits for a NIC that is gone. Hardware would try for about 30 s first
    /// (libcxi.md 12.3); we give its answer, not its wait.
    fn bury(&mut self, peer: Peer) {
        self.waiting.retain(|(to, _)| *to != peer);
        self.replies.retain(|reply| reply.peer != peer);
        self.give_up_messages(peer);
        for queue in self.tx.values_mut() {
            if queue
                .transfer
                .as_ref()
                .is_some_and(|transfer| transfer.peer == peer)
            {
                queue.transfer = None;
            }
        }
        let lost: Vec<u32> = self
            .transactions
            .iter_mut()
            .filter(|(_, t)| t.peer == peer)
            .map(|(tag, _)| tag)
            .collect();
        for tag in lost {
            self.undeliverable(tag);
        }
        self.wire.forget(peer);
    }

    fn undeliverable(&mut self, tag: u32) {
        let Some(transaction) = self.transactions.get_mut(tag) else {
            return;
        };
        transaction.local_error = Some(C_RC_UNDELIVERABLE);
        self.complete(&Packet {
            kind: Kind::Response,
            tag,
            ..Packet::default()
        });
    }

    /// Takes an LNI out, which owns nothing any more. Data that still comes back for it must not
    /// find the next one with its number.
    pub fn remove_lni(&mut self, number: usize) {
        self.lnis.remove(number);
        for (_, transaction) in self.transactions.iter_mut() {
            if transaction.destination.is_some_and(|to| to.lni == number) {
                transaction.destination = None;
            }
        }
    }

    /// Takes a transmit queue out. What was sent still completes; one half sent is given up.
    pub fn remove_transmit_queue(&mut self, number: usize) {
        let Some(queue) = self.tx.remove(number) else {
            return;
        };
        self.retired.add_transmit(&queue.ring.counts);
        self.counters.forget_queue(number);
        if let Some(transfer) = queue.transfer {
            transfer.abort(None, &mut self.transactions, &mut self.waiting);
        }
        for (_, transaction) in self.transactions.iter_mut() {
            if transaction.queue == Some(number) {
                transaction.queue = None;
            }
        }
    }

    /// Takes an event queue out. What is under way reports to nobody then.
    pub fn remove_event_queue(&mut self, number: usize) {
        if let Some(queue) = self.eqs.remove(number) {
            self.retired.add_events(&queue.counts);
            self.waited_for -= usize::from(queue.is_waited_for());
        }
        self.counters.forget_event_queue(number);
        for (_, transaction) in self.transactions.iter_mut() {
            if usize::from(transaction.eq) == number {
                transaction.eq = 0;
            }
        }
    }

    /// Takes a target queue out.
    pub fn remove_target_queue(&mut self, number: usize) {
        if let Some(queue) = self.tgt.remove(number) {
            self.retired.add_target(&queue.ring.counts);
        }
    }

    /// What has been counted since the device was opened, but for what the wire counts.
    pub fn telemetry(&self) -> Telemetry {
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
        sum
    }

    /// Takes a counter out. What is under way is not counted any more then, and what waits for it is
    /// cancelled (libcxi.md 8.4).
    pub fn remove_counter(&mut self, number: usize) {
        self.counters.remove(number, &mut self.eqs);
        for (_, transaction) in self.transactions.iter_mut() {
            if usize::from(transaction.counting.ct) == number {
                transaction.counting.ct = 0;
            }
        }
    }

    /// Takes a portals table entry out, with all on its lists (nic.md 8.1).
    pub fn remove_pte(&mut self, number: usize) {
        if let Some(pte) = self.ptes.remove(number) {
            self.entries -= pte.lists.len();
        }
        self.cancel_messages(|landing| landing.pte == number);
        // What is being fetched goes nowhere any more.
        for (_, transaction) in self.transactions.iter_mut() {
            if transaction.rendezvous == Some(number) {
                transaction.destination = None;
                transaction.local_error = Some(C_RC_MST_CANCELLED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::packet::Arrival;
    use super::transactions::Transaction;
    use super::*;
    use crate::pages::Pages;

    /// A wire with one other NIC on it, which is dead.
    #[derive(Default)]
    struct DeadEnd {
        inbox: VecDeque<Packet>,
    }

    impl Wire for DeadEnd {
        fn resolve(&mut self, _: u32, _: u16, _: u16) -> Result<Peer, ReturnCode> {
            Ok(0)
        }
        unsafe fn send(&mut self, _: Peer, _: &Packet, _: *const u8) -> bool {
            false
        }
        fn receive(&mut self) -> Option<Arrival> {
            let packet = self.inbox.pop_front()?;
            let (payload, lane) = (std::ptr::null(), 0);
            Some(Arrival {
                packet,
                payload,
                lane,
            })
        }
        fn sender(&mut self, _: usize, _: u64) -> Option<Peer> {
            Some(0)
        }
        fn nid(&self, _: Option<Peer>) -> u32 {
            0
        }
        fn release(&mut self, _: usize) {}
        fn is_alive(&mut self, _: Peer) -> bool {
            false
        }
        fn forget(&mut self, _: Peer) {}
        fn flush(&mut self) {}
    }

    #[test]
    fn a_dead_nic_leaves_what_it_answered_and_fails_the_rest() {
        let mut engine = Engine::new(DeadEnd::default());
        let (memory, software) = (Pages::anonymous(4096), Pages::anonymous(4096));
        let (memory, software) = (memory.unwrap(), Arc::new(software.unwrap()));
        let buffer = memory.at(0, 4096).expose_provenance();
        // SAFETY: `memory` lives as long as the queue and is used for nothing else.
        let queue = unsafe { EventQueue::new(0, None, buffer, 4096, software) };
        let eq = engine.eqs.insert(queue).unwrap() as u16;
        let [answered, open] = [1, 2].map(|user_ptr| {
            engine.transactions.start(Transaction {
                peer: 0,
                queue: None,
                eq,
                user_ptr,
                event: C_EVENT_ACK,
                length: 8,
                destination: None,
                rendezvous: None,
                success_disable: false,
                counting: counter::Counting::default(),
                local_error: None,
                probed: false,
            })
        });
        engine.probe();
        assert!(engine.depends_on_others(), "the first look only marks");
        engine.wire.inbox.push_back(Packet {
            kind: Kind::Response,
            tag: answered,
            return_code: C_RC_OK as u8,
            ..Packet::default()
        });
        engine.probe();
        assert!(!engine.depends_on_others());
        assert!(engine.transactions.get_mut(open).is_none());
        // User pointer and return code of each event.
        let event = |at: usize| {
            let word = |offset| {
                memory
                    .word(at + offset)
                    .load(std::sync::atomic::Ordering::Relaxed)
            };
            (word(0), (word(8) >> 56) as u32)
        };
        assert_eq!(
            [event(64), event(80)],
            [(1, C_RC_OK), (2, C_RC_UNDELIVERABLE)]
        );
    }
}
