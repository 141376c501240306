//! The command line: arguments of one tool -> what was typed, and what each tool takes.
//!
//! The syntax is that of the legacy tools (tools.md 2.1): options and address in any order; `--`
//! ends the options; the last of several equal options counts; `--help` and `--version` act when
//! they are reached. A long option may be abbreviated if it is unambiguous among the options of the
//! legacy tool, or else among all. Numbers are strict (defect T24). An error is one line.

pub mod help;
pub mod options;
pub mod usage;
pub mod values;

use std::ffi::{OsStr, OsString};

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::error::Failure;
use crate::error::invalid;
use crate::plan::outputs::Outputs;
use crate::plan::typed::Typed;
use crate::tool::Tool;
use options::{Governs, OptionDef};
use values::LEFT_OUT;

/// What the arguments of a tool ask for.
#[derive(Debug)]
pub enum Request {
    /// Its help text.
    Help,
    /// Its version.
    Version,
    /// A run.
    Run(Box<Typed>),
}

/// Name of the positional argument.
const ADDRESS: &str = "ADDR";

/// Why arguments were refused, and the outputs that they ask for as far as they were understood.
#[derive(Debug)]
pub struct Refusal {
    /// What is wrong.
    pub failure: Failure,
    /// The outputs, so that a program that asked for a document gets one.
    pub outputs: Box<Outputs>,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

/// Reads the arguments of `tool`, those after its name.
///
/// # Errors
///
/// An unknown or ambiguous option, a missing or invalid value, or more than one address.
pub fn parse(tool: &Tool, arguments: Vec<OsString>) -> Result<Request, Refusal> {
    let matches = match command(tool).try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp => Ok(Request::Help),
                ErrorKind::DisplayVersion => Ok(Request::Version),
                _ => Err(Refusal {
                    failure: Failure::usage(error_line(&error, tool)),
                    outputs: Box::new(outputs_of_each(tool, &arguments)),
                }),
            };
        }
    };
    let mut typed = Typed::nothing(tool.defaults);
    let read =
        read_options(tool, &matches, &mut typed).and_then(|()| read_address(&matches, &mut typed));
    match read {
        Ok(()) => Ok(Request::Run(Box::new(typed))),
        Err(failure) => Err(Refusal {
            failure,
            outputs: Box::new(typed.outputs),
        }),
    }
}

/// Reads all options. An invalid value does not keep the options after it from being read.
fn read_options(tool: &Tool, matches: &ArgMatches, typed: &mut Typed) -> Result<(), Failure> {
    let mut result = Ok(());
    for option in options::of(tool) {
        if matches.value_source(option.long) != Some(ValueSource::CommandLine) {
            continue;
        }
        let mut values: Vec<&OsStr> = match option.value {
            Some(_) => matches
                .get_many::<OsString>(option.long)
                .unwrap_or_default()
                .map(OsString::as_os_str)
                .collect(),
            None => vec![OsStr::new("")],
        };
        // The last value counts, unless each adds to those before it.
        if !option.repeats {
            values.drain(..values.len() - 1);
        }
        for value in values {
            let set = (option.set)(typed, value)
                .map_err(|allowed| Failure::usage(invalid(option.long, value.display(), allowed)));
            result = result.and(set);
        }
        if option.governs != Governs::ThisProcess {
            typed.run_given.push(option.long);
        }
    }
    result
}

fn read_address(matches: &ArgMatches, typed: &mut Typed) -> Result<(), Failure> {
    let mut addresses = matches.get_many::<OsString>(ADDRESS).unwrap_or_default();
    if let Some(address) = addresses.next() {
        typed.address = Some(host(address)?);
    }
    match addresses.next() {
        None => Ok(()),
        Some(surplus) => Err(Failure::usage(unexpected(surplus.display()))),
    }
}

/// Returns the outputs that single arguments ask for, if the parser refuses the arguments together. An
/// output has its value in the same argument: `--json=-`.
fn outputs_of_each(tool: &Tool, arguments: &[OsString]) -> Outputs {
    let mut typed = Typed::nothing(tool.defaults);
    for argument in arguments.iter().take_while(|argument| *argument != "--") {
        if let Ok(matches) = command(tool).try_get_matches_from([argument]) {
            // An invalid value is not the reason for the refusal.
            let _ = read_options(tool, &matches, &mut typed);
        }
    }
    typed.outputs
}

fn command(tool: &Tool) -> Command {
    Command::new(tool.name)
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
        .version(tool.wire_version)
        .args(options::of(tool).map(|option| {
            let argument = argument(option);
            if option.legacy {
                argument.aliases(abbreviations(option.long, tool))
            } else {
                argument
            }
        }))
        .arg(
            Arg::new("help")
                .short('h')
                .long("help")
                .aliases(abbreviations("help", tool))
                .action(ArgAction::Help),
        )
        .arg(
            Arg::new("version")
                .short('V')
                .long("version")
                .aliases(abbreviations("version", tool))
                .action(ArgAction::Version),
        )
        .arg(
            Arg::new(ADDRESS)
                .num_args(0..)
                .value_parser(ValueParser::os_string()),
        )
}

fn argument(option: &'static OptionDef) -> Arg {
    let argument = Arg::new(option.long).long(option.long);
    let argument = match option.short {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    match option.value {
        Some(value) if value.is_optional => argument
            .action(ArgAction::Append)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value(LEFT_OUT)
            .value_parser(ValueParser::os_string()),
        // In `-n -3`, `-3` is a value: the error is about the number, not about an option.
        Some(_) => argument
            .action(ArgAction::Append)
            .allow_hyphen_values(true)
            .value_parser(ValueParser::os_string()),
        None => argument.action(ArgAction::SetTrue),
    }
}

/// Returns the abbreviations that the legacy tool accepts for its option `long`. As aliases they take
/// precedence over clap's inference among all options.
fn abbreviations(long: &'static str, tool: &Tool) -> Vec<&'static str> {
    let others: Vec<&str> = legacy_options(tool)
        .filter(|other| *other != long)
        .collect();
    (1..long.len())
        .map(|length| &long[..length])
        .filter(|start| !others.iter().any(|other| other.starts_with(start)))
        .collect()
}

/// Returns the long options of the legacy tool.
fn legacy_options(tool: &Tool) -> impl Iterator<Item = &'static str> {
    let own = options::of(tool).filter(|option| option.legacy);
    own.map(|option| option.long).chain(["help", "version"])
}

fn host(address: &OsStr) -> Result<String, Failure> {
    match address.to_str() {
        Some(host) if !host.is_empty() => Ok(host.to_owned()),
        _ => Err(Failure::usage(format!(
            "invalid address '{}': expected a host name or an IP address",
            address.display()
        ))),
    }
}

fn unexpected(argument: impl std::fmt::Display) -> String {
    format!("unexpected argument '{argument}': one server address at most (see --help)")
}

/// Returns clap's error as one line.
fn error_line(error: &clap::Error, tool: &Tool) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    // clap names an option with its value: `--iters <iters>`.
    let named = context(ContextKind::InvalidArg);
    let option = named.split([' ', '=']).next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => match candidates(option, tool).as_slice() {
            [] | [_] => format!("unknown option '{option}' (see --help)"),
            several => format!(
                "ambiguous option '{option}': it could be {}",
                several.join(", ")
            ),
        },
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("option '{option}' needs a value (see --help)")
        }
        ErrorKind::TooManyValues => {
            format!(
                "option '{option}' takes no value, but '{}' was given",
                context(ContextKind::InvalidValue)
            )
        }
        _ => error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
    }
}

/// Returns the long options that begin with `abbreviation`.
fn candidates(abbreviation: &str, tool: &Tool) -> Vec<String> {
    let Some(start) = abbreviation.strip_prefix("--") else {
        return Vec::new();
    };
    let own = options::of(tool).map(|option| option.long);
    own.chain(["help", "version"])
        .filter(|long| long.starts_with(start))
        .map(|long| format!("--{long}"))
        .collect()
}
