//! `stat`: what the NICs of a job did while any command ran (monitoring.md 1.2 to 1.5;
//! docs/stat.md).
//!
//! * `usage`: what the command takes; `request`: what its arguments ask for.
//! * `launch`: the leader of a node and its command; `events`, `forwarding`: signals; `ending`: how
//!   the leader ends; `interpreter`: why a script cannot be executed.
//! * `program`: the parallel program; `roster`: its processes on this node.
//! * `nics`: the NICs of this node; `new_record`: the record of a node before its command;
//!   `step_directory`: the files of all nodes; `gather`: the report
//!   of all nodes.
//! * `sampler`: what some counters do while the command runs.
//! * `attached`: the two readings by two processes.
//! * `top`: the NICs of this node once a second.
//! * `output`: where the report goes; `note`: lines on standard error.

mod attached;
mod ending;
mod events;
mod forwarding;
mod gather;
mod interpreter;
mod launch;
mod new_record;
mod nics;
mod note;
mod output;
mod program;
mod request;
mod roster;
mod sampler;
mod step_directory;
mod top;
mod usage;

use std::ffi::OsString;

use self::request::Form;
pub use self::usage::usage;
use super::output::{or_early_failure, or_refusal};
use facts::error::Failure;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written or read, a finding of `--fail-on`.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let read = usage::parse(&arguments);
    let Some(request) = or_refusal(&arguments, read)? else {
        return Ok(());
    };
    let json = request.json.as_ref();
    match &request.form {
        Form::Run(command) => launch::run(&request, command),
        Form::Start(path) => or_early_failure(json, attached::start(&request, path)),
        Form::Stop(path) => attached::stop(&request, path),
        Form::Merge(directories) => gather::merge(&request, directories),
        Form::Top => top::run(&request),
    }
}
