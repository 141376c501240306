//! The records of all nodes of a job, and what they explain.

use std::sync::Arc;
use std::time::Duration;

use super::record::{EndStatus, NodeRecord};
use super::series::NodeSeries;
use crate::job_findings::{GAPS, JobEvidence, JobFinding, JobNic, OWN, job_findings};
use facts::host::HostIndex;
use node::nic::counter::CounterChange;
use node::nic::counter_names::CounterNames;

/// The rule about commands that take little time.
pub const SHORT: &str = "short";

/// A job: its nodes, its NICs and what they explain.
#[derive(Clone, Debug)]
pub struct JobStat {
    /// The nodes that have readings, in the order of their names.
    pub nodes: Vec<NodeRecord>,
    /// Nodes of the job without any file.
    pub missing: Vec<String>,
    /// The directory of the files, from which all nodes can be reported later.
    pub directory: Option<String>,
    /// The NICs of all nodes.
    pub nics: Vec<JobNic>,
    /// What they explain, the most important first.
    pub findings: Vec<JobFinding>,
    /// What some counters did over time, of each node that has a series.
    pub series: Vec<NodeSeries>,
    /// The longest time between the readings of a node; `None` if no node has an end.
    pub elapsed: Option<Duration>,
}

impl JobStat {
    /// Evaluates the records of nodes. `missing` are nodes of the job that have left none.
    pub fn of(mut nodes: Vec<NodeRecord>, missing: Vec<String>) -> Self {
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        let has_others = nodes.len() > 1;
        let mut nics = Vec::new();
        let mut names = Arc::new(CounterNames::default());
        for (number, node) in nodes.iter().enumerate() {
            // Nearly always the same set on all nodes.
            if names.names() != node.counters {
                names = Arc::new(CounterNames::new(node.counters.clone()));
            }
            for nic in &node.nics {
                nics.push(JobNic {
                    name: nic_name(has_others, &node.node, &nic.device),
                    node: number,
                    changes: nic.changes(&names),
                });
            }
        }
        let elapsed = nodes.iter().filter_map(NodeRecord::elapsed).max();
        let findings = job_findings(&JobEvidence { nics: &nics, elapsed });
        Self { nodes, missing, directory: None, nics, findings, series: Vec::new(), elapsed }
    }

    /// Adds what some counters did over time, and finds gaps in it. A series of another node is
    /// left out: it is of an earlier command.
    pub fn with_series(mut self, mut series: Vec<NodeSeries>) -> Self {
        let nodes = HostIndex::new(self.nodes.iter().map(|node| node.node.as_str()));
        series.retain(|one| nodes.find(&one.head.node).is_some());
        for one in &series {
            for (device, seconds, text) in one.missing() {
                let name = nic_name(self.nodes.len() > 1, nodes.name(&one.head.node), device);
                let nics = self.nics.iter().position(|nic| nic.name == name).into_iter().collect();
                let (code, limit, source) = (GAPS, "0".to_owned(), OWN);
                let (value, counter) = (seconds, None);
                let found = JobFinding { code, nics, counter, value, limit, source, text };
                self.findings.insert(0, found);
            }
        }
        Self { series, ..self }
    }

    /// Adds the directory from which all nodes can be reported later.
    pub fn with_directory(self, directory: String) -> Self {
        Self { directory: Some(directory), ..self }
    }

    /// Returns whether anything is unusual: a finding, or a reading that is missing. A short
    /// command is not.
    pub fn is_unusual(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.code != SHORT)
            || !self.has_readings()
            || !self.missing.is_empty()
            || self.without_end().next().is_some()
    }

    /// Returns whether any counter of a NIC or of its retry handler was read twice. The driver's
    /// own counts of PCIe errors say nothing about the command.
    pub fn has_readings(&self) -> bool {
        let is_of_nic = |(name, _): (&str, CounterChange)| !name.starts_with("properties/");
        let mut nics = self.nics.iter();
        nics.any(|nic| nic.changes.iter().any(is_of_nic))
    }

    /// Returns how the command ended: on the first node on which it did not end well, else on any.
    pub fn status(&self) -> Option<EndStatus> {
        let ends = self.nodes.iter().filter_map(|node| node.end.as_ref()?.status);
        let worst = ends.clone().find(|status| *status != EndStatus::Exit(0));
        worst.or_else(|| ends.clone().next())
    }

    /// Returns the nodes whose command has not ended, as far as is known.
    pub fn without_end(&self) -> impl Iterator<Item = &str> {
        let is_without = |node: &&NodeRecord| node.end.as_ref().is_none_or(|end| end.is_interim);
        self.nodes.iter().filter(is_without).map(|node| node.node.as_str())
    }

    /// Returns the number of processes that were still running at the end.
    pub fn still_running(&self) -> u32 {
        let counts = self.nodes.iter().filter_map(|node| node.end.as_ref());
        counts.map(|end| end.still_running).sum()
    }
}

/// Returns the name of a NIC of a job that `has_others` on other nodes, or not.
pub(super) fn nic_name(has_others: bool, host: &str, device: &str) -> String {
    if has_others { format!("{host} {device}") } else { device.to_owned() }
}
