//! What a run finds out -> what people and programs read.
//!
//! * `text`, `bandwidth`: the documented text; `extra`: blocks after it, on request.
//! * `outcome`: the outcome as plain data; `facts`: what is known of it before the run.
//! * `json`, `csv`, `hdr_log`: outcome -> documents; `destination`: where they go.
//! * `output`: standard output, where no wait for its reader is endless.
//! * `comparison`: two outcomes side by side.
//! * `devices`: the NICs of a machine, as text and as JSON.
//! * `progress`: how far a size has come, on a terminal.
//! * `reporter`: takes what a run finds out, and hands it to these.

pub mod bandwidth;
mod buffers;
pub mod comparison;
mod csv;
mod destination;
pub mod devices;
mod extra;
mod facts;
mod hdr_log;
mod json;
pub mod outcome;
mod output;
mod progress;
mod reporter;
pub mod text;

pub use destination::Destination;
pub use outcome::{Extent, Outcome};
pub use reporter::{Lists, Reporter, refused, text_output};

use std::io::{self, Write};

use crate::error::Failure;
use crate::interrupt;

/// Prints a text on standard output. A reader that closes the pipe before the end of the text has
/// read enough.
///
/// # Errors
///
/// Standard output that cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(interrupt::output_failed),
    }
}
