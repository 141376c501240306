//! `survey`: measures all NICs of a cluster with each other, and names what is slow
//! (docs/survey.md).
//!
//! * `usage`: what the command takes, and how its arguments are read. `request`: what they ask for,
//!   and the tests of the tools. `tool_options`: what the options of the tools do in a survey.
//! * `coordinator`: starts the members, leads the campaigns (`cluster::campaign`, `cluster::why`)
//!   one after the other, and writes what comes of them. `program`: what it does for them. `files`:
//!   what it reads and writes. `written`: the files and the text that come of it.
//! * `launch`: how the members start; `joined`: which of them have joined. `locations`: where their
//!   hosts are.
//! * `member`: a process that measures with the NICs of its node. `load_watch`: what uses its CPUs.
//! * `processes`: members that the coordinator starts on its own machine; `served`: members that
//!   `cxidiag serve` starts on others.
//! * `load`: the load of a survey, as its options say it. `load_setup`: what is measured for it.
//! * `diagnosis_course`: the tests that find out why NICs are slow. `suspect`: the diagnosis of one
//!   NIC without a survey.

mod coordinator;
mod diagnosis_course;
mod files;
mod launch;
mod load;
mod load_setup;
mod load_watch;
mod locations;
mod member;
mod membership;
mod outputs;
mod processes;
mod program;
mod request;
mod served;
mod suspect;
mod tool_options;
mod usage;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Instant;

use launch::Launch;
use processes::Started;
use request::{ProcessSource, SurveyRequest};
pub use suspect::{Beside, SuspectRequest, diagnose, measure_if_started};
pub use usage::usage;

use check;
use check::Nodes;
use cli::output;
use crew::launcher::LauncherTask;
use crew::meeting_point::{Coordinator, MeetingPoint};
use crew::star::JOIN_LIMIT;
use diag::run::served::is_started_for_client;
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::net::race::loopback;
use facts::token::Token;
use node::backend;
use page::destination::Place;

/// The checks before a survey get one of this many parts of its time.
const CHECK_PART: u32 = 4;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, files that cannot be read or written, processes that do not find each other,
/// and a survey that has found something.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let began = Instant::now();
    let read = usage::parse(&arguments);
    let Some(request) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let mut devices = request.devices.iter();
    let ready =
        devices.try_for_each(|device| backend::check(*device)).and_then(|()| interrupt::watch());
    let json = own_place(request.places.json.as_ref());
    output::or_early_failure(json, ready)?;
    if is_started_for_client() {
        return served::run(request);
    }
    if let Some(started) = Started::from_environment() {
        return run_member(&request, started);
    }
    match &request.processes {
        ProcessSource::Launcher => run_launched(&request, &arguments, began),
        ProcessSource::Loopback(count) => {
            let ready = backend::check(DeviceName::software(0));
            output::or_early_failure(json, ready)?;
            coordinator::run(&request, Launch::loopback(*count, &arguments), began)
        }
        ProcessSource::Hosts(hosts) => {
            let checked = checked(&request, Nodes::OfServers(hosts, request.port), began)?;
            coordinator::run(&request, Launch::hosts(hosts, &arguments), began).and(checked)
        }
    }
}

/// Returns the place of the document of this process. A process that a coordinator has started has
/// the coordinator's arguments, but no documents.
pub fn own_place(json: Option<&Place>) -> Option<&Place> {
    json.filter(|_| Started::from_environment().is_none())
}

/// Checks the nodes first, if the user asks for it. Returns what the checks amount to. The survey
/// began at this instant: most of its time is left for it.
fn checked(
    request: &SurveyRequest,
    nodes: Nodes,
    began: Instant,
) -> Result<Result<(), Failure>, Failure> {
    if !request.checks_nodes {
        return Ok(Ok(()));
    }
    let point = request.meeting_point.as_deref();
    let until = request.time_limit.map(|limit| began + limit / CHECK_PART);
    match check::before_survey(nodes, &request.devices, point, request.is_quiet, until) {
        Err(failure) if failure.kind == Kind::Interrupted => Err(failure),
        checked => Ok(checked),
    }
}

/// Runs a member that a coordinator on this machine has started.
fn run_member(request: &SurveyRequest, started: Started) -> Result<(), Failure> {
    started.end_with_parent()?;
    let token = Token::from_environment();
    let token = token.ok_or_else(|| Failure::environment("the coordinator has sent no token"))?;
    let coordinator = Coordinator {
        host: "localhost".into(),
        addresses: vec![(loopback(), started.port).into()],
        token,
    };
    let task =
        LauncherTask::from_environment()?.filter(|_| request.processes == ProcessSource::Launcher);
    let place = member::ProcessIdentity::new(started.rank, started.size, task.as_ref());
    let plans = member::own_plans(request, &place)?;
    match member::run(plans, place, JOIN_LIMIT, &member::Grant::default(), |_| {
        Ok(coordinator.clone())
    }) {
        // The coordinator ends its processes by a signal, and prints why.
        Err(failure) if failure.kind == Kind::Interrupted => Ok(()),
        // It has given up this process, and says so, or it has ended itself.
        Err(failure) if failure.is_of_peer() => Err(failure.printed()),
        ended => ended,
    }
}

/// Runs a task of a launcher: the coordinator, or a member.
fn run_launched(
    request: &SurveyRequest,
    arguments: &[OsString],
    began: Instant,
) -> Result<(), Failure> {
    let task = LauncherTask::from_environment().and_then(|task| {
        let none = "no launcher has started this process: start one on each node with srun, mpiexec, \
                    flux run or mpirun, or use --hosts or --loopback";
        task.ok_or_else(|| Failure::usage(none))
    });
    let task = output::or_early_failure(request.places.json.as_ref(), task)?;
    let token = Token::from_environment();
    let meeting_point = MeetingPoint::of(&task, request.meeting_point.as_deref(), token.as_ref())?;
    let checked = checked(request, Nodes::OfTasks(&task), began)?;
    if meeting_point.is_coordinator(&task) {
        let launch = Launch::task(task, meeting_point, arguments);
        return coordinator::run(request, launch, began).and(checked);
    }
    let place = member::ProcessIdentity::new(task.rank, task.size, Some(&task));
    let limit = request.join_limit.unwrap_or_default().max(JOIN_LIMIT);
    let plans = member::own_plans(request, &place)?;
    match member::run(plans, place, limit, &member::Grant::default(), |end| {
        meeting_point.find(&task, end)
    }) {
        // Hydra and Open MPI end all tasks if one fails. The coordinator determines the exit
        // status.
        Err(failure) if failure.kind != Kind::Interrupted => {
            if !failure.is_printed() {
                let _ = writeln!(io::stderr(), "cxidiag survey: {failure}");
            }
            Ok(())
        }
        ended => ended,
    }
}
