//! The report as JSON. The doc comments of the types are the descriptions in their schema,
//! docs/stat.schema.json.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::job::{JobStat, nic_name};
use super::record::{EndStatus, NicRecord, NodeRecord};
use super::series::{NodeSeries, SeriesHead, SeriesInterval};
use crate::job_findings::JobNic;
use crew::location::Location;
use facts::host::HostIndex;
use node::nic::counter::CounterChange;
use node::nic::counter_table::CounterRow;
use node::nic::counters::{CounterChanges, NicFacts};
use node::nic::generation::Generation;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// What the NICs of a job did while a command ran, as `cxidiag stat --json` writes it.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatDocument<'a> {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    pub cxidiag_version: String,
    /// Always stat.
    command: String,
    /// The command that ran: its name, and its arguments with --with-arguments.
    pub program: Vec<String>,
    /// How the command ended; null if that is unknown.
    pub exit_status: Option<i32>,
    /// The signal that ended the command; null if none did.
    pub signal: Option<i32>,
    /// The parallel program, as reports name it; null without a launcher.
    pub job: Option<String>,
    /// Name of the set of counters.
    pub set: String,
    /// Start of the first reading, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// The longest time between the readings of a node, in seconds; null without an end reading.
    pub seconds: Option<f64>,
    /// The nodes with readings.
    pub nodes: Vec<StatNode>,
    /// Nodes of the job from which there is nothing.
    pub missing_nodes: Vec<String>,
    /// The NICs of all nodes.
    nics: Vec<StatNic<'a>>,
    /// What the counters explain, the most important first.
    pub findings: Vec<StatFinding>,
    /// What some counters did over time, of each node; empty without --interval.
    series: Vec<StatSeries>,
}

/// What some counters of a node did over time.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatNode {
    /// Its name.
    pub host: String,
    /// Whether its counters were read after the end of the command.
    pub has_end: bool,
    /// Processes of the program that were still running then.
    still_running: u32,
    /// By how many seconds its clock was stepped meanwhile; null if it was not. Rates do not follow
    /// it.
    clock_step_s: Option<f64>,
}

/// One NIC.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(with = "BTreeMap<String, Option<StatCounter>>")
    )]
    counters: StatCounters<'a>,
}

/// The counters of a NIC.
#[derive(Debug)]
enum StatCounters<'a> {
    /// To be made while they are written: a document of 1,000 nodes has a million.
    Recorded { names: &'a [String], nic: &'a NicRecord },
    /// Read back.
    Read(BTreeMap<String, Option<StatCounter>>),
}

impl Serialize for StatCounters<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Recorded { names, nic } => {
                let names = names.iter().enumerate();
                to.collect_map(names.map(|(at, name)| (name, StatCounter::of(nic, at, name))))
            }
            Self::Read(counters) => counters.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for StatCounters<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(from).map(Self::Read)
    }
}

impl StatCounter {
    fn of(nic: &NicRecord, position: usize, name: &str) -> Option<Self> {
        let before = nic.before.reading(position)?;
        let after = nic.after.as_ref().and_then(|after| after.reading(position));
        let change = nic.change(position);
        let is_gauge = CounterRow::of(name).is_some_and(|row| row.is_gauge);
        Some(Self {
            before: before.value,
            after: after.map(|after| after.value),
            delta: change.filter(|_| !is_gauge).and_then(CounterChange::count),
            seconds: (change.and_then(CounterChange::within)).map(|time| time.as_secs_f64()),
        })
    }
}

/// One counter.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatFinding {
    /// Name of the rule.
    pub code: String,
    /// The NICs that it is about, the most affected first; empty for the whole job.
    nics: Vec<StatPlace>,
    /// What is compared with the limit, of the most affected NIC.
    value: f64,
    /// The value above which it is reported.
    limit: String,
    /// Where the limit comes from.
    source: String,
    /// What happened, in a sentence.
    pub text: String,
}

/// A NIC in a finding.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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
            cxidiag_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: "stat".to_owned(),
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
        clock_step_s: node.clock_step(),
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
            counters: StatCounters::Recorded { names: &node.counters, nic },
        }
    }
}

fn findings(job: &JobStat) -> Vec<StatFinding> {
    let places: Vec<(&NodeRecord, &NicRecord)> = nics(job).collect();
    let place = |index: &usize| {
        let (node, nic) = places.get(*index)?;
        Some(StatPlace { host: node.node.clone(), device: nic.device.clone() })
    };
    let finding = |finding: &crate::job_findings::JobFinding| StatFinding {
        code: finding.code.to_owned(),
        nics: finding.nics.iter().filter_map(place).collect(),
        value: finding.value,
        limit: finding.limit.clone(),
        source: finding.source.to_owned(),
        text: finding.text.clone(),
    };
    job.findings.iter().map(finding).collect()
}

impl StatDocument<'_> {
    /// Returns whether any NIC is a software NIC.
    pub fn is_software(&self) -> bool {
        self.nics.iter().any(|nic| nic.is_software)
    }

    /// Returns the NICs with what their counters did.
    pub fn nics(&self) -> Vec<JobNic> {
        let has_others = self.nodes.len() > 1;
        let nodes = HostIndex::new(self.nodes.iter().map(|node| node.host.as_str()));
        let nic = |nic: &StatNic| {
            let facts = NicFacts {
                device: nic.device.clone(),
                is_software: nic.is_software,
                generation: nic.generation.and_then(Generation::from_number),
                ..NicFacts::default()
            };
            let changes = match &nic.counters {
                StatCounters::Read(counters) => counters.iter().filter_map(change).collect(),
                StatCounters::Recorded { .. } => BTreeMap::new(),
            };
            JobNic {
                name: nic_name(has_others, &nic.host, &nic.device),
                node: nodes.find(&nic.host).unwrap_or_default(),
                changes: CounterChanges::new(facts, changes),
            }
        };
        self.nics.iter().map(nic).collect()
    }

    /// Returns what some counters did over time, of each node. Intervals that do not fit the names
    /// of counters and NICs are left out.
    pub fn series(&self) -> Vec<NodeSeries> {
        let series = |series: &StatSeries| {
            let head = SeriesHead {
                node: series.host.clone(),
                counters: series.counters.clone(),
                devices: series.devices.clone(),
                started_unix_ms: series.started_unix_ms,
            };
            NodeSeries::of(head, series.intervals.iter().cloned())
        };
        self.series.iter().map(series).collect()
    }

    /// Returns the name of a NIC as the table of NICs has it.
    pub fn name(&self, host: &str, device: &str) -> String {
        nic_name(self.nodes.len() > 1, host, device)
    }
}

fn change((name, counter): (&String, &Option<StatCounter>)) -> Option<(String, CounterChange)> {
    let counter = counter.as_ref()?;
    let within = counter.seconds;
    let change = CounterChange::Counted {
        by: counter.delta?,
        within: within.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    };
    Some((name.clone(), change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn reads_what_the_document_has() {
        let counts: &[(&str, u64)] = &[("hni_sts_tx_ok_octets", 20_000), ("hni_fgfc_port", 0)];
        let nodes = ["nid1", "nid2"].map(|name| testing::node(name, &[("cxi0", counts)]));
        let job = JobStat::of(nodes.into(), vec!["nid3".into()]);
        let text = serde_json::to_string(&StatDocument::from(&job)).unwrap();
        let read: StatDocument = serde_json::from_str(&text).unwrap();
        assert_eq!((&*read.missing_nodes, read.exit_status), (&["nid3".to_owned()][..], Some(0)));
        let nics = read.nics();
        for (read, nic) in nics.iter().zip(&job.nics) {
            assert_eq!((&read.name, read.node), (&nic.name, nic.node));
            assert!(read.changes.iter().eq(nic.changes.iter()));
        }
        assert_eq!(nics.len(), job.nics.len());
        assert!(!read.is_software());
    }

    #[test]
    fn leaves_out_what_does_not_fit() {
        let text = r#"{"host": "a", "counters": ["x", "y"], "devices": ["cxi0"],
            "started_unix_ms": 1, "intervals": [
            {"unix_ms": 2, "counts": [[1, null]]}, {"unix_ms": 3, "counts": [[1]]},
            {"unix_ms": 4, "counts": []}]}"#;
        let document = format!(
            r#"{{"schema_version": 1, "cxidiag_version": "1", "command": "stat", "program": [], "exit_status": null, "signal": null,
            "job": null, "set": "job", "started_unix_ms": 0, "seconds": null, "nodes": [],
            "missing_nodes": [], "nics": [{{"host": "a", "device": "cxi0", "is_software": true,
            "counters": {{"x": {{"before": 0, "delta": 1, "seconds": -1e300}}, "y": null}}}}],
            "findings": [],
            "series": [{text}]}}"#
        );
        let read: StatDocument = serde_json::from_str(&document).unwrap();
        assert_eq!(read.series()[0].intervals.len(), 1);
        let changes = &read.nics()[0].changes;
        assert_eq!(changes.of("x"), Some(CounterChange::Counted { by: 1, within: None }));
        assert_eq!(changes.of("y"), None);
    }
}
