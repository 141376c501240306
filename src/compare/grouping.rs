//! Runs of two sides, grouped by what they measured, and what makes them differ beside their
//! results.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;

use serde_json::{Map, Value};

use super::runs::ReadRun;
use facts::error::Failure;
use node::traffic_class::TrafficClass;
use report::outcome::{Outcome, Side, Status};

/// Options that say how much was measured, and not what.
const AMOUNTS: [&str; 13] = [
    "iters",
    "duration_s",
    "until_percent",
    "warmup",
    "min_size_bytes",
    "max_size_bytes",
    "posted",
    "max_posted",
    "unexpected",
    "max_unexpected",
    "buf_sz_bytes",
    "cpu",
    "verify",
];

/// What every run has beside its options, the coarsest first. Sides are never paired across tools.
const PLACES: [&str; 5] = ["tool", "host", "NIC", "address", "peer"];

/// Runs that measured the same.
#[derive(Debug)]
pub struct RunGroup<'a> {
    /// Host and NIC, peer, and the options by which groups differ; the tool, if there are several.
    pub name: String,
    pub tool: &'a str,
    /// The runs of the base, and the new ones. One side may be empty.
    pub sides: [Vec<&'a ReadRun>; 2],
}

/// A run, and what it measured. What the text of a run does not say is missing.
struct Described<'a> {
    run: &'a ReadRun,
    aspects: BTreeMap<String, String>,
}

impl<'a> Described<'a> {
    fn new(run: &'a ReadRun, has_text: bool) -> Self {
        let outcome = &run.outcome;
        let is_printed = outcome.is_printed();
        let addresses = outcome.addresses.as_ref();
        let device = outcome.device.as_ref();
        let values = [
            Some(outcome.tool.clone()),
            outcome.host.known_name().map(str::to_owned),
            device.map(|device| device.name.clone()),
            // On a known host, the name of the NIC says more.
            addresses.filter(|_| has_text).map(|addresses| addresses.local.nic.to_string()),
            addresses.map(|addresses| addresses.remote.nic.to_string()),
        ];
        let places = PLACES.map(str::to_owned).into_iter().zip(values);
        let mut aspects: BTreeMap<String, String> =
            places.filter_map(|(name, value)| Some((name, value?))).collect();
        let mut options = options(outcome);
        for nested in ["atomic", "lists"] {
            if let Some(Value::Object(inner)) = options.remove(nested) {
                options.extend(inner);
            }
        }
        options.retain(|name, value| {
            let is_known = !is_printed || !value.is_null();
            is_known && !AMOUNTS.contains(&name.as_str())
        });
        aspects.extend(options.into_iter().map(|(name, value)| match value {
            Value::String(text) => (name, text),
            value => (name, value.to_string()),
        }));
        // What a text says about its settings; the labels of a document are its user's.
        let labels = outcome.labels.iter().filter(|_| is_printed);
        aspects.extend(labels.map(|(name, value)| (name.clone(), value.clone())));
        Self { run, aspects }
    }
}

/// The runs of both sides in groups. Runs are apart if a side has runs that differ in this aspect.
/// Where each side has one value, the sides are compared even if the values differ.
///
/// # Errors
///
/// A run that measured something, and does not say to which of several groups it belongs.
pub fn groups<'a>(base: &'a [ReadRun], new: &'a [ReadRun]) -> Result<Vec<RunGroup<'a>>, Failure> {
    let has_text = base.iter().chain(new).any(|run| run.outcome.is_printed());
    let sides = [base, new]
        .map(|runs| runs.iter().map(|run| Described::new(run, has_text)).collect::<Vec<_>>());
    let all = || sides.iter().flatten();
    let options: BTreeSet<String> = all().flat_map(|run| run.aspects.keys().cloned()).collect();
    let options = options.into_iter().filter(|name| !PLACES.contains(&name.as_str()));
    let names: Vec<String> = PLACES.map(str::to_owned).into_iter().chain(options).collect();
    let mut groups = Vec::new();
    split(sides, &names, &[], &mut groups)?;
    let is_one_tool = groups.iter().all(|group: &RunGroup| group.tool == groups[0].tool);
    for group in groups.iter_mut().filter(|_| !is_one_tool) {
        group.name = format!("{} {}", group.tool, group.name);
    }
    Ok(groups)
}

/// Adds the groups of runs that are alike in all aspects before `names`. `labels` has the options
/// by which they differ from others.
fn split<'a>(
    sides: [Vec<Described<'a>>; 2],
    names: &[String],
    labels: &[String],
    groups: &mut Vec<RunGroup<'a>>,
) -> Result<(), Failure> {
    let Some((name, names)) = names.split_first() else {
        let Some(first) = sides.iter().flatten().next().map(|described| described.run) else {
            return Ok(());
        };
        let place = [first.outcome.place()].into_iter();
        groups.push(RunGroup {
            name: place.chain(labels.iter().cloned()).collect::<Vec<_>>().join(", "),
            tool: &first.outcome.tool,
            sides: sides.map(|side| side.into_iter().map(|described| described.run).collect()),
        });
        return Ok(());
    };
    let values = sides.each_ref().map(|side| {
        let values = side.iter().map(|described| described.aspects.get(name));
        values.collect::<HashSet<Option<&String>>>()
    });
    let known = values.iter().flatten().flatten().collect::<HashSet<_>>().len();
    let has_one_each = values.iter().all(|values| values.len() <= 1) && name != PLACES[0];
    // An unknown value may be the only known one.
    if known <= 1 || has_one_each {
        return split(sides, names, labels, groups);
    }
    let mut parts: Vec<(Option<String>, [Vec<Described>; 2])> = Vec::new();
    let mut places = HashMap::new();
    for (at, side) in sides.into_iter().enumerate() {
        for described in side {
            let value = described.aspects.get(name).cloned();
            let has_results = !described.run.outcome.results.is_empty();
            if value.is_none() && has_results {
                let file = &described.run.file;
                let why = format!("{file} does not say which {name} a run has, and others differ");
                return Err(Failure::undecided(format!("cannot group the runs: {why}")));
            }
            let part = *places.entry(value.clone()).or_insert_with(|| {
                parts.push((value, Default::default()));
                parts.len() - 1
            });
            parts[part].1[at].push(described);
        }
    }
    for (value, sides) in parts {
        let label = format!("{name} {}", value.as_deref().unwrap_or("unknown"));
        let label = (!PLACES.contains(&name.as_str())).then_some(label);
        let labels: Vec<String> = labels.iter().cloned().chain(label).collect();
        split(sides, names, &labels, groups)?;
    }
    Ok(())
}

/// Options that do not influence the results.
const INDIFFERENT: [&str; 8] =
    ["address", "port", "libcxi", "report_all", "expect", "loopback", "interval_s", "percentiles"];

/// Names and versions of a run. A text has no versions.
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
    for (name, first_value) in first.labels.iter().filter(|_| is_printed) {
        let second_value = second.labels.get(name);
        if let Some(second_value) = second_value.filter(|value| *value != first_value) {
            add(name, first_value, second_value);
        }
    }
    for (name, first_value, second_value) in differing(&options(first), &options(second)) {
        if is_printed && (first_value.is_null() || second_value.is_null()) {
            continue;
        }
        add(&name, &first_value, &second_value);
    }
    lines
}

/// The kind of the NIC of a run.
fn nic(run: &Outcome) -> &'static str {
    match run.device.as_ref().and_then(|device| device.is_software) {
        Some(true) => "software",
        Some(false) => "hardware",
        None => "none",
    }
}

/// The traffic class of a run. Older documents lack it: all their runs used BEST_EFFORT.
fn traffic_class(run: &Outcome) -> String {
    let class = run.device.as_ref().and_then(|device| device.traffic_class.clone());
    class.unwrap_or_else(|| TrafficClass::BestEffort.to_string())
}

/// The options of a run that influence its results.
pub fn options(run: &Outcome) -> Map<String, Value> {
    match serde_json::to_value(&run.options) {
        Ok(Value::Object(mut options)) => {
            options.retain(|name, _| !INDIFFERENT.contains(&name.as_str()));
            options
        }
        _ => Map::new(),
    }
}

/// The fields that differ, also of objects inside, with both values.
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

#[cfg(test)]
mod tests {
    use super::*;
    use report::outcome::Outcome;

    /// A run of this host, NIC and way of issuing.
    fn run(host: &str, device: &str, has_idc: bool) -> ReadRun {
        let text = include_str!("../../tests/fixtures/older-result.json");
        let mut outcome: Outcome = serde_json::from_str(text).unwrap();
        outcome.host.name = host.into();
        outcome.device.as_mut().unwrap().name = device.into();
        outcome.options.as_mut().unwrap().idc = Some(has_idc);
        ReadRun { file: "file".into(), outcome }
    }

    /// The number of runs on both sides of each group.
    fn counts(base: &[ReadRun], new: &[ReadRun]) -> Vec<[usize; 2]> {
        let groups = groups(base, new).unwrap();
        groups.into_iter().map(|group| group.sides.map(|side| side.len())).collect()
    }

    #[test]
    fn pairs_runs_that_measured_the_same() {
        let fleet = |host: &str, idc| [run(host, "cxi0", idc), run(host, "cxi1", idc)];
        let [one, other] = [fleet("nid1", true), fleet("nid2", true)];
        assert_eq!(counts(&one, &one), [[1, 1], [1, 1]]);
        // The only host of each side, and the only setting of each NIC.
        assert_eq!(counts(&one, &other), [[1, 1], [1, 1]]);
        assert_eq!(counts(&one, &fleet("nid1", false)), [[1, 1], [1, 1]]);
        assert_eq!(counts(&one[..1], &other[1..]), [[1, 1]]);
        let (before, mut after) = (run("nid1", "cxi0", true), run("nid1", "cxi0", true));
        after.outcome.addresses.as_mut().unwrap().remote.nic = 0x30;
        let lines = all(&[&before], &[&after]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("peer: NIC ") && lines[0].ends_with(", NIC 0x30 in new"));
        // Two hosts, of which one is on one side only.
        let both: Vec<ReadRun> = one.into_iter().chain(other).collect();
        assert_eq!(counts(&both, &fleet("nid2", true)), [[1, 0], [1, 0], [1, 1], [1, 1]]);
        // Two settings of a NIC, and repeated runs.
        let settings = [true, false, true].map(|idc| run("nid1", "cxi0", idc));
        assert_eq!(counts(&settings, &settings[..1]), [[2, 1], [1, 0]]);
        let names = groups(&settings, &settings).unwrap().into_iter().map(|group| group.name);
        let names: Vec<String> = names.collect();
        assert!(names[0].starts_with("nid1 cxi0") && names[0].ends_with(", idc true"), "{names:?}");
    }

    #[test]
    fn unknown_value_is_the_only_known_one() {
        let unknown = run(report::outcome::Host::UNKNOWN, "cxi0", true);
        let known = ["nid1", "nid2"].map(|host| run(host, "cxi0", true));
        assert_eq!(counts(std::slice::from_ref(&unknown), &known[..1]), [[1, 1]]);
        let error = groups(&[unknown], &known).unwrap_err().message();
        assert!(error.contains("file does not say which host a run has"), "{error}");
    }
}
