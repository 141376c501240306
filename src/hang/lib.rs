//! `why --job`: why a job makes no progress, seen from outside, without root (docs/hang.md). It
//! sends no signal, attaches to no process, and allocates nothing on a NIC.
//!
//! <!-- From tests/tidy/houses.rs: src/hang -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib        a request -> reading, report and documents                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | document   the report, as data, JSON and text                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | table      the decision table: readings -> findings                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | reading    one node over some seconds                                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | ranks      the processes of a job on this node                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | nics       whether the NICs of the job move data                                          |
//!    | process    a process from its files: what it holds and does                               |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod document;
pub mod nics;
pub mod process;
pub mod ranks;
pub mod reading;
pub mod table;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::geteuid;

use self::document::{HangReport, page};
use self::ranks::Search;
use cli::output;
use facts::error::Failure;
use facts::interrupt;
use node::machine::Machine;
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;

/// Time between two readings, unless the user chooses another one (hangs.md 1).
pub const INTERVAL: Duration = Duration::from_secs(4);

/// What the arguments ask for.
#[derive(Debug)]
pub struct HangRequest {
    /// The processes of the job; none to search for them.
    pub pids: Vec<u32>,
    /// Time between two readings.
    pub interval: Duration,
    pub json: Option<Place>,
    pub ticket: Option<PathBuf>,
    pub is_quiet: bool,
}

/// Looks at a job on this node, and reports.
///
/// # Errors
///
/// No job, a file that cannot be written, a job that hangs, and one of which this is undecided.
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

fn read(request: &HangRequest) -> Result<reading::NodeReading, Failure> {
    let own = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let search = Search {
        machine: &Machine::this(),
        pids: &request.pids,
        own: &own,
        own_pid: std::process::id(),
        user: geteuid().as_raw(),
        page: cxi::page_size() as u64,
    };
    reading::read(&search, request.interval)
}
