//! Any results of ours, read back: runs of tools, comparisons, surveys.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::comparison::{self, Comparison};
use super::outcome::{self, Outcome, Side};
use super::runs::{self, Source, refused};
use super::survey::{self, Survey};
use crate::error::Failure;

/// A document, and the file that it was read from.
#[derive(Debug)]
pub struct ReadResult {
    /// Name of the file; `-` for standard input.
    pub file: String,
    /// What it holds.
    pub content: Content,
}

/// What a document holds.
#[derive(Debug)]
pub enum Content {
    /// A run of a tool.
    Run(Box<Outcome>),
    /// Runs of two sides compared.
    Comparison(Box<Comparison>),
    /// A survey.
    Survey(Box<Survey>),
}

/// The fields by which documents differ.
#[derive(Deserialize)]
struct Marks {
    schema_version: Option<u32>,
    /// Of a run.
    results: Option<IgnoredAny>,
    /// Of a comparison.
    max_regress_percent: Option<IgnoredAny>,
    /// Of a survey.
    roster: Option<IgnoredAny>,
}

/// Reads the results of a source: one JSON document, or one on each line. The second list has a
/// warning for each line that is not complete.
///
/// # Errors
///
/// The source cannot be read, has no results, or has anything else.
pub fn read(source: &Source) -> Result<(Vec<ReadResult>, Vec<String>), Failure> {
    let shown = source.shown();
    let bytes = source.bytes()?;
    let (documents, warnings) =
        runs::documents(&bytes, &shown).map_err(|why| not_a_result(&shown, &why))?;
    let result = |document| {
        Ok(ReadResult {
            file: source.name(),
            content: content(document, &shown)?,
        })
    };
    let results: Result<Vec<ReadResult>, Failure> = documents.into_iter().map(result).collect();
    Ok((results?, warnings))
}

/// Leaves out the runs of servers if clients wrote any: those are of the same runs. Returns the
/// number of runs that are left out.
pub fn leave_out_servers(results: &mut Vec<ReadResult>) -> usize {
    let is_of = |result: &ReadResult, side| match &result.content {
        Content::Run(run) => run.side == side,
        Content::Comparison(_) | Content::Survey(_) => false,
    };
    let before = results.len();
    if results.iter().any(|result| is_of(result, Side::Client)) {
        results.retain(|result| !is_of(result, Side::Server));
    }
    before - results.len()
}

/// Returns what a document holds.
fn content(document: &[u8], shown: &str) -> Result<Content, Failure> {
    let marks: Marks = serde_json::from_slice(document)
        .map_err(|_| not_a_result(shown, "not a result of cxidiag"))?;
    let version = marks.schema_version;
    if marks.roster.is_some() {
        typed(document, shown, version, survey::SCHEMA_VERSION).map(Content::Survey)
    } else if marks.max_regress_percent.is_some() {
        typed(document, shown, version, comparison::SCHEMA_VERSION).map(Content::Comparison)
    } else if marks.results.is_some() {
        typed(document, shown, version, outcome::SCHEMA_VERSION).map(Content::Run)
    } else {
        Err(not_a_result(shown, "not a result that can be drawn"))
    }
}

/// Returns the document of this version.
fn typed<T: DeserializeOwned>(
    document: &[u8],
    shown: &str,
    version: Option<u32>,
    supported: u32,
) -> Result<Box<T>, Failure> {
    match version {
        Some(version) if version != supported => {
            let why = format!("schema version {version} is not supported (expected {supported})");
            let hint = "measure again, or use the cxidiag that wrote it";
            Err(refused(shown, &why).with_hint(hint))
        }
        _ => serde_json::from_slice(document)
            .map(Box::new)
            .map_err(|error| not_a_result(shown, &format!("not a result of cxidiag: {error}"))),
    }
}

fn not_a_result(shown: &str, why: &str) -> Failure {
    let expected = "expected what a tool, compare or survey wrote with --json or --jsonl";
    refused(shown, why).with_hint(expected)
}
