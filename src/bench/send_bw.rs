//! `send-bw`: two-sided message bandwidth, eager or rendezvous, in one direction or both.
//!
//! An iteration (tools.md 7.7): a list of messages goes out and is acknowledged by the peer's NIC;
//! the peer's software answers the whole list with one empty message. In both directions at a time,
//! each side sends its list, receives the peer's, answers it, and waits for the answer to its own.
//!
//! What arrives is counted by the NIC. Rendezvous messages raise three events each, whatever the
//! entry asks for; these are read, since one may leave the get to software.

use cxi::records::{FullDmaCmd, IdcHdr};
use cxi::{
    EmitError, Event, EventType, IDC_MAX_UNRESTRICTED, MemoryRegion, PortalTableEntry, Record,
    ReturnCode, TransmitBatch,
};

use super::api::{Bandwidth, Iterations, ListMeasurement, Peer, Step};
use super::common::memory::{self, PERIOD, map, numbered, refused};
use super::common::rendezvous::{self, Fetcher, Source};
use super::common::{
    Direction, Endpoint, Entry, IdcContext, Initiator, PORTAL_INDEX, Portals, Reports, Tally,
    portals,
};
use crate::advice;
use crate::error::Failure;
use crate::plan::{RunOptions, Side};
use crate::run::{Clock, Patience};

/// Most slots of a transmit queue that one message takes.
const SLOTS_PER_MESSAGE: u32 = 4;

/// Slots beside those of a list: the answer, and those that the NIC leaves unused (defect T6 of
/// tools.md).
const FURTHER_SLOTS: u32 = 1 + 5;

/// Events of one rendezvous message at its target: PUT, RENDEZVOUS, REPLY.
const EVENTS_PER_MESSAGE: u64 = 3;

/// What one rendezvous message adds to the target's counter: PUT and REPLY.
const COUNTS_PER_MESSAGE: u64 = 2;

/// Length of the buffer of a side that only answers, or is only answered, in bytes.
const UNUSED_BUFFER: u64 = 1;

/// The benchmark.
pub struct SendBw;

/// What each side holds.
pub struct Resources {
    part: Part,
    initiator: Initiator,
    acknowledged: Tally,
    receiver: Receiver,
    arrived: Tally,
    rendezvous: Option<Rendezvous>,
    progress: Progress,
    /// Messages and answers are made from these.
    message: FullDmaCmd,
    answer: FullDmaCmd,
}

/// What a side does in an iteration.
#[derive(Clone, Copy)]
struct Part {
    sends: bool,
    receives: bool,
}

struct Receiver {
    portals: Portals,
    portal: PortalTableEntry,
    buffer: MemoryRegion,
}

struct Rendezvous {
    source: Source,
    fetched: Tally,
    fetcher: Fetcher,
}

impl Bandwidth for SendBw {
    type Resources = Resources;

    fn resources(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
        side: Side,
    ) -> Result<Resources, Failure> {
        let lists = run.lists()?;
        let part = Part {
            sends: lists.bidirectional || side == Side::Client,
            receives: lists.bidirectional || side == Side::Server,
        };
        let list_size = u32::from(lists.list_size);
        let length = |is_used| match is_used {
            true => lists.buffer(run.max_size),
            false => UNUSED_BUFFER,
        };
        let mut initiator = Initiator::with_queues(
            endpoint,
            peer.address,
            length(part.sends),
            SLOTS_PER_MESSAGE * list_size + FURTHER_SLOTS,
            list_size + 1,
        )?;
        memory::fill_numbered(&initiator.buffer, peer.supervisor)?;
        let acknowledged = Tally::new(endpoint, &initiator, &initiator.events)?;
        acknowledged.keep_for(&mut initiator.transmit);

        // Messages of the peer's next list may arrive while this one's answer is waited for.
        let events_per_message = match (run.rdzv, lists.bidirectional) {
            (false, _) => 1,
            (true, false) => EVENTS_PER_MESSAGE as u32,
            (true, true) => 2 * EVENTS_PER_MESSAGE as u32,
        };
        let mut portals = Portals::new(endpoint, events_per_message * (list_size + 1))?;
        let arrived = Tally::new(endpoint, &initiator, &portals.events)?;
        let buffer = map(endpoint.lni(), length(part.receives))?;
        let mut portal = portals.open(endpoint, PORTAL_INDEX, true)?;
        let entry = Entry {
            put: true,
            get: false,
            matching: run
                .rdzv
                .then(|| rendezvous::messages_of(endpoint, peer.address)),
            reports: Reports::Counted(arrived.number()),
            relaxed: !run.rdzv,
            buffer_id: 0,
        };
        portals.append(&mut portal, &buffer, entry)?;
        let receiver = Receiver {
            portals,
            portal,
            buffer,
        };

        let rendezvous = if run.rdzv {
            let fetched = Tally::new(endpoint, &initiator, &initiator.events)?;
            let source = Source::new(
                endpoint,
                peer.address,
                side,
                &initiator.buffer,
                Reports::Counted(fetched.number()),
                list_size + 1,
            )?;
            let mut fetcher = Fetcher::new(
                endpoint,
                &initiator.profile,
                peer.address,
                &receiver.portals,
                &receiver.buffer,
                list_size + FURTHER_SLOTS,
            )?;
            fetcher.count(&arrived);
            Some(Rendezvous {
                source,
                fetched,
                fetcher,
            })
        } else {
            None
        };

        let counted = |mut command: FullDmaCmd| {
            command
                .set_event_success_disable(true)
                .set_event_ct_ack(true)
                .set_ct(acknowledged.number());
            command
        };
        let (message, mut answer) = if run.rdzv {
            let message = rendezvous::put(endpoint, &initiator, side, 0);
            (message, rendezvous::eager(message))
        } else {
            let message = initiator.full(Direction::Put, 0);
            (message, message)
        };
        answer.set_request_len(0);
        if run.use_idc {
            initiator.set_idc_context(IdcContext {
                restricted: false,
                fetching: false,
                silent: true,
                counter: Some(acknowledged.number()),
            })?;
        }
        Ok(Resources {
            part,
            message: counted(message),
            answer: counted(answer),
            initiator,
            acknowledged,
            receiver,
            arrived,
            rendezvous,
            progress: Progress::default(),
        })
    }

    fn measure<M: ListMeasurement>(
        resources: &mut Resources,
        run: &RunOptions,
        size: u64,
        measurement: M,
    ) -> Result<M::Output, Failure> {
        let walk = Walk::new(run, size)?;
        // Each size decides for itself.
        if run.use_idc && size <= IDC_MAX_UNRESTRICTED as u64 {
            let sending = Immediate {
                header: resources.initiator.idc_header(),
                payload: std::array::from_fn(|at| numbered(at as u64)),
                length: size as usize,
            };
            measurement.run(&mut Course::new(resources, sending, walk))
        } else {
            let mut message = resources.message;
            message.set_request_len(size as u32);
            let sending = Dma {
                local: resources.initiator.buffer.iova(0),
                message,
                answer: resources.answer,
            };
            measurement.run(&mut Course::new(resources, sending, walk))
        }
    }

    fn check(resources: &Resources, run: &RunOptions, size: u64) -> Result<(), Failure> {
        if !resources.part.receives {
            return Ok(());
        }
        let mut walk = Walk::new(run, size)?;
        // All places that a list goes to; a list that wraps comes back to them.
        for _ in 0..walk.list_size.min(walk.places) {
            let (buffer, offset) = (&resources.receiver.buffer, walk.next());
            memory::is_numbered(buffer, "the receiving buffer", offset, size)?;
        }
        // What the next size does not write is to be missed.
        resources.receiver.buffer.fill(0);
        Ok(())
    }

    fn close(resources: Resources) -> Result<(), Failure> {
        let Resources {
            initiator,
            acknowledged,
            receiver,
            arrived,
            rendezvous,
            ..
        } = resources;
        if let Some(rendezvous) = rendezvous {
            rendezvous.fetcher.close()?;
            rendezvous.source.close()?;
            rendezvous.fetched.close()?;
        }
        portals::close(receiver.portal)?;
        arrived.close()?;
        receiver.portals.close()?;
        receiver
            .buffer
            .close()
            .map_err(refused("release the receiving buffer"))?;
        initiator.close_with(Some(acknowledged))
    }
}

/// Where in the buffers the messages of a list go (tools.md 3.7).
#[derive(Clone, Copy)]
struct Walk {
    list_size: u64,
    /// Bytes from one place to the next.
    step: u64,
    /// Places before it starts over.
    places: u64,
    /// The next one.
    place: u64,
}

impl Walk {
    fn new(run: &RunOptions, size: u64) -> Result<Self, Failure> {
        let lists = run.lists()?;
        let step = lists.step(size);
        Ok(Self {
            list_size: lists.list_size.into(),
            step,
            // Offsets keep to the buffer as it was asked for, not as it was rounded up to pages. The
            // first place is used even if its spacing does not fit.
            places: (lists.buffer(run.max_size) / step).max(1),
            place: 0,
        })
    }

    /// The offset of the next message, in bytes.
    #[inline(always)]
    fn next(&mut self) -> u64 {
        let offset = self.place * self.step;
        self.place += 1;
        if self.place == self.places {
            self.place = 0;
        }
        offset
    }
}

/// A way to send.
trait Sending {
    /// Writes the command of a message at `offset` of both buffers.
    fn emit_message(&mut self, batch: &mut TransmitBatch<'_>, offset: u64)
    -> Result<(), EmitError>;

    /// Writes the command of an answer.
    fn emit_answer(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError>;
}

/// The payload travels in the command.
struct Immediate {
    header: IdcHdr,
    /// A period of the buffer's bytes, and the longest payload behind it.
    payload: [u8; PERIOD as usize + IDC_MAX_UNRESTRICTED],
    length: usize,
}

impl Sending for Immediate {
    #[inline(always)]
    fn emit_message(
        &mut self,
        batch: &mut TransmitBatch<'_>,
        offset: u64,
    ) -> Result<(), EmitError> {
        self.header.set_remote_offset(offset);
        let start = (offset % PERIOD) as usize;
        batch.emit_idc_put(&self.header, &self.payload[start..start + self.length])
    }

    #[inline(always)]
    fn emit_answer(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        self.header.set_remote_offset(0);
        batch.emit_idc_put(&self.header, &[])
    }
}

/// The NIC reads the payload: this side's, which sends it, or the peer's, which fetches it.
struct Dma {
    local: u64,
    message: FullDmaCmd,
    answer: FullDmaCmd,
}

impl Sending for Dma {
    #[inline(always)]
    fn emit_message(
        &mut self,
        batch: &mut TransmitBatch<'_>,
        offset: u64,
    ) -> Result<(), EmitError> {
        self.message
            .set_local_addr(self.local + offset)
            .set_remote_offset(offset);
        batch.emit_dma(&self.message)
    }

    #[inline(always)]
    fn emit_answer(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        batch.emit_dma(&self.answer)
    }
}

/// Where in an iteration a side is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Nothing has been sent.
    #[default]
    Start,
    /// The own list is out; waiting for the peer's list, and until the own one is fetched.
    Lists,
    /// Waiting for the peer's answer.
    Answer,
}

/// How far the iterations of a side have come. A size may end in the middle of one, which the
/// next size then completes.
#[derive(Default)]
struct Progress {
    state: State,
    /// TRIGGERED_OP of the target's counter, asked for and not yet seen.
    awaited: bool,
    /// TRIGGERED_OP of the source's counter, likewise.
    unfetched: bool,
    /// Events of rendezvous messages beyond those of complete lists.
    message_events: u64,
}

/// One side's part in the iterations of one size.
struct Course<'a, S> {
    resources: &'a mut Resources,
    sending: S,
    walk: Walk,
    lists_sent: u64,
}

impl<'a, S: Sending> Course<'a, S> {
    fn new(resources: &'a mut Resources, sending: S, walk: Walk) -> Self {
        Self {
            resources,
            sending,
            walk,
            lists_sent: 0,
        }
    }

    /// Sends the list, and waits until the peer's NIC has acknowledged it.
    fn send_list<C: Clock>(
        &mut self,
        clock: &C,
        patience: &mut Patience<'_>,
    ) -> Result<(), Failure> {
        let Resources {
            initiator,
            acknowledged,
            rendezvous,
            progress,
            ..
        } = &mut *self.resources;
        let list_size = self.walk.list_size;
        if let Some(rendezvous) = rendezvous {
            rendezvous.fetched.arm(list_size)?;
            progress.unfetched = true;
        }
        acknowledged.arm(list_size)?;
        self.walk.place = 0;
        let mut batch = initiator.transmit.batch();
        for _ in 0..list_size {
            self.sending
                .emit_message(&mut batch, self.walk.next())
                .map_err(not_issued)?;
        }
        batch.commit_doorbell();
        self.await_acknowledgement(clock, patience)?;
        self.lists_sent += 1;
        Ok(())
    }

    /// Answers the peer's list, likewise.
    fn send_answer<C: Clock>(
        &mut self,
        clock: &C,
        patience: &mut Patience<'_>,
    ) -> Result<(), Failure> {
        let Resources {
            initiator,
            acknowledged,
            ..
        } = &mut *self.resources;
        acknowledged.arm(1)?;
        let mut batch = initiator.transmit.batch();
        self.sending.emit_answer(&mut batch).map_err(not_issued)?;
        batch.commit_doorbell();
        self.await_acknowledgement(clock, patience)
    }

    fn await_acknowledgement<C: Clock>(
        &mut self,
        clock: &C,
        patience: &mut Patience<'_>,
    ) -> Result<(), Failure> {
        let Resources {
            initiator,
            acknowledged,
            progress,
            ..
        } = &mut *self.resources;
        let counter = acknowledged.number();
        loop {
            let poll = || {
                let event = initiator.events.poll()?;
                Some(triggered(&event))
            };
            let (event, _) = patience.wait(clock, "list of messages", poll)?;
            let seen = event?;
            initiator.events.acknowledge();
            if seen == counter {
                return Ok(());
            }
            // The other counter that reports here: that of the source.
            progress.unfetched = false;
        }
    }

    /// Takes what has happened at the target and at the source. True if there was anything.
    fn take_events(&mut self) -> Result<bool, Failure> {
        let Resources {
            initiator,
            receiver,
            rendezvous,
            progress,
            ..
        } = &mut *self.resources;
        let mut any = false;
        while let Some(event) = receiver.portals.events.poll() {
            any = true;
            let (kind, code, record) = (event.event_type(), event.return_code(), event.record());
            match (kind, code, record) {
                (EventType::TRIGGERED_OP, ReturnCode::OK, _) => progress.awaited = false,
                (EventType::PUT | EventType::REPLY, ReturnCode::OK, _) => {
                    progress.message_events += 1
                }
                (EventType::RENDEZVOUS, ReturnCode::OK, Record::TargetLong(announced)) => {
                    progress.message_events += 1;
                    if !announced.get_issued()
                        && let Some(rendezvous) = rendezvous
                    {
                        rendezvous.fetcher.fetch(&announced)?;
                    }
                }
                _ => {
                    let what = "receiving messages";
                    return Err(advice::unexpected(what, kind, EventType::PUT, code));
                }
            }
        }
        if any {
            receiver.portals.events.acknowledge();
        }
        if progress.unfetched
            && let Some(event) = initiator.events.poll()
        {
            triggered(&event)?;
            initiator.events.acknowledge();
            progress.unfetched = false;
            any = true;
        }
        Ok(any)
    }

    /// Whether the peer's list is here with all its data.
    fn list_is_here(&self) -> bool {
        if self.resources.rendezvous.is_some() {
            self.resources.progress.message_events >= EVENTS_PER_MESSAGE * self.walk.list_size
        } else {
            !self.resources.progress.awaited
        }
    }

    /// Begins to wait for the peer's list.
    fn expect_list(&mut self) -> Result<(), Failure> {
        let list_size = self.walk.list_size;
        if self.resources.rendezvous.is_some() {
            // Its events tell.
            self.resources.arrived.skip(COUNTS_PER_MESSAGE * list_size);
        } else {
            self.resources.arrived.arm(list_size)?;
            self.resources.progress.awaited = true;
        }
        Ok(())
    }
}

impl<S: Sending> Iterations for Course<'_, S> {
    fn step<C: Clock>(&mut self, clock: &C, patience: &mut Patience<'_>) -> Result<Step, Failure> {
        let part = self.resources.part;
        match self.resources.progress.state {
            State::Start => {
                if part.sends {
                    self.send_list(clock, patience)?;
                }
                if part.receives {
                    self.expect_list()?;
                }
                self.resources.progress.state = State::Lists;
                Ok(Step::Going)
            }
            State::Lists => {
                let any = self.take_events()?;
                if self.resources.progress.unfetched || part.receives && !self.list_is_here() {
                    return Ok(if any { Step::Going } else { Step::Waiting });
                }
                if part.receives {
                    if self.resources.rendezvous.is_some() {
                        self.resources.progress.message_events -=
                            EVENTS_PER_MESSAGE * self.walk.list_size;
                    }
                    self.send_answer(clock, patience)?;
                }
                if !part.sends {
                    self.resources.progress.state = State::Start;
                    return Ok(Step::Complete);
                }
                self.resources.arrived.arm(1)?;
                self.resources.progress.awaited = true;
                self.resources.progress.state = State::Answer;
                Ok(Step::Going)
            }
            State::Answer => {
                let any = self.take_events()?;
                if self.resources.progress.awaited {
                    return Ok(if any { Step::Going } else { Step::Waiting });
                }
                self.resources.progress.state = State::Start;
                Ok(Step::Complete)
            }
        }
    }

    fn lists_sent(&self) -> u64 {
        self.lists_sent
    }

    fn are_under_way(&mut self) -> Result<bool, Failure> {
        self.take_events()?;
        let progress = &self.resources.progress;
        Ok(progress.state != State::Start || progress.message_events > 0)
    }
}

/// The counter whose threshold an event reports as reached.
#[inline(always)]
fn triggered(event: &Event<'_>) -> Result<u16, Failure> {
    let (kind, code) = (event.event_type(), event.return_code());
    match (kind, code, event.record()) {
        (EventType::TRIGGERED_OP, ReturnCode::OK, Record::TriggeredShort(record)) => {
            Ok(record.ct_handle())
        }
        (EventType::TRIGGERED_OP, ReturnCode::OK, Record::TriggeredLong(record)) => {
            Ok(record.ct_handle())
        }
        _ => Err(unexpected(kind, code)),
    }
}

#[cold]
fn unexpected(kind: EventType, code: ReturnCode) -> Failure {
    advice::unexpected("sending messages", kind, EventType::TRIGGERED_OP, code)
}

#[cold]
fn not_issued(error: EmitError) -> Failure {
    Failure::nic(format!("cannot issue a message: {error}"))
}
