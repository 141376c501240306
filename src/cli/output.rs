//! What a command prints and writes: its text, the document of `--json`, the metrics of
//! `--openmetrics`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::derived;
use crate::usage::Completion;
use facts::error::{Failure, Kind};
use page::destination::Place;
use page::documents::Documents;
use page::openmetrics::{Dialect, MetricsFile};
use page::page::{Page, style_of_stdout};

/// What `--json` does.
pub const JSON: &str = "Print one JSON document instead of the text, or write it to FILE";

/// What `--quiet` does in commands with a verdict.
pub const QUIET: &str = "Print the verdict only, without progress\n\nNo notes are printed either.";

/// Prints the page of a document, of a quiet command its first line, unless the document has
/// standard output, and writes the document.
///
/// # Errors
///
/// Standard output or the file cannot be written.
pub fn write<T: Serialize>(
    documents: &Documents,
    document: &T,
    is_quiet: bool,
    page: impl FnOnce(&T) -> Page,
) -> Result<(), Failure> {
    let page = page(document);
    let page = if is_quiet { page.first_line() } else { page };
    documents.print_page(style_of_stdout(), &page)?;
    documents.write_json(document)
}

/// Returns `outcome`; a failure is written to the document of `--json`, too.
pub fn or_failure<T>(documents: &Documents, outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.inspect_err(|failure| documents.write_failure(failure))
}

/// Returns `outcome` of what a command does before it opens its documents; a failure is written to
/// the document at `json`, too. Invalid arguments leave files as they are.
pub fn or_early_failure<T>(
    json: Option<&Place>,
    outcome: Result<T, Failure>,
) -> Result<T, Failure> {
    outcome.inspect_err(|failure| {
        let json = json.filter(|to| failure.kind != Kind::Usage || **to == Place::Stdout);
        if let Ok(documents) = Documents::open_json(json) {
            documents.write_failure(failure);
        }
    })
}

/// The request that a command has read from `arguments`; their failure is written to standard
/// output if they ask for a document there.
pub fn or_refusal<T>(arguments: &[OsString], read: Result<T, Failure>) -> Result<T, Failure> {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    let asks = |argument: &OsString| {
        let text = argument.to_str()?;
        match text.strip_prefix("--json")? {
            "" | "=-" => Some(true),
            other => other.starts_with('=').then_some(false),
        }
    };
    let is_asked = own.filter_map(asks).last() == Some(true);
    or_early_failure(is_asked.then_some(&Place::Stdout), read)
}

/// The metrics that the arguments ask for.
#[derive(Clone, Debug, Default, Args)]
pub struct MetricsRequest {
    /// Write metrics to FILE: for the node exporter of Prometheus if it is *.prom, else OpenMetrics
    ///
    /// FILE is replaced in one step and readable by all. The node exporter reads it with its
    /// textfile collector; OpenMetrics is version 1.0.
    #[arg(long = "openmetrics", value_name = "FILE")]
    #[arg(value_parser = derived::file(), add = Completion::Files)]
    file: Option<PathBuf>,

    /// Form of this file: node-exporter, openmetrics (default: by its name)
    #[arg(long = "openmetrics-format", value_name = "FORMAT")]
    #[arg(value_parser = dialect, add = Completion::Words(formats))]
    dialect: Option<Dialect>,
}

fn dialect(typed: &str) -> Result<Dialect, String> {
    let found = Dialect::ALL.into_iter().find(|(name, _)| *name == typed);
    found.map(|(_, dialect)| dialect).ok_or_else(|| format!("expected {}", formats().join(" or ")))
}

/// The names of the dialects.
fn formats() -> Vec<String> {
    Dialect::ALL.map(|(name, _)| name.to_owned()).to_vec()
}

impl MetricsRequest {
    /// Whether there is a file to write.
    pub fn is_given(&self) -> bool {
        self.file.is_some()
    }

    /// Returns where metrics go that have this series without labels; `None` if they are not asked
    /// for.
    ///
    /// # Errors
    ///
    /// A form without a file.
    pub fn file_with(&self, series: &'static str) -> Result<Option<MetricsFile>, Failure> {
        match (&self.file, self.dialect) {
            (Some(path), dialect) => {
                let file = MetricsFile::of(path.clone());
                Ok(Some(MetricsFile {
                    dialect: dialect.unwrap_or(file.dialect),
                    series: Some(series),
                    ..file
                }))
            }
            (None, Some(_)) => Err(Failure::usage("--openmetrics-format needs --openmetrics=FILE")),
            (None, None) => Ok(None),
        }
    }
}
