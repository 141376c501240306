//! One size of a two-sided latency run with a barrier before each round trip, as the legacy tools
//! measure (wire.md 6.2).

use super::context::{LoopContext, POST_RUN, SYNC};
use super::results::Samples;
use super::size_loop::{Limit, Record, Schedule, longest_iteration, pause, wait_until};
use crate::bench::api::{MessageKind, RepeatRoundTrip, RoundTrip, RoundTripLatency};
use facts::error::Failure;
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::phase::{Phase, enter};
use facts::rate::{Pacer, Period};
use measure::{ChosenClock, Clock, MonotonicRaw, WaitPolicy};
use plan::run_options::Side;
use session::PeerCheck;

/// Runs the loop for `size`; returns when both sides have ended theirs. A server has no `samples`:
/// only the latencies of the client are reported.
pub fn measure<B: RoundTripLatency>(
    context: &LoopContext<'_>,
    resources: &mut B::Resources,
    size: u64,
    samples: Option<Samples<'_>>,
) -> Result<(), Failure> {
    let limit = longest_iteration(context.run, size);
    let schedule = Schedule::of(context.run, size);
    let measuring = SyncedLoop {
        sync: &|look| {
            enter(Phase::Sync);
            context.barriers.barrier_while(SYNC, limit, look)
        },
        schedule,
        side: context.side,
        policy: WaitPolicy::new(context.supervisor)
            .for_bytes(size)
            .for_pause(schedule.period.map_or(0, Period::nanoseconds)),
        samples,
    };
    B::measure(resources, context.run, size, measuring)?;
    enter(Phase::PostRun);
    context.barriers.barrier(POST_RUN, ANSWER_LIMIT)
}

/// The loop for one size: round trips until both sides have ended the size (tools.md 7.3).
///
/// Both sides run it with the same schedule. A number of iterations is the same on both sides. A
/// duration is measured by each side: the side whose time is up first, or whose samples are enough,
/// marks its next message as the last one. The round trip of that message is not measured.
struct SyncedLoop<'a> {
    /// Waits until the peer is ready for the next round trip. Meanwhile it calls the given check.
    sync: &'a dyn Fn(&mut PeerCheck<'_>) -> Result<(), Failure>,
    schedule: Schedule,
    side: Side,
    policy: WaitPolicy<'a>,
    samples: Option<Samples<'a>>,
}

impl RepeatRoundTrip for SyncedLoop<'_> {
    type Output = ();

    fn run(mut self, round_trip: &mut impl RoundTrip) -> Result<(), Failure> {
        // The loop is compiled for each clock and does not branch on it.
        let result = match self.samples.as_ref().map(|samples| samples.clock) {
            Some(ChosenClock::Counter(clock)) => {
                self.repeat(&clock, &mut Clocked { clock, round_trip })
            }
            Some(ChosenClock::MonotonicRaw(_)) | None => {
                self.repeat(&MonotonicRaw, &mut Clocked { clock: MonotonicRaw, round_trip })
            }
        };
        if let Some(samples) = &self.samples {
            samples.end();
        }
        result
    }
}

/// A round trip with its clock, as the loop calls it: through a table of functions, so that the
/// loop is compiled once, not for each kind of message. A call takes 1 to 2 ns, and the barrier
/// before each round trip some 10 us.
trait SyncedTrip {
    fn look(&mut self) -> Result<(), Failure>;
    fn send(&mut self, policy: &mut WaitPolicy<'_>) -> Result<(), Failure>;
    fn receive(&mut self, policy: &mut WaitPolicy<'_>) -> Result<MessageKind, Failure>;
    fn acknowledge(&mut self);
    fn announce(&mut self, message: MessageKind) -> Result<(), Failure>;
}

struct Clocked<'a, C, T> {
    clock: C,
    round_trip: &'a mut T,
}

impl<C: Clock, T: RoundTrip> SyncedTrip for Clocked<'_, C, T> {
    fn look(&mut self) -> Result<(), Failure> {
        self.round_trip.look()
    }

    fn send(&mut self, policy: &mut WaitPolicy<'_>) -> Result<(), Failure> {
        self.round_trip.send(&self.clock, policy)
    }

    fn receive(&mut self, policy: &mut WaitPolicy<'_>) -> Result<MessageKind, Failure> {
        self.round_trip.receive(&self.clock, policy)
    }

    fn acknowledge(&mut self) {
        self.round_trip.acknowledge();
    }

    fn announce(&mut self, message: MessageKind) -> Result<(), Failure> {
        self.round_trip.announce(message)
    }
}

impl SyncedLoop<'_> {
    fn repeat<C: Clock>(
        &mut self,
        clock: &C,
        round_trip: &mut dyn SyncedTrip,
    ) -> Result<(), Failure> {
        enter(Phase::WarmUp);
        for _ in 0..self.schedule.warmup {
            self.once(clock, round_trip, None)?;
            pause(clock, self.schedule.gap, &mut self.policy)?;
        }
        enter(Phase::Measuring);
        if let Some(samples) = &mut self.samples {
            samples.begin();
        }
        let started = clock.now();
        let mut count = 0;
        // The client keeps the schedule; the server answers.
        let period = self.schedule.period.filter(|_| self.samples.is_some());
        let mut pacer = period.map(|period| Pacer::new(period, started));
        loop {
            let (latency, message) = self.once(clock, round_trip, pacer.as_mut())?;
            if message == MessageKind::Last {
                return Ok(());
            }
            if let (Some(pacer), Some(samples)) = (&pacer, &mut self.samples) {
                *samples.kept = Some(pacer.kept());
            }
            let is_enough = |samples: &mut Samples<'_>| samples.record(latency);
            if self.samples.as_mut().is_some_and(is_enough) {
                break;
            }
            count += 1;
            match self.schedule.limit {
                Limit::Iterations(iterations) if count >= iterations => return Ok(()),
                Limit::Duration(duration) => {
                    let next = clock.now().saturating_add(self.schedule.gap);
                    let due = pacer.as_ref().map_or(0, Pacer::due);
                    if next.max(due) - started >= duration {
                        break;
                    }
                }
                Limit::Stopped if interrupt::is_stopped() => break,
                Limit::Iterations(_) | Limit::Stopped => {}
            }
            pause(clock, self.schedule.gap, &mut self.policy)?;
        }
        round_trip.announce(MessageKind::Last)?;
        self.once(clock, round_trip, None)?;
        round_trip.announce(MessageKind::Ordinary)
    }

    /// Makes one round trip, at its intended time if there is a `pacer`. Returns the latency (ns),
    /// half of the time of the round trip after the delay of its start, and the kind of the peer's
    /// message.
    // One copy for all messages of the loop. The call is outside the timed part.
    #[inline(never)]
    fn once<C: Clock>(
        &mut self,
        clock: &C,
        round_trip: &mut dyn SyncedTrip,
        mut pacer: Option<&mut Pacer>,
    ) -> Result<(u64, MessageKind), Failure> {
        (self.sync)(&mut || round_trip.look())?;
        let policy = &mut self.policy;
        if let Some(pacer) = &mut pacer {
            pacer.ready(clock.now());
            wait_until(clock, pacer.due(), policy)?;
        }
        let start = clock.now();
        let message = match self.side {
            Side::Client => {
                round_trip.send(policy)?;
                round_trip.receive(policy)?
            }
            Side::Server => {
                let message = round_trip.receive(policy)?;
                round_trip.send(policy)?;
                message
            }
        };
        let end = clock.now();
        round_trip.acknowledge();
        let delay = pacer.map_or(0, |pacer| pacer.start(start));
        Ok((delay + end.saturating_sub(start) / 2, message))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::scripted::{Scripted, Ticking};
    use super::*;
    use crate::bench::testing::Alone;
    use measure::{Recorder, Until};

    const CLOCK: ChosenClock = ChosenClock::MonotonicRaw(MonotonicRaw);

    /// Runs the loop. Returns the numbers of recorded latencies and of barriers.
    fn run(scripted: &mut Scripted, limit: Limit, side: Side) -> (u64, u64) {
        let syncs = Cell::new(0);
        let sync = |_: &mut PeerCheck<'_>| {
            syncs.set(syncs.get() + 1);
            Ok(())
        };
        let (mut recorder, mut kept) = (Recorder::new(None).unwrap(), None);
        let measurement = SyncedLoop {
            sync: &sync,
            schedule: Schedule { limit, warmup: 2, gap: 0, period: None },
            side,
            policy: WaitPolicy::new(&Alone),
            samples: Some(Samples::new(CLOCK, &mut recorder, None, &mut kept)),
        };
        measurement.run(scripted).unwrap();
        let gauge = recorder.gauge();
        assert!(gauge.begun().is_some() && gauge.ended() >= gauge.begun());
        (recorder.statistics().count(), syncs.get())
    }

    #[test]
    fn sends_no_last_message_after_iterations() {
        let mut scripted = Scripted::default();
        let counts = run(&mut scripted, Limit::Iterations(3), Side::Client);
        assert_eq!(counts, (3, 5));
        assert_eq!(scripted.announced, []);
    }

    #[test]
    fn announces_end_of_duration_in_one_more_round_trip() {
        let mut scripted = Scripted::default();
        let counts = run(&mut scripted, Limit::Duration(0), Side::Client);
        assert_eq!(counts, (1, 4));
        assert_eq!(scripted.announced, [(3, MessageKind::Last), (4, MessageKind::Ordinary)]);
    }

    #[test]
    fn last_message_of_peer_ends_loop_uncounted() {
        let mut scripted = Scripted { last_comes_in: Some(5), ..Scripted::default() };
        let counts = run(&mut scripted, Limit::Iterations(100), Side::Server);
        assert_eq!(counts, (2, 5));
        assert_eq!(scripted.announced, []);
    }

    #[test]
    fn client_sends_first() {
        for (side, order) in
            [(Side::Client, ["send", "receive"]), (Side::Server, ["receive", "send"])]
        {
            let mut scripted = Scripted::default();
            run(&mut scripted, Limit::Iterations(1), side);
            assert_eq!(scripted.order[..2], order);
        }
    }

    /// As if the duration were over.
    #[test]
    fn enough_samples_end_loop_in_one_more_round_trip() {
        let mut scripted = Scripted::default();
        let (mut recorder, mut kept) = (Recorder::new(None).unwrap(), None);
        let until = Until { percent: 50.0 };
        let measurement = SyncedLoop {
            sync: &|_| Ok(()),
            schedule: Schedule {
                limit: Limit::Duration(1_000_000_000),
                warmup: 0,
                gap: 0,
                period: None,
            },
            side: Side::Client,
            policy: WaitPolicy::new(&Alone),
            samples: Some(Samples::new(CLOCK, &mut recorder, Some(until), &mut kept)),
        };
        measurement.run(&mut scripted).unwrap();
        // The least number of samples at which a median counts as known.
        let count = recorder.statistics().count();
        let announced = [(100, MessageKind::Last), (101, MessageKind::Ordinary)];
        assert_eq!((count, &scripted.announced[..]), (100, &announced[..]));
    }

    #[test]
    fn latency_is_half_of_round_trip() {
        let (mut recorder, mut kept) = (Recorder::new(None).unwrap(), None);
        let mut measurement = SyncedLoop {
            sync: &|_| Ok(()),
            schedule: Schedule { limit: Limit::Iterations(1), warmup: 0, gap: 0, period: None },
            side: Side::Client,
            policy: WaitPolicy::new(&Alone),
            samples: Some(Samples::new(CLOCK, &mut recorder, None, &mut kept)),
        };
        let clock = Ticking::default();
        let mut scripted = Scripted::default();
        let mut trip = Clocked { clock: Ticking::default(), round_trip: &mut scripted };
        let once = measurement.once(&clock, &mut trip, None);
        assert_eq!(once.unwrap(), (5, MessageKind::Ordinary));
    }
}
