//! Runs of one tool on the page: how they ended, pictures of their sizes, a table of metrics.

use maud::{Markup, html};

use super::chart::{self, Axis, Curve, Mark};
use super::parts::{self, Column, Grade, badge, cell, facts, figure, seconds, table, time};
use super::quantity::Quantity;
use crate::report::histogram::{self, joined};
use crate::report::outcome::{
    Extent, LatencyResult, Outcome, PercentileValue, SizeResult, Status, Verdict,
};
use crate::report::survey::words::grouped;

/// Bins of a histogram on the page that have samples, at most.
const MOST_BARS: usize = 80;

/// Histograms and intervals of a run that are shown at once. Others unfold.
const MOST_OPEN: usize = 2;

/// Returns how a run ended.
pub fn status(run: &Outcome) -> parts::Status {
    match run.status {
        Status::Complete => (Grade::Good, "complete"),
        Status::Unmet => (Grade::Bad, "expectation not met"),
        Status::Interrupted => (Grade::Unsure, "interrupted"),
        Status::Failed => (Grade::Bad, "failed"),
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
    let size = |result: &SizeResult| Quantity::Size.text(result.size_bytes as f64);
    if let Some(latency) = &first.latency {
        let of = |percent| {
            let value = percentile(latency, percent)?;
            Some(Quantity::Latency.text(value.value_ns as f64))
        };
        let [median, p99] = [of(50.0), of(99.0)].map(Option::unwrap_or_default);
        return format!("{}: median {median}, p99 {p99}", size(first));
    }
    let rate = |result: &&&SizeResult| result.bandwidth.as_ref().map(|of| of.bandwidth_bytes_per_s);
    let best = measured.iter().max_by(|one, other| {
        let [one, other] = [one, other].map(|of| rate(of).unwrap_or(0.0));
        one.total_cmp(&other)
    });
    let bandwidth = best.as_ref().and_then(rate).unwrap_or(0.0);
    let size = best.map_or(String::new(), |best| size(best));
    format!("{} at {size}", Quantity::Bandwidth.text(bandwidth))
}

/// Returns where a run was measured.
pub fn place(run: &Outcome) -> String {
    let device = run
        .device
        .as_ref()
        .map_or("no NIC", |device| device.name.as_str());
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
/// runs. `None` unless at least two runs have at least two sizes in common.
pub fn together(runs: &[&Outcome]) -> Option<Markup> {
    let figures = |run: &&Outcome| -> Vec<(u64, f64)> {
        let of = measured(run).filter_map(|result| Some((result.size_bytes, main_metric(result)?)));
        of.collect()
    };
    let all: Vec<(u64, f64)> = runs.iter().flat_map(figures).collect();
    let mut sizes: Vec<u64> = all.iter().map(|(size, _)| *size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if runs.len() < 2 || sizes.len() < 2 || all.len() < 2 * sizes.len() {
        return None;
    }
    let of_size = |size: u64| {
        let mut values: Vec<f64> = all
            .iter()
            .filter(|(of, _)| *of == size)
            .map(|(_, value)| *value)
            .collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let values: Vec<(f64, Vec<f64>)> = sizes
        .iter()
        .map(|size| (*size as f64, of_size(*size)))
        .collect();
    let curve = Curve {
        name: format!("{} runs", runs.len()),
        is_main: true,
        points: values
            .iter()
            .map(|(size, of)| (*size, of[(of.len() - 1) / 2]))
            .collect(),
        band: values
            .iter()
            .map(|(size, of)| (*size, of[0], of[of.len() - 1]))
            .collect(),
        ..Curve::default()
    };
    let quantity = main_quantity(runs[0]);
    let x = Axis::log(
        "Size",
        Quantity::Size,
        sizes.iter().map(|size| *size as f64),
    )?;
    let y = Axis::log(
        axis_title(quantity),
        quantity,
        all.iter().map(|(_, value)| *value),
    )?;
    let what = format!(
        "{} of each size: median and range of the runs",
        axis_title(quantity)
    );
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
        @if let Some(picture) = size_curve(&measured) { (picture) }
        @for (at, result) in measured.iter().enumerate() {
            @let pictures = [histogram(result), intervals(result)];
            @let size = Quantity::Size.text(result.size_bytes as f64);
            @if pictures.iter().any(Option::is_some) {
                details open[at < MOST_OPEN] {
                    summary { (size) }
                    @for picture in pictures.iter().flatten() { (picture) }
                }
            }
        }
        @if !measured.is_empty() { (metrics(&measured)) }
        (counter_findings(run))
    }
}

/// Returns what was run, where and when.
pub fn circumstances(file: &str, run: &Outcome) -> Markup {
    let device = run.device.as_ref();
    let software = device.and_then(|device| device.is_software) == Some(true);
    let labels: Vec<String> = run
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let options = run
        .options
        .as_ref()
        .and_then(|options| serde_json::to_value(options).ok());
    let options = options.as_ref().and_then(serde_json::Value::as_object);
    html! {
        (facts(&[
            ("Tool", Some(run.tool.clone())),
            ("File", Some(file.to_owned())),
            ("Started", Some(time(run.started_unix_ms))),
            ("Duration", Some(seconds(run.elapsed_ms))),
            ("Measured by", Some(place(run))),
            ("Platform", software.then(|| "software NIC (no Cassini hardware involved)".to_owned())),
            ("Labels", (!labels.is_empty()).then(|| labels.join(", "))),
            ("Job", run.job.as_ref().map(|job| format!("{} {}", job.manager, job.id))),
            ("Clock", Some(run.clock.name.clone())),
            ("Kernel", Some(format!("{} ({})", run.host.kernel, run.host.architecture))),
            ("Driver", device.and_then(|device| device.driver.clone())),
            ("Firmware", device.and_then(|device| device.firmware_version.clone())),
            ("cxidiag", Some(run.cxidiag_version.clone())),
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
    let has_metrics = |of: &&SizeResult| of.latency.is_some() || of.bandwidth.is_some();
    run.results.iter().filter(has_metrics)
}

fn percentile(latency: &LatencyResult, percent: f64) -> Option<&PercentileValue> {
    latency
        .percentiles
        .iter()
        .find(|value| value.percent == percent)
}

/// Returns the median or the bandwidth.
fn main_metric(result: &SizeResult) -> Option<f64> {
    match (&result.latency, &result.bandwidth) {
        (Some(latency), _) => percentile(latency, 50.0).map(|of| of.value_ns as f64),
        (None, bandwidth) => bandwidth.as_ref().map(|of| of.bandwidth_bytes_per_s),
    }
}

fn main_quantity(run: &Outcome) -> Quantity {
    if run.results.iter().any(|result| result.bandwidth.is_some()) {
        Quantity::Bandwidth
    } else {
        Quantity::Latency
    }
}

fn axis_title(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Bandwidth => "Bandwidth",
        _ => "Latency",
    }
}

/// Returns the name of a percentile.
fn percentile_name(percent: f64) -> String {
    match percent {
        100.0 => "max".into(),
        50.0 => "median".into(),
        percent => format!("p{percent}"),
    }
}

/// Returns the metrics over the sizes, with a curve for each percentile. `None` for one size.
fn size_curve(measured: &[&SizeResult]) -> Option<Markup> {
    if measured.len() < 2 {
        return None;
    }
    let curve = |name: String, color, is_main, metric: &dyn Fn(&SizeResult) -> Option<f64>| {
        let point = |result: &&SizeResult| Some((result.size_bytes as f64, metric(result)?));
        Curve {
            name,
            color,
            is_main,
            points: measured.iter().filter_map(point).collect(),
            band: Vec::new(),
        }
    };
    let of_latency = measured.iter().any(|result| result.latency.is_some());
    let (curves, quantity, what) = if of_latency {
        let of = |percent: f64| {
            move |result: &SizeResult| {
                let value = percentile(result.latency.as_ref()?, percent)?;
                Some(value.value_ns as f64)
            }
        };
        let shown = [50.0, 90.0, 99.0, 99.9, 100.0];
        let of_percentile = |(color, percent): (usize, f64)| {
            curve(
                percentile_name(percent),
                color,
                percent == 50.0,
                &of(percent),
            )
        };
        let mut curves: Vec<Curve> = shown.into_iter().enumerate().map(of_percentile).collect();
        curves.push(curve("min".into(), 5, false, &|result| {
            result.latency.as_ref().map(|of| of.min_ns as f64)
        }));
        (curves, Quantity::Latency, "Latency of each size")
    } else {
        let curve = curve("bandwidth".into(), 0, true, &main_metric);
        (vec![curve], Quantity::Bandwidth, "Bandwidth of each size")
    };
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = Axis::log("Size", Quantity::Size, points().map(|(size, _)| *size))?;
    let y = Axis::log(
        axis_title(quantity),
        quantity,
        points().map(|(_, value)| *value),
    )?;
    Some(figure(what, &chart::curves(what, &x, &y, &curves)))
}

/// Returns the distribution of the latencies of a size, from its histogram or from its samples.
fn histogram(result: &SizeResult) -> Option<Markup> {
    let latency = result.latency.as_ref()?;
    let of_samples = || {
        let samples = latency.samples_ns.as_ref()?;
        Some(histogram::bins(samples.iter().map(|ns| (*ns, 1))))
    };
    let bins = latency.histogram.clone().or_else(of_samples)?;
    let bars: Vec<(f64, f64, u64)> = joined(&bins, MOST_BARS)
        .iter()
        .map(|bin| (bin.from_ns as f64, bin.to_ns as f64, bin.count))
        .collect();
    let edges = bars.iter().flat_map(|(from, to, _)| [*from, *to]);
    let marks: Vec<Mark> = [50.0, 99.0, 99.9, 100.0]
        .into_iter()
        .filter_map(|percent| percentile(latency, percent))
        .map(|of| Mark {
            name: percentile_name(of.percent),
            at: of.value_ns as f64,
            is_limit: false,
        })
        .collect();
    let x = Axis::log("Latency", Quantity::Latency, edges)?;
    let counts = bars.iter().map(|(_, _, count)| *count as f64);
    let y = Axis::log("Samples", Quantity::Count, counts.chain([0.6]))?;
    let size = Quantity::Size.text(result.size_bytes as f64);
    let what = format!("How often each latency occurs, {size}, both axes logarithmic");
    Some(figure(&what, &chart::bars(&what, &x, &y, &bars, &marks)))
}

/// Returns the metrics of a size over time. `None` unless there are at least two intervals.
fn intervals(result: &SizeResult) -> Option<Markup> {
    let rows = &result.intervals.as_ref()?.rows;
    if rows.len() < 2 {
        return None;
    }
    let curve = |name: &str, color, metric: &dyn Fn(usize) -> Option<f64>| {
        let point = |(at, row)| {
            let row: &crate::report::intervals::Interval = row;
            Some((f64::midpoint(row.start_s, row.end_s), metric(at)?))
        };
        Curve {
            name: name.into(),
            color,
            is_main: color == 0,
            points: rows.iter().enumerate().filter_map(point).collect(),
            band: Vec::new(),
        }
    };
    let of = |at: usize| &rows[at].figures;
    let curves = [
        curve("bandwidth", 0, &|at| of(at).bandwidth_bytes_per_s),
        curve("mean", 0, &|at| of(at).mean_ns),
        curve("p99", 2, &|at| of(at).p99_ns.map(|ns| ns as f64)),
    ];
    let curves: Vec<Curve> = curves
        .into_iter()
        .filter(|of| !of.points.is_empty())
        .collect();
    let values = || {
        curves
            .iter()
            .flat_map(|of| &of.points)
            .map(|(_, value)| *value)
    };
    let ends = rows.iter().map(|row| row.end_s);
    let x = Axis::from_zero("Time", Quantity::Seconds, ends)?;
    let (y, title) = if result.bandwidth.is_some() {
        (
            Axis::from_zero("Bandwidth", Quantity::Bandwidth, values())?,
            "Bandwidth",
        )
    } else {
        (
            Axis::log("Latency", Quantity::Latency, values())?,
            "Latency",
        )
    };
    let size = Quantity::Size.text(result.size_bytes as f64);
    let what = format!("{title} over time, {size}");
    Some(figure(&what, &chart::curves(&what, &x, &y, &curves)))
}

/// Returns the table of all metrics.
fn metrics(measured: &[&SizeResult]) -> Markup {
    let size = |result: &SizeResult| {
        let remark = match result.extent {
            Extent::Complete => "",
            Extent::Partial | Extent::None => " (partial)",
        };
        cell(format!(
            "{}{remark}",
            Quantity::Size.text(result.size_bytes as f64)
        ))
    };
    let operations = |result: &SizeResult| cell(grouped(result.count));
    let latency = |ns: f64| cell(Quantity::Latency.text(ns));
    if measured.iter().all(|result| result.latency.is_some()) {
        let columns = [
            "Size", "Samples", "Min", "Median", "p90", "p99", "p99.9", "p99.99", "Max", "Mean",
            "StdDev",
        ];
        let row = |result: &&SizeResult| {
            let of = result.latency.as_ref()?;
            let mut row = vec![size(result), operations(result), latency(of.min_ns as f64)];
            for percent in [50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
                row.push(match percentile(of, percent) {
                    Some(value) if value.too_few_samples => html! {
                        (latency(value.value_ns as f64))
                        abbr title="fewer than 10 samples above this percentile: unreliable" { "*" }
                    },
                    Some(value) => latency(value.value_ns as f64),
                    None => cell("-"),
                });
            }
            row.extend([latency(of.mean_ns), latency(of.standard_deviation_ns)]);
            Some(row)
        };
        let rows: Vec<Vec<Markup>> = measured.iter().filter_map(row).collect();
        html! {
            (table("Latencies", &columns.map(Column::Numbers), &rows))
            p.note { "* fewer than 10 samples above this percentile: unreliable" }
        }
    } else {
        let columns = ["Size", "Operations", "Bandwidth", "Packets"];
        let row = |result: &&SizeResult| {
            let of = result.bandwidth.as_ref()?;
            let bandwidth = Quantity::Bandwidth.text(of.bandwidth_bytes_per_s);
            let packets = Quantity::Rate.text(of.packet_rate_packets_per_s);
            Some(vec![
                size(result),
                operations(result),
                cell(bandwidth),
                cell(packets),
            ])
        };
        let rows: Vec<Vec<Markup>> = measured.iter().filter_map(row).collect();
        table("Bandwidths", &columns.map(Column::Numbers), &rows)
    }
}

/// Returns the table of expectations.
fn expectations(verdicts: &[Verdict]) -> Markup {
    let row = |verdict: &Verdict| {
        let (grade, text) = if verdict.met {
            (Grade::Good, "met")
        } else {
            (Grade::Bad, "not met")
        };
        let quantity = Quantity::of_unit(&verdict.unit);
        let measured = verdict
            .measured
            .map_or("not measured".into(), |of| quantity.text(of));
        vec![
            cell(Quantity::Size.text(verdict.size_bytes as f64)),
            cell(&verdict.expectation),
            cell(measured),
            badge((grade, text)),
        ]
    };
    let rows: Vec<Vec<Markup>> = verdicts.iter().map(row).collect();
    let columns = [
        Column::Numbers("Size"),
        Column::Words("Expected"),
        Column::Numbers("Measured"),
        Column::Words("Verdict"),
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
