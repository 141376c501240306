//! A comparison as text: what was compared, a table, and what its verdicts mean.

use super::comparison::{Comparison, Figure, MetricComparison, Run, SizeComparison, Test, Verdict};
use super::noise::DISTURBED_PERCENT;
use super::page::{Page, Words};
use super::table::Align;
use facts::expect::{Metric, Unit};

/// Differences between runs that are shown.
const SHOWN_DIFFERENCES: usize = 10;

/// Returns the page of a comparison.
pub fn page(comparison: &Comparison) -> Page {
    let mut page = Page::default();
    page.fact("Base", described(&comparison.base));
    page.fact("New", described(&comparison.new));
    page.fact("Tool", &comparison.tool);
    let (metric, limit) = (comparison.metric, comparison.max_regress_percent);
    page.fact("Metric", format!("{metric}, at most {limit}% worse"));
    for test in tests(comparison) {
        page.fact("Test", test);
    }
    let differences = &comparison.differences;
    for difference in differences.iter().take(SHOWN_DIFFERENCES) {
        page.fact("Difference", difference);
    }
    if let more @ 1.. = differences.len().saturating_sub(SHOWN_DIFFERENCES) {
        page.fact("Difference", format!("and {more} more"));
    }
    page.empty_line();
    table(&mut page, comparison);
    page.end_table();
    remarks(&mut page, comparison);
    page
}

/// Returns the files, host and device of the runs of a side.
fn described(runs: &[Run]) -> String {
    let mut files: Vec<&str> = runs.iter().map(|run| run.file.as_str()).collect();
    files.dedup();
    let files = match files.as_slice() {
        [] => String::new(),
        [file] => (*file).to_owned(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    };
    let number = match runs.len() {
        1 => String::new(),
        runs => format!("{runs} runs, "),
    };
    let place = runs.first().map_or(String::new(), |run| {
        let device = run.device.as_deref().unwrap_or("no device");
        let software = match run.is_software {
            Some(true) => ", software NIC",
            _ => "",
        };
        format!("{device} on {}{software}", run.host)
    });
    format!("{files} ({number}{place})")
}

/// Returns how the sizes were tested, in words.
fn tests(comparison: &Comparison) -> Vec<String> {
    let has = |test| comparison.sizes.iter().any(|size| size.test == Some(test));
    let mut tests = Vec::new();
    if has(Test::MannWhitneyU) {
        let level = comparison.level_percent;
        tests.push(format!("Mann-Whitney U of the runs, {level}% for each size and direction"));
    }
    if has(Test::Ranges) {
        tests.push("ranges of the samples in each run; has no level".into());
    }
    tests
}

fn table(page: &mut Page, comparison: &Comparison) {
    let columns = [
        ("Size[B]", Align::Right),
        ("Metric", Align::Left),
        ("Base", Align::Right),
        ("Noise", Align::Right),
        ("New", Align::Right),
        ("Noise", Align::Right),
        ("Change", Align::Right),
        ("Verdict", Align::Left),
    ];
    let rows = comparison
        .sizes
        .iter()
        .flat_map(|size| size.metrics.iter().map(|metric| row(comparison, size, metric)));
    page.table(&columns, rows);
}

fn row(comparison: &Comparison, size: &SizeComparison, metric: &MetricComparison) -> Vec<Words> {
    let (unit, _) = metric.metric.unit().readable();
    let decides = metric.metric == comparison.metric;
    let [base, new] = [&metric.base, &metric.new].map(Option::as_ref);
    vec![
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
        Unit::Bytes => 1,
        Unit::Nanoseconds | Unit::Packets => 3,
    };
    figure.map_or("-".into(), |figure| format!("{:.decimals$}", figure.value / scale))
}

fn noise(figure: Option<&Figure>) -> String {
    match figure.and_then(Figure::noise_percent) {
        None => "-".into(),
        Some(percent) if percent > 999.0 => ">999%".into(),
        Some(percent) if percent >= 9.95 => format!("{percent:.0}%"),
        Some(percent) => format!("{percent:.1}%"),
    }
}

/// Adds what verdicts that decide nothing mean, and what to do.
fn remarks(page: &mut Page, comparison: &Comparison) {
    let (metric, limit) = (comparison.metric, comparison.max_regress_percent);
    let undecided = comparison.undecided();
    if let Some(sizes) = comparison.sizes_that_are(Verdict::WithinNoise) {
        page.line(format!(
            "Within noise: {sizes}. Worse by more than {limit}%, but not by more than the noise."
        ));
    }
    if let Some(sizes) = comparison.sizes_that_are(Verdict::Unclear) {
        page.line(format!(
            "Unclear: {sizes}. The noise hides a change of {limit}%, or is unknown: a run\n\
             waited for its CPU for more than {DISTURBED_PERCENT}% of the time, or has no range of\n\
             {metric}."
        ));
    }
    let has_few_runs = comparison.sizes.iter().any(|size| size.test == Some(Test::Ranges));
    match undecided {
        None => {}
        Some(_) if has_few_runs => {
            page.line("To decide, measure 5 runs or more for each side, in turns.");
        }
        Some(_) => page.line("To decide, measure more runs, or on a machine with less load."),
    }
    let is_assumed = comparison.sizes.iter().any(|size| {
        let deciding = size.metrics.iter().filter(|comparison| comparison.metric == metric);
        let mut figures =
            deciding.flat_map(|comparison| comparison.base.iter().chain(&comparison.new));
        figures.any(|figure| figure.noise_is_assumed)
    });
    if is_assumed {
        page.line("Noise of 33% is assumed where a run has no intervals (--interval=100ms).");
    }
}
