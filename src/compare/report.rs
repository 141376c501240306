//! `report`: draws results as one HTML page (docs/output-formats.md).

use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;

use clap::{Args, Command};

use crate::comparison::MAX_REGRESS;
use crate::results::ReadResult;
use crate::runs::RunSource;
use crate::{html, results, runs};
use cli::arguments::TypedArguments;
use cli::derived;
use cli::usage::{Completion, Usage};
use facts::error::Failure;
use page::destination::{Destination, Place};

/// Name of the command, for messages.
const NAME: &str = "cxidiag report";

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: NAME.into(),
        about: "Draw results as one HTML page",
        synopsis: vec![("cxidiag report FILE... [--output=PAGE]".into(), "")],
        arguments: Completion::Files,
        about_arguments: "FILE is what a tool wrote with --json=FILE or --jsonl=FILE, or printed, also a\n\
                          legacy one, or what compare, survey or stat wrote with --json=FILE;\n\
                          - is standard input. Runs of two files are compared as well.",
        options: derived::entries(&COMMAND),
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
    let Some((sources, output)) = parse(&arguments)? else {
        return Ok(());
    };
    results::check_output(&sources, "output", &output)?;
    let destination = Destination::open(&output)?;
    let mut results = read(&sources)?;
    results::compare_layers(&mut results);
    if let [base, _] = sources.as_slice()
        && let Err(failure) = results::compare(&mut results, &base.name(), MAX_REGRESS)
    {
        warn(failure);
    }
    destination.write(html::page(&results, SystemTime::now()).as_bytes())?;
    match output {
        Place::File(page) => page::print(&format!("the page is {}\n", page.display())),
        Place::Stdout => Ok(()),
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<ReportRequest>);

/// What the options ask for.
#[derive(Args)]
struct ReportRequest {
    /// File for the page; - is standard output (default: the only FILE, with the ending .html)
    #[arg(short, long, value_name = "PAGE")]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    output: Option<Place>,
}

/// Reads the arguments: the results and the page. Returns `None` if they ask for help or the
/// version.
fn parse(arguments: &[OsString]) -> Result<Option<(Vec<RunSource>, Place)>, Failure> {
    let typed = TypedArguments::<ReportRequest>::read(&usage(), &COMMAND, arguments)?;
    let Some(TypedArguments { request, words: files, .. }) = typed else { return Ok(None) };
    let sources: Vec<RunSource> = files.iter().map(|file| RunSource::of(Path::new(file))).collect();
    if sources.is_empty() {
        return Err(misplaced("there are no files with results"));
    }
    results::check_stdin(sources.iter())?;
    let page = match (request.output, files.as_slice()) {
        (Some(page), _) => page,
        (None, [file]) if file != "-" => Place::File(Path::new(file).with_extension("html")),
        (None, _) => return Err(misplaced("--output names no file for the page")),
    };
    Ok(Some((sources, page)))
}

/// Reads all results. Prints a warning for each line and for the documents of servers that are left
/// out.
fn read(sources: &[RunSource]) -> Result<Vec<ReadResult>, Failure> {
    let mut all = Vec::new();
    for source in sources {
        let (results, warnings) = results::read(source)?;
        warnings.iter().for_each(warn);
        all.extend(results);
    }
    runs::leave_out_servers(&mut all, ReadResult::run).iter().for_each(warn);
    Ok(all)
}

fn warn(what: impl Display) {
    results::warn(NAME, what);
}

/// A failure because of the arguments.
fn misplaced(what: &str) -> Failure {
    Failure::usage(format!("{what} (see {NAME} --help)"))
}
