//! A bandwidth run: lists of operations, in one direction or both.

use std::io::{self, Write};

use super::course::{Watchful, open, summarize};
use super::{Clock, MonotonicRaw, Patience, loopback};
use crate::bench::api::{Bandwidth, Iterations, ListMeasurement, Step};
use crate::bench::common::Endpoint;
use crate::error::Failure;
use crate::measure::Rates;
use crate::plan::{self, Plan, Role, RunOptions, Side};
use crate::report::bandwidth;
use crate::session::{self, Agreed, PeerResult, Session};

/// Labels of the barriers around the measurement of each size (wire.md 6.3).
const PRE_RUN: &str = "Pre-run";
const POST_RUN: &str = "Post-run";

/// What a side waits for, in messages.
const AWAITED: &str = "list of messages";

/// Carries out `plan` with benchmark `B`.
pub fn bandwidth_run<B: Bandwidth>(plan: &Plan) -> Result<(), Failure> {
    let out = &mut io::stdout().lock();
    match &plan.role {
        Role::Server => {
            loopback::end_with_parent()?;
            let endpoint = open(plan)?;
            let (session, agreed) =
                session::serve(plan, endpoint.address(), loopback::reach(), out)?;
            run::<B>(plan, endpoint, &session, &agreed, Side::Server, out)
        }
        Role::Client { address } => {
            let endpoint = open(plan)?;
            let (session, agreed) = session::join(plan, address, endpoint.address())?;
            run::<B>(plan, endpoint, &session, &agreed, Side::Client, out)
        }
        Role::Loopback => loopback::run(plan, |plan| bandwidth_run::<B>(plan)),
    }
}

fn run<B: Bandwidth>(
    plan: &Plan,
    endpoint: Endpoint,
    session: &Session,
    agreed: &Agreed,
    side: Side,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let run = &agreed.run;
    let lists = lists(run)?;
    summarize(out, plan, side, &endpoint, agreed)?;
    let mut resources = B::resources(&endpoint, agreed.peer, run, side)?;
    session.ready()?;
    bandwidth::begin(out, plan.tool).map_err(Failure::output)?;
    let watch = Watchful {
        session,
        endpoint: &endpoint,
        program: &plan.program,
    };
    let is_loopback = agreed.peer.nic == endpoint.address().nic;
    let sends = lists.bidirectional || side == Side::Client;
    for size in run.sizes() {
        let measurement = Loop {
            session,
            run,
            list_size: lists.list_size.into(),
            ends_with_peer: !sends,
            patience: Patience::new(&watch).for_bytes(size.saturating_mul(lists.list_size.into())),
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

/// What the run does. A plan of a bandwidth tool has it.
fn lists(run: &RunOptions) -> Result<plan::Bandwidth, Failure> {
    run.bandwidth
        .ok_or_else(|| Failure::environment("the run has no list size"))
}

/// The loop for one size.
///
/// The clock runs from the barrier before to the last list or answer of this side, not to the
/// barrier behind (defect T18 of tools.md). A duration may end in the middle of an iteration: a
/// list that was acknowledged counts, and then both sides complete what either has begun,
/// unmeasured, so that nothing is left over for the next size (defect T23).
struct Loop<'a> {
    session: &'a Session,
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
        self.session.barrier(PRE_RUN, None)?;
        let (completed, elapsed) = match self.run.duration_s {
            None => self.count(clock, iterations)?,
            Some(seconds) => self.last(clock, iterations, u64::from(seconds) * 1_000_000_000)?,
        };
        self.session.barrier(POST_RUN, None)?;
        let own = PeerResult {
            elapsed_us: (elapsed + 500) / 1000,
            count: iterations.lists_sent() * self.list_size,
        };
        let peer = self.session.results(own)?;
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
                    over = look && self.session.peer_speaks();
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
