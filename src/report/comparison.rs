//! Two outcomes side by side, with a verdict on each size.

use std::io::{self, Write};

use serde_json::Value;

use super::outcome::{Extent, Outcome, SizeResult, Status};
use crate::error::Failure;
use crate::measure::Percentile;
use crate::plan::expect::{Metric, Unit};
use crate::tool::Tool;

/// Options that may differ between two runs that measure the same.
const INDIFFERENT: [&str; 6] = [
    "address",
    "port",
    "libcxi",
    "report_all",
    "expect",
    "loopback",
];

/// What became of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Better, or worse by no more than allowed.
    Fine,
    /// Worse by more than allowed.
    Regressed,
    /// Of the base, but not measured to its end in the new run.
    NotMeasured,
    /// Not measured to its end in the base: nothing to compare with.
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

/// The verdict on two outcomes.
#[derive(Debug)]
pub struct Judgement {
    /// The figure that is judged.
    pub figure: Metric,
    /// Largest change for the worse in percent.
    pub max_regress: f64,
    /// What became of each size of either run, in bytes, in ascending order.
    pub sizes: Vec<(u64, Change)>,
}

impl Judgement {
    /// Compares `new` with `base`.
    pub fn new(base: &Outcome, new: &Outcome, figure: Metric, max_regress: f64) -> Self {
        let mut sizes: Vec<u64> = [base, new]
            .iter()
            .flat_map(|outcome| outcome.results.iter().map(|result| result.size_bytes))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let judge = |size| {
            let of = |outcome| complete(outcome, size).and_then(|result| result.figure(figure));
            let change = match (of(base), of(new)) {
                (None, _) => Change::NoBase,
                (Some(_), None) => Change::NotMeasured,
                (Some(base), Some(new)) if worse_by(figure, base, new) > max_regress => {
                    Change::Regressed
                }
                _ => Change::Fine,
            };
            (size, change)
        };
        Self {
            figure,
            max_regress,
            sizes: sizes.into_iter().map(judge).collect(),
        }
    }

    /// Fails if anything is worse than allowed, or nothing could be compared.
    pub fn result(&self) -> Result<(), Failure> {
        let such = |change| self.sizes.iter().filter(move |(_, of)| *of == change);
        if such(Change::NoBase).count() == self.sizes.len() {
            return Err(Failure::environment(format!(
                "nothing to compare: the base has no complete size with {}",
                self.figure
            )));
        }
        let worse = format!("worse than the base by more than {}%", self.max_regress);
        let bad: Vec<String> = [
            (Change::Regressed, worse.as_str()),
            (Change::NotMeasured, "not measured to the end"),
        ]
        .into_iter()
        .filter_map(|(change, what)| {
            let sizes: Vec<String> = such(change).map(|(size, _)| size.to_string()).collect();
            (!sizes.is_empty()).then(|| format!("{what}: {} bytes", sizes.join(", ")))
        })
        .collect();
        match bad.is_empty() {
            true => Ok(()),
            false => Err(Failure::unmet(bad.join("; "))),
        }
    }
}

/// The result of a size that was measured to its end.
fn complete(outcome: &Outcome, size: u64) -> Option<&SizeResult> {
    outcome
        .results
        .iter()
        .find(|result| result.size_bytes == size && result.extent == Extent::Complete)
}

/// Change in percent of the base; without an end where there was nothing.
fn change(base: f64, new: f64) -> f64 {
    match new == base {
        true => 0.0,
        false => (new - base) / base * 100.0,
    }
}

/// How much worse, in percent: a latency that grew, a rate that fell.
fn worse_by(figure: Metric, base: f64, new: f64) -> f64 {
    match figure.unit() {
        Unit::Nanoseconds => change(base, new),
        Unit::Bytes | Unit::Packets => -change(base, new),
    }
}

/// Writes both side by side: the figures that people look at, and the one that is judged.
pub fn write(
    out: &mut impl Write,
    tool: &Tool,
    names: [String; 2],
    [base, new]: [&Outcome; 2],
    judgement: &Judgement,
) -> io::Result<()> {
    let figures = figures(tool, judgement.figure);
    let (unit, scale) = judgement.figure.unit().readable();
    for ((label, name), outcome) in ["Base", "New"].into_iter().zip(names).zip([base, new]) {
        writeln!(out, "{label:17}: {name} ({})", described(outcome))?;
    }
    writeln!(out, "{:17}: {}", "Tool", tool.name)?;
    let (figure, limit) = (judgement.figure, judgement.max_regress);
    writeln!(out, "{:17}: {figure}, at most {limit}% worse", "Judged by")?;
    for difference in differences(base, new) {
        writeln!(out, "{:17}: {difference}", "Differing")?;
    }
    let units = |title: &str, unit: &str| format!("{title}[{unit}]");
    let header = format!(
        "{}  Figure      {:>12}  {:>12}    Change  Verdict",
        tool.size_column,
        units("Base", unit),
        units("New", unit)
    );
    let dashes = "-".repeat(header.len());
    writeln!(out, "{dashes}\n{header}")?;
    for &(size, verdict) in &judgement.sizes {
        for &figure in &figures {
            let (unit, scale) = match figure.unit() == judgement.figure.unit() {
                true => ("", scale),
                false => figure.unit().readable(),
            };
            let [base, new] = [base, new].map(|of| complete(of, size)?.figure(figure));
            let text = |figure: Option<f64>| match figure {
                Some(figure) => format!("{:.3}", figure / scale),
                None => "-".into(),
            };
            let change = match (base, new) {
                (Some(base), Some(new)) if base > 0.0 || new == base => {
                    format!("{:+.2}%", change(base, new))
                }
                _ => "-".into(),
            };
            let title = match unit {
                "" => figure.to_string(),
                unit => format!("{figure}[{unit}]"),
            };
            let verdict = match figure == judgement.figure {
                true => verdict.text(),
                false => "",
            };
            let row = format!(
                "{size:width$}  {title:12}{:>12}  {:>12}  {change:>8}  {verdict}",
                text(base),
                text(new),
                width = tool.size_column.len(),
            );
            writeln!(out, "{}", row.trim_end())?;
        }
    }
    writeln!(out, "{dashes}")
}

/// The figures of the table.
fn figures(tool: &Tool, judged: Metric) -> Vec<Metric> {
    let mut figures = match tool.defaults.lists {
        Some(_) => vec![Metric::Bandwidth, Metric::PacketRate],
        None => vec![
            Metric::Min,
            Metric::Percentile(Percentile::MEDIAN),
            Metric::Mean,
            Metric::Percentile(Percentile::STANDARD[2]),
            Metric::Max,
        ],
    };
    if !figures.contains(&judged) {
        figures.push(judged);
    }
    figures
}

/// Host and device of a run.
fn described(outcome: &Outcome) -> String {
    let device = outcome.device.as_ref();
    let name = device.map_or("no device", |device| device.name.as_str());
    let software = match device.and_then(|device| device.is_software) {
        Some(true) => ", software NIC",
        _ => "",
    };
    format!("{name} on {}{software}", outcome.host.name)
}

/// What makes two runs unlike each other, as lines: options that measure different things, software and
/// hardware, and a run that did not come to its end.
fn differences(base: &Outcome, new: &Outcome) -> Vec<String> {
    let software = |outcome: &Outcome| outcome.device.as_ref()?.is_software;
    let kind = |outcome| match software(outcome) {
        Some(true) => "software NIC",
        Some(false) => "hardware",
        None => "no NIC",
    };
    let mut lines = Vec::new();
    if software(base) != software(new) {
        lines.push(format!("{} in the base, {} now", kind(base), kind(new)));
    }
    for (which, outcome) in [("the base", base), ("the new run", new)] {
        if !matches!(outcome.status, Status::Complete | Status::Unmet) {
            let status = serde_json::to_value(outcome.status).unwrap_or_default();
            let status = status.as_str().unwrap_or_default();
            lines.push(format!("{which} did not come to its end: {status}"));
        }
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
    base.iter()
        .filter(|(name, _)| !INDIFFERENT.contains(&name.as_str()))
        .filter_map(|(name, before)| {
            let after = new.get(name)?;
            (before != after).then(|| format!("{name}: {before} in the base, {after} now"))
        })
        .collect()
}
