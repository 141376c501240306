//! What every run has in common: the device, the summary, and somebody who watches.

use std::io::{self, Write};
use std::time::Duration;

use super::clients::{self, Meeting};
use super::latency::{Limit, Schedule};
use super::{Patience, Supervisor, loopback};
use crate::advice::{Situation, remedy};
use crate::backend;
use crate::bench::common::Endpoint;
use crate::buffers::Need;
use crate::error::{Failure, Kind};
use crate::gpu;
use crate::interrupt;
use crate::machine::Machine;
use crate::measure::Recorder;
use crate::phase::{Phase, enter};
use crate::placement::Placement;
use crate::plan::{Plan, Role, RunOptions, Side};
use crate::report::Reporter;
use crate::report::text::Summary;
use crate::session::{ANSWER_LIMIT, Agreed, Session};

/// Looks at the machine before anything is opened: where `plan` is to run, which the result says, and
/// whether there is room for the buffers of the sides that this process begins. A server learns from its
/// client what it needs.
pub fn place(plan: &Plan) -> Result<Plan, Failure> {
    let machine = Machine::this();
    let placement = Placement::choose(plan, &machine, loopback::is_second())?;
    let sides: &[Side] = match plan.role {
        Role::Server => &[],
        Role::Client { .. } => &[Side::Client],
        Role::Loopback => &[Side::Client, Side::Server],
    };
    Need::of(plan.tool, &plan.run, sides, plan.gpus).check(&machine, placement.node)?;
    Ok(Plan {
        placement,
        ..plan.clone()
    })
}

/// Carries out the part that `plan` gives this process: `serve` with each client, `measure` with the server
/// at an address, or that with a server of its own.
pub fn by_role(
    plan: &Plan,
    reporter: &mut Reporter,
    serve: impl Fn(Meeting) -> Result<(), Failure>,
    measure: impl FnOnce(&Plan, &str, &mut Reporter) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match &plan.role {
        Role::Server => clients::serve(plan, reporter, serve),
        Role::Client { address } => measure(plan, address, reporter),
        Role::Loopback => loopback::run(plan, |plan, address| measure(plan, address, reporter)),
    }
}

/// The device and an address on it, with what the user should know about them.
pub fn open(plan: &Plan) -> Result<Endpoint, Failure> {
    enter(Phase::Opening);
    // Before this thread takes its place: those of a GPU runtime would inherit it.
    let gpus = gpu::open(&plan.gpus)?;
    let endpoint = Endpoint::new(plan, gpus, backend::open(plan)?)?;
    for warning in endpoint.warnings() {
        // Nobody else could be told.
        let _ = writeln!(io::stderr(), "{}: {warning}", plan.program);
    }
    Ok(endpoint)
}

/// Tells that both sides have met. A server looks before whether it has room for what its client wants.
pub fn summarize(
    reporter: &mut Reporter,
    plan: &Plan,
    side: Side,
    endpoint: &Endpoint,
    session: &Session,
    agreed: &Agreed,
) -> Result<(), Failure> {
    enter(Phase::SetUp);
    if side == Side::Server {
        let need = Need::of(plan.tool, &agreed.run, &[side], plan.gpus);
        let checked = need.check(&Machine::this(), plan.placement.node);
        checked.map_err(|failure| session.tell(failure))?;
    }
    let summary = Summary {
        tool: plan.tool,
        side,
        device: plan.device,
        simulated: endpoint.device().info().is_simulated(),
        svc_id: plan.svc_id,
        run: &agreed.run,
        own: endpoint.address(),
        peer: agreed.peer,
        gpu_count: endpoint.gpus().map_or(0, |gpus| gpus.count()),
        peer_gpus: agreed.peer_gpus,
        cpus: &plan.placement.cpus,
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

impl Watchful<'_> {
    fn device(&self) -> &str {
        &self.endpoint.device().info().name
    }

    fn retry_handler_runs(&self) -> bool {
        self.endpoint.device().info().retry_handler_eq != 0
    }
}

impl Supervisor for Watchful<'_> {
    fn peer_is_there(&self) -> Result<(), Failure> {
        interrupt::check()?;
        self.session.check_peer(MID_RUN)
    }

    fn slow(&self, operation: &str, waited: u64, limit: u64) {
        let handler = match self.retry_handler_runs() {
            true => String::new(),
            false => format!(" (the retry handler of {} is not running)", self.device()),
        };
        let _ = writeln!(
            io::stderr(),
            "{}: no answer to a {operation} for {waited} s{handler}; giving up after {limit} s",
            self.program
        );
    }

    fn no_answer(&self, operation: &str, waited: u64) -> Failure {
        let failure = Failure::nic(format!("no answer to a {operation} within {waited} s"));
        failure.with_hint(match self.retry_handler_runs() {
            true => remedy(Situation::NoAnswer).to_owned(),
            false => {
                let remedy = remedy(Situation::NoRetryHandler);
                format!(
                    "the retry handler of {0} is not running: {1}",
                    self.device(),
                    remedy.replace("cxiN", self.device())
                )
            }
        })
    }
}
