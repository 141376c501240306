//! What every run has in common: the device, the summary, and somebody who watches.

use std::io::{self, Write};
use std::time::Duration;

use super::latency::{Limit, Schedule};
use super::{Patience, Supervisor};
use crate::backend;
use crate::bench::common::Endpoint;
use crate::error::{Failure, Kind};
use crate::interrupt;
use crate::measure::Recorder;
use crate::phase::{Phase, enter};
use crate::plan::{Plan, RunOptions, Side};
use crate::report::Reporter;
use crate::report::text::Summary;
use crate::session::{ANSWER_LIMIT, Agreed, Session};

/// The device and an address on it, with what the user should know about them.
pub fn open(plan: &Plan) -> Result<Endpoint, Failure> {
    enter(Phase::Opening);
    let endpoint = Endpoint::new(plan, backend::open(plan)?)?;
    for warning in endpoint.warnings() {
        // Nobody else could be told.
        let _ = writeln!(io::stderr(), "{}: {warning}", plan.program);
    }
    Ok(endpoint)
}

/// Tells that both sides have met.
pub fn summarize(
    reporter: &mut Reporter,
    plan: &Plan,
    side: Side,
    endpoint: &Endpoint,
    session: &Session,
    agreed: &Agreed,
) -> Result<(), Failure> {
    enter(Phase::SetUp);
    let summary = Summary {
        tool: plan.tool,
        side,
        device: plan.device,
        simulated: endpoint.device().info().is_simulated(),
        svc_id: plan.svc_id,
        run: &agreed.run,
        own: endpoint.address(),
        peer: agreed.peer,
    };
    reporter.met(&summary, session.peer())
}

/// A recorder of the latencies of one size.
pub fn recorder(run: &RunOptions) -> Result<Recorder, Failure> {
    Recorder::new(run.report_all.then_some(run.iters))
}

/// The course of the loop for one size.
pub fn schedule(run: &RunOptions) -> Schedule {
    Schedule {
        limit: match run.duration_s {
            Some(seconds) => Limit::Duration(u64::from(seconds) * 1_000_000_000),
            None => Limit::Iterations(run.iters),
        },
        warmup: run.warmup,
        gap: run.gap_us * 1000,
    }
}

/// When a run fails that has begun to measure, in messages.
const MID_RUN: &str = "in the middle of the run";

/// The failure that ends a run in the middle, when the peer has been told. Call it before anything
/// is released or printed: the peer should learn of an interruption before it meets its consequences.
pub fn cut_short(session: &Session, failure: Failure) -> Failure {
    let failure = session.cause(failure, MID_RUN);
    if matches!(failure.kind, Kind::Interrupted | Kind::OutputClosed) {
        session.say_farewell();
    }
    failure
}

/// Ends a run that has done its work. A signal that came too late to cut it short still tells in the
/// exit status.
pub fn close(endpoint: Endpoint) -> Result<(), Failure> {
    endpoint.close()?;
    interrupt::check()
}

/// The longest that a peer may take for one iteration, where each of its waits moves so many bytes:
/// two waits, the pause, and the answer that both wait for.
pub fn longest_iteration(run: &RunOptions, bytes: u64) -> Duration {
    (Patience::longest(bytes) * 2)
        .saturating_add(Duration::from_micros(run.gap_us))
        .saturating_add(ANSWER_LIMIT)
}

/// The same for one size. A barrier has no other limit where one side waits for all of the
/// other's measurement: whatever is slower has failed, or is stopped.
pub fn longest_size(run: &RunOptions, bytes: u64) -> Duration {
    let one = longest_iteration(run, bytes);
    let count = match run.duration_s {
        Some(_) => run.warmup.saturating_add(1),
        None => run.warmup.saturating_add(run.iters),
    };
    let measured = run.duration_s.map_or(0, u64::from);
    one.saturating_mul(count.try_into().unwrap_or(u32::MAX))
        .saturating_add(Duration::from_secs(measured))
}

/// Watches the control connection while the NIC is waited for, and tells the user.
pub struct Watchful<'a> {
    /// The control connection.
    session: &'a Session,
    /// This side's place on the fabric.
    endpoint: &'a Endpoint,
    /// Who tells, for messages.
    program: &'a str,
}

impl<'a> Watchful<'a> {
    /// For a run of `plan`.
    pub fn new(session: &'a Session, endpoint: &'a Endpoint, plan: &'a Plan) -> Self {
        Self {
            session,
            endpoint,
            program: &plan.program,
        }
    }
}

impl Supervisor for Watchful<'_> {
    fn peer_is_there(&self) -> Result<(), Failure> {
        interrupt::check()?;
        self.session.check_peer(MID_RUN)
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
