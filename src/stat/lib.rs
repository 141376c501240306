//! `stat`: what the NICs of a job did while any command ran (monitoring.md 1.2 to 1.5;
//! docs/stat.md).
//!
//! <!-- From tests/tidy/houses.rs: src/stat -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  9 | lib                arguments -> one of these forms                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | launch             the leader of a node: reads, runs the command, reads again             |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | attached           `--start` and `--stop`: two readings by two processes                  |
//!    | gather             the report of all nodes, from their files                              |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | nics               the NICs of this node, read before and after; its record before        |
//!    | output             where the report goes: text, CSV, trace, documents                     |
//!    | top                `--top`: a screen of the NICs of this node, once a second              |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | options            what `stat` takes, and what its arguments ask for                      |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | metrics            the report as metrics                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | parallel_program   the parallel program of a process; its processes here, and who leads   |
//!    | text               the report as text                                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | job                the report of all nodes: what their NICs did, as JSON has it           |
//!    | step_directory     the files of all nodes of a parallel program                           |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | events             the signals of the leader, as a stream                                 |
//!    | job_findings       what the counters of all NICs of a job explain                         |
//!    | record             what the NICs of a node showed before and after a command              |
//!    | series             counters of a node over time, and the thread that reads them           |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | counter_set        sets of counters in a fixed order                                      |
//!    | note               lines on standard error beside the report                              |
//!    | outliers           which NICs of a job stand out from the others                          |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

mod attached;
pub mod counter_set;
mod events;
mod gather;
pub mod job;
pub mod job_findings;
mod launch;
pub mod metrics;
mod nics;
mod note;
mod options;
mod outliers;
pub mod output;
mod parallel_program;
pub mod record;
pub mod series;
mod step_directory;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
mod top;

use std::ffi::OsString;

use self::options::StatAction;
pub use self::options::usage;
use cli::output::{or_early_failure, or_refusal};
use facts::error::Failure;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written or read, a finding of `--fail-on`.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let read = options::parse(&arguments);
    let Some(request) = or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let json = request.json.as_ref();
    match &request.form {
        StatAction::Run(command) => launch::run(&request, command),
        StatAction::Start(path) => or_early_failure(json, attached::start(&request, path)),
        StatAction::Stop(path) => attached::stop(&request, path),
        StatAction::Merge(directories) => gather::merge(&request, directories),
        StatAction::Top => top::run(&request),
    }
}
