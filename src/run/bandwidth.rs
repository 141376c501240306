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

/// What a side waits for, in messages.
const AWAITED: &str = "list of operations";

/// Measures lists of operations of `size` bytes.
pub fn measure<B: Bandwidth>(
    context: &Context<'_>,
    resources: &mut B::Resources,
    size: u64,
    results: &mut BandwidthResults,
) -> Result<(), Failure> {
    let run = context.run;
    let list_size = run.lists()?.list_size.into();
    let list_bytes = size.saturating_mul(list_size);
    let partner = Connected {
        session: context.session,
        limit: longest_size(run, list_bytes),
    };
    let part = B::part(run, context.side);
    if !part.issues() && !B::ANSWERS {
        return wait_for_peer(&partner, results);
    }
    let measuring = Loop {
        partner: &partner,
        run,
        list_size,
        ends_with_peer: !part.issues(),
        peer_ends_in_step: context.peer_is_cxidiag,
        policy: WaitPolicy::new(context.watchdog).for_bytes(list_bytes),
        results,
    };
    B::measure(resources, run, size, measuring)
}

/// The part of a side that issues no list and answers none.
fn wait_for_peer(partner: &dyn Partner, results: &mut BandwidthResults) -> Result<(), Failure> {
    enter(Phase::PreRun);
    partner.barrier(PRE_RUN)?;
    enter(Phase::Measuring);
    partner.barrier(POST_RUN)?;
    enter(Phase::Results);
    results.peer = Some(partner.results(SideResult::default())?);
    Ok(())
}

/// The peer, as the loop sees it.
trait Partner {
    /// Waits until the peer has come to the same point.
    fn barrier(&self, point: &str) -> Result<(), Failure>;

    /// Exchanges results.
    fn results(&self, own: SideResult) -> Result<SideResult, Failure>;

    /// Whether the peer waits at the next point.
    fn speaks(&self) -> bool;
}

/// The peer at the other end of the control connection.
struct Connected<'a> {
    session: &'a Session,
    /// The longest that it may take for the size at hand.
    limit: Duration,
}

impl Partner for Connected<'_> {
    fn barrier(&self, point: &str) -> Result<(), Failure> {
        self.session.barrier(point, self.limit)
    }

    fn results(&self, own: SideResult) -> Result<SideResult, Failure> {
        self.session.results(own)
    }

    fn speaks(&self) -> bool {
        self.session.peer_speaks()
    }
}

/// The loop for one size.
///
/// The clock runs from the barrier before to the last list or answer of this side, not to the
/// barrier behind (defect T18 of tools.md). A duration may end in the middle of an iteration: a
/// list that was acknowledged counts, and then both sides complete what either has begun,
/// unmeasured, so that nothing is left over for the next size (defect T23).
///
/// A legacy peer leaves its loop wherever it is when its time is up, and takes part in nothing before
/// the next size; there it answers what it owes, or owes one answer less. So what was begun with it
/// is left as it is, and goes on in the next size. Only in timed runs of rendezvous messages in both
/// directions it completes what it has begun, before a barrier of their own (wire.md 6.3).
struct Loop<'a> {
    partner: &'a dyn Partner,
    run: &'a RunOptions,
    list_size: u64,
    /// This side only answers: in a duration run it goes on until the peer has come to its end.
    ends_with_peer: bool,
    /// The peer completes what either side has begun when the time is up.
    peer_ends_in_step: bool,
    policy: WaitPolicy<'a>,
    /// What the loop finds out, whether or not it comes to its end.
    results: &'a mut BandwidthResults,
}

impl RepeatLists for Loop<'_> {
    type Output = ();

    fn run(mut self, lists: &mut impl Lists) -> Result<(), Failure> {
        let clock = &MonotonicRaw;
        enter(Phase::PreRun);
        self.partner.barrier(PRE_RUN)?;
        enter(Phase::Measuring);
        let start = clock.now();
        let measured = match self.run.duration_s {
            None => self.count(clock, lists),
            Some(seconds) => self.last(clock, lists, u64::from(seconds) * 1_000_000_000),
        };
        let elapsed = match measured {
            Ok((_, elapsed)) => elapsed,
            Err(_) => clock.now() - start,
        };
        let own = SideResult {
            elapsed_us: (elapsed + 500) / 1000,
            count: lists.issued() * self.list_size,
        };
        self.results.own = own;
        let (completed, _) = measured?;
        enter(Phase::PostRun);
        self.partner.barrier(POST_RUN)?;
        enter(Phase::Results);
        let peer = self.partner.results(own)?;
        self.check(peer, completed)?;
        self.results.peer = Some(peer);
        enter(Phase::Settling);
        if self.peer_ends_in_step {
            let begun = own.count.max(peer.count) / self.list_size;
            self.complete(clock, lists, completed, begun)?;
        }
        if self.cleans_up() {
            self.settle(clock, lists)?;
            self.partner.barrier(CLEANUP)?;
        }
        Ok(())
    }
}

impl Loop<'_> {
    /// So many iterations as asked for. How many, and how long they took (ns).
    fn count<C: Clock>(
        &mut self,
        clock: &C,
        lists: &mut impl Lists,
    ) -> Result<(u64, u64), Failure> {
        let start = clock.now();
        self.complete(clock, lists, 0, self.run.iters)?;
        Ok((self.run.iters, clock.now() - start))
    }

    /// Iterations until `duration` (ns) is over. How many were completed, and when the last list or
    /// answer was through (ns).
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
                    over = look && self.partner.speaks();
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

    /// Fails unless the peer may have sent so much. It begins an iteration when it has completed the one
    /// before, for which it needs this side: it is ahead of `completed` by two at the most. What it says
    /// is divided by its time, and waited for (defect T27 of tools.md).
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

    /// Whether a barrier follows the results (wire.md 6.3).
    fn cleans_up(&self) -> bool {
        let run = self.run;
        let both = run.lists.is_some_and(|lists| lists.bidirectional);
        both && run.rdzv && run.duration_s.is_some() && run.min_size < run.max_size
    }

    /// Completes what is under way, as far as the peer does: one that speaks waits at the barrier.
    fn settle<C: Clock>(&mut self, clock: &C, lists: &mut impl Lists) -> Result<(), Failure> {
        let watcher = self.policy;
        let mut timer = watcher.timer(AWAITED);
        while lists.are_under_way()? {
            if lists.step(clock, &mut self.policy)? != Step::Waiting {
                timer.hit();
            } else if timer.miss(clock)? && self.partner.speaks() {
                break;
            }
        }
        Ok(())
    }

    /// Goes on from `completed` iterations to `wanted`.
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

    /// A peer whose result is this many lists of 4, and that waits at the next barrier if asked to.
    struct Other {
        lists: u64,
        speaks: bool,
        barriers: Cell<u64>,
    }

    impl Partner for Other {
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

        fn speaks(&self) -> bool {
            self.speaks
        }
    }

    fn peer(lists: u64, speaks: bool) -> Other {
        Other {
            lists,
            speaks,
            barriers: Cell::new(0),
        }
    }

    /// Issues a list in the first of four steps, completes an iteration in the third, and waits in the
    /// others. After `most` iterations it only waits.
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

    /// Waits in the second iteration until both sides are past the second barrier.
    struct Stuck<'a> {
        scripted: Scripted,
        peer: &'a Other,
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
        peer: &'a Other,
        results: &'a mut BandwidthResults,
    ) -> Loop<'a> {
        Loop {
            partner: peer,
            run,
            list_size: 4,
            ends_with_peer: false,
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

    /// The loop would wait without end for the operations of an impossible result.
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

    /// The time is up in the middle of the second iteration, which goes on only after the peer's time
    /// is up as well. With a cxidiag peer it is then completed; with a legacy peer the next size
    /// completes it. The begun list counts in both cases.
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
    fn answering_side_goes_on_until_peer_speaks() {
        let run = plan("send-bw", &["-D", "1"]).run;
        let (peer, mut lists, mut results) = (peer(3, true), scripted(3), no_results());
        let measuring = Loop {
            ends_with_peer: true,
            ..active(&run, &peer, &mut results)
        };
        measuring.run(&mut lists).unwrap();
        assert_eq!(lists.completed, 3);
    }

    #[test]
    fn passive_side_waits_and_takes_result_of_peer() {
        let (peer, mut results) = (peer(3, false), no_results());
        wait_for_peer(&peer, &mut results).unwrap();
        assert_eq!(peer.barriers.get(), 2);
        assert_eq!(results.peer.map(|peer| peer.count), Some(12));
    }
}
