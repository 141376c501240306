//! One size of a latency run.
//!
//! * One-sided: the client measures, the server provides the target.
//! * Round trips: both sides send and receive, the client measures. Two cxidiag processes wait for
//!   each other at one barrier before the size. From then on the messages keep them in step: the
//!   client alone keeps iterations, duration and gap, and the server answers each message up to the
//!   last one. With a legacy peer, or with `--legacy-sync`, `legacy_sync` measures instead.

use facts::error::Failure;
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::phase::{Phase, enter};
use measure::{ChosenClock, Clock, MonotonicRaw, Recorder, Supervisor, WaitPolicy};
use plan::run_options::SyncPoint;
use session::PeerCheck;

use crate::bench::api::{
    MessageKind, OneSidedLatency, RepeatRoundTrip, RepeatTransaction, RoundTrip, RoundTripLatency,
    Timed, Transaction,
};
use crate::run::context::{LoopContext, POST_RUN, SYNC};
use crate::run::legacy_sync;
use crate::run::results::{ExtraMedians, Samples};
use crate::run::size_loop::{
    Record, Schedule, longest_iteration, longest_size, repeat, repeat_with,
};

/// Waits until the client has measured operations of `size` bytes.
///
/// # Errors
///
/// A client that fails, is interrupted or takes too long.
pub fn serve_one_sided(context: &LoopContext<'_>, size: u64) -> Result<(), Failure> {
    enter(Phase::Measuring);
    let limit = longest_size(context.run, size);
    context.barriers.barrier(POST_RUN, limit)
}

/// Measures operations of `size` bytes.
pub fn measure_one_sided<B: OneSidedLatency>(
    context: &LoopContext<'_>,
    resources: &mut B::Resources,
    size: u64,
    samples: Samples<'_>,
) -> Result<(), Failure> {
    let measuring = TransactionLoop {
        schedule: Schedule::of(context.run, size),
        supervisor: context.supervisor,
        samples,
    };
    B::measure(resources, context.run, size, measuring)?;
    enter(Phase::PostRun);
    context.barriers.barrier(POST_RUN, ANSWER_LIMIT)
}

/// The loop for one size.
struct TransactionLoop<'a> {
    schedule: Schedule,
    supervisor: &'a dyn Supervisor,
    samples: Samples<'a>,
}

impl RepeatTransaction for TransactionLoop<'_> {
    type Output = ();

    fn run(self, transaction: &mut impl Transaction) -> Result<(), Failure> {
        let Self { schedule, supervisor, mut samples } = self;
        let policy = &mut WaitPolicy::new(supervisor);
        let clock = samples.clock;
        let kept = repeat_with(clock, transaction, schedule, policy, &mut samples);
        samples.end();
        *samples.kept = kept?;
        Ok(())
    }
}

/// Measures messages of `size` bytes. Returns when both sides have ended the size.
pub fn measure_round_trips<B: RoundTripLatency>(
    context: &LoopContext<'_>,
    resources: &mut B::Resources,
    size: u64,
    samples: Samples<'_>,
) -> Result<ExtraMedians, Failure> {
    let (run, barriers) = (context.run, context.barriers);
    if B::HAS_LEGACY_SYNC && run.sync == SyncPoint::Iteration {
        legacy_sync::measure::<B>(context, resources, size, Some(samples))?;
        return Ok(ExtraMedians::default());
    }
    let clock = samples.clock;
    enter(Phase::Sync);
    barriers.barrier(SYNC, longest_iteration(run, size))?;
    let asking = Asking {
        schedule: Schedule::of(run, size),
        policy: WaitPolicy::new(context.supervisor).for_bytes(run.bytes(size)),
        samples,
    };
    B::measure(resources, run, size, asking)?;
    let mut besides = ExtraMedians { write_ns: None, fan: B::fan(resources) };
    if run.extensions.compare_write {
        let writing = ComparedWrites {
            // Chains with a rate say nothing about the starts of writes.
            schedule: Schedule { period: None, ..Schedule::of(run, size) },
            supervisor: context.supervisor,
            clock,
            writes: Writes(Recorder::new(None)?),
        };
        besides.write_ns = B::compare(resources, run, size, writing)?.flatten();
    }
    enter(Phase::PostRun);
    barriers.barrier(POST_RUN, ANSWER_LIMIT)?;
    Ok(besides)
}

/// The client's loop of the writes that round trips are compared with.
struct ComparedWrites<'a> {
    schedule: Schedule,
    supervisor: &'a dyn Supervisor,
    clock: ChosenClock,
    writes: Writes,
}

/// The latencies of writes.
struct Writes(Recorder);

impl Record for Writes {
    fn begin(&mut self) {}

    #[inline]
    fn record(&mut self, latency: u64) -> bool {
        self.0.record(latency);
        false
    }
}

impl RepeatTransaction for ComparedWrites<'_> {
    /// The median latency in nanoseconds.
    type Output = Option<u64>;

    fn run(self, transaction: &mut impl Transaction) -> Result<Option<u64>, Failure> {
        let Self { schedule, supervisor, clock, mut writes } = self;
        let policy = &mut WaitPolicy::new(supervisor);
        repeat_with(clock, transaction, schedule, policy, &mut writes)?;
        Ok(writes.0.median())
    }
}

/// Answers messages of `size` bytes. Returns when both sides have ended the size.
pub fn serve_round_trips<B: RoundTripLatency>(
    context: &LoopContext<'_>,
    resources: &mut B::Resources,
    size: u64,
) -> Result<(), Failure> {
    let (run, barriers) = (context.run, context.barriers);
    if B::HAS_LEGACY_SYNC && run.sync == SyncPoint::Iteration {
        return legacy_sync::measure::<B>(context, resources, size, None);
    }
    let mut limit = longest_iteration(run, size);
    if run.extensions.compare_write {
        // The client measures all writes of the size before the last barrier.
        limit = limit.saturating_add(longest_size(run, size));
    }
    enter(Phase::Sync);
    barriers.barrier(SYNC, limit)?;
    let policy = WaitPolicy::new(context.supervisor).for_bytes(run.bytes(size));
    let answering = Answering {
        policy: policy.for_pause(Schedule::of(run, size).pause()),
        // The last answer may still be on its way to the client.
        end: &|look| {
            enter(Phase::PostRun);
            barriers.barrier_while(POST_RUN, limit, look)
        },
    };
    B::measure(resources, run, size, answering)
}

/// The client's loop: measured round trips, and one more that ends the size.
struct Asking<'a> {
    schedule: Schedule,
    policy: WaitPolicy<'a>,
    samples: Samples<'a>,
}

impl RepeatRoundTrip for Asking<'_> {
    type Output = ();

    fn run(self, round_trip: &mut impl RoundTrip) -> Result<(), Failure> {
        // The loop is compiled for each clock and does not branch on it.
        match self.samples.clock {
            ChosenClock::MonotonicRaw(clock) => self.ask(&clock, round_trip),
            ChosenClock::Counter(clock) => self.ask(&clock, round_trip),
        }
    }
}

impl Asking<'_> {
    fn ask<C: Clock>(mut self, clock: &C, round_trip: &mut impl RoundTrip) -> Result<(), Failure> {
        let policy = &mut self.policy;
        let mut ping = ClientRoundTrip(round_trip);
        let kept = repeat(&mut ping, clock, self.schedule, policy, &mut self.samples);
        self.samples.end();
        *self.samples.kept = kept?;
        ping.0.announce(MessageKind::Last)?;
        ping.iterate(clock, policy)?;
        ping.0.announce(MessageKind::Ordinary)
    }
}

/// A round trip as the client makes it.
struct ClientRoundTrip<'a, R>(&'a mut R);

impl<R: RoundTrip> Transaction for ClientRoundTrip<'_, R> {
    #[inline(always)]
    fn prepare<C: Clock>(&mut self, clock: &C, policy: &mut WaitPolicy<'_>) -> Result<(), Failure> {
        self.0.prepare(clock, policy)
    }

    /// Makes the round trip. Its latency is the time of one leg: half of its time, unless it has
    /// more legs.
    // One copy for all messages of the loop. The call is outside the timed part.
    #[inline(never)]
    fn iterate<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<Timed, Failure> {
        let Self(round_trip) = self;
        let start = clock.now();
        round_trip.send(clock, policy)?;
        round_trip.receive(clock, policy)?;
        let end = clock.now();
        round_trip.acknowledge();
        Ok(Timed { start, latency: end.saturating_sub(start) / round_trip.legs() })
    }
}

/// The server's loop: answers each message, the last one included.
struct Answering<'a> {
    policy: WaitPolicy<'a>,
    /// Waits until the client has ended the size. Meanwhile it calls the given check: only an event
    /// shows that the last answer has failed.
    end: &'a dyn Fn(&mut PeerCheck<'_>) -> Result<(), Failure>,
}

impl RepeatRoundTrip for Answering<'_> {
    type Output = ();

    fn run(mut self, round_trip: &mut impl RoundTrip) -> Result<(), Failure> {
        enter(Phase::Measuring);
        let (clock, policy) = (&MonotonicRaw, &mut self.policy);
        loop {
            let message = round_trip.receive(clock, policy)?;
            round_trip.send(clock, policy)?;
            round_trip.acknowledge();
            if message == MessageKind::Last {
                return (self.end)(&mut || round_trip.look());
            }
            interrupt::check()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use measure::{ChosenClock, Clock, MonotonicRaw, Recorder};

    use super::*;
    use crate::bench::api::Timed;
    use crate::bench::testing::Alone;
    use crate::run::scripted::Scripted;
    use crate::run::size_loop::Limit;

    /// Fails after some iterations.
    struct Failing(u64);

    impl Transaction for Failing {
        fn iterate<C: Clock>(
            &mut self,
            clock: &C,
            _: &mut WaitPolicy<'_>,
        ) -> Result<Timed, Failure> {
            let Self(left) = self;
            *left = left.checked_sub(1).ok_or(Failure::nic("lost"))?;
            Ok(Timed { start: clock.now(), latency: 1 })
        }
    }

    /// Intervals end with the measured part, also in a failed run.
    #[test]
    fn sets_begin_and_end_of_measured_part() {
        for (iterations, counted) in [(9, 5), (4, 2), (0, 0)] {
            let (mut recorder, mut kept) = (Recorder::new(None).unwrap(), None);
            let clock = ChosenClock::MonotonicRaw(MonotonicRaw);
            let measuring = TransactionLoop {
                schedule: Schedule { limit: Limit::Iterations(5), warmup: 2, gap: 0, period: None },
                supervisor: &Alone,
                samples: Samples::new(clock, &mut recorder, None, &mut kept),
            };
            let result = measuring.run(&mut Failing(iterations));
            assert_eq!(result.is_ok(), counted == 5);
            let gauge = recorder.gauge();
            assert_eq!(gauge.get().0, counted);
            assert_eq!(gauge.begun().is_some(), counted > 0);
            assert!(gauge.ended().is_some() && gauge.ended() >= gauge.begun());
        }
    }

    const CLOCK: ChosenClock = ChosenClock::MonotonicRaw(MonotonicRaw);

    /// Runs the client's loop with two unmeasured round trips. Returns the number of recorded
    /// latencies.
    fn ask(scripted: &mut Scripted, limit: Limit) -> u64 {
        let (mut recorder, mut kept) = (Recorder::new(None).unwrap(), None);
        let asking = Asking {
            schedule: Schedule { limit, warmup: 2, gap: 0, period: None },
            policy: WaitPolicy::new(&Alone),
            samples: Samples::new(CLOCK, &mut recorder, None, &mut kept),
        };
        asking.run(scripted).unwrap();
        let gauge = recorder.gauge();
        assert!(gauge.begun().is_some() && gauge.ended() >= gauge.begun());
        recorder.statistics().count()
    }

    #[test]
    fn client_ends_each_size_with_one_unmeasured_last_message() {
        for (limit, count) in [(Limit::Iterations(3), 3), (Limit::Duration(0), 1)] {
            let mut scripted = Scripted::default();
            assert_eq!(ask(&mut scripted, limit), count);
            let announced =
                [(2 + count, MessageKind::Last), (2 + count + 1, MessageKind::Ordinary)];
            assert_eq!(scripted.announced, announced);
            assert_eq!(scripted.order[..2], ["send", "receive"]);
        }
    }

    #[test]
    fn server_answers_each_message_up_to_the_last() {
        let mut scripted = Scripted { last_comes_in: Some(5), ..Scripted::default() };
        let ended = Cell::new(0);
        let answering = Answering {
            policy: WaitPolicy::new(&Alone),
            end: &|_| {
                ended.set(ended.get() + 1);
                Ok(())
            },
        };
        answering.run(&mut scripted).unwrap();
        assert_eq!(scripted.order, ["receive", "send"].repeat(5));
        assert_eq!((scripted.announced, ended.get()), (vec![], 1));
    }

    #[test]
    fn server_looks_for_failure_of_its_last_answer() {
        let mut scripted =
            Scripted { last_comes_in: Some(1), answer_fails: true, ..Scripted::default() };
        let answering = Answering { policy: WaitPolicy::new(&Alone), end: &|look| look() };
        let failure = answering.run(&mut scripted).unwrap_err();
        assert_eq!(failure.message(), "the answer failed");
    }

    #[test]
    fn latency_is_half_of_round_trip() {
        let mut scripted = Scripted::default();
        let mut policy = WaitPolicy::new(&Alone);
        let clock = super::super::scripted::Ticking::default();
        let latency = ClientRoundTrip(&mut scripted).iterate(&clock, &mut policy);
        assert_eq!(latency.unwrap().latency, 5);
    }
}
