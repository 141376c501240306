//! One size of a one-sided latency run: the client measures, the server provides the target.

use super::context::{LoopContext, POST_RUN};
use super::results::Samples;
use super::size_loop::{Schedule, longest_size, repeat_with};
use crate::bench::api::{OneSidedLatency, RepeatTransaction, Transaction};
use facts::error::Failure;
use facts::limit::ANSWER_LIMIT;
use facts::phase::{Phase, enter};
use measure::{Supervisor, WaitPolicy};

/// Waits until the client has measured operations of `size` bytes.
///
/// # Errors
///
/// A client that fails, is interrupted or takes too long.
pub fn serve(context: &LoopContext<'_>, size: u64) -> Result<(), Failure> {
    enter(Phase::Measuring);
    let limit = longest_size(context.run, size);
    context.barriers.barrier(POST_RUN, limit)
}

/// Measures operations of `size` bytes.
pub fn measure<B: OneSidedLatency>(
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

#[cfg(test)]
mod tests {
    use super::super::size_loop::Limit;
    use super::*;
    use crate::bench::api::Timed;
    use crate::bench::testing::Alone;
    use measure::{ChosenClock, Clock, MonotonicRaw, Recorder};

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
}
