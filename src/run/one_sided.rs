//! A one-sided latency run: the client measures, the server provides the target.

use std::io::{self, Write};

use super::clients::{self, Meeting};
use super::course::{Watchful, longest_size, open, recorder, schedule, summarize};
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
        Role::Server => clients::serve(plan, &mut io::stdout().lock(), serve::<B, _>),
        Role::Client { address } => measure::<B>(plan, address),
        Role::Loopback => loopback::run(plan, |plan| one_sided_latency::<B>(plan)),
    }
}

fn serve<B: OneSidedLatency, W: Write>(meeting: Meeting<'_, W>) -> Result<(), Failure> {
    let Meeting {
        plan,
        endpoint,
        session,
        agreed,
        out,
    } = meeting;
    summarize(out, plan, Side::Server, &endpoint, &agreed)?;
    let target = B::target(&endpoint, agreed.peer, &agreed.run)?;
    session.ready()?;
    for size in agreed.run.sizes() {
        session.barrier(POST_RUN, longest_size(&agreed.run, size))?;
        if cfg!(debug_assertions) {
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
        if cfg!(debug_assertions) {
            B::check_initiator(&initiator, size)?;
        }
        session.barrier(POST_RUN, ANSWER_LIMIT)?;
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
