//! `send-bw`: two-sided message bandwidth, eager or rendezvous, in one direction or both.
//!
//! An iteration (tools.md 7.7): a list of messages goes out and is acknowledged by the peer's NIC;
//! the peer's software answers the whole list with one empty message. In a bidirectional run, each
//! side sends its list, receives the peer's, answers it, and waits for the answer to its own.
//!
//! The NIC counts arriving messages. ListRendezvous messages raise three events each, independent
//! of the list entry; the software reads them, since the NIC may leave a get to software.

use cxi::records::FullDmaCmd;
use cxi::{
    EmitError, EventRecord, EventType, IDC_MAX_UNRESTRICTED, MemoryRegion, PortalTableEntry,
    ReturnCode, TransmitBatch,
};

use super::api::{
    Bandwidth, Benchmark, BenchmarkTask, Issued, Lists, Part, Peer, RepeatLists, SizeOfRun, Step,
};
use super::common::lists::{FURTHER_SLOTS, ListInitiator, Words};
use super::common::memory::{self, map};
use super::common::rendezvous::{self, RendezvousPortal, SoftwareFetcher};
use super::common::{
    Direction, Entry, IdcContext, ImmediatePut, ListCommand, ListOffsets, Numbering, Portals,
    PostedList, Reports, ThresholdCounter, portals,
};
use facts::error::Failure;
use node::explain::{self, Explain};
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::depths::Row;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;
use plan::tools;

/// Events of one rendezvous message at its target: PUT, RENDEZVOUS, REPLY.
const EVENTS_PER_MESSAGE: u64 = 3;

/// Counts of one rendezvous message on the target's counter: PUT and REPLY.
const COUNTS_PER_MESSAGE: u64 = 2;

/// Length of the buffer of a side that only answers or only receives answers, in bytes.
const UNUSED_BUFFER: u64 = 1;

/// Names of the operations, for messages.
const WORDS: Words = Words { operation: "message", doing: "sending messages" };

/// The benchmark.
pub struct SendBandwidth;

/// The resources of each side.
pub struct ListResources {
    part: Part,
    sender: ListInitiator,
    receiver: ListReceiver,
    arrived: ThresholdCounter,
    rendezvous: Option<ListRendezvous>,
    progress: IterationProgress,
    /// Commands of messages and answers.
    message: FullDmaCmd,
    answer: FullDmaCmd,
}

struct ListReceiver {
    portals: Portals,
    portal: PortalTableEntry,
    /// The list of the portal, if other entries stand before the one that receives.
    list: Option<PostedList>,
    buffer: MemoryRegion,
}

struct ListRendezvous {
    source: RendezvousPortal,
    fetched: ThresholdCounter,
    fetcher: SoftwareFetcher,
}

impl ListReceiver {
    /// Posts the `buffer` at the portal of the pair; `arrived` counts its messages.
    fn new(
        peer: Peer<'_>,
        run: &RunOptions,
        mut portals: Portals,
        buffer: Buffer,
        arrived: &ThresholdCounter,
    ) -> Result<Self, Failure> {
        let buffer = map(peer.own, Use::Receive, buffer)?;
        let mut portal = portals.open(peer.own, peer.portal, true)?;
        let entry = Entry {
            matching: run.rdzv.then(|| rendezvous::messages_of(peer)),
            reports: Reports::Counted(arrived.number()),
            ..Entry::for_puts(run)
        };
        let list = portals.append_behind(&mut portal, &buffer, entry, run.extensions.posted)?;
        Ok(Self { portals, portal, list, buffer })
    }
}

impl ListRendezvous {
    fn new(
        (peer, side): (Peer<'_>, Side),
        sender: &ListInitiator,
        receiver: &ListReceiver,
        arrived: &ThresholdCounter,
        list_size: u32,
    ) -> Result<Self, Failure> {
        let fetched = ThresholdCounter::new(peer.own, &sender.initiator.events)?;
        let source = RendezvousPortal::new(
            peer,
            side,
            &sender.initiator.buffer,
            Reports::Counted(fetched.number()),
            list_size + 1,
        )?;
        let mut fetcher = SoftwareFetcher::new(
            peer,
            &sender.initiator.profile,
            &receiver.portals,
            &receiver.buffer,
            list_size + FURTHER_SLOTS,
        )?;
        fetcher.count(arrived);
        Ok(Self { source, fetched, fetcher })
    }
}

impl Benchmark for SendBandwidth {
    const TOOL: &'static Tool = &tools::SEND_BW;

    type Resources = ListResources;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.bandwidth::<Self>()
    }

    fn set_up(peer: Peer<'_>, run: &RunOptions, side: Side) -> Result<ListResources, Failure> {
        let lists = run.lists()?;
        let part = SendBandwidth::part(run, side);
        let list_size = u32::from(lists.list_size);
        let buffer = |is_used| {
            if is_used { Buffer::full(run) } else { Buffer::small(UNUSED_BUFFER) }
        };
        let own = buffer(part.issues());
        let mut sender = ListInitiator::new(peer, own, list_size, WORDS)?;
        Numbering::of(run, run.min_size).fill_all(&sender.initiator.buffer, peer.supervisor)?;

        // Messages of the peer's next list may arrive while this side waits for an answer.
        let events_per_message = match (run.rdzv, lists.bidirectional) {
            (false, _) => 1,
            (true, false) => EVENTS_PER_MESSAGE as u32,
            (true, true) => 2 * EVENTS_PER_MESSAGE as u32,
        };
        let portals = Portals::new(peer.own, events_per_message * (list_size + 1))?;
        let arrived = ThresholdCounter::new(peer.own, &portals.events)?;
        let buffer = buffer(part.is_target());
        let receiver = ListReceiver::new(peer, run, portals, buffer, &arrived)?;

        let rendezvous = if run.rdzv {
            Some(ListRendezvous::new((peer, side), &sender, &receiver, &arrived, list_size)?)
        } else {
            None
        };

        let counter = sender.counter();
        let counted = |mut command: FullDmaCmd| {
            command.set_event_success_disable(true).set_event_ct_ack(true).set_ct(counter);
            command
        };
        let message = if run.rdzv {
            rendezvous::put(peer.own, &sender.initiator, side, 0)
        } else {
            sender.initiator.full(Direction::Put, 0)
        };
        let mut answer = if run.rdzv { rendezvous::eager(message) } else { message };
        answer.set_request_len(0);
        if run.use_idc {
            sender.initiator.set_idc_context(IdcContext {
                restricted: false,
                fetching: false,
                silent: true,
                counter: Some(counter),
            })?;
        }
        Ok(ListResources {
            part,
            message: counted(message),
            answer: counted(answer),
            sender,
            receiver,
            arrived,
            rendezvous,
            progress: IterationProgress::default(),
        })
    }

    fn deepen(resources: &mut ListResources, _: &RunOptions, row: Row) -> Result<(), Failure> {
        let ListReceiver { portals, portal, list, buffer } = &mut resources.receiver;
        match (row.posted, list) {
            (Some(posted), Some(list)) => portals.deepen(portal, buffer, list, posted),
            _ => Ok(()),
        }
    }

    /// The lists of both sides grow together.
    fn reports_failure(run: &RunOptions) -> bool {
        run.extensions.depth().is_some()
    }

    fn fill(resources: &ListResources, size: SizeOfRun<'_>) -> Result<(), Failure> {
        if !resources.part.issues() {
            return Ok(());
        }
        let buffer = &resources.sender.initiator.buffer;
        ListOffsets::new(size.run, size.size)?.fill(buffer, size)
    }

    fn check(
        resources: &ListResources,
        size: SizeOfRun<'_>,
        issued: Issued,
    ) -> Result<u64, Failure> {
        // Both sides complete an iteration that either has begun.
        let is_begun = issued.own > 0 || issued.peer != Some(0);
        if !resources.part.is_target() || !is_begun {
            return Ok(0);
        }
        let buffer = &resources.receiver.buffer;
        let offsets = ListOffsets::new(size.run, size.size)?;
        let checked = offsets.check(buffer, "the receiving buffer", size)?;
        memory::clear(buffer, size.run)?;
        Ok(checked)
    }

    fn arrived(resources: &mut ListResources, run: &RunOptions) -> Result<Option<u64>, Failure> {
        let list_size = u64::from(run.lists()?.list_size);
        let received = resources.progress.lists_received * list_size;
        Ok(resources.part.is_target().then_some(received))
    }

    fn close(resources: ListResources) -> Result<(), Failure> {
        let ListResources { sender, receiver, arrived, rendezvous, .. } = resources;
        if let Some(rendezvous) = rendezvous {
            rendezvous.fetcher.close()?;
            rendezvous.source.close()?;
            rendezvous.fetched.close()?;
        }
        portals::close(receiver.portal)?;
        arrived.close()?;
        receiver.portals.close()?;
        receiver.buffer.close().explain("cannot release the receiving buffer")?;
        sender.close()
    }
}

impl Bandwidth for SendBandwidth {
    const ANSWERS: bool = true;

    fn measure<R: RepeatLists>(
        pairs: &mut [ListResources],
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let (offsets, numbering) = (ListOffsets::new(run, size)?, Numbering::of(run, size));
        // Each size uses the fastest command that fits it.
        if run.use_idc && size <= IDC_MAX_UNRESTRICTED as u64 {
            repeat.run(&mut messages(pairs, offsets, |resources| {
                ImmediatePut::new(&resources.sender.initiator, size, numbering)
            }))
        } else {
            repeat.run(&mut messages(pairs, offsets, |resources| {
                let mut message = resources.message;
                message.set_request_len(size as u32);
                Dma {
                    local: resources.sender.initiator.buffer.iova(0),
                    message,
                    answer: resources.answer,
                }
            }))
        }
    }
}

/// A command that sends a message.
trait ListSending: Send {
    /// Writes the command of a message at `offset` of both buffers.
    fn emit_message(&mut self, batch: &mut TransmitBatch<'_>, offset: u64)
    -> Result<(), EmitError>;

    /// Writes the command of an answer into `batch`.
    fn emit_answer(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError>;
}

impl ListSending for ImmediatePut {
    #[inline(always)]
    fn emit_message(
        &mut self,
        batch: &mut TransmitBatch<'_>,
        offset: u64,
    ) -> Result<(), EmitError> {
        self.emit(batch, offset)
    }

    #[inline(always)]
    fn emit_answer(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        self.emit_empty(batch)
    }
}

/// A send whose payload a NIC reads from the buffer: this side's, or with rendezvous the peer's.
struct Dma {
    local: u64,
    message: FullDmaCmd,
    answer: FullDmaCmd,
}

impl ListSending for Dma {
    #[inline(always)]
    fn emit_message(
        &mut self,
        batch: &mut TransmitBatch<'_>,
        offset: u64,
    ) -> Result<(), EmitError> {
        self.message.set_local_addr(self.local + offset).set_remote_offset(offset);
        batch.emit_dma(&self.message)
    }

    #[inline(always)]
    fn emit_answer(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        batch.emit_dma(&self.answer)
    }
}

/// The state of a side in an iteration.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum SideState {
    /// Nothing was sent yet.
    #[default]
    Start,
    /// The own list was issued; the side waits until the peer's NIC has acknowledged it.
    Issued,
    /// The own list was sent; the side waits for the peer's list, and until the own one is fetched.
    Lists,
    /// The answer to the peer's list was issued; the side waits until the peer's NIC has
    /// acknowledged it.
    Answered,
    /// The side waits for the peer's answer.
    Answer,
}

/// The progress of a side's iterations. A size may end in the middle of an iteration, which the
/// next size then completes.
#[derive(Default)]
struct IterationProgress {
    state: SideState,
    /// TRIGGERED_OP of the target's counter was requested and has not arrived.
    awaited: bool,
    /// TRIGGERED_OP of the source's counter was requested and has not arrived.
    unfetched: bool,
    /// Events of rendezvous messages whose lists are not complete.
    message_events: u64,
    /// Lists of the peer that have arrived.
    lists_received: u64,
}

/// One side's part in the iterations of one size.
struct Messages<'a, S> {
    resources: &'a mut ListResources,
    sending: S,
    offsets: ListOffsets,
    lists_sent: u64,
}

/// This side's part in the iterations of each pair.
fn messages<S: ListSending>(
    pairs: &mut [ListResources],
    offsets: ListOffsets,
    sending: impl Fn(&ListResources) -> S,
) -> Vec<Messages<'_, S>> {
    pairs
        .iter_mut()
        .map(|resources| {
            let sending = sending(resources);
            Messages::new(resources, sending, offsets)
        })
        .collect()
}

impl<'a, S: ListSending> Messages<'a, S> {
    fn new(resources: &'a mut ListResources, sending: S, offsets: ListOffsets) -> Self {
        Self { resources, sending, offsets, lists_sent: 0 }
    }

    fn issue_list(&mut self) -> Result<(), Failure> {
        let ListResources { sender, rendezvous, progress, .. } = &mut *self.resources;
        let list_size = self.offsets.list_size();
        if let Some(rendezvous) = rendezvous {
            rendezvous.fetched.arm(list_size)?;
            progress.unfetched = true;
        }
        let (offsets, sending) = (&mut self.offsets, &mut self.sending);
        offsets.restart();
        sender.issue(list_size, |batch| sending.emit_message(batch, offsets.next_offset()))
    }

    /// Issues the answer to the peer's list.
    fn issue_answer(&mut self) -> Result<(), Failure> {
        let sending = &mut self.sending;
        let sender = &mut self.resources.sender;
        sender.issue(1, |batch| sending.emit_answer(batch))
    }

    /// Polls once. Returns whether the peer's NIC has acknowledged what was issued last.
    fn is_acknowledged(&mut self) -> Result<bool, Failure> {
        let ListResources { sender, progress, .. } = &mut *self.resources;
        sender.poll(|| progress.unfetched = false)
    }

    /// Processes the events of the target and of the source. Returns whether there were any.
    fn take_events(&mut self) -> Result<bool, Failure> {
        let ListResources { sender, receiver, rendezvous, progress, .. } = &mut *self.resources;
        let mut any = false;
        while let Some(event) = receiver.portals.events.poll() {
            any = true;
            let (kind, code, record) = (event.event_type(), event.return_code(), event.record());
            match (kind, code, record) {
                (EventType::TRIGGERED_OP, ReturnCode::OK, _) => progress.awaited = false,
                (EventType::PUT | EventType::REPLY, ReturnCode::OK, _) => {
                    progress.message_events += 1
                }
                (EventType::RENDEZVOUS, ReturnCode::OK, EventRecord::TargetLong(announced)) => {
                    progress.message_events += 1;
                    if !announced.get_issued()
                        && let Some(rendezvous) = rendezvous
                    {
                        rendezvous.fetcher.fetch(&announced)?;
                    }
                }
                _ => {
                    let what = "receiving messages";
                    return Err(explain::unexpected(what, kind, EventType::PUT, code));
                }
            }
        }
        if any {
            receiver.portals.events.acknowledge();
        }
        if progress.unfetched && sender.take_other()? {
            progress.unfetched = false;
            any = true;
        }
        Ok(any)
    }

    /// Whether the peer's list has arrived with all its data.
    fn list_is_here(&self) -> bool {
        if self.resources.rendezvous.is_some() {
            self.resources.progress.message_events >= EVENTS_PER_MESSAGE * self.offsets.list_size()
        } else {
            !self.resources.progress.awaited
        }
    }

    /// Begins to wait for the peer's list.
    fn expect_list(&mut self) -> Result<(), Failure> {
        let list_size = self.offsets.list_size();
        if self.resources.rendezvous.is_some() {
            // Its events tell.
            self.resources.arrived.skip(COUNTS_PER_MESSAGE * list_size);
        } else {
            self.resources.arrived.arm(list_size)?;
            self.resources.progress.awaited = true;
        }
        Ok(())
    }

    /// Begins to wait for the peer's answer.
    fn expect_answer(&mut self) -> Result<(), Failure> {
        self.resources.arrived.arm(1)?;
        self.resources.progress.awaited = true;
        self.resources.progress.state = SideState::Answer;
        Ok(())
    }

    /// Takes events until the lists have arrived and are fetched, and answers the peer's.
    fn exchange_lists(&mut self) -> Result<Step, Failure> {
        let part = self.resources.part;
        let any = self.take_events()?;
        if self.resources.progress.unfetched || part.is_target() && !self.list_is_here() {
            return Ok(if any { Step::Going } else { Step::Waiting });
        }
        if part.is_target() {
            self.resources.progress.lists_received += 1;
            if self.resources.rendezvous.is_some() {
                self.resources.progress.message_events -=
                    EVENTS_PER_MESSAGE * self.offsets.list_size();
            }
            self.issue_answer()?;
            self.resources.progress.state = SideState::Answered;
            return Ok(Step::InFlight);
        }
        self.expect_answer()?;
        Ok(Step::Going)
    }
}

impl<S: ListSending> Lists for Messages<'_, S> {
    fn step(&mut self) -> Result<Step, Failure> {
        let part = self.resources.part;
        match self.resources.progress.state {
            SideState::Start if part.issues() => {
                self.issue_list()?;
                self.resources.progress.state = SideState::Issued;
                Ok(Step::InFlight)
            }
            SideState::Start => {
                self.expect_list()?;
                self.resources.progress.state = SideState::Lists;
                Ok(Step::Going)
            }
            SideState::Issued => {
                if !self.is_acknowledged()? {
                    return Ok(Step::InFlight);
                }
                self.lists_sent += 1;
                if part.is_target() {
                    self.expect_list()?;
                }
                self.resources.progress.state = SideState::Lists;
                Ok(Step::Going)
            }
            SideState::Lists => self.exchange_lists(),
            SideState::Answered => {
                if !self.is_acknowledged()? {
                    return Ok(Step::InFlight);
                }
                if !part.issues() {
                    self.resources.progress.state = SideState::Start;
                    return Ok(Step::Complete);
                }
                self.expect_answer()?;
                Ok(Step::Going)
            }
            SideState::Answer => {
                let any = self.take_events()?;
                if self.resources.progress.awaited {
                    return Ok(if any { Step::Going } else { Step::Waiting });
                }
                self.resources.progress.state = SideState::Start;
                Ok(Step::Complete)
            }
        }
    }

    fn issued(&self) -> u64 {
        self.lists_sent
    }

    fn are_under_way(&mut self) -> Result<bool, Failure> {
        // In the middle of an iteration, the report of this side's own list is for `step`.
        if self.resources.progress.state == SideState::Start {
            self.take_events()?;
        }
        let progress = &self.resources.progress;
        Ok(progress.state != SideState::Start || progress.message_events > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::bench::common::PORTAL_INDEX;
    use crate::bench::testing::{Alone, endpoint};
    use crate::endpoint::Endpoint;
    use plan::testing::plan;

    const SIZE: u64 = 64;

    /// When the time of a size is up, the peer may be in its next iteration. This side then begins
    /// it as well, and must see that its own list is complete.
    #[test]
    fn completes_rendezvous_iteration_that_peer_began() {
        let plan = plan("send-bw", &["-R", "-b", "-l", "4", "-s", "64"]);
        let [here, there] = [endpoint(&plan), endpoint(&plan)];
        let set_up = |own: &Endpoint, other: &Endpoint, side| {
            let peer = Peer {
                own,
                address: other.address().address,
                portal: PORTAL_INDEX,
                supervisor: &Alone,
            };
            SendBandwidth::set_up(peer, &plan.run, side).unwrap()
        };
        let mut client = set_up(&here, &there, Side::Client);
        let mut server = set_up(&there, &here, Side::Server);
        let with_server = WithServer { server: &mut server, run: &plan.run };
        SendBandwidth::measure(slice::from_mut(&mut client), &plan.run, SIZE, with_server).unwrap();
        SendBandwidth::close(client).unwrap();
        SendBandwidth::close(server).unwrap();
        here.close().unwrap();
        there.close().unwrap();
    }

    /// Gives the client's lists to the server's loop.
    struct WithServer<'a> {
        server: &'a mut ListResources,
        run: &'a RunOptions,
    }

    impl RepeatLists for WithServer<'_> {
        type Output = ();

        fn run(self, pairs: &mut [impl Lists]) -> Result<(), Failure> {
            let [client] = pairs else {
                panic!("one pair");
            };
            let server = slice::from_mut(self.server);
            SendBandwidth::measure(server, self.run, SIZE, CompleteBoth { client })
        }
    }

    /// Lets the server issue a list, and both sides complete the iteration.
    struct CompleteBoth<'a, L> {
        client: &'a mut L,
    }

    impl<L: Lists> RepeatLists for CompleteBoth<'_, L> {
        type Output = ();

        fn run(self, pairs: &mut [impl Lists]) -> Result<(), Failure> {
            let [server] = pairs else {
                panic!("one pair");
            };
            server.step()?;
            while !self.client.are_under_way()? {}
            for _ in 0..10_000 {
                // Asked again and again, so that events arrive between two steps.
                let is_client_busy = (0..100).try_fold(true, |_, _| self.client.are_under_way())?;
                let is_server_busy = server.are_under_way()?;
                if !is_client_busy && !is_server_busy {
                    return Ok(());
                }
                if is_client_busy {
                    self.client.step()?;
                }
                if is_server_busy {
                    server.step()?;
                }
            }
            panic!("the iteration is not complete");
        }
    }
}
