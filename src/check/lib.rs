//! `check`: evaluates the health of NICs, and tries a write and a read (docs/check.md).
//!
//! <!-- From tests/tidy/houses.rs: src/check -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  6 | lib                  arguments -> one of these checks                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | job                  whether the settings of a job take effect                            |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | cxi_heatsink_check   HPE's cxi_heatsink_check: its options, its course and its text       |
//!    | stress               `check --stress`: its course; reads sensors and counts bytes         |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | fleet                the checks of many nodes: asked through `cxidiag serve`, and in one  |
//!    | of_node              the check of this node                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | examine              the check of one NIC, from first reading to findings                 |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | lock                 one check with traffic at a time                                     |
//!    | metrics              the health of NICs as metrics                                        |
//!    | options              what `check` takes, and what its arguments ask for                   |
//!    | text                 the health of NICs as text                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | document             the health of NICs, as data and as JSON                              |
//!    | fleet_document       the health of many nodes, as data and as JSON                        |
//!    | note                 lines on standard error beside the check                             |
//!    | stress_document      NICs under load, as data and as JSON                                 |
//!    | traffic              short runs of tools through one NIC                                  |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod cxi_heatsink_check;
pub mod document;
mod examine;
pub mod fleet;
pub mod fleet_document;
pub mod job;
mod lock;
pub mod metrics;
mod note;
mod of_node;
pub mod options;
pub mod stress;
pub mod stress_document;
pub mod text;
mod traffic;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::document::Check;
pub use self::examine::{files_with, others, require};
pub use self::of_node::name_unreadable;
pub use self::options::usage;
use crate::options::CheckRequest;
use cli::output;
use crew::launcher::LauncherTask;
use diag::run::serve::is_started_for_client;
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use node::{backend, reading};
pub use of_node::SurveyChecks;
pub use options::{LINK_SPEED, gigabits, link_speed as site_link_speed};
use page::documents::{Documents, Places};
use page::json;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, a NIC that is bad or cannot be tested.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    if let Some(outcome) = job::answer_parent() {
        return outcome;
    }
    let read = options::parse(&arguments);
    let Some(request) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let mut devices = request.devices.iter();
    let ready =
        devices.try_for_each(|device| backend::check(*device)).and_then(|()| interrupt::watch());
    output::or_early_failure(request.json.as_ref(), ready)?;
    reading::limit_waits();
    if is_started_for_client() {
        return fleet::run_ordered(request);
    }
    if let Some(time) = request.stress {
        return stress::run(&request, time);
    }
    if let Some(hosts) = &request.hosts {
        return fleet::report(&request, || fleet::ask_all(hosts, &request));
    }
    let task = if request.is_local {
        None
    } else {
        output::or_early_failure(request.json.as_ref(), LauncherTask::from_environment())?
    };
    let task = task.filter(|task| task.size > 1);
    match (task, request.job) {
        (task, Some(process)) => job::run(&request, process, task.as_ref()),
        (Some(task), None) => check_nodes_of_tasks(&request, &task),
        (None, None) => check_this_node(request),
    }
}

/// Reads the health of NICs once: no error rates, no traffic. Without `devices`, of all hardware.
///
/// # Errors
///
/// Settings of the site or of the job that are invalid, and an interruption.
pub fn check_node_quickly(devices: &[DeviceName]) -> Result<Check, Failure> {
    match options::parse(&["--quick".into(), "--local".into()])? {
        Some(request) => of_node::check(CheckRequest { devices: devices.to_vec(), ..request }),
        None => Err(Failure::usage("no check was asked for")),
    }
}

/// The nodes that a survey is about to measure.
#[derive(Clone, Copy, Debug)]
pub enum Nodes<'a> {
    /// The nodes of the tasks of a launcher. This process is one of them.
    OfTasks(&'a LauncherTask),
    /// The nodes on which these servers run, at this port.
    OfServers(&'a [String], Option<u16>),
}

/// Checks these devices, or all hardware, of the nodes that a survey is about to measure, and
/// prints what the checks amount to on standard error. Tasks have a meeting point of their own,
/// beside the one of the survey.
///
/// # Errors
///
/// The failures of `check`, in the first task.
pub fn before_survey(
    nodes: Nodes,
    devices: &[DeviceName],
    meeting_point: Option<&Path>,
    is_quiet: bool,
    until: Option<Instant>,
) -> Result<(), Failure> {
    let beside = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".check");
        PathBuf::from(name)
    };
    let mut request = CheckRequest {
        devices: devices.to_vec(),
        meeting_point: meeting_point.map(beside),
        is_before_survey: true,
        is_quiet,
        until,
        ..CheckRequest::default()
    };
    match nodes {
        Nodes::OfTasks(task) => {
            let step = task.step.as_deref().unwrap_or_default();
            let task = LauncherTask { step: Some(format!("{step}.check")), ..task.clone() };
            check_nodes_of_tasks(&request, &task)
        }
        Nodes::OfServers(hosts, port) => {
            request.port = port;
            fleet::report(&request, || fleet::ask_all(hosts, &request))
        }
    }
}

/// Checks this node as a task of a launcher, one task a node.
fn check_nodes_of_tasks(request: &CheckRequest, task: &LauncherTask) -> Result<(), Failure> {
    let document = || {
        if !task.is_first_of_node() {
            return Ok(Vec::new());
        }
        json::line(&of_node::check(request.clone())?)
    };
    let read = |document: &[u8]| Check::read(document).map_err(|failure| failure.message());
    request.gathering().run(task, &document, &read, |gather| fleet::report(request, gather))
}

/// Checks this node, prints the check, and writes its documents.
fn check_this_node(request: CheckRequest) -> Result<(), Failure> {
    let fleet_options =
        [("csv", request.csv.is_some()), ("bad-nodes", request.bad_nodes.is_some())];
    if let Some((option, _)) = fleet_options.iter().find(|(_, is_given)| *is_given) {
        let message =
            format!("--{option} is for several nodes: --hosts, or the tasks of a launcher");
        return output::or_early_failure(request.json.as_ref(), Err(Failure::usage(message)));
    }
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        metrics: request.metrics.file_with(metrics::SERIES)?,
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let is_quiet = request.is_quiet;
    let check = output::or_failure(&documents, of_node::check(request))?;
    documents.write_metrics(|| metrics::families(&check))?;
    output::write(&documents, &check, is_quiet, text::page)?;
    documents.conclude(check.result())
}
