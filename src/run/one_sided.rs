//! A one-sided latency run: the client measures, the server provides the target.

use std::io;

use super::course::{Watchful, open, recorder, schedule, summarize};
use super::latency::repeat;
use super::{MonotonicRaw, Patience, loopback};
use crate::bench::api::{Measurement, OneSidedLatency, Transaction};
use crate::error::Failure;
use crate::measure::Recorder;
use crate::plan::{Plan, Role, RunOptions, Side};
use crate::report::text::{self, ClientTables};
use crate::session::{self, ANSWER_LIMIT};

/// Label of the barrier behind each size (wire.md 6.2).
const POST_RUN: &str = "Post-run";

/// Carries out `plan` with benchmark `B`.
pub fn one_sided_latency<B: OneSidedLatency>(plan: &Plan) -> Result<(), Failure> {
    match &plan.role {
        Role::Server => serve::<B>(plan),
        Role::Client { address } => measure::<B>(plan, address),
        Role::Loopback => loopback::run(plan, |plan| one_sided_latency::<B>(plan)),
    }
}

fn serve<B: OneSidedLatency>(plan: &Plan) -> Result<(), Failure> {
    loopback::end_with_parent()?;
    let out = &mut io::stdout().lock();
    let endpoint = open(plan)?;
    let (session, agreed) = session::serve(plan, endpoint.address(), loopback::reach(), out)?;
    summarize(out, plan, Side::Server, &endpoint, &agreed)?;
    let target = B::target(&endpoint, agreed.peer, &agreed.run)?;
    session.ready()?;
    for size in agreed.run.sizes() {
        // The client measures for as long as it likes; its end is noticed at once.
        session.barrier(POST_RUN, None)?;
        if cfg!(debug_assertions) && agreed.is_cxidiag {
            B::check_target(&target, size)?;
        }
        text::server_result(out, plan.tool).map_err(Failure::output)?;
    }
    text::server_end(out, plan.tool).map_err(Failure::output)?;
    B::close_target(target)?;
    endpoint.close()
}

fn measure<B: OneSidedLatency>(plan: &Plan, address: &str) -> Result<(), Failure> {
    let out = &mut io::stdout().lock();
    let mut recorder = recorder(&plan.run)?;
    let endpoint = open(plan)?;
    let (session, agreed) = session::join(plan, address, endpoint.address())?;
    summarize(out, plan, Side::Client, &endpoint, &agreed)?;
    let mut initiator = B::initiator(&endpoint, agreed.peer, &agreed.run)?;
    session.ready()?;
    let mut tables =
        ClientTables::begin(out, plan.tool, agreed.run.report_all).map_err(Failure::output)?;
    for size in agreed.run.sizes() {
        recorder.clear();
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
        B::measure(&mut initiator, &agreed.run, size, measurement)?;
        if cfg!(debug_assertions) && agreed.is_cxidiag {
            B::check_initiator(&initiator, size)?;
        }
        session.barrier(POST_RUN, Some(ANSWER_LIMIT))?;
        tables
            .result(size, recorder.statistics(), recorder.samples())
            .map_err(Failure::output)?;
    }
    tables.end().map_err(Failure::output)?;
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
