//! Results in files and on pages.

#[path = "../harness/mod.rs"]
mod harness;

mod outputs;
mod report;
