//! `send-lat`: two-sided message latency, eager or rendezvous.
//!
//! The client sends a message and waits for the server's message, which the server sends as soon as
//! its software has seen the client's. Both sides hold the same resources: an initiator, a receive
//! buffer with two portals, and for rendezvous a third portal, from which the peer fetches.
//!
//! The second portal receives the last message of a side whose time is up. Its list entry has
//! another buffer id, by which the receiver recognizes the last message (tools.md 7.3).

use cxi::records::{FullDmaCmd, IdcHdr, TargetCmd};
use cxi::{
    Event, EventQueue, EventRecord, EventType, IDC_MAX_UNRESTRICTED, MemoryRegion,
    PortalTableEntry, Prepared, ReturnCode, idc_put_words,
};

use super::api::{
    Benchmark, BenchmarkTask, Issued, MessageKind, Peer, RepeatRoundTrip, RoundTrip,
    RoundTripLatency, SizeOfRun,
};
use super::common::memory::{self, map};
use super::common::rendezvous::{self, RendezvousPortal, SoftwareFetcher};
use super::common::{
    Direction, Entry, IdcContext, Initiator, NotIssued, Numbering, PORTAL_INDEX, Portals,
    PostedList, Reports, UNRECEIVED, answer, portals,
};
use facts::error::{Context, Failure};
use facts::interrupt;
use measure::{Clock, WaitPolicy};
use node::explain::{self, Explain};
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::depths::Row;
use plan::extensions::Extensions;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;
use plan::tools;

/// Index of the portal for the last message of a side.
const LAST_INDEX: u32 = PORTAL_INDEX + 1;

/// Buffer ids of the list entries on both portals.
const ORDINARY: u16 = 0;
const LAST: u16 = 1;

/// Number of events that can be pending at a target. The smallest queue, one page, holds the events
/// of one message.
const EVENT_PAGE: u32 = 1;

/// Slots of the queue of gets; the library rounds up to a page.
const FETCH_SLOTS: u32 = 5;

/// While no message has arrived, one of this many polls checks the initiator's event queue: a
/// failed send raises an event there, and then no answer arrives.
const MISSES_PER_LOOK: u32 = 64;

/// The benchmark.
pub struct SendLatency;

/// The resources of each side.
pub struct MessageResources {
    initiator: Initiator,
    receiver: MessageReceiver,
    rendezvous: Option<MessageRendezvous>,
    /// The command of rendezvous puts, without what differs between them.
    template: FullDmaCmd,
    /// Messages that this side has sent and the peer does not receive.
    unreceived: u16,
}

struct MessageReceiver {
    portals: Portals,
    ordinary: PortalTableEntry,
    receiving: Receiving,
    last: PortalTableEntry,
    buffer: MemoryRegion,
}

/// How the ordinary portal receives.
enum Receiving {
    /// By one list entry, the last one of this list if others stand before it.
    Posted(Option<PostedList>),
    /// By this command, for each message that has arrived.
    Late(TargetCmd),
}

struct MessageRendezvous {
    source: RendezvousPortal,
    fetcher: SoftwareFetcher,
}

impl Benchmark for SendLatency {
    const TOOL: &'static Tool = &tools::SEND_LAT;

    type Resources = MessageResources;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.round_trip::<Self>()
    }

    fn set_up(peer: Peer<'_>, run: &RunOptions, side: Side) -> Result<MessageResources, Failure> {
        let initiator = Initiator::new(peer, Buffer::full(run))?;
        Numbering::of(run, run.min_size).fill_all(&initiator.buffer, peer.supervisor)?;
        let receiver = MessageReceiver::new(peer, run)?;
        let (rendezvous, template) = if run.rdzv {
            let (events, buffer) = (Reports::Events, &initiator.buffer);
            let source = RendezvousPortal::new(peer, side, buffer, events, EVENT_PAGE)?;
            let fetcher = SoftwareFetcher::new(
                peer,
                &initiator.profile,
                &receiver.portals,
                &receiver.buffer,
                FETCH_SLOTS,
            )?;
            let put = rendezvous::put(peer.own, &initiator, side, 0);
            (Some(MessageRendezvous { source, fetcher }), put)
        } else {
            (None, initiator.full(Direction::Put, 0))
        };
        let mut resources =
            MessageResources { initiator, receiver, rendezvous, template, unreceived: 0 };
        if run.use_idc {
            resources.set_context()?;
        }
        Ok(resources)
    }

    fn deepen(resources: &mut MessageResources, _: &RunOptions, row: Row) -> Result<(), Failure> {
        let MessageReceiver { portals, ordinary, receiving, buffer, .. } = &mut resources.receiver;
        if let (Some(posted), Receiving::Posted(Some(list))) = (row.posted, receiving) {
            portals.deepen(ordinary, buffer, list, posted)?;
        }
        row.unexpected.map_or(Ok(()), |depth| resources.send_unreceived(depth))
    }

    /// The lists of both sides grow together.
    fn reports_failure(run: &RunOptions) -> bool {
        run.extensions.depth().is_some()
    }

    fn fill(resources: &MessageResources, size: SizeOfRun<'_>) -> Result<(), Failure> {
        let SizeOfRun { run, size, supervisor } = size;
        Numbering::of(run, size).fill(&resources.initiator.buffer, size, supervisor)
    }

    fn check(resources: &MessageResources, size: SizeOfRun<'_>, _: Issued) -> Result<u64, Failure> {
        let SizeOfRun { run, size, supervisor } = size;
        let (numbering, buffer) = (Numbering::of(run, size), &resources.receiver.buffer);
        let checked = numbering.check(buffer, "the receiving buffer", [0], size, supervisor)?;
        memory::clear(buffer, run)?;
        Ok(checked)
    }

    fn close(resources: MessageResources) -> Result<(), Failure> {
        let MessageResources { initiator, receiver, rendezvous, .. } = resources;
        if let Some(MessageRendezvous { source, fetcher }) = rendezvous {
            fetcher.close()?;
            source.close()?;
        }
        receiver.close()?;
        initiator.close()
    }
}

impl RoundTripLatency for SendLatency {
    fn measure<R: RepeatRoundTrip>(
        resources: &mut MessageResources,
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        // The command is selected for each size (defect T5 of tools.md). Its size is part of the
        // type of the loop.
        if run.use_idc && size <= IDC_MAX_UNRESTRICTED as u64 {
            let put = Immediate {
                header: resources.initiator.idc_header(),
                payload: Numbering::of(run, size).bytes(size),
            };
            match idc_put_words(size as usize) {
                4 => eager::<4, _, R>(resources, put, run, repeat),
                8 => eager::<8, _, R>(resources, put, run, repeat),
                16 => eager::<16, _, R>(resources, put, run, repeat),
                _ => eager::<32, _, R>(resources, put, run, repeat),
            }
        } else {
            let mut command = resources.template;
            command.set_request_len(size as u32);
            if run.rdzv {
                launched(resources, DmaMessage::<true>(command), run.use_ll, repeat)
            } else {
                eager(resources, DmaMessage::<false>(command), run, repeat)
            }
        }
    }
}

/// Makes it part of the type whether messages arrive before their receives.
fn eager<const WORDS: usize, S: MessageSending<WORDS>, R: RepeatRoundTrip>(
    resources: &mut MessageResources,
    sending: S,
    run: &RunOptions,
    repeat: R,
) -> Result<R::Output, Failure> {
    match resources.receiver.receiving {
        Receiving::Late(receive) => {
            let sending = ReceivedLate { sending, receive };
            launched(resources, sending, run.use_ll, repeat)
        }
        Receiving::Posted(_) => launched(resources, sending, run.use_ll, repeat),
    }
}

/// Makes the launch part of the type: the loop does not branch on it.
fn launched<const WORDS: usize, S: MessageSending<WORDS>, R: RepeatRoundTrip>(
    resources: &mut MessageResources,
    sending: S,
    low_latency: bool,
    repeat: R,
) -> Result<R::Output, Failure> {
    let command = sending.prepare(&resources.initiator)?;
    if low_latency {
        repeat.run(&mut PingPong::<WORDS, S, true> { resources, sending, command })
    } else {
        repeat.run(&mut PingPong::<WORDS, S, false> { resources, sending, command })
    }
}

impl MessageResources {
    /// Issues the context of immediate data commands, with the current portal index. Their success
    /// raises no event: the answer of the peer shows it.
    fn set_context(&mut self) -> Result<(), Failure> {
        self.initiator.set_idc_context(IdcContext {
            restricted: false,
            fetching: false,
            silent: true,
            counter: None,
        })
    }

    /// Sends messages that the peer does not receive, until it has `depth` of them. Each is
    /// acknowledged when the peer's NIC has stored its header.
    fn send_unreceived(&mut self, depth: u16) -> Result<(), Failure> {
        let initiator = &mut self.initiator;
        initiator.aim(PORTAL_INDEX);
        let mut message = initiator.full(Direction::Put, 0);
        message.set_match_bits(UNRECEIVED);
        let message = initiator.transmit.prepare_dma(&message).nic(NOT_ISSUED)?;
        for number in self.unreceived..depth {
            interrupt::check()?;
            initiator.transmit.issue_doorbell(&message).nic(NOT_ISSUED)?;
            let poll = || initiator.events.poll().map(|event| arrived(&event, EventType::ACK));
            let acknowledged =
                answer("sending an unexpected message", poll).and_then(|result| result);
            initiator.events.acknowledge();
            acknowledged.map_err(|failure| {
                failure.context(format!("--unexpected={depth}: message {}", number + 1))
            })?;
            self.unreceived = number + 1;
        }
        Ok(())
    }
}

impl MessageReceiver {
    fn new(peer: Peer<'_>, run: &RunOptions) -> Result<Self, Failure> {
        let mut portals = Portals::new(peer.own, EVENT_PAGE)?;
        let buffer = map(peer.own, Use::Receive, Buffer::full(run))?;
        let entry = Entry {
            matching: run.rdzv.then(|| rendezvous::messages_of(peer)),
            reports: Reports::Events,
            buffer_id: ORDINARY,
            ..Entry::for_puts(run)
        };
        let Extensions { posted, unexpected, .. } = run.extensions;
        let is_matching = run.rdzv || posted.is_used() || unexpected.is_used();
        let mut ordinary = portals.open(peer.own, PORTAL_INDEX, is_matching)?;
        let receiving = if unexpected.is_used() {
            Receiving::Late(portals.append_overflow(&mut ordinary, &buffer, entry)?)
        } else {
            Receiving::Posted(portals.append_behind(&mut ordinary, &buffer, entry, posted)?)
        };
        let mut last = portals.open(peer.own, LAST_INDEX, run.rdzv)?;
        let entry = Entry { buffer_id: LAST, ..entry };
        portals.append(&mut last, &buffer, entry)?;
        Ok(Self { portals, ordinary, receiving, last, buffer })
    }

    fn close(self) -> Result<(), Failure> {
        portals::close(self.last)?;
        portals::close(self.ordinary)?;
        self.portals.close()?;
        self.buffer.close().explain("cannot release the receiving buffer")
    }
}

/// A command that sends a message.
trait MessageSending<const WORDS: usize> {
    /// Whether an ACK reports that the data has left.
    const ACKNOWLEDGED: bool;
    /// Whether the peer fetches the data.
    const FETCHED: bool;

    /// The command of the receive, if one is posted for each message that has arrived.
    #[inline(always)]
    fn receive(&self) -> Option<&TargetCmd> {
        None
    }

    /// Prepares the command for the portal index at which `initiator` aims.
    fn prepare(&self, initiator: &Initiator) -> Result<Prepared<WORDS>, Failure>;
}

const NOT_ISSUED: NotIssued = NotIssued("message");

/// A send with the payload in the command.
struct Immediate {
    header: IdcHdr,
    payload: Vec<u8>,
}

impl<const WORDS: usize> MessageSending<WORDS> for Immediate {
    const ACKNOWLEDGED: bool = false;
    const FETCHED: bool = false;

    /// The portal index is in the context of the queue.
    fn prepare(&self, initiator: &Initiator) -> Result<Prepared<WORDS>, Failure> {
        let transmit = &initiator.transmit;
        let prepared = transmit.prepare_idc_put(&self.header, &self.payload);
        prepared.nic(NOT_ISSUED)
    }
}

/// A put by DMA. If it is `FETCHED`, by rendezvous: the peer's NIC fetches the payload.
struct DmaMessage<const FETCHED: bool>(FullDmaCmd);

impl<const FETCHED: bool> MessageSending<8> for DmaMessage<FETCHED> {
    const ACKNOWLEDGED: bool = true;
    const FETCHED: bool = FETCHED;

    fn prepare(&self, initiator: &Initiator) -> Result<Prepared<8>, Failure> {
        let mut command = self.0;
        command.set_index_ext(initiator.index_ext());
        initiator.transmit.prepare_dma(&command).nic(NOT_ISSUED)
    }
}

/// A send of a message that arrives before its receive.
struct ReceivedLate<S> {
    sending: S,
    receive: TargetCmd,
}

impl<const WORDS: usize, S: MessageSending<WORDS>> MessageSending<WORDS> for ReceivedLate<S> {
    const ACKNOWLEDGED: bool = S::ACKNOWLEDGED;
    const FETCHED: bool = S::FETCHED;

    #[inline(always)]
    fn receive(&self) -> Option<&TargetCmd> {
        Some(&self.receive)
    }

    fn prepare(&self, initiator: &Initiator) -> Result<Prepared<WORDS>, Failure> {
        self.sending.prepare(initiator)
    }
}

/// One side of a round trip.
struct PingPong<'a, const WORDS: usize, S, const LOW_LATENCY: bool> {
    resources: &'a mut MessageResources,
    sending: S,
    command: Prepared<WORDS>,
}

impl<const WORDS: usize, S: MessageSending<WORDS>, const LOW_LATENCY: bool> RoundTrip
    for PingPong<'_, WORDS, S, LOW_LATENCY>
{
    #[inline(always)]
    fn send<C: Clock>(&mut self, clock: &C, policy: &mut WaitPolicy<'_>) -> Result<(), Failure> {
        let MessageResources { initiator, rendezvous, .. } = &mut *self.resources;
        let issued = if LOW_LATENCY {
            initiator.transmit.issue_low_latency(&self.command)
        } else {
            initiator.transmit.issue_doorbell(&self.command)
        };
        issued.nic(NOT_ISSUED)?;
        if S::ACKNOWLEDGED {
            await_event(clock, policy, &mut initiator.events, EventType::ACK)?;
        }
        if S::FETCHED
            && let Some(rendezvous) = rendezvous
        {
            let events = &mut rendezvous.source.portals.events;
            await_event(clock, policy, events, EventType::GET)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn receive<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<MessageKind, Failure> {
        if S::FETCHED {
            return self.receive_on_demand(clock, policy);
        }
        let message = self.receive_eager(clock, policy)?;
        // Without a receive for each message, the compiler leaves this out.
        if let Some(receive) = self.sending.receive()
            && message == MessageKind::Ordinary
        {
            let portals = &mut self.resources.receiver.portals;
            portals.receive(receive)?;
            await_event(clock, policy, &mut portals.events, EventType::PUT_OVERFLOW)?;
        }
        Ok(message)
    }

    #[inline(always)]
    fn acknowledge(&mut self) {
        self.resources.receiver.portals.events.acknowledge();
        self.resources.initiator.events.acknowledge();
        if S::FETCHED
            && let Some(rendezvous) = &mut self.resources.rendezvous
        {
            rendezvous.source.portals.events.acknowledge();
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        match self.resources.initiator.events.poll() {
            None => Ok(()),
            Some(event) => Err(unexpected(&event, EventType::ACK)),
        }
    }

    fn announce(&mut self, message: MessageKind) -> Result<(), Failure> {
        self.resources.initiator.aim(match message {
            MessageKind::Ordinary => PORTAL_INDEX,
            MessageKind::Last => LAST_INDEX,
        });
        if !S::ACKNOWLEDGED {
            self.resources.set_context()?;
        }
        self.command = self.sending.prepare(&self.resources.initiator)?;
        Ok(())
    }
}

impl<const WORDS: usize, S: MessageSending<WORDS>, const LOW_LATENCY: bool>
    PingPong<'_, WORDS, S, LOW_LATENCY>
{
    /// Takes the event of an eager message: PUT.
    #[inline(always)]
    fn receive_eager<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<MessageKind, Failure> {
        let MessageResources { initiator, receiver, .. } = &mut *self.resources;
        let mut misses = 0;
        let poll = || {
            if let Some(event) = receiver.portals.events.poll() {
                return Some(arrived(&event, EventType::PUT).map(|()| message(&event)));
            }
            misses += 1;
            if misses % MISSES_PER_LOOK == 0
                && let Some(event) = initiator.events.poll()
            {
                return Some(Err(unexpected(&event, EventType::ACK)));
            }
            None
        };
        policy.wait_untimed(clock, "message", poll)?
    }

    /// Takes the three events of a rendezvous message, in any order: PUT, RENDEZVOUS when the data
    /// can be fetched, REPLY when it has arrived.
    #[inline(always)]
    fn receive_on_demand<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<MessageKind, Failure> {
        let MessageResources { receiver, rendezvous, .. } = &mut *self.resources;
        let mut received = MessageKind::Ordinary;
        for _ in 0..3 {
            let poll = || {
                let event = receiver.portals.events.poll()?;
                let fields = (event.event_type(), event.return_code(), event.record());
                Some((fields, message(&event)))
            };
            let (fields, message) = policy.wait_untimed(clock, "message", poll)?;
            match fields {
                (EventType::PUT, ReturnCode::OK, _) => received = message,
                (EventType::REPLY, ReturnCode::OK, _) => {}
                (EventType::RENDEZVOUS, ReturnCode::OK, EventRecord::TargetLong(announced)) => {
                    if !announced.get_issued()
                        && let Some(rendezvous) = rendezvous
                    {
                        rendezvous.fetcher.fetch(&announced)?;
                    }
                }
                (event, code, _) => {
                    return Err(explain::unexpected(
                        "receiving a message",
                        event,
                        EventType::PUT,
                        code,
                    ));
                }
            }
        }
        Ok(received)
    }
}

/// Waits for the one event that a send raises at `events`.
#[inline(always)]
fn await_event<C: Clock>(
    clock: &C,
    policy: &mut WaitPolicy<'_>,
    events: &mut EventQueue,
    expected: EventType,
) -> Result<(), Failure> {
    policy
        .wait_untimed(clock, "message", || events.poll().map(|event| arrived(&event, expected)))?
}

#[inline(always)]
fn arrived(event: &Event<'_>, expected: EventType) -> Result<(), Failure> {
    if (event.event_type(), event.return_code()) == (expected, ReturnCode::OK) {
        Ok(())
    } else {
        Err(unexpected(event, expected))
    }
}

/// The kind of the message that a PUT event reports.
#[inline(always)]
fn message(event: &Event<'_>) -> MessageKind {
    let buffer_id = match event.record() {
        EventRecord::TargetShort(record) => record.buffer_id(),
        EventRecord::TargetLong(record) => record.buffer_id(),
        _ => ORDINARY,
    };
    match buffer_id {
        LAST => MessageKind::Last,
        _ => MessageKind::Ordinary,
    }
}

#[cold]
fn unexpected(event: &Event<'_>, expected: EventType) -> Failure {
    let (seen, code) = (event.event_type(), event.return_code());
    explain::unexpected("sending a message", seen, expected, code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::{Alone, ISSUED, endpoint, size_of_run};
    use measure::MonotonicRaw;
    use plan::testing::plan;

    /// One endpoint sends to itself: an ordinary message, a last one, an ordinary one.
    struct Three;

    impl RepeatRoundTrip for Three {
        type Output = ();

        fn run(self, round_trip: &mut impl RoundTrip) -> Result<(), Failure> {
            let (clock, policy) = (&MonotonicRaw, &mut WaitPolicy::new(&Alone));
            for message in [MessageKind::Ordinary, MessageKind::Last, MessageKind::Ordinary] {
                round_trip.announce(message)?;
                round_trip.send(clock, policy)?;
                assert_eq!(round_trip.receive(clock, policy)?, message);
                round_trip.acknowledge();
            }
            Ok(())
        }
    }

    #[test]
    fn recognizes_last_message() {
        for options in [&["-s", "8"][..], &["-s", "5000"], &["-s", "5000", "--rdzv"]] {
            let plan = plan("send-lat", options);
            let endpoint = endpoint(&plan);
            let peer = Peer {
                own: &endpoint,
                address: endpoint.address().address,
                portal: PORTAL_INDEX,
                supervisor: &Alone,
            };
            let mut resources = SendLatency::set_up(peer, &plan.run, Side::Client).unwrap();
            SendLatency::measure(&mut resources, &plan.run, plan.run.max_size, Three).unwrap();
            SendLatency::check(&resources, size_of_run(&plan.run, plan.run.max_size), ISSUED)
                .unwrap();
            SendLatency::close(resources).unwrap();
            endpoint.close().unwrap();
        }
    }
}
