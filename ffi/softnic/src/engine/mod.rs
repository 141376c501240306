//! The NIC: a state machine between command queues, memory, event queues and a [`wire::Wire`].
//!
//! It runs only when called: each [`Engine::poll`] takes what software and the wire have brought,
//! does a bounded amount of work, and returns. It does no input or output: packets go through
//! [`wire::Wire`], wake-ups through [`event_queue::Interrupt`], the time of day comes from
//! [`event_queue::Clock`], memory of a GPU is accessed through [`crate::gpu::Gpu`], and memory
//! mapped on demand through [`crate::process_memory`].
//!
//! A file uses only files on floors below its own, or on its own floor without a circle:
//!
//! <!-- From tests/tidy/houses.rs: ffi/softnic/src/engine -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 10 | mod             polling, received packets, doorbells, failed peers, removal of objects    |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | admission       whether a received operation is accepted                                  |
//!    | received        received puts, gets and atomic operations, and how they end               |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | state           all objects of one open NIC, and operations in progress there             |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | remembered      the landing of the last put                                               |
//!    | target_queue    target queues, and what their commands do                                 |
//!    | transmit        transmit queues, and what their commands do                               |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | rendezvous      gets of rendezvous puts                                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | portal          portals table entries, and matching                                       |
//!    | triggers        triggered operations, and commands about counters                         |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | commands        the fields of commands                                                    |
//!    | events          the fields of events                                                      |
//!    | lni             LNIs                                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | memory          addresses as the NIC sees them                                            |
//!    | transactions    operations that wait for their response                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | event_queue     event queues                                                              |
//!    | lists           list entries, and the places of operations in them                        |
//!    | location        copies and atomic updates of memory of the CPU or of a GPU                |
//!    | ring            the NIC's side of a command queue                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | counter         counting events                                                           |
//!    | packet_counts   counts of packets                                                         |
//!    | telemetry       telemetry counters                                                        |
//!    | wire            packets, and the wire as the engine sees it                               |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | address         VNIs, addresses of portals table entries, match ids                       |
//!    | arithmetic      the arithmetic of atomic operations                                       |
//!    | return_codes    return codes, and the error flags that they set                           |
//!    | table           tables of objects by number                                               |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

mod address;
mod admission;
mod arithmetic;
mod commands;
pub mod counter;
pub mod event_queue;
mod events;
#[cfg(test)]
mod flow_tests;
mod lists;
mod lni;
pub mod location;
mod memory;
pub mod packet_counts;
pub mod portal;
pub mod received;
mod remembered;
mod rendezvous;
pub mod return_codes;
pub mod ring;
mod state;
mod table;
pub mod target_queue;
pub mod telemetry;
#[cfg(test)]
mod test_node;
mod transactions;
pub mod transmit;
pub mod triggers;
pub mod wire;

use cxi_sys::*;

pub use address::{PID_BITS, VniRange};
pub use arithmetic::Amo;
use counter::Counting;
use event_queue::EventQueue;
use lists::Landing;
pub use lni::{Domain, ELEMENTS, LNIS, LNIS_PER_RGID, Lni, Md, PROFILES, Profile, Reservation};
pub use memory::{Full, HUGE_SHIFT_AT};
use rendezvous::Fetcher;
pub use return_codes::ReturnCode;
use ring::CommandRing;
pub use state::Engine;
use target_queue::TargetParts;
use transmit::TransmitParts;
use wire::{Packet, PacketKind, PeerId, ReceivedPacket, Wire, send_header};

/// Packets handled in one poll before command queues get their turn again.
const RECEIVE_BURST: usize = 64;

/// Waiting packets tried again in one poll.
const RETRY_BURST: usize = 16;

/// More packets than any wire holds for one NIC. So the packets that a NIC sent before it was gone
/// are among the next `MOST_PACKETS`, and receiving that many ends however fast other NICs send.
const MOST_PACKETS: usize = 1 << 16;

impl<W: Wire> Engine<W> {
    /// Does a bounded amount of work. True if there was anything to do.
    #[inline]
    pub fn poll(&mut self) -> bool {
        let mut worked = self.retry();
        worked |= self.send_replies();
        if self.counters.poll_doorbells(&mut self.eqs) {
            self.commanded = true;
            worked = true;
        }
        worked |= self.run_transmit_queues();
        if self.run_target_queues() {
            worked = true;
            self.commanded = true;
            self.forget_landing();
        }
        let mut arrival = ReceivedPacket::new();
        for _ in 0..RECEIVE_BURST {
            if !self.receive(&mut arrival) {
                break;
            }
            worked = true;
        }
        if worked {
            self.wire.flush();
        }
        self.stamp();
        self.write_held_events();
        worked |= self.wire.is_about_to_receive();
        if self.interrupting > 0 {
            self.eqs.values_mut().for_each(EventQueue::signal_if_due);
        }
        worked
    }

    /// Executes commands to initiators. True if there were any.
    #[inline]
    fn run_transmit_queues(&mut self) -> bool {
        let mut nic = TransmitParts {
            wire: &mut self.wire,
            lnis: &self.lnis,
            eqs: &mut self.eqs,
            transactions: &mut self.transactions,
            waiting: &mut self.waiting,
            counters: &mut self.counters,
            staging: &mut self.staging,
        };
        let mut worked = false;
        for number in 0..self.tx.len() {
            if let Some(queue) = self.tx.get_mut(number) {
                let ran = queue.run(number, &mut nic);
                self.commanded |= ran;
                worked |= ran;
            }
        }
        worked
    }

    /// Executes commands to targets. True if there were any.
    #[inline]
    fn run_target_queues(&mut self) -> bool {
        let mut portals = TargetParts {
            ptes: &mut self.ptes,
            eqs: &mut self.eqs,
            entries: &mut self.entries,
            fetcher: Fetcher {
                wire: &mut self.wire,
                transactions: &mut self.transactions,
                counters: &mut self.counters,
                waiting: &mut self.waiting,
                lists: &mut self.lists,
                enabled: self.rendezvous_gets,
            },
        };
        let mut commanded = false;
        for number in 0..self.tgt.len() {
            if let Some(queue) = self.tgt.get_mut(number) {
                commanded |= queue.run(number, &mut portals);
            }
        }
        commanded
    }

    /// Writes TIMESTAMP events that are due.
    #[inline]
    pub fn stamp(&mut self) {
        if self.stamping > 0 {
            self.eqs.values_mut().for_each(EventQueue::stamp_if_due);
        }
    }

    /// Sends packets that had no room before.
    #[inline]
    fn retry(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..self.waiting.len().min(RETRY_BURST) {
            let Some((peer, packet)) = self.waiting.pop_front() else {
                break;
            };
            if send_header(&mut self.wire, peer, &packet) {
                worked = true;
            } else {
                self.waiting.push_back((peer, packet));
            }
        }
        worked
    }

    /// Whether any operation in progress depends on another NIC.
    pub fn depends_on_others(&self) -> bool {
        self.transactions.any()
            || !self.messages.is_empty()
            || !self.waiting.is_empty()
            || !self.replies.is_empty()
    }

    /// Finds NICs that are gone and fails their operations. To be called about every 100 ms. It
    /// checks only NICs with operations that were already in progress at the last call, so it costs
    /// nothing while operations complete.
    pub fn probe(&mut self) {
        let mut suspects: Vec<PeerId> = self.messages.iter().map(|message| message.peer).collect();
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
        // They may have answered before they were gone.
        self.receive_all();
        for peer in suspects {
            self.fail_peer(peer);
        }
        self.wire.flush();
        self.write_held_events();
    }

    /// Writes the events that queues have held since the last call. To be called when the engine
    /// has done its work for now.
    #[inline]
    pub fn write_held_events(&mut self) {
        if self.combining > 0 {
            self.eqs.values_mut().for_each(EventQueue::write_held);
        }
    }

    /// Does all work that there is when it is called, and perhaps some that arrives meanwhile.
    pub fn settle(&mut self) {
        for _ in 0..MOST_PACKETS / RECEIVE_BURST {
            if !self.poll() {
                break;
            }
        }
    }

    /// Handles all packets received before the call, and perhaps some that arrive meanwhile.
    fn receive_all(&mut self) {
        let mut arrival = ReceivedPacket::new();
        for _ in 0..MOST_PACKETS {
            if !self.receive(&mut arrival) {
                break;
            }
        }
        self.wire.flush();
    }

    /// Fails all operations that depend on a NIC that is gone. Hardware first retries for about 30
    /// s (libcxi.md 12.3).
    fn fail_peer(&mut self, peer: PeerId) {
        self.waiting.retain(|(to, _)| *to != peer);
        self.replies.retain(|reply| reply.peer != peer);
        self.drop_messages(peer);
        for queue in self.tx.values_mut() {
            if queue.transfer.as_ref().is_some_and(|transfer| transfer.peer == peer) {
                queue.transfer = None;
            }
        }
        let lost: Vec<u32> = self
            .transactions
            .iter_mut()
            .filter(|(_, transaction)| transaction.peer == peer)
            .map(|(tag, _)| tag)
            .collect();
        for tag in lost {
            self.fail_transaction(tag);
        }
        self.wire.forget(peer);
    }

    /// Completes a transaction with UNDELIVERABLE.
    fn fail_transaction(&mut self, tag: u32) {
        let Some(transaction) = self.transactions.get_mut(tag) else {
            return;
        };
        transaction.local_error = Some(C_RC_UNDELIVERABLE);
        self.complete(&Packet { kind: PacketKind::Response, tag, ..Packet::default() });
    }

    /// Removes an LNI that owns no objects, and frees the numbers of its former objects (libcxi.md
    /// 10). Replies for it that arrive later are not written to the
    /// next LNI with its number.
    pub fn remove_lni(&mut self, number: usize) {
        self.lnis.remove(number);
        self.eqs.free_retired(number);
        self.ptes.free_retired(number);
        self.tx.free_retired(number);
        self.tgt.free_retired(number);
        self.counters.free_retired(number);
        for (_, transaction) in self.transactions.iter_mut() {
            if transaction.destination.is_some_and(|to| to.lni == number) {
                transaction.destination = None;
            }
        }
    }

    /// Removes a transmit queue. Operations that were sent still complete; one that was sent in
    /// part is aborted.
    pub fn remove_transmit_queue(&mut self, number: usize) {
        let lni = self.tx.get(number).map_or(0, |queue| queue.lni);
        let Some(queue) = self.tx.retire(number, lni) else {
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

    /// Removes an event queue. Operations in progress have no event then.
    pub fn remove_event_queue(&mut self, number: usize) {
        let lni = self.eqs.get(number).map_or(0, |queue| queue.lni);
        if let Some(queue) = self.eqs.retire(number, lni) {
            self.retired.add_events(&queue.counts);
            self.interrupting -= usize::from(queue.has_event_interrupt());
            self.combining -= usize::from(queue.combines_events());
            self.stamping -= usize::from(queue.has_timestamps());
        }
        self.counters.forget_event_queue(number);
        for (_, transaction) in self.transactions.iter_mut() {
            if usize::from(transaction.eq) == number {
                transaction.eq = 0;
            }
        }
    }

    /// Removes a target queue.
    pub fn remove_target_queue(&mut self, number: usize) {
        let lni = self.tgt.get(number).map_or(0, |queue| queue.lni);
        if let Some(queue) = self.tgt.retire(number, lni) {
            self.retired.add_target(&queue.ring.counts);
        }
    }

    /// Removes a counter. Operations in progress are not counted then, and its triggered operations
    /// are cancelled (libcxi.md 8.4).
    pub fn remove_counter(&mut self, number: usize) {
        self.counters.remove(number, &mut self.eqs);
        for (_, transaction) in self.transactions.iter_mut() {
            if usize::from(transaction.counting.ct()) == number {
                transaction.counting = Counting::default();
            }
        }
    }

    /// Removes a portals table entry with all entries on its lists (nic.md 8.1).
    pub fn remove_pte(&mut self, number: usize) {
        let lni = self.ptes.get(number).map_or(0, |pte| pte.lni);
        if let Some(pte) = self.ptes.retire(number, lni) {
            self.entries[pte.element] -= pte.lists.len();
        }
        self.cancel_messages(|landing| landing.pte == number);
        // Data that is being fetched for it is not written.
        for (_, transaction) in self.transactions.iter_mut() {
            if transaction.rendezvous == Some(number) {
                transaction.destination = None;
                transaction.local_error = Some(C_RC_MST_CANCELLED);
            }
        }
    }

    /// Handles the next packet, which it puts into `arrival`; false if there is none.
    #[inline]
    pub fn receive(&mut self, arrival: &mut ReceivedPacket) -> bool {
        if !self.wire.receive(arrival) {
            return false;
        }
        match arrival.packet.kind {
            PacketKind::Response => self.complete(&arrival.packet),
            PacketKind::Put if self.put_like_last(arrival) => {}
            PacketKind::Put | PacketKind::Rendezvous => self.put(arrival),
            PacketKind::Get => self.get(arrival),
            PacketKind::Reply => self.reply(arrival),
            PacketKind::Atomic => self.atomic(arrival),
            PacketKind::Abort => self.abort(arrival),
        }
        self.wire.count_received(&arrival.packet);
        self.wire.release(arrival.lane);
        true
    }

    /// Drops the incomplete puts of a NIC that is gone. They have no event, like a message whose
    /// connection timed out; a header on the UNEXPECTED list records the failure.
    fn drop_messages(&mut self, peer: PeerId) {
        for message in std::mem::take(&mut self.messages) {
            if message.peer != peer {
                self.messages.push(message);
            } else if let Some(landing) = message.landing {
                self.mark_header(&message.header, &landing, C_RC_SRC_ERROR);
            }
        }
    }

    /// Ends received puts and gets in progress at list entries that are being removed, with
    /// MST_CANCELLED (nic.md 7).
    pub fn cancel_messages(&mut self, concerns: impl Fn(&Landing) -> bool) {
        for message in &mut self.messages {
            if message.landing.as_ref().is_some_and(&concerns) {
                message.landing = None;
                message.code = C_RC_MST_CANCELLED;
            }
        }
        for reply in std::mem::take(&mut self.replies) {
            if concerns(&reply.landing) {
                self.finish(reply.peer, &reply.request, None, C_RC_MST_CANCELLED);
            } else {
                self.replies.push_back(reply);
            }
        }
    }
}

/// The most polls for the commands that were rung before a store to a counter. Commands that wait
/// for something else do not hold the program up for longer.
const POLLS: usize = 1024;

impl<W: Wire> Engine<W> {
    /// Handles a store of `value` at byte `offset` of the doorbells of a counter, after the
    /// commands that were rung before it. False if the stored value is needed and not known.
    pub fn store_to_counter(&mut self, number: usize, offset: usize, value: Option<u64>) -> bool {
        let Some(value) = value else {
            return false;
        };
        for _ in 0..POLLS {
            let worked = self.poll();
            if !worked || !self.tx.values_mut().any(|queue| queue.ring.has_next()) {
                break;
            }
        }
        if let Some(change) = counter::change(offset, value) {
            self.counters.doorbells += 1;
            self.counters.change(number, change, &mut self.eqs);
            self.poll();
        }
        true
    }

    /// Whether there is work that waits for room: commands, packets or replies.
    pub fn is_blocked(&self) -> bool {
        let tx = self.tx.iter().map(|(_, queue)| &queue.ring);
        let tgt = self.tgt.iter().map(|(_, queue)| &queue.ring);
        !self.waiting.is_empty()
            || !self.replies.is_empty()
            || self.tx.iter().any(|(_, queue)| queue.transfer.is_some())
            || tx.chain(tgt).any(CommandRing::has_next)
    }

    /// Handles a store to the launch page of a transmit queue. False if the stored value is needed
    /// and not known.
    pub fn store_to_transmit_queue(
        &mut self,
        number: usize,
        offset: usize,
        value: Option<u64>,
    ) -> bool {
        let queue = self.tx.get_mut(number);
        queue.is_none_or(|queue| queue.ring.store(offset, value))
    }

    /// Handles a store to the launch page of a target queue. False if the stored value is needed
    /// and not known.
    pub fn store_to_target_queue(
        &mut self,
        number: usize,
        offset: usize,
        value: Option<u64>,
    ) -> bool {
        let queue = self.tgt.get_mut(number);
        queue.is_none_or(|queue| queue.ring.store(offset, value))
    }
}
