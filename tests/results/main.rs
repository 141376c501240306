//! Results in files and on pages.

#[path = "../harness/mod.rs"]
mod harness;

mod files;
mod metrics_page;
mod outputs;
mod schema;
