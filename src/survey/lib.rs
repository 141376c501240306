//! `survey` and `why`: many NICs measured with each other, and what is slow (docs/survey.md).
//!
//! <!-- From tests/tidy/houses.rs: src/survey -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  8 | lib                `survey`: arguments -> coordinator or member                           |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | why_command        `why`: what it takes, and its course                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | coordinator        leads the campaigns one after the other                                |
//!    | options            what `survey` takes, and effects of options of tools                   |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | load_setup         the load, from what is wanted to what is measured                      |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | launch             how the members start, and which of them have joined                   |
//!    | program            what the program does for the coordinator                              |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | diagnosis_course   the tests of a diagnosis                                               |
//!    | member             a process that measures as the coordinator orders                      |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | request            what the arguments ask for                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | nic_diagnosis      the diagnosis of one NIC, as data, as JSON and as text                 |
//!    | outputs            documents, notes, progress, and the text at the end                    |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | locations          where NICs are, from files or the launcher                             |
//!    | processes          members that the coordinator starts on its own machine                 |
//!    | result             a survey, as data, text and documents                                  |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

mod coordinator;
mod diagnosis_course;
mod launch;
mod load_setup;
mod locations;
mod member;
pub mod nic_diagnosis;
pub mod options;
mod outputs;
mod processes;
mod program;
mod request;
pub mod result;
pub mod why_command;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Instant;

pub use crate::options::usage;
use launch::Launch;
use processes::Started;
use request::{ProcessSource, SurveyRequest};

use check::Nodes;
use cli::output;
use crew::launcher::LauncherTask;
use crew::meeting_point::MeetingPoint;
use crew::star::JOIN_LIMIT;
use diag::run::serve::is_started_for_client;
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::token::Token;
use node::backend;

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
    let read = crate::options::parse(&arguments);
    let Some(request) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let mut devices = request.devices().iter();
    let ready =
        devices.try_for_each(|device| backend::check(*device)).and_then(|()| interrupt::watch());
    let json = processes::own_place(request.json.as_ref());
    output::or_early_failure(json, ready)?;
    if is_started_for_client() {
        return member::run_served(request);
    }
    if let Some(started) = Started::from_environment() {
        return member::run_started(&request, started);
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
    match check::before_survey(nodes, request.devices(), point, request.is_quiet, until) {
        Err(failure) if failure.kind == Kind::Interrupted => Err(failure),
        checked => Ok(checked),
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
    let task = output::or_early_failure(request.json.as_ref(), task)?;
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
    match member::run(plans, place, limit, &member::MemberGrant::default(), |end| {
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
