//! Runs of one tool on the page: how they ended, pictures of their sizes, a table of metrics.

use maud::{Markup, html};

use super::chart::{self, Axis, Curve};
use super::parts::{Badge, PageColumn, badge, cell, charts, facts, figure, seconds, table, time};
use super::quantity::Quantity;
use super::sizes;
use crate::outcome::{ExpectationResult, Outcome, SizeResult, Status};
use facts::severity::Severity;

/// Histograms and intervals of a run that are shown at once. Others unfold.
const MOST_OPEN: usize = 2;

/// Returns how a run ended.
pub fn status(run: &Outcome) -> Badge {
    match run.status {
        Status::Complete => (Severity::Good, "complete"),
        Status::Unmet => (Severity::Bad, "expectation not met"),
        Status::Interrupted => (Severity::Suspect, "interrupted"),
        Status::Failed => (Severity::Bad, "failed"),
    }
}

/// Returns the most important metrics of a run, in words.
pub fn finding(run: &Outcome) -> String {
    if let Some(error) = &run.error {
        return error.message.clone();
    }
    let measured: Vec<&SizeResult> = measured(run).collect();
    let Some(first) = measured.first() else {
        return "nothing was measured".into();
    };
    let size = |result: &SizeResult| sizes::row_name(result.row());
    if let Some(latency) = &first.latency {
        let text_for = |percent| {
            let value = sizes::percentile(latency, percent)?;
            Some(Quantity::Latency.text(value.value_ns as f64))
        };
        let text = match [text_for(50.0), text_for(99.0)] {
            [Some(median), Some(p99)] => format!("median {median}, p99 {p99}"),
            _ => {
                let [mean, max] = [latency.mean_ns, latency.max_ns as f64]
                    .map(|value| Quantity::Latency.text(value));
                format!("mean {mean}, max {max}")
            }
        };
        return format!("{}: {text}", size(first));
    }
    let rate = |result: &&&SizeResult| {
        result.bandwidth.as_ref().map(|bandwidth| bandwidth.bandwidth_bytes_per_s)
    };
    let best = measured.iter().max_by(|one, other| {
        let [one, other] = [one, other].map(|result| rate(result).unwrap_or(0.0));
        one.total_cmp(&other)
    });
    let bandwidth = best.as_ref().and_then(rate).unwrap_or(0.0);
    let size = best.map_or(String::new(), |best| size(best));
    format!("{} at {size}", Quantity::Bandwidth.text(bandwidth))
}

/// Returns where a run was measured.
pub fn place(run: &Outcome) -> String {
    let device = run.device.as_ref().map_or("no NIC", |device| device.name.as_str());
    let own = format!("{} {device}", run.host.name);
    match &run.peer {
        Some(peer) => {
            let host = peer.host_name.as_deref().unwrap_or(&peer.ip);
            let device = peer.device.as_deref().unwrap_or("");
            format!("{own} to {host} {device}").trim_end().to_owned()
        }
        None => own,
    }
}

/// Returns the median or the bandwidth of each size over all runs of a tool, with the range of the
/// runs. `None` unless at least two runs have at least two sizes in common, and one depth each.
pub fn together(runs: &[&Outcome]) -> Option<Markup> {
    let mut rows = runs.iter().flat_map(|run| measured(run));
    if rows.any(|result| result.posted.or(result.unexpected).is_some()) {
        return None;
    }
    let figures = |run: &&Outcome| -> Vec<(u64, f64)> {
        let map = measured(run)
            .filter_map(|result| Some((result.size_bytes, sizes::main_metric(result)?)));
        map.collect()
    };
    let all: Vec<(u64, f64)> = runs.iter().flat_map(figures).collect();
    let mut sizes: Vec<u64> = all.iter().map(|(size, _)| *size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if runs.len() < 2 || sizes.len() < 2 || all.len() < 2 * sizes.len() {
        return None;
    }
    let size_values = |size: u64| {
        let mut values: Vec<f64> =
            all.iter().filter(|(value, _)| *value == size).map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let values: Vec<(f64, Vec<f64>)> =
        sizes.iter().map(|size| (*size as f64, size_values(*size))).collect();
    let curve = Curve {
        name: format!("{} runs", runs.len()),
        is_main: true,
        points: values.iter().map(|(size, value)| (*size, value[(value.len() - 1) / 2])).collect(),
        band: values
            .iter()
            .map(|(size, value)| (*size, value[0], value[value.len() - 1]))
            .collect(),
        ..Curve::default()
    };
    let quantity = main_quantity(runs[0]);
    let x = Axis::log("Size", Quantity::Size, &mut sizes.iter().map(|size| *size as f64))?;
    let y =
        Axis::log(sizes::axis_title(quantity), quantity, &mut all.iter().map(|(_, value)| *value))?;
    let what =
        format!("{} of each size: median and range of the runs", sizes::axis_title(quantity));
    Some(figure(&what, &chart::curves(&what, &x, &y, &[curve])))
}

/// Returns the sections of a run below its title.
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

/// Returns what was run, where and when.
pub fn circumstances(file: &str, run: &Outcome) -> Markup {
    let device = run.device.as_ref();
    let software = device.and_then(|device| device.is_software) == Some(true);
    let labels: Vec<String> =
        run.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let options = run.options.as_ref().and_then(|options| serde_json::to_value(options).ok());
    let options = options.as_ref().and_then(serde_json::Value::as_object);
    html! {
        (facts(&[
            ("Tool", Some(run.tool.clone())),
            ("File", Some(file.to_owned())),
            ("Started", Some(time(run.started_unix_ms))),
            ("Duration", (!run.is_printed()).then(|| seconds(run.elapsed_ms))),
            ("Measured by", Some(place(run))),
            ("Platform", software.then(|| "software NIC (no Cassini hardware involved)".to_owned())),
            ("Labels", (!labels.is_empty()).then(|| labels.join(", "))),
            ("Job", run.job.as_ref().map(|job| format!("{} {}", job.manager, job.id))),
            ("Clock", (!run.is_printed()).then(|| run.clock.name.clone())),
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

/// Returns the sizes that were measured, completely or not.
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

/// Returns the table of expectations.
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
    let columns = [
        PageColumn::Numbers("Size"),
        PageColumn::Words("Expected"),
        PageColumn::Numbers("Measured"),
        PageColumn::Words("Verdict"),
    ];
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
