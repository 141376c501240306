//! A process that measures with the NICs of its node, as the coordinator orders.

use std::time::{Duration, Instant};

use super::load_watch::LoadWatch;
use super::request::{self, ProcessSource, SurveyRequest};
use cluster::launcher::LauncherTask;
use cluster::meeting_point::Coordinator;
use cluster::survey::timetable::{Course, Introduction};
use cluster::tree::{Meeting, Member, Order};
use diag::run::survey::{NicPlan, Nics, TestPlan};
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::host::host_name;
use facts::interrupt;
use node::backend;
use node::machine::Machine;
use plan::tool::Tool;
use plan::tools::TOOLS;

/// How long a process tries to reach one coordinator.
const ATTEMPT: Duration = Duration::from_secs(15);

/// Pause before the next attempt: a coordinator notes each process that it refuses.
const PAUSE: Duration = Duration::from_secs(1);

/// The identity of a process in the survey.
#[derive(Clone, Debug)]
pub struct ProcessIdentity {
    rank: u32,
    size: u32,
    host: String,
    topology: Option<String>,
}

impl ProcessIdentity {
    /// Returns the identity of the process with this `rank` among `size`. `task` adds its node and
    /// topology.
    pub fn new(rank: u32, size: u32, task: Option<&LauncherTask>) -> Self {
        Self {
            rank,
            size,
            host: task
                .and_then(|task| task.node.clone())
                .unwrap_or_else(host_name),
            topology: task.and_then(|task| task.topology.clone()),
        }
    }
}

/// Opens NICs by their plans, joins the survey within `limit`, and measures until its end.
/// `coordinator` finds the coordinator; it stops searching at the given instant.
///
/// # Errors
///
/// A coordinator that is not found, refuses this process or ends, and an interruption.
pub fn run(
    plans: Vec<NicPlan>,
    identity: ProcessIdentity,
    limit: Duration,
    coordinator: impl Fn(Instant) -> Result<Coordinator, Failure>,
) -> Result<(), Failure> {
    let mut load = LoadWatch::begin();
    let mut nics = Nics::open(plans)?;
    let rank = identity.rank;
    let introduction = Introduction {
        rank,
        size: identity.size,
        host: identity.host,
        topology: identity.topology,
        nics: nics.facts(),
    };
    let end = Instant::now() + limit;
    let member = join(&introduction, end, coordinator)?;
    let mut measured = Vec::new();
    loop {
        match member.next()? {
            Order::Course(course) => match tests(&course) {
                Ok(tests) => {
                    nics.begin(rank, &course, &tests);
                    measured = course.tests;
                }
                Err(failure) => {
                    member.fail(&failure.message());
                    return Err(failure);
                }
            },
            Order::Block(block) => {
                let mut report = nics.run(&block, |ns| member.local(ns));
                report.load = load.of(&report.results, &measured);
                member.report(report)?;
            }
            Order::End => break,
        }
    }
    member.end();
    Ok(())
}

/// Joins the survey. Looks for the coordinator again after a failure, because a killed coordinator
/// may have left its meeting point.
///
/// # Errors
///
/// A coordinator that is not found or refuses this process, and an interruption.
pub fn join(
    introduction: &Introduction,
    end: Instant,
    coordinator: impl Fn(Instant) -> Result<Coordinator, Failure>,
) -> Result<Member, Failure> {
    loop {
        let Coordinator {
            addresses, token, ..
        } = coordinator(end)?;
        let meeting = Meeting { addresses, token };
        let joined = Member::join(&meeting, introduction.clone(), ATTEMPT);
        match joined {
            Err(failure)
                if failure.kind != Kind::Interrupted
                    && !failure.is_printed()
                    && Instant::now() + PAUSE < end =>
            {
                interrupt::wait_for_any(&mut Vec::new(), Some(PAUSE))?;
            }
            joined => return joined,
        }
    }
}

/// Returns the plans of the NICs of a process with this `identity`.
///
/// # Errors
///
/// Invalid options.
pub fn own_plans(
    request: &SurveyRequest,
    identity: &ProcessIdentity,
) -> Result<Vec<NicPlan>, Failure> {
    let devices = match request.processes {
        ProcessSource::Loopback(_) => vec![DeviceName::software(identity.rank)],
        _ => request.devices.clone(),
    };
    let first = &request.tests[0];
    plans(devices, first.plan.tool, &first.arguments)
}

/// Returns the plans of these NICs, with arguments of `tool`. Without `devices`, returns the plans
/// of all hardware NICs.
///
/// # Errors
///
/// Invalid arguments.
pub fn plans(
    mut devices: Vec<DeviceName>,
    tool: &'static Tool,
    arguments: &[String],
) -> Result<Vec<NicPlan>, Failure> {
    let plan = request::plan(tool, arguments)?;
    if devices.is_empty() {
        devices = hardware();
    }
    let of_device = |device: DeviceName| {
        let libcxi = plan.libcxi.clone();
        NicPlan {
            device,
            service: plan.service_options,
            libcxi: libcxi.filter(|_| device.platform().loads_library),
            cpus: plan.cpus.clone(),
        }
    };
    Ok(devices.into_iter().map(of_device).collect())
}

/// Returns the hardware NICs of this machine.
fn hardware() -> Vec<DeviceName> {
    let (found, _) = backend::devices(&[], None, &Machine::this());
    let names = found.iter().map(|found| found.name);
    names.filter(|name| name.platform().is_listed).collect()
}

/// Returns the tests of a course.
fn tests(course: &Course) -> Result<Vec<TestPlan>, Failure> {
    let tests = course.tests.iter().zip(&course.arguments);
    let of_test = tests.map(|(test, arguments)| {
        let tool = TOOLS.iter().find(|tool| tool.name == test.tool);
        let tool = tool.ok_or_else(|| {
            Failure::environment(format!("this version has no tool {}", test.tool))
        })?;
        request::test_plan(tool, arguments)
    });
    of_test.collect()
}
