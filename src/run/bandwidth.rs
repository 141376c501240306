//! One size of a bandwidth run: lists of operations, in one direction or both.

use std::time::Duration;

use super::driver::Context;
use super::results::BandwidthResults;
use super::size_loop::longest_size;
use crate::advice::{Situation, remedy};
use crate::bench::api::{Bandwidth, Lists, RepeatLists, Step};
use crate::error::Failure;
use crate::interrupt;
use crate::measure::{Clock, MonotonicRaw, SideResult, WaitPolicy};
use crate::phase::{Phase, enter};
use crate::run_options::RunOptions;
use crate::session::Session;

/// Labels of the barriers around the measurement of each size (wire.md 6.3).
const PRE_RUN: &str = "Pre-run";
const POST_RUN: &str = "Post-run";
const CLEANUP: &str = "RDZV cleanup";

/// What the loop waits for, in messages.
const AWAITED: &str = "list of operations";

/// Measures lists of operations of `size` bytes.
///
/// # Errors
///
/// The failure of an operation or of the peer, an impossible result of the peer, and an
/// interruption.
pub fn measure<B: Bandwidth>(
    context: &Context<'_>,
    resources: &mut B::Resources,
    size: u64,
    results: &mut BandwidthResults,
) -> Result<(), Failure> {
    let run = context.run;
    let list_size = run.lists()?.list_size.into();
    let list_bytes = size.saturating_mul(list_size);
    let control = Connected {
        session: context.session,
        limit: longest_size(run, list_bytes),
    };
    let part = B::part(run, context.side);
    if !part.issues() && !B::ANSWERS {
        return wait_for_peer(&control, results);
    }
    let measuring = Loop {
        control: &control,
        run,
        list_size,
        ends_with_peer: !part.issues(),
        answers: B::ANSWERS,
        peer_ends_in_step: context.peer_is_cxidiag,
        policy: WaitPolicy::new(context.watchdog).for_bytes(list_bytes),
        results,
    };
    B::measure(resources, run, size, measuring)
}

/// Waits while the peer measures: this side issues and answers nothing.
fn wait_for_peer(
    control: &dyn ControlConnection,
    results: &mut BandwidthResults,
) -> Result<(), Failure> {
    enter(Phase::PreRun);
    control.barrier(PRE_RUN)?;
    enter(Phase::Measuring);
    control.barrier(POST_RUN)?;
    enter(Phase::Results);
    results.peer = Some(control.results(SideResult::default())?);
    Ok(())
}

/// The control connection, as the loop uses it.
trait ControlConnection {
    /// Waits until the peer is at the same barrier.
    fn barrier(&self, point: &str) -> Result<(), Failure>;

    /// Exchanges results.
    fn results(&self, own: SideResult) -> Result<SideResult, Failure>;

    /// Returns whether the peer waits at the next barrier.
    fn peer_waits(&self) -> bool;
}

/// The control connection to a peer process.
struct Connected<'a> {
    session: &'a Session,
    /// Time limit of the peer for this size.
    limit: Duration,
}

impl ControlConnection for Connected<'_> {
    fn barrier(&self, point: &str) -> Result<(), Failure> {
        self.session.barrier(point, self.limit)
    }

    fn results(&self, own: SideResult) -> Result<SideResult, Failure> {
        self.session.results(own)
    }

    fn peer_waits(&self) -> bool {
        self.session.peer_waits()
    }
}

/// The loop for one size.
///
/// The measured time begins at the first barrier and ends with the last list or reply of this side;
/// the final barrier is not counted (defect T18 of tools.md). A duration may end in the middle of
/// an iteration: acknowledged lists count. Then both sides complete, unmeasured, the iterations
/// that either side has begun, so that no operation is left for the next size (defect T23).
///
/// A legacy peer leaves its loop in the middle of an iteration when its time is up, and completes
/// that iteration in the next size. So this side leaves it incomplete as well. Only in timed
/// bidirectional runs with rendezvous does a legacy peer complete its iteration, before an
/// additional barrier (wire.md 6.3).
struct Loop<'a> {
    control: &'a dyn ControlConnection,
    run: &'a RunOptions,
    list_size: u64,
    /// This side only answers: a run by duration ends when the peer waits at the barrier.
    ends_with_peer: bool,
    /// The software of each side answers the peer's lists, so that no side can be two iterations ahead.
    answers: bool,
    /// The peer completes the iterations that either side has begun when the time is up.
    peer_ends_in_step: bool,
    policy: WaitPolicy<'a>,
    /// The results, also those of a loop that fails.
    results: &'a mut BandwidthResults,
}

impl RepeatLists for Loop<'_> {
    type Output = ();

    fn run(mut self, lists: &mut impl Lists) -> Result<(), Failure> {
        let clock = &MonotonicRaw;
        enter(Phase::PreRun);
        self.control.barrier(PRE_RUN)?;
        enter(Phase::Measuring);
        let start = clock.now();
        self.results.gauge.begin(start);
        let measured = match self.run.duration_s {
            None => self.count(clock, lists),
            Some(seconds) => self.last(clock, lists, u64::from(seconds) * 1_000_000_000),
        };
        let elapsed = match measured {
            Ok((_, elapsed)) => elapsed,
            Err(_) => clock.now() - start,
        };
        self.results.gauge.end(start + elapsed);
        let own = SideResult {
            elapsed_us: (elapsed + 500) / 1000,
            count: lists.issued() * self.list_size,
        };
        self.results.own = own;
        let (completed, _) = measured?;
        enter(Phase::PostRun);
        self.control.barrier(POST_RUN)?;
        enter(Phase::Results);
        let peer = self.control.results(own)?;
        if self.answers {
            self.check(peer, completed)?;
        }
        self.results.peer = Some(peer);
        enter(Phase::Settling);
        if self.answers && self.peer_ends_in_step {
            let begun = own.count.max(peer.count) / self.list_size;
            self.complete(clock, lists, completed, begun)?;
        }
        if self.cleans_up() {
            self.settle(clock, lists)?;
            self.control.barrier(CLEANUP)?;
        }
        Ok(())
    }
}

impl Loop<'_> {
    /// Runs the requested iterations. Returns their number and their time (ns).
    fn count<C: Clock>(
        &mut self,
        clock: &C,
        lists: &mut impl Lists,
    ) -> Result<(u64, u64), Failure> {
        let start = clock.now();
        self.complete(clock, lists, 0, self.run.iters)?;
        Ok((self.run.iters, clock.now() - start))
    }

    /// Runs iterations for `duration` ns. Returns the number of complete ones and the time of the
    /// last list or reply (ns).
    fn last<C: Clock>(
        &mut self,
        clock: &C,
        lists: &mut impl Lists,
        duration: u64,
    ) -> Result<(u64, u64), Failure> {
        let watcher = self.policy;
        let mut timer = watcher.timer(AWAITED);
        let (mut completed, mut elapsed) = (0, 0);
        let start = clock.now();
        loop {
            let step = lists.step(clock, &mut self.policy)?;
            let now = clock.now() - start;
            let mut over = now >= duration;
            if step == Step::Waiting {
                let look = timer.miss(clock)?;
                if self.ends_with_peer {
                    over = look && self.control.peer_waits();
                }
            } else {
                timer.hit();
                elapsed = now;
                if step == Step::Complete {
                    completed += 1;
                    self.results.gauge.set(completed * self.list_size, 0);
                    interrupt::check()?;
                }
                over &= !self.ends_with_peer;
            }
            if over {
                return Ok((completed, elapsed));
            }
        }
    }

    /// Checks the number of operations that the peer has reported (defect T27 of tools.md): a rate
    /// is computed from it, and this side waits for the operations. The peer is at most two
    /// iterations ahead of `completed`, because it cannot complete an iteration without this side.
    fn check(&self, peer: SideResult, completed: u64) -> Result<(), Failure> {
        let most = completed.saturating_add(2).saturating_mul(self.list_size);
        if peer.count <= most {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "the peer reported {} operations, at most {most} are possible",
            peer.count
        ))
        .with_hint(remedy(Situation::NoDiagnostic)))
    }

    /// Returns whether a barrier follows the exchange of results (wire.md 6.3).
    fn cleans_up(&self) -> bool {
        let run = self.run;
        let both = run.lists.is_some_and(|lists| lists.bidirectional);
        both && run.rdzv && run.duration_s.is_some() && run.min_size < run.max_size
    }

    /// Completes the iteration under way, unless the peer waits at the barrier already.
    fn settle<C: Clock>(&mut self, clock: &C, lists: &mut impl Lists) -> Result<(), Failure> {
        let watcher = self.policy;
        let mut timer = watcher.timer(AWAITED);
        while lists.are_under_way()? {
            if lists.step(clock, &mut self.policy)? != Step::Waiting {
                timer.hit();
            } else if timer.miss(clock)? && self.control.peer_waits() {
                break;
            }
        }
        Ok(())
    }

    /// Runs iterations until `wanted` are complete; `completed` of them are complete already.
    fn complete<C: Clock>(
        &mut self,
        clock: &C,
        lists: &mut impl Lists,
        mut completed: u64,
        wanted: u64,
    ) -> Result<(), Failure> {
        let watcher = self.policy;
        let mut timer = watcher.timer(AWAITED);
        while completed < wanted {
            match lists.step(clock, &mut self.policy)? {
                Step::Waiting => {
                    timer.miss(clock)?;
                }
                Step::Going => timer.hit(),
                Step::Complete => {
                    timer.hit();
                    completed += 1;
                    self.results.gauge.set(completed * self.list_size, 0);
                    interrupt::check()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::bench::api::Part;
    use crate::bench::testing::{Alone, plan};

    /// A peer with a result of `lists` lists of 4 operations.
    struct ScriptedPeer {
        lists: u64,
        /// Waits at the next barrier.
        waits: bool,
        barriers: Cell<u64>,
    }

    impl ControlConnection for ScriptedPeer {
        fn barrier(&self, _: &str) -> Result<(), Failure> {
            self.barriers.set(self.barriers.get() + 1);
            Ok(())
        }

        fn results(&self, _: SideResult) -> Result<SideResult, Failure> {
            assert_eq!(self.barriers.get(), 2);
            Ok(SideResult {
                elapsed_us: 1,
                count: self.lists * 4,
            })
        }

        fn peer_waits(&self) -> bool {
            self.waits
        }
    }

    fn peer(lists: u64, waits: bool) -> ScriptedPeer {
        ScriptedPeer {
            lists,
            waits,
            barriers: Cell::new(0),
        }
    }

    /// Of four steps, the first issues a list, the third completes an iteration, the others wait.
    /// After `most` iterations all steps wait.
    struct Scripted {
        most: u64,
        steps: u64,
        issued: u64,
        completed: u64,
    }

    impl Lists for Scripted {
        fn step<C: Clock>(&mut self, _: &C, _: &mut WaitPolicy<'_>) -> Result<Step, Failure> {
            if self.completed == self.most {
                return Ok(Step::Waiting);
            }
            self.steps += 1;
            Ok(match self.steps % 4 {
                1 => {
                    self.issued += 1;
                    Step::Going
                }
                3 => {
                    self.completed += 1;
                    Step::Complete
                }
                _ => Step::Waiting,
            })
        }

        fn issued(&self) -> u64 {
            self.issued
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            Ok(!matches!(self.steps % 4, 0 | 3))
        }
    }

    fn scripted(most: u64) -> Scripted {
        Scripted {
            most,
            steps: 0,
            issued: 0,
            completed: 0,
        }
    }

    /// Waits in the second iteration until both sides have passed the second barrier.
    struct Stuck<'a> {
        scripted: Scripted,
        peer: &'a ScriptedPeer,
    }

    impl Lists for Stuck<'_> {
        fn step<C: Clock>(
            &mut self,
            clock: &C,
            policy: &mut WaitPolicy<'_>,
        ) -> Result<Step, Failure> {
            if self.scripted.issued == 2 && self.peer.barriers.get() < 2 {
                return Ok(Step::Waiting);
            }
            self.scripted.step(clock, policy)
        }

        fn issued(&self) -> u64 {
            self.scripted.issued
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            self.scripted.are_under_way()
        }
    }

    fn no_results() -> BandwidthResults {
        BandwidthResults::new(Part::Active, false, false)
    }

    /// The loop of an active side against a cxidiag peer.
    fn active<'a>(
        run: &'a RunOptions,
        peer: &'a ScriptedPeer,
        results: &'a mut BandwidthResults,
    ) -> Loop<'a> {
        Loop {
            control: peer,
            run,
            list_size: 4,
            ends_with_peer: false,
            answers: true,
            peer_ends_in_step: true,
            policy: WaitPolicy::new(&Alone),
            results,
        }
    }

    #[test]
    fn counts_iterations() {
        let run = plan("send-bw", &["-n", "5"]).run;
        let (peer, mut lists, mut results) = (peer(5, false), scripted(u64::MAX), no_results());
        active(&run, &peer, &mut results).run(&mut lists).unwrap();
        assert_eq!((lists.completed, lists.issued), (5, 5));
        assert_eq!(results.own.count, 20);
    }

    #[test]
    fn t23_completes_begun_iterations_without_counting_them() {
        // The time is up in the middle of an iteration; the peer is ahead by one.
        let run = plan("send-bw", &[]).run;
        let (ahead, mut lists, mut results) =
            (peer(1 << 40, false), scripted(u64::MAX), no_results());
        let mut measuring = active(&run, &ahead, &mut results);
        let (completed, _) = measuring.last(&MonotonicRaw, &mut lists, 0).unwrap();
        assert_eq!((completed, lists.issued), (0, 1));
        measuring
            .complete(&MonotonicRaw, &mut lists, completed, 2)
            .unwrap();
        assert_eq!((lists.completed, lists.issued), (2, 2));
    }

    /// Otherwise the loop would wait forever for operations that never arrive.
    #[test]
    fn t27_rejects_impossible_result_of_peer() {
        let run = plan("send-bw", &["-n", "5"]).run;
        for (lists, is_possible) in [(5, true), (7, true), (8, false), (u64::MAX / 4, false)] {
            let (other, mut results) = (peer(lists, false), no_results());
            let measuring = Loop {
                peer_ends_in_step: false,
                ..active(&run, &other, &mut results)
            };
            let result = measuring.run(&mut scripted(u64::MAX));
            assert_eq!(result.is_ok(), is_possible, "{lists}");
        }
    }

    /// The time is up in the middle of the second iteration, which goes on only when the peer's
    /// time is up as well. With a cxidiag peer this size completes it, with a legacy peer the next
    /// size does. Its list counts in both cases.
    #[test]
    fn t23_ends_in_step_with_cxidiag_peer() {
        let run = plan("send-bw", &["-D", "1"]).run;
        for (peer_ends_in_step, completed) in [(true, 2), (false, 1)] {
            let (peer, mut results) = (peer(1, false), no_results());
            let measuring = Loop {
                peer_ends_in_step,
                ..active(&run, &peer, &mut results)
            };
            let mut stuck = Stuck {
                scripted: scripted(u64::MAX),
                peer: &peer,
            };
            measuring.run(&mut stuck).unwrap();
            let counted = (results.own.count, stuck.scripted.completed);
            assert_eq!(counted, (8, completed), "{peer_ends_in_step}");
        }
    }

    #[test]
    fn adds_barrier_after_timed_bidirectional_rendezvous_range() {
        let has_barrier = |options: &[&str]| {
            let run = plan("send-bw", options).run;
            active(&run, &peer(0, false), &mut no_results()).cleans_up()
        };
        assert!(has_barrier(&["-D", "1", "-s", "8:16", "-b", "-R"]));
        for others in [
            &["-s", "8:16", "-b", "-R"][..],
            &["-D", "1", "-s", "8", "-b", "-R"],
            &["-D", "1", "-s", "8:16", "-R"],
            &["-D", "1", "-s", "8:16", "-b"],
        ] {
            assert!(!has_barrier(others), "{others:?}");
        }
    }

    #[test]
    fn settles_unless_peer_waits_at_barrier() {
        let run = plan("send-bw", &[]).run;
        for (most, completed) in [(u64::MAX, 1), (0, 0)] {
            let (peer, mut lists, mut results) = (peer(1, true), scripted(u64::MAX), no_results());
            let mut measuring = active(&run, &peer, &mut results);
            lists
                .step(&MonotonicRaw, &mut WaitPolicy::new(&Alone))
                .unwrap();
            lists.most = most;
            measuring.settle(&MonotonicRaw, &mut lists).unwrap();
            assert_eq!((lists.issued, lists.completed), (1, completed));
        }
    }

    #[test]
    fn answering_side_goes_on_until_peer_waits() {
        let run = plan("send-bw", &["-D", "1"]).run;
        let (peer, mut lists, mut results) = (peer(3, true), scripted(3), no_results());
        let measuring = Loop {
            ends_with_peer: true,
            ..active(&run, &peer, &mut results)
        };
        measuring.run(&mut lists).unwrap();
        assert_eq!(lists.completed, 3);
    }

    /// Without answers the sides are independent: one may be far ahead when the time is up.
    #[test]
    fn accepts_any_result_of_peer_that_answers_nothing() {
        let run = plan("send-bw", &["-n", "5"]).run;
        let (ahead, mut lists, mut results) =
            (peer(1 << 40, false), scripted(u64::MAX), no_results());
        let measuring = Loop {
            answers: false,
            ..active(&run, &ahead, &mut results)
        };
        measuring.run(&mut lists).unwrap();
        assert_eq!((lists.completed, lists.issued), (5, 5));
    }

    #[test]
    fn passive_side_waits_and_takes_result_of_peer() {
        let (peer, mut results) = (peer(3, false), no_results());
        wait_for_peer(&peer, &mut results).unwrap();
        assert_eq!(peer.barriers.get(), 2);
        assert_eq!(results.peer.map(|peer| peer.count), Some(12));
    }
}
