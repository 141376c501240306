//! The command line: arguments of one tool -> what was typed, and what each tool takes.
//!
//! The command line follows the syntax of the legacy tools (tools.md 2.1): options and address in
//! any order; `--` ends the options; the last of several equal options counts; `--help` and
//! `--version` act when they are reached. A long option may be abbreviated if it is unambiguous
//! among the options of the legacy tool, or else among all. Numbers are strict (defect T24). An
//! error is one line, perhaps with a hint.
//!
//! `--json out.json`, with a blank instead of `=`, would make the file the address of the server: a
//! client would try to connect to it, and a server would become a client. A word is therefore
//! refused if it is clearly a file: it contains a slash, ends in the suffix of an output, or
//! follows an option whose value was omitted and names an existing file. Elsewhere a file may have
//! the name of a host. The name of a NIC is refused, too.

pub mod help;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgMatches};

use super::options::{self, Def, Governs, ToolOption};
use super::outputs::Outputs;
use super::tool::Tool;
use super::typed::Typed;
use cli::definition;
use cli::parser::{self, Parsed, device_hint, hint_before, meant};
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
        read(tool, words, &arguments, &mut typed)
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

/// Suffixes of the files that results are written to, and the options that write them.
const SUFFIXES: [(&str, &str); 4] =
    [("json", "json"), ("jsonl", "jsonl"), ("csv", "csv"), ("hlog", "hdr-log")];

/// Reads the address, if there is one; `words` are the arguments that are no options, in order.
///
/// # Errors
///
/// A word that is no host name, or more than one word.
fn read<'a>(
    tool: &Tool,
    mut words: impl Iterator<Item = &'a OsString>,
    arguments: &[OsString],
    typed: &mut Typed,
) -> Result<(), Failure> {
    let Some(word) = words.next() else {
        return Ok(());
    };
    let hint = |word: &OsStr| {
        let entries = options::of(tool).map(|(_, definition)| definition.entry);
        let optional = entries.filter(|entry| entry.value.is_some_and(|value| value.is_optional));
        hint_before(word, arguments, optional.map(|entry| entry.long))
    };
    if !tool.has_peer() {
        let message =
            format!("unexpected argument '{}': {} has no server", word.display(), tool.name);
        return Err(Failure::usage(message).with_hint_if(hint(word).or_else(|| device_hint(word))));
    }
    if let Some(surplus) = words.next() {
        let failure = Failure::usage(format!(
            "unexpected argument '{}': one server address at most (see --help)",
            surplus.display()
        ));
        let hints = hint(surplus).or_else(|| hint(word));
        let hints = hints.or_else(|| device_hint(surplus)).or_else(|| device_hint(word));
        return Err(failure.with_hint_if(hints));
    }
    let host = match word.to_str() {
        Some(host) if !host.is_empty() => host,
        _ => return Err(refused(word, "expected a host name or an IP address")),
    };
    if let Some(hint) = device_hint(word) {
        let allowed = "expected a host name or an IP address, not a NIC";
        return Err(refused(word, allowed).with_hint(hint));
    }
    let suffix = option_of_suffix(host);
    let hint = hint(word);
    if host.contains(['/', ',']) || suffix.is_some() || hint.is_some() && Path::new(host).exists() {
        let writer =
            suffix.filter(|long| options::of(tool).any(|(_, own)| own.entry.long == *long));
        let failure = refused(word, "expected a host name or an IP address, not a file or a list");
        return Err(failure.with_hint_if(hint.or_else(|| Some(meant(writer?, word)))));
    }
    typed.address = Some(host.to_owned());
    typed.address_hint = hint;
    Ok(())
}

fn refused(word: &OsStr, what: &str) -> Failure {
    Failure::usage(format!("invalid address '{}': {what}", word.display()))
}

/// Returns the option that writes files with the suffix of `name`.
fn option_of_suffix(name: &str) -> Option<&'static str> {
    let (_, suffix) = name.rsplit_once('.')?;
    let mut suffixes = SUFFIXES.iter();
    let (_, option) = suffixes.find(|(own, _)| own.eq_ignore_ascii_case(suffix))?;
    Some(option)
}

#[cfg(test)]
mod tests {
    use super::super::tools::TOOLS;
    use super::*;

    /// Returns the address in the arguments of `tool`, or the message and the hint.
    fn address(tool: &str, arguments: &[&str]) -> Result<Option<String>, (String, Option<String>)> {
        let tool = TOOLS.iter().find(|own| own.name == tool).unwrap();
        match parse(tool, arguments.iter().map(OsString::from).collect()) {
            Ok(Request::Run(typed)) => Ok(typed.address),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err((refusal.failure.message(), refusal.failure.hint)),
        }
    }

    #[test]
    fn refuses_files_and_suggests_the_option_that_writes_them() {
        for (arguments, file, option) in [
            (&["--json", "out.json"][..], "out.json", Some("json")),
            (&["--csv", "OUT.JSON"], "OUT.JSON", Some("csv")),
            (&["out.Csv", "--json"], "out.Csv", Some("csv")),
            (&["--cs", "-d", "soft0", "a.hlog"], "a.hlog", Some("hdr-log")),
            (&["--json", "results/out"], "results/out", Some("json")),
            (&["-n", "5", "/tmp/x"], "/tmp/x", None),
            // This file exists.
            (&["--json", "Cargo.toml"], "Cargo.toml", Some("json")),
        ] {
            let (message, hint) = address("write-lat", arguments).unwrap_err();
            let expected = format!(
                "invalid address '{file}': expected a host name or an IP address, not a file or a list"
            );
            assert_eq!(message, expected);
            let expected = option.map(|long| format!("did you mean --{long}={file}?"));
            assert_eq!(hint, expected, "{arguments:?}");
        }
        // Bandwidth tools write no such file.
        let (_, hint) = address("send-bw", &["a.hlog"]).unwrap_err();
        assert_eq!(hint, None);
    }

    #[test]
    fn refuses_nics_and_suggests_the_option_that_names_them() {
        for arguments in [&["cxi0"][..], &["cxi0", "node1"], &["node1", "cxi0"]] {
            let (_, hint) = address("write-lat", arguments).unwrap_err();
            assert_eq!(hint.as_deref(), Some("an option names the NIC: -d cxi0"));
        }
        assert_eq!(address("write-lat", &["cxi0.x"]), Ok(Some("cxi0.x".into())));
    }

    #[test]
    fn accepts_hosts() {
        for arguments in [
            &["node1"][..],
            &["--json", "node1"],
            &["fe80::1%eth0"],
            &["json"],
            &["node1.example.com", "--json"],
            // A file in the current directory may have the name of a host.
            &["Cargo.toml"],
            &["--json=out", "Cargo.toml"],
        ] {
            let found = address("write-lat", arguments).unwrap();
            assert!(found.is_some(), "{arguments:?}");
        }
        assert_eq!(address("write-lat", &["--json=out.json"]), Ok(None));
    }

    #[test]
    fn suggests_value_if_there_are_two_words() {
        for arguments in [["--json", "out", "node1"], ["node1", "--json", "out"]] {
            let (message, hint) = address("write-lat", &arguments).unwrap_err();
            assert!(message.starts_with("unexpected argument '"), "{message}");
            assert_eq!(hint.as_deref(), Some("did you mean --json=out?"));
        }
    }
}
