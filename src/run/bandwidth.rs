//! A bandwidth run: lists of operations, in one direction or both.

use std::io::{self, Write};
use std::time::Duration;

use super::clients::{self, Meeting};
use super::course::{Watchful, longest_size, open, summarize};
use super::{Clock, MonotonicRaw, Patience, loopback};
use crate::bench::api::{Bandwidth, Iterations, ListMeasurement, Step};
use crate::error::Failure;
use crate::measure::Rates;
use crate::plan::{Plan, Role, RunOptions, Side};
use crate::report::bandwidth;
use crate::session::{self, PeerResult, Session};

/// Labels of the barriers around the measurement of each size (wire.md 6.3).
const PRE_RUN: &str = "Pre-run";
const POST_RUN: &str = "Post-run";

/// What a side waits for, in messages.
const AWAITED: &str = "list of messages";

/// Carries out `plan` with benchmark `B`.
pub fn bandwidth_run<B: Bandwidth>(plan: &Plan) -> Result<(), Failure> {
    let out = &mut io::stdout().lock();
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
    let mut resources = B::resources(&endpoint, agreed.peer, run, side)?;
    session.ready()?;
    bandwidth::begin(out, plan.tool).map_err(Failure::output)?;
    let watch = Watchful {
        session: &session,
        endpoint: &endpoint,
        program: &plan.program,
    };
    let is_loopback = agreed.peer.nic == endpoint.address().nic;
    let sends = lists.bidirectional || side == Side::Client;
    for size in run.sizes() {
        let list_bytes = size.saturating_mul(lists.list_size.into());
        let partner = Peer {
            session: &session,
            limit: longest_size(run, list_bytes),
        };
        let measurement = Loop {
            partner: &partner,
            run,
            list_size: lists.list_size.into(),
            ends_with_peer: !sends,
            patience: Patience::new(&watch).for_bytes(list_bytes),
        };
        let [own, peer] = B::measure(&mut resources, run, size, measurement)?;
        if cfg!(debug_assertions) {
            B::check(&resources, run, size)?;
        }
        let rates = Rates::of(size, [own, peer], is_loopback && lists.bidirectional);
        let count = sends.then_some(own.count);
        bandwidth::result(out, plan.tool, size, count, rates).map_err(Failure::output)?;
    }
    bandwidth::end(out, plan.tool).map_err(Failure::output)?;
    B::close(resources)?;
    endpoint.close()
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
struct Peer<'a> {
    session: &'a Session,
    /// The longest that it may take for the size at hand.
    limit: Duration,
}

impl Partner for Peer<'_> {
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
}

impl ListMeasurement for Loop<'_> {
    type Output = [PeerResult; 2];

    fn run(mut self, iterations: &mut impl Iterations) -> Result<[PeerResult; 2], Failure> {
        let clock = &MonotonicRaw;
        self.partner.barrier(PRE_RUN)?;
        let (completed, elapsed) = match self.run.duration_s {
            None => self.count(clock, iterations)?,
            Some(seconds) => self.last(clock, iterations, u64::from(seconds) * 1_000_000_000)?,
        };
        self.partner.barrier(POST_RUN)?;
        let own = PeerResult {
            elapsed_us: (elapsed + 500) / 1000,
            count: iterations.lists_sent() * self.list_size,
        };
        let peer = self.partner.results(own)?;
        let begun = own.count.max(peer.count) / self.list_size;
        self.complete(clock, iterations, completed, begun)?;
        Ok([own, peer])
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
                completed += u64::from(step == Step::Complete);
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
    struct Peer {
        lists: u64,
        speaks: bool,
        barriers: Cell<u64>,
    }

    impl Partner for Peer {
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

    fn run(options: &[&str], peer: &Peer, ends_with_peer: bool) -> (Scripted, [PeerResult; 2]) {
        let plan = plan("send-bw", options);
        let most = if ends_with_peer { peer.lists } else { u64::MAX };
        let measurement = Loop {
            partner: peer,
            run: &plan.run,
            list_size: 4,
            ends_with_peer,
            patience: Patience::new(&Alone),
        };
        let mut scripted = scripted(most);
        let results = measurement.run(&mut scripted).unwrap();
        (scripted, results)
    }

    fn peer(lists: u64, speaks: bool) -> Peer {
        Peer {
            lists,
            speaks,
            barriers: Cell::new(0),
        }
    }

    #[test]
    fn iterations_are_counted() {
        let (scripted, [own, _]) = run(&["-n", "5"], &peer(5, false), false);
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
        let measurement = Loop {
            partner: &peer,
            run: &plan.run,
            list_size: 4,
            ends_with_peer: false,
            patience: Patience::new(&Alone),
        };
        let mut stuck = Stuck {
            scripted: scripted(u64::MAX),
            peer: &peer,
        };
        let [own, _] = measurement.run(&mut stuck).unwrap();
        assert_eq!((own.count, stuck.scripted.completed), (8, 2));
    }

    /// Waits in the second iteration until both sides are past the second barrier.
    struct Stuck<'a> {
        scripted: Scripted,
        peer: &'a Peer,
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
