//! Results in files and on pages.

#[path = "../harness/mod.rs"]
mod harness;

mod calibrate;
mod outputs;
mod report;
