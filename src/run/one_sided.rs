//! A one-sided latency run: the client measures, the server provides the target.

use super::course::{Watchful, open, recorder, schedule, summarize};
use super::latency::repeat;
use super::{MonotonicRaw, Patience, loopback};
use crate::bench::api::{Measurement, OneSidedLatency, Transaction};
use crate::error::Failure;
use crate::measure::Recorder;
use crate::plan::{Plan, Role, RunOptions, Side};
use crate::report::{Extent, Reporter};
use crate::session::{self, ANSWER_LIMIT};

/// Label of the barrier behind each size (wire.md 6.2).
const POST_RUN: &str = "Post-run";

/// Carries out `plan` with benchmark `B`.
pub fn one_sided_latency<B: OneSidedLatency>(
    plan: &Plan,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    match &plan.role {
        Role::Server => serve::<B>(plan, reporter),
        Role::Client { address } => measure::<B>(plan, address, reporter),
        Role::Loopback => loopback::run(plan, |plan| one_sided_latency::<B>(plan, reporter)),
    }
}

fn serve<B: OneSidedLatency>(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    loopback::end_with_parent()?;
    let endpoint = open(plan)?;
    let (session, agreed) =
        session::serve(plan, endpoint.address(), loopback::reach(), reporter.text())?;
    summarize(reporter, plan, Side::Server, &endpoint, &session, &agreed)?;
    let target = B::target(&endpoint, agreed.peer, &agreed.run)?;
    session.ready()?;
    for size in agreed.run.sizes() {
        // The client measures for as long as it likes; its end is noticed at once.
        session.barrier(POST_RUN, None)?;
        if cfg!(debug_assertions) {
            B::check_target(&target, size)?;
        }
        reporter.server_result()?;
    }
    reporter.server_end()?;
    B::close_target(target)?;
    endpoint.close()
}

fn measure<B: OneSidedLatency>(
    plan: &Plan,
    address: &str,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    let mut recorder = recorder(&plan.run)?;
    let endpoint = open(plan)?;
    let (session, agreed) = session::join(plan, address, endpoint.address())?;
    summarize(reporter, plan, Side::Client, &endpoint, &session, &agreed)?;
    let mut initiator = B::initiator(&endpoint, agreed.peer, &agreed.run)?;
    session.ready()?;
    reporter.begin_latencies(agreed.run.report_all)?;
    for size in agreed.run.sizes() {
        recorder.clear();
        reporter.begin_size();
        let supervisor = Watchful {
            session: &session,
            endpoint: &endpoint,
            program: &plan.program,
        };
        let measurement = Loop {
            run: &agreed.run,
            supervisor: &supervisor,
            recorder: &mut recorder,
        };
        if let Err(failure) = B::measure(&mut initiator, &agreed.run, size, measurement) {
            reporter.latencies_so_far(size, &recorder)?;
            return Err(failure);
        }
        if cfg!(debug_assertions) {
            B::check_initiator(&initiator, size)?;
        }
        session.barrier(POST_RUN, Some(ANSWER_LIMIT))?;
        reporter.latencies(size, &recorder, Extent::Complete)?;
    }
    reporter.end()?;
    B::close_initiator(initiator)?;
    endpoint.close()
}

/// The loop for one size.
struct Loop<'a> {
    run: &'a RunOptions,
    supervisor: &'a Watchful<'a>,
    recorder: &'a mut Recorder,
}

impl Measurement for Loop<'_> {
    type Output = ();

    fn run(self, transaction: &mut impl Transaction) -> Result<(), Failure> {
        let mut patience = Patience::new(self.supervisor);
        repeat(
            transaction,
            &MonotonicRaw,
            schedule(self.run),
            &mut patience,
            |sample| self.recorder.record(sample),
        )
    }
}
