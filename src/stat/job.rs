//! The report of a job: what its NICs did while its command ran, and what that explains. It is the
//! document of `stat --json`, too: the doc comments of its types are the descriptions in their
//! schema, docs/stat.schema.json.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::record::{EndStatus, NicRecord, NodeRecord};
use super::series::{NodeSeries, fitting};
use crate::job_findings::{GAPS, JobEvidence, JobNic, OWN, StatFinding, StatPlace, job_findings};
use crew::location::Location;
use facts::host::HostIndex;
use node::nic::counter::CounterChange;
use node::nic::counter_table::{CounterNames, CounterRow};
use node::nic::counters::{CounterChanges, NicFacts};
use node::nic::generation::Generation;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The rule about commands that take little time.
const SHORT: &str = "short";

/// What a shell adds to a signal.
const SIGNAL: i32 = 128;

/// What the NICs of a job did while a command ran, as `cxidiag stat --json` writes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct JobStat {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    pub cxidiag_version: String,
    /// Always stat.
    command: String,
    /// The command that ran: its name, and its arguments with --with-arguments.
    pub program: Vec<String>,
    /// How the command ended; null if that is unknown.
    exit_status: Option<i32>,
    /// The signal that ended the command; null if none did.
    signal: Option<i32>,
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
    pub nics: Vec<StatNic>,
    /// What the counters explain, the most important first.
    pub findings: Vec<StatFinding>,
    /// What some counters did over time, of each node; empty without --interval.
    #[serde(deserialize_with = "fitting")]
    pub series: Vec<NodeSeries>,
    /// The directory of the files, from which all nodes can be reported later.
    #[serde(skip)]
    pub directory: Option<String>,
}

/// One node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatNode {
    /// Its name.
    pub host: String,
    /// Whether its counters were read after the end of the command.
    pub has_end: bool,
    /// Processes of the program that were still running then.
    pub still_running: u32,
    /// By how many seconds its clock was stepped meanwhile; null if it was not. Rates do not follow
    /// it.
    pub clock_step_s: Option<f64>,
}

/// One NIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatNic {
    /// Name of its node.
    pub host: String,
    /// Name of the device.
    pub device: String,
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
    counters: StatCounters,
}

/// The counters of a NIC, in the order of the set. The NICs of a job share the names: 1,000 nodes
/// have a million counters.
#[derive(Clone, Debug)]
pub struct StatCounters {
    names: Arc<CounterNames>,
    counters: Vec<Option<StatCounter>>,
}

/// One counter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatCounter {
    /// Its value before the command.
    pub before: u64,
    /// Its value after it; null if it was not read.
    pub after: Option<u64>,
    /// By how much it grew; null if it was reset, for a state such as connections in use, and
    /// without a value after the command.
    pub delta: Option<u64>,
    /// Time between both readings of this counter; null if it is unknown.
    pub seconds: Option<f64>,
}

impl JobStat {
    /// Evaluates the records of nodes. `missing` are nodes of the job that have left none.
    pub fn of(mut nodes: Vec<NodeRecord>, missing: Vec<String>) -> Self {
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        let mut names = Arc::new(CounterNames::default());
        let (mut nics, mut evidence) = (Vec::new(), Vec::new());
        for node in &nodes {
            // Nearly always the same set on all nodes.
            if names.names() != node.counters {
                names = Arc::new(CounterNames::new(node.counters.clone()));
            }
            for nic in &node.nics {
                nics.push(StatNic::of(node, nic, &names));
                evidence.push(JobNic {
                    name: nic_name(nodes.len() > 1, &node.node, &nic.device),
                    host: node.node.clone(),
                    changes: nic.changes(&names),
                });
            }
        }
        let elapsed = nodes.iter().filter_map(NodeRecord::elapsed).max();
        // How the command ended: on the first node on which it did not end well, else on any.
        let ends = nodes.iter().filter_map(|node| node.end.as_ref()?.status);
        let worst = ends.clone().find(|status| *status != EndStatus::Exit(0));
        let (exit_status, signal) = match worst.or_else(|| ends.clone().next()) {
            Some(EndStatus::Exit(code)) => (Some(code), None),
            Some(EndStatus::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let first = nodes.first();
        let job_nodes = nodes.iter().filter_map(|node| node.job_nodes).max();
        let started = nodes.iter().map(|node| node.started_unix_ns).min();
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
            seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            nodes: nodes.iter().map(StatNode::of).collect(),
            missing_nodes: missing,
            nics,
            findings: job_findings(&JobEvidence { nics: &evidence, elapsed, job_nodes }),
            series: Vec::new(),
            directory: None,
        }
    }

    /// Adds what some counters did over time, and finds gaps in it. A series of another node is
    /// left out: it is of an earlier command.
    pub fn with_series(mut self, mut series: Vec<NodeSeries>) -> Self {
        let nodes = HostIndex::new(self.nodes.iter().map(|node| node.host.as_str()));
        series.retain(|one| nodes.find(&one.host).is_some());
        for one in &series {
            for (device, value, text) in one.missing() {
                let host = nodes.name(&one.host).to_owned();
                let place = StatPlace { host, device: device.to_owned() };
                let is_place =
                    |nic: &StatNic| (&nic.host, &nic.device) == (&place.host, &place.device);
                let is_read = self.nics.iter().any(is_place);
                let found = StatFinding {
                    code: GAPS.to_owned(),
                    nics: is_read.then_some(place).into_iter().collect(),
                    counter: None,
                    value,
                    limit: "0".to_owned(),
                    source: OWN.to_owned(),
                    text,
                };
                self.findings.insert(0, found);
            }
        }
        Self { series, ..self }
    }

    /// Adds the directory from which all nodes can be reported later.
    pub fn with_directory(self, directory: String) -> Self {
        Self { directory: Some(directory), ..self }
    }

    /// Whether anything is unusual: a finding, or a reading that is missing. A short command is
    /// not.
    pub fn is_unusual(&self) -> bool {
        self.unusual().next().is_some()
            || !self.has_readings()
            || !self.missing_nodes.is_empty()
            || self.without_end().next().is_some()
    }

    /// The findings but that the command was short.
    pub fn unusual(&self) -> impl Iterator<Item = &StatFinding> {
        self.findings.iter().filter(|finding| finding.code != SHORT)
    }

    /// Whether any counter of a NIC or of its retry handler was read twice. The driver's own counts
    /// of PCIe errors say nothing about the command.
    pub fn has_readings(&self) -> bool {
        self.counters().any(|(_, name, counter)| {
            !name.starts_with("properties/") && counter.is_some_and(|one| one.after.is_some())
        })
    }

    /// Returns how the command ended, in words.
    pub fn end(&self) -> Option<String> {
        let exit = self.exit_status.map(|status| format!("exit status {status}"));
        exit.or_else(|| Some(format!("ended by signal {}", self.signal?)))
    }

    /// The exit status as a shell has it.
    pub fn shell_status(&self) -> Option<i32> {
        self.exit_status.or_else(|| Some(SIGNAL.saturating_add(self.signal?)))
    }

    /// The nodes whose command has not ended, as far as is known.
    pub fn without_end(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter(|node| !node.has_end).map(|node| node.host.as_str())
    }

    /// Whether any NIC is a software NIC.
    pub fn is_software(&self) -> bool {
        self.nics.iter().any(|nic| nic.is_software)
    }

    /// The name of a NIC as the table of NICs has it.
    pub fn name(&self, host: &str, device: &str) -> String {
        nic_name(self.nodes.len() > 1, host, device)
    }

    /// Each counter of the set, of each NIC; `None` for one that the NIC does not have.
    pub fn counters(&self) -> impl Iterator<Item = (&StatNic, &str, Option<&StatCounter>)> {
        self.nics
            .iter()
            .flat_map(|nic| nic.counters.iter().map(move |(name, counter)| (nic, name, counter)))
    }

    /// The NICs with what their counters did, without states such as connections in use.
    pub fn changes(&self) -> Vec<JobNic> {
        let nic = |nic: &StatNic| JobNic {
            name: self.name(&nic.host, &nic.device),
            host: nic.host.clone(),
            changes: nic.changes(),
        };
        self.nics.iter().map(nic).collect()
    }
}

impl StatNode {
    fn of(node: &NodeRecord) -> Self {
        let end = node.end.as_ref();
        Self {
            host: node.node.clone(),
            has_end: end.is_some_and(|end| !end.is_interim),
            still_running: end.map_or(0, |end| end.still_running),
            clock_step_s: node.clock_step(),
        }
    }
}

impl StatNic {
    fn of(node: &NodeRecord, nic: &NicRecord, names: &Arc<CounterNames>) -> Self {
        let counters = names.names().iter().enumerate();
        Self {
            host: node.node.clone(),
            device: nic.device.clone(),
            is_software: nic.is_software,
            generation: nic.generation,
            serial: nic.serial.clone(),
            location: nic.nid.map(Location::from_nid),
            counters: StatCounters {
                names: Arc::clone(names),
                counters: counters.map(|(at, name)| StatCounter::of(nic, at, name)).collect(),
            },
        }
    }

    fn changes(&self) -> CounterChanges {
        let facts = NicFacts {
            device: self.device.clone(),
            is_software: self.is_software,
            generation: self.generation.and_then(Generation::from_number),
            ..NicFacts::default()
        };
        let changes = self.counters.iter().map(|(name, counter)| counter?.change(name));
        CounterChanges::in_order(facts, Arc::clone(&self.counters.names), changes)
    }
}

impl StatCounters {
    fn iter(&self) -> impl Iterator<Item = (&str, Option<&StatCounter>)> {
        let names = self.names.names().iter().map(String::as_str);
        names.zip(self.counters.iter().map(Option::as_ref))
    }
}

impl Serialize for StatCounters {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for StatCounters {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let by_name = BTreeMap::<String, Option<StatCounter>>::deserialize(from)?;
        let (names, counters) = by_name.into_iter().unzip();
        Ok(Self { names: Arc::new(CounterNames::new(names)), counters })
    }
}

impl StatCounter {
    fn of(nic: &NicRecord, position: usize, name: &str) -> Option<Self> {
        let before = nic.before.reading(position)?;
        let after = nic.after.as_ref().and_then(|after| after.reading(position));
        let change = nic.change(position);
        Some(Self {
            before: before.value,
            after: after.map(|after| after.value),
            delta: change.filter(|_| !is_gauge(name)).and_then(CounterChange::count),
            seconds: change.and_then(CounterChange::within).map(|time| time.as_secs_f64()),
        })
    }

    fn change(&self, name: &str) -> Option<CounterChange> {
        let within = self.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let counted = self.delta.map(|by| CounterChange::Counted { by, within });
        counted
            .or_else(|| (self.after.is_some() && !is_gauge(name)).then_some(CounterChange::Reset))
    }
}

fn is_gauge(counter: &str) -> bool {
    CounterRow::of(counter).is_some_and(|row| row.is_gauge)
}

/// The name of a NIC of a job that `has_others` on other nodes, or not.
fn nic_name(has_others: bool, host: &str, device: &str) -> String {
    if has_others { format!("{host} {device}") } else { device.to_owned() }
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
        let text = serde_json::to_string(&job).unwrap();
        let read: JobStat = serde_json::from_str(&text).unwrap();
        assert_eq!((&*read.missing_nodes, read.exit_status), (&["nid3".to_owned()][..], Some(0)));
        let (read_nics, nics) = (read.changes(), job.changes());
        for (read, nic) in read_nics.iter().zip(&nics) {
            assert_eq!((&read.name, &read.host), (&nic.name, &nic.host));
            assert!(read.changes.iter().eq(nic.changes.iter()));
        }
        assert_eq!(read_nics.len(), nics.len());
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
        let read: JobStat = serde_json::from_str(&document).unwrap();
        assert_eq!(read.series[0].intervals.len(), 1);
        let changes = &read.changes()[0].changes;
        assert_eq!(changes.of("x"), Some(CounterChange::Counted { by: 1, within: None }));
        assert_eq!(changes.of("y"), None);
    }
}
