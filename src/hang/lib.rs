//! `why --job`: why a job makes no progress, seen from outside, without root (docs/hang.md). It
//! allocates nothing on a NIC. A stack tool of the machine attaches to its ranks, one after the
//! other; the only signal to a rank lets it go on if this tool did not come to its own end
//! (`stacks.rs`).
//!
//! <!-- From tests/tidy/houses.rs: src/hang -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 10 | lib          a request -> reading, report and documents                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | gathering    all nodes of a job at one place                                              |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | document     the report, as data, JSON and text                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | table        the decision table: readings -> findings                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | call_rows    rows of the decision table that need the calls of ranks                      |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | finding      what the table says, and ranks in groups                                     |
//!    | merging      several nodes as one                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | reading      one node over some seconds                                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | call_watch   the calls of all ranks, in a given time                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | calls        the stacks of a rank -> the call in which it waits                           |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | ranks        the processes of a job on this node                                          |
//!    | stacks       stacks of a process, read by eu-stack or gdb                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | nics         whether the NICs of the job move data                                        |
//!    | process      a process from its files: what it holds and does                             |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod call_rows;
pub mod call_watch;
pub mod calls;
pub mod document;
pub mod finding;
mod gathering;
pub mod merging;
pub mod nics;
pub mod process;
pub mod ranks;
pub mod reading;
pub mod stacks;
pub mod table;

use std::fs;
use std::path::{Path, PathBuf};

use self::document::{HangReport, page};
use self::merging::merged;
use self::reading::NodeReading;
pub use self::reading::{INTERVAL, ReadingTimes, SHORTEST_INTERVAL, STACK_TIME};
use cli::output;
use crew::launcher::LauncherTask;
use diag::run::serve::is_started_for_client;
use facts::error::{Failure, cause};
use facts::interrupt;
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;

/// What is judged.
#[derive(Debug)]
pub enum HangSource {
    /// These processes of this node.
    Processes(Vec<u32>),
    /// The job on this node, and on the other nodes of the tasks of a launcher.
    Tasks {
        /// This node alone, also as a task of a launcher.
        is_local: bool,
        /// File by which the tasks find each other.
        meeting_point: Option<PathBuf>,
    },
    /// The job on these hosts, on which servers run at this port.
    Hosts(Vec<String>, Option<u16>),
    /// Documents of several nodes.
    Files(Vec<PathBuf>),
}

/// What the arguments ask for.
#[derive(Debug)]
pub struct HangRequest {
    pub source: HangSource,
    pub times: ReadingTimes,
    pub json: Option<Place>,
    pub ticket: Option<PathBuf>,
    pub is_quiet: bool,
}

/// Looks at a job, and reports.
///
/// # Errors
///
/// No job is found, a file cannot be written, or the verdict is hung or undecided.
pub fn run(request: &HangRequest) -> Result<(), Failure> {
    let json = request.json.as_ref();
    output::or_early_failure(json, interrupt::watch())?;
    node::reading::limit_waits();
    if is_started_for_client() {
        return gathering::serve_client();
    }
    if let HangSource::Tasks { is_local: false, meeting_point } = &request.source {
        let task = output::or_early_failure(json, LauncherTask::from_environment())?;
        if let Some(task) = task.filter(|task| task.size > 1) {
            let (file, times) = (meeting_point.as_deref(), request.times);
            return gathering::run_task(&task, file, times, |read| report(request, read));
        }
    }
    report(request, || read(request))
}

fn report(
    request: &HangRequest,
    read: impl FnOnce() -> Result<NodeReading, Failure>,
) -> Result<(), Failure> {
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        ticket: request.ticket.clone().map(Place::File),
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let report = HangReport::new(output::or_failure(&documents, read())?);
    output::write(&documents, &report, request.is_quiet, page)?;
    if let Some(ticket) = &documents.ticket {
        ticket.write(document::ticket(&report).text(TextStyle::Markdown).as_bytes())?;
    }
    documents.conclude(report.result())
}

fn read(request: &HangRequest) -> Result<NodeReading, Failure> {
    match &request.source {
        HangSource::Processes(pids) => reading::read(pids, None, request.times),
        HangSource::Tasks { .. } => reading::read(&[], None, request.times),
        HangSource::Hosts(hosts, port) => gathering::ask_hosts(hosts, *port, request.times),
        HangSource::Files(paths) => {
            let nodes = paths.iter().map(|path| document_of_node(path));
            let nodes = nodes.map(|node| node.map(|node| (node.host.clone(), Ok(node))));
            merged(nodes.collect::<Result<_, _>>()?, None)
        }
    }
}

fn document_of_node(path: &Path) -> Result<NodeReading, Failure> {
    let refused = |why: String| Failure::environment(format!("--merge: {}: {why}", path.display()));
    let document = fs::read(path).map_err(|error| refused(cause(&error)))?;
    let report = HangReport::parse(&document);
    let report = report.map_err(|why| refused(format!("no document of why --job: {why}")))?;
    if report.node.is_merged() {
        return Err(refused("it has several nodes already".into()));
    }
    Ok(report.node)
}
