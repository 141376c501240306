//! Arguments that several commands read alike, and the versions of the program and of the programs
//! that it replaces.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::builder::{OsStringValueParser, StringValueParser, TypedValueParser};
use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::derived;
use super::parser::{self, Parsed, hint_before};
use super::usage::{Completion, Entry, Usage};
use facts::child::PROGRAM;
use facts::device::{DeviceName, LIBCXI_VARIABLE, LibraryFile};
use facts::error::Failure;
use facts::release;
use page::print;

/// What was typed for a command.
pub struct TypedArguments<T> {
    pub request: T,
    /// The arguments that are no options.
    pub words: Vec<OsString>,
    matches: ArgMatches,
}

impl<T: FromArgMatches> TypedArguments<T> {
    /// Reads the arguments of `command`. Returns `None` if they ask for help or the version, which
    /// are then printed.
    ///
    /// # Errors
    ///
    /// An unknown option, an invalid value, or an argument of a command that takes none.
    pub fn read(
        usage: &Usage,
        command: &'static Command,
        arguments: &[OsString],
    ) -> Result<Option<Self>, Failure> {
        let Some(matches) = matches(usage, arguments)? else { return Ok(None) };
        let request = derived::read(command, &matches)?;
        let words = words(usage, &matches, arguments)?;
        Ok(Some(Self { request, words, matches }))
    }

    /// Whether an option is among the arguments.
    pub fn is_given(&self, long: &str) -> bool {
        derived::is_given(&self.matches, long)
    }
}

/// Returns what was typed, or `None` if the arguments ask for help or the version, which are then
/// printed.
///
/// # Errors
///
/// An unknown option, a missing or surplus value, or an argument of a command that takes none.
pub fn matches(usage: &Usage, arguments: &[OsString]) -> Result<Option<ArgMatches>, Failure> {
    let takes_words = !matches!(usage.arguments, Completion::Nothing);
    let options = usage.all_options().filter(|own| !matches!(own.long, "help" | "version"));
    let declared = options.map(Entry::declared).chain([parser::help(), parser::version()]);
    let declared = declared.chain(takes_words.then(parser::words));
    match parser::read(declared, arguments, |_| None)? {
        Parsed::Matches(matches) => Ok(Some(matches)),
        Parsed::Help { is_long } => print(&usage.text(is_long)).map(|()| None),
        Parsed::Version => print_version(&usage.program, usage.replaced_version).map(|()| None),
    }
}

/// The arguments that are no options.
fn words(
    usage: &Usage,
    matches: &ArgMatches,
    arguments: &[OsString],
) -> Result<Vec<OsString>, Failure> {
    let words = matches.try_get_many(parser::WORDS).ok().flatten();
    let words: Vec<OsString> = words.map_or_else(Vec::new, |words| words.cloned().collect());
    if !matches!(usage.arguments, Completion::Files) {
        refuse_document(&words, arguments)?;
    }
    Ok(words)
}

pub fn texts(words: Vec<OsString>) -> Result<Vec<String>, Failure> {
    let words = words.into_iter().map(OsString::into_string);
    words
        .collect::<Result<_, _>>()
        .map_err(|_| Failure::usage("invalid UTF-8 was detected in one or more arguments"))
}

/// The arguments before `--`, and those after it if it is among them.
pub fn parts(arguments: &[OsString]) -> (&[OsString], Option<&[OsString]>) {
    match arguments.iter().position(|word| word == "--") {
        Some(at) => (&arguments[..at], Some(&arguments[at + 1..])),
        None => (arguments, None),
    }
}

/// The value of an option that is passed on to the tools, which check it: `--LONG=VALUE`.
pub fn passed_on(long: &'static str) -> impl TypedValueParser<Value = String> {
    StringValueParser::new().map(move |typed| format!("--{long}={typed}"))
}

/// The options of service, VNI and traffic class, which are passed on to the tools.
#[derive(Clone, Debug, Default, Args)]
pub struct ServiceArguments {
    /// CXI service (default: as for the tools)
    #[arg(short = 'v', long, value_name = "SVC_ID", value_parser = passed_on("svc-id"))]
    svc_id: Option<String>,

    /// VNI of the service (default: as for the tools)
    #[arg(long, value_name = "VNI|job", value_parser = passed_on("vni"))]
    vni: Option<String>,

    /// Traffic class (default: as for the tools)
    #[arg(long, value_name = "CLASS", value_parser = passed_on("traffic-class"))]
    traffic_class: Option<String>,
}

impl ServiceArguments {
    /// Returns arguments for the tools.
    pub fn arguments(&self) -> Vec<String> {
        [&self.svc_id, &self.vni, &self.traffic_class].into_iter().flatten().cloned().collect()
    }
}

/// What `--libcxi` does in commands that load the library themselves.
pub const LIBCXI: &str =
    "Library to load for hardware (default: $CXIDIAG_LIBCXI, else libcxi.so.1)";

/// The library that `--libcxi` names.
pub fn library() -> impl TypedValueParser<Value = LibraryFile> {
    OsStringValueParser::new().try_map(|path| {
        let path = Some(path).filter(|path| !path.is_empty()).ok_or("expected a file")?;
        Ok::<_, &str>(LibraryFile::new(path.into(), "--libcxi"))
    })
}

/// The library that the environment names.
pub fn library_of_environment() -> Option<LibraryFile> {
    let path = env::var_os(LIBCXI_VARIABLE).filter(|path| !path.is_empty())?;
    Some(LibraryFile::new(path.into(), LIBCXI_VARIABLE))
}

/// What `--device` does in commands whose arguments are NICs.
pub const DEVICES: &str = "NICs beside those that are arguments (default: none)\n\n\
                           With commas between several.";

/// Refuses the name of a document that stands directly behind `--json`, where the command takes
/// other words.
///
/// # Errors
///
/// Such a name.
pub fn refuse_document(words: &[OsString], arguments: &[OsString]) -> Result<(), Failure> {
    let is_document =
        |word: &&OsString| Path::new(word).extension().is_some_and(|end| end == "json");
    for word in words.iter().filter(is_document) {
        if let Some(hint) = hint_before(word, arguments, ["json"].into_iter()) {
            let message = format!("unexpected argument '{}'", word.display());
            return Err(Failure::usage(message).with_hint(hint));
        }
    }
    Ok(())
}

/// Adds the NICs among the arguments to the NICs of `--device`, each once.
///
/// # Errors
///
/// A name of no NIC.
pub fn add_devices(
    devices: &mut Vec<DeviceName>,
    words: Vec<OsString>,
    arguments: &[OsString],
) -> Result<(), Failure> {
    for name in texts(words)? {
        let device = name.parse().map_err(|why: &str| {
            let hint = hint_before(name.as_ref(), arguments, ["json"].into_iter());
            Failure::usage(format!("invalid device '{name}': {why}")).with_hint_if(hint)
        })?;
        devices.push(device);
    }
    let all = std::mem::take(devices);
    for device in all {
        if !devices.contains(&device) {
            devices.push(device);
        }
    }
    Ok(())
}

/// The only NIC, if one is named.
///
/// # Errors
///
/// More than one NIC.
pub fn one_device(devices: &[DeviceName]) -> Result<Option<DeviceName>, Failure> {
    match devices {
        [_, other, ..] => {
            let message = format!("expected one NIC: leave out {other}");
            Err(Failure::usage(message))
        }
        _ => Ok(devices.first().copied()),
    }
}

/// The version of what was started as `name`: of the program that it replaces, if any.
pub fn version_under(name: &str, replaced: Option<&str>) -> String {
    match replaced {
        Some(replaced) => format!("{name} version: {replaced}\n"),
        None => subcommand_version(name),
    }
}

/// Prints the version of what was started as `name`. Scripts read the version of a program that it
/// replaces; the version of this program then follows on standard error.
pub fn print_version(name: &str, replaced: Option<&str>) -> Result<(), Failure> {
    page::print(&version_under(name, replaced))?;
    if replaced.is_some() {
        let _ = write!(io::stderr(), "{}", version());
    }
    Ok(())
}

/// The version of a tool or a command that is a subcommand: `cxidiag compare`.
fn subcommand_version(name: &str) -> String {
    format!("{name} version: {}\n", release_text())
}

/// The version of the program.
pub fn version() -> String {
    subcommand_version(PROGRAM)
}

/// The release, with revision and date if `build.rs` found them.
fn release_text() -> String {
    let sources = release::sources();
    let known: Vec<&str> = [sources.revision, sources.date].into_iter().flatten().collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    format!("{}{known}", env!("CARGO_PKG_VERSION"))
}
