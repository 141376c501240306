//! `why --job`: why a job makes no progress, seen from outside, without root (docs/hang.md). It
//! allocates nothing on a NIC. A stack tool of the machine attaches to its ranks, one after the
//! other; the only signal to a rank lets it go on if this tool did not come to its own end
//! (`stacks.rs`).
//!
//! <!-- From tests/tidy/houses.rs: src/hang -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  9 | lib          a request -> reading, report and documents                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | document     the report, as data, JSON and text                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | table        the decision table: readings -> findings                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | call_rows    rows of the decision table that need the calls of ranks                      |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | finding      what the table says, and ranks in groups                                     |
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
pub mod nics;
pub mod process;
pub mod ranks;
pub mod reading;
pub mod stacks;
pub mod table;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;

use self::call_watch::StackSource;
use self::document::{HangReport, page};
use self::ranks::Search;
use self::reading::NodeReading;
use cli::output;
use facts::error::{Failure, cause};
use facts::interrupt;
use node::machine::Machine;
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;

/// Time between two readings, unless the user chooses another one (hangs.md 1).
pub const INTERVAL: Duration = Duration::from_secs(4);

/// Time for the stacks of all ranks at a reading, unless the user chooses another one (hangs.md 1).
pub const STACK_TIME: Duration = Duration::from_secs(2);

/// What is judged.
#[derive(Debug)]
pub enum HangSource {
    /// The job on this node.
    Node {
        /// Its processes; none to search for them.
        pids: Vec<u32>,
        /// Time between two readings.
        interval: Duration,
        /// Time for the stacks of the ranks; without it, they are left out.
        stack_time: Option<Duration>,
    },
    /// Documents of several nodes.
    Files(Vec<PathBuf>),
}

/// What the arguments ask for.
#[derive(Debug)]
pub struct HangRequest {
    pub source: HangSource,
    pub json: Option<Place>,
    pub ticket: Option<PathBuf>,
    pub is_quiet: bool,
}

/// Looks at a job on this node, and reports.
///
/// # Errors
///
/// No job is found, a file cannot be written, or the verdict is hung or undecided.
pub fn run(request: &HangRequest) -> Result<(), Failure> {
    output::or_early_failure(request.json.as_ref(), interrupt::watch())?;
    node::reading::limit_waits();
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        ticket: request.ticket.clone().map(Place::File),
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let report = HangReport::new(output::or_failure(&documents, read(request))?);
    output::write(&documents, &report, request.is_quiet, page)?;
    if let Some(ticket) = &documents.ticket {
        ticket.write(document::ticket(&report).text(TextStyle::Markdown).as_bytes())?;
    }
    documents.conclude(report.result())
}

fn read(request: &HangRequest) -> Result<NodeReading, Failure> {
    let (pids, interval, stack_time) = match &request.source {
        HangSource::Node { pids, interval, stack_time } => (pids, *interval, *stack_time),
        HangSource::Files(paths) => {
            let nodes = paths.iter().map(|path| document_of_node(path));
            return Ok(NodeReading::merged(nodes.collect::<Result<_, _>>()?));
        }
    };
    let own = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let machine = Machine::this();
    let stacks = StackSource::find(&machine, stack_time);
    let search = Search {
        machine: &machine,
        pids,
        own: &own,
        own_pid: std::process::id(),
        user: geteuid().as_raw(),
        page: cxi::page_size() as u64,
    };
    reading::read(&search, interval, &stacks)
}

fn document_of_node(path: &Path) -> Result<NodeReading, Failure> {
    let refused = |why: String| Failure::environment(format!("--merge: {}: {why}", path.display()));
    let document = fs::read(path).map_err(|error| refused(cause(&error)))?;
    let report = HangReport::parse(&document);
    let report = report.map_err(|why| refused(format!("no document of why --job: {why}")))?;
    Ok(report.node)
}
