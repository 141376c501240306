//! The options of a command, from the struct of its request, which derives `clap::Args`: help,
//! manual, completion and reading are made from it.
//!
//! A field is one option, and its doc comment is the explanation ([`Entry::text`]). A default value
//! is added to the explanation unless it names one.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::usage::{Completion, DETAILS, Entry, Value};
use super::values::{self, LEFT_OUT};
use facts::error::{Failure, invalid};
use facts::number::{time, within};
use page::destination::Place;

/// Returns what the request `T` declares.
pub fn declared<T: Args>() -> Command {
    let command = Command::new("").no_binary_name(true);
    T::augment_args(command.disable_help_flag(true).disable_version_flag(true))
}

/// Returns what help, manual and completion show: the options, `--help` and `--version`.
pub fn entries(command: &'static Command) -> Vec<Entry> {
    options(command).chain([Entry::help(), Entry::version()]).collect()
}

pub fn options(command: &'static Command) -> impl Iterator<Item = Entry> {
    command.get_arguments().filter_map(entry)
}

/// The option that an argument is.
fn entry(option: &'static Arg) -> Option<Entry> {
    let name = option.get_value_names().and_then(<[_]>::first);
    let takes_value = option.get_action().takes_values();
    let value = name.filter(|_| takes_value).map(|name| Value {
        name,
        is_optional: option.is_require_equals_set(),
        completion: option.get::<Completion>().copied().unwrap_or_default(),
    });
    Some(Entry { short: option.get_short(), long: option.get_long()?, value, text: text(option) })
}

fn text(option: &Arg) -> String {
    let text = option.get_long_help().or(option.get_help());
    let text = text.map_or(String::new(), ToString::to_string);
    let [default] = option.get_default_values() else { return text };
    let (help, details) = text.split_at(text.find(DETAILS).unwrap_or(text.len()));
    if help.contains("(default: ") {
        return text;
    }
    format!("{help} (default: {}){details}", default.display())
}

/// A value that names a file other than standard output.
pub fn file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|typed| values::file_only(&typed))
}

/// A value that says where a document goes: to standard output if it is omitted.
pub fn document() -> impl TypedValueParser<Value = Place> {
    OsStringValueParser::new().try_map(|typed| values::place(&typed))
}

/// A decimal number within a range.
pub fn number<N>(allowed: RangeInclusive<N>) -> impl TypedValueParser<Value = N>
where
    N: Copy + Into<u64> + TryFrom<u64, Error: Display> + Send + Sync + 'static,
{
    move |typed: &str| {
        let number = within(typed, (*allowed.start()).into()..=(*allowed.end()).into())?;
        N::try_from(number).map_err(|error| error.to_string())
    }
}

/// A time within a range; `default` if it is omitted.
pub fn time_or(
    default: &'static str,
    allowed: RangeInclusive<Duration>,
) -> impl TypedValueParser<Value = Duration> {
    move |typed: &str| time(if typed == LEFT_OUT { default } else { typed }, allowed.clone())
}

/// Whether an option is among the arguments.
pub fn is_given(matches: &ArgMatches, long: &str) -> bool {
    matches.value_source(long) == Some(ValueSource::CommandLine)
}

/// The request of `command` with what was typed ([`Entry::declared`]). The last value of an option
/// counts, unless it takes all.
///
/// # Errors
///
/// The first invalid value, in the order of the options.
pub fn read<T: FromArgMatches>(
    command: &'static Command,
    matches: &ArgMatches,
) -> Result<T, Failure> {
    let mut typed: Vec<(&str, &OsStr, OsString)> = Vec::new();
    let options = command.get_arguments().filter_map(|option| Some((option, option.get_long()?)));
    for (option, long) in options.filter(|(_, long)| is_given(matches, long)) {
        if !option.get_action().takes_values() {
            typed.push((long, OsStr::new(""), format!("--{long}").into()));
            continue;
        }
        let values = matches.get_many::<OsString>(long).unwrap_or_default();
        let counts_all = matches!(option.get_action(), ArgAction::Append);
        let surplus = if counts_all { 0 } else { values.len() - 1 };
        typed.extend(values.skip(surplus).map(|value| {
            let mut word = OsString::from(format!("--{long}="));
            word.push(value);
            (long, value.as_os_str(), word)
        }));
    }
    let parsed = |words: &[&OsString]| command.clone().try_get_matches_from(words);
    let words: Vec<&OsString> = typed.iter().map(|(.., word)| word).collect();
    parsed(&words).and_then(|matches| T::from_arg_matches(&matches)).map_err(|error| {
        let refused = typed.iter().find_map(|(long, value, word)| {
            let allowed = allowed(&parsed(&[word]).err()?);
            Some(Failure::usage(invalid(long, value.display(), allowed)))
        });
        refused.unwrap_or_else(|| Failure::usage(error.to_string()))
    })
}

/// The request of `command` without arguments.
///
/// # Panics
///
/// If an option has no value without arguments.
pub fn unset<T: FromArgMatches>(command: &'static Command) -> T {
    let matches = command.clone().try_get_matches_from([""; 0]);
    matches.and_then(|matches| T::from_arg_matches(&matches)).expect("options may be left out")
}

/// Returns what is allowed in place of a refused value.
fn allowed(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return values::NO_TEXT.into();
    }
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::arguments::TypedArguments;
    use crate::usage::Usage;

    #[derive(Debug, Args)]
    struct Request {
        /// Numbers to add
        #[arg(short, long = "number", value_name = "N,...", value_delimiter = ',')]
        numbers: Vec<u8>,

        /// Time to wait
        ///
        /// It is in s.
        #[arg(long, value_name = "TIME", default_value = "3", value_parser = number(1..=9_u8))]
        #[arg(add = Completion::Words(|| vec!["1".into()]))]
        wait: u8,

        /// Place of the files (default: here)
        #[arg(long, value_name = "FILE", default_value = ".", value_parser = file())]
        place: PathBuf,

        /// Write a document
        #[arg(long, value_name = "FILE", require_equals = true, value_parser = document())]
        json: Option<Place>,

        /// Look again (default: 2s)
        #[arg(long, value_name = "TIME", require_equals = true)]
        #[arg(value_parser = time_or("2s", Duration::ZERO..=Duration::from_secs(9)))]
        every: Option<Duration>,

        /// Do less
        #[arg(short = 'l', long = "less", action = ArgAction::SetFalse)]
        is_all: bool,
    }

    static COMMAND: LazyLock<Command> = LazyLock::new(declared::<Request>);

    fn usage() -> Usage {
        let options = entries(&COMMAND);
        Usage { arguments: Completion::Devices, options, ..Usage::default() }
    }

    /// Returns what is read from these words, or the message of a refusal.
    fn read(words: &str) -> Result<TypedArguments<Request>, String> {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let usage = usage();
        let typed = TypedArguments::read(&usage, &COMMAND, &words);
        typed.map(|typed| typed.expect("a request")).map_err(|failure| failure.message())
    }

    #[test]
    fn makes_entries_from_fields() {
        let entries = entries(&COMMAND);
        let shown: Vec<(String, &str)> =
            entries.iter().map(|own| (own.syntax(), own.text.as_str())).collect();
        let expected = [
            ("-n, --number=N,...", "Numbers to add"),
            ("    --wait=TIME", "Time to wait (default: 3)\n\nIt is in s."),
            ("    --place=FILE", "Place of the files (default: here)"),
            ("    --json[=FILE]", "Write a document"),
            ("    --every[=TIME]", "Look again (default: 2s)"),
            ("-l, --less", "Do less"),
            ("-h, --help", "Print this help and exit"),
            ("-V, --version", "Print the version and exit"),
        ];
        assert_eq!(shown, expected.map(|(syntax, text)| (syntax.to_owned(), text)));
        let offered = entries.iter().filter_map(|own| Some(own.value?.completion));
        let words = offered.filter_map(|own| match own {
            Completion::Words(words) => Some(words()),
            _ => None,
        });
        assert_eq!(words.collect::<Vec<_>>(), [["1"]]);
    }

    #[test]
    fn reads_a_request() {
        let typed = read("a --wa 4 -n1,2 --json --wait=5 -n 3 b").expect("valid words");
        assert_eq!((typed.words.len(), typed.request.wait), (2, 5));
        assert_eq!(typed.request.numbers, [1, 2, 3]);
        assert_eq!(typed.request.json, Some(Place::Stdout));
        assert!(typed.request.is_all && typed.is_given("wait") && !typed.is_given("place"));
        let typed = read("--less --json=x --every").expect("valid words");
        assert_eq!(typed.request.every, Some(Duration::from_secs(2)));
        assert_eq!((typed.request.wait, &typed.request.place), (3, &PathBuf::from(".")));
        assert_eq!(typed.request.json, Some(Place::File("x".into())));
        assert!(!typed.request.is_all && !typed.is_given("wait"));
        assert_eq!(unset::<Request>(&COMMAND).wait, 3);
    }

    #[test]
    fn refuses_the_first_invalid_value_in_the_order_of_options() {
        for (words, expected) in [
            (
                "--place= --wait=x -n1,y -n z",
                "invalid value '1,y' for --number: invalid digit found in string",
            ),
            (
                "--wait=x --wait=1 --place=-",
                "invalid value '-' for --place: expected the name of a file",
            ),
            ("--wait=10", "invalid value '10' for --wait: expected a decimal number from 1 to 9"),
            (
                "--every=10s",
                "invalid value '10s' for --every: expected a time from 0s to 9s: a number such as \
                 0.5 with ns, us, ms, s or m (minutes)",
            ),
            ("--json= --bogus", "unknown option '--bogus' (see --help)"),
            ("--less=1", "option '--less' takes no value, but '1' was given"),
            ("--wait", "option '--wait' needs a value (see --help)"),
        ] {
            assert_eq!(read(words).map(|typed| typed.request).unwrap_err(), expected, "{words}");
        }
    }

    #[test]
    fn refuses_a_value_that_is_no_text() {
        use std::os::unix::ffi::OsStringExt;
        let words = [OsString::from_vec(b"--wait=\xff".to_vec())];
        let typed = TypedArguments::<Request>::read(&usage(), &COMMAND, &words);
        let message = typed.map(|_| ()).unwrap_err().message();
        assert_eq!(message, "invalid value '\u{fffd}' for --wait: expected plain text");
    }
}
