//! The results of a run, for people and for programs.
//!
//! <!-- From tests/tidy/houses.rs: src/report -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 10 | lib                   the list of modules                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | html                  the page of `report`                                                |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | why                   the diagnosis of one NIC, as data and as JSON                       |
//!    | reporter              receives the results of a run and passes them on                    |
//!    | changes               surveys or checks of two sides compared                             |
//!    | results               any results of ours, read back                                      |
//!    | why_text              the diagnosis of one NIC as text                                    |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | live_output           what is shown while a size is measured                              |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | comparison_text       a comparison as text                                                |
//!    | devices               the NICs of a machine, as text and as JSON                          |
//!    | link_text             the links of NICs as text                                           |
//!    | run_facts             what is known of a run before it measures                           |
//!    | survey                a survey, as text and as documents                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | check_fleet_metrics   the health of many nodes as metrics                                 |
//!    | check_fleet_text      the health of many nodes as text and as CSV                         |
//!    | comparison            runs of two sides compared                                          |
//!    | link_metrics          the links of NICs as metrics                                        |
//!    | nic_table             NICs measured one after the other: table and documents              |
//!    | current_size          what was set about the size that is measured                        |
//!    | run_documents         the documents of a run                                              |
//!    | sampler               the thread that prints intervals                                    |
//!    | summary               the summary block before the results                                |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | check_fleet           the health of many nodes as JSON                                    |
//!    | check_metrics         the health of NICs as metrics                                       |
//!    | check_text            the health of NICs as text                                          |
//!    | csv                   a run as comma-separated values                                     |
//!    | cxi_heatsink_check    the text of HPE's cxi_heatsink_check                                |
//!    | cxi_stat              the text of HPE's cxi_stat                                          |
//!    | differences           what makes runs differ beside their results                         |
//!    | grouping              runs of two sides, grouped by what they measured                    |
//!    | expected              stored runs against expectations                                    |
//!    | extra                 text after the documented table, on request                         |
//!    | link                  the links of NICs as JSON                                           |
//!    | probe_metrics         what probes of other nodes have measured, as metrics                |
//!    | ping_text             the answers of NICs as text                                         |
//!    | selftest_text         checks of facts about a NIC as text                                 |
//!    | stat                  what the NICs of a job did while a command ran                      |
//!    | stress_metrics        NICs under load as metrics                                          |
//!    | stress_text           NICs under load as text                                             |
//!    | text                  the table of results                                                |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | check                 the health of NICs as JSON                                          |
//!    | columns               the columns of all tables of results                                |
//!    | counters              what the counters of the NICs did                                   |
//!    | documents             documents: opened, written whole                                    |
//!    | ending                how a run has ended                                                 |
//!    | histogram             the picture of a histogram in a terminal                            |
//!    | measured_bandwidth    what a bandwidth tool reports of a size                             |
//!    | noise                 how far a metric of one run can be trusted                          |
//!    | percentiles           the block of percentiles after the table                            |
//!    | ping                  the answers of NICs, as data and as JSON                            |
//!    | selftest              checks of facts about a NIC, as data and as JSON                    |
//!    | stress                NICs under load, as data and as JSON                                |
//!    | run_columns           the columns of CSV about the run                                    |
//!    | printed               runs that tools printed, read back                                  |
//!    | printed_run           one run that a tool printed: its lines -> its outcome               |
//!    | runs                  runs that tools wrote, read back                                    |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | json_lines            one line for each run, appended to a file                           |
//!    | openmetrics           metrics as text                                                     |
//!    | outcome               a run as plain data                                                 |
//!    | samples               the samples of a run as comma-separated values                      |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | destination           where documents go                                                  |
//!    | page                  what people read of a result: data -> terminals, Markdown           |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | bins                  latencies in bins of equal ratio                                    |
//!    | hdr_log               latencies as an HdrHistogram log                                    |
//!    | intervals             the figures of intervals of a size                                  |
//!    | json                  data -> one JSON document                                           |
//!    | progress              the progress of a size, on a terminal                               |
//!    | progress_line         one line on a terminal                                              |
//!    | stream                output without waiting forever for its reader                       |
//!    | table                 tables without a documented form                                    |
//!    | wrap                  text in lines of a limited width                                    |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod bins;
pub mod changes;
pub mod check;
pub mod check_fleet;
pub mod check_fleet_metrics;
pub mod check_fleet_text;
pub mod check_metrics;
pub mod check_text;
pub mod columns;
pub mod comparison;
pub mod comparison_text;
mod counters;
mod csv;
mod current_size;
pub mod cxi_heatsink_check;
pub mod cxi_stat;
pub mod destination;
pub mod devices;
mod differences;
pub mod documents;
mod ending;
pub mod expected;
mod extra;
mod grouping;
mod hdr_log;
pub mod histogram;
pub mod html;
pub mod intervals;
pub mod json;
mod json_lines;
pub mod link;
pub mod link_metrics;
pub mod link_text;
mod live_output;
mod measured_bandwidth;
#[cfg(test)]
mod metrics_page;
pub mod nic_table;
pub mod noise;
pub mod openmetrics;
pub mod outcome;
pub mod page;
mod percentiles;
pub mod ping;
pub mod ping_text;
mod printed;
mod printed_run;
pub mod probe_metrics;
mod progress;
pub mod progress_line;
mod reporter;
pub mod results;
mod run_columns;
mod run_documents;
mod run_facts;
pub mod runs;
mod sampler;
mod samples;
#[cfg(test)]
mod schema;
pub mod selftest;
pub mod selftest_text;
pub mod stat;
mod stream;
pub mod stress;
pub mod stress_metrics;
pub mod stress_text;
pub mod summary;
pub mod survey;
pub mod table;
pub mod text;
pub mod why;
pub mod why_text;
pub mod wrap;

pub use counters::{PeerCounters, RunCounters};
pub use destination::Destination;
pub use measured_bandwidth::MeasuredBandwidth;
pub use outcome::{Extent, Outcome};
pub use reporter::{Reporter, text_output};
pub use run_documents::refused;
pub use run_facts::Connected;

use std::io::{self, Write};

use facts::error::Failure;
use facts::interrupt;
use plan::cli::help;

/// Returns the failure of a program that was started without a standard output.
pub fn no_standard_output() -> Failure {
    Failure::environment("standard output is closed: the results would be lost")
        .with_hint("redirect it to a file or to /dev/null")
}

/// Prints the version of what was started as `name`. Scripts read the version of a program that it
/// replaces; the version of this program then follows on standard error.
pub fn print_version(name: &str, replaced: Option<&str>) -> Result<(), Failure> {
    print(&help::version_under(name, replaced))?;
    if replaced.is_some() {
        let _ = write!(io::stderr(), "{}", help::version());
    }
    Ok(())
}

/// Prints a text on standard output. A reader may close the pipe before the end of the text.
pub fn print(text: &str) -> Result<(), Failure> {
    match destination::write_text(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(interrupt::output_failed),
    }
}
