//! What makes runs differ beside their results.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::runs::ReadRun;
use node::traffic_class::TrafficClass;
use report::outcome::{Outcome, Side, Status};

/// Options that do not influence the results.
const INDIFFERENT: [&str; 8] =
    ["address", "port", "libcxi", "report_all", "expect", "loopback", "interval_s", "percentiles"];

/// Returns names and versions of a run. A text has no versions.
fn names(run: &Outcome) -> [(&'static str, Option<&str>); 5] {
    let device = run.device.as_ref();
    let known = |value| (!run.is_printed()).then_some(value);
    [
        ("host", run.host.known_name()),
        ("device", device.map(|device| device.name.as_str())),
        ("kernel", known(&*run.host.kernel)),
        ("firmware", device.and_then(|device| device.firmware_version.as_deref())),
        ("cxidiag", known(&*run.cxidiag_version)),
    ]
}

/// A run and its name in the text: `base`, or `base run 2`.
pub type Named<'a> = (String, &'a Outcome);

/// Returns what makes the runs of both sides differ, as lines: runs of one side among each other,
/// the sides, and incomplete runs.
pub fn all(base: &[&ReadRun], new: &[&ReadRun]) -> Vec<String> {
    let sides = [named("base", base), named("new", new)];
    let mut lines = Vec::new();
    if let [Some(base), Some(new)] = [sides[0].first(), sides[1].first()] {
        lines.extend(between(base, new));
        let peers = [base, new].map(|(_, run)| Some(run.addresses.as_ref()?.remote.nic));
        if let [Some(first), Some(second)] = peers
            && first != second
        {
            let (base, new) = (&base.0, &new.0);
            lines.push(format!("peer: NIC {first:#x} in {base}, NIC {second:#x} in {new}"));
        }
    }
    for (side, runs) in [("base", base), ("new", new)] {
        if runs.iter().any(|run| run.outcome.side == Side::Server) {
            lines.push(format!("{side} has documents of servers"));
        }
    }
    for side in &sides {
        for (name, run) in side {
            if !matches!(run.status, Status::Complete | Status::Unmet) {
                let status = serde_json::to_value(run.status).unwrap_or_default();
                let status = status.as_str().unwrap_or_default();
                lines.push(format!("{name} is incomplete: {status}"));
            }
        }
        lines.extend(among(side));
    }
    lines
}

/// Returns what makes runs differ from the first one.
pub fn among(runs: &[Named]) -> Vec<String> {
    match runs.split_first() {
        Some((first, others)) => others.iter().flat_map(|other| between(first, other)).collect(),
        None => Vec::new(),
    }
}

fn named<'a>(side: &str, runs: &[&'a ReadRun]) -> Vec<Named<'a>> {
    let name = |at: usize| match runs.len() {
        1 => side.to_owned(),
        _ => format!("{side} run {}", at + 1),
    };
    let runs = runs.iter().enumerate();
    runs.map(|(at, run)| (name(at), &run.outcome)).collect()
}

/// Returns what makes two runs differ: hosts, NICs, traffic classes, clocks, options.
fn between((one, first): &Named, (other, second): &Named) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |what: &str, first_value: &dyn Display, second_value: &dyn Display| {
        lines.push(format!("{what}: {first_value} in {one}, {second_value} in {other}"));
    };
    // What a text does not say is no difference.
    let is_printed = first.is_printed() || second.is_printed();
    for ((what, first_value), (_, second_value)) in names(first).into_iter().zip(names(second)) {
        if let (Some(first_value), Some(second_value)) = (first_value, second_value)
            && first_value != second_value
        {
            add(what, &first_value, &second_value);
        }
    }
    let (nic_of_first, nic_of_second) = (nic(first), nic(second));
    let is_known = [first, second].iter().all(|run| nic(run) != "none");
    if nic_of_first != nic_of_second && (is_known || !is_printed) {
        add("NIC", &nic_of_first, &nic_of_second);
    }
    let (class_of_first, class_of_second) = (traffic_class(first), traffic_class(second));
    if class_of_first != class_of_second && !is_printed {
        add("traffic class", &class_of_first, &class_of_second);
    }
    let clocks = (&first.clock.name, &second.clock.name);
    if clocks.0 != clocks.1 && !is_printed {
        add("clock", clocks.0, clocks.1);
    }
    for (name, first_value, second_value) in differing(&options(first), &options(second)) {
        if is_printed && (first_value.is_null() || second_value.is_null()) {
            continue;
        }
        add(&name, &first_value, &second_value);
    }
    lines
}

/// Returns the kind of the NIC of a run.
fn nic(run: &Outcome) -> &'static str {
    match run.device.as_ref().and_then(|device| device.is_software) {
        Some(true) => "software",
        Some(false) => "hardware",
        None => "none",
    }
}

/// Returns the traffic class of a run. Older documents lack it: all their runs used BEST_EFFORT.
fn traffic_class(run: &Outcome) -> String {
    let class = run.device.as_ref().and_then(|device| device.traffic_class.clone());
    class.unwrap_or_else(|| TrafficClass::BestEffort.to_string())
}

/// Returns the options of a run that influence its results.
pub fn options(run: &Outcome) -> Map<String, Value> {
    match serde_json::to_value(&run.options) {
        Ok(Value::Object(mut options)) => {
            options.retain(|name, _| !INDIFFERENT.contains(&name.as_str()));
            options
        }
        _ => Map::new(),
    }
}

/// Returns the fields that differ, also of objects inside, with both values.
fn differing(
    first: &Map<String, Value>,
    second: &Map<String, Value>,
) -> Vec<(String, Value, Value)> {
    let mut all = Vec::new();
    for (name, first_value) in first {
        match (first_value, second.get(name)) {
            (Value::Object(first), Some(Value::Object(second))) => {
                all.extend(differing(first, second));
            }
            (first_value, Some(second_value)) if first_value != second_value => {
                all.push((name.clone(), first_value.clone(), second_value.clone()));
            }
            _ => {}
        }
    }
    all
}
