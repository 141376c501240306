//! The command line: arguments of one tool -> what was typed, and what each tool takes.
//!
//! The command line follows the syntax of the legacy tools (tools.md 2.1): options and address in
//! any order; `--` ends the options; the last of several equal options counts; `--help` and
//! `--version` act when they are reached. A long option may be abbreviated if it is unambiguous
//! among the options of the legacy tool, or else among all. Numbers are strict (defect T24). An
//! error is one line, perhaps with a hint.

mod address;
pub mod help;

use std::ffi::OsString;

use clap::{Arg, ArgMatches};

use crate::options::{self, Def, Governs, ToolOption};
use crate::outputs::Outputs;
use crate::tool::Tool;
use crate::typed::Typed;
use cli::parser::Parsed;
use cli::{definition, parser};
use facts::error::Failure;

/// What the arguments of a tool ask for.
#[derive(Debug)]
pub enum Request {
    /// Its help text.
    Help {
        /// Whether all of it is asked for, with `--help`.
        is_long: bool,
    },
    Version,
    Run(Box<Typed>),
}

/// Why arguments were refused, and the outputs that they ask for as far as they were understood.
#[derive(Debug)]
pub struct RefusedArguments {
    /// What is wrong.
    pub failure: Failure,
    /// The outputs, so that a program that asked for a document gets one.
    pub outputs: Box<Outputs>,
}

impl From<RefusedArguments> for Failure {
    fn from(refusal: RefusedArguments) -> Self {
        refusal.failure
    }
}

/// Reads the arguments of `tool`, those after its name.
///
/// # Errors
///
/// An unknown or ambiguous option, a missing or invalid value, more than one address, or a file in
/// the place of the address.
pub fn parse(tool: &Tool, arguments: Vec<OsString>) -> Result<Request, RefusedArguments> {
    let parsed =
        parser::read(declared(tool), &arguments, |option| options::other_text(tool, option));
    let matches = match parsed {
        Ok(Parsed::Help { is_long }) => return Ok(Request::Help { is_long }),
        Ok(Parsed::Version) => return Ok(Request::Version),
        Ok(Parsed::Matches(matches)) => matches,
        Err(failure) => {
            return Err(RefusedArguments {
                failure,
                outputs: Box::new(outputs_of_each(tool, &arguments)),
            });
        }
    };
    let mut typed = Typed::nothing(tool.defaults);
    typed.outputs.unit = tool.unit();
    let read = read_options(tool, &matches, &mut typed).and_then(|()| {
        let words = matches.get_many(parser::WORDS).unwrap_or_default();
        address::read(tool, words, &arguments, &mut typed)
    });
    match read {
        Ok(()) => Ok(Request::Run(Box::new(typed))),
        Err(failure) => Err(RefusedArguments { failure, outputs: Box::new(typed.outputs) }),
    }
}

/// Returns the options of `tool` in its arguments, with their long names, in the order of the help
/// text. None if the arguments ask for help or the version.
///
/// # Errors
///
/// An unknown or ambiguous option, and a missing value.
pub fn given(
    tool: &Tool,
    arguments: &[OsString],
) -> Result<Vec<(&'static ToolOption, &'static str)>, Failure> {
    let unknown = |option: &str| options::other_text(tool, option);
    let Parsed::Matches(matches) = parser::read(declared(tool), arguments, unknown)? else {
        return Ok(Vec::new());
    };
    let given = options::of(tool).filter(|(_, definition)| definition.is_given(&matches));
    Ok(given.map(|(option, definition)| (option, definition.entry.long)).collect())
}

fn read_options(tool: &Tool, matches: &ArgMatches, typed: &mut Typed) -> Result<(), Failure> {
    let (options, definitions): (Vec<_>, Vec<_>) = options::of(tool).unzip();
    let result = definition::read(&definitions, matches, typed);
    let run_options = options.iter().zip(&definitions).filter(|(option, definition)| {
        option.governs != Governs::ThisProcess && definition.is_given(matches)
    });
    typed.run_given.extend(run_options.map(|(_, definition)| definition.entry.long));
    result
}

/// Returns the outputs that single arguments ask for, if the parser refuses the arguments together.
/// An output has its value in the same argument: `--json=-`.
fn outputs_of_each(tool: &Tool, arguments: &[OsString]) -> Outputs {
    let mut typed = Typed::nothing(tool.defaults);
    for argument in arguments.iter().take_while(|argument| *argument != "--") {
        let argument = std::slice::from_ref(argument);
        if let Ok(Parsed::Matches(matches)) = parser::read(declared(tool), argument, |_| None) {
            // An invalid value is not the reason for the refusal.
            let _ = read_options(tool, &matches, &mut typed);
        }
    }
    typed.outputs
}

/// Returns what `tool` takes. The abbreviations of the legacy tool are aliases, which take
/// precedence over clap's inference among all options.
fn declared(tool: &Tool) -> impl Iterator<Item = Arg> {
    let options = options::of(tool).map(|(option, Def { entry, .. })| {
        let argument = entry.declared();
        if option.legacy { argument.aliases(abbreviations(entry.long, tool)) } else { argument }
    });
    options.chain([
        parser::help().aliases(abbreviations("help", tool)),
        parser::version().aliases(abbreviations("version", tool)),
        parser::words(),
    ])
}

/// Returns the abbreviations that the legacy tool accepts for its option `long`.
fn abbreviations(long: &'static str, tool: &Tool) -> Vec<&'static str> {
    let others: Vec<&str> = legacy_options(tool).filter(|other| *other != long).collect();
    (1..long.len())
        .map(|length| &long[..length])
        .filter(|start| !others.iter().any(|other| other.starts_with(start)))
        .collect()
}

/// Returns the long options of the legacy tool.
fn legacy_options(tool: &Tool) -> impl Iterator<Item = &'static str> {
    let own = options::of(tool).filter(|(option, _)| option.legacy);
    own.map(|(_, definition)| definition.entry.long).chain(["help", "version"])
}
