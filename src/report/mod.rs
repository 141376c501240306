//! What a run finds out -> what people and programs read.
//!
//! * `text`, `bandwidth`: the documented text; `extra`: blocks after it, on request.
//! * `outcome`: the outcome as plain data; `facts`: what is known of it before the run.
//! * `json`, `csv`, `hdr_log`: outcome -> documents; `destination`: where they go.
//! * `output`: standard output, where no wait for its reader is endless.
//! * `comparison`: two outcomes side by side.
//! * `progress`: how far a size has come, on a terminal.
//! * `reporter`: takes what a run finds out, and hands it to these.

pub mod bandwidth;
pub mod comparison;
mod csv;
mod destination;
mod extra;
mod facts;
mod hdr_log;
mod json;
pub mod outcome;
mod output;
mod progress;
mod reporter;
pub mod text;

pub use outcome::{Extent, Outcome};
pub use reporter::{Lists, Reporter, refused};
