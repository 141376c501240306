//! Two outcomes side by side, with a verdict for each size.

use std::io::{self, Write};

use serde_json::{Map, Value};

use super::columns::{COLUMNS, Column};
use super::outcome::{Extent, Outcome, SizeResult, Status};
use super::summary::line;
use super::table::{self, Align};
use crate::error::Failure;
use crate::plan::expect::{Metric, Unit};
use crate::tool::Tool;

/// Options that do not influence the results.
const INDIFFERENT: [&str; 6] = [
    "address",
    "port",
    "libcxi",
    "report_all",
    "expect",
    "loopback",
];

/// How a size has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Better, or worse by no more than allowed.
    Fine,
    /// Worse by more than allowed.
    Regressed,
    /// Measured completely in the base, but not in the new run.
    NotMeasured,
    /// Not measured completely in the base.
    NoBase,
}

impl Change {
    fn text(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Regressed => "regressed",
            Self::NotMeasured => "not measured",
            Self::NoBase => "no base",
        }
    }
}

/// Two outcomes compared, size by size.
#[derive(Debug)]
pub struct Comparison {
    /// The metric that decides.
    pub metric: Metric,
    /// Largest change for the worse that is allowed, in percent of the base.
    pub max_regress: f64,
    /// Each size of either run in bytes, in ascending order, and its change.
    pub sizes: Vec<(u64, Change)>,
}

impl Comparison {
    /// Compares `new` with `base`.
    pub fn new(base: &Outcome, new: &Outcome, metric: Metric, max_regress: f64) -> Self {
        let mut sizes: Vec<u64> = [base, new]
            .iter()
            .flat_map(|outcome| outcome.results.iter().map(|result| result.size_bytes))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let compare = |size| {
            let of = |outcome| complete(outcome, size).and_then(|result| result.figure(metric));
            let change = match (of(base), of(new)) {
                (None, _) => Change::NoBase,
                (Some(_), None) => Change::NotMeasured,
                (Some(base), Some(new)) if worse_by(metric, base, new) > max_regress => {
                    Change::Regressed
                }
                _ => Change::Fine,
            };
            (size, change)
        };
        Self {
            metric,
            max_regress,
            sizes: sizes.into_iter().map(compare).collect(),
        }
    }

    /// Returns whether no size has regressed.
    ///
    /// # Errors
    ///
    /// A size is worse than allowed or not measured completely, or no size could be compared.
    pub fn result(&self) -> Result<(), Failure> {
        let such = |change| self.sizes.iter().filter(move |(_, of)| *of == change);
        if such(Change::NoBase).count() == self.sizes.len() {
            return Err(Failure::environment(format!(
                "nothing to compare: no size in the base is complete and has {}",
                self.metric
            )));
        }
        let worse = format!("worse than the base by more than {}%", self.max_regress);
        let bad: Vec<String> = [
            (Change::Regressed, worse.as_str()),
            (Change::NotMeasured, "not measured completely"),
        ]
        .into_iter()
        .filter_map(|(change, what)| {
            let sizes: Vec<String> = such(change).map(|(size, _)| size.to_string()).collect();
            (!sizes.is_empty()).then(|| format!("{what}: {} bytes", sizes.join(", ")))
        })
        .collect();
        if bad.is_empty() {
            Ok(())
        } else {
            Err(Failure::unmet(bad.join("; ")))
        }
    }
}

/// Returns the result of a size that was measured completely.
fn complete(outcome: &Outcome, size: u64) -> Option<&SizeResult> {
    outcome
        .results
        .iter()
        .find(|result| result.size_bytes == size && result.extent == Extent::Complete)
}

/// Returns the change in percent of the base: infinite if the base is 0.
fn change(base: f64, new: f64) -> f64 {
    if new == base {
        0.0
    } else {
        (new - base) / base * 100.0
    }
}

/// Returns how much worse `new` is, in percent: a latency that grew, or a rate that fell.
fn worse_by(metric: Metric, base: f64, new: f64) -> f64 {
    match metric.unit() {
        Unit::Nanoseconds => change(base, new),
        Unit::Bytes | Unit::Packets => -change(base, new),
    }
}

/// Writes both results side by side: the metrics that `compare` always shows, and the one that
/// decides.
///
/// # Errors
///
/// `out` cannot be written.
pub fn write(
    out: &mut impl Write,
    tool: &Tool,
    names: [String; 2],
    [base, new]: [&Outcome; 2],
    comparison: &Comparison,
) -> io::Result<()> {
    for ((label, name), outcome) in ["Base", "New"].into_iter().zip(names).zip([base, new]) {
        line(out, label, format_args!("{name} ({})", described(outcome)))?;
    }
    line(out, "Tool", tool.name)?;
    let (metric, limit) = (comparison.metric, comparison.max_regress);
    line(
        out,
        "Metric",
        format_args!("{metric}, at most {limit}% worse"),
    )?;
    for difference in differences(base, new) {
        line(out, "Difference", difference)?;
    }
    let (unit, _) = metric.unit().readable();
    let titles = vec![
        tool.size_column.to_owned(),
        "Metric".into(),
        format!("Base[{unit}]"),
        format!("New[{unit}]"),
        "Change".into(),
        "Verdict".into(),
    ];
    let metrics = metrics(tool, metric);
    let rows = comparison.sizes.iter().flat_map(|&(size, change)| {
        let row = move |&shown: &Metric| row(size, shown, [base, new], comparison.metric, change);
        metrics.iter().map(row)
    });
    let align = [
        Align::Right,
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Left,
    ];
    writeln!(out)?;
    for line in table::lines(std::iter::once(titles).chain(rows), &align) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Returns the row of one metric of one size.
fn row(
    size: u64,
    shown: Metric,
    outcomes: [&Outcome; 2],
    deciding: Metric,
    verdict: Change,
) -> Vec<String> {
    let (unit, scale) = shown.unit().readable();
    let [base, new] = outcomes.map(|of| complete(of, size)?.figure(shown));
    let text = |value: Option<f64>| match value {
        Some(value) => format!("{:.3}", value / scale),
        None => "-".into(),
    };
    let change = match (base, new) {
        (Some(base), Some(new)) if base > 0.0 || new == base => {
            format!("{:+.2}%", change(base, new))
        }
        _ => "-".into(),
    };
    vec![
        size.to_string(),
        if shown.unit() == deciding.unit() {
            shown.to_string()
        } else {
            format!("{shown}[{unit}]")
        },
        text(base),
        text(new),
        change,
        if shown == deciding {
            verdict.text().into()
        } else {
            String::new()
        },
    ]
}

/// Returns the metrics of the table.
fn metrics(tool: &Tool, deciding: Metric) -> Vec<Metric> {
    COLUMNS
        .iter()
        .filter(|column| column.compared || column.shown_metric() == Some(deciding))
        .filter_map(Column::shown_metric)
        .filter(|metric| metric.belongs_to(tool))
        .collect()
}

/// Returns host and device of a run.
fn described(outcome: &Outcome) -> String {
    let device = outcome.device.as_ref();
    let name = device.map_or("no device", |device| device.name.as_str());
    let software = match device.and_then(|device| device.is_software) {
        Some(true) => ", software NIC",
        _ => "",
    };
    format!("{name} on {}{software}", outcome.host.name)
}

/// Returns what makes two runs differ beside their results, as lines: software NIC and hardware, an
/// incomplete run, clocks, and options.
fn differences(base: &Outcome, new: &Outcome) -> Vec<String> {
    let software = |outcome: &Outcome| outcome.device.as_ref()?.is_software;
    let kind = |outcome| match software(outcome) {
        Some(true) => "software NIC",
        Some(false) => "hardware",
        None => "no NIC",
    };
    let mut lines = Vec::new();
    if software(base) != software(new) {
        lines.push(format!("base: {}, new: {}", kind(base), kind(new)));
    }
    for (which, outcome) in [("base", base), ("new", new)] {
        if !matches!(outcome.status, Status::Complete | Status::Unmet) {
            let status = serde_json::to_value(outcome.status).unwrap_or_default();
            let status = status.as_str().unwrap_or_default();
            lines.push(format!("{which} is incomplete: {status}"));
        }
    }
    let (before, after) = (&base.clock.name, &new.clock.name);
    if before != after {
        lines.push(format!("clock: {before} in base, {after} in new"));
    }
    lines.extend(differing_options(base, new));
    lines
}

fn differing_options(base: &Outcome, new: &Outcome) -> Vec<String> {
    let options = |outcome: &Outcome| serde_json::to_value(&outcome.options).unwrap_or_default();
    let (base, new) = (options(base), options(new));
    let (Value::Object(base), Value::Object(new)) = (base, new) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for (name, before) in &base {
        let Some(after) = new.get(name).filter(|after| *after != before) else {
            continue;
        };
        match (before, after) {
            _ if INDIFFERENT.contains(&name.as_str()) => {}
            (Value::Object(before), Value::Object(after)) => {
                lines.extend(differing_fields(before, after));
            }
            _ => lines.push(format!("{name}: {before} in base, {after} in new")),
        }
    }
    lines
}

fn differing_fields(base: &Map<String, Value>, new: &Map<String, Value>) -> Vec<String> {
    let fields = base.iter().filter_map(|(name, before)| {
        let after = new.get(name).filter(|after| *after != before)?;
        Some(format!("{name}: {before} in base, {after} in new"))
    });
    fields.collect()
}
