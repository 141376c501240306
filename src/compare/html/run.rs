//! Runs of one tool on the page: how they ended, pictures of their sizes, a table of metrics.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::chart::{self, Axis, Curve};
use super::parts::{Badge, badge, cell, charts, facts, figure, seconds, table, time};
use super::quantity::Quantity;
use super::sizes;
use crate::grouping;
use facts::expect::Metric;
use facts::percentile::Percentile;
use facts::severity::Severity;
use report::outcome::{ExpectationResult, Outcome, SizeResult, Status};

/// Files and NICs that have a curve each.
const MOST_SERIES: usize = 8;

/// Lines about differences between runs.
const MOST_DIFFERENCES: usize = 20;

/// Histograms and intervals of a run that are shown at once. Others unfold.
const MOST_OPEN: usize = 2;

/// Returns how a run ended.
pub fn status(run: &Outcome) -> Badge {
    match run.status {
        Status::Complete if is_without_figures(run) => (Severity::Suspect, "without figures"),
        Status::Complete => (Severity::Good, "complete"),
        Status::Unmet => (Severity::Bad, "expectation not met"),
        Status::Interrupted => (Severity::Suspect, "interrupted"),
        Status::Failed => (Severity::Bad, "failed"),
    }
}

/// The most important metrics of a run, in words.
pub fn finding(run: &Outcome) -> String {
    if let Some(error) = &run.error {
        return error.message.clone();
    }
    let measured: Vec<&SizeResult> = measured(run).collect();
    let Some(first) = measured.first() else {
        return "nothing was measured".into();
    };
    let size = |result: &SizeResult| sizes::row_name(result.row());
    let named = |result: &SizeResult, metric: Metric| {
        let text = Quantity::from_unit(metric.unit().name()).text(result.figure(metric)?);
        Some(format!("{metric} {text}").replace("p50", "median").replace("bw ", ""))
    };
    if first.latency.is_some() {
        let p99 = Metric::Percentile(Percentile::STANDARD[2]);
        let percentiles = [Metric::Percentile(Percentile::MEDIAN), p99];
        let has_percentiles = first.figure(p99).is_some();
        let shown = if has_percentiles { percentiles } else { [Metric::Mean, Metric::Max] };
        let texts: Vec<String> =
            shown.into_iter().filter_map(|metric| named(first, metric)).collect();
        return format!("{}: {}", size(first), texts.join(", "));
    }
    let rate = |result: &&&SizeResult| result.figure(Metric::Bandwidth).unwrap_or(0.0);
    let best = measured.iter().max_by(|one, other| rate(one).total_cmp(&rate(other)));
    let best = best.and_then(|best| Some((named(best, Metric::Bandwidth)?, size(best))));
    best.map_or("no bandwidth is known".into(), |(rate, size)| format!("{rate} at {size}"))
}

/// Whether none of the results of a run has a figure that is known.
fn is_without_figures(run: &Outcome) -> bool {
    !run.results.is_empty() && run.results.iter().all(|result| sizes::main_metric(result).is_none())
}

/// The most important metrics of several runs of a tool, in words: of the middle run and of the
/// slowest one.
pub fn common_finding(runs: &[&Outcome]) -> String {
    let main = |run: &Outcome| measured(run).next().and_then(sizes::main_metric).unwrap_or(0.0);
    let mut sorted = runs.to_vec();
    sorted.sort_by(|one, other| main(one).total_cmp(&main(other)));
    let middle = finding(sorted[(runs.len() - 1) / 2]);
    if runs.len() == 1 {
        return middle;
    }
    let is_latency = measured(sorted[0]).next().is_some_and(|result| result.latency.is_some());
    let slowest = finding(sorted[if is_latency { runs.len() - 1 } else { 0 }]);
    format!("{} runs, the middle one: {middle}; the slowest one: {slowest}", runs.len())
}

/// A run with the name of its file.
pub type NamedRun<'a> = (&'a str, &'a Outcome);

/// The runs of each file and NIC, with a name; all runs as one if these are many.
fn series<'a>(runs: &[NamedRun<'a>]) -> Vec<(String, Vec<&'a Outcome>)> {
    let file = |run: &NamedRun| run.0.rsplit('/').next().unwrap_or_default().to_owned();
    let names = |name: &dyn Fn(&NamedRun) -> String| runs.iter().map(name).collect::<BTreeSet<_>>();
    let has_files = names(&file).len() > 1;
    let has_nics = names(&|run| run.1.place()).len() > 1;
    let mut parts: BTreeMap<String, Vec<&Outcome>> = BTreeMap::new();
    for run in runs {
        let words = [has_files.then(|| file(run)), has_nics.then(|| run.1.place())];
        let name = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        parts.entry(name).or_default().push(run.1);
    }
    if (2..=MOST_SERIES).contains(&parts.len()) {
        return parts.into_iter().collect();
    }
    vec![(format!("{} runs", runs.len()), runs.iter().map(|(_, run)| *run).collect())]
}

/// The median or the bandwidth of each size over all runs of a tool, with the range of the runs of
/// each file or NIC; of each run if there is one size. `None` unless at least two runs have sizes
/// in common, and one depth each.
pub fn together(runs: &[NamedRun]) -> Option<Markup> {
    let mut rows = runs.iter().flat_map(|(_, run)| measured(run));
    if rows.any(|result| result.posted.or(result.unexpected).is_some()) {
        return None;
    }
    let figures = |run: &Outcome| -> Vec<(u64, f64)> {
        let map = measured(run)
            .filter_map(|result| Some((result.size_bytes, sizes::main_metric(result)?)));
        map.collect()
    };
    let all: Vec<(u64, f64)> = runs.iter().flat_map(|(_, run)| figures(run)).collect();
    let sizes: BTreeSet<u64> = all.iter().map(|(size, _)| *size).collect();
    if runs.len() < 2 || all.len() < 2 * sizes.len() {
        return None;
    }
    let quantity = main_quantity(runs[0].1);
    let title = sizes::axis_title(quantity);
    let y = Axis::log(title, quantity, &mut all.iter().map(|(_, value)| *value))?;
    let curve = |(color, (name, runs)): (usize, (String, Vec<&Outcome>))| {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let each = runs.into_iter().flat_map(figures);
        each.for_each(|(size, value)| values.entry(size).or_default().push(value));
        if sizes.len() == 1 {
            let values = values.into_values().flatten();
            let points = (1..).zip(values).map(|(number, value)| (f64::from(number), value));
            return Curve { name, color, points: points.collect(), ..Curve::default() };
        }
        values.values_mut().for_each(|values| values.sort_by(f64::total_cmp));
        let values = || values.iter().map(|(size, values)| (*size as f64, values));
        Curve {
            name,
            color,
            is_main: true,
            points: values().map(|(size, value)| (size, value[(value.len() - 1) / 2])).collect(),
            band: values().map(|(size, value)| (size, value[0], value[value.len() - 1])).collect(),
        }
    };
    let curves: Vec<Curve> = series(runs).into_iter().enumerate().map(curve).collect();
    let mut places = curves.iter().flat_map(|curve| &curve.points).map(|(place, _)| *place);
    let (x, what) = if sizes.len() == 1 {
        let size = Quantity::Size.text(*sizes.first()? as f64);
        let x = Axis::from_zero("Run", Quantity::Count, &mut places)?;
        (x, format!("{title} of each run, {size}"))
    } else {
        let x = Axis::log("Size", Quantity::Size, &mut places)?;
        (x, format!("{title} of each size: median and range of the runs"))
    };
    Some(figure(&what, &chart::curves(&what, &x, &y, &curves)))
}

/// The sections of a run below its title.
pub fn section(run: &Outcome) -> Markup {
    let measured: Vec<&SizeResult> = measured(run).collect();
    html! {
        p { (badge(status(run))) " " (finding(run)) }
        @if let Some(hint) = run.error.as_ref().and_then(|error| error.hint.as_ref()) {
            p { "Hint: " (hint) }
        }
        @if !run.expectations.is_empty() { (expectations(&run.expectations)) }
        @if let Some(picture) = sizes::curves(&measured) { (picture) }
        @for (at, result) in measured.iter().enumerate() {
            @let pictures = [sizes::histogram(result), sizes::intervals(result)];
            @let pictures: Vec<Markup> = pictures.into_iter().flatten().collect();
            @let size = sizes::row_name(result.row());
            @if !pictures.is_empty() {
                details open[at < MOST_OPEN] {
                    summary { (size) }
                    (charts(&pictures))
                }
            }
        }
        @if !measured.is_empty() { (sizes::table_of(&measured)) }
        (counter_findings(run))
    }
}

/// Returns what was run by a tool, where and when: the first run, and what differs in the others.
pub fn circumstances(runs: &[NamedRun]) -> Markup {
    let Some((_, run)) = runs.first() else {
        return html! {};
    };
    let device = run.device.as_ref();
    let software = device.and_then(|device| device.is_software) == Some(true);
    let labels: Vec<String> =
        run.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let options = run.options.as_ref().and_then(|options| serde_json::to_value(options).ok());
    let options = options.as_ref().and_then(serde_json::Value::as_object);
    let mut files: Vec<String> = runs.iter().map(|(file, _)| (*file).to_owned()).collect();
    files.dedup();
    let last = runs.last().filter(|_| runs.len() > 1);
    let until = last.map(|(_, run)| format!(" to {}", time(run.started_unix_ms)));
    let started = time(run.started_unix_ms) + &until.unwrap_or_default();
    let names = (1..).zip(runs).map(|(number, (file, run))| (format!("{file} ({number})"), *run));
    let differences = grouping::among(&names.collect::<Vec<_>>());
    let more = differences.len().saturating_sub(MOST_DIFFERENCES);
    html! {
        (facts(&[
            ("Tool", Some(run.tool.clone())),
            ("Runs", last.map(|_| runs.len().to_string())),
            ("File", Some(files.join(", "))),
            ("Started", Some(started)),
            ("Duration", (!run.is_printed()).then(|| seconds(run.elapsed_ms))),
            ("Measured by", Some(run.place())),
            ("Platform", software.then(|| "software NIC (no Cassini hardware involved)".to_owned())),
            ("Labels", (!labels.is_empty()).then(|| labels.join(", "))),
            ("Job", run.job.as_ref().map(|job| format!("{} {}", job.manager, job.id))),
            ("Clock", (!run.is_printed()).then(|| run.clock.name.to_string())),
            (
                "Kernel",
                (!run.is_printed())
                    .then(|| format!("{} ({})", run.host.kernel, run.host.architecture)),
            ),
            ("Driver", device.and_then(|device| device.driver.clone())),
            ("Firmware", device.and_then(|device| device.firmware_version.clone())),
            ("cxidiag", (!run.is_printed()).then(|| run.cxidiag_version.clone())),
            ("Read from", run.is_printed().then(|| "the text of the run".to_owned())),
        ]))
        @if !differences.is_empty() {
            p { "What differs from the first run:" }
            ul {
                @for line in differences.iter().take(MOST_DIFFERENCES) { li { (line) } }
                @if more > 0 { li { "and " (more) " more" } }
            }
        }
        @if let Some(options) = options {
            details {
                summary { "All options in effect" }
                dl.dense {
                    @for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
        }
    }
}

/// The sizes that were measured, completely or not.
fn measured(run: &Outcome) -> impl Iterator<Item = &SizeResult> {
    let has_metrics = |result: &&SizeResult| result.latency.is_some() || result.bandwidth.is_some();
    run.results.iter().filter(has_metrics)
}

fn main_quantity(run: &Outcome) -> Quantity {
    if run.results.iter().any(|result| result.bandwidth.is_some()) {
        Quantity::Bandwidth
    } else {
        Quantity::Latency
    }
}

/// The table of expectations.
fn expectations(verdicts: &[ExpectationResult]) -> Markup {
    let row = |verdict: &ExpectationResult| {
        let (severity, text) =
            if verdict.met { (Severity::Good, "met") } else { (Severity::Bad, "not met") };
        let quantity = Quantity::from_unit(&verdict.unit);
        let measured = verdict.measured.map_or("not measured".into(), |value| quantity.text(value));
        vec![
            cell(sizes::row_name(verdict.row())),
            cell(&verdict.expectation),
            cell(measured),
            badge((severity, text)),
        ]
    };
    let rows: Vec<Vec<Markup>> = verdicts.iter().map(row).collect();
    let columns = [">Size", "Expected", ">Measured", "Verdict"];
    table("Expectations", &columns, &rows)
}

/// Returns what the counters of the NICs explain.
fn counter_findings(run: &Outcome) -> Markup {
    let findings = run.counters.iter().flat_map(|counters| &counters.findings);
    let lines: Vec<&str> = findings.map(|finding| finding.text.as_str()).collect();
    html! {
        @if !lines.is_empty() {
            h4 { "Counters of the NICs" }
            ul { @for line in lines { li { (line) } } }
        }
    }
}
