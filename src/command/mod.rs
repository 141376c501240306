//! Commands, the subcommands that measure no transaction: one `mod` line and one entry for each.
//! `output` and `probe` are what they share.

mod calibrate;
mod check;
mod compare;
mod devices;
mod output;
mod ping;
mod probe;
mod report;
mod serve;
mod survey;

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};

use ::report::print;
use facts::device::{DeviceName, LIBCXI_VARIABLE, LibraryFile};
use facts::error::{Failure, invalid};
use plan::cli::help::subcommand_version;
use plan::cli::parser::{self, Parsed, hint_before};
use plan::cli::usage::{Completion, Entry, Usage, Value};

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

/// Reads the arguments of a command as `declared`. Returns `None` if they ask for help or the
/// version, which are then printed.
fn matches(
    usage: &Usage,
    declared: impl IntoIterator<Item = Arg>,
    arguments: &[OsString],
) -> Result<Option<ArgMatches>, Failure> {
    let declared = declared.into_iter();
    let declared = declared.chain([parser::help(), parser::version()]);
    match parser::read(declared, arguments, |_| None)? {
        Parsed::Matches(matches) => Ok(Some(matches)),
        Parsed::Help { is_long } => print(&usage.text(is_long)).map(|()| None),
        Parsed::Version => print(&subcommand_version(&usage.program)).map(|()| None),
    }
}

/// Returns `--libcxi`, as help and manual show it.
fn libcxi_entry() -> Entry {
    Entry {
        short: None,
        long: "libcxi",
        value: Some(Value::new("PATH", Completion::Files)),
        help: format!(
            "Library to load for hardware (default:\n${LIBCXI_VARIABLE}, else libcxi.so.1)"
        ),
        manual: "The library to load for cxiN devices.",
    }
}

/// Returns `--libcxi`, as it is declared.
fn libcxi() -> Arg {
    Arg::new("libcxi")
        .long("libcxi")
        .value_parser(value_parser!(PathBuf))
}

/// Returns the library that `--libcxi` or the environment names.
///
/// # Errors
///
/// An empty name.
fn library(matches: &ArgMatches) -> Result<Option<LibraryFile>, Failure> {
    match matches.get_one::<PathBuf>("libcxi") {
        Some(path) if path.as_os_str().is_empty() => {
            Err(Failure::usage(invalid("libcxi", "", "expected a file")))
        }
        Some(path) => Ok(Some(LibraryFile::new(path.clone(), "--libcxi"))),
        None => Ok(env::var_os(LIBCXI_VARIABLE)
            .filter(|path| !path.is_empty())
            .map(|path| LibraryFile::new(path.into(), LIBCXI_VARIABLE))),
    }
}

/// Reads the names of NICs among the arguments.
///
/// # Errors
///
/// A name of no NIC.
fn devices_named(matches: &ArgMatches, arguments: &[OsString]) -> Result<Vec<DeviceName>, Failure> {
    let names = matches.get_many::<String>("DEVICE").into_iter().flatten();
    let read = |name: &String| {
        name.parse().map_err(|why: &str| {
            let hint = hint_before(name.as_ref(), arguments, ["json"].into_iter());
            Failure::usage(format!("invalid device '{name}': {why}")).with_hint_if(hint)
        })
    };
    names.map(read).collect()
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
        name: "ping",
        about: "Check whether the NICs of other hosts answer",
        usage: ping::usage,
        run: ping::run,
    },
    Command {
        name: "check",
        about: "Check the health of NICs, with a write and a read",
        usage: check::usage,
        run: check::run,
    },
    Command {
        name: "survey",
        about: "Measure all NICs of a cluster, and name what is slow",
        usage: survey::usage,
        run: survey::run,
    },
    Command {
        name: "compare",
        about: "Compare the results of runs",
        usage: compare::usage,
        run: compare::run,
    },
    Command {
        name: "report",
        about: "Draw results as one HTML page",
        usage: report::usage,
        run: report::run,
    },
    Command {
        name: "calibrate",
        about: "Compare the latency tools with known latencies",
        usage: calibrate::usage,
        run: calibrate::run,
    },
    Command {
        name: "serve",
        about: "Serve the clients of all tools on all NICs",
        usage: serve::usage,
        run: serve::run,
    },
];

#[cfg(test)]
mod tests {
    use plan::cli::help::overview;
    use plan::cli::usage::testing::check_help;
    use plan::tools::TOOLS;

    use super::*;

    #[test]
    fn help_fits_and_explains_each_option() {
        for command in COMMANDS {
            check_help(&(command.usage)());
        }
        check_help(&overview(TOOLS, summaries()));
    }
}
