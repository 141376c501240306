//! The page of `report`: one HTML file that loads nothing else.
//!
//! * This file: the page as a whole.
//! * `run`, `comparison`, `layers`, `survey`, `stat`: the sections of each kind of result;
//!   `history`: NICs over many surveys.
//! * `load`: a survey under load; `load_matrix`: its bandwidths between groups.
//! * `sizes`: the sizes of a run.
//! * `parts`: what sections share; `quantity`: values with units; `chart`: curves and bars as SVG;
//!   `map`: the map of pairs, with its table; `matrix`: its data.
//! * `style.css`: how it looks, in light, in dark and on paper; `map.js`: draws the map of pairs;
//!   `axes.js`: labels its axes.

mod chart;
mod comparison;
mod history;
mod layers;
mod load;
mod load_matrix;
mod map;
mod matrix;
mod parts;
mod quantity;
mod run;
mod sizes;
mod stat;
mod survey;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::SystemTime;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::parts::{Badge, badge, cell, stacked_table, time};
use super::results::{Content, ReadResult};
use ::survey::result::Survey;
use facts::groups::by_key;
use facts::severity::Severity;
use facts::time_of_day::unix_ms;
use report::outcome::Outcome;

const STYLE: &str = include_str!("style.css");
const SCRIPTS: [&str; 2] = [include_str!("axes.js"), include_str!("map.js")];

/// Runs of a tool that are shown at once. More unfold one by one.
const MOST_OPEN: usize = 1;

/// Lines of the summary that are shown at once.
const MOST_LINES: usize = 20;

/// The page with these results, which was made `now`.
pub fn page(results: &[ReadResult], now: SystemTime) -> String {
    let made = unix_ms(now);
    let has_map = results.iter().any(|result| match &result.content {
        Content::Survey(survey) => !survey.verdict.matrices.is_empty(),
        _ => false,
    });
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "cxidiag report" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.note { "cxidiag report" }
                    (headline(results))
                    @if results.iter().any(is_software) {
                        p.software { "Software NICs: no Cassini hardware was involved in some or all results." }
                    }
                    (summary(results))
                }
                main { (sections(results)) }
                footer {
                    h2 { "What was run, where and when" }
                    @for result in results { (circumstances(result)) }
                    @for (_, runs) in by_tool(results) {
                        (run::circumstances(&runs.iter().map(|(_, file, run)| (*file, *run)).collect::<Vec<_>>()))
                    }
                    p.note { "Page made " (time(made)) " by cxidiag " (env!("CARGO_PKG_VERSION")) "." }
                }
                @if has_map { script { @for script in SCRIPTS { (PreEscaped(script)) } } }
            }
        }
    };
    page.into_string()
}

/// Whether a result comes from a software NIC.
fn is_software(result: &ReadResult) -> bool {
    match &result.content {
        Content::Run(run) => {
            run.device.as_ref().and_then(|device| device.is_software) == Some(true)
        }
        Content::Comparison(compared) => comparison::is_software(compared),
        Content::Layers(compared) => compared.is_software,
        Content::Survey(survey) => survey.is_software,
        Content::Stat(stat) => stat.is_software(),
    }
}

/// The verdict on the worst result as the title of the page.
fn headline(results: &[ReadResult]) -> Markup {
    let verdicts = results.iter().map(|result| verdict(&result.content));
    let Some((status, finding)) = verdicts.min_by_key(|((severity, _), _)| Reverse(*severity))
    else {
        return html! { h1 { "cxidiag report" } };
    };
    let is_compared = results
        .iter()
        .any(|result| matches!(result.content, Content::Comparison(_) | Content::Layers(_)));
    let finding = match results.len() {
        count @ 2.. if status.0 == Severity::Good && !is_compared => format!("all {count} results"),
        _ => finding,
    };
    html! { h1 { (badge(status)) @if !finding.is_empty() { ": " (finding) } } }
}

/// The verdict on a result, and what was found.
fn verdict(content: &Content) -> (Badge, String) {
    match content {
        Content::Run(run) => (run::status(run), run::finding(run)),
        Content::Comparison(compared) => {
            (comparison::status(compared), comparison::finding(compared))
        }
        Content::Layers(compared) => (layers::status(compared), compared.summary.clone()),
        Content::Survey(survey) => (survey::status(survey), survey::finding(survey).to_owned()),
        Content::Stat(stat) => (stat::status(stat), stat::finding(stat)),
    }
}

/// A line for the runs of a tool in each file, and for each other result, the worst first: the
/// verdict and the most important metrics.
fn summary(results: &[ReadResult]) -> Markup {
    let mut lines: Vec<(Badge, Vec<Markup>)> = Vec::new();
    for (_, runs) in by_tool(results) {
        lines.extend(runs.chunk_by(|(_, one, _), (_, other, _)| one == other).map(line_of_runs));
    }
    lines.extend((1..).zip(results).filter_map(|(number, result)| line(number, result)));
    lines.sort_by_key(|((severity, _), _)| Reverse(*severity));
    let rows: Vec<Vec<Markup>> = lines.into_iter().map(|(_, row)| row).collect();
    let (first, others) = rows.split_at(rows.len().min(MOST_LINES));
    let columns = ["Result", "Verdict", "Finding", "Where", "Started"];
    html! {
        (stacked_table("Summary", &columns, first))
        @if !others.is_empty() {
            details {
                summary { (others.len()) " more results" }
                (stacked_table("Other results", &columns, others))
            }
        }
    }
}

/// The worst verdict on the runs of a tool in a file, and their row in the summary.
fn line_of_runs(runs: &[NumberedRun]) -> (Badge, Vec<Markup>) {
    let outcomes: Vec<&Outcome> = runs.iter().map(|(_, _, run)| *run).collect();
    let worst =
        outcomes.iter().min_by_key(|run| Reverse(run::status(run).0)).unwrap_or(&outcomes[0]);
    let status = run::status(worst);
    let finding = match status.0 {
        Severity::Good => run::common_finding(&outcomes),
        _ => run::finding(worst),
    };
    let places: BTreeSet<String> = outcomes.iter().map(|run| run.place()).collect();
    let place = match places.len() {
        1 => places.into_iter().collect(),
        several => format!("{several} NICs or pairs of NICs"),
    };
    let (number, file, first) = runs[0];
    let title = format!("{} {file}", first.tool);
    (status, row(number, title, status, finding, place, Some(first.started_unix_ms)))
}

/// The verdict on a result, and its row in the summary. `None` for a run.
fn line(number: usize, result: &ReadResult) -> Option<(Badge, Vec<Markup>)> {
    let (status, finding) = verdict(&result.content);
    let (title, place, started) = match &result.content {
        Content::Run(_) => return None,
        Content::Comparison(comparison) => (
            format!("compare {}", comparison.tools()),
            comparison::newest(comparison).map_or(String::new(), |run| run.host.clone()),
            comparison::newest(comparison).map(|run| run.started_unix_ms),
        ),
        Content::Layers(_) => ("layers".into(), String::new(), None),
        Content::Survey(survey) => {
            (format!("survey {}", result.file), survey::place(survey), Some(survey.started_unix_ms))
        }
        Content::Stat(stat) => {
            (format!("stat {}", result.file), stat::place(stat), Some(stat.started_unix_ms))
        }
    };
    Some((status, row(number, title, status, finding, place, started)))
}

fn row(
    number: usize,
    title: String,
    status: Badge,
    finding: String,
    place: String,
    started: Option<u64>,
) -> Vec<Markup> {
    vec![
        html! { a href={ "#result-" (number) } { (title) } },
        badge(status),
        cell(finding),
        cell(place),
        cell(started.map_or(String::new(), time)),
    ]
}

/// A run with its number among all results and the name of its file.
type NumberedRun<'a> = (usize, &'a str, &'a Outcome);

fn by_tool(results: &[ReadResult]) -> Vec<(&str, Vec<NumberedRun<'_>>)> {
    by_key((1..).zip(results).filter_map(|(number, result)| {
        let run = result.run()?;
        Some((run.tool.as_str(), (number, result.file.as_str(), run)))
    }))
}

/// All sections: surveys, the worst first, jobs, comparisons, then the runs of each tool.
fn sections(results: &[ReadResult]) -> Markup {
    let numbered = || results.iter().enumerate().map(|(at, result)| (at + 1, &result.content));
    let mut surveys: Vec<(usize, &str, &Survey)> = (1..)
        .zip(results)
        .filter_map(|(number, result)| match &result.content {
            Content::Survey(survey) => Some((number, result.file.as_str(), survey.as_ref())),
            _ => None,
        })
        .collect();
    surveys.sort_by_key(|(_, _, survey)| Reverse(survey::status(survey).0));
    let all_surveys: Vec<&Survey> = surveys.iter().map(|(_, _, survey)| *survey).collect();
    html! {
        @if let Some(history) = history::section(&all_surveys) { (history) }
        @for (number, file, survey) in surveys {
            section id={ "result-" (number) } {
                h2 { "Survey " (file) }
                (survey::section(survey, number))
            }
        }
        @for (number, result) in (1..).zip(results) {
            @if let Content::Stat(stat) = &result.content {
                section id={ "result-" (number) } {
                    h2 { "Counters of a job " (result.file) }
                    (stat::section(stat))
                }
            }
        }
        @for (number, content) in numbered() {
            @if let Content::Comparison(compared) = content {
                section id={ "result-" (number) } {
                    h2 { "Comparison of " (compared.tools()) }
                    (comparison::section(compared))
                }
            }
        }
        @for (number, content) in numbered() {
            @if let Content::Layers(compared) = content {
                section id={ "result-" (number) } {
                    h2 { "Layers" }
                    (layers::section(compared))
                }
            }
        }
        @for (tool, runs) in by_tool(results) { (tool_section(tool, &runs)) }
    }
}

/// The runs of a tool: what they have in common, then each.
fn tool_section(tool: &str, runs: &[NumberedRun]) -> Markup {
    let outcomes: Vec<run::NamedRun> = runs.iter().map(|(_, file, run)| (*file, *run)).collect();
    html! {
        section {
            h2 { (tool) }
            @if let Some(picture) = run::together(&outcomes) { (picture) }
            @for (number, file, run) in runs {
                @if runs.len() > MOST_OPEN {
                    details.run id={ "result-" (number) } {
                        summary {
                            (badge(run::status(run))) " " (file) ": " (run.place()) ", " (time(run.started_unix_ms))
                        }
                        (run::section(run))
                    }
                } @else {
                    div.run id={ "result-" (number) } {
                        h3 { (file) ": " (run.place()) }
                        (run::section(run))
                    }
                }
            }
        }
    }
}

fn circumstances(result: &ReadResult) -> Markup {
    match &result.content {
        // All runs of a tool stand together.
        Content::Run(_) => html! {},
        Content::Comparison(compared) => comparison::circumstances(&result.file, compared),
        Content::Layers(compared) => layers::circumstances(&result.file, compared),
        Content::Survey(survey) => survey::circumstances(&result.file, survey),
        Content::Stat(stat) => stat::circumstances(&result.file, stat),
    }
}
