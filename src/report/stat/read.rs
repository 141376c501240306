//! A document of `stat`, read back for a page.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::series::{NodeSeries, SeriesHead, SeriesInterval};
use facts::host::HostIndex;
use node::nic::counter::Change;
use node::nic::counters::{Changes, NicFacts};
use node::nic::generation::Generation;
use node::nic::job_findings::JobNic;

/// What a page needs of the document.
#[derive(Debug, Deserialize)]
pub struct ReadStat {
    pub cxidiag_version: String,
    /// The command that ran: its name, and its arguments if the document has them.
    pub program: Vec<String>,
    /// How the command ended; `None` if that is unknown.
    pub exit_status: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// The parallel program, as reports name it.
    pub job: Option<String>,
    /// Name of the set of counters.
    pub set: String,
    /// Start of the first reading, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The longest time between the readings of a node.
    pub seconds: Option<f64>,
    /// The nodes with readings.
    pub nodes: Vec<ReadNode>,
    /// Nodes from which there is nothing.
    pub missing_nodes: Vec<String>,
    nics: Vec<ReadNic>,
    /// What the counters explain, the most important first.
    pub findings: Vec<ReadFinding>,
    series: Vec<ReadSeries>,
}

#[derive(Debug, Deserialize)]
pub struct ReadNode {
    /// Its name.
    pub host: String,
    /// Whether its counters were read after the end of the command.
    pub has_end: bool,
}

#[derive(Debug, Deserialize)]
struct ReadNic {
    host: String,
    device: String,
    is_software: bool,
    generation: Option<u32>,
    counters: BTreeMap<String, Option<ReadCounter>>,
}

#[derive(Debug, Deserialize)]
struct ReadCounter {
    delta: Option<u64>,
    seconds: Option<f64>,
}

/// What counters explain.
#[derive(Debug, Deserialize)]
pub struct ReadFinding {
    /// Name of the rule.
    pub code: String,
    /// What happened, in a sentence.
    pub text: String,
}

#[derive(Debug, Deserialize)]
struct ReadSeries {
    host: String,
    counters: Vec<String>,
    devices: Vec<String>,
    started_unix_ms: u64,
    intervals: Vec<SeriesInterval>,
}

impl ReadStat {
    /// Returns whether any NIC is a software NIC.
    pub fn is_software(&self) -> bool {
        self.nics.iter().any(|nic| nic.is_software)
    }

    /// Returns the NICs with what their counters did.
    pub fn nics(&self) -> Vec<JobNic> {
        let has_others = self.nodes.len() > 1;
        let nodes = HostIndex::new(self.nodes.iter().map(|node| node.host.as_str()));
        let nic = |nic: &ReadNic| {
            let facts = NicFacts {
                device: nic.device.clone(),
                is_software: nic.is_software,
                generation: nic.generation.and_then(Generation::from_number),
                ..NicFacts::default()
            };
            JobNic {
                name: nic_name(has_others, &nic.host, &nic.device),
                node: nodes.find(&nic.host).unwrap_or_default(),
                changes: Changes::new(facts, nic.counters.iter().filter_map(change).collect()),
            }
        };
        self.nics.iter().map(nic).collect()
    }

    /// Returns what some counters did over time, of each node. Intervals that do not fit the names
    /// of counters and NICs are left out.
    pub fn series(&self) -> Vec<NodeSeries> {
        let series = |series: &ReadSeries| {
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

fn nic_name(has_others: bool, host: &str, device: &str) -> String {
    if has_others { format!("{host} {device}") } else { device.to_owned() }
}

fn change((name, counter): (&String, &Option<ReadCounter>)) -> Option<(String, Change)> {
    let counter = counter.as_ref()?;
    let within = counter.seconds;
    let change = Change::Counted {
        by: counter.delta?,
        within: within.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    };
    Some((name.clone(), change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::JobStat;
    use crate::stat::document::StatDocument;
    use crate::stat::testing;

    #[test]
    fn reads_what_the_document_has() {
        let counts: &[(&str, u64)] = &[("hni_sts_tx_ok_octets", 20_000), ("hni_fgfc_port", 0)];
        let nodes = ["nid1", "nid2"].map(|name| testing::node(name, &[("cxi0", counts)]));
        let job = JobStat::of(nodes.into(), vec!["nid3".into()]);
        let text = serde_json::to_string(&StatDocument::from(&job)).unwrap();
        let read: ReadStat = serde_json::from_str(&text).unwrap();
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
            r#"{{"cxidiag_version": "1", "program": [], "exit_status": null, "signal": null,
            "job": null, "set": "job", "started_unix_ms": 0, "seconds": null, "nodes": [],
            "missing_nodes": [], "nics": [{{"host": "a", "device": "cxi0", "is_software": true,
            "counters": {{"x": {{"delta": 1, "seconds": -1e300}}, "y": null}}}}], "findings": [],
            "series": [{text}]}}"#
        );
        let read: ReadStat = serde_json::from_str(&document).unwrap();
        assert_eq!(read.series()[0].intervals.len(), 1);
        let changes = &read.nics()[0].changes;
        assert_eq!(changes.of("x"), Some(Change::Counted { by: 1, within: None }));
        assert_eq!(changes.of("y"), None);
    }
}
