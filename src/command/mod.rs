//! Commands, the subcommands that measure no transaction: one `mod` line and one entry for each.

mod calibrate;
mod compare;
mod devices;

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches};

use crate::cli::usage::Usage;
use crate::error::Failure;
use crate::tool::PROGRAM;

/// A subcommand that is not a tool. It has no peer.
#[derive(Debug)]
pub struct Command {
    /// Its name as a subcommand of `cxidiag`: `compare`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What it takes.
    pub usage: fn() -> Usage,
    /// Runs it with the arguments after its name.
    pub run: fn(Vec<OsString>) -> Result<(), Failure>,
}

/// Returns the name of each command and what it does, in one line.
pub fn summaries() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMMANDS.iter().map(|command| (command.name, command.about))
}

/// Reads the arguments of the command `name` as `declared`. Returns `None` if they ask for help.
fn matches(
    name: &'static str,
    declared: impl IntoIterator<Item = Arg>,
    arguments: Vec<OsString>,
) -> Result<Option<ArgMatches>, Failure> {
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::SetTrue);
    let matches = clap::Command::new(name)
        .no_binary_name(true)
        .disable_help_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
        .args(declared)
        .arg(help)
        .try_get_matches_from(arguments)
        .map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            let line = line.strip_prefix("error: ").unwrap_or(line);
            Failure::usage(format!("{line} (see {PROGRAM} {name} --help)"))
        })?;
    Ok((!matches.get_flag("help")).then_some(matches))
}

/// All commands, in the order of listings.
pub static COMMANDS: &[Command] = &[
    Command {
        name: "devices",
        about: "List the NICs of this machine",
        usage: devices::usage,
        run: devices::run,
    },
    Command {
        name: "compare",
        about: "Compare the results of runs",
        usage: compare::usage,
        run: compare::run,
    },
    Command {
        name: "calibrate",
        about: "Compare the latency tools with known latencies",
        usage: calibrate::usage,
        run: calibrate::run,
    },
];
