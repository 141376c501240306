//! A one-sided latency run: the client measures, the server provides the target.

use std::io::{self, Write};

use super::latency::{Limit, Schedule, repeat};
use super::{MonotonicRaw, Patience, Supervisor, loopback};
use crate::backend;
use crate::bench::api::{Measurement, OneSidedLatency, Transaction};
use crate::bench::common::Endpoint;
use crate::error::Failure;
use crate::measure::Recorder;
use crate::plan::{Plan, Role, RunOptions};
use crate::report::text::{self, ClientTables, Side, Summary};
use crate::session::{self, ANSWER_LIMIT, Agreed, Session};

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
    let (mut session, agreed) = session::serve(plan, endpoint.address(), loopback::reach(), out)?;
    summarize(out, plan, Side::Server, &endpoint, &agreed)?;
    let target = B::target(&endpoint, agreed.peer, &agreed.run)?;
    session.ready()?;
    for size in agreed.run.sizes() {
        // The client measures for as long as it likes; its end is noticed at once.
        session.barrier(POST_RUN, None)?;
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
    let (mut session, agreed) = session::join(plan, address, endpoint.address())?;
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
        session.barrier(POST_RUN, Some(ANSWER_LIMIT))?;
        tables
            .result(size, recorder.statistics(), recorder.samples())
            .map_err(Failure::output)?;
    }
    tables.end().map_err(Failure::output)?;
    B::close_initiator(initiator)?;
    endpoint.close()
}

/// The device and an address on it, with what the user should know about them.
fn open(plan: &Plan) -> Result<Endpoint, Failure> {
    let endpoint = Endpoint::new(plan, backend::open(plan)?)?;
    for warning in endpoint.warnings() {
        // Nobody else could be told.
        let _ = writeln!(io::stderr(), "{}: {warning}", plan.program);
    }
    Ok(endpoint)
}

fn summarize(
    out: &mut impl Write,
    plan: &Plan,
    side: Side,
    endpoint: &Endpoint,
    agreed: &Agreed,
) -> Result<(), Failure> {
    let summary = Summary {
        tool: plan.tool,
        side,
        device: plan.device,
        svc_id: plan.svc_id,
        run: &agreed.run,
        own: endpoint.address(),
        peer: agreed.peer,
    };
    text::summary(out, &summary)
        .and_then(|()| out.flush())
        .map_err(Failure::output)
}

fn recorder(run: &RunOptions) -> Result<Recorder, Failure> {
    Recorder::new(run.report_all.then_some(run.iters))
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

fn schedule(run: &RunOptions) -> Schedule {
    Schedule {
        limit: match run.duration_s {
            Some(seconds) => Limit::Duration(u64::from(seconds) * 1_000_000_000),
            None => Limit::Iterations(run.iters),
        },
        warmup: run.warmup,
        gap: run.gap_us * 1000,
    }
}

/// Watches the control connection while the NIC is waited for, and tells the user.
struct Watchful<'a> {
    session: &'a Session,
    endpoint: &'a Endpoint,
    program: &'a str,
}

impl Supervisor for Watchful<'_> {
    fn peer_is_there(&self) -> Result<(), Failure> {
        if self.session.peer_alive() {
            return Ok(());
        }
        let peer = self.session.peer();
        Err(Failure::peer(format!(
            "the peer ({peer}) closed the connection in the middle of the run: it failed or was killed"
        )))
    }

    fn slow(&self, operation: &str, waited: u64, limit: u64) {
        let _ = writeln!(
            io::stderr(),
            "{}: no answer to a {operation} for {waited} s; giving up after {limit} s",
            self.program
        );
    }

    fn no_answer(&self, operation: &str, waited: u64) -> Failure {
        let failure = Failure::nic(format!("no answer to a {operation} within {waited} s"));
        let info = self.endpoint.device().info();
        failure.with_hint(if info.retry_handler_eq == 0 {
            format!(
                "the retry handler is not running: start the service cxi_rh@{}",
                info.name
            )
        } else {
            "check the links of both NICs, the switch, and whether the peer's node still runs"
                .into()
        })
    }
}
