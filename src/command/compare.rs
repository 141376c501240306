//! `compare`: shows two results side by side and decides whether the second is worse
//! (docs/output-formats.md).

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, value_parser};

use crate::cli::usage::{Completion, Entry, Usage, Value};
use crate::error::invalid;
use crate::error::{Failure, cause};
use crate::interrupt;
use crate::measure::Percentile;
use crate::number::percent;
use crate::plan::expect::Metric;
use crate::report::columns::{COLUMNS, Column};
use crate::report::comparison::{self, Comparison};
use crate::report::outcome::{Outcome, SCHEMA_VERSION};
use crate::tools::TOOLS;

/// Columns of an explanation in the help text.
const EXPLANATION_WIDTH: usize = 53;

/// Default of `--max-regress`, in percent.
const MAX_REGRESS: f64 = 5.0;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag compare".into(),
        about: "Compare the results of two runs",
        synopsis: vec![("cxidiag compare BASE NEW [OPTIONS]".into(), "")],
        arguments: Completion::Files,
        about_arguments: "BASE and NEW are files that a tool wrote with --json=FILE.",
        options: vec![
            Entry {
                short: None,
                long: "max-regress",
                value: Some(Value::new("PERCENT", Completion::Nothing)),
                help: format!("Largest change for the worse (default: {MAX_REGRESS}%)"),
                manual: "How much worse the metric may be, in percent of that of *BASE*.",
            },
            Entry {
                short: None,
                long: "figure",
                value: Some(Value::new("FIGURE", Completion::Words(figures))),
                help: wrapped(&format!(
                    "Metric that decides (default: p50 for latencies, bw for bandwidths): {}",
                    figures().join(", ")
                )),
                manual: "The metric that decides: min, max, mean, stddev, p50, p90, p99, p99.9 or \
                         p99.99 of latencies, bw or rate of bandwidths.",
            },
            Entry::help(),
            Entry::version(),
        ],
        remarks: vec![
            "Exit status 3 if a size has regressed: its metric is worse in NEW by more than\n\
             PERCENT, or NEW did not measure it completely.",
        ],
        ..Usage::default()
    }
}

/// Returns the metrics that can decide: those with a column in CSV, which leaves out the maximum as
/// p100.
fn figures() -> Vec<String> {
    COLUMNS
        .iter()
        .filter(|column| column.csv.is_some())
        .filter_map(Column::shown_metric)
        .map(|metric| metric.to_string())
        .collect()
}

/// Returns the text in lines that fit the column of explanations.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= EXPLANATION_WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be read, results of different tools, or a regression.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(asked) = parse(&arguments)? else {
        return Ok(());
    };
    let (base, new) = (read(&asked.base)?, read(&asked.new)?);
    if base.tool != new.tool {
        return Err(Failure::usage(format!(
            "cannot compare results of different tools: {} is from {}, {} from {}",
            asked.base.display(),
            base.tool,
            asked.new.display(),
            new.tool
        )));
    }
    let tool = TOOLS
        .iter()
        .find(|tool| tool.name == base.tool)
        .ok_or_else(|| Failure::usage(format!("unknown tool {}", base.tool)))?;
    let deciding = asked.figure.unwrap_or(match tool.defaults.lists {
        Some(_) => Metric::Bandwidth,
        None => Metric::Percentile(Percentile::MEDIAN),
    });
    if !deciding.belongs_to(tool) {
        let allowed = format!(
            "{} measures {}",
            tool.name,
            Metric::names(tool.measures_bandwidth())
        );
        return Err(Failure::usage(invalid("figure", deciding, allowed)));
    }
    if let Metric::Percentile(percentile) = deciding
        && !Percentile::STANDARD.contains(&percentile)
    {
        let names: Vec<String> = Percentile::STANDARD
            .iter()
            .map(ToString::to_string)
            .collect();
        let allowed = format!(
            "expected one of {} (others are not in the documents)",
            names.join(", ")
        );
        return Err(Failure::usage(invalid("figure", deciding, allowed)));
    }
    let comparison = Comparison::new(&base, &new, deciding, asked.max_regress);
    let names = [&asked.base, &asked.new].map(|path| path.display().to_string());
    let mut text = Vec::new();
    comparison::write(&mut text, tool, names, [&base, &new], &comparison)
        .and_then(|()| io::stdout().write_all(&text))
        .map_err(interrupt::output_failed)?;
    comparison.result()
}

/// What the arguments ask for.
#[derive(Debug)]
struct Asked {
    base: PathBuf,
    new: PathBuf,
    max_regress: f64,
    figure: Option<Metric>,
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<Asked>, Failure> {
    let value = |name| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::Set)
            .allow_hyphen_values(true)
    };
    let file = |name| Arg::new(name).value_parser(value_parser!(PathBuf));
    let declared = [
        value("max-regress"),
        value("figure"),
        file("BASE"),
        file("NEW"),
    ];
    let Some(matches) = super::matches(&usage(), declared, arguments)? else {
        return Ok(None);
    };
    let text = |name| matches.get_one::<String>(name);
    let max_regress = match text("max-regress") {
        None => MAX_REGRESS,
        Some(typed) => percent(typed).ok_or_else(|| {
            Failure::usage(invalid(
                "max-regress",
                typed,
                "expected a percentage such as 5%",
            ))
        })?,
    };
    let figure = match text("figure") {
        None => None,
        Some(typed) => Some(
            typed
                .parse()
                .map_err(|why: String| Failure::usage(invalid("figure", typed, why)))?,
        ),
    };
    let path = |name: &str| {
        matches.get_one::<PathBuf>(name).cloned().ok_or_else(|| {
            Failure::usage(format!(
                "missing argument {name}: expected two files (see cxidiag compare --help)"
            ))
        })
    };
    Ok(Some(Asked {
        base: path("BASE")?,
        new: path("NEW")?,
        max_regress,
        figure,
    }))
}

/// Reads the document at `path`.
fn read(path: &Path) -> Result<Outcome, Failure> {
    let refused =
        |why: &str| Failure::environment(format!("cannot read {}: {why}", path.display()));
    let not_a_result =
        |why: &str| refused(why).with_hint("expected a file that a tool wrote with --json=FILE");
    let bytes = fs::read(path).map_err(|error| refused(&cause(&error)))?;
    let value: serde_json::Value = serde_json::from_slice(&bytes)
        .map_err(|error| not_a_result(&format!("not valid JSON: {error}")))?;
    match value
        .get("schema_version")
        .and_then(serde_json::Value::as_u64)
    {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        Some(version) => {
            return Err(refused(&format!(
                "schema version {version} is not supported (expected {SCHEMA_VERSION})"
            ))
            .with_hint("measure again, or use the cxidiag that wrote it"));
        }
        None => return Err(not_a_result("not a result of cxidiag")),
    }
    serde_json::from_value(value)
        .map_err(|error| not_a_result(&format!("not a result of cxidiag: {error}")))
}
