//! A comparison as text: what was compared, a table, and what its verdicts mean.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::{
    Comparison, Figure, Group, MetricComparison, Run, SignificanceTest, SizeComparison, Verdict,
};
use facts::expect::{Metric, MetricUnit};
use facts::number::listed;
use facts::text::plural;
use page::page::{Page, Words};
use report::noise::DISTURBED_PERCENT;

/// Differences between runs that are shown.
const SHOWN_DIFFERENCES: usize = 10;

/// The page of a comparison. The text has the metrics that do not decide, and the noise of several
/// groups, if it `is_verbose`.
pub fn page(comparison: &Comparison, is_verbose: bool) -> Page {
    let mut page = Page::default();
    let side = |side: fn(&Group) -> &Vec<Run>| {
        described(&comparison.groups.iter().flat_map(side).collect::<Vec<_>>())
    };
    page.fact("Base", side(|group| &group.base));
    page.fact("New", side(|group| &group.new));
    page.fact("Tool", comparison.tools());
    page.fact("Metric", comparison.rule());
    for test in tests(comparison) {
        page.fact("Test", test);
    }
    page.facts("Difference", &differences(comparison), SHOWN_DIFFERENCES);
    page.empty_line();
    table(&mut page, comparison, is_verbose);
    page.end_table();
    remarks(&mut page, comparison);
    page
}

/// The differences of all groups, with the name of the group if others do not have it.
pub fn differences(comparison: &Comparison) -> Vec<String> {
    let groups = &comparison.groups;
    let lines =
        || groups.iter().flat_map(|group| group.differences.iter().map(move |line| (group, line)));
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    lines().for_each(|(_, line)| *counts.entry(line).or_default() += 1);
    let is_common = |line: &String| counts[line] == groups.len();
    let common = groups.iter().take(1).flat_map(|group| &group.differences);
    let common = common.filter(|line| is_common(line)).cloned();
    let others = lines().filter(|(_, line)| !is_common(line));
    common.chain(others.map(|(group, line)| format!("{}: {line}", group.name))).collect()
}

/// The files, host and device of the runs of a side.
fn described(runs: &[&Run]) -> String {
    let files = distinct(runs.iter().map(|run| run.file.as_str()));
    let files = match files.as_slice() {
        [] => "no runs".to_owned(),
        files => listed(files, 1),
    };
    let place = |run: &&Run| {
        let device = run.device.as_deref().unwrap_or("unknown NIC");
        let software = if run.is_software == Some(true) { ", software NIC" } else { "" };
        format!("{device} on {}{software}", run.host)
    };
    let places = distinct(runs.iter().map(place));
    let number = (runs.len() > 1).then(|| format!("{} runs", runs.len()));
    let place = match places.as_slice() {
        [] => return files,
        [place] => place.clone(),
        several => format!("{} NICs", several.len()),
    };
    let words: Vec<String> = number.into_iter().chain([place]).collect();
    format!("{files} ({})", words.join(", "))
}

fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.collect::<BTreeSet<T>>().into_iter().collect()
}

/// Returns how the sizes were tested, in words.
fn tests(comparison: &Comparison) -> Vec<String> {
    let has = |test| comparison.sizes().any(|(_, size)| size.test == Some(test));
    let mut tests = Vec::new();
    if has(SignificanceTest::MannWhitneyU) {
        let level = comparison.level_percent;
        tests.push(format!("Mann-Whitney U of the runs, {level}% for each size and direction"));
    }
    if has(SignificanceTest::Ranges) {
        tests.push("ranges of the samples in each run; has no level".into());
    }
    tests
}

fn table(page: &mut Page, comparison: &Comparison, is_verbose: bool) {
    let has_groups = comparison.groups.len() > 1;
    let has_noise = is_verbose || !has_groups;
    let columns = [
        ("Measured", has_groups),
        (">Size[B]", true),
        ("Metric", true),
        (">Base", true),
        (">Noise", has_noise),
        (">New", true),
        (">Noise", has_noise),
        (">Change", true),
        ("Verdict", true),
    ];
    let rows = comparison.sizes().flat_map(|(group, size)| {
        let is_shown = |metric: &&MetricComparison| is_verbose || metric.metric == group.metric;
        size.metrics.iter().filter(is_shown).map(|metric| {
            let cells = row(group, size, metric).into_iter().zip(&columns);
            cells.filter(|(_, column)| column.1).map(|(cell, _)| cell).collect()
        })
    });
    let rows: Vec<Vec<Words>> = rows.collect();
    let columns = columns.iter().filter(|column| column.1).map(|(title, _)| *title);
    page.table(&columns.collect::<Vec<_>>(), rows);
}

fn row(group: &Group, size: &SizeComparison, metric: &MetricComparison) -> Vec<Words> {
    let (unit, _) = metric.metric.unit().readable();
    let decides = metric.metric == group.metric;
    let [base, new] = [&metric.base, &metric.new].map(Option::as_ref);
    let noise = |figure: Option<&Figure>| figure.map_or("-".into(), Figure::noise_text);
    vec![
        group.name.as_str().into(),
        size.row().cell().into(),
        format!("{}[{unit}]", metric.metric).into(),
        value(metric.metric, base).into(),
        noise(base).into(),
        value(metric.metric, new).into(),
        noise(new).into(),
        metric.change_percent.map_or("-".into(), |change| format!("{change:+.2}%").into()),
        if decides {
            Words::verdict(size.verdict.severity(), size.verdict.text())
        } else {
            Words::default()
        },
    ]
}

fn value(metric: Metric, figure: Option<&Figure>) -> String {
    let (_, scale) = metric.unit().readable();
    let decimals = match metric.unit() {
        MetricUnit::Bytes => 1,
        MetricUnit::Nanoseconds | MetricUnit::Packets => 3,
    };
    figure.map_or("-".into(), |figure| format!("{:.decimals$}", figure.value / scale))
}

/// Adds what verdicts that decide nothing mean, and what to do.
fn remarks(page: &mut Page, comparison: &Comparison) {
    let limit = comparison.max_regress_percent;
    let undecided = comparison.undecided();
    // The table names the rows of several groups.
    let sizes_that_are = |verdict| match comparison.groups.as_slice() {
        [_] => comparison.sizes_that_are(verdict),
        _ => match comparison.sizes().filter(|(_, size)| size.verdict == verdict).count() {
            0 => None,
            count => Some(format!("{count} row{}", plural(count))),
        },
    };
    if let Some(sizes) = sizes_that_are(Verdict::WithinNoise) {
        page.line(format!(
            "Within noise: {sizes}. Worse by more than {limit}%, but not by more than the noise."
        ));
    }
    if let Some(sizes) = sizes_that_are(Verdict::Unclear) {
        page.line(format!(
            "Unclear: {sizes}. The noise hides a change of {limit}%, or is unknown: a run\n\
             waited for its CPU for more than {DISTURBED_PERCENT}% of the time, or has no range of\n\
             the metric."
        ));
    }
    let has_few_runs =
        comparison.sizes().any(|(_, size)| size.test == Some(SignificanceTest::Ranges));
    match undecided {
        None => {}
        Some(_) if has_few_runs => {
            page.line("To decide, measure 5 runs or more for each side, in turns.");
        }
        Some(_) => page.line("To decide, measure more runs, or on a machine with less load."),
    }
    let is_assumed = comparison.sizes().any(|(group, size)| {
        let deciding = size.metrics.iter().filter(|metric| metric.metric == group.metric);
        let mut figures =
            deciding.flat_map(|comparison| comparison.base.iter().chain(&comparison.new));
        figures.any(|figure| figure.noise_is_assumed)
    });
    if is_assumed {
        page.line("Noise of 33% is assumed where a run has no intervals (--interval=100ms).");
    }
}
