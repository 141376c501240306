//! `report`: draws results as one HTML page (docs/output-formats.md).

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Arg, ArgAction, value_parser};

use facts::error::{Failure, invalid};
use plan::cli::usage::{Completion, Entry, Usage, Value};
use plan::cli::values::place;
use plan::outputs::Place;
use report::Destination;
use report::html;
use report::results::{self, ReadResult};
use report::runs::Source;

/// Name of the command, for messages.
const NAME: &str = "cxidiag report";

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: NAME.into(),
        about: "Draw results as one HTML page",
        synopsis: vec![("cxidiag report FILE... --output=PAGE".into(), "")],
        arguments: Completion::Files,
        about_arguments: "FILE is what a tool wrote with --json=FILE or --jsonl=FILE, or compare or\n\
                          survey with --json=FILE; - is standard input.",
        options: vec![
            Entry {
                short: Some('o'),
                long: "output",
                value: Some(Value::new("PAGE", Completion::Files)),
                help: "File for the page; - is standard output (required)".into(),
                manual: "The file that the page is written to. The name `-` is standard output. \
                         Required.",
            },
            Entry::help(),
            Entry::version(),
        ],
        remarks: vec![
            "The page loads nothing else: it can be mailed, and opened without a network.",
        ],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file without results, or a page that cannot be written.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(asked) = parse(&arguments)? else {
        return Ok(());
    };
    check_output(&asked)?;
    let destination = Destination::open(&asked.output)?;
    let results = read(&asked.sources)?;
    destination.write(html::page(&results, SystemTime::now()).as_bytes())
}

/// What the arguments ask for.
#[derive(Debug)]
struct Asked {
    sources: Vec<Source>,
    output: Place,
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<Asked>, Failure> {
    let output = Arg::new("output")
        .short('o')
        .long("output")
        .action(ArgAction::Set)
        .allow_hyphen_values(true)
        .value_parser(value_parser!(OsString));
    let files = Arg::new("FILE")
        .action(ArgAction::Append)
        .value_parser(value_parser!(PathBuf));
    let Some(matches) = super::matches(&usage(), [output, files], arguments)? else {
        return Ok(None);
    };
    let files = matches.get_many::<PathBuf>("FILE").into_iter().flatten();
    let sources: Vec<Source> = files.map(|path| Source::of(path)).collect();
    if sources.is_empty() {
        return Err(misplaced("there are no files with results"));
    }
    if sources.iter().filter(|of| **of == Source::Stdin).count() > 1 {
        return Err(misplaced("standard input (-) can be read only once"));
    }
    let output = match matches.get_one::<OsString>("output") {
        None => return Err(misplaced("--output names no file for the page")),
        Some(typed) if typed == "-" => Place::Stdout,
        Some(typed) => {
            place(typed).map_err(|why| Failure::usage(invalid("output", typed.display(), why)))?
        }
    };
    Ok(Some(Asked { sources, output }))
}

/// Checks that the page does not replace results.
fn check_output(asked: &Asked) -> Result<(), Failure> {
    let Some(output) = asked.output.file() else {
        return Ok(());
    };
    let target = output.canonicalize().ok();
    let is_target = |source: &Source| match source {
        Source::Stdin => false,
        Source::File(path) => target.is_some() && path.canonicalize().ok() == target,
    };
    if asked.sources.iter().any(is_target) {
        let allowed = "this is a file with results, which would be replaced";
        return Err(Failure::usage(invalid("output", output.display(), allowed)));
    }
    Ok(())
}

/// Reads all results. Prints a warning for each line and for the documents of servers that are left
/// out.
fn read(sources: &[Source]) -> Result<Vec<ReadResult>, Failure> {
    let mut all = Vec::new();
    for source in sources {
        let (results, warnings) = results::read(source)?;
        warnings.iter().for_each(warn);
        all.extend(results);
    }
    match results::leave_out_servers(&mut all) {
        0 => {}
        1 => warn("a document of a server is left out: a client's is used"),
        several => warn(format_args!(
            "{several} documents of servers are left out: those of clients are used"
        )),
    }
    Ok(all)
}

fn warn(what: impl Display) {
    let _ = writeln!(io::stderr(), "{NAME}: warning: {what}");
}

/// Returns a failure because of the arguments.
fn misplaced(what: &str) -> Failure {
    Failure::usage(format!("{what} (see {NAME} --help)"))
}
