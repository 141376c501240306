//! The results of a run, for people and for programs.
//!
//! * `outcome`: a run as plain data; `run_facts`: the entries that are known before it measures;
//!   `ending`: how it has ended.
//! * `columns`: the columns of all tables of results; `run_columns`: those of CSV about the run.
//! * `summary`, `text`: the documented text; `percentiles`, `extra`: blocks after it, on
//!   request.
//! * `json`, `csv`, `hdr_log`, `samples`: outcome -> documents; `documents`: those of a run;
//!   `destination`: where they go.
//! * `stream`: standard output, written without waiting forever for its reader.
//! * `json_lines`: a line for each run, appended to a file of many; `runs`: reads such files.
//! * `results`: any results of ours, read back; `html`: the page of `report`.
//! * `comparison`: runs of two sides compared, `comparison_text`: as text; `noise`: how far a run can be
//!   trusted; `differences`: what differs beside the results.
//! * `table`: tables without a documented form; `wrap`: text in lines of a limited width.
//! * `counters`: what the counters of the NICs did.
//! * `calibration`: latencies beside known ones, as text and as JSON.
//! * `devices`: the NICs of a machine, as text and as JSON.
//! * `check`: the health of NICs as JSON, `check_text`: as text, `check_metrics`: as metrics;
//!   `openmetrics`: metrics as text.
//! * `survey`: a survey, as text and as documents.
//! * `progress`: the progress of a size, on a terminal.
//! * `histogram`: latencies in bins, and their picture in a terminal.
//! * `intervals`: the figures of intervals of a size; `sampler`: the thread that reads and prints them.
//! * `reporter`: receives the results of a run and passes them to the modules above.

#![forbid(unsafe_code)]

pub mod calibration;
pub mod check;
pub mod check_metrics;
pub mod check_text;
pub mod columns;
pub mod comparison;
pub mod comparison_text;
mod counters;
mod csv;
pub mod destination;
pub mod devices;
mod differences;
mod documents;
mod ending;
mod extra;
mod hdr_log;
pub mod histogram;
pub mod html;
pub mod intervals;
pub mod json;
mod json_lines;
mod measured_bandwidth;
pub mod noise;
pub mod openmetrics;
pub mod outcome;
mod percentiles;
pub mod ping;
pub mod ping_text;
mod progress;
mod reporter;
pub mod results;
mod run_columns;
mod run_facts;
pub mod runs;
mod sampler;
mod samples;
#[cfg(test)]
mod schema;
mod stream;
pub mod summary;
pub mod survey;
mod table;
pub mod text;
mod wrap;

pub use counters::{PeerCounters, RunCounters};
pub use destination::Destination;
pub use documents::refused;
pub use measured_bandwidth::MeasuredBandwidth;
pub use outcome::{Extent, Outcome};
pub use reporter::{Reporter, text_output};
pub use run_facts::Connected;

use std::io::{self, Write};

use facts::error::Failure;
use facts::interrupt;

/// Returns the failure of a program that was started without a standard output.
pub fn no_standard_output() -> Failure {
    Failure::environment("standard output is closed: the results would be lost")
        .with_hint("redirect it to a file or to /dev/null")
}

/// Prints a text on standard output. A reader may close the pipe before the end of the text.
///
/// # Errors
///
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(interrupt::output_failed),
    }
}
