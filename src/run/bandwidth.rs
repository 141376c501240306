//! A bandwidth run: lists of operations, in one direction or both.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use super::clients::Meeting;
use super::course::{Watchful, by_role, close, cut_short, longest_size, open, summarize};
use super::{Clock, MonotonicRaw, Patience};
use crate::advice::{Situation, remedy};
use crate::bench::api::{Bandwidth, Iterations, ListMeasurement, Peer, Step};
use crate::error::Failure;
use crate::interrupt;
use crate::measure::{Gauge, Rates};
use crate::phase::{Phase, enter};
use crate::plan::{Plan, RunOptions, Side};
use crate::report::{Lists, Reporter};
use crate::session::{self, PeerResult, Session};

/// Labels of the barriers around the measurement of each size (wire.md 6.3).
const PRE_RUN: &str = "Pre-run";
const POST_RUN: &str = "Post-run";
const CLEANUP: &str = "RDZV cleanup";

/// What a side waits for, in messages.
const AWAITED: &str = "list of messages";

/// Carries out `plan` with benchmark `B`.
pub fn bandwidth_run<B: Bandwidth>(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    let serve = |meeting: Meeting| run::<B>(meeting, Side::Server);
    by_role(plan, reporter, serve, |plan, address, reporter| {
        let endpoint = open(plan)?;
        let (session, agreed) = session::join(plan, address, endpoint.address())?;
        let meeting = Meeting {
            plan,
            endpoint,
            session,
            agreed,
            reporter,
        };
        run::<B>(meeting, Side::Client)
    })
}

fn run<B: Bandwidth>(meeting: Meeting, side: Side) -> Result<(), Failure> {
    let Meeting {
        plan,
        endpoint,
        session,
        agreed,
        reporter,
    } = meeting;
    let run = &agreed.run;
    let lists = run.lists()?;
    summarize(reporter, plan, side, &endpoint, &session, &agreed)?;
    let watch = Watchful::new(&session, &endpoint, plan);
    let peer = Peer {
        address: agreed.peer,
        supervisor: &watch,
    };
    let mut resources =
        B::resources(&endpoint, peer, run, side).map_err(|failure| session.tell(failure))?;
    session.ready()?;
    reporter.begin_bandwidth()?;
    let is_loopback = agreed.peer.nic == endpoint.address().nic;
    let sends = lists.bidirectional || side == Side::Client;
    let lists_of = |size, figures: Figures| {
        let doubled = is_loopback && lists.bidirectional;
        let sides = [figures.own, figures.peer.unwrap_or_default()];
        Lists {
            size,
            sides,
            rates: Rates::of(size, sides, doubled),
            sends,
            one_sided: lists.bidirectional && figures.peer.is_none(),
        }
    };
    let figures = Cell::default();
    let gauge = Arc::new(Gauge::default());
    let mut current = run.min_size;
    let measured = run.sizes().try_for_each(|size| {
        current = size;
        gauge.set(0, 0);
        reporter.begin_size(size, &gauge);
        figures.set(Figures::default());
        let list_bytes = size.saturating_mul(lists.list_size.into());
        let partner = Connected {
            session: &session,
            limit: longest_size(run, list_bytes),
        };
        let measurement = Loop {
            partner: &partner,
            run,
            list_size: lists.list_size.into(),
            ends_with_peer: !sends,
            peer_ends_in_step: agreed.is_cxidiag,
            patience: Patience::new(&watch).for_bytes(list_bytes),
            figures: &figures,
            gauge: &gauge,
        };
        B::measure(&mut resources, run, size, measurement)?;
        if cfg!(debug_assertions) && agreed.is_cxidiag {
            B::check(&resources, run, size)?;
        }
        enter(Phase::Reporting);
        reporter.bandwidth(lists_of(size, figures.take()))
    });
    if let Err(failure) = measured {
        let failure = cut_short(&session, failure);
        reporter.bandwidth_cut_short(lists_of(current, figures.get()), &failure);
        return Err(failure);
    }
    session.finish();
    enter(Phase::Releasing);
    reporter.end()?;
    B::close(resources)?;
    close(endpoint)
}

/// What is known of a size.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    own: PeerResult,
    /// Once the results are exchanged.
    peer: Option<PeerResult>,
}

/// The peer, as the loop sees it.
trait Partner {
    /// Waits until the peer has come to the same point.
    fn barrier(&self, point: &str) -> Result<(), Failure>;

    /// Exchanges results.
    fn results(&self, own: PeerResult) -> Result<PeerResult, Failure>;

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

    fn results(&self, own: PeerResult) -> Result<PeerResult, Failure> {
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
    patience: Patience<'a>,
    /// What the loop finds out, whether or not it comes to its end.
    figures: &'a Cell<Figures>,
    /// Operations of completed iterations, for another thread to look at.
    gauge: &'a Gauge,
}

impl ListMeasurement for Loop<'_> {
    type Output = ();

    fn run(mut self, iterations: &mut impl Iterations) -> Result<(), Failure> {
        let clock = &MonotonicRaw;
        enter(Phase::PreRun);
        self.partner.barrier(PRE_RUN)?;
        enter(Phase::Measuring);
        let start = clock.now();
        let measured = match self.run.duration_s {
            None => self.count(clock, iterations),
            Some(seconds) => self.last(clock, iterations, u64::from(seconds) * 1_000_000_000),
        };
        let elapsed = match measured {
            Ok((_, elapsed)) => elapsed,
            Err(_) => clock.now() - start,
        };
        let own = PeerResult {
            elapsed_us: (elapsed + 500) / 1000,
            count: iterations.lists_sent() * self.list_size,
        };
        self.figures.set(Figures { own, peer: None });
        let (completed, _) = measured?;
        enter(Phase::PostRun);
        self.partner.barrier(POST_RUN)?;
        enter(Phase::Results);
        let peer = self.partner.results(own)?;
        self.check(peer, completed)?;
        self.figures.set(Figures {
            own,
            peer: Some(peer),
        });
        enter(Phase::Settling);
        if self.peer_ends_in_step {
            let begun = own.count.max(peer.count) / self.list_size;
            self.complete(clock, iterations, completed, begun)?;
        }
        if self.cleans_up() {
            self.settle(clock, iterations)?;
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
        iterations: &mut impl Iterations,
    ) -> Result<(u64, u64), Failure> {
        let start = clock.now();
        self.complete(clock, iterations, 0, self.run.iters)?;
        Ok((self.run.iters, clock.now() - start))
    }

    /// Iterations until `duration` (ns) is over. How many were completed, and when the last list or
    /// answer was through (ns).
    fn last<C: Clock>(
        &mut self,
        clock: &C,
        iterations: &mut impl Iterations,
        duration: u64,
    ) -> Result<(u64, u64), Failure> {
        let watcher = self.patience;
        let mut vigil = watcher.vigil(AWAITED);
        let (mut completed, mut elapsed) = (0, 0);
        let start = clock.now();
        loop {
            let step = iterations.step(clock, &mut self.patience)?;
            let now = clock.now() - start;
            let mut over = now >= duration;
            if step == Step::Waiting {
                let look = vigil.miss(clock)?;
                if self.ends_with_peer {
                    over = look && self.partner.speaks();
                }
            } else {
                vigil.hit();
                elapsed = now;
                if step == Step::Complete {
                    completed += 1;
                    self.gauge.set(completed * self.list_size, 0);
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
    fn check(&self, peer: PeerResult, completed: u64) -> Result<(), Failure> {
        let most = completed.saturating_add(2).saturating_mul(self.list_size);
        if peer.count <= most {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "the peer sent what cannot be: {} messages as its result, where at most {most} can have been",
            peer.count
        ))
        .with_hint(remedy(Situation::NoDiagnostic)))
    }

    /// Whether a barrier follows the results (wire.md 6.3).
    fn cleans_up(&self) -> bool {
        let run = self.run;
        let both = run.bandwidth.is_some_and(|lists| lists.bidirectional);
        both && run.rdzv && run.duration_s.is_some() && run.min_size < run.max_size
    }

    /// Completes what is under way, as far as the peer does: one that speaks waits at the barrier.
    fn settle<C: Clock>(
        &mut self,
        clock: &C,
        iterations: &mut impl Iterations,
    ) -> Result<(), Failure> {
        let watcher = self.patience;
        let mut vigil = watcher.vigil(AWAITED);
        while iterations.are_under_way()? {
            if iterations.step(clock, &mut self.patience)? != Step::Waiting {
                vigil.hit();
            } else if vigil.miss(clock)? && self.partner.speaks() {
                break;
            }
        }
        Ok(())
    }

    /// Goes on from `completed` iterations to `wanted`.
    fn complete<C: Clock>(
        &mut self,
        clock: &C,
        iterations: &mut impl Iterations,
        mut completed: u64,
        wanted: u64,
    ) -> Result<(), Failure> {
        let watcher = self.patience;
        let mut vigil = watcher.vigil(AWAITED);
        while completed < wanted {
            match iterations.step(clock, &mut self.patience)? {
                Step::Waiting => {
                    vigil.miss(clock)?;
                }
                Step::Going => vigil.hit(),
                Step::Complete => {
                    vigil.hit();
                    completed += 1;
                    self.gauge.set(completed * self.list_size, 0);
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
    use crate::bench::testing::{Alone, plan};

    /// A peer that has sent so many lists of 4 in all, and speaks as asked.
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

        fn results(&self, _: PeerResult) -> Result<PeerResult, Failure> {
            assert_eq!(self.barriers.get(), 2);
            Ok(PeerResult {
                elapsed_us: 1,
                count: self.lists * 4,
            })
        }

        fn speaks(&self) -> bool {
            self.speaks
        }
    }

    /// Sends a list in the first of four steps, completes an iteration in the third, and waits in the
    /// others; for ever, once it has completed as many as it may.
    struct Scripted {
        most: u64,
        steps: u64,
        sent: u64,
        completed: u64,
    }

    impl Iterations for Scripted {
        fn step<C: Clock>(&mut self, _: &C, _: &mut Patience<'_>) -> Result<Step, Failure> {
            if self.completed == self.most {
                return Ok(Step::Waiting);
            }
            self.steps += 1;
            Ok(match self.steps % 4 {
                1 => {
                    self.sent += 1;
                    Step::Going
                }
                3 => {
                    self.completed += 1;
                    Step::Complete
                }
                _ => Step::Waiting,
            })
        }

        fn lists_sent(&self) -> u64 {
            self.sent
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            Ok(!matches!(self.steps % 4, 0 | 3))
        }
    }

    fn scripted(most: u64) -> Scripted {
        Scripted {
            most,
            steps: 0,
            sent: 0,
            completed: 0,
        }
    }

    fn run(options: &[&str], peer: &Other, ends_with_peer: bool) -> (Scripted, PeerResult) {
        let plan = plan("send-bw", options);
        let most = if ends_with_peer { peer.lists } else { u64::MAX };
        let figures = Cell::default();
        let measurement = Loop {
            partner: peer,
            run: &plan.run,
            list_size: 4,
            ends_with_peer,
            peer_ends_in_step: true,
            patience: Patience::new(&Alone),
            figures: &figures,
            gauge: &Gauge::default(),
        };
        let mut scripted = scripted(most);
        measurement.run(&mut scripted).unwrap();
        (scripted, figures.get().own)
    }

    fn peer(lists: u64, speaks: bool) -> Other {
        Other {
            lists,
            speaks,
            barriers: Cell::new(0),
        }
    }

    #[test]
    fn iterations_are_counted() {
        let (scripted, own) = run(&["-n", "5"], &peer(5, false), false);
        assert_eq!((scripted.completed, scripted.sent, own.count), (5, 5, 20));
    }

    #[test]
    fn t23_what_either_side_has_begun_is_completed_and_does_not_count() {
        // The time is up somewhere in an iteration; the peer is ahead by one.
        let ahead = peer(1 << 40, false);
        let mut scripted = scripted(u64::MAX);
        let plan = plan("send-bw", &[]);
        let mut measurement = Loop {
            partner: &ahead,
            run: &plan.run,
            list_size: 4,
            ends_with_peer: false,
            peer_ends_in_step: true,
            patience: Patience::new(&Alone),
            figures: &Cell::default(),
            gauge: &Gauge::default(),
        };
        let (completed, _) = measurement.last(&MonotonicRaw, &mut scripted, 0).unwrap();
        assert_eq!((completed, scripted.sent), (0, 1));
        measurement
            .complete(&MonotonicRaw, &mut scripted, completed, 2)
            .unwrap();
        assert_eq!((scripted.completed, scripted.sent), (2, 2));
    }

    /// It would be waited for without end.
    #[test]
    fn t27_a_result_that_cannot_be_is_refused() {
        let plan = plan("send-bw", &["-n", "5"]);
        for (lists, is_fine) in [(5, true), (7, true), (8, false), (u64::MAX / 4, false)] {
            let told = Told::default();
            let other = peer(lists, false);
            let result = legacy(&plan.run, &other, &told).run(&mut scripted(u64::MAX));
            assert_eq!(result.is_ok(), is_fine, "{lists}");
        }
    }

    /// The time is up in the middle of the second iteration, which goes on only when the peer has
    /// come to its end too. What was begun counts, and is completed.
    #[test]
    fn t23_a_run_ends_in_step_with_the_peer() {
        let peer = peer(1, false);
        let plan = plan("send-bw", &["-D", "1"]);
        let figures = Cell::default();
        let measurement = Loop {
            partner: &peer,
            run: &plan.run,
            list_size: 4,
            ends_with_peer: false,
            peer_ends_in_step: true,
            patience: Patience::new(&Alone),
            figures: &figures,
            gauge: &Gauge::default(),
        };
        let mut stuck = Stuck {
            scripted: scripted(u64::MAX),
            peer: &peer,
        };
        measurement.run(&mut stuck).unwrap();
        assert_eq!((figures.get().own.count, stuck.scripted.completed), (8, 2));
    }

    /// Waits in the second iteration until both sides are past the second barrier.
    struct Stuck<'a> {
        scripted: Scripted,
        peer: &'a Other,
    }

    impl Iterations for Stuck<'_> {
        fn step<C: Clock>(
            &mut self,
            clock: &C,
            patience: &mut Patience<'_>,
        ) -> Result<Step, Failure> {
            if self.scripted.sent == 2 && self.peer.barriers.get() < 2 {
                return Ok(Step::Waiting);
            }
            self.scripted.step(clock, patience)
        }

        fn lists_sent(&self) -> u64 {
            self.scripted.sent
        }

        fn are_under_way(&mut self) -> Result<bool, Failure> {
            self.scripted.are_under_way()
        }
    }

    /// The same with a legacy peer, which answers in the next size at the earliest.
    #[test]
    fn with_a_legacy_peer_the_next_size_goes_on_with_what_was_begun() {
        let peer = peer(1, false);
        let plan = plan("send-bw", &["-D", "1"]);
        let mut stuck = Stuck {
            scripted: scripted(u64::MAX),
            peer: &peer,
        };
        let told = Told::default();
        legacy(&plan.run, &peer, &told).run(&mut stuck).unwrap();
        let own = told.figures.get().own;
        assert_eq!((own.count, stuck.scripted.completed), (8, 1));
    }

    /// What a loop tells as it goes.
    #[derive(Default)]
    struct Told {
        figures: Cell<Figures>,
        gauge: Gauge,
    }

    fn legacy<'a>(run: &'a RunOptions, peer: &'a Other, told: &'a Told) -> Loop<'a> {
        Loop {
            partner: peer,
            run,
            list_size: 4,
            ends_with_peer: false,
            peer_ends_in_step: false,
            patience: Patience::new(&Alone),
            figures: &told.figures,
            gauge: &told.gauge,
        }
    }

    #[test]
    fn timed_rendezvous_ranges_in_both_directions_have_one_more_barrier() {
        let all = ["-D", "1", "-s", "8:16", "-b", "-R"];
        let cleans_up = |options: &[&str]| {
            let plan = plan("send-bw", options);
            legacy(&plan.run, &peer(0, false), &Told::default()).cleans_up()
        };
        assert!(cleans_up(&all));
        for others in [
            &["-s", "8:16", "-b", "-R"][..],
            &["-D", "1", "-s", "8", "-b", "-R"],
            &["-D", "1", "-s", "8:16", "-R"],
            &["-D", "1", "-s", "8:16", "-b"],
        ] {
            assert!(!cleans_up(others), "{others:?}");
        }
    }

    /// What is under way is completed, unless the peer waits at the barrier already.
    #[test]
    fn before_that_barrier_both_sides_settle() {
        let plan = plan("send-bw", &[]);
        for (most, completed) in [(u64::MAX, 1), (0, 0)] {
            let peer = peer(1, true);
            let mut scripted = scripted(u64::MAX);
            let told = Told::default();
            let mut measurement = legacy(&plan.run, &peer, &told);
            scripted
                .step(&MonotonicRaw, &mut Patience::new(&Alone))
                .unwrap();
            scripted.most = most;
            measurement.settle(&MonotonicRaw, &mut scripted).unwrap();
            assert_eq!((scripted.sent, scripted.completed), (1, completed));
        }
    }

    #[test]
    fn a_side_that_only_answers_goes_on_until_the_peer_speaks() {
        let (scripted, _) = run(&["-D", "1"], &peer(3, true), true);
        assert_eq!(scripted.completed, 3);
    }
}
