//! `trig-lat`: latency of a hop between two NICs, in a chain of triggered puts.
//!
//! Both sides arm their puts: the put that arrives counts, and its count launches the next put to
//! the other side (nic.md 9.3). The client starts the chain and waits for the event of the last
//! hop. No software takes part in between: the latency is the time of the chain divided by its
//! hops.
//!
//! With `--fan`, the first put fires all others at once, from the server to the client: two events
//! show when the first and the last one have arrived.
//!
//! Before each chain, which is not measured, the client asks the server to arm its puts, with a put
//! to a second portal, and the server answers when they are armed. Both messages are in the trigger
//! queue behind the puts that they announce.

use cxi::records::FullDmaCmd;
use cxi::{Event, EventRecord, EventType, MemoryRegion, PortalTableEntry, Prepared, ReturnCode};

use super::api::{
    Benchmark, BenchmarkTask, FanMedians, Issued, MessageKind, Peer, RepeatRoundTrip,
    RepeatTransaction, RoundTrip, RoundTripLatency, SizeOfRun,
};
use super::common::memory::{self, EVENT_PAGE, map};
use super::common::{
    Chain, CompletionEvent, Direction, Entry, HopPut, Hops, Initiator, NotIssued, Numbering,
    Portals, Reports, measure, portals,
};
use facts::error::{Context, Failure, Kind};
use measure::{Clock, Recorder, WaitPolicy};
use node::explain::{self, Explain};
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::extensions::ChainStart;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;
use plan::tools;

/// Name of the operation in messages.
const CHAIN: &str = "chain of triggered puts";

/// The writes that the chains are compared with.
const WRITTEN: CompletionEvent = CompletionEvent { event: EventType::ACK, operation: "write" };

const NOT_ISSUED: NotIssued = NotIssued(WRITTEN.operation);

/// Header data of the messages between the sides.
const ORDINARY: u64 = 0;
const LAST: u64 = 1;

/// One of this many polls for a message of the peer checks the initiator's event queue: a put that
/// failed raises an event there, and then no message arrives.
const MISSES_PER_LOOK: u32 = 64;

/// The benchmark.
pub struct TriggeredLatency;

/// The resources of each side.
pub struct ChainSide {
    side: Side,
    initiator: Initiator,
    portals: Portals,
    /// Receives the hops, and counts them.
    arrivals: PortalTableEntry,
    /// Receives the messages of the peer.
    control: PortalTableEntry,
    /// Receives the writes that the chains are compared with, if they are.
    writes: Option<PortalTableEntry>,
    buffer: MemoryRegion,
    chain: Chain,
    /// When the puts of fans have arrived, with `--fan`.
    fans: Option<FanTimes>,
    /// The message that the puts of this side are armed, and the last message of a size.
    armed: FullDmaCmd,
    last: FullDmaCmd,
    /// Portal index of the hops.
    portal: u32,
}

/// The arrivals of the fans of one size.
struct FanTimes {
    /// Fans that are not measured yet: warm-up.
    unmeasured: u64,
    /// From the start to the first arrival.
    first: Recorder,
    /// From the first arrival to the last one.
    span: Recorder,
}

impl FanTimes {
    fn new() -> Result<Self, Failure> {
        Ok(Self { unmeasured: 0, first: Recorder::new(None)?, span: Recorder::new(None)? })
    }

    /// Notes the times of a fan, in nanoseconds, unless it is one of the warm-up.
    #[inline]
    fn note(&mut self, first: u64, span: u64) {
        if self.unmeasured > 0 {
            self.unmeasured -= 1;
            return;
        }
        self.first.record(first);
        self.span.record(span);
    }
}

impl Benchmark for TriggeredLatency {
    const TOOL: &'static Tool = &tools::TRIG_LAT;

    type Resources = ChainSide;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.round_trip::<Self>()
    }

    fn set_up(peer: Peer<'_>, run: &RunOptions, side: Side) -> Result<ChainSide, Failure> {
        let mut initiator = Initiator::new(peer, Buffer::full(run))?;
        Numbering::of(run, run.min_size).fill_all(&initiator.buffer, peer.supervisor)?;
        initiator.aim(peer.portal + 1);
        let message = |kind| {
            let mut command = initiator.full(Direction::Put, 0);
            command.set_event_success_disable(true).set_header_data(kind);
            command
        };
        let (armed, last) = (message(ORDINARY), message(LAST));
        initiator.aim(peer.portal);
        let chain = Chain::new(peer.own, &initiator, Hops::of(run, side))?;
        let buffer = map(peer.own, Use::Receive, Buffer::full(run))?;
        let mut portals = Portals::new(peer.own, EVENT_PAGE)?;
        let entry = Entry { reports: Reports::Counted(chain.counter()), ..Entry::for_puts(run) };
        let mut arrivals = portals.open(peer.own, peer.portal, false)?;
        portals.append(&mut arrivals, &buffer, entry)?;
        let mut control = portals.open(peer.own, peer.portal + 1, false)?;
        portals.append(&mut control, &buffer, Entry { reports: Reports::Events, ..entry })?;
        let mut writes = None;
        if run.extensions.compare_write && side == Side::Server {
            let mut portal = portals.open(peer.own, peer.portal + 2, false)?;
            portals.append(&mut portal, &buffer, Entry { reports: Reports::Nothing, ..entry })?;
            writes = Some(portal);
        }
        Ok(ChainSide {
            side,
            initiator,
            portals,
            arrivals,
            control,
            writes,
            buffer,
            chain,
            fans: (run.extensions.fan > 0).then(FanTimes::new).transpose()?,
            armed,
            last,
            portal: peer.portal,
        })
    }

    fn reports_failure(_: &RunOptions) -> bool {
        true
    }

    fn fill(resources: &ChainSide, size: SizeOfRun<'_>) -> Result<(), Failure> {
        let SizeOfRun { run, size, supervisor } = size;
        Numbering::of(run, size).fill(&resources.initiator.buffer, size, supervisor)
    }

    fn check(resources: &ChainSide, size: SizeOfRun<'_>, _: Issued) -> Result<u64, Failure> {
        let SizeOfRun { run, size, supervisor } = size;
        let (numbering, buffer) = (Numbering::of(run, size), &resources.buffer);
        let checked = numbering.check(buffer, "the receiving buffer", [0], size, supervisor)?;
        memory::clear(buffer, run)?;
        Ok(checked)
    }

    fn close(resources: ChainSide) -> Result<(), Failure> {
        let ChainSide { initiator, portals, arrivals, control, writes, buffer, chain, .. } =
            resources;
        writes.map_or(Ok(()), portals::close)?;
        portals::close(control)?;
        portals::close(arrivals)?;
        portals.close()?;
        initiator.close_with(|| chain.close())?;
        buffer.close().explain("cannot release the receiving buffer")
    }
}

impl RoundTripLatency for TriggeredLatency {
    const HAS_LEGACY_SYNC: bool = false;

    fn measure<R: RepeatRoundTrip>(
        resources: &mut ChainSide,
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        if let Some(fans) = &mut resources.fans {
            fans.unmeasured = run.warmup;
            fans.first.clear();
            fans.span.clear();
        }
        let initiator = &resources.initiator;
        if run.unrestricted {
            let mut put = initiator.full(Direction::Put, size);
            put.set_event_success_disable(true);
            let mut first = put;
            first.set_user_ptr(1);
            let first = initiator.transmit.prepare_dma(&first).nic(NotIssued(CHAIN))?;
            started::<8, R>(resources, run, first, HopPut::Unrestricted(put), repeat)
        } else {
            let mut put = initiator.nomatch(Direction::Put, size);
            put.set_event_success_disable(true);
            let first = initiator.transmit.prepare_nomatch_dma(&put).nic(NotIssued(CHAIN))?;
            started::<4, R>(resources, run, first, HopPut::Restricted(put), repeat)
        }
    }

    fn fan(resources: &ChainSide) -> Option<FanMedians> {
        let fans = resources.fans.as_ref()?;
        Some(FanMedians { first_ns: fans.first.median()?, span_ns: fans.span.median()? })
    }

    fn compare<R: RepeatTransaction>(
        resources: &mut ChainSide,
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<Option<R::Output>, Failure> {
        let ChainSide { initiator, portal, .. } = resources;
        initiator.aim(*portal + 2);
        let output = if run.unrestricted {
            let put = initiator.full(Direction::Put, size);
            let put = initiator.transmit.prepare_dma(&put).nic(NOT_ISSUED)?;
            measure(initiator, put, WRITTEN, run.use_ll, repeat)
        } else {
            let put = initiator.nomatch(Direction::Put, size);
            let put = initiator.transmit.prepare_nomatch_dma(&put).nic(NOT_ISSUED)?;
            measure(initiator, put, WRITTEN, run.use_ll, repeat)
        };
        initiator.aim(*portal);
        output.map(Some)
    }
}

/// Makes the start part of the type: the timed part does not branch on it. `first` is the put that
/// starts a chain.
fn started<const WORDS: usize, R: RepeatRoundTrip>(
    resources: &mut ChainSide,
    run: &RunOptions,
    first: Prepared<WORDS>,
    put: HopPut,
    repeat: R,
) -> Result<R::Output, Failure> {
    if resources.side == Side::Server {
        return repeat.run(&mut ChainServer { resources, put, received: MessageKind::Ordinary });
    }
    match (run.extensions.start, run.use_ll) {
        (ChainStart::Put, true) => formed(resources, put, FirstPut::<WORDS, true>(first), repeat),
        (ChainStart::Put, false) => formed(resources, put, FirstPut::<WORDS, false>(first), repeat),
        (ChainStart::Counter, _) => formed(resources, put, Increment, repeat),
        (ChainStart::Doorbell, _) => formed(resources, put, DoorbellStart, repeat),
    }
}

/// Makes the form part of the type: hops one after the other, or a fan.
fn formed<S: Start, R: RepeatRoundTrip>(
    resources: &mut ChainSide,
    put: HopPut,
    start: S,
    repeat: R,
) -> Result<R::Output, Failure> {
    if resources.fans.is_some() {
        repeat.run(&mut ChainClient::<S, true>::new(resources, put, start))
    } else {
        repeat.run(&mut ChainClient::<S, false>::new(resources, put, start))
    }
}

/// How the client's software starts a chain.
trait Start {
    /// Starts the armed chain.
    fn start(&self, resources: &mut ChainSide) -> Result<(), Failure>;
}

/// The first hop, issued like any other write.
struct FirstPut<const WORDS: usize, const LOW_LATENCY: bool>(Prepared<WORDS>);

impl<const WORDS: usize, const LOW_LATENCY: bool> Start for FirstPut<WORDS, LOW_LATENCY> {
    #[inline(always)]
    fn start(&self, resources: &mut ChainSide) -> Result<(), Failure> {
        let transmit = &mut resources.initiator.transmit;
        let issued = if LOW_LATENCY {
            transmit.issue_low_latency(&self.0)
        } else {
            transmit.issue_doorbell(&self.0)
        };
        issued.nic(NotIssued(CHAIN))
    }
}

/// A command that increments the counter.
struct Increment;

impl Start for Increment {
    #[inline(always)]
    fn start(&self, resources: &mut ChainSide) -> Result<(), Failure> {
        resources.chain.increment()
    }
}

/// One store to the doorbell of the counter.
struct DoorbellStart;

impl Start for DoorbellStart {
    #[inline(always)]
    fn start(&self, resources: &mut ChainSide) -> Result<(), Failure> {
        resources.chain.ring();
        Ok(())
    }
}

impl ChainSide {
    /// Waits for a message of the peer.
    fn await_message<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<MessageKind, Failure> {
        let Self { portals, initiator, .. } = self;
        let mut misses = 0;
        let poll = || {
            if let Some(event) = portals.events.poll() {
                return Some(message(&event));
            }
            misses += 1;
            if misses % MISSES_PER_LOOK == 0
                && let Some(event) = initiator.events.poll()
            {
                return Some(Err(UnexpectedEvent::new(&event)));
            }
            None
        };
        let awaited = policy.wait_untimed(clock, CHAIN, poll);
        self.portals.events.acknowledge();
        match awaited {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(unexpected)) => Err(self.failed(unexpected)),
            Err(failure) => Err(self.stopped(failure)),
        }
    }

    /// Cancels the puts that are left over, and returns the failure of a hop.
    #[cold]
    fn failed(&mut self, unexpected: UnexpectedEvent) -> Failure {
        let UnexpectedEvent { user_ptr, event, code } = unexpected;
        let all = self.chain.length();
        let left = self.chain.cancel();
        // A restricted put has no number: of the puts of this side, only the last one can fail.
        let launched = left.as_ref().map_or(0, |left| left.launched);
        let hop = if user_ptr > 0 { user_ptr } else { launched.into() };
        let what = match (self.chain.fan(), user_ptr) {
            (0, _) => format!("hop {hop} of {all} in a chain of triggered puts"),
            // A restricted put has no number.
            (fan, 0) => format!("a put of a fan of {fan} triggered puts"),
            (fan, put) => format!("put {put} of {all} with a fan of {fan} triggered puts"),
        };
        let failure = explain::unexpected(&what, event, EventType::ACK, code);
        match left {
            Ok(left) => failure.at(left.to_string()),
            Err(_) => failure,
        }
    }

    /// Adds to `failure` how far the chain has come, and cancels the puts that are left over.
    #[cold]
    fn stopped(&mut self, failure: Failure) -> Failure {
        if failure.kind != Kind::Nic {
            return failure;
        }
        match self.chain.cancel() {
            Ok(left) => failure.at(left.to_string()),
            Err(_) => failure,
        }
    }

    /// Checks for an event about a put that did not arrive.
    fn look(&mut self) -> Result<(), Failure> {
        let seen = self.initiator.events.poll().map(|event| UnexpectedEvent::new(&event));
        seen.map_or(Ok(()), |unexpected| Err(self.failed(unexpected)))
    }

    fn acknowledge(&mut self) {
        self.initiator.events.acknowledge();
    }
}

/// An event that reports no progress of a chain.
struct UnexpectedEvent {
    /// The number of the hop; 0 if the event has none.
    user_ptr: u64,
    event: EventType,
    code: ReturnCode,
}

impl UnexpectedEvent {
    #[cold]
    fn new(event: &Event<'_>) -> Self {
        let user_ptr = match event.record() {
            EventRecord::InitiatorShort(record) => record.user_ptr(),
            EventRecord::InitiatorLong(record) => record.user_ptr(),
            _ => 0,
        };
        Self { user_ptr, event: event.event_type(), code: event.return_code() }
    }
}

/// The kind of the message that a PUT event reports.
fn message(event: &Event<'_>) -> Result<MessageKind, UnexpectedEvent> {
    if (event.event_type(), event.return_code()) != (EventType::PUT, ReturnCode::OK) {
        return Err(UnexpectedEvent::new(event));
    }
    let header_data = match event.record() {
        EventRecord::TargetShort(record) => record.header_data(),
        EventRecord::TargetLong(record) => record.header_data(),
        _ => ORDINARY,
    };
    Ok(if header_data == LAST { MessageKind::Last } else { MessageKind::Ordinary })
}

/// The client's side of chains: it starts each of them, and waits for its last hop.
struct ChainClient<'a, S, const FAN: bool> {
    resources: &'a mut ChainSide,
    put: HopPut,
    start: S,
    message: MessageKind,
    /// When the fan was started.
    started: u64,
}

impl<'a, S: Start, const FAN: bool> ChainClient<'a, S, FAN> {
    fn new(resources: &'a mut ChainSide, put: HopPut, start: S) -> Self {
        Self { resources, put, start, message: MessageKind::Ordinary, started: 0 }
    }

    /// Waits for the event of a count.
    #[inline(always)]
    fn await_count<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<(), Failure> {
        let events = &mut self.resources.initiator.events;
        let poll = || {
            let event = events.poll()?;
            let seen = (event.event_type(), event.return_code());
            let is_count = seen == (EventType::TRIGGERED_OP, ReturnCode::OK);
            Some(if is_count { Ok(()) } else { Err(UnexpectedEvent::new(&event)) })
        };
        match policy.wait_untimed(clock, CHAIN, poll) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(unexpected)) => Err(self.resources.failed(unexpected)),
            Err(failure) => Err(self.resources.stopped(failure)),
        }
    }
}

impl<S: Start, const FAN: bool> RoundTrip for ChainClient<'_, S, FAN> {
    fn legs(&self) -> u64 {
        if FAN { 1 } else { self.resources.chain.length().into() }
    }

    /// Arms the puts of both sides.
    fn prepare<C: Clock>(&mut self, clock: &C, policy: &mut WaitPolicy<'_>) -> Result<(), Failure> {
        self.resources.chain.check()?;
        self.resources.chain.arm(self.put, &self.resources.armed)?;
        self.resources.await_message(clock, policy).map(drop)
    }

    #[inline(always)]
    fn send<C: Clock>(&mut self, clock: &C, _: &mut WaitPolicy<'_>) -> Result<(), Failure> {
        if self.message == MessageKind::Last {
            self.resources.chain.check()?;
            return self.resources.chain.notify(&self.resources.last);
        }
        if FAN {
            self.started = clock.now();
        }
        self.start.start(self.resources)
    }

    #[inline(always)]
    fn receive<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<MessageKind, Failure> {
        if self.message == MessageKind::Last {
            return self.resources.await_message(clock, policy);
        }
        self.await_count(clock, policy)?;
        if FAN {
            let first = clock.now();
            self.await_count(clock, policy)?;
            let span = clock.now().saturating_sub(first);
            if let Some(fans) = &mut self.resources.fans {
                fans.note(first.saturating_sub(self.started), span);
            }
        }
        Ok(MessageKind::Ordinary)
    }

    #[inline(always)]
    fn acknowledge(&mut self) {
        self.resources.acknowledge();
        self.resources.chain.end();
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.resources.look()
    }

    fn announce(&mut self, message: MessageKind) -> Result<(), Failure> {
        self.message = message;
        Ok(())
    }
}

/// The server's side of chains: it arms its puts when the client asks for it.
struct ChainServer<'a> {
    resources: &'a mut ChainSide,
    put: HopPut,
    received: MessageKind,
}

impl RoundTrip for ChainServer<'_> {
    fn send<C: Clock>(&mut self, _: &C, _: &mut WaitPolicy<'_>) -> Result<(), Failure> {
        self.resources.chain.check()?;
        match self.received {
            MessageKind::Ordinary => self.resources.chain.arm(self.put, &self.resources.armed),
            MessageKind::Last => self.resources.chain.notify(&self.resources.last),
        }
    }

    fn receive<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<MessageKind, Failure> {
        self.received = self.resources.await_message(clock, policy)?;
        // The client has seen the last hop of the chain before.
        self.resources.chain.end();
        Ok(self.received)
    }

    fn acknowledge(&mut self) {
        self.resources.acknowledge();
    }

    fn look(&mut self) -> Result<(), Failure> {
        self.resources.look()
    }

    fn announce(&mut self, _: MessageKind) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::{Alone, both_ends, endpoint};
    use measure::MonotonicRaw;
    use plan::testing::plan;

    #[test]
    fn medians_leave_out_fans_of_the_warm_up() {
        let mut fans = FanTimes { unmeasured: 2, ..FanTimes::new().unwrap() };
        [(1, 1), (2, 2), (70, 30)].into_iter().for_each(|(first, span)| fans.note(first, span));
        assert_eq!((fans.first.median(), fans.span.median()), (Some(70), Some(30)));
    }

    /// The counter launches nothing after the cancellation. A message in the same queue arrives
    /// after the puts that it would have launched.
    #[test]
    fn cancelled_puts_are_not_launched() {
        let plan = plan("trig-lat", &["--hops=6", "--start=doorbell"]);
        let endpoint = endpoint(&plan);
        let (mut client, mut server) = both_ends::<TriggeredLatency>(&endpoint, &plan.run);
        let put = HopPut::Restricted(client.initiator.nomatch(Direction::Put, 8));
        let mut awaited = || {
            let policy = &mut WaitPolicy::new(&Alone);
            server.await_message(&MonotonicRaw, policy).unwrap()
        };
        client.chain.arm(put, &client.armed).unwrap();
        assert_eq!(awaited(), MessageKind::Ordinary);
        let left = client.chain.cancel().unwrap().to_string();
        let wanted =
            "no hop arrived at the client; 3 triggered puts of the client left over and cancelled";
        assert_eq!(left, wanted);
        (0..3).for_each(|_| client.chain.ring());
        client.chain.notify(&client.last).unwrap();
        assert_eq!(awaited(), MessageKind::Last);
        let left = server.chain.cancel().unwrap().to_string();
        assert!(left.starts_with("no hop arrived at the server; "), "{left}");
        TriggeredLatency::close(client).unwrap();
        TriggeredLatency::close(server).unwrap();
        endpoint.close().unwrap();
    }

    #[test]
    fn counts_of_other_runs_end_the_measurement() {
        let plan = plan("trig-lat", &["--hops=6"]);
        let endpoint = endpoint(&plan);
        let (mut client, mut server) = both_ends::<TriggeredLatency>(&endpoint, &plan.run);
        client.chain.check().unwrap();
        server.chain.ring();
        client.chain.check().unwrap();
        let put = HopPut::Restricted(server.initiator.nomatch(Direction::Put, 8));
        let mut answering =
            ChainServer { resources: &mut server, put, received: MessageKind::Ordinary };
        let failure = answering.send(&MonotonicRaw, &mut WaitPolicy::new(&Alone)).unwrap_err();
        let words = "1 counts, and 0 hops: puts of another run may have arrived";
        assert_eq!((failure.kind, failure.message()), (Kind::Environment, words.into()));
        TriggeredLatency::close(client).unwrap();
        TriggeredLatency::close(server).unwrap();
        endpoint.close().unwrap();
    }
}
