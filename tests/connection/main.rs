//! Two processes and what lies between them: the control connection, legacy tools, servers of many
//! clients, signals and deaths, and a kernel that refuses calls.

#[path = "../harness/mod.rs"]
mod harness;

mod control_connection;
mod deaths;
mod hostile_bytes;
mod inherited;
mod kernel;
mod legacy_control;
mod legacy_runs;
mod link;
mod ping;
mod probes;
mod processes;
mod serve;
mod signals;
mod soak;
mod surroundings;
