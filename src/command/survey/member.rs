//! A process that measures with the NICs of its node, as the coordinator orders.

use std::time::{Duration, Instant};

use super::asked::{self, Asked, Processes};
use crate::backend;
use crate::device::{DeviceKind, DeviceName};
use crate::error::{Failure, Kind};
use crate::launcher::Task;
use crate::machine::{Machine, host_name};
use crate::meeting_point::Coordinator;
use crate::run::survey::{NicPlan, Nics, TestPlan};
use crate::session::tree::{JOIN_LIMIT, Meeting, Member, Order};
use crate::survey::timetable::{Course, Introduction};
use crate::tools::TOOLS;

/// How long a process tries to reach one coordinator.
const ATTEMPT: Duration = Duration::from_secs(15);

/// The place of a process in the survey.
#[derive(Clone, Debug)]
pub struct Place {
    rank: u32,
    size: u32,
    host: String,
    topology: Option<String>,
}

impl Place {
    /// Returns the place of the process of `rank` among `size`, which `task` describes further.
    pub fn new(rank: u32, size: u32, task: Option<&Task>) -> Self {
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

/// Opens the NICs, joins the survey, and measures until its end. `coordinator` finds the coordinator,
/// until this instant.
///
/// # Errors
///
/// A coordinator that is not found, refuses this process or ends, and an interruption.
pub fn run(
    asked: &Asked,
    place: Place,
    coordinator: impl Fn(Instant) -> Result<Coordinator, Failure>,
) -> Result<(), Failure> {
    let mut nics = Nics::open(plans(asked, &place)?)?;
    let rank = place.rank;
    let introduction = Introduction {
        rank,
        size: place.size,
        host: place.host,
        topology: place.topology,
        nics: nics.facts(),
    };
    let end = Instant::now() + JOIN_LIMIT;
    let member = join(&introduction, end, coordinator)?;
    loop {
        match member.next()? {
            Order::Course(course) => nics.begin(rank, &course, &tests(&course)?),
            Order::Block(block) => {
                let report = nics.run(&block, |ns| member.local(ns));
                member.report(report)?;
            }
            Order::End => break,
        }
    }
    member.end();
    nics.close();
    Ok(())
}

/// Joins the survey. A coordinator that was killed may have left its meeting point, so the coordinator
/// is looked for again.
fn join(
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
            Err(failure) if failure.kind != Kind::Interrupted && Instant::now() < end => {}
            joined => return joined,
        }
    }
}

/// Returns how each NIC of this process is opened.
fn plans(asked: &Asked, place: &Place) -> Result<Vec<NicPlan>, Failure> {
    let devices = match (&asked.processes, asked.devices.as_slice()) {
        (Processes::Loopback(_), _) => vec![DeviceName {
            kind: DeviceKind::Software,
            index: place.rank,
        }],
        (_, []) => hardware(),
        (_, named) => named.to_vec(),
    };
    let first = &asked.tests[0];
    let tool = TOOLS.iter().find(|tool| tool.name == first.test.tool);
    let plan = asked::plan(tool.unwrap_or(&TOOLS[0]), &first.arguments)?;
    let of_device = |device| NicPlan {
        device,
        service: plan.service_options,
        libcxi: plan
            .libcxi
            .clone()
            .filter(|_| device.kind == DeviceKind::Hardware),
        cpus: plan.cpus.clone(),
    };
    Ok(devices.into_iter().map(of_device).collect())
}

/// Returns the hardware NICs of this machine.
fn hardware() -> Vec<DeviceName> {
    let (found, _) = backend::devices(&[], None, &Machine::this());
    let names = found.iter().map(|found| found.name);
    names
        .filter(|name| name.kind == DeviceKind::Hardware)
        .collect()
}

/// Returns the tests of a course.
fn tests(course: &Course) -> Result<Vec<TestPlan>, Failure> {
    let tests = course.tests.iter().zip(&course.arguments);
    let of_test = tests.map(|(test, arguments)| {
        let tool = TOOLS.iter().find(|tool| tool.name == test.tool);
        let tool = tool.ok_or_else(|| {
            Failure::environment(format!("this version has no tool {}", test.tool))
        })?;
        asked::test_plan(tool, arguments)
    });
    of_test.collect()
}
