//! What the program does beside measuring: one `mod` line and one entry for each command.

mod compare;

use std::ffi::OsString;

use crate::error::Failure;

/// One subcommand that is not a tool: it opens no NIC and has no peer.
#[derive(Debug)]
pub struct Command {
    /// Name as a subcommand of `cxidiag`: `compare`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its help text.
    pub help: fn() -> String,
    /// Carries it out with the arguments after its name.
    pub run: fn(Vec<OsString>) -> Result<(), Failure>,
}

/// All commands, in the order of listings.
pub static COMMANDS: &[Command] = &[Command {
    name: "compare",
    about: "Compare the results of two runs",
    help: compare::help,
    run: compare::run,
}];
