//! The report as JSON. The doc comments of the types are the descriptions in their schema,
//! docs/stat.schema.json.

#[cfg(test)]
use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::job::JobStat;
use super::record::{EndStatus, NicRecord, NodeRecord};
use super::series::{NodeSeries, SeriesInterval};
use cluster::location::Location;
use node::nic::counter::Change;
use node::nic::counter_table::Row;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// What the NICs of a job did while a command ran, as `cxidiag stat --json` writes it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatDocument<'a> {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    cxidiag_version: &'static str,
    /// Always stat.
    command: &'static str,
    /// The command that ran: its name, and its arguments with --with-arguments.
    program: Vec<String>,
    /// How the command ended; null if that is unknown.
    exit_status: Option<i32>,
    /// The signal that ended the command; null if none did.
    signal: Option<i32>,
    /// The parallel program, as reports name it; null without a launcher.
    job: Option<String>,
    /// Name of the set of counters.
    set: String,
    /// Start of the first reading, in milliseconds since 1970-01-01 (UTC).
    started_unix_ms: u64,
    /// The longest time between the readings of a node, in seconds; null without an end reading.
    seconds: Option<f64>,
    /// The nodes with readings.
    nodes: Vec<StatNode>,
    /// Nodes of the job from which there is nothing.
    missing_nodes: Vec<String>,
    /// The NICs of all nodes.
    nics: Vec<StatNic<'a>>,
    /// What the counters explain, the most important first.
    findings: Vec<StatFinding>,
    /// What some counters did over time, of each node; empty without --interval.
    series: Vec<StatSeries>,
}

/// What some counters of a node did over time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatSeries {
    /// Name of the node.
    host: String,
    /// The counters of each interval.
    counters: Vec<String>,
    /// The NICs of each interval.
    devices: Vec<String>,
    /// When the first interval began, in milliseconds since 1970-01-01 (UTC).
    started_unix_ms: u64,
    /// The intervals.
    intervals: Vec<SeriesInterval>,
}

impl From<&NodeSeries> for StatSeries {
    fn from(series: &NodeSeries) -> Self {
        let head = series.head.clone();
        Self {
            host: head.node,
            counters: head.counters,
            devices: head.devices,
            started_unix_ms: head.started_unix_ms,
            intervals: series.intervals.clone(),
        }
    }
}

/// One node.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatNode {
    /// Its name.
    host: String,
    /// Whether its counters were read after the end of the command.
    has_end: bool,
    /// Processes of the program that were still running then.
    still_running: u32,
}

/// One NIC.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatNic<'a> {
    /// Name of its node.
    host: String,
    /// Name of the device.
    device: String,
    /// Whether it is a software NIC.
    is_software: bool,
    /// Generation of the NIC: 1 or 2 for Cassini 1 or 2; null if it is unknown.
    generation: Option<u32>,
    /// Serial number; null if the driver does not show it.
    serial: Option<String>,
    /// Where it is; null if its address does not say.
    location: Option<Location>,
    /// The counters of the set; null for one that the NIC does not have.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, Option<StatCounter>>"))]
    counters: StatCounters<'a>,
}

/// The counters of a NIC, made while they are written: a document of 1,000 nodes has a million.
#[derive(Debug)]
struct StatCounters<'a> {
    names: &'a [String],
    nic: &'a NicRecord,
}

impl Serialize for StatCounters<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let names = self.names.iter().enumerate();
        to.collect_map(names.map(|(position, name)| (name, self.counter(position, name))))
    }
}

impl StatCounters<'_> {
    fn counter(&self, position: usize, name: &str) -> Option<StatCounter> {
        let before = self.nic.before.reading(position)?;
        let after = (self.nic.after.as_ref()).and_then(|after| after.reading(position));
        let change = self.nic.change(position);
        let is_gauge = Row::of(name).is_some_and(|row| row.is_gauge);
        Some(StatCounter {
            before: before.value,
            after: after.map(|after| after.value),
            delta: change.filter(|_| !is_gauge).and_then(Change::count),
            seconds: (change.and_then(Change::within)).map(|time| time.as_secs_f64()),
        })
    }
}

/// One counter.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatCounter {
    /// Its value before the command.
    before: u64,
    /// Its value after it; null if it was not read.
    after: Option<u64>,
    /// By how much it grew; null if it was reset, for a state such as connections in use, and
    /// without a value after the command.
    delta: Option<u64>,
    /// Time between both readings of this counter; null if it is unknown.
    seconds: Option<f64>,
}

/// What counters explain.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatFinding {
    /// Name of the rule.
    code: &'static str,
    /// The NICs that it is about, the most affected first; empty for the whole job.
    nics: Vec<StatPlace>,
    /// What is compared with the limit, of the most affected NIC.
    value: f64,
    /// The value above which it is reported.
    limit: String,
    /// Where the limit comes from.
    source: &'static str,
    /// What happened, in a sentence.
    text: String,
}

/// A NIC in a finding.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatPlace {
    /// Name of its node.
    host: String,
    /// Name of the device.
    device: String,
}

impl<'a> From<&'a JobStat> for StatDocument<'a> {
    fn from(job: &'a JobStat) -> Self {
        let first = job.nodes.first();
        let (exit_status, signal) = match job.status() {
            Some(EndStatus::Exit(code)) => (Some(code), None),
            Some(EndStatus::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let started = job.nodes.iter().map(|node| node.started_unix_ns).min();
        Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            command: "stat",
            program: first.map_or(Vec::new(), |node| node.command.clone()),
            exit_status,
            signal,
            job: first.and_then(|node| Some(node.step.as_ref()?.name.clone())),
            set: first.map_or(String::new(), |node| node.set.clone()),
            started_unix_ms: started.unwrap_or(0) / 1_000_000,
            seconds: job.elapsed.map(|elapsed| elapsed.as_secs_f64()),
            nodes: job.nodes.iter().map(node).collect(),
            missing_nodes: job.missing.clone(),
            nics: nics(job).map(|(node, nic)| StatNic::of(node, nic)).collect(),
            findings: findings(job),
            series: job.series.iter().map(StatSeries::from).collect(),
        }
    }
}

/// Returns all NICs with their nodes, in the order of [`JobStat::nics`].
pub fn nics(job: &JobStat) -> impl Iterator<Item = (&NodeRecord, &NicRecord)> {
    let nodes = job.nodes.iter();
    nodes.flat_map(|node| node.nics.iter().map(move |nic| (node, nic)))
}

fn node(node: &NodeRecord) -> StatNode {
    let end = node.end.as_ref();
    StatNode {
        host: node.node.clone(),
        has_end: end.is_some_and(|end| !end.is_interim),
        still_running: end.map_or(0, |end| end.still_running),
    }
}

impl<'a> StatNic<'a> {
    fn of(node: &'a NodeRecord, nic: &'a NicRecord) -> Self {
        Self {
            host: node.node.clone(),
            device: nic.device.clone(),
            is_software: nic.is_software,
            generation: nic.generation,
            serial: nic.serial.clone(),
            location: nic.nid.map(Location::from_nid),
            counters: StatCounters { names: &node.counters, nic },
        }
    }
}

fn findings(job: &JobStat) -> Vec<StatFinding> {
    let places: Vec<(&NodeRecord, &NicRecord)> = nics(job).collect();
    let place = |index: &usize| {
        let (node, nic) = places.get(*index)?;
        Some(StatPlace { host: node.node.clone(), device: nic.device.clone() })
    };
    let finding = |finding: &node::nic::job_findings::JobFinding| StatFinding {
        code: finding.code,
        nics: finding.nics.iter().filter_map(place).collect(),
        value: finding.value,
        limit: finding.limit.clone(),
        source: finding.source,
        text: finding.text.clone(),
    };
    job.findings.iter().map(finding).collect()
}
