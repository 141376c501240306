//! A bandwidth run: lists of operations, in one direction or both.

use std::cell::Cell;
use std::io::Write;
use std::time::Duration;

use super::clients::{self, Meeting};
use super::course::{Watchful, close, cut_short, longest_size, open, summarize};
use super::{Clock, MonotonicRaw, Patience, loopback};
use crate::bench::api::{Bandwidth, Iterations, ListMeasurement, Peer, Step};
use crate::error::Failure;
use crate::interrupt;
use crate::measure::Rates;
use crate::phase::{Phase, enter};
use crate::plan::{Plan, Role, RunOptions, Side};
use crate::report::bandwidth;
use crate::report::output::Output;
use crate::session::{self, PeerResult, Session};

/// Labels of the barriers around the measurement of each size (wire.md 6.3).
const PRE_RUN: &str = "Pre-run";
const POST_RUN: &str = "Post-run";

/// What a side waits for, in messages.
const AWAITED: &str = "list of messages";

/// Carries out `plan` with benchmark `B`.
pub fn bandwidth_run<B: Bandwidth>(plan: &Plan) -> Result<(), Failure> {
    let out = &mut Output::new();
    match &plan.role {
        Role::Server => clients::serve(plan, out, |meeting| run::<B>(meeting, Side::Server)),
        Role::Client { address } => {
            let endpoint = open(plan)?;
            let (session, agreed) = session::join(plan, address, endpoint.address())?;
            let meeting = Meeting {
                plan,
                endpoint,
                session,
                agreed,
                out,
            };
            run::<B>(meeting, Side::Client)
        }
        Role::Loopback => loopback::run(plan, |plan| bandwidth_run::<B>(plan)),
    }
}

fn run<B: Bandwidth>(meeting: Meeting<'_, impl Write>, side: Side) -> Result<(), Failure> {
    let Meeting {
        plan,
        endpoint,
        session,
        agreed,
        out,
    } = meeting;
    let run = &agreed.run;
    let lists = run.lists()?;
    summarize(out, plan, side, &endpoint, &agreed)?;
    let watch = Watchful::new(&session, &endpoint, plan);
    let peer = Peer {
        address: agreed.peer,
        supervisor: &watch,
    };
    let mut resources = B::resources(&endpoint, peer, run, side)?;
    session.ready()?;
    bandwidth::begin(out, plan.tool).map_err(Failure::output)?;
    let is_loopback = agreed.peer.nic == endpoint.address().nic;
    let sends = lists.bidirectional || side == Side::Client;
    let row = |out: &mut _, size, figures: Figures| {
        let peer = figures.peer.unwrap_or_default();
        let rates = Rates::of(
            size,
            [figures.own, peer],
            is_loopback && lists.bidirectional,
        );
        let count = sends.then_some(figures.own.count);
        bandwidth::result(out, plan.tool, size, count, rates).map_err(Failure::output)
    };
    let figures = Cell::default();
    let mut current = run.min_size;
    let measured = run.sizes().try_for_each(|size| {
        current = size;
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
            patience: Patience::new(&watch).for_bytes(list_bytes),
            figures: &figures,
        };
        B::measure(&mut resources, run, size, measurement)?;
        if cfg!(debug_assertions) && agreed.is_cxidiag {
            B::check(&resources, run, size)?;
        }
        enter(Phase::Reporting);
        row(out, size, figures.take())
    });
    if let Err(failure) = measured {
        let failure = cut_short(&session, failure);
        let figures = figures.get();
        let one_sided = lists.bidirectional && figures.own.count > 0 && figures.peer.is_none();
        let written = match figures.own.count {
            0 => Ok(()),
            _ => row(out, current, figures),
        };
        // The failure counts, not what cannot be written.
        let _ = written.map(|()| bandwidth::cut_short(out, plan.tool, &failure, one_sided));
        return Err(failure);
    }
    session.finish();
    enter(Phase::Releasing);
    bandwidth::end(out, plan.tool).map_err(Failure::output)?;
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
struct Loop<'a> {
    partner: &'a dyn Partner,
    run: &'a RunOptions,
    list_size: u64,
    /// This side only answers: in a duration run it goes on until the peer has come to its end.
    ends_with_peer: bool,
    patience: Patience<'a>,
    /// What the loop finds out, whether or not it comes to its end.
    figures: &'a Cell<Figures>,
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
        self.figures.set(Figures {
            own,
            peer: Some(peer),
        });
        enter(Phase::Settling);
        let begun = own.count.max(peer.count) / self.list_size;
        self.complete(clock, iterations, completed, begun)
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
                    interrupt::check()?;
                }
                over &= !self.ends_with_peer;
            }
            if over {
                return Ok((completed, elapsed));
            }
        }
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
            patience: Patience::new(&Alone),
            figures: &figures,
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
            patience: Patience::new(&Alone),
            figures: &Cell::default(),
        };
        let (completed, _) = measurement.last(&MonotonicRaw, &mut scripted, 0).unwrap();
        assert_eq!((completed, scripted.sent), (0, 1));
        measurement
            .complete(&MonotonicRaw, &mut scripted, completed, 2)
            .unwrap();
        assert_eq!((scripted.completed, scripted.sent), (2, 2));
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
            patience: Patience::new(&Alone),
            figures: &figures,
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
    }

    #[test]
    fn a_side_that_only_answers_goes_on_until_the_peer_speaks() {
        let (scripted, _) = run(&["-D", "1"], &peer(3, true), true);
        assert_eq!(scripted.completed, 3);
    }
}
