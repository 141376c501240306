//! A comparison on the page: its verdicts, and the curves of both sides.

use maud::{Markup, html};

use super::chart::{self, Axis, Curve};
use super::parts::{Badge, badge, cell, facts, figure, table, time};
use super::quantity::Quantity;
use super::sizes::row_name;
use crate::comparison::{Comparison, Figure, Group, MetricComparison, Run, Verdict};
use crate::text;

/// Pictures of groups at most.
const MOST_PICTURES: usize = 8;

/// The verdict on all sizes: the worst of them.
pub fn status(comparison: &Comparison) -> Badge {
    let has = |verdict| comparison.sizes().any(|(_, size)| size.verdict == verdict);
    let worst = [
        Verdict::Regressed,
        Verdict::NotMeasured,
        Verdict::Unclear,
        Verdict::NoBase,
        Verdict::WithinNoise,
        Verdict::Improved,
    ];
    let worst = worst.into_iter().find(|verdict| has(*verdict));
    status_of(worst.unwrap_or(Verdict::Ok))
}

/// The result in words.
pub fn finding(comparison: &Comparison) -> String {
    let rule = comparison.rule();
    if let Some(bad) = comparison.sizes_that_are(Verdict::Regressed) {
        let limit = comparison.max_regress_percent;
        return format!("worse than the base by more than {limit}%: {bad}");
    }
    if let Some(bad) = comparison.sizes_that_are(Verdict::NotMeasured) {
        return format!("{rule}: not measured: {bad}");
    }
    match comparison.undecided() {
        Some(undecided) => format!("{rule}: unclear: {undecided}"),
        None => format!("{rule}: no regression in {} rows", comparison.sizes().count()),
    }
}

fn status_of(verdict: Verdict) -> Badge {
    (verdict.severity(), verdict.text())
}

/// The section below its title.
pub fn section(comparison: &Comparison) -> Markup {
    html! {
        p { (badge(status(comparison))) " " (finding(comparison)) }
        @for picture in comparison.groups.iter().filter_map(both_sides).take(MOST_PICTURES) { (picture) }
        (metrics(comparison, "The metric that decides", true))
        details {
            summary { "Other metrics" }
            (metrics(comparison, "Other metrics", false))
        }
        @let differences = text::differences(comparison);
        @if !differences.is_empty() {
            h4 { "What differs beside the results" }
            ul { @for line in &differences { li { (line) } } }
        }
    }
}

/// Returns what was compared.
pub fn circumstances(file: &str, comparison: &Comparison) -> Markup {
    let runs = |side: fn(&Group) -> &Vec<Run>| {
        let described = |run: &Run| {
            let device = run.device.as_deref().unwrap_or("no NIC");
            let software = if run.is_software == Some(true) { ", software NIC" } else { "" };
            let started = time(run.started_unix_ms);
            format!("{} ({device} on {}{software}, {started})", run.file, run.host)
        };
        let runs = comparison.groups.iter().flat_map(side);
        Some(runs.map(described).collect::<Vec<_>>().join("; "))
    };
    facts(&[
        ("Compared", Some(comparison.tools())),
        ("File", Some(file.to_owned()).filter(|file| !file.is_empty())),
        ("Base", runs(|group| &group.base)),
        ("New", runs(|group| &group.new)),
        ("Level of the test", Some(format!("{}%", comparison.level_percent))),
        ("cxidiag", Some(comparison.cxidiag_version.clone())),
    ])
}

/// The first new run.
pub fn newest(comparison: &Comparison) -> Option<&Run> {
    comparison.groups.iter().find_map(|group| group.new.first())
}

/// Whether a run was made on a software NIC.
pub fn is_software(comparison: &Comparison) -> bool {
    let mut runs = comparison.groups.iter().flat_map(|group| group.base.iter().chain(&group.new));
    runs.any(|run| run.is_software == Some(true))
}

/// The table of the metric that decides, with the verdicts, or of the others, of all sizes.
fn metrics(comparison: &Comparison, title: &str, decides: bool) -> Markup {
    let has_groups = comparison.groups.len() > 1;
    let rows: Vec<Vec<Markup>> = comparison
        .sizes()
        .flat_map(|(group, size)| size.metrics.iter().map(move |metric| (group, size, metric)))
        .filter(|(group, _, metric)| (metric.metric == group.metric) == decides)
        .map(|(group, size, metric)| {
            let quantity = Quantity::from_unit(&metric.unit);
            let value = |figure: &Option<Figure>| {
                let figure = figure.as_ref();
                cell(figure.map_or("-".into(), |figure| quantity.text(figure.value)))
            };
            let noise = |figure: &Option<Figure>| {
                cell(figure.as_ref().map_or("-".into(), Figure::noise_text))
            };
            let change = metric.change_percent;
            let mut row = Vec::new();
            if has_groups {
                row.push(cell(&group.name));
            }
            row.push(cell(row_name(size.row())));
            if decides {
                row.push(badge(status_of(size.verdict)));
            }
            row.extend([
                cell(metric.metric.to_string()),
                cell(change.map_or("-".into(), |change| format!("{change:+.1}%"))),
                value(&metric.base),
                noise(&metric.base),
                value(&metric.new),
                noise(&metric.new),
            ]);
            row
        })
        .collect();
    // The verdict is visible in a narrow window, where the last columns are not.
    let mut columns = vec![">Size"];
    if has_groups {
        columns.insert(0, "Measured");
    }
    if decides {
        columns.push("Verdict");
    }
    columns.extend(["Metric", ">Change", ">Base", ">Noise", ">New", ">Noise"]);
    table(title, &columns, &rows)
}

/// The curves of the metric that decides, with its noise. `None` for one size, and for depths,
/// which the table shows.
fn both_sides(group: &Group) -> Option<Markup> {
    if group.sizes.iter().any(|size| size.posted.or(size.unexpected).is_some()) {
        return None;
    }
    let deciding = |metrics: &[MetricComparison]| {
        metrics.iter().find(|metric| metric.metric == group.metric).cloned()
    };
    let metrics: Vec<(f64, MetricComparison)> = group
        .sizes
        .iter()
        .filter_map(|size| Some((size.size_bytes as f64, deciding(&size.metrics)?)))
        .collect();
    let curve = |name: &str, color, side: fn(&MetricComparison) -> &Option<Figure>| {
        let figures = || {
            metrics
                .iter()
                .filter_map(|(size, comparison)| Some((*size, side(comparison).as_ref()?)))
        };
        let range =
            |(size, figure): (f64, &Figure)| Some((size, figure.noise_low?, figure.noise_high?));
        Curve {
            name: name.into(),
            color,
            is_main: true,
            points: figures().map(|(size, figure)| (size, figure.value)).collect(),
            band: figures().filter_map(range).collect(),
        }
    };
    let curves = [
        curve("base", 0, |comparison| &comparison.base),
        curve("new", 1, |comparison| &comparison.new),
    ];
    if metrics.len() < 2 {
        return None;
    }
    let quantity = Quantity::from_unit(&metrics[0].1.unit);
    let mut sizes = metrics.iter().map(|(size, _)| *size);
    let mut values = curves.iter().flat_map(|curve| {
        let noise = curve.band.iter().flat_map(|(_, low, high)| [*low, *high]);
        curve.points.iter().map(|(_, value)| *value).chain(noise)
    });
    let x = Axis::log("Size", Quantity::Size, &mut sizes)?;
    let y = Axis::log(&group.metric.to_string(), quantity, &mut values)?;
    let Group { metric, name, .. } = group;
    let what = format!("{metric} of each size, base and new, with the noise of each: {name}");
    Some(figure(&what, &chart::curves(&what, &x, &y, &curves)))
}
