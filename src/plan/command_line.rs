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
//!
//! What the program and each tool take, and their versions, from the registry and the option
//! definitions.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgMatches};
use cli::definition;
use cli::parser::{self, Parsed, device_hint, hint_before, meant};
use cli::usage::{Completion, Entry, Subcommand, Usage};
use facts::atomic;
use facts::child::PROGRAM;
use facts::error::Failure;

use crate::options::{self, Def, Governs, ToolOption};
use crate::outputs::Outputs;
use crate::tool::Tool;
use crate::tools::has_one_status;
use crate::typed::Typed;

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

/// The options of `tool` in its arguments, with their long names, in the order of the help text.
/// None if the arguments ask for help or the version.
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

/// The outputs that single arguments ask for, if the parser refuses the arguments together. An
/// output has its value in the same argument: `--json=-`.
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

/// The abbreviations that the legacy tool accepts for its option `long`.
fn abbreviations(long: &'static str, tool: &Tool) -> Vec<&'static str> {
    let others: Vec<&str> = legacy_options(tool).filter(|other| *other != long).collect();
    (1..long.len())
        .map(|length| &long[..length])
        .filter(|start| !others.iter().any(|other| other.starts_with(start)))
        .collect()
}

/// The long options of the legacy tool.
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

/// The option that writes files with the suffix of `name`.
fn option_of_suffix(name: &str) -> Option<&'static str> {
    let (_, suffix) = name.rsplit_once('.')?;
    let mut suffixes = SUFFIXES.iter();
    let (_, option) = suffixes.find(|(own, _)| own.eq_ignore_ascii_case(suffix))?;
    Some(option)
}

/// Returns what `tool` takes; `program` is the name that the user started.
pub fn usage(tool: &Tool, program: &str) -> Usage {
    let groups = options::GROUPS.iter().map(|group| {
        let own = group.options.iter().filter(|option| (option.takers)(tool));
        let own: Vec<Entry> = own.map(|option| (option.definition)(tool).entry).collect();
        (group.title, own)
    });
    let groups = groups.filter(|(_, own)| !own.is_empty());
    let frequent = options::of(tool).filter(|(option, _)| option.frequent);
    let frequent = frequent.map(|(_, definition)| definition.entry.long);
    let mut words = Vec::new();
    if !tool.has_data() {
        words = vec![
            ("Atomic operations", atomic::list(&atomic::OPS)),
            ("Comparisons of CSWAP", atomic::list(&atomic::CSWAP_OPS)),
            ("Atomic types", atomic::list(&atomic::TYPES)),
        ];
    }
    Usage {
        program: program.to_owned(),
        about: tool.about,
        synopsis: synopsis(tool, program),
        arguments: if tool.has_peer() { Completion::Hosts } else { Completion::Nothing },
        groups: groups.collect(),
        options: vec![
            Entry {
                text: "Print the most used options (-h) or all (--help)".into(),
                ..Entry::help()
            },
            Entry::version(),
        ],
        frequent: frequent.chain(["help", "version"]).collect(),
        words,
        examples: examples(tool, program),
        statuses: statuses(tool),
        remarks: remarks(tool),
        ..Usage::default()
    }
}

/// The ways to start a tool, and what each does.
fn synopsis(tool: &Tool, program: &str) -> Vec<(String, &'static str)> {
    if tool.has_peer() {
        vec![
            (format!("{program} [-d DEV] [-p PORT]"), "Start a server and wait for a client"),
            (format!("{program} ADDR [OPTIONS]"), "Measure against the server at ADDR"),
            (format!("{program} --loopback [OPTIONS]"), "Run both sides on this machine"),
        ]
    } else {
        vec![
            (format!("{program} [-d DEV] [OPTIONS]"), "Measure one NIC"),
            (format!("{program} --all-nics [OPTIONS]"), "Measure each NIC by itself"),
            (format!("{program} --all-gpus [OPTIONS]"), "Measure each NIC with each GPU"),
        ]
    }
}

/// Returns what a tool measures, in sentences.
fn remarks(tool: &Tool) -> Vec<&'static str> {
    let mut remarks = Vec::new();
    if !tool.has_peer() {
        remarks.push(
            "The NIC writes to itself: the packets go to the switch and come back. All writes\n\
             of a list have the same source and the same target.",
        );
    } else if tool.measures_bandwidth() {
        remarks.push(
            "A list counts when it is complete. The time of a side ends with its last list or\n\
             reply; the final barrier is not counted.",
        );
    }
    if tool.has_peer() {
        remarks.push("The client's options apply to both sides.");
    }
    remarks
}

/// The exit statuses of a tool.
fn statuses(tool: &Tool) -> &'static str {
    if has_one_status(tool) {
        "Exit status: 0 success, 1 invalid arguments or the run failed, 3 an expectation\n\
         (--expect) is not met, 130 interrupted."
    } else if tool.measures_bandwidth() {
        "Exit status: 0 success, 1 the run failed, 2 invalid arguments, 3 an expectation\n\
         (--expect) is not met, 130 interrupted."
    } else {
        "Exit status: 0 success, 1 the run failed, 2 invalid arguments, 3 an expectation\n\
         (--expect) is not met or a median (--until) is unstable, 130 interrupted."
    }
}

/// Two commands, and what each does.
fn examples(tool: &Tool, program: &str) -> Vec<(String, String)> {
    if !tool.has_peer() {
        return vec![
            (
                format!("{program} -d soft0"),
                "Measures on the software NIC: needs no hardware".into(),
            ),
            (
                format!("{program} --all-nics -D 5 --json=nics.json"),
                "Measures each NIC of this machine for 5 seconds".into(),
            ),
        ];
    }
    let options = match (tool.measures_bandwidth(), tool.has_data()) {
        (true, true) => "-b -D 5 -s 1024:65536",
        (true, false) => "-b -D 5",
        (false, true) => "-D 1 -s 1:4096",
        (false, false) => "-D 1 -A CSWAP -T UINT64",
    };
    vec![
        (
            format!("{program} --loopback -d soft0"),
            "Measures on this machine, on the software NIC: needs no hardware".into(),
        ),
        (
            format!("{program} node1 {options}"),
            format!("Measures against node1, on which \"{program}\" is the server"),
        ),
    ]
}

/// Returns what the program takes.
pub fn overview(tools: &[Tool], commands: impl Iterator<Item = Subcommand>) -> Usage {
    let tools = tools.iter().map(|tool| Subcommand {
        name: tool.name,
        about: tool.about,
        legacy_name: Some(tool.legacy_name),
    });
    let own = [("help", "Print the help of a tool or command"), ("version", "Print the version")];
    let own = own.map(|(name, about)| Subcommand { name, about, legacy_name: None });
    let commands = commands.chain(own);
    Usage {
        program: PROGRAM.into(),
        about: "Latency and bandwidth diagnostics for HPE Slingshot NICs",
        synopsis: vec![
            ("cxidiag TOOL [ADDR] [OPTIONS]".into(), ""),
            ("cxidiag COMMAND [ARGUMENTS]".into(), ""),
        ],
        subcommands: vec![("Tools", tools.collect()), ("Commands", commands.collect())],
        options: vec![
            Entry {
                text: "Print this help and exit; after a tool, -h prints the options that most \
                       people need, --help all of them"
                    .into(),
                ..Entry::help()
            },
            Entry::version(),
            Entry {
                short: None,
                long: "list",
                value: None,
                text: "Print each tool with its legacy name and exit\n\nOne on a line.".into(),
            },
        ],
        ..Usage::default()
    }
}

/// Each tool with its legacy name, one on a line. Packages make symbolic links from it.
pub fn list(tools: &[Tool]) -> String {
    tools.iter().map(|tool| format!("{} {}\n", tool.name, tool.legacy_name)).collect()
}

/// The version of the legacy program if `tool` was started under its name `name`: the peer compares
/// it as well.
pub fn replaced_version(tool: &Tool, name: &str) -> Option<&'static str> {
    (name == tool.legacy_name).then_some(tool.wire_version)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use cli::arguments::{version, version_under};
    use cli::usage::testing::check_help;
    use facts::error::Failure;

    use super::*;
    use crate::Plan;
    use crate::tools::{TOOLS, legacy_form, with_status_of};

    /// The address in the arguments of `tool`, or the message and the hint.
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

    #[test]
    fn help_fits_and_explains_each_option() {
        let tools = TOOLS.iter().flat_map(|tool| {
            let program = format!("cxidiag {}", tool.name);
            [usage(tool, &program), usage(tool, tool.legacy_name)]
        });
        for usage in tools {
            check_help(&usage);
        }
    }

    #[test]
    fn help_of_tool_has_groups_examples_and_exit_statuses() {
        for tool in TOOLS {
            let text = usage(tool, tool.legacy_name).text(true);
            let titles = options::GROUPS.iter().filter_map(|group| {
                let is_empty = !group.options.iter().any(|option| (option.takers)(tool));
                assert!(!is_empty || !text.contains(group.title), "{text}");
                (!is_empty).then(|| format!("\n{}:\n", group.title))
            });
            let parts = ["\nExamples:\n", "\nExit status: 0 success, 1 "].map(str::to_owned);
            let places: Vec<_> = titles.chain(parts).map(|part| text.find(&part)).collect();
            assert!(places.is_sorted() && places[0].is_some(), "{places:?} {text}");
        }
    }

    #[test]
    fn invalid_arguments_have_the_status_of_the_legacy_tool_under_its_name() {
        let loopback = TOOLS.iter().find(|tool| !tool.has_peer()).unwrap();
        for (tool, status) in
            [(loopback, "2 invalid arguments"), (legacy_form(loopback), "1 invalid arguments")]
        {
            let text = usage(tool, tool.name).text(true);
            assert!(text.contains(status), "{status}: {text}");
            let failure = with_status_of(tool, Failure::usage("wrong"));
            assert_eq!(failure.status().to_string(), status[..1]);
        }
    }

    #[test]
    fn short_help_of_tool_fits_on_a_screen_and_names_the_long_one() {
        for tool in TOOLS {
            let text = usage(tool, tool.legacy_name).text(false);
            assert!(text.lines().count() <= 25, "{text}");
            for part in ["--device=", "--iters=", " --help shows all options"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn examples_of_tools_are_valid() {
        for tool in TOOLS {
            let examples = usage(tool, tool.legacy_name).examples;
            assert_eq!(examples.len(), 2);
            for (command, _) in examples {
                let arguments = command.split(' ').skip(1).map(OsString::from).collect();
                let Ok(Request::Run(typed)) = parse(tool, arguments) else {
                    panic!("{command}");
                };
                let plan = Plan::new(tool, String::new(), *typed, None).unwrap();
                assert_eq!(plan.note(), None, "{command}");
            }
        }
    }

    #[test]
    fn shows_legacy_version_under_legacy_name() {
        let tool = &TOOLS[0];
        let text = |name| version_under(name, replaced_version(tool, name));
        let legacy = format!("{} version: {}\n", tool.legacy_name, tool.wire_version);
        assert_eq!(text(tool.legacy_name), legacy);
        let own = version().replacen("cxidiag", &format!("cxidiag {}", tool.name), 1);
        assert_eq!(text(&format!("cxidiag {}", tool.name)), own);
    }
}
