//! Any results of ours, read back: runs of tools, comparisons, surveys, checks, jobs. The files
//! that `compare` and `report` read them from.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::comparison::{self, Comparison};
use super::layers::{self, LayerComparison};
use super::printed;
use super::runs::{self, ReadRun, RunSource, refused};
use campaign::quiet::findings::{Cause, Matrix};
use campaign::quiet::roster::{NicId, NodeId, TestId, Unit};
use check::document::Check;
use facts::error::{Failure, invalid};
use facts::text::{self, shown};
use page::destination::Place;
use page::json::{self, LARGEST};
use report::outcome::{self, Outcome};
use stat::job as stat_document;
use stat::job::JobStat;
use survey::result::Survey;
use why::culprits::Explanation;

/// A document, and the file that it was read from.
#[derive(Debug)]
pub struct ReadResult {
    /// Name of the file; `-` for standard input.
    pub file: String,
    /// What it holds.
    pub content: Content,
}

impl ReadResult {
    pub fn run(&self) -> Option<&Outcome> {
        match &self.content {
            Content::Run(run) => Some(run),
            _ => None,
        }
    }
}

/// What a document holds.
#[derive(Debug)]
pub enum Content {
    /// A run of a tool.
    Run(Box<Outcome>),
    /// Runs of two sides compared.
    Comparison(Box<Comparison>),
    Survey(Box<Survey>),
    /// What each layer of software adds.
    Layers(Box<LayerComparison>),
    /// What NICs did while a command ran.
    Stat(Box<JobStat>),
}

/// A document that can be compared, and the file that it was read from.
#[derive(Debug)]
pub enum ComparedResult {
    /// A run of a tool.
    Run(Box<ReadRun>),
    Survey(String, Box<Survey>),
    Check(String, Box<Check>),
}

/// The fields by which documents differ.
#[derive(Deserialize)]
struct Marks {
    schema_version: Option<u32>,
    /// Of a run.
    results: Option<IgnoredAny>,
    /// Of a comparison.
    max_regress_percent: Option<IgnoredAny>,
    /// Of a survey: of its document, and of the first line about its pairs.
    roster: Option<IgnoredAny>,
    /// Of the document of a survey.
    verdict: Option<IgnoredAny>,
    /// Of a check, both.
    host_name: Option<IgnoredAny>,
    devices: Option<IgnoredAny>,
    /// Of layers.
    transfers: Option<IgnoredAny>,
    /// Of `stat`.
    missing_nodes: Option<IgnoredAny>,
    /// Of most commands.
    command: Option<String>,
}

impl Marks {
    fn of(document: &[u8], shown: &str) -> Result<Self, Failure> {
        let marks: Self = result(document, shown)?;
        let (name, hint) = match marks.command.as_deref() {
            Some("why") => ("why", Some("what it says about the causes is in its own text")),
            Some("stress") => ("check --stress", None),
            _ => return Ok(marks),
        };
        let why = format!("a document of 'cxidiag {name}' is neither drawn nor compared");
        Err(refused(shown, &why).with_hint_if(hint.map(str::to_owned)))
    }
}

/// Reads the results of a source that can be drawn: one JSON document, or one on each line. The
/// second list has a warning for each line that is not complete.
///
/// # Errors
///
/// The source cannot be read, has no results, or has anything else.
pub fn read(source: &RunSource) -> Result<(Vec<ReadResult>, Vec<String>), Failure> {
    let (shown, file) = (source.shown(), source.name());
    let read = |document: &[u8]| {
        let nothing = "not a result that can be drawn";
        content(document, &shown)?.ok_or_else(|| not_a_result(&shown, nothing))
    };
    let (contents, warnings) = each(source, read, |run| Content::Run(Box::new(run)))?;
    let named = contents.into_iter().map(|content| ReadResult { file: file.clone(), content });
    Ok((named.collect(), warnings))
}

/// Reads the results of a source that can be compared, as [`read`] does.
///
/// # Errors
///
/// The source cannot be read, has no results, or has anything else.
pub fn read_compared(source: &RunSource) -> Result<(Vec<ComparedResult>, Vec<String>), Failure> {
    let (shown, file) = (source.shown(), source.name());
    let run = |outcome| compared_run(&file, outcome);
    each(source, |document| compared(document, &shown, &file), run)
}

fn compared_run(file: &str, outcome: Outcome) -> ComparedResult {
    ComparedResult::Run(Box::new(ReadRun { file: file.to_owned(), outcome }))
}

/// Returns what a document of `file` holds that can be compared.
fn compared(document: &[u8], shown: &str, file: &str) -> Result<ComparedResult, Failure> {
    let marks = Marks::of(document, shown)?;
    if marks.host_name.is_some() && marks.devices.is_some() {
        let check = typed(document, shown, marks.schema_version, check::document::SCHEMA_VERSION)?;
        return Ok(ComparedResult::Check(file.to_owned(), check));
    }
    match content(document, shown)? {
        Some(Content::Run(run)) => Ok(compared_run(file, *run)),
        Some(Content::Survey(survey)) => Ok(ComparedResult::Survey(file.to_owned(), survey)),
        Some(Content::Comparison(_) | Content::Layers(_) | Content::Stat(_)) | None => {
            Err(not_a_result(shown, "not a result of cxidiag that can be compared"))
        }
    }
}

/// Reads each document of a source with `read`, or each run that was printed there with `printed`.
fn each<T>(
    source: &RunSource,
    read: impl Fn(&[u8]) -> Result<T, Failure>,
    printed: impl Fn(Outcome) -> T,
) -> Result<(Vec<T>, Vec<String>), Failure> {
    let shown = source.shown();
    let bytes = source.bytes()?;
    let document = text::shown_json(&bytes);
    let (documents, warnings) = match runs::documents(&document, &shown) {
        Ok(read) => read,
        Err(why) => {
            let text = text::shown_log(&String::from_utf8_lossy(&bytes));
            let (runs, notes) = printed::runs(&text).map_err(|why| {
                let hint = "give each line the name of its process (srun --label), or each \
                            process a file";
                Failure::undecided(format!("cannot use {shown}: {why}")).with_hint(hint)
            })?;
            let notes: Vec<String> = notes.iter().map(|note| format!("{shown}: {note}")).collect();
            return match (runs.is_empty(), notes.first()) {
                (false, _) => Ok((runs.into_iter().map(printed).collect(), notes)),
                (true, Some(note)) => Err(Failure::environment(note.clone())),
                (true, None) => Err(not_a_result(&shown, &why)),
            };
        }
    };
    let results: Result<Vec<T>, Failure> = documents.into_iter().map(read).collect();
    Ok((results?, warnings))
}

/// Adds the comparison of the runs of `base` with the others in front of them, if there are only
/// runs, and a tool has some on both sides.
///
/// # Errors
///
/// A run does not say what it measured, so that it cannot be compared.
pub fn compare(results: &mut Vec<ReadResult>, base: &str, limit: f64) -> Result<(), Failure> {
    if !results.iter().all(|result| result.run().is_some()) {
        return Ok(());
    }
    let run = |ReadResult { file, content }| match content {
        Content::Run(outcome) => Some(ReadRun { file, outcome: *outcome }),
        _ => None,
    };
    let runs = std::mem::take(results).into_iter().filter_map(run);
    let (base, new): (Vec<ReadRun>, Vec<ReadRun>) = runs.partition(|run| run.file == base);
    let comparison = Comparison::new(&base, &new, None, limit);
    let back = |ReadRun { file, outcome }| {
        let content = Content::Run(Box::new(outcome));
        ReadResult { file, content }
    };
    results.extend(base.into_iter().chain(new).map(back));
    let comparison = comparison?;
    if comparison.groups.iter().any(|group| !group.base.is_empty() && !group.new.is_empty()) {
        let (file, content) = (String::new(), Content::Comparison(Box::new(comparison)));
        results.insert(0, ReadResult { file, content });
    }
    Ok(())
}

/// Adds what each layer adds in front of runs, if there are only runs, of several layers.
pub fn compare_layers(results: &mut Vec<ReadResult>) {
    let run = |result: &ReadResult| {
        Some(ReadRun { file: result.file.clone(), outcome: result.run()?.clone() })
    };
    let runs: Option<Vec<ReadRun>> = results.iter().map(run).collect();
    if let Some(compared) = runs.and_then(|runs| LayerComparison::new(&runs, &[]).ok()) {
        let (file, content) = (String::new(), Content::Layers(Box::new(compared)));
        results.insert(0, ReadResult { file, content });
    }
}

/// Returns what a document holds. `None` if it cannot be drawn.
fn content(document: &[u8], shown: &str) -> Result<Option<Content>, Failure> {
    let marks = Marks::of(document, shown)?;
    let version = marks.schema_version;
    let content = if marks.roster.is_some() && marks.verdict.is_none() {
        let hint = "use what the survey wrote with --json";
        return Err(
            refused(shown, "the lines of --jsonl have no verdict of the survey").with_hint(hint)
        );
    } else if marks.roster.is_some() {
        let survey: Box<Survey> = typed(document, shown, version, survey::result::SCHEMA_VERSION)?;
        if let Some(what) = unknown_index(&survey) {
            return Err(not_a_result(shown, &format!("the survey has no {what}")));
        }
        Content::Survey(survey)
    } else if marks.max_regress_percent.is_some() {
        typed(document, shown, version, comparison::SCHEMA_VERSION).map(Content::Comparison)?
    } else if marks.transfers.is_some() {
        typed(document, shown, version, layers::SCHEMA_VERSION).map(Content::Layers)?
    } else if marks.results.is_some() {
        typed(document, shown, version, outcome::SCHEMA_VERSION).map(Content::Run)?
    } else if marks.missing_nodes.is_some() {
        typed(document, shown, version, stat_document::SCHEMA_VERSION).map(Content::Stat)?
    } else {
        return Ok(None);
    };
    Ok(Some(content))
}

fn typed<T: DeserializeOwned>(
    document: &[u8],
    shown: &str,
    version: Option<u32>,
    supported: u32,
) -> Result<Box<T>, Failure> {
    if let Some(version) = version {
        runs::check_version(shown, version.into(), supported)?;
    }
    if let Some(number) = number_beyond(document) {
        let why =
            format!("not a result of cxidiag: {number} is out of range (at most {LARGEST:e})");
        return Err(not_a_result(shown, &why));
    }
    result(document, shown).map(Box::new)
}

/// The first number of a valid document beyond [`LARGEST`].
fn number_beyond(mut document: &[u8]) -> Option<&str> {
    loop {
        let end = document.iter().position(|byte| *byte == b'"').unwrap_or(document.len());
        let words = str::from_utf8(&document[..end]).unwrap_or_default();
        let mut words = words.split(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        let is_beyond = |word: &&str| word.parse().is_ok_and(|number: f64| number.abs() > LARGEST);
        if let Some(number) = words.find(is_beyond) {
            return Some(number);
        }
        document = document.get(end + 1..)?;
        while let [byte, behind @ ..] = document {
            document = if *byte == b'\\' { behind.get(1..)? } else { behind };
            if *byte == b'"' {
                break;
            }
        }
    }
}

fn result<T: DeserializeOwned>(document: &[u8], shown: &str) -> Result<T, Failure> {
    json::read(document)
        .map_err(|what| not_a_result(shown, &format!("not a result of cxidiag: {what}")))
}

/// The first index in a survey that is outside its list, with the name of the list.
fn unknown_index(survey: &Survey) -> Option<String> {
    let (roster, verdict) = (&survey.roster, &survey.verdict);
    let outside = |what: &str, index: u32, count: usize| {
        (index as usize >= count).then(|| format!("{what} {index}"))
    };
    let nic = |nic: NicId| outside("NIC", nic.0, roster.nics.len());
    let node = |node: NodeId| outside("node", node.0, roster.nodes.len());
    let test = |test: TestId| outside("test", test.0.into(), survey.setup.tests.len());
    let unit = |unit: &Unit| match *unit {
        Unit::Nic(index) => nic(index),
        Unit::Node(index) => node(index),
        Unit::Path(pair) => nic(pair.initiator).or_else(|| nic(pair.target)),
        Unit::Switch { .. } | Unit::Group(_) | Unit::GroupPair(..) => None,
    };
    let cause = |cause: &Cause| {
        let tests = || cause.evidence.iter().find_map(|evidence| test(evidence.test));
        let counters =
            || cause.counters.iter().find_map(|counter_evidence| nic(counter_evidence.nic));
        unit(&cause.unit).or_else(tests).or_else(counters)
    };
    let matrix = |matrix: &Matrix| {
        let cell = |(one, other, _): &(NicId, NicId, _)| nic(*one).or_else(|| nic(*other));
        test(matrix.test).or_else(|| matrix.cells.iter().find_map(cell))
    };
    let why = |explanation: &Explanation| {
        let measured = explanation.nic.iter().chain(&explanation.controls);
        unit(&explanation.culprit)
            .or_else(|| explanation.same_as.as_ref().and_then(unit))
            .or_else(|| measured.copied().find_map(nic))
    };
    let mut shared = survey.why_shared.iter().flat_map(|why_shared| &why_shared.culprits);
    let nodes = roster.nics.iter().find_map(|nic| node(nic.node));
    nodes
        .or_else(|| verdict.causes.iter().find_map(cause))
        .or_else(|| verdict.untested.iter().find_map(|part| unit(&part.unit)))
        .or_else(|| verdict.populations.iter().find_map(|population| test(population.test)))
        .or_else(|| verdict.aggregates.iter().find_map(|aggregate| test(aggregate.test)))
        .or_else(|| verdict.aggregates.iter().find_map(|aggregate| unit(&aggregate.unit)))
        .or_else(|| verdict.matrices.iter().find_map(matrix))
        .or_else(|| survey.why.iter().find_map(why))
        .or_else(|| shared.find_map(unit))
}

fn not_a_result(shown: &str, why: &str) -> Failure {
    let expected = "expected what a tool printed or wrote with --json or --jsonl, or what a \
                    command wrote with --json";
    refused(shown, why).with_hint(expected)
}

/// Checks that standard input is read once.
pub fn check_stdin<'a>(sources: impl Iterator<Item = &'a RunSource>) -> Result<(), Failure> {
    match sources.filter(|source| **source == RunSource::Stdin).count() {
        0 | 1 => Ok(()),
        _ => Err(Failure::usage("standard input (-) can be read only once")),
    }
}

/// Checks that the output of this option does not replace a file that is read.
pub fn check_output(
    sources: &[RunSource],
    option: &'static str,
    output: &Place,
) -> Result<(), Failure> {
    let target = output.file().and_then(|output| output.canonicalize().ok());
    let is_target = |source: &RunSource| match source {
        RunSource::Stdin => false,
        RunSource::File(path) => target.is_some() && path.canonicalize().ok() == target,
    };
    match output.file().filter(|_| sources.iter().any(is_target)) {
        None => Ok(()),
        Some(output) => {
            let allowed = "this is a file with results, which would be replaced";
            Err(Failure::usage(invalid(option, output.display(), allowed)))
        }
    }
}

pub fn warn(name: &str, what: impl Display) {
    let _ = writeln!(io::stderr(), "{name}: warning: {}", shown(&what.to_string()));
}

#[cfg(test)]
#[path = "results_tests.rs"]
mod tests;
