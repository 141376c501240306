//! Two processes and what lies between them: the control connection, legacy tools, faults of the
//! link, signals and deaths, and a kernel that refuses calls.

#[path = "../harness/mod.rs"]
mod harness;

mod control_connection;
mod deaths;
mod hostile_bytes;
mod inherited;
mod kernel;
mod legacy_control;
mod legacy_runs;
mod link_faults;
mod processes;
mod signals;
mod soak;
mod surroundings;
