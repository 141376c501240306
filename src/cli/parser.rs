//! Declared arguments + what was typed -> matches, or one line about what is wrong, with the names
//! that a misspelt word may stand for. Tools and commands share it.

use std::ffi::{OsStr, OsString};

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use facts::device::DeviceName;
use facts::error::Failure;

/// What arguments ask for.
#[derive(Debug)]
pub enum Parsed {
    /// The help text: all of it (`--help`), or its short form (`-h`).
    Help {
        /// Whether all of it is asked for.
        is_long: bool,
    },
    Version,
    /// What the program is for.
    Matches(ArgMatches),
}

pub fn help() -> Arg {
    let help = Arg::new("help").short('h').long("help");
    help.action(ArgAction::Help)
}

pub fn version() -> Arg {
    let version = Arg::new("version").short('V').long("version");
    version.action(ArgAction::Version)
}

/// Name of the arguments that are no options.
pub const WORDS: &str = "WORDS";

/// The arguments that are no options.
pub fn words() -> Arg {
    let words = Arg::new(WORDS).num_args(0..);
    words.value_parser(ValueParser::os_string())
}

/// Reads `arguments` as `declared`, with [`help`] and [`version`] among them. The last of several
/// equal options counts. `elsewhere` returns the message about an option that others have.
///
/// # Errors
///
/// An unknown or ambiguous option, a missing or surplus value, or a surplus argument.
pub fn read(
    declared: impl IntoIterator<Item = Arg>,
    arguments: &[OsString],
    elsewhere: impl FnOnce(&str) -> Option<String>,
) -> Result<Parsed, Failure> {
    let mut command = Command::new("")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
        .version("")
        .args(declared);
    let error = match command.try_get_matches_from_mut(arguments) {
        Ok(matches) => return Ok(Parsed::Matches(matches)),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp => {
            Ok(Parsed::Help { is_long: arguments.iter().any(|argument| is_long_help(argument)) })
        }
        ErrorKind::DisplayVersion => Ok(Parsed::Version),
        _ => Err(refusal(&error, &command, arguments, elsewhere)),
    }
}

/// Returns clap's error as one line, perhaps with a hint.
fn refusal(
    error: &clap::Error,
    command: &Command,
    arguments: &[OsString],
    elsewhere: impl FnOnce(&str) -> Option<String>,
) -> Failure {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let named = context(ContextKind::InvalidArg);
    // clap names an option with its value: `--iters <iters>`.
    let option = named.split([' ', '=']).next().unwrap_or_default();
    let line = match error.kind() {
        ErrorKind::UnknownArgument if !named.starts_with('-') => {
            let optional = command
                .get_arguments()
                .filter(|own| own.is_require_equals_set())
                .filter_map(Arg::get_long);
            let takes_device = command.get_arguments().any(|own| own.get_short() == Some('d'));
            let hint = hint_before(named.as_ref(), arguments, optional);
            let hint = hint.or_else(|| device_hint(named.as_ref()).filter(|_| takes_device));
            return Failure::usage(format!("unexpected argument '{named}' (see --help)"))
                .with_hint_if(hint);
        }
        ErrorKind::UnknownArgument => elsewhere(option).unwrap_or_else(|| unknown(option, command)),
        ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("option '{option}' needs a value (see --help)")
        }
        ErrorKind::TooManyValues => {
            let value = context(ContextKind::InvalidValue);
            format!("option '{option}' takes no value, but '{value}' was given")
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    };
    Failure::usage(line)
}

/// The message about an option that `command` lacks, or of which it has several with this
/// beginning.
fn unknown(option: &str, command: &Command) -> String {
    let own: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
    let start = option.strip_prefix("--").filter(|start| !start.is_empty());
    let candidates: Vec<String> = own
        .iter()
        .filter(|long| start.is_some_and(|start| long.starts_with(start)))
        .map(|long| format!("--{long}"))
        .collect();
    if candidates.len() > 1 {
        let candidates = candidates.join(", ");
        return format!("ambiguous option '{option}': it could be {candidates}");
    }
    unknown_option(option, own)
}

/// The hint that `word` is probably the value of the option directly before it. `optional` are the
/// long forms of options whose value may be omitted.
pub fn hint_before<'a>(
    word: &OsStr,
    arguments: &[OsString],
    mut optional: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let place = arguments.iter().position(|argument| argument == word)?;
    let before = arguments[..place].last()?.to_str()?.strip_prefix("--")?;
    let long = optional.find(|long| !before.is_empty() && long.starts_with(before))?;
    Some(meant(long, word))
}

/// The hint that a NIC is named by an option, if `word` is the name of a NIC.
pub fn device_hint(word: &OsStr) -> Option<String> {
    let device: DeviceName = word.to_str()?.parse().ok()?;
    Some(format!("an option names the NIC: -d {device}"))
}

/// The hint that `word` is probably the value of the option `long`.
pub fn meant(long: &str, word: &OsStr) -> String {
    question(&[format!("--{long}={}", word.display())])
}

/// Whether `argument` is `--help` or an abbreviation of it.
fn is_long_help(argument: &OsStr) -> bool {
    let text = argument.to_str().unwrap_or_default();
    text.starts_with("--h") && "--help".starts_with(text)
}

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 4;

/// Letters of a word for each letter that may be wrong, missing, surplus or swapped.
const LETTERS_PER_ERROR: usize = 3;

/// The `names` that `word` may stand for, the nearest first: they contain `word`, or differ from it
/// in few letters that can be seen. A name that looks like `word` would not help.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let is_part = |name: &str| word.len() > 1 && name.contains(word);
    let visible: String = word.chars().filter(char::is_ascii_graphic).collect();
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter(|name| *name != visible)
        .map(|name| (strsim::osa_distance(word, name), name))
        .filter(|(errors, name)| {
            errors * LETTERS_PER_ERROR <= word.chars().count() || is_part(name)
        })
        .collect();
    near.sort_by_key(|(errors, _)| *errors);
    near.truncate(MAX_SUGGESTIONS);
    near.into_iter().map(|(_, name)| name).collect()
}

/// The question whether one of `names` was meant: `did you mean write-lat or write-bw?`
pub fn question(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let list = match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    };
    format!("did you mean {list}?")
}

/// Options of perftest and iperf3 that have other names here, the long option that a command needs
/// for the remedy, and the remedy.
const FOREIGN: [(&[&str], &str, &str); 6] = [
    (&["--run_infinitely"], "duration", "-D sets a time, Ctrl-C ends a run with its results"),
    (&["--report_gbits"], "unit", "use --unit=Gb/s"),
    (&["-J"], "json", "use --json"),
    (&["--ib-dev", "--ib_dev"], "device", "use --device"),
    (&["-c", "--client"], "port", "the server is an argument without an option"),
    (&["-F", "--CPU-freq"], "device", "CPU frequencies are not checked"),
];

/// The message about an option that is not among the long options `longs`.
pub fn unknown_option<'a>(option: &str, longs: impl IntoIterator<Item = &'a str>) -> String {
    let longs: Vec<&str> = longs.into_iter().collect();
    let mut foreign = FOREIGN.iter().filter(|(names, _, _)| names.contains(&option));
    if let Some((_, _, remedy)) = foreign.find(|(_, needed, _)| longs.contains(needed)) {
        return format!("unknown option '{option}': {remedy} (see --help)");
    }
    let near = nearest(option.trim_start_matches('-'), longs);
    let near: Vec<String> = near.iter().map(|long| format!("--{long}")).collect();
    if near.is_empty() {
        format!("unknown option '{option}' (see --help)")
    } else {
        format!("unknown option '{option}': {} (see --help)", question(&near))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_with_few_errors_or_the_word_inside() {
        let names = ["write-lat", "read-lat", "write-bw", "devices"];
        for (word, expected) in [
            ("write-lot", &["write-lat", "write-bw"][..]),
            ("raed-lat", &["read-lat"]),
            ("device", &["devices"]),
            ("bw", &["write-bw"]),
            ("lat", &["read-lat", "write-lat"]),
            ("x", &[]),
            ("", &[]),
            ("ping", &[]),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
        assert_eq!(nearest("a", ["a1", "ab"]), [""; 0]);
    }

    #[test]
    fn suggestion_never_looks_like_the_input() {
        for word in ["json", " json", "json\u{a0}", "\u{feff}json", "js\u{200b}on"] {
            assert!(!nearest(word, ["json", "jsonl"]).contains(&"json"), "{word:?}");
            let message = unknown_option(&format!("--{word}"), ["json"]);
            assert!(!message.contains("did you mean"), "{message}");
        }
    }

    #[test]
    fn tells_users_of_other_tools_what_to_use() {
        let longs = ["device", "unit", "json", "duration", "port"];
        for (names, needed, remedy) in FOREIGN {
            for name in names {
                let message = unknown_option(name, longs);
                assert_eq!(message, format!("unknown option '{name}': {remedy} (see --help)"));
                let others = longs.into_iter().filter(|long| *long != needed);
                assert!(!unknown_option(name, others).contains(remedy), "{name}");
            }
        }
    }

    #[test]
    fn limits_number_of_names() {
        let names = ["xx1", "xx2", "xx3", "xx4", "xx5"];
        assert_eq!(nearest("xx", names).len(), MAX_SUGGESTIONS);
    }

    #[test]
    fn asks_about_each_name() {
        assert_eq!(question(&["a"]), "did you mean a?");
        assert_eq!(question(&["a", "b", "c"]), "did you mean a, b or c?");
    }
}
