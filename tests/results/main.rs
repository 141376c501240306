//! Results in files and on pages.

#[path = "../harness/mod.rs"]
mod harness;

mod files;
mod outputs;
mod report;
