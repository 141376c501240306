//! What results are made of, for people and for programs: pages, tables, metrics, documents.
//!
//! <!-- From tests/tidy/houses.rs: src/page -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib             the list of modules; texts on standard output                             |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | documents       documents: opened, written whole                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | json            data -> one JSON document, or one line for each run                       |
//!    | openmetrics     metrics as text                                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | destination     where documents go                                                        |
//!    | page            what people read of a result: data -> terminals, Markdown                 |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | csv             comma-separated values                                                    |
//!    | problem         a failure in documents                                                    |
//!    | progress_line   one line on a terminal                                                    |
//!    | stream          output without waiting forever for its reader                             |
//!    | table           tables without a documented form                                          |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod csv;
pub mod destination;
pub mod documents;
pub mod json;
pub mod openmetrics;
pub mod page;
pub mod problem;
pub mod progress_line;
pub mod stream;
pub mod table;

pub use page::Page;

use std::io;

use facts::error::Failure;
use facts::interrupt;

/// The failure of a program that was started without a standard output.
pub fn no_standard_output() -> Failure {
    Failure::environment("standard output is closed: the results would be lost")
        .with_hint("redirect it to a file or to /dev/null")
}

/// Prints a text on standard output. A reader may close the pipe before the end of the text.
pub fn print(text: &str) -> Result<(), Failure> {
    match destination::write_text(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(interrupt::output_failed),
    }
}
